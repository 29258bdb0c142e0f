"""Everything that will happen by itself: one due time an item, exact to the millisecond, free while it waits.

Far due times lie in buckets by second, plain lists in which an item knows its index, so that arming and disarming are
two list operations and a disarmed item leaves nothing behind. The current second and the next one lie in a heap. A
bucket moves into the heap one second before its time, in slices, so that a hundred thousand items due together stop
nobody. In the heap, a disarmed item stays as a shell until its turn: at most two seconds of traffic. Shells can be as
many as items, so they are thrown away in slices, too.
"""

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i32, mypyc_attr

#: Due time of an empty timer: later than anything.
NEVER: Final = 2**62
#: `Timed.slot` of an item that is not armed, and of one in the heap.
IDLE: Final = -2
IN_HEAP: Final = -1
#: Shells that are thrown away at once.
SHELLS_MOST = 2000  # not Final: tests want less, compiled too


@mypyc_attr(acyclic=True)
class Timed:
    """What can be armed: a job, a session, a queue, a key. ``due_ms`` is 0 when it is not."""

    __slots__ = ("due_ms", "slot")

    def __init__(self) -> None:
        self.due_ms = 0
        self.slot: i32 = IDLE


class Timers:
    """The due times of one node, in milliseconds of its clock."""

    __slots__ = ("_buckets", "_heap", "_horizon", "_last", "_last_second", "_seconds", "_serial")

    def __init__(self) -> None:
        self._buckets: dict[int, list[Timed]] = {}
        self._seconds: list[int] = []
        self._heap: list[tuple[int, int, Timed]] = []
        self._horizon = -1
        self._serial = 0
        #: The bucket into which something came last, and its second: more will come there. -1: there is none.
        self._last: list[Timed] = []
        self._last_second = -1

    @property
    def count(self) -> int:
        """How many items are armed; counted anew, for tests."""
        waiting = sum(map(len, self._buckets.values()))
        near = {id(item) for due_ms, _, item in self._heap if item.slot == IN_HEAP and item.due_ms == due_ms}
        return waiting + len(near)

    def arm(self, item: Timed, due_ms: int) -> None:
        """Make ``item`` come out of `due` at ``due_ms``, whatever it was armed for before."""
        slot = item.slot
        if slot >= 0:
            # What `disarm` does, written out: this is on the path of every delivery.
            before = item.due_ms // 1000
            bucket = self._buckets[before]
            last = bucket.pop()
            if last is not item:
                bucket[slot] = last
                last.slot = slot
            elif not bucket:
                self._drop(before)
        item.due_ms = due_ms
        second = due_ms // 1000
        if second <= self._horizon:
            item.slot = IN_HEAP
            self._serial += 1
            heappush(self._heap, (due_ms, self._serial, item))
            return
        line = self._last if second == self._last_second else self._bucket(second)
        item.slot = len(line)
        line.append(item)

    def _bucket(self, second: int) -> list[Timed]:
        """The bucket of a second, made if there is none: it is the last one from here on."""
        line = self._buckets.get(second)
        if line is None:
            line = []
            self._buckets[second] = line
            heappush(self._seconds, second)
        self._last = line
        self._last_second = second
        return line

    def disarm(self, item: Timed) -> None:
        """Forget ``item``; nothing happens when it is not armed."""
        slot = item.slot
        if slot == IDLE:
            return
        item.slot = IDLE
        if slot != IN_HEAP:
            second = item.due_ms // 1000
            bucket = self._buckets[second]
            last = bucket.pop()
            if last is not item:
                bucket[slot] = last
                last.slot = slot
            elif not bucket:
                self._drop(second)
        item.due_ms = 0

    def due(self, now_ms: int, most: int) -> list[Timed]:
        """Take out up to ``most`` items whose time has come, earliest first, disarmed."""
        self._fill(now_ms, most)
        heap = self._heap
        out: list[Timed] = []
        left = SHELLS_MOST
        while heap and heap[0][0] <= now_ms and len(out) < most and left > 0:
            due_ms, _, item = heappop(heap)
            if item.slot == IN_HEAP and item.due_ms == due_ms:
                item.slot = IDLE
                item.due_ms = 0
                out.append(item)
            else:
                left -= 1
        return out

    def next_due_ms(self) -> int:
        """When `due` should be called next, or NEVER.

        The earliest due time, or when the next bucket has to be moved. It may be that of a shell, where there are many.
        """
        heap = self._heap
        left = SHELLS_MOST
        while left > 0 and heap and (heap[0][2].slot != IN_HEAP or heap[0][2].due_ms != heap[0][0]):
            heappop(heap)
            left -= 1
        at_ms = heap[0][0] if heap else NEVER
        while self._seconds and self._seconds[0] not in self._buckets:
            heappop(self._seconds)
        if self._seconds:
            at_ms = min(at_ms, self._seconds[0] * 1000 - 1000)
        return at_ms

    def clear(self) -> "list[list[Timed] | list[tuple[int, int, Timed]]]":
        """Begin anew. Returns what all of it consisted of, for whoever frees it: these items are not armed any more."""
        lists: list[list[Timed] | list[tuple[int, int, Timed]]] = [*self._buckets.values(), self._heap]
        self._buckets = {}
        self._seconds = []
        self._heap = []
        self._horizon = -1
        self._last = []
        self._last_second = -1
        return lists

    def _fill(self, now_ms: int, most: int) -> None:
        """Move up to ``most`` items of the seconds up to the next one into the heap."""
        limit = now_ms // 1000 + 1
        left = most
        seconds = self._seconds
        while left > 0 and seconds and seconds[0] <= limit:
            second = seconds[0]
            self._horizon = max(self._horizon, second)
            bucket = self._buckets.get(second)
            if bucket is None:
                heappop(seconds)
                continue
            while bucket and left > 0:
                item = bucket.pop()
                item.slot = IN_HEAP
                self._serial += 1
                heappush(self._heap, (item.due_ms, self._serial, item))
                left -= 1
            if not bucket:
                heappop(seconds)
                del self._buckets[second]
        if left > 0:
            self._horizon = max(self._horizon, limit)

    def _drop(self, second: int) -> None:
        """Forget an empty bucket; its number leaves the list of seconds when it comes to the top."""
        del self._buckets[second]
        if second == self._last_second:
            self._last_second = -1
        seconds = self._seconds
        if len(seconds) > 64 and len(seconds) > 4 * len(self._buckets):
            self._seconds = sorted(self._buckets)
