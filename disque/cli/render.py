"""Replies as text, in the four formats of redis-cli: pretty, raw, CSV and JSON.

Each format is one function from a reply to bytes without the last newline. The pretty format works in blocks: an item
is a list of lines. Its container puts the number before the first line and as much space before the others. That keeps
nested numbering aligned.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from disque.cli.shell_reply import Double, ErrorReply, MapReply, Push, SetReply, Status, Verbatim

_ESCAPES: Final = {
    0x5C: rb"\\",
    0x22: rb"\"",
    0x0A: rb"\n",
    0x0D: rb"\r",
    0x09: rb"\t",
    0x07: rb"\a",
    0x08: rb"\b",
}
_SHOWN: Final = tuple(
    _ESCAPES.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte) for byte in range(256)
)
_EMPTY: Final = {list: b"(empty array)", SetReply: b"(empty set)", Push: b"(empty push)"}
_PLAIN_DOUBLE: Final = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


def quoted(data: bytes) -> bytes:
    r"""Make bytes printable: in double quotes, backslash escapes for the common controls, `\xHH` for the rest."""
    return b'"' + b"".join([_SHOWN[byte] for byte in data]) + b'"'


def pretty(reply: object) -> bytes:
    """Show a reply to a person: types in brackets, strings quoted, items numbered and indented."""
    return b"\n".join(_block(reply))


def _block(reply: object) -> list[bytes]:
    if isinstance(reply, MapReply):
        return _map_block(reply)
    if isinstance(reply, list):
        mark = b"~" if isinstance(reply, SetReply) else b")"
        return _numbered([_block(item) for item in reply], mark) or [_EMPTY.get(type(reply), b"(empty array)")]
    if isinstance(reply, Verbatim):
        return reply.removesuffix(b"\n").split(b"\n")
    return [_SCALARS[type(reply)](reply)]


def _map_block(reply: MapReply) -> list[bytes]:
    return _numbered([_pair_block(key, value) for key, value in reply], b"#") or [b"(empty hash)"]


def _pair_block(key: object, value: object) -> list[bytes]:
    keys, values = _block(key), _block(value)
    if isinstance(value, list) and len(values) > 1:
        return [*keys[:-1], keys[-1] + b" => ", *values]
    return [*keys[:-1], keys[-1] + b" => " + values[0], *values[1:]]


def _numbered(blocks: Sequence[list[bytes]], mark: bytes) -> list[bytes]:
    digits = len(str(len(blocks)))
    space = b" " * (digits + 2)
    lines: list[bytes] = []
    for number, block in enumerate(blocks, 1):
        lines.append(b"%*d%s " % (digits, number, mark) + block[0])
        lines.extend(space + line for line in block[1:])
    return lines


def _digits(reply: object) -> bytes:
    return b"%d" % reply if isinstance(reply, int) else b""


def _bytes(reply: object) -> bytes:
    return bytes(reply) if isinstance(reply, bytes) else b""


def _truth(reply: object) -> bytes:
    return b"true" if reply else b"false"


_SCALARS: Final[dict[type, Callable[[object], bytes]]] = {
    type(None): lambda _reply: b"(nil)",
    bool: lambda reply: b"(" + _truth(reply) + b")",
    int: lambda reply: b"(integer) " + _digits(reply),
    bytes: lambda reply: quoted(_bytes(reply)),
    Status: _bytes,
    Double: lambda reply: b"(double) " + _bytes(reply),
    ErrorReply: lambda reply: b"(error) " + _bytes(reply),
}


def raw(reply: object, delimiter: bytes = b"\n") -> bytes:
    """Give the bytes of a reply and nothing else, items separated by `delimiter`, a map's values after their keys."""
    if isinstance(reply, MapReply):
        return delimiter.join([raw(key, delimiter) + b" " + raw(value, delimiter) for key, value in reply])
    if isinstance(reply, list):
        return delimiter.join([raw(item, delimiter) for item in reply])
    if isinstance(reply, bool):
        return b"(" + _truth(reply) + b")"
    return _bytes(reply) or _digits(reply)


def as_csv(reply: object) -> bytes:
    """Show a reply as one line of comma separated values; nested items are flattened, nil is NULL."""
    if isinstance(reply, MapReply):
        return b",".join([as_csv(key) + b"," + as_csv(value) for key, value in reply])
    if isinstance(reply, list):
        return b",".join([as_csv(item) for item in reply])
    if isinstance(reply, ErrorReply):
        return b"ERROR," + quoted(reply)
    if isinstance(reply, bytes):
        return bytes(reply) if isinstance(reply, Double) else quoted(reply)
    return b"NULL" if reply is None else _truth(reply) if isinstance(reply, bool) else _digits(reply)


def as_json(reply: object) -> bytes:
    r"""Show a reply as one line of valid JSON.

    Bytes that are no UTF-8 appear as `\xHH` inside their string, an error is an object `{"error": text}`, infinite
    doubles and NaN are strings, and so are the keys of maps, whatever they were.
    """
    return _json(reply).encode()


def _json(reply: object) -> str:
    if isinstance(reply, MapReply):
        return "{" + ",".join([f"{_json_key(key)}:{_json(value)}" for key, value in reply]) + "}"
    if isinstance(reply, list):
        return "[" + ",".join([_json(item) for item in reply]) + "]"
    if isinstance(reply, Double) and _PLAIN_DOUBLE.fullmatch(reply):
        return reply.decode()
    if isinstance(reply, ErrorReply):
        return '{"error":' + _json_text(reply) + "}"
    return _json_text(reply) if isinstance(reply, bytes) else json.dumps(reply)


def _json_key(key: object) -> str:
    return _json_text(key) if isinstance(key, bytes) else json.dumps(_json(key))


def _json_text(data: bytes) -> str:
    return json.dumps(data.decode("utf-8", "backslashreplace"), ensure_ascii=False)


MANNERS: Final[dict[str, Callable[[object], bytes]]] = {
    "pretty": pretty,
    "raw": raw,
    "csv": as_csv,
    "json": as_json,
}
"""The manners by the name of their flag. Raw takes a delimiter too."""

_TEXTS: Final = frozenset(
    {
        (b"info",),
        (b"cluster", b"nodes"),
        (b"cluster", b"info"),
        (b"client", b"list"),
        (b"client", b"info"),
        (b"latency", b"graph"),
        (b"latency", b"doctor"),
    }
)


def is_text(args: Sequence[bytes]) -> bool:
    """Tell whether the reply to this request is text for people, which even the pretty manner leaves as it is."""
    words = tuple(word.lower() for word in args[:2])
    return words[:1] in _TEXTS or words in _TEXTS


_PAIRS: Final = frozenset(
    {(b"qstat",), (b"qhistory",), (b"show",), (b"config", b"get"), (b"hello", b"2"), (b"hello", b"3")}
)
_JOBS_OF_JSCAN: Final = (b"jscan",)


def paired(reply: object, args: Sequence[bytes]) -> object:
    """Make a map of what is one in RESP2 but for its type: names and values in turn, told by the request."""
    words = tuple(word.lower() for word in args[:2])
    if type(reply) is not list:
        return reply
    if words[:1] == _JOBS_OF_JSCAN:
        return [_jobs_paired(item) for item in reply]
    return _pairs(reply) if words[:1] in _PAIRS or words in _PAIRS else reply


def _pairs(flat: list[object]) -> object:
    if len(flat) % 2 or not all(isinstance(name, bytes) for name in flat[::2]):
        return flat
    return MapReply(zip(flat[::2], flat[1::2], strict=True))


def _jobs_paired(jobs: object) -> object:
    """The second part of what JSCAN answers: with REPLY ALL, what SHOW tells of each."""
    if type(jobs) is not list:
        return jobs
    return [_pairs(job) if type(job) is list else job for job in jobs]


def render(reply: object, manner: str, args: Sequence[bytes] = (), delimiter: bytes = b"\n") -> bytes:
    """Show the reply to the request `args` in one of MANNERS, with the newline at its end."""
    if manner == "raw":
        return raw(reply, delimiter) + b"\n"
    if manner == "pretty" and type(reply) is bytes and is_text(args):
        return reply.rstrip(b"\r\n") + b"\n"
    if manner == "pretty":
        reply = paired(reply, args)
    return MANNERS[manner](reply) + b"\n"
