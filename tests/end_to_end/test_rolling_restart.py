"""Three nodes are restarted one after the other, and jobs want a copy on each: nobody is refused, all wait.

RESTART_ROUNDS says how often each node is restarted, RESTART_PRODUCERS among how many threads the load is spread,
RESTART_TIMEOUT_MS how long an ADDJOB waits: 5000 is enough where processes start within that.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count, pairwise
from typing import Any, Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from disque.client import Config, Disque, DisqueError, UnavailableError
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import SLOW_POLL_S, Node, Raw, request, until

ROUNDS: Final = int(os.environ.get("RESTART_ROUNDS", "2"))
QUEUE: Final = "load"
RETRY_S: Final = 10
ADD_MS: Final = int(os.environ.get("RESTART_TIMEOUT_MS", "30000"))  # longer than a start on a machine that is busy
GIVE_UP_S: Final = 10.0  # what an answer may be late
#: Producers of each kind, and seconds between the jobs of one: 200 jobs a second together, but for those that wait.
PRODUCERS: Final = int(os.environ.get("RESTART_PRODUCERS", "10"))
PAUSE_S: Final = PRODUCERS / 100
CONSUMERS: Final = 2
LEAST: Final = 200  # jobs between two restarts


class Book:
    """What clients of both kinds were told. Each thread only adds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.answers: dict[bytes, bytes] = {}  # body to ID
        self.unknown: list[str] = []  # what ended a connection in an ADDJOB
        self.errors: list[str] = []
        self.deliveries: dict[bytes, list[float]] = {}
        self.acked: set[bytes] = set()
        self.slowest_s = 0.0
        self._enough = threading.Event()
        self._over = threading.Event()
        works: list[Callable[[int], None]] = [self._add_by_redis, self._add_by_disque] * PRODUCERS
        self._producers = [threading.Thread(target=work, args=(number,)) for number, work in enumerate(works)]
        takers: list[Callable[[int], None]] = [self._take_by_redis, self._take_by_disque] * CONSUMERS
        self._consumers = [threading.Thread(target=work, args=(number,)) for number, work in enumerate(takers)]

    def begin(self) -> None:
        for thread in [*self._producers, *self._consumers]:
            thread.start()

    def more(self) -> None:
        """Wait until jobs have passed."""
        answered, done = len(self.answers) + LEAST, len(self.acked) + LEAST
        until(lambda: len(self.answers) >= answered and len(self.acked) >= done, self.shown, SLOW_POLL_S)

    def finish(self) -> None:
        """Add no more, and wait until all that was answered has come."""
        self._enough.set()
        for thread in self._producers:
            thread.join()
        until(lambda: self.acked.issuperset(self.answers.values()), self.shown, SLOW_POLL_S)

    def end(self) -> None:
        self._enough.set()
        self._over.set()
        for thread in [*self._producers, *self._consumers]:
            thread.join()

    def lost(self) -> list[bytes]:
        return [job_id for job_id in self.answers.values() if job_id not in self.deliveries]

    def twice(self) -> list[bytes]:
        """Jobs that came once more before their RETRY."""
        return [
            job_id
            for job_id, times in self.deliveries.items()
            if any(second - first < RETRY_S for first, second in pairwise(sorted(times)))
        ]

    def shown(self) -> str:
        late = [job_id for job_id, times in self.deliveries.items() if len(times) > 1]
        return (
            f"{len(self.answers)} answered, slowest after {self.slowest_s:.2f} s, {len(self.acked)} acknowledged, "
            f"{len(self.lost())} lost, {len(self.twice())} twice, {len(late)} again after RETRY, "
            f"{len(self.unknown)} connections lost in ADDJOB, errors {self.errors[:5]}"
        )

    # -- producers -------------------------------------------------------------------------------------------------

    def _bodies(self, number: int) -> Iterator[bytes]:
        for each in count():
            if self._enough.wait(PAUSE_S):
                return
            yield b"%d-%d" % (number, each)

    def _add_by_redis(self, number: int) -> None:
        bodies = self._bodies(number)
        for turn in count(number):
            with closing(self._redis(turn)) as client:
                try:
                    for body in bodies:
                        self._add(body, client.execute_command, "ADDJOB", QUEUE, body, ADD_MS, "RETRY", RETRY_S)
                except (redis.ConnectionError, redis.TimeoutError) as error:
                    self.unknown.append(repr(error))
                    self._over.wait(SLOW_POLL_S)
                    continue
                return

    def _add_by_disque(self, number: int) -> None:
        with Disque(self._config(number)) as client:
            for body in self._bodies(number):
                try:
                    self._add(body, client.add, QUEUE, body, timeout_ms=ADD_MS, retry=RETRY_S)
                except UnavailableError as error:
                    self.unknown.append(repr(error))

    def _add(self, body: bytes, add: Callable[..., Any], *words: Any, **options: Any) -> None:
        begin_s = time.monotonic()
        try:
            job_id = add(*words, **options)
        except (redis.ConnectionError, redis.TimeoutError):
            raise
        except (redis.ResponseError, DisqueError) as error:
            self.errors.append(str(error))
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin_s)
        self.answers[body] = job_id if isinstance(job_id, bytes) else str(job_id).encode()

    # -- consumers -------------------------------------------------------------------------------------------------

    def _take_by_redis(self, number: int) -> None:
        for turn in count(number):
            if self._over.is_set():
                return
            with closing(self._redis(turn)) as client:
                try:
                    while not self._over.is_set():
                        jobs = client.execute_command("GETJOB", "TIMEOUT", 200, "COUNT", 8, "FROM", QUEUE) or []
                        for _, job_id, _ in jobs:
                            self._came(job_id)
                        for _, job_id, _ in jobs:
                            self._acknowledge(job_id, turn)
                except (redis.ConnectionError, redis.TimeoutError):
                    self._over.wait(SLOW_POLL_S)

    def _acknowledge(self, job_id: bytes, turn: int) -> None:
        """Acknowledge at any node, until one has answered."""
        for place in count(turn):
            with closing(self._redis(place)) as client:
                try:
                    client.execute_command("ACKJOB", job_id)
                except (redis.ConnectionError, redis.TimeoutError):
                    self._over.wait(SLOW_POLL_S)
                    continue
            self.acked.add(job_id)
            return

    def _take_by_disque(self, number: int) -> None:
        with Disque(self._config(number)) as client:
            while not self._over.is_set():
                try:
                    for job in client.get(QUEUE, count=8, timeout=0.2):
                        self._came(job.id.encode())
                        job.ack()
                        self.acked.add(job.id.encode())
                except UnavailableError:
                    self._over.wait(SLOW_POLL_S)

    def _came(self, job_id: bytes) -> None:
        self.deliveries.setdefault(job_id, []).append(time.monotonic())

    # -- clients ---------------------------------------------------------------------------------------------------

    def _redis(self, turn: int) -> Any:
        node = self.cluster.members[turn % len(self.cluster.members)]
        return redis.Redis(node.host, node.port, socket_timeout=ADD_MS / 1000 + GIVE_UP_S, retry=Retry(NoBackoff(), 0))

    def _config(self, number: int) -> Config:
        nodes = [(node.host, node.port) for node in self.cluster.members]
        random.Random(number).shuffle(nodes)
        return Config(nodes=tuple(nodes), order="given", attempts=100)


@pytest.mark.slow
def test_a_rolling_restart_refuses_nobody_who_wants_a_copy_on_each_node(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    book = Book(cluster)
    try:
        book.begin()
        for _ in range(ROUNDS):
            for node in cluster.members:
                book.more()
                cluster.stop(node)
                cluster.start_whole()
        book.more()
        book.finish()
    finally:
        book.end()
    logging.getLogger(__name__).info("%d rounds: %s", ROUNDS, book.shown())
    assert not book.errors, book.shown()
    assert not book.lost(), book.shown()
    assert not book.twice(), book.shown()


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
