r"""Glob patterns over bytes: `*`, `?`, `[abc]`, `[a-z]`, `[^abc]` and `\` before a byte that is meant as it is.

A pattern becomes a row of tokens: a star, or the set of bytes that may stand at one place. Matching walks both rows
and, when it fails, goes back to the last star only (an earlier star never needs to take more), so the cost is at most
the length of the text times the number of tokens, and `*a*a*a*a*b` is as quick as any other. Odd patterns mean what
they mean in Redis: a class that is not closed ends with the pattern, and a `\` at the end is itself.
"""

from typing import Final, TypeAlias

Token: TypeAlias = bytes | None  # the bytes that fit at one place; None is a star

MAX_PATTERN: Final = 4096
ANY: Final = bytes(range(256))
STAR: Final = ord("*")
QUESTION: Final = ord("?")
OPEN: Final = ord("[")
CLOSE: Final = ord("]")
ESCAPE: Final = ord("\\")
RANGE: Final = ord("-")


class Glob:
    """A pattern made ready; one longer than `MAX_PATTERN` bytes fits nothing."""

    __slots__ = ("_places", "_tokens", "_usable")

    def __init__(self, pattern: bytes) -> None:
        self._usable: Final = len(pattern) <= MAX_PATTERN
        self._tokens: Final[list[Token]] = _tokens(pattern) if self._usable else []
        self._places: Final = sum(token is not None for token in self._tokens)

    def matches(self, text: bytes) -> bool:
        """Say whether the pattern fits the whole text, case-sensitively."""
        if not self._usable or self._places > len(text):
            return False
        return _fits(self._tokens, text)


def _fits(tokens: list[Token], text: bytes) -> bool:
    at = place = 0
    star, resume = -1, 0
    while place < len(text):
        token = tokens[at] if at < len(tokens) else b""
        if token is None:
            star, resume = at, place
            at += 1
        elif text[place] in token:
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return all(token is None for token in tokens[at:])


def _tokens(pattern: bytes) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        byte = pattern[at]
        if byte == OPEN:
            token, at = _class(pattern, at + 1)
            tokens.append(token)
            continue
        if byte == ESCAPE and at + 1 < len(pattern):
            at += 1
            tokens.append(pattern[at : at + 1])
        elif byte == STAR:
            _add_star(tokens)
        else:
            tokens.append(ANY if byte == QUESTION else pattern[at : at + 1])
        at += 1
    return tokens


def _add_star(tokens: list[Token]) -> None:
    if not tokens or tokens[-1] is not None:
        tokens.append(None)


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Read a class from behind its bracket: the bytes it allows, and where the pattern goes on."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    allowed: set[int] = set()
    while at < len(pattern) and pattern[at] != CLOSE:
        if pattern[at] == ESCAPE and at + 1 < len(pattern):
            allowed.add(pattern[at + 1])
            at += 2
        elif at + 2 < len(pattern) and pattern[at + 1] == RANGE:
            low, high = sorted((pattern[at], pattern[at + 2]))
            allowed.update(range(low, high + 1))
            at += 3
        else:
            allowed.add(pattern[at])
            at += 1
    chosen = set(ANY) - allowed if negated else allowed
    return bytes(sorted(chosen)), at + 1
