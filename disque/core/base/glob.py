r"""Glob patterns over bytes: `*`, `?`, `[abc]`, `[a-z]`, `[^abc]` and `\` before a byte that is meant as it is.

A pattern becomes a row of tokens: a star, or the set of bytes that may stand at one place. What stands before the first
star is compared place by place. All behind it is walked through once: a number has a bit for each place that the text
may have reached, and each byte of the text moves all of them at once. So the cost is the length of the text, and
`*a*a*a*a*b` or a star and a thousand bytes are as quick as any other. Odd patterns mean what
they mean in Redis: a class that is not closed ends with the pattern, and a `\` at the end is itself.
"""

from typing import Final, TypeAlias

Token: TypeAlias = bytes | None  # the bytes that fit at one place; None is a star

MAX_PATTERN: Final = 4096
ANY: Final = bytes(range(256))
#: A place that takes more bytes than this is told by those that it does not take.
WIDE: Final = 128
STAR: Final = ord("*")
QUESTION: Final = ord("?")
OPEN: Final = ord("[")
CLOSE: Final = ord("]")
ESCAPE: Final = ord("\\")
RANGE: Final = ord("-")


class Glob:
    """A pattern made ready; one longer than `MAX_PATTERN` bytes fits nothing."""

    __slots__ = ("_default", "_head", "_loops", "_masks", "_places", "_rest", "_usable")

    def __init__(self, pattern: bytes) -> None:
        self._usable: Final = len(pattern) <= MAX_PATTERN
        tokens = _tokens(pattern) if self._usable else []
        self._places: Final = sum(token is not None for token in tokens)
        star = tokens.index(None) if None in tokens else len(tokens)
        self._head: Final = [token for token in tokens[:star] if token is not None]
        #: From the first star on.
        self._rest: Final = tokens[star:]
        #: Bits of places: which take a byte that `_masks` does not name, and before which a star stands; -1: not made.
        self._default = 0
        self._masks: dict[int, int] = {}
        self._loops = -1

    def matches(self, text: bytes) -> bool:
        """Say whether the pattern fits the whole text, case-sensitively."""
        if not self._usable or self._places > len(text):
            return False
        at = 0
        for token in self._head:
            if text[at] not in token:
                return False
            at += 1
        if len(self._rest) <= 1:
            return len(self._rest) == 1 or at == len(text)
        if self._loops < 0:
            self._make_masks()
        return self._walk(text, at)

    def is_beginning(self) -> bool:
        """Whether it fits all texts that begin in a certain way, and no others: that costs little for any text."""
        return len(self._rest) == 1

    def _walk(self, text: bytes, at: int) -> bool:
        """Walk through the text, behind what the head takes."""
        masks, default, loops = self._masks, self._default, self._loops
        last = 1 << (self._places - len(self._head))
        reached = 1
        for byte in text[at:]:
            reached = ((reached & masks.get(byte, default)) << 1) | (reached & loops)
        return reached & last != 0

    def _make_masks(self) -> None:
        """For each byte, the places that take it. What most bytes have in common is the default."""
        bit, loops, common = 1, 0, 0
        more: dict[int, int] = {}
        less: dict[int, int] = {}
        for token in self._rest:
            if token is None:
                loops |= bit
                continue
            is_wide = len(token) > WIDE
            common |= bit if is_wide else 0
            bytes_apart, listed = (less, ANY.translate(None, token)) if is_wide else (more, token)
            for byte in listed:
                bytes_apart[byte] = bytes_apart.get(byte, 0) | bit
            bit <<= 1
        self._masks = {byte: (common & ~less.get(byte, 0)) | more.get(byte, 0) for byte in {*more, *less}}
        self._default, self._loops = common, loops


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
    allowed = b""
    while at < len(pattern) and pattern[at] != CLOSE:
        if pattern[at] == ESCAPE and at + 1 < len(pattern):
            at += 1
        elif at + 2 < len(pattern) and pattern[at + 1] == RANGE:
            low, high = sorted((pattern[at], pattern[at + 2]))
            allowed += ANY[low : high + 1]
            at += 3
            continue
        allowed += pattern[at : at + 1]
        at += 1
    left = ANY.translate(None, allowed)
    return left if negated else ANY.translate(None, left), at + 1
