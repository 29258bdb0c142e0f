r"""Requests out of a stream of bytes: lists of arguments, one at a time.

A request is either an array of bulk strings (`*2\r\n$4\r\nQLEN\r\n$1\r\nq\r\n`) or a line of words that ends with LF
or CRLF. Two classes here read them, and they agree for every stream, however it is cut into chunks.

`StrictReader` is the truth. It goes forward only. What is incomplete stays where it is, together with the number of
bytes that are needed before another look is worth while, so the work is linear in what arrived, and memory is bounded
by it: the counts and lengths that headers announce reserve nothing. Chunks are joined once, when the known need is
there; while the end of a line is awaited, only new chunks are searched for it. A large argument is not joined but
collected as it comes: to copy some MB would stop the process.

The compiled form reads with another class, which walks over the bytes: see `walker`.

`RequestReader`, the one of the plain form, puts two short cuts before it. A chunk that is one small request is cut at
every CRLF. Where there are more, hiredis parses what lies between two boundaries. hiredis reads replies: it takes much
that is no request, and it does not say whether it stands at a boundary (`len()` counts what it has not yet thrown away,
`has_data()` is false in the middle of an array whose first elements are there). Therefore:

1. Counts of six digits are left to the strict reader: hiredis would reserve memory for them.
2. A marker request follows the bytes: a word that nobody else knows and that the bytes do not contain. It comes back
   as a request of its own only if hiredis stood at a boundary; otherwise it is swallowed, nested or an error.
3. Every result must be a list, which leaves `~` and `|` as false heads of a request, and all arguments must be bytes,
   which leaves `+`, `=` and `(` as false heads of an argument. A head is no part of an argument. So each of these
   five bytes must occur in the arguments as often as in the stream: then none was a head.

What passes has only `*` and `$` headers. Their numbers have one spelling for both readers, and both skip the two
bytes behind an argument unseen. What does not pass, for whatever reason, is left to the strict reader.

Rules: the request format of Redis, with its texts. The limit of a line counts the bytes before its end, wherever
chunks begin.
"""

import re
from io import BytesIO
from itertools import chain
from secrets import token_hex
from typing import Any, Final, cast

from hiredis import HiredisError, Reader, pack_command

from disque.core.base.words import split_words

ARGUMENTS_MAX: Final = 1_048_576
LINE_MAX_BYTES: Final = 65_536
#: Bytes of a word that is no body: longer names, numbers and addresses are nonsense, and take time wherever they go.
WORD_MAX_BYTES: Final = 1 << 18
#: Arguments from this length on are collected.
LARGE_BYTES = 1 << 18  # not Final: tests want less, compiled too
UNTRUSTED_ARGUMENTS_MAX: Final = 10
UNTRUSTED_BYTES_MAX: Final = 16_384

MANY: Final = 1 << 62  # more bytes than ever are there

_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")
_TLS: Final = 0x16  # so begins a client that speaks TLS, and no line of words: without its end, it would wait for ever
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_INT64_MAX: Final = (1 << 63) - 1
_SMALL: Final = {b"%d" % value: value for value in range(1024)}
_LENGTHS: Final = {b"$%d" % length: length for length in range(1024)}
_HEADER_MAX_BYTES: Final = 8  # longer bulk headers than those of _LENGTHS go the slow way
_BLANKS: Final = re.compile(rb"(?:[ \t\r\v\f]{0,64}+\n|\*(?:0|-[1-9][0-9]{0,17}+)\r\n){1,4096}+")

_AHEAD_BYTES: Final = 65_536
_SOLE_BYTES: Final = 2048
_COUNT_HEADS: Final = {count: b"*%d" % count for count in range(1, 64)}
_BULK_HEADS: Final = {length: b"$%d" % length for length in range(1024)}
# One pattern for each head: a literal first byte is searched some times faster than one of many.
_HUGE_COUNTS: Final = tuple((head, re.compile(rb"\%c[0-9]{6}" % head)) for head in b"*~>|%")
_NOT_YET: Final = object()
_TOKEN: Final = token_hex(16).encode()
_MARKER: Final = b"*1\r\n$32\r\n%b\r\n" % _TOKEN
_MARK: Final = [_TOKEN]
_FALSE_HEADS: Final = tuple(b"~|+=(")
_ONLY_LISTS: Final = {list}


class ProtocolError(Exception):
    """The stream is no longer readable; the text goes behind `-ERR Protocol error: `, then the connection is closed."""


class QueryTooLong(Exception):  # noqa: N818 - a limit of the server, no error of its own: the connection closes without a reply
    """One request is larger than the query buffer may be; the connection is closed without a reply."""


class StrictReader:
    """An incremental parser of requests that looks at every header.

    `max_bulk` and `max_query` are bytes: the longest argument, and the longest array with all its headers. While
    `trusted` is False an array has at most 10 arguments of 16,384 bytes, and a line at most 16,384 bytes; that may
    change between two requests. After an exception the stream cannot be read on: it would only come again.
    """

    __slots__ = (
        "_arguments",
        "_bodies",
        "_buffer",
        "_chunks",
        "_large",
        "_left",
        "_max_bulk",
        "_max_query",
        "_need",
        "_position",
        "_searched",
        "_seek",
        "_short",
        "_size",
        "_trusted",
        "_used",
        "_want",
    )

    def __init__(self, max_bulk: int = 64 << 20, max_query: int = 1 << 30) -> None:
        self._max_bulk = max_bulk
        self._max_query = max_query
        #: Which word of a command may be long, by its name; others may not be. None: all may.
        self._bodies: dict[bytes, int] | None = None
        self._trusted = False
        self._buffer = b""  # what is being parsed, from _position on
        self._position = 0
        self._chunks: list[bytes] = []  # what arrived behind the buffer
        self._size = 0  # bytes that are not parsed yet, in buffer and chunks
        self._need = 1  # so many of them must be there before parsing can go on
        self._short = True  # the buffer alone is not enough
        self._seek = b""  # and one of the chunks must have this byte
        self._searched = 0  # so many chunks have been searched for it
        self._arguments: list[bytes] = []  # of the array that is being read
        self._left = 0  # its arguments that are missing; 0 between requests
        self._used = 0  # its bytes so far
        self._large: BytesIO | None = None  # what is there of a large argument
        self._want = 0  # so many of its bytes are yet to come

    @property
    def trusted(self) -> bool:
        """Whether the sender may send large requests: False until somebody says so, which is before AUTH."""
        return self._trusted

    @trusted.setter
    def trusted(self, trusted: bool) -> None:
        self._trusted = trusted

    def allow_bodies(self, bodies: dict[bytes, int]) -> None:
        """Take long words from here on only where ``bodies`` says: the place of a word, by the name of its command."""
        self._bodies = bodies

    @property
    def unparsed_bytes(self) -> int:
        """Bytes that arrived and belong to no request that has been given out, those of a partial one included.

        Whole requests that were parsed ahead, which are 64 KB at most, do not count.
        """
        return self._size + self._used * bool(self._left)

    @property
    def ready(self) -> bool:
        """False only if `next()` is sure to return None until more is fed."""
        return self._size >= self._need

    def feed(self, data: bytes) -> None:
        """Keep what arrived. Nothing is parsed."""
        if self._want > 0:
            data = self._collect(data)
            if not data:
                return
        self._chunks.append(data)
        self._size += len(data)

    def _collect(self, data: bytes) -> bytes:
        """Take what belongs to the large argument; returns what lies behind it."""
        large = self._large
        assert large is not None
        size = min(self._want, len(data))
        large.write(data if size == len(data) else memoryview(data)[:size])
        self._want -= size
        self._used += size
        self._need = 2 if not self._want else MANY
        return data[size:]

    def next(self) -> list[bytes] | None:
        """Return the next request, never an empty one, or None when more bytes are needed.

        Raises ProtocolError with the text of the error, or QueryTooLong.
        """
        while self._size >= self._need:
            if self._short and not self._join():
                return None
            request = self._parse()
            if request is not None:
                return request
        return None

    def _join(self) -> bool:
        """Put the chunks behind the buffer; not while they cannot hold the end of the line that is awaited."""
        chunks, seek = self._chunks, self._seek
        if seek and self._size <= self._line_max() and not any(seek in chunk for chunk in chunks[self._searched :]):
            self._searched = len(chunks)
            self._need = self._size + 1
            return False
        self._buffer = b"".join((self._buffer, *chunks)) if self._buffer or len(chunks) > 1 else chunks[0]
        self._chunks = []
        self._short = False
        return True

    def _wait(self, need: int, seek: bytes = b"") -> None:
        """Stop until `need` bytes are there, counted from the position, and `seek` among the new ones."""
        self._buffer = self._buffer[self._position :]
        self._position = 0
        self._need = need
        self._seek = seek
        self._searched = 0
        self._short = True

    def _consume(self, position: int) -> int:
        """Leave behind what lies before `position`; return how many bytes that was."""
        consumed = position - self._position
        self._size -= consumed
        self._position = position
        self._need = 1
        if position == len(self._buffer):
            self._wait(1)
        return consumed

    def _parse(self) -> list[bytes] | None:
        """Return a request of the buffer, or None after saying what is missing."""
        if not self._left:
            words = self._begin()
            if words is not None or not self._left:
                return words
        return self._array()

    def _begin(self) -> list[bytes] | None:
        """Read a line, or the count of an array; empty ones are skipped."""
        while self._position < len(self._buffer):
            if self._buffer[self._position] == _STAR:
                if not self._count() or self._left:
                    return None
            else:
                words = self._inline()
                if words is None or words:
                    return words
            self._skip_blanks()
        return None

    def _skip_blanks(self) -> None:
        """Pass many empty lines and arrays at once."""
        blanks = _BLANKS.match(self._buffer, self._position)
        if blanks:
            self._consume(blanks.end())

    def _inline(self) -> list[bytes] | None:
        """Return the words of the line at the position, or None while its end is missing."""
        if self._buffer[self._position] == _TLS:
            raise ProtocolError("this looks like TLS, which is spoken on tls-port only")
        end = self._line_end(b"\n", "too big inline request")
        if end < 0:
            return None
        words = split_words(self._buffer[self._position : end].removesuffix(b"\r"))
        if words is None:
            raise ProtocolError("unbalanced quotes in request")
        self._consume(end + 1)
        return words

    def _count(self) -> bool:
        """Read the header of an array; False while its end is missing."""
        end = self._header_end("too big mbulk count string")
        if end < 0:
            return False
        count = _strict_integer(self._buffer[self._position + 1 : end])
        if count is None or count > ARGUMENTS_MAX:
            raise ProtocolError("invalid multibulk length")
        if count > UNTRUSTED_ARGUMENTS_MAX and not self._trusted:
            raise ProtocolError("unauthenticated multibulk length")
        self._used = self._consume(end + 2)
        if count > 0:
            self._left = count
            self._arguments = []
        return True

    def _array(self) -> list[bytes] | None:
        """Return the array once all its arguments are there, else None."""
        if self._large is not None:
            self._end_large(self._large)
        buffer, arguments, left, position = self._buffer, self._arguments, self._left, self._position
        length_max = min(self._max_bulk, UNTRUSTED_BYTES_MAX)
        bound = min(len(buffer), position + self._max_query - self._used)
        while left:
            end = buffer.find(b"\r", position, position + _HEADER_MAX_BYTES)
            length = _LENGTHS.get(buffer[position:end], -1) if end >= 0 else -1
            first, after = end + 2, end + 4 + length
            if not 0 <= length <= length_max or after > bound:
                self._keep(position, left)
                span = self._bulk()
                if span is None:
                    return None
                first, after = span
            arguments.append(buffer[first : after - 2])
            position = after
            left -= 1
        self._keep(position, 0)
        return arguments

    def _end_large(self, large: BytesIO) -> None:
        """The large argument is there, and the two bytes behind it."""
        self._arguments.append(large.getvalue())  # without a copy, since all of it is wanted
        self._large = None
        self._keep(self._position + 2, self._left - 1)

    def _keep(self, position: int, left: int) -> None:
        """Remember how far the array has been read."""
        self._left = left
        self._used += self._consume(position)

    def _bulk(self) -> tuple[int, int] | None:
        """Return where the argument at the position begins and where the next one does; None while it is incomplete."""
        end = self._header_end("too big bulk count string")
        if end < 0:
            return None
        after = end + 4 + self._bulk_length(end)
        wanted = after - self._position
        if self._used + wanted > self._max_query:
            raise QueryTooLong
        if after > len(self._buffer):
            if after - end >= LARGE_BYTES and after - 2 > len(self._buffer):
                self._begin_large(end + 2, after - 2)
            else:
                self._wait(wanted)
            return None
        return end + 2, after

    def _begin_large(self, first: int, after: int) -> None:
        """A large argument begins at ``first`` and ends beyond the buffer: collect it as it comes."""
        self._large = large = BytesIO()
        large.write(memoryview(self._buffer)[first:])
        self._want = after - len(self._buffer)
        self._used += self._consume(len(self._buffer))
        self._need = MANY
        chunks, self._chunks, self._size = self._chunks, [], 0
        for chunk in chunks:  # what has come since the buffer was made belongs to it, too
            self.feed(chunk)

    def _bulk_length(self, end: int) -> int:
        """Return the length that the header before `end` announces."""
        head = self._buffer[self._position]
        if head != _DOLLAR:
            raise ProtocolError(f"expected '$', got '{_printable(head)}'")
        length = _strict_integer(self._buffer[self._position + 1 : end])
        if length is None or not 0 <= length <= self._max_bulk:
            raise ProtocolError("invalid bulk length")
        if length > UNTRUSTED_BYTES_MAX and not self._trusted:
            raise ProtocolError("unauthenticated bulk length")
        if length > WORD_MAX_BYTES and not self._may_be_long():
            raise ProtocolError(f"invalid bulk length: only the body of a job may be above {WORD_MAX_BYTES} bytes")
        return length

    def _may_be_long(self) -> bool:
        """Whether the next argument may be of any length."""
        bodies, words = self._bodies, self._arguments
        return bodies is None or (len(words) > 0 and bodies.get(words[0].lower()) == len(words))

    def _header_end(self, too_big: str) -> int:
        """Return where the CR of a header is, or -1 while it or the byte behind it (never looked at) is missing."""
        end = self._line_end(b"\r", too_big)
        if end >= 0 and end + 1 == len(self._buffer):
            self._wait(end + 2 - self._position)
            return -1
        return end

    def _line_end(self, terminator: bytes, too_big: str) -> int:
        """Return where the line at the position ends, or -1 while that is missing; ProtocolError if it is too long."""
        end = self._buffer.find(terminator, self._position, self._position + self._line_max() + 1)
        if end < 0:
            rest = len(self._buffer) - self._position
            if rest > self._line_max():
                raise ProtocolError(too_big)
            self._wait(rest + 1, terminator)
        return end

    def _line_max(self) -> int:
        return LINE_MAX_BYTES if self._trusted else UNTRUSTED_BYTES_MAX


class RequestReader(StrictReader):
    """The reader of the plain form: gives what `StrictReader` gives, some times faster where many requests come."""

    __slots__ = ("_ahead", "_ahead_max", "_doubt", "_sole_max")

    def __init__(self, max_bulk: int = 64 << 20, max_query: int = 1 << 30) -> None:
        super().__init__(max_bulk, max_query)
        self._ahead: list[list[bytes]] = []  # requests that are parsed and not given out, the last one first
        self._ahead_max = min(_AHEAD_BYTES, max_bulk, max_query)  # within so many bytes no request breaks a limit
        self._sole_max = min(_SOLE_BYTES, self._ahead_max)
        self._doubt = False  # the buffer is not for the fast path

    @property
    def trusted(self) -> bool:
        """As in `StrictReader`; requests that were parsed ahead are read again when trust ends."""
        return self._trusted

    @trusted.setter
    def trusted(self, trusted: bool) -> None:
        self._trusted = trusted
        if self._ahead and not trusted:
            self._put_back()

    @property
    def ready(self) -> bool:
        """As in `StrictReader`."""
        return bool(self._ahead) or self._size >= self._need

    def next(self) -> list[bytes] | None:
        """As in `StrictReader`."""
        if self._ahead:
            request = self._next_ahead()
            if request:
                return request
        chunks = self._chunks
        if len(chunks) == 1 and self._trusted and not self._left and not self._buffer:
            data = chunks[0]
            if len(data) <= self._sole_max and data.rfind(b"\r\n*") < 0:
                request = _sole_request(data)
                if request:
                    chunks.clear()
                    self._size = 0
                    return request
        return super().next()

    def _join(self) -> bool:
        self._doubt = False
        return super()._join()

    def _parse(self) -> list[bytes] | None:
        if self._left or self._doubt or not self._trusted or not self._buffer.startswith(b"*", self._position):
            return super()._parse()
        return self._look_ahead() or super()._parse()

    def _look_ahead(self) -> list[bytes] | None:
        """Parse what the buffer holds up to a boundary; None if no request is there, or only for the strict reader."""
        self._doubt = True
        start = self._position
        end = min(len(self._buffer), start + self._ahead_max)
        last = self._buffer.rfind(b"\r\n*", start, end) + 2
        whole = self._buffer.endswith(b"\r\n", start, end)
        nothing_behind = end == len(self._buffer)
        if last > start and ((whole and self._take_ahead(end)) or self._take_ahead(last)):
            self._doubt = nothing_behind  # but the beginning of a request
            return self._next_ahead()
        return None

    def _take_ahead(self, end: int) -> bool:
        """Try to parse all from the position to `end`, which must be a boundary."""
        requests = _certain_requests(self._buffer[self._position : end])
        if requests is None:
            return False
        self._consume(end)
        requests.reverse()
        self._ahead = requests
        return True

    def _next_ahead(self) -> list[bytes] | None:
        """Return the next of the requests parsed ahead, without empty ones, or None when no more are left."""
        ahead = self._ahead
        while ahead:
            request = ahead.pop()
            if request:
                return request
        return None

    def _put_back(self) -> None:
        """Make bytes again of the requests parsed ahead: other limits hold for them now."""
        again = b"".join(map(_encode, reversed(self._ahead)))
        self._ahead = []
        self._wait(1)
        self._buffer = again + self._buffer
        self._size += len(again)
        self._short = False


def _certain_requests(data: bytes) -> list[list[bytes]] | None:
    """Return the requests of `data` if it ends at a boundary and surely has only arrays of bulk strings, else None."""
    if _reserves_memory(data) or _TOKEN in data:
        return None
    reader = Reader(notEnoughData=_NOT_YET)
    reader.feed(data)
    reader.feed(_MARKER)
    try:
        requests: list[list[bytes]] = list(iter(reader.gets, _NOT_YET))
        if reader.has_data() or not requests or requests.pop() != _MARK or set(map(type, requests)) != _ONLY_LISTS:
            return None
        arguments = b"".join(chain.from_iterable(requests))
    except (HiredisError, TypeError):
        return None
    for head in _FALSE_HEADS:
        if head in data and data.count(head) != arguments.count(head):
            return None
    return requests


def _reserves_memory(data: bytes) -> bool:
    """Tell whether something in `data` may be the header of more elements than fit there."""
    for head, huge in _HUGE_COUNTS:  # noqa: SIM110 - any() with a generator takes twice the time
        if head in data and huge.search(data):
            return True
    return False


def _sole_request(data: bytes) -> list[bytes] | None:
    """Return the request that `data` is if it is one array of a few short arguments without line ends, else None.

    Cutting at every CRLF loses nothing, so the data is such an array when there are two parts for each argument, one
    for the count and an empty one behind the last CRLF, and each header announces the length of the part behind it.
    """
    parts = data.split(b"\r\n")
    arguments = parts[2::2]
    if len(parts) % 2 or parts[-1] or parts[0] != _COUNT_HEADS.get(len(arguments)):
        return None
    return arguments if parts[1:-1:2] == list(map(_BULK_HEADS.get, map(len, arguments))) else None


def _encode(request: list[bytes]) -> bytes:
    """Return the array of bulk strings that stands for `request`."""
    encoded: bytes = pack_command(cast("Any", tuple(request)))  # declared for one word, takes many
    return encoded


def _strict_integer(digits: bytes) -> int | None:
    """Return a 64-bit integer in its only spelling: no plus, no leading zero, no space; None for anything else."""
    value = _SMALL.get(digits)
    if value is not None or not _INTEGER.fullmatch(digits):
        return value
    value = int(digits)
    return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else None


def _printable(byte: int) -> str:
    r"""Return the character of a byte, or \xHH where it might break the line of the reply."""
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
