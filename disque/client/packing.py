"""Packs words into the bytes of a request, with hiredis.

Commands of this client are bytes already. Those of `execute_command` are what redis-py takes: the name of a command may
contain its subcommand ("CONFIG GET"), and words may be str, bytes or numbers.
"""

from collections.abc import Callable, Sequence
from typing import Final

import hiredis
from redis.exceptions import DataError

from disque.client.values import Value

#: Bytes of a piece.
PIECE: Final = 256 << 10
#: hiredis says that it takes a tuple of one word; it takes any number.
_pack: Final[Callable[[tuple[bytes, ...]], bytes]] = hiredis.pack_command  # type: ignore[assignment]  # bytes only


def pack(words: Sequence[bytes]) -> bytes:
    """The bytes of one request."""
    return _pack(tuple(words))


def pieces(data: bytes) -> list[bytes]:
    """Large data in pieces, each of which has a time limit of its own when it is sent."""
    if len(data) <= PIECE:
        return [data]
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


def as_words(args: Sequence[Value]) -> list[bytes]:
    """Words as bytes, as redis-py has them. Raises `redis.DataError` for other types and where there are no words."""
    if not args:
        raise DataError("a command is needed")
    words = [as_word(arg) for arg in args]
    return [*words[0].split(), *words[1:]]


def as_word(arg: Value) -> bytes:
    """One word as bytes. Raises `redis.DataError`."""
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, str):
        return arg.encode("utf-8", "surrogateescape")
    if isinstance(arg, bytearray | memoryview):
        return bytes(arg)
    if isinstance(arg, int | float) and not isinstance(arg, bool):
        return repr(arg).encode()
    raise DataError(f"a word of a command must be str, bytes or a number, not {type(arg).__name__}")
