"""What a frame of the journal holds: a node time and records, as msgpack. Large bodies are not copied on the way."""

from typing import TYPE_CHECKING, Any, Final

import msgpack

from disque.core.journal.checks import NUMBER_MAX, ReplayError
from disque.core.journal.schema import FORMAT, HEAD, HEAVY, JOBS, JOBS_BODIES, OFF, Record, weight

if TYPE_CHECKING:
    from disque.core.node import Node

#: A flush with more than this many bytes of bodies and names becomes several payloads.
PAYLOAD_BYTES = 1 << 20  # not Final: tests want less, compiled too
#: Bodies from this length on are not copied into such a payload.
PART_BYTES = 1 << 18  # not Final: tests want less, compiled too

_packer: Final = msgpack.Packer(use_bin_type=True, autoreset=True)


class Parts:
    """A payload in pieces: large bodies are pieces of their own, as they are. ``size`` is the length of all."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.size = sum([len(piece) for piece in pieces])


def encode(records: list[Record], now_ms: int) -> list[bytes]:
    """The payloads for these records: each is a list of the node time and some of the records, in order."""
    return [
        payload if isinstance(payload, bytes) else b"".join(payload.pieces) for payload in encode_parts(records, now_ms)
    ]


def encode_parts(records: list[Record], now_ms: int) -> list[bytes | Parts]:
    """What `encode` gives; of large bodies no copy is made, which would stop the node."""
    if sum([weight(record) for record in records if record[0] in HEAVY]) < PAYLOAD_BYTES:
        return [_pack([now_ms, *records])]
    payloads: list[bytes | Parts] = []
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += weight(record)
        if size >= PAYLOAD_BYTES:
            payloads.append(_pack_parts(batch, now_ms))
            batch, size = [], 0
    if batch:
        payloads.append(_pack([now_ms, *batch]))
    return payloads


def _pack_parts(records: list[Record], now_ms: int) -> bytes | Parts:
    """One payload, in parts if there is a large body in it. Only JOBS has bodies, in a list of their own."""
    pieces: list[bytes] = []
    small: list[bytes] = [_array_head(1 + len(records)), _packer.pack(now_ms)]
    for record in records:
        bodies = record[JOBS_BODIES] if record[0] == JOBS else None
        if not isinstance(bodies, (list, tuple)) or max(map(len, bodies)) < PART_BYTES:
            small.append(_packer.pack(record))
            continue
        small.append(_array_head(len(record)))
        small += [_packer.pack(value) for value in record[:JOBS_BODIES]]
        small.append(_array_head(len(bodies)))
        for body in bodies:
            if len(body) < PART_BYTES:
                small.append(_packer.pack(body))
            else:
                small.append(b"\xc6" + len(body).to_bytes(4, "big"))
                pieces += (b"".join(small), body)
                small.clear()
        small += [_packer.pack(value) for value in record[JOBS_BODIES + 1 :]]
    if small:
        pieces.append(b"".join(small))
    return Parts(pieces) if len(pieces) > 1 else pieces[0]


def _array_head(length: int) -> bytes:
    """How a list of so many values begins."""
    return b"\xdd" + length.to_bytes(4, "big") if length > 15 else bytes((0x90 | length,))


def _pack(values: list[object]) -> bytes:
    packed: bytes = _packer.pack(values)
    return packed


def head(node: "Node", boot_id: str, policy: str, now_ms: int) -> bytes:
    """The payload that opens a segment."""
    return _pack([now_ms, (HEAD, FORMAT, node.node_id, boot_id.encode(), policy.encode())])


def time_alone(now_ms: int) -> bytes:
    """A payload without records."""
    return _pack([now_ms])


def unpack(payload: bytes) -> list[Any]:
    """The node time and the records of a payload. Raises ReplayError for anything that `encode` does not make."""
    try:
        values = msgpack.unpackb(payload, use_list=False, raw=False, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException) as wrong:
        raise ReplayError(f"not a list of records: {wrong}") from wrong
    if type(values) is not tuple or not values or type(values[0]) is not int or not 0 <= values[0] < NUMBER_MAX:
        raise ReplayError("not a list of records")
    return list(values)


def was_switched_off(payload: bytes) -> bool:
    """Whether a journal that ends with these records was switched off, by a node: a repair has no time to write."""
    try:
        values = unpack(payload)
    except ReplayError:
        return False
    return bool(values[0]) and bool(values[-1] == (OFF,))
