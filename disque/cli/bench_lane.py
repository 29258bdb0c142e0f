"""A lane: the requests of one connection, and what is done with the replies.

A lane never sees a socket. The engine gives it received bytes. It returns None (replies are still to come), bytes to
send, or b"" (nothing more to do). Like redis-benchmark, a lane sends a batch of `depth` requests and waits for all of
their replies before it sends the next. So with pipelining the latency is that of a batch. Requests are made beforehand
where possible, and replies are parsed in C, so that a request costs the client little more than its two system calls.
"""

import random
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from disque.cli.bench_resp import BenchError, Reply, ackjob, ackjobs, encode, new_reader
from disque.cli.bench_tally import Tally

Clock = Callable[[], int]

_CHUNK_IDS: Final = 1000
_CACHED_BATCHES: Final = 1000
_CACHED_BATCH_BYTES: Final = 1 << 16
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789"


def make_body(seed: int, size_bytes: int) -> bytes:
    """Give `size_bytes` letters and digits; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - load, not a secret
    block = bytes(chance.choices(_LETTERS, k=min(size_bytes, 4096)))
    return (block * (size_bytes // 4096 + 1))[:size_bytes]


def queue_order(seed: int, queues: int) -> list[int]:
    """Give the order in which queues take turns; the same for the same seed."""
    order = list(range(queues))
    random.Random(seed).shuffle(order)  # noqa: S311 - load, not a secret
    return order


class Budget:
    """How many operations a phase may still begin, shared by its lanes; None is without limit."""

    __slots__ = ("batches", "issued", "limit")

    def __init__(self, limit: int | None) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.issued = 0
        self.batches = 0

    def take(self, wanted: int) -> int:
        """Grant up to `wanted` operations as one batch; 0 when all are given out."""
        left = self.limit - self.issued
        if left < wanted:  # noqa: PLR1730 - once a request, and min() costs as much as all the rest here
            wanted = left
        if wanted > 0:
            self.issued += wanted
            self.batches += 1
        return wanted

    def over(self) -> bool:
        """Say whether all is given out."""
        return self.issued >= self.limit

    def close(self) -> None:
        """Grant nothing any more."""
        self.limit = self.issued


class Pace(Budget):
    """A budget that is given out evenly: `rate` operations a second, however long their replies take.

    Whoever drives the lanes asks when the next batch is due and opens the gate for it; a lane that asks by itself, as
    it does when its batch is answered, gets nothing and rests.
    """

    __slots__ = ("_begin_ns", "_gate", "_interval_ns")

    def __init__(self, limit: int | None, rate: float) -> None:
        super().__init__(limit)
        self._begin_ns = 0
        self._gate = False
        self._interval_ns = 1e9 / rate

    def begin(self, now_ns: int) -> None:
        """Count from now: the first batch is due."""
        self._begin_ns = now_ns

    def due_ns(self) -> int:
        """Give the time at which the next batch is to be sent."""
        return self._begin_ns + int(self.issued * self._interval_ns)

    def open(self) -> None:
        """Let the next batch pass."""
        self._gate = True

    def take(self, wanted: int) -> int:
        """Grant up to `wanted` operations, once for each time that the gate was opened."""
        if not self._gate:
            return 0
        self._gate = False
        return super().take(wanted)


class IdStore:
    """Job IDs, about 42 bytes each: joined by the thousand, because a million small objects would cost twice that."""

    __slots__ = ("_chunks", "_new", "_ready")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._new: list[bytes] = []
        self._ready: list[bytes] = []

    def put(self, job_id: bytes) -> None:
        """Keep one ID."""
        self._new.append(job_id)
        if len(self._new) == _CHUNK_IDS:
            self._chunks.append(b" ".join(self._new))
            self._new.clear()

    def take(self, count: int) -> list[bytes]:
        """Give back up to `count` IDs, each once."""
        while len(self._ready) < count and (self._chunks or self._new):
            if self._chunks:
                self._ready.extend(self._chunks.popleft().split(b" "))
            else:
                self._ready.extend(self._new)
                self._new.clear()
        taken = self._ready[-count:]
        del self._ready[-count:]
        return taken


class Batches:
    """Requests for queues that take turns: `repeat` batches for a queue, then the next queue."""

    __slots__ = ("_cache", "_depth", "_make", "_order", "_repeat")

    def __init__(self, make: Callable[[int], bytes], order: list[int], depth: int, repeat: int = 1) -> None:
        self._make = make
        self._order = order
        self._depth = depth
        self._repeat = repeat
        self._cache: dict[int, bytes] = {}

    def get(self, batch: int, size: int) -> bytes:
        """Give `size` requests for the queue whose turn batch number `batch` is."""
        queue = self._order[batch // self._repeat % len(self._order)]
        cached = self._cache.get(queue)
        if cached is not None and size == self._depth:
            return cached
        payload = self._make(queue) * size
        if size == self._depth and len(payload) <= _CACHED_BATCH_BYTES and len(self._cache) < _CACHED_BATCHES:
            self._cache[queue] = payload
        return payload


class Lane:
    """Batches of equal requests, whose replies are all of the class `kind`; they are counted and not looked at."""

    __slots__ = ("_requests", "batch", "budget", "clock", "depth", "left", "reader", "sent_ns", "size", "tally")

    kind: type = bytes

    def __init__(
        self, budget: Budget, tally: Tally, clock: Clock, depth: int, requests: Callable[[int, int], bytes]
    ) -> None:
        self.budget = budget
        self.tally = tally
        self.clock = clock
        self.depth = depth
        self.reader = new_reader()
        self.batch = 0
        self.left = 0
        self.size = 0
        self.sent_ns = 0
        self._requests = requests

    def start(self) -> bytes:
        """Give the first batch, or b"" when there is nothing to do."""
        return self._next_batch()

    def feed(self, data: bytes) -> bytes | None:
        """Take received bytes, none for the end of the connection.

        Gives None while replies are missing, else what to send next, or b"" when there is nothing more to do.
        Raises BenchError for the end of the connection, for more replies than requests and for a fatal error reply,
        hiredis.ProtocolError for bytes that are not RESP.
        """
        if not data:
            raise BenchError("the server closed the connection")
        self.reader.feed(data)
        self._count()
        if self.left > 0:
            return None
        if self.left < 0:
            raise BenchError("the server sent more replies than there were requests")
        return self._batch_done()

    def _count(self) -> None:
        gets, kind = self.reader.gets, self.kind
        left = self.left
        while (reply := gets()) is not False:
            left -= 1
            if type(reply) is not kind:
                self._odd(reply)
        self.left = left

    def _odd(self, reply: Reply) -> None:
        if reply is None:
            self.tally.empty += 1
        else:
            self.tally.refuse(reply)

    def _batch_done(self) -> bytes:
        self.tally.latency.record(self.clock() - self.sent_ns)
        self.tally.operations += self.size
        self.tally.requests += self.size
        return self._next_batch()

    def _next_batch(self) -> bytes:
        self.size = self.budget.take(self.depth)
        if self.size == 0:
            return b""
        self.batch = self.budget.batches - 1
        payload = self._requests(self.batch, self.size)
        self.left = self.size
        self.sent_ns = self.clock()
        return payload


class IntegerLane(Lane):
    """Requests answered by the number of things that they removed; 0 counts as empty."""

    __slots__ = ()

    kind = int

    def _count(self) -> None:
        gets = self.reader.gets
        left = self.left
        while (reply := gets()) is not False:
            left -= 1
            if type(reply) is not int:
                self._odd(reply)
            elif reply == 0:
                self.tally.empty += 1
        self.left = left


class LengthLane(Lane):
    """Requests answered by the length of a list, which is never looked at."""

    __slots__ = ()

    kind = int


class ElementsLane(Lane):
    """Requests answered by a list of jobs or of elements, or by nil."""

    __slots__ = ()

    kind = list

    def _count(self) -> None:
        jobs = 0
        while (reply := self.reader.gets()) is not False:
            self.left -= 1
            if type(reply) is list:
                jobs += len(reply)
            else:
                self._odd(reply)
        self.tally.jobs += jobs


class AddIdsLane(Lane):
    """ADDJOBs whose IDs are kept."""

    __slots__ = ("ids",)

    ids: IdStore

    def _count(self) -> None:
        while (reply := self.reader.gets()) is not False:
            self.left -= 1
            if type(reply) is bytes:
                self.ids.put(reply)
            else:
                self._odd(reply)


class FetchIdsLane(Lane):
    """GETJOBs whose IDs are kept."""

    __slots__ = ("ids",)

    kind = list
    ids: IdStore

    def _count(self) -> None:
        while (reply := self.reader.gets()) is not False:
            self.left -= 1
            if type(reply) is list:
                for job in reply:
                    self.ids.put(job[1])
            else:
                self._odd(reply)


class CycleLane(Lane):
    """A batch of jobs from birth to death on one connection: ADDJOBs, then GETJOBs, then ACKJOBs.

    One operation is one job through all three, and the latency is that of the three together.
    """

    __slots__ = ("_gets", "_groups", "_singles", "_step")

    def __init__(
        self,
        budget: Budget,
        tally: Tally,
        clock: Clock,
        depth: int,
        requests: Callable[[int, int], bytes],
        gets: Callable[[int, int], tuple[bytes, int]],
    ) -> None:
        super().__init__(budget, tally, clock, depth, requests)
        self._gets = gets
        #: IDs by the reply in which they came, and those of replies with one job.
        self._groups: list[list[bytes]] = []
        self._singles: list[bytes] = []
        self._step = 0

    def _count(self) -> None:
        wanted = (bytes, list, int)[self._step]
        gets, singles = self.reader.gets, self._singles
        before = left = self.left
        while (reply := gets()) is not False:
            left -= 1
            if type(reply) is not wanted:
                self._odd(reply)
            elif type(reply) is list:
                if len(reply) == 1:
                    singles.append(reply[0][1])
                else:
                    self._groups.append([job[1] for job in reply])
        self.left = left
        self.tally.requests += before - left

    def _batch_done(self) -> bytes:
        if self._step == 0:
            self._step = 1
            payload, self.left = self._gets(self.batch, self.size)
            return payload
        if self._step == 1 and (self._singles or self._groups):
            return self._acknowledge()
        return self._cycle_done()

    def _acknowledge(self) -> bytes:
        self._step = 2
        self.left = len(self._singles) + len(self._groups)
        self.tally.jobs += len(self._singles) + sum(map(len, self._groups))
        payload = ackjobs(self._singles)
        self._singles.clear()
        if self._groups:
            payload += b"".join(map(ackjob, self._groups))
            self._groups.clear()
        return payload

    def _cycle_done(self) -> bytes:
        self._step = 0
        self.tally.latency.record(self.clock() - self.sent_ns)
        self.tally.operations += self.size
        return self._next_batch()


def numbered(command: bytes, key: bytes, depth: int, *rest: bytes) -> Callable[[int, int], bytes]:
    """Give a maker of requests whose keys end in numbers: (batch, size) gives `size` of them, from batch * depth on."""
    digits = b"0" * 12
    head, _, tail = (part.replace(b"%", b"%%") for part in encode(command, key + digits, *rest).partition(digits))
    one = head + b"%012d" + tail

    def make(batch: int, size: int) -> bytes:
        if depth == 1:
            return one % batch
        first = batch * depth
        return one * size % tuple(range(first, first + size))

    return make
