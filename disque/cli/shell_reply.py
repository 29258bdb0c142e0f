"""Reading replies, RESP2 and RESP3, with every type kept apart.

A shell must show `+OK` and `$2 OK` differently, keep the digits of a double, and keep the order of a map with any keys.
Readers that are made for programs merge these. So this one is simple: a line, its first byte, a table. It reads from a
buffered stream and never past the end of a reply.
"""

from collections.abc import Callable
from typing import BinaryIO, Final

MAX_DEPTH: Final = 64
MAX_BULK_BYTES: Final = 1 << 31
MAX_ITEMS: Final = 1 << 26


class Status(bytes):
    """A simple string such as `+OK`."""


class Verbatim(bytes):
    """A RESP3 verbatim string without its three-letter kind: text that is shown as it is."""


class Double(bytes):
    """A RESP3 double, as the digits that the server sent."""


class ErrorReply(bytes):
    """The text of an error reply, its code first. A value, not an exception: replies may contain errors."""


class SetReply(list[object]):
    """A RESP3 set, in the order in which it came."""


class Push(list[object]):
    """A RESP3 push: no reply to any request."""


class MapReply(list[tuple[object, object]]):
    """A RESP3 map as pairs, in the order in which they came."""


class ReplyError(Exception):
    """What the server sent is no RESP."""


def read_reply(stream: BinaryIO, depth: int = 0) -> object:
    """Read one reply, pushes included.

    Gives None, bool, int, bytes or one of the types above, lists for arrays. Raises ConnectionResetError when the
    stream ends, ReplyError for what is no RESP.
    """
    if depth > MAX_DEPTH:
        raise ReplyError("a reply is nested too deeply")
    line = _line(stream)
    read = _READERS.get(line[:1])
    if read is None:
        raise ReplyError(f"not a reply: {line[:40]!r}")
    return read(stream, line[1:], depth)


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("Server closed the connection")
    return line.rstrip(b"\r\n")


def _number(text: bytes, highest: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ReplyError(f"not a number: {text[:40]!r}") from None
    if number > highest:
        raise ReplyError(f"a length of {number} is out of bounds")
    return number


def _bulk(stream: BinaryIO, text: bytes, _depth: int) -> object:
    length = _number(text, MAX_BULK_BYTES)
    if length < 0:
        return None
    data = stream.read(length + 2)
    if len(data) < length + 2:
        raise ConnectionResetError("Server closed the connection")
    if not data.endswith(b"\r\n"):
        raise ReplyError("a string does not end where its length says")
    return data[:length]


def _bulk_error(stream: BinaryIO, text: bytes, depth: int) -> object:
    data = _bulk(stream, text, depth)
    return ErrorReply(data if isinstance(data, bytes) else b"")


def _verbatim(stream: BinaryIO, text: bytes, depth: int) -> object:
    data = _bulk(stream, text, depth)
    return Verbatim(data[4:]) if isinstance(data, bytes) else None


def _items(stream: BinaryIO, count: int, depth: int) -> list[object]:
    return [read_reply(stream, depth + 1) for _ in range(count)]


def _array(stream: BinaryIO, text: bytes, depth: int) -> object:
    count = _number(text, MAX_ITEMS)
    return None if count < 0 else _items(stream, count, depth)


def _map(stream: BinaryIO, text: bytes, depth: int) -> object:
    flat = _items(stream, 2 * _number(text, MAX_ITEMS), depth)
    return MapReply(zip(flat[::2], flat[1::2], strict=True))


def _attributes(stream: BinaryIO, text: bytes, depth: int) -> object:
    """Attributes stand before the reply that they describe; a shell shows the reply."""
    _map(stream, text, depth)
    return read_reply(stream, depth + 1)


def _boolean(_stream: BinaryIO, text: bytes, _depth: int) -> object:
    return text == b"t"


_READERS: Final[dict[bytes, Callable[[BinaryIO, bytes, int], object]]] = {
    b"+": lambda _stream, text, _depth: Status(text),
    b"-": lambda _stream, text, _depth: ErrorReply(text),
    b":": lambda _stream, text, _depth: _number(text, 1 << 63),
    b"(": lambda _stream, text, _depth: _number(text, 1 << 4096),
    b",": lambda _stream, text, _depth: Double(text),
    b"_": lambda _stream, _text, _depth: None,
    b"#": _boolean,
    b"$": _bulk,
    b"!": _bulk_error,
    b"=": _verbatim,
    b"*": _array,
    b"~": lambda stream, text, depth: SetReply(_items(stream, _number(text, MAX_ITEMS), depth)),
    b">": lambda stream, text, depth: Push(_items(stream, _number(text, MAX_ITEMS), depth)),
    b"%": _map,
    b"|": _attributes,
}


def is_error(reply: object) -> bool:
    """Tell whether the reply as a whole is an error."""
    return isinstance(reply, ErrorReply)
