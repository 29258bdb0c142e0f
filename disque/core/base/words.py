r"""Splitting a line into words: inline commands and the configuration file share these rules.

Words stand between white space. A word may go on with one quoted part, behind which it ends:

* `"..."` knows `\n \r \t \b \a`, `\xHH` with two hex digits, and a backslash before any other byte means that byte;
* `'...'` knows only `\'`; every other backslash is itself.

A quoted part must be closed, and white space or the end of the line must follow it. White space is skipped as in the
C locale (vertical tab and form feed too), but only space, tab, CR and LF end a word that has begun without a quote.
As in the C server, which works on C strings, the first NUL byte ends the line.
"""

import re
from typing import Final

_SPLITS_PLAINLY: Final = re.compile(rb"[^\"'\0\v\f]*")
_WORD: Final = re.compile(
    rb"""
    ([^ \t\r\n"']*+)                                # what stands before a quote, or the whole word
    (?: "( [^"\\]*+ (?: \\. [^"\\]*+ )*+ )"
      | '( [^'\\]*+ (?: \\'?+ [^'\\]*+ )*+ )'
    )?+
    (?: [ \t\r\n\v\f]++ | \Z )
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_NAMED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_WHITE_SPACE: Final = b" \t\r\n\v\f"


def split_words(line: bytes, keep_empty: bool = False) -> list[bytes] | None:
    """Return the words of `line`, or None when a quote is not closed or something but white space follows its end.

    Empty words (`""`, `''`) are dropped, as the protocol wants it for inline commands, unless `keep_empty` is set, as
    the configuration file wants it. The line may or may not bring its line end.
    """
    if _SPLITS_PLAINLY.fullmatch(line):
        return line.split()
    words = _scan(line.partition(b"\0")[0].lstrip(_WHITE_SPACE))
    if words is None or keep_empty:
        return words
    return [word for word in words if word]


def _scan(line: bytes) -> list[bytes] | None:
    """Split a line without leading white space by the full rules; empty words stay."""
    words: list[bytes] = []
    at = 0
    while at < len(line):
        word = _WORD.match(line, at)
        if word is None:
            return None
        words.append(_text(word))
        at = word.end()
    return words


def _text(word: re.Match[bytes]) -> bytes:
    """Put a word together from its bare and its quoted part."""
    bare, double, single = word.groups(b"")
    if double:
        return bare + _ESCAPE.sub(_unescape, double)
    return bare + single.replace(b"\\'", b"'")


def _unescape(escape: re.Match[bytes]) -> bytes:
    """Return the byte that one escape within double quotes stands for."""
    digits, byte = escape.groups(b"")
    if digits:
        return bytes((int(digits, 16),))
    return _NAMED.get(byte, byte)
