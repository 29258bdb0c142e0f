"""The protocol of beanstalkd, for the engine of `disque bench`: put, reserve and delete, any number at a time.

A job that is reserved belongs to the connection that reserved it, so each lane deletes what it has reserved itself,
and the three steps happen on the same connections.
"""

import time
from collections.abc import Callable
from typing import Final

from disque.cli.bench_lane import Budget, Clock, Lane
from disque.cli.bench_options import Address
from disque.cli.bench_tally import Tally
from disque.cli.bench_target import open_socket
from tests.end_to_end.node import LOOPBACK
from tests.speed.drive import CONNECTIONS, FILL_DEPTH, load, run_lanes
from tests.speed.server import Server

END: Final = b"\r\n"
RESERVE: Final = b"reserve-with-timeout 0\r\n"
#: Seconds that a job which was reserved may take.
TIME_TO_RUN_S: Final = 600


def put(body: bytes, delay_s: int = 0) -> bytes:
    return b"put 0 %d %d %d\r\n%b\r\n" % (delay_s, TIME_TO_RUN_S, len(body), body)


class LinesLane(Lane):
    """Requests whose replies are so many lines each; `take` gets them whole."""

    __slots__ = ("_rest",)

    lines = 1
    good = b"INSERTED "

    def __init__(
        self, budget: Budget, tally: Tally, clock: Clock, depth: int, requests: Callable[[int, int], bytes]
    ) -> None:
        super().__init__(budget, tally, clock, depth, requests)
        self._rest = b""

    def feed(self, data: bytes) -> bytes | None:
        """Take received bytes; as in `Lane`."""
        assert data, "the server closed the connection"
        *lines, self._rest = (self._rest + data).split(END)
        whole = len(lines) - len(lines) % self.lines
        for line in lines[: whole : self.lines]:
            self.take(line)
        if whole < len(lines):
            self._rest = END.join([*lines[whole:], self._rest])
        self.left -= whole // self.lines
        return None if self.left else self._batch_done()

    def take(self, line: bytes) -> None:
        if not line.startswith(self.good):
            self.tally.complain(line.decode(errors="replace"))


class ReserveLane(LinesLane):
    """A line with the number of the job, and one with its body, which has no ends of lines in it."""

    __slots__ = ("job_ids",)

    lines = 2
    good = b"RESERVED "

    job_ids: list[bytes]

    def take(self, line: bytes) -> None:
        super().take(line)
        self.job_ids.append(line.split(b" ", 2)[1])


class DeleteLane(LinesLane):
    """Deletes the jobs of its list, and is done when that is empty, whatever the budget says."""

    __slots__ = ("job_ids",)

    good = b"DELETED"

    job_ids: list[bytes]

    def _next_batch(self) -> bytes:
        wanted = min(self.depth, len(self.job_ids))
        self.size = self.left = self.budget.take(wanted) if wanted else 0
        if not self.size:
            return b""
        ids, self.job_ids = self.job_ids[: self.size], self.job_ids[self.size :]
        self.sent_ns = self.clock()
        return b"".join([b"delete %b\r\n" % job_id for job_id in ids])


def compare(server: Server, depth: int, operations: int, body: bytes) -> dict[str, dict[str, float]]:
    """Measure put, reserve and delete under the names of what they are compared with."""
    sockets = [open_socket(Address(LOOPBACK, server.port)) for _ in range(CONNECTIONS)]
    job_ids: list[list[bytes]] = [[] for _ in sockets]
    clock = time.perf_counter_ns

    def putting(budget: Budget, tally: Tally) -> list[Lane]:
        request = put(body)
        return [LinesLane(budget, tally, clock, depth, lambda _batch, size: request * size) for _ in sockets]

    def having(kind: type[ReserveLane | DeleteLane]) -> Callable[[Budget, Tally], list[Lane]]:
        def lanes(budget: Budget, tally: Tally) -> list[Lane]:
            made = [kind(budget, tally, clock, depth, lambda _batch, size: RESERVE * size) for _ in sockets]
            for lane, own in zip(made, job_ids, strict=True):
                lane.job_ids = own
            return list(made)

        return lanes

    try:
        steps = {"add": putting, "get": having(ReserveLane), "ack": having(DeleteLane)}
        return {name: run_lanes(server, sockets, lanes, operations) for name, lanes in steps.items()}
    finally:
        for sock in sockets:
            sock.close()


def fill(server: Server, jobs: int, body: bytes, delay_s: int) -> None:
    """Add jobs that stay."""
    request = put(body, delay_s)

    def lanes(budget: Budget, tally: Tally) -> list[Lane]:
        args = (budget, tally, time.perf_counter_ns, FILL_DEPTH, lambda _batch, size: request * size)
        return [LinesLane(*args) for _ in range(CONNECTIONS)]

    load(server, lanes, jobs)
