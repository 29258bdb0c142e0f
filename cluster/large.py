"""Large bodies in frames: written and read in pieces, and never copied.

Each copy of 64 MB blocks a node for some 40 ms. So a message with such a body is encoded as several pieces, and the
body itself is one of them. On the receiving side, the payload of a large frame is kept without its large bodies. It has
nil in the place of each (no node sends nil), and the bodies are kept beside it. On the wire it is one usual frame.

`frames.Skimmer` takes the bodies out.
"""

from typing import Final, cast

from msgpack import Packer

Message = tuple[object, ...]

#: Bodies from this length on are not copied.
LARGE_BODY = 1 << 20  # not Final: tests want less, compiled too


_packer: Final = Packer(use_bin_type=True)


class BadFrameError(Exception):
    """A frame holds what no node makes. The text is for the log."""


def encode_large(message: Message) -> list[bytes]:
    """Give a message as msgpack in pieces: those of its byte strings that are large are pieces of their own."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    _split(message, pieces, small)
    pieces.append(b"".join(small))
    return pieces


def _split(value: object, pieces: list[bytes], small: list[bytes]) -> None:
    if isinstance(value, tuple):
        small.append(cast("bytes", _packer.pack_array_header(len(value))))
        for one in value:
            _split(one, pieces, small)
    elif isinstance(value, bytes) and len(value) >= LARGE_BODY:
        small.append(b"\xc6" + len(value).to_bytes(4, "big"))
        pieces += (b"".join(small), value)
        small.clear()
    else:
        small.append(cast("bytes", _packer.pack(value)))


def framed(pieces: list[bytes]) -> list[bytes]:
    """Give the frame, length included, of one message that `encode_large` made, in pieces too."""
    size = 1 + sum(map(len, pieces))
    return [size.to_bytes(4, "big") + b"\x91" + pieces[0], *pieces[1:]]


def fill(value: object, bodies: list[bytes]) -> object:
    """Put the bodies, the last one first, in the place of what stands for them. Raises BadFrameError."""
    if value is None:
        if not bodies:
            raise BadFrameError("a large frame does not match its head")
        return bodies.pop()
    if isinstance(value, tuple):
        return tuple([fill(one, bodies) for one in value])
    return value
