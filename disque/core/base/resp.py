"""Replies in RESP2 and RESP3, as functions from values to bytes.

Disque's own commands answer in the same shapes in both protocols; only "nothing" differs (``$-1`` and ``*-1`` become
``_``). What Redis has too uses maps and verbatim strings in RESP3, since today's Redis clients ask for them by type.
"""

from typing import Final

OK: Final = b"+OK\r\n"
ZERO: Final = b":0\r\n"
ONE: Final = b":1\r\n"
EMPTY_ARRAY: Final = b"*0\r\n"
NULL: Final = b"_\r\n"
NULL_BULK: Final = b"$-1\r\n"
NULL_ARRAY: Final = b"*-1\r\n"


def status(text: bytes) -> bytes:
    """A simple string; ``text`` has no line end."""
    return b"+%b\r\n" % text


def error(text: bytes) -> bytes:
    """An error reply; ``text`` starts with the code and has no line end."""
    return b"-%b\r\n" % text


def integer(value: int) -> bytes:
    """A 64-bit integer."""
    if value == 1:
        return ONE
    return b":%d\r\n" % value


#: The headers of short strings.
_HEADS: Final = [b"$%d\r\n" % size for size in range(1024)]


def head(size: int) -> bytes:
    """The header of a binary-safe string of ``size`` bytes."""
    return _HEADS[size] if size < 1024 else b"$%d\r\n" % size


def bulk(data: bytes) -> bytes:
    """A binary-safe string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def array(items: list[bytes]) -> bytes:
    """An array of replies that are already encoded."""
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def bulks(items: list[bytes]) -> bytes:
    """An array of binary-safe strings."""
    return array([bulk(item) for item in items])


def null_bulk(protocol: int) -> bytes:
    """Nothing, where a string could have been."""
    return NULL if protocol == 3 else NULL_BULK


def null_array(protocol: int) -> bytes:
    """Nothing, where an array could have been."""
    return NULL if protocol == 3 else NULL_ARRAY


def mapping(pairs: list[bytes], protocol: int) -> bytes:
    """Keys and values in turn, already encoded: a map in RESP3, a flat array in RESP2."""
    if protocol == 3:
        return b"%%%d\r\n%b" % (len(pairs) // 2, b"".join(pairs))
    return array(pairs)


def push(items: list[bytes], protocol: int) -> bytes:
    """What a client gets without having asked for it just now: a push in RESP3, an array in RESP2."""
    return b"%b%d\r\n%b" % (b">" if protocol == 3 else b"*", len(items), b"".join(items))


def unordered(items: list[bytes], protocol: int) -> bytes:
    """A set in RESP3, an array in RESP2."""
    if protocol == 3:
        return b"~%d\r\n%b" % (len(items), b"".join(items))
    return array(items)


def text(data: bytes, protocol: int) -> bytes:
    """Prose for people (INFO, CLIENT LIST): a verbatim string in RESP3, a bulk in RESP2."""
    return b"%b%b\r\n" % (text_head(len(data), protocol), data)


def text_head(size: int, protocol: int) -> bytes:
    """What stands before ``size`` bytes of prose."""
    return b"=%d\r\ntxt:" % (size + 4) if protocol == 3 else head(size)
