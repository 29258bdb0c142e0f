"""The request reader of the compiled form. It walks over the bytes, without hiredis.

Compiled, a loop over each byte of the headers costs less than hiredis and the proof that hiredis read correctly. Plain,
it costs ten times as much: there `requests.RequestReader` is faster. Both give what `StrictReader` gives.

The walk takes an array only when all of it is there, with headers as clients write them, and within limits that no
setting goes below. Everything else is left to the strict reader, at the same position.
"""

from typing import Final

from mypy_extensions import i64

from disque.server.requests import RequestReader, StrictReader

_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")
_CR: Final = ord("\r")
_ZERO: Final = ord("0")
#: Digits of a number that is walked over; more are for the strict reader.
_DIGITS_MOST: Final = 6
#: Longer requests are not walked over: what takes time there is not the headers.
_WALK_BYTES: Final = 65_536


class Walker(StrictReader):
    """Gives what `StrictReader` gives."""

    __slots__ = ("_number", "_walk_max")

    def __init__(self, max_bulk: int = 64 << 20, max_query: int = 1 << 30) -> None:
        super().__init__(max_bulk, max_query)
        self._walk_max: i64 = min(_WALK_BYTES, max_bulk, max_query)  # within so many bytes no request breaks a limit
        self._number: i64 = 0  # what the last header said

    def _parse(self) -> list[bytes] | None:
        if self._left == 0 and self._trusted:
            request = self._walk()
            if request is not None:
                return request
        return super()._parse()

    def _walk(self) -> list[bytes] | None:
        """Return the array at the position; None, with nothing done, if it is not a usual one that is all there."""
        data = self._buffer
        start: i64 = self._position
        size: i64 = len(data)
        end: i64 = start + self._walk_max
        end = min(end, size)
        if data[start] != _STAR:
            return None
        at: i64 = self._header(data, start + 1, end)
        left: i64 = self._number
        if at < 0 or left == 0:
            return None
        arguments: list[bytes] = []
        while left > 0:
            if at >= end or data[at] != _DOLLAR:
                return None
            at = self._header(data, at + 1, end)
            after: i64 = at + self._number + 2
            if at < 0 or after > end:
                return None
            arguments.append(data[at : after - 2])
            at = after
            left -= 1
        if at == size:
            self._consume(at)
        else:  # what that would do here, without the call
            self._size -= at - start
            self._position = at
            self._need = 1
        return arguments

    def _header(self, data: bytes, at: i64, end: i64) -> i64:
        """Read the number of a header whose first digit is at ``at``; returns where what follows begins.

        -1 if the header is not all there, or not in the only spelling that clients use.
        """
        number: i64 = 0
        first = at
        bound: i64 = at + _DIGITS_MOST
        bound = min(bound, end)
        while at < bound:
            digit: i64 = data[at] - _ZERO
            if digit < 0 or digit > 9:
                break
            number = number * 10 + digit
            at += 1
        digits: i64 = at - first
        if digits < 1 or at + 2 > end or data[at] != _CR:
            return -1
        if digits > 1 and data[first] == _ZERO:
            return -1
        self._number = number
        return at + 2


def make_reader(max_bulk: int, max_query: int) -> StrictReader:
    """The reader that is the fastest in this form of the server."""
    return Walker(max_bulk, max_query) if IS_COMPILED else RequestReader(max_bulk, max_query)


#: Whether this module runs compiled: functions are made of no code objects then.
IS_COMPILED: Final = not hasattr(make_reader, "__code__")
