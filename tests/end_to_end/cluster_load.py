"""Producers and consumers at all nodes of a cluster that go elsewhere when their node fails, and give up nothing.

Producers speak over plain sockets, so that every answer that was read counts even when the connection breaks within a
pipeline; consumers are redis-py, as those of an application.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.end_to_end.cluster import JOBS, Cluster
from tests.end_to_end.cluster_account import Account, Said, Wish, at_least_once
from tests.end_to_end.node import SLOW_POLL_S, Node, Raw, ServerError, request, until

QUEUE: Final = "load"
DEPTH: Final = 10  # requests of a producer that are unanswered at a time
COUNT: Final = 8  # jobs that a consumer takes at a time
PAUSE_S: Final = 0.01  # between the requests of a producer, so that nodes are busy and not overrun
AHEAD: Final = 1000  # so many jobs at most are not acknowledged yet
ADD_MS: Final = 8000  # how long an ADDJOB waits for its copies
GIVE_UP_S: Final = 5.0  # how long a consumer waits for an answer
WAIT_MS: Final = 200  # how long a GETJOB waits for jobs

FORGOTTEN: Final = 0.1  # so many jobs are not acknowledged when they come for the first time


class Load:
    """Threads that go on until they are told to stop. Producers begin at one node each, consumers anywhere."""

    def __init__(self, cluster: Cluster, replicate: int) -> None:
        self.cluster = cluster
        self.replicate = replicate
        self.account = Account(cluster.faults, cluster.stops)
        self._enough = threading.Event()
        self._over = threading.Event()
        self._producers: list[threading.Thread] = []
        self._consumers: list[threading.Thread] = []
        self._broken: list[BaseException] = []

    def produce(self, threads: int) -> None:
        self._producers = [self._thread(self._produce, number) for number in range(threads)]

    def consume(self, threads: int) -> None:
        self.account.jobs_per_get = COUNT * threads * len(self.cluster.members)
        self._consumers = [self._thread(self._consume, number) for number in range(threads)]

    def _thread(self, work: Callable[[int], None], number: int) -> threading.Thread:
        thread = threading.Thread(target=self._guard, args=(work, number))
        thread.start()
        return thread

    def _guard(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            self._broken.append(error)
            raise

    # -- what a test does with it ----------------------------------------------------------------------------------

    def more(self, jobs: int = JOBS, acked: int | None = None) -> None:
        """Wait until so many more jobs were answered, and as many were acknowledged if not said otherwise."""
        account = self.account
        answered, done = len(account.answers) + jobs, account.acked() + (jobs if acked is None else acked)
        until(
            lambda: self._broken or (len(account.answers) >= answered and account.acked() >= done),
            lambda: f"{jobs} more jobs: {account}\n{account.errors[-3:]}\n{self.cluster.describe()}",
            SLOW_POLL_S,
        )
        assert not self._broken

    def enough(self) -> None:
        """Add no more, and wait for the last answers."""
        self._enough.set()
        for thread in self._producers:
            thread.join()

    def settle(self, *errors_allowed: str) -> None:
        """Add no more, wait until nothing is left at any node, and judge. The cluster must be whole."""
        self.enough()
        until(lambda: self._broken or self._nothing_left(), self._what_is_left, SLOW_POLL_S)
        self.end()
        assert not self._broken
        spent = sum(int(node.info("registered_jobs")) for node in self.cluster.members)
        logging.getLogger(__name__).info("%s; at-most-once jobs that are remembered: %d", self.account, spent)
        self.account.check(errors_allowed)

    def end(self) -> None:
        self._enough.set()
        self._over.set()
        for thread in [*self._producers, *self._consumers]:
            thread.join()

    def _nothing_left(self) -> bool:
        if any(int(node.info("waiting_for_copies")) for node in self.cluster.members):
            return False
        return not any(map(jobs_left, self.cluster.members))

    def _what_is_left(self) -> str:
        lines = [f"the end of all jobs: {self.account}"]
        for node in self.cluster.members:
            left = jobs_left(node)
            shown = [node.ask("SHOW", job_id) for job_id in left[:3]]
            lines.append(f"{node.port}: {len(left)} left, {shown} {[self._tale(job_id) for job_id in left[:3]]}")
        return "\n".join(lines)

    def _tale(self, job_id: bytes) -> list[Any]:
        account = self.account
        return [words.get(job_id) for words in (account.deliveries, account.acks, account.nacks)]

    # -- going from node to node -----------------------------------------------------------------------------------

    def _somewhere(self, number: int, failed: int) -> Node:
        """Give the node where a client tries it: its own first, then any."""
        members = self.cluster.members
        return members[number % len(members)] if not failed else random.choice(members)

    def _failed(self, error: Exception) -> None:
        self.account.reconnects.append(repr(error))
        self._over.wait(SLOW_POLL_S)

    # -- producers -------------------------------------------------------------------------------------------------

    def _produce(self, number: int) -> None:
        wishes = self._wishes(number)
        for failed in count():
            node = self._somewhere(number, failed)
            try:
                with closing(Raw((node.host, node.port), ADD_MS / 1000 + 2)) as raw:
                    self._add(raw, wishes)
            except (OSError, EOFError) as error:
                self._failed(error)
            if self._enough.is_set():
                return

    def _add(self, raw: Raw, wishes: Iterator[Wish]) -> None:
        """Add until it is enough. Raises what a broken connection raises; LOADING is one, as clients see it."""
        account = self.account
        while not self._enough.wait(PAUSE_S):
            if len(account.answers) - account.acked() > AHEAD:
                continue
            batch = [next(wishes) for _ in range(DEPTH)]
            account.sent.update({wish.body: wish for wish in batch})
            raw.send(b"".join([request(*wish.words(QUEUE, ADD_MS)) for wish in batch]))
            for wish in batch:
                self._answered(wish, raw.reply())

    def _answered(self, wish: Wish, reply: Any) -> None:
        if not isinstance(reply, ServerError):
            self.account.answers[wish.body] = reply
        elif str(reply).startswith("LOADING"):
            raise EOFError(reply)
        else:
            self.account.error(str(reply))
            self.account.refused.append(wish)

    def _wishes(self, producer: int) -> Iterator[Wish]:
        """All kinds of jobs. Producers use the same keys at about the same time."""
        replicate = self.replicate
        for number in count():
            body = b"%d-%d" % (producer, number)
            plain = Wish(body, replicate, 1 + number % 2)
            kind = number % 20
            if kind < 2:
                yield plain._replace(replicate=1, retry_s=0)
            elif kind == 2:
                yield plain._replace(delay_s=1)
            elif kind == 3:
                yield plain._replace(asynchronous=True)
            elif kind < 6:
                yield plain._replace(key=b"key-%d" % (number // 2))
            else:
                yield plain

    # -- consumers -------------------------------------------------------------------------------------------------

    def _consume(self, number: int) -> None:
        for failed in count():
            if self._over.is_set():
                return
            near, far = self._somewhere(number, failed), random.choice(self.cluster.members)
            with closing(self._client(near)) as here, closing(self._client(far)) as elsewhere:
                self._take_all(here, elsewhere)

    def _client(self, node: Node) -> Any:
        # Whatever cannot be known after a break is known to be unknown: nothing is repeated unseen.
        return redis.Redis(node.host, node.port, socket_timeout=GIVE_UP_S, retry=Retry(NoBackoff(), 0))

    def _take_all(self, here: Any, elsewhere: Any) -> None:
        """Take and acknowledge until the end, or until a connection breaks."""
        account = self.account
        try:
            while not self._over.is_set():
                jobs = self._take(here)
                if jobs:
                    self._done(here if random.random() < 0.7 else elsewhere, jobs)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self._failed(error)
        except redis.ResponseError as error:
            if not str(error).startswith("LEAVING"):
                account.error(str(error))
            self._failed(error)

    def _take(self, here: Any) -> list[tuple[bytes, int]]:
        """Take some jobs; give their IDs, and how often each came."""
        asked_s = time.monotonic()
        try:
            jobs = here.execute_command("GETJOB", "TIMEOUT", WAIT_MS, "COUNT", COUNT, "FROM", QUEUE) or []
        except (redis.ConnectionError, redis.TimeoutError):
            self.account.gets_lost += 1
            raise
        return [(job_id, self.account.delivered(job_id, body, port_of(here), asked_s)) for _, job_id, body in jobs]

    def _done(self, node: Any, jobs: list[tuple[bytes, int]]) -> None:
        """Acknowledge; some jobs that came for the first time are given back, or forgotten until they come again."""
        words = [("ACKJOB", job_id) for job_id, _ in jobs]
        for place, (job_id, times) in enumerate(jobs):
            if times == 1 and at_least_once(job_id):
                luck = random.random()
                words[place] = ("NACK" if luck < 0.03 else "" if luck < 0.03 + FORGOTTEN else "ACKJOB", job_id)
        self._say(node, [word for word in words if word[0]])

    def _say(self, node: Any, words: list[tuple[str, bytes]]) -> None:
        pipeline = node.pipeline(transaction=False)
        for word in words:
            pipeline.execute_command(*word)
        tried_s = time.monotonic()
        replies: list[Any] = [None] * len(words)
        try:
            replies = pipeline.execute(raise_on_error=False)
        finally:
            self._note(words, replies, port_of(node), tried_s)

    def _note(self, words: list[tuple[str, bytes]], replies: list[Any], port: int, tried_s: float) -> None:
        account = self.account
        now_s = time.monotonic()
        for (verb, job_id), reply in zip(words, replies, strict=True):
            if isinstance(reply, Exception):
                account.error(f"{reply} ({verb})")
                continue
            book = account.acks if verb == "ACKJOB" else account.nacks
            book.setdefault(job_id, []).append(Said(port, tried_s, now_s, reply))


def port_of(client: Any) -> int:
    """Where a client of redis-py is connected."""
    port: int = client.get_connection_kwargs()["port"]
    return port


def jobs_left(node: Node) -> list[bytes]:
    """Jobs of a node that still have to do: not those at-most-once ones that left it and reached nobody."""
    if not int(node.info("registered_jobs")):
        return []
    _, ids = node.ask("JSCAN", 0, "BUSYLOOP")
    spent = node.ask("JSCAN", 0, "BUSYLOOP", "STATE", "active")[1]
    return [job_id for job_id in ids if at_least_once(job_id) or job_id not in spent]


@contextmanager
def cluster_load(cluster: Cluster, replicate: int, *errors_allowed: str, consumers: int = 3) -> Iterator[Load]:
    """Load the cluster within the block, and judge at its end, when it must be whole."""
    running = Load(cluster, replicate)
    try:
        running.produce(2)
        running.consume(consumers)
        yield running
        running.settle(*errors_allowed)
    finally:
        running.end()
