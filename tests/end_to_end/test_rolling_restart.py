"""Three nodes are restarted one after the other under load: nobody is refused, nothing is lost, nothing comes twice.

Jobs want a copy on each node by default, so an ADDJOB waits while one of them is away. `default-replicate 2`, which
`make run` sets, needs no such wait. Who loses its connection goes to another node, and adds its job once more if it
has read no answer: that is another job with the same body.

The environment sets the numbers: RESTART_ROUNDS, how often each node is restarted; RESTART_TIMEOUT_MS, how long an
ADDJOB waits: 5000 is enough where processes start within that; RESTART_DOWN_S, for how long a node is away besides.
"""

import logging
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from disque.client import Config, Disque, DisqueError
from tests.end_to_end.cluster import Cluster, Place
from tests.end_to_end.cluster_load import jobs_left
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import SLOW_POLL_S, Node, Raw, request, until

ROUNDS: Final = int(os.environ.get("RESTART_ROUNDS", "1"))
ADD_MS: Final = int(os.environ.get("RESTART_TIMEOUT_MS", "30000"))  # longer than a start on a machine that is busy
DOWN_S: Final = float(os.environ.get("RESTART_DOWN_S", "0"))
RATE: Final = 200  # jobs a second
PRODUCERS: Final = 64  # so many of them may wait at a time
CONSUMERS: Final = 4
LEAST: Final = 100  # jobs between two restarts
QUEUE: Final = "load"
GIVE_UP_S: Final = 10.0  # what an answer may be late
WAIT_MS: Final = 200  # how long a GETJOB waits for jobs
WORK_S: Final = 0.03  # so that some jobs are in flight when a node ends
#: Longer than the test waits for a job: what comes only by its RETRY is missing.
NEVER_S: Final = 300
SOON_S: Final = 5  # what a consumer has in its hands comes again when its node is killed

REDIS: Final = "redis-py"
DISQUE: Final = "disque.client"
#: The node timeout of users, and starts that import all that they need: each takes as long as theirs.
USUAL: Final = ("--cluster-node-timeout", "15000")
WHOLE: Final = Place(prefix=("env",))

BROKEN: Final = (redis.ConnectionError, redis.TimeoutError)


class Watched(Disque):
    """A client that counts the answers that never came: what it asked then, it asks another node by itself."""

    missed = 0

    def drive(self, flow: Any, interrupt: Any = None) -> Any:
        return super().drive(self._watched(flow), interrupt)

    def _watched(self, flow: Any) -> Any:
        step = next(flow)
        while True:
            outcome = yield step
            self.missed += outcome.sent and outcome.failure is not None
            try:
                step = flow.send(outcome)
            except StopIteration as stop:
                return stop.value


class Book:
    """What clients of one kind were told. Each thread only adds."""

    def __init__(self, cluster: Cluster, kind: str, retry_s: int) -> None:
        self.cluster = cluster
        self.retry_s = retry_s
        self.answers: dict[bytes, bytes] = {}  # ID to body
        self.unanswered: list[bytes] = []  # the body of each ADDJOB without an answer
        self.errors: list[str] = []
        self.deliveries: dict[bytes, list[bytes]] = {}  # ID to the body of each delivery
        self.acked: set[bytes] = set()
        self.slowest_s = 0.0
        self.took_s = 0.0
        self._enough = threading.Event()
        self._over = threading.Event()
        self._numbers = count()
        self._begin_s = time.monotonic()
        by_redis, by_disque = (self._add_by_redis, self._take_by_redis), (self._add_by_disque, self._take_by_disque)
        add, take = by_redis if kind == REDIS else by_disque
        self._producers = [threading.Thread(target=add) for _ in range(PRODUCERS)]
        self._consumers = [threading.Thread(target=take) for _ in range(CONSUMERS)]

    def begin(self) -> None:
        self._begin_s = time.monotonic()
        for thread in [*self._producers, *self._consumers]:
            thread.start()

    def restart(self, node: Node, end: Callable[[Node], None]) -> None:
        """End it and start it again, and wait until all nodes are there and jobs have passed."""
        end(node)
        self._over.wait(DOWN_S)
        self.cluster.start_whole()
        self.more()

    def more(self) -> None:
        """Wait until jobs have passed."""
        answered, done = len(self.answers) + LEAST, len(self.acked) + LEAST
        until(lambda: len(self.answers) >= answered and len(self.acked) >= done, self.shown, SLOW_POLL_S)

    def finish(self) -> None:
        """Add no more, and wait until no node has a job any more."""
        self._enough.set()
        for thread in self._producers:
            thread.join()
        self.took_s = time.monotonic() - self._begin_s
        until(lambda: not any(map(jobs_left, self.cluster.members)), self._left, SLOW_POLL_S)

    def end(self) -> None:
        self._enough.set()
        self._over.set()
        for thread in [*self._producers, *self._consumers]:
            thread.join()

    def lost(self) -> list[bytes]:
        """Jobs that were answered and never came."""
        return [job_id for job_id in self.answers if job_id not in self.deliveries]

    def twice(self) -> list[bytes]:
        """Jobs that came more than once."""
        return [job_id for job_id, bodies in self.deliveries.items() if len(bodies) > 1]

    def doubled(self) -> list[bytes]:
        """Bodies that are in more jobs than there were ADDJOBs."""
        unanswered = Counter(self.unanswered)
        return [body for body, jobs in self._jobs_of().items() if jobs > 1 + unanswered[body]]

    def _jobs_of(self) -> Counter[bytes]:
        return Counter(bodies[0] for bodies in self.deliveries.values())

    def shown(self) -> str:
        rate = f"{len(self.answers) / self.took_s:.0f}/s" if self.took_s else "still going on"
        norepl = sum(error.startswith("NOREPL") for error in self.errors)
        several = sum(jobs > 1 for jobs in self._jobs_of().values())
        return (
            f"{len(self.answers)} answered ({rate}, slowest after {self.slowest_s:.2f} s), {len(self.deliveries)} "
            f"delivered, {len(self.acked)} acknowledged; {norepl} NOREPL, {len(self.errors) - norepl} other errors, "
            f"{len(self.lost())} lost, {len(self.twice())} twice; {len(self.unanswered)} ADDJOBs without an answer, "
            f"{several} bodies in several jobs, {len(self.doubled())} in more jobs than ADDJOBs; {self.errors[:5]}"
        )

    def _left(self) -> str:
        left = {job_id: node.ask("SHOW", job_id) for node in self.cluster.members for job_id in jobs_left(node)[:3]}
        return f"the end of all jobs: {self.shown()}\n{left}"

    # -- producers -------------------------------------------------------------------------------------------------

    def _bodies(self) -> Iterator[bytes]:
        """Give a body whenever it is time for the next job."""
        for number in self._numbers:
            if self._enough.wait(max(0.0, self._begin_s + number / RATE - time.monotonic())):
                return
            yield b"%d" % number

    def _add_by_redis(self) -> None:
        bodies = self._bodies()
        body = next(bodies, b"")
        for client in self._connections():
            with closing(client):
                try:
                    while body:
                        self._add(body, client.execute_command, "ADDJOB", QUEUE, body, ADD_MS, "RETRY", self.retry_s)
                        body = next(bodies, b"")
                except redis.exceptions.BusyLoadingError:
                    continue
                except BROKEN:
                    self.unanswered.append(body)
                    continue
                return

    def _add_by_disque(self) -> None:
        with Watched(self._config()) as client:
            for body in self._bodies():
                self._add(body, client.add, QUEUE, body, timeout_ms=ADD_MS, retry=self.retry_s)
                self.unanswered += [body] * client.missed
                client.missed = 0

    def _add(self, body: bytes, add: Callable[..., Any], *words: Any, **options: Any) -> None:
        begin_s = time.monotonic()
        try:
            job_id = add(*words, **options)
        except (redis.ResponseError, DisqueError) as error:  # not what tells of a lost connection
            self.errors.append(str(error))
        else:
            self.slowest_s = max(self.slowest_s, time.monotonic() - begin_s)
            self.answers[job_id if isinstance(job_id, bytes) else str(job_id).encode()] = body

    # -- consumers -------------------------------------------------------------------------------------------------

    def _take_by_redis(self) -> None:
        owed: deque[bytes] = deque()  # what is to be acknowledged, at this node or the next one
        for client in self._connections():
            with closing(client), suppress(*BROKEN):
                try:
                    self._take_from(client, owed)
                except redis.ResponseError as error:
                    self.errors.append(f"consumer: {error}")

    def _take_from(self, client: Any, owed: deque[bytes]) -> None:
        while not self._over.is_set():
            self._over.wait(WORK_S if owed else 0)
            while owed:
                client.execute_command("ACKJOB", owed[0])
                self.acked.add(owed.popleft())
            taken = client.execute_command("GETJOB", "TIMEOUT", WAIT_MS, "COUNT", 8, "FROM", QUEUE)
            for _, job_id, body in taken or []:
                self._came(job_id, body)
                owed.append(job_id)

    def _take_by_disque(self) -> None:
        with Disque(self._config()) as client:
            while not self._over.is_set():
                try:
                    taken = client.get(QUEUE, count=8, timeout=WAIT_MS / 1000)
                    for job in taken:
                        self._came(job.id.encode(), job.body)
                    self._over.wait(WORK_S if taken else 0)
                    for job in taken:
                        job.ack()
                        self.acked.add(job.id.encode())
                except DisqueError as error:
                    self.errors.append(f"consumer: {error}")

    def _came(self, job_id: bytes, body: bytes) -> None:
        self.deliveries.setdefault(job_id, []).append(body)

    # -- clients ---------------------------------------------------------------------------------------------------

    def _connections(self) -> Iterator[Any]:
        """Give a client that is connected to any node and repeats nothing, until it is over."""
        while not self._over.is_set():
            node = random.choice(self.cluster.members)
            try:
                client = redis.Redis(
                    node.host,
                    node.port,
                    socket_timeout=ADD_MS / 1000 + GIVE_UP_S,
                    retry=Retry(NoBackoff(), 0),
                    single_connection_client=True,
                )
            except BROKEN:
                self._over.wait(SLOW_POLL_S)
                continue
            yield client

    def _config(self) -> Config:
        return Config(nodes=tuple((node.host, node.port) for node in self.cluster.members))


@contextmanager
def load(directory: Path, kind: str, retry_s: int, *options: str) -> Iterator[Book]:
    """Three nodes and clients of this kind at work; at the end the jobs are, too."""
    cluster = Cluster(directory, 3, *USUAL, *options, places=[WHOLE] * 3)
    try:
        cluster.start_whole()
        book = Book(cluster, kind, retry_s)
        try:
            book.begin()
            book.more()
            yield book
            book.finish()
        finally:
            book.end()
        logging.getLogger(__name__).info("%d rounds: %s", ROUNDS, book.shown())
    finally:
        cluster.discard()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [REDIS, DISQUE])
@pytest.mark.parametrize("replicate", [3, 2])
def test_a_rolling_restart_refuses_nobody_and_brings_each_job_once(tmp_path: Path, replicate: int, kind: str) -> None:
    options = ("--default-replicate", "2") if replicate == 2 else ()  # 3 is what counts where nothing is said
    with load(tmp_path, kind, NEVER_S, *options) as book:
        for _ in range(ROUNDS):
            for node in book.cluster.members:
                book.restart(node, book.cluster.stop)
    assert not book.errors, book.shown()
    assert not book.lost(), book.shown()
    assert not book.twice(), book.shown()
    assert not book.doubled(), book.shown()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [REDIS, DISQUE])
def test_nodes_that_are_killed_and_started_again_refuse_nobody_and_lose_nothing(tmp_path: Path, kind: str) -> None:
    with load(tmp_path, kind, SOON_S) as book:
        for _ in range(ROUNDS):
            for node in book.cluster.members:
                book.restart(node, book.cluster.kill)
    assert not book.errors, book.shown()
    assert not book.lost(), book.shown()
    assert not book.doubled(), book.shown()


def add_by_redis(node: Node) -> Any:
    with closing(redis.Redis(node.host, node.port, socket_timeout=ADD_MS / 1000 + GIVE_UP_S)) as client:
        return client.execute_command("ADDJOB", QUEUE, "body", ADD_MS, "REPLICATE", 3)


def add_by_disque(node: Node) -> str:
    with Disque(Config(nodes=((node.host, node.port),))) as client:
        return client.add(QUEUE, "body", timeout_ms=ADD_MS, replicate=3)


@pytest.mark.slow
@pytest.mark.parametrize("add", [add_by_redis, add_by_disque])
@pytest.mark.parametrize("end", [Cluster.stop, Cluster.kill])
def test_who_adds_a_job_for_all_nodes_while_one_is_away_gets_its_id(
    tmp_path: Path, end: Callable[[Cluster, Node], None], add: Callable[[Node], Any]
) -> None:
    cluster = Cluster(tmp_path, 3, *USUAL)
    one, _, three = cluster.members
    try:
        cluster.start_whole()
        end(cluster, three)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(add, one)
            until(lambda: waits(one), "an ADDJOB that waits")
            threading.Event().wait(DOWN_S)
            cluster.start_whole()
            job_id = answer.result()
        assert all(node.ask("SHOW", job_id) for node in cluster.members)
    finally:
        cluster.discard()


def waits(node: Node) -> bool:
    return int(node.info("waiting_for_copies")) > 0


def test_a_job_for_all_nodes_waits_for_the_one_that_is_down(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    one, two, three = cluster.members
    cluster.kill(three)
    cluster.await_failed(three)
    with closing(Raw((one.host, one.port))) as raw, closing(Raw((two.host, two.port))) as other:
        raw.send(request("ADDJOB", "q", "body", 30_000, "REPLICATE", 3))
        other.send(request("ADDJOB", "q", "unique", 30_000, "UNIQUE", "key", 60))
        until(lambda: waits(one) and waits(two), "ADDJOBs that wait")
        assert b"cluster_state:degraded" in one.ask("CLUSTER", "INFO")
        cluster.start_whole()
        assert all(three.ask("SHOW", job_id) for job_id in (raw.reply(), other.reply()))
        assert b"cluster_state:ok" in one.ask("CLUSTER", "INFO")


def said(node: Node, text: str) -> str:
    """What the node has logged, if this is there."""
    log = node.log()
    return log if text in log else ""


def test_a_planned_stop_is_no_suspicion_in_the_log(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    one, two, three = cluster.members
    cluster.stop(three)
    cluster.await_failed(three)
    cluster.start_whole()
    for node in (one, two):
        log = until(partial(said, node, f":{three.port} is back"), node.log)
        assert log.count(f":{three.port} has stopped") == log.count(f":{three.port} is back") == 1, log
        assert "suspected" not in log
