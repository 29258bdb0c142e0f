"""Producers and consumers at once, and an account that shows whether each job came exactly once.

Every body begins with a number and the time of sending. A number is promised when its ADDJOB was answered with an ID.
At the end each promised number must have been received once. Zero times is a lost job, more than once is a duplicate.
The account has one byte a number: bit 0 for the promise, the rest for how often it came.
"""

from collections.abc import Callable
from typing import Final

from disque.cli.bench_histogram import Histogram
from disque.cli.bench_lane import Budget, Clock, Lane
from disque.cli.bench_resp import Reply, ackjob
from disque.cli.bench_tally import Tally

STAMP_BYTES: Final = 33
POLL_MS: Final = 200
_PROMISED: Final = 1
_RECEIVED: Final = 2
_FULL: Final = 254
_GROWTH: Final = 1 << 16


def stamp(number: int, now_ns: int) -> bytes:
    """Give the first 33 bytes of a body."""
    return b"%012d:%019d:" % (number, now_ns)


def read_stamp(body: bytes) -> tuple[int, int]:
    """Give number and time of sending.

    Raises ValueError for a body that no producer of ours has made.
    """
    if len(body) < STAMP_BYTES or body[12:13] != b":" or body[32:33] != b":":
        raise ValueError("not a body of this run")
    return int(body[:12]), int(body[13:32])


class Ledger:
    """Which numbers were promised, and how often each came."""

    __slots__ = ("_marks", "next_number", "open")

    def __init__(self) -> None:
        self._marks = bytearray(_GROWTH)
        self.next_number = 0
        self.open = 0  # promised and not received

    def reserve(self, count: int) -> int:
        """Give the first of `count` new numbers."""
        first = self.next_number
        self.next_number += count
        while self.next_number > len(self._marks):
            self._marks.extend(bytes(len(self._marks)))
        return first

    def promise(self, number: int) -> None:
        """Note that the server has taken responsibility for a number."""
        self._marks[number] |= _PROMISED
        if self._marks[number] < _RECEIVED:
            self.open += 1

    def receive(self, number: int) -> None:
        """Note that a number came.

        Raises ValueError for a number that was never sent.
        """
        if not 0 <= number < self.next_number:
            raise ValueError("number was never sent")
        mark = self._marks[number]
        if mark == _PROMISED:
            self.open -= 1
        if mark < _FULL:
            self._marks[number] = mark + _RECEIVED

    def lost(self) -> int:
        """Count the numbers that were promised and never came."""
        return self._marks.count(_PROMISED)

    def twice(self) -> int:
        """Count the numbers that came more than once."""
        return len(self._marks) - sum(self._marks.count(mark) for mark in range(2 * _RECEIVED))


class Market:
    """What producers and consumers of one process share: the ledger, who is still producing, when to give up."""

    __slots__ = ("ledger", "patience", "producing", "waited")

    def __init__(self, producers: int, patience: int) -> None:
        self.ledger = Ledger()
        self.producing = producers
        self.patience = patience  # empty polls after the last producer, until what is missing counts as lost
        self.waited = 0

    def over(self) -> bool:
        """Say whether consumers may stop: all that was promised came, or it did not come for too long."""
        return self.producing == 0 and (self.ledger.open == 0 or self.waited >= self.patience)


class ProducerLane(Lane):
    """Batches of ADDJOBs with numbered bodies; the latency is that of the ADDJOBs."""

    __slots__ = ("_ends", "_first", "_market", "_padding", "_taken")

    def __init__(
        self,
        budget: Budget,
        tally: Tally,
        clock: Clock,
        depth: int,
        market: Market,
        ends: Callable[[int], tuple[bytes, bytes]],
        padding: bytes,
    ) -> None:
        super().__init__(budget, tally, clock, depth, self._bodies)
        self._market = market
        self._ends = ends
        self._padding = padding
        self._first = 0
        self._taken = 0

    def _bodies(self, batch: int, size: int) -> bytes:
        head, tail = self._ends(batch)
        now_ns, self._taken, tail = self.clock(), 0, self._padding + tail
        self._first = first = self._market.ledger.reserve(size)
        return b"".join([head + stamp(number, now_ns) + tail for number in range(first, first + size)])

    def _count(self) -> None:
        while (reply := self.reader.gets()) is not False:
            self.left -= 1
            if type(reply) is bytes:
                self._market.ledger.promise(self._first + self._taken)
                self.tally.added += 1
            else:
                self._odd(reply)
            self._taken += 1

    def _batch_done(self) -> bytes:
        self.tally.latency.record(self.clock() - self.sent_ns)
        self.tally.requests += self.size
        return self._next_batch()

    def _next_batch(self) -> bytes:
        payload = super()._next_batch()
        if not payload and self.budget.over():
            self._market.producing -= 1
        return payload


class ConsumerLane(Lane):
    """Blocking GETJOBs, each sent together with the ACKJOB of what the one before brought.

    `tally.delivered` gets the time from sending the ADDJOB to receiving the job, the wait in the queue included.
    """

    __slots__ = ("_getjob", "_job_ids", "_market")

    def __init__(
        self, budget: Budget, tally: Tally, clock: Clock, market: Market, getjob: bytes, delivered: Histogram
    ) -> None:
        super().__init__(budget, tally, clock, 1, lambda _batch, _size: getjob)
        tally.delivered = delivered
        self._getjob = getjob
        self._market = market
        self._job_ids: list[bytes] = []

    def start(self) -> bytes:
        """Begin with a GETJOB; consumers need no budget, they take what producers add."""
        self.left = 1
        return self._getjob

    def _count(self) -> None:
        while (reply := self.reader.gets()) is not False:
            self.left -= 1
            self.tally.requests += 1
            if type(reply) is list:
                self._deliver(reply)
            elif type(reply) is not int:
                self._nothing(reply)

    def _nothing(self, reply: Reply) -> None:
        self._market.waited += self._market.producing == 0
        if reply is not None:
            self._odd(reply)

    def _deliver(self, jobs: list[Reply]) -> None:
        self.tally.last_ns = now_ns = self.clock()
        self._market.waited = 0
        for job in jobs:
            assert isinstance(job, list)
            _queue, job_id, body = job
            assert isinstance(job_id, bytes)
            assert isinstance(body, bytes)
            self._job_ids.append(job_id)
            self._account(body, now_ns)

    def _account(self, body: bytes, now_ns: int) -> None:
        tally = self.tally
        try:
            number, sent_ns = read_stamp(body)
            self._market.ledger.receive(number)
        except ValueError:
            tally.foreign += 1
            return
        assert tally.delivered is not None
        tally.delivered.record(now_ns - sent_ns)
        tally.operations += 1
        tally.jobs += 1

    def _batch_done(self) -> bytes:
        payload = ackjob(self._job_ids) if self._job_ids else b""
        self.left = bool(self._job_ids)
        self._job_ids = []
        if not self._market.over():
            self.left += 1
            payload += self._getjob
        return payload
