"""The load of one process: its connections, and the lanes of every step.

A step is one kind of request for all connections; a workload is its prefill steps and one measured step. Steps of one
station know each other's jobs: what `stock` adds to a queue is exactly what `get` will ask of that queue.
"""

import socket
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from disque.cli.bench_histogram import Histogram
from disque.cli.bench_lane import (
    AddIdsLane,
    Batches,
    Budget,
    CycleLane,
    ElementsLane,
    FetchIdsLane,
    IdStore,
    IntegerLane,
    Lane,
    LengthLane,
    Pace,
    make_body,
    numbered,
    queue_order,
)
from disque.cli.bench_load import Engine
from disque.cli.bench_mixed import POLL_MS, STAMP_BYTES, ConsumerLane, Market, ProducerLane
from disque.cli.bench_options import Options
from disque.cli.bench_resp import BenchError, ackjobs, addjob_ends, encode, getjob
from disque.cli.bench_sweep import sweep
from disque.cli.bench_tally import Tally
from disque.cli.bench_target import allow_many_files, open_socket

OnTick = Callable[[int], bool]
"""Is told the operations so far, about ten times a second; says whether to go on."""

_ADDJOB_TIMEOUT_MS: Final = 10_000
_SETTLE_MS: Final = 3000


class Job(NamedTuple):
    """A step to be done by a crew: its name, when to stop, and how many operations a second; None for all it can."""

    step: str
    operations: int | None
    seconds: float | None = None
    rate: float | None = None

    def budget(self) -> Budget:
        """Give what its lanes may do."""
        return Budget(self.operations) if self.rate is None else Pace(self.operations, self.rate)


class Step(NamedTuple):
    """The lanes of one step, as they share budget and tally."""

    job: Job
    budget: Budget
    tally: Tally


class Station:
    """The connections of one process, and what its steps leave for the next ones: job IDs."""

    def __init__(self, options: Options, prefix: str, connections: int) -> None:
        self._options = options
        self._queues = [f"{prefix}-{number}".encode() for number in range(options.queues)]
        self._order = queue_order(options.seed, options.queues)
        self._body = make_body(options.seed, options.body_bytes)
        self._connections = connections
        self._sockets: list[socket.socket] = []
        self._ids = IdStore()
        self._market: Market | None = None

    def run(self, job: Job, on_tick: OnTick) -> Tally:
        """Do one step; what goes wrong is said in the tally. A KeyboardInterrupt ends the step early."""
        step = Step(job, job.budget(), Tally())
        tally = step.tally
        cpu_s, start_ns = time.process_time(), time.perf_counter_ns()
        try:
            self._connect()
            lanes = _STEPS[job.step](self, step)
            engine = Engine(self._options.address, step.budget, lambda: on_tick(tally.operations))
            cpu_s, start_ns = time.process_time(), time.perf_counter_ns()
            engine.run(self._sockets, lanes, job.seconds)
            self._settle(tally)
        except BenchError as error:
            tally.fatal = str(error)
        except KeyboardInterrupt:
            tally.interrupted = True
        tally.elapsed_s = ((tally.last_ns or time.perf_counter_ns()) - start_ns) / 1e9
        tally.client_cpu_s = time.process_time() - cpu_s
        if tally.fatal or tally.interrupted:
            self.close()  # replies may be under way
        return tally

    def _settle(self, tally: Tally) -> None:
        """Enter into the tally what the ledger of a mixed step says, once all of it has ended in order."""
        market, self._market = self._market, None
        if market is not None:
            tally.lost, tally.twice = market.ledger.lost(), market.ledger.twice()

    def _connect(self) -> None:
        allow_many_files()
        while len(self._sockets) < self._connections:
            self._sockets.append(open_socket(self._options.address))

    def clean(self) -> None:
        """Remove what is left of this station's jobs and keys.

        Raises BenchError when the server does not play along.
        """
        sweep(self._options, self._queues, self._ids)

    def close(self) -> None:
        """Close all connections; the next step opens new ones."""
        for link in self._sockets:
            link.close()
        self._sockets.clear()

    def _lanes(self, lane: type[Lane], step: Step, requests: Callable[[int, int], bytes]) -> list[Lane]:
        depth = self._options.pipeline
        return [lane(step.budget, step.tally, time.perf_counter_ns, depth, requests) for _ in range(self._connections)]

    def _batches(self, make: Callable[[bytes], bytes], repeat: int = 1) -> Callable[[int, int], bytes]:
        queues = self._queues
        return Batches(lambda queue: make(queues[queue]), self._order, self._options.pipeline, repeat).get

    def _addjob(self, queue: bytes) -> bytes:
        words = self._options.addjob_words()
        head, tail = addjob_ends(queue, len(self._body), _ADDJOB_TIMEOUT_MS, words)
        return head + self._body + tail

    def add(self, step: Step) -> list[Lane]:
        """ADDJOB."""
        return self._lanes(Lane, step, self._batches(self._addjob))

    def stock(self, step: Step) -> list[Lane]:
        """ADDJOB, as many batches for a queue as one batch of GETJOB takes; IDs are kept."""
        lanes = self._lanes(AddIdsLane, step, self._batches(self._addjob, self._options.count))
        return self._with_ids(lanes)

    def get(self, step: Step) -> list[Lane]:
        """GETJOB NOHANG."""
        count = self._options.count
        return self._lanes(ElementsLane, step, self._batches(lambda queue: getjob((queue,), count)))

    def fetch(self, step: Step) -> list[Lane]:
        """GETJOB NOHANG of one job; IDs are kept."""
        lanes = self._lanes(FetchIdsLane, step, self._batches(lambda queue: getjob((queue,), 1)))
        return self._with_ids(lanes)

    def _with_ids(self, lanes: list[Lane]) -> list[Lane]:
        for lane in lanes:
            assert isinstance(lane, AddIdsLane | FetchIdsLane)
            lane.ids = self._ids
        return lanes

    def ack(self, step: Step) -> list[Lane]:
        """ACKJOB of one ID, of those that were kept."""
        return self._lanes(IntegerLane, step, self._ack_requests)

    def _ack_requests(self, _batch: int, size: int) -> bytes:
        ids = self._ids.take(size)
        requests = ackjobs(ids)
        if len(ids) < size:
            # The server gave fewer IDs than were asked for. An ACKJOB of nothing is answered with 0.
            requests += encode(b"ACKJOB") * (size - len(ids))
        return requests

    def cycle(self, step: Step) -> list[Lane]:
        """ADDJOB, GETJOB, ACKJOB."""
        adds, order, queues = self._batches(self._addjob), self._order, self._queues
        count = self._options.count

        def gets(batch: int, size: int) -> tuple[bytes, int]:
            requests = -(-size // count)
            return getjob((queues[order[batch % len(order)]],), count) * requests, requests

        args = (step.budget, step.tally, time.perf_counter_ns, self._options.pipeline, adds, gets)
        return [CycleLane(*args) for _ in range(self._connections)]

    def mixed(self, step: Step) -> list[Lane]:
        """ADDJOB on one half of the connections, blocking GETJOB and ACKJOB on the other."""
        producers = self._connections // 2
        consumers = self._connections - producers
        settle_ms = _SETTLE_MS + 1000 * (self._options.delay_s or 0)
        self._market = market = Market(producers, settle_ms // POLL_MS * consumers)
        lanes: list[Lane] = [self._producer(step, market) for _ in range(producers)]
        delivered = Histogram()
        for number in range(consumers):
            turn = number % len(self._queues)
            request = getjob(tuple(self._queues[turn:] + self._queues[:turn]), self._options.count, timeout_ms=POLL_MS)
            lanes.append(ConsumerLane(step.budget, step.tally, time.perf_counter_ns, market, request, delivered))
        return lanes

    def _producer(self, step: Step, market: Market) -> Lane:
        size, words = max(self._options.body_bytes, STAMP_BYTES), self._options.addjob_words()
        table = [addjob_ends(queue, size, _ADDJOB_TIMEOUT_MS, words) for queue in self._queues]
        order = self._order

        def ends(batch: int) -> tuple[bytes, bytes]:
            return table[order[batch % len(order)]]

        padding = self._body[: size - STAMP_BYTES]
        depth, clock = self._options.pipeline, time.perf_counter_ns
        return ProducerLane(step.budget, step.tally, clock, depth, market, ends, padding)

    def lpush(self, step: Step) -> list[Lane]:
        """LPUSH."""
        return self._lanes(LengthLane, step, self._batches(self._push))

    def restock(self, step: Step) -> list[Lane]:
        """LPUSH, as many batches for a list as one batch of RPOP takes."""
        return self._lanes(LengthLane, step, self._batches(self._push, self._options.count))

    def _push(self, key: bytes) -> bytes:
        return encode(b"LPUSH", key, self._body)

    def rpop(self, step: Step) -> list[Lane]:
        """RPOP."""
        count = self._options.count
        many = () if count == 1 else (b"%d" % count,)
        lane: type[Lane] = Lane if count == 1 else ElementsLane
        return self._lanes(lane, step, self._batches(lambda key: encode(b"RPOP", key, *many)))

    def set(self, step: Step) -> list[Lane]:
        """SET of numbered keys."""
        return self._numbered(Lane, step, b"SET", self._body)

    def del_(self, step: Step) -> list[Lane]:
        """DEL of numbered keys."""
        return self._numbered(IntegerLane, step, b"DEL")

    def _numbered(self, lane: type[Lane], step: Step, command: bytes, *rest: bytes) -> list[Lane]:
        make = numbered(command, self._queues[0] + b"-", self._options.pipeline, *rest)
        return self._lanes(lane, step, make)


_STEPS: Final[dict[str, Callable[[Station, Step], list[Lane]]]] = {
    "add": Station.add,
    "stock": Station.stock,
    "get": Station.get,
    "fetch": Station.fetch,
    "ack": Station.ack,
    "cycle": Station.cycle,
    "mixed": Station.mixed,
    "lpush": Station.lpush,
    "restock": Station.restock,
    "rpop": Station.rpop,
    "set": Station.set,
    "del": Station.del_,
}
