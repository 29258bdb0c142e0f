"""Producers and consumers that load a server until it dies under them, and the account of what they were promised."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

from tests.end_to_end.node import LOOPBACK, Node, Raw, ServerError, drain, request, until

QUEUE: Final = "load"
DEPTH: Final = 32  # requests of a producer that are unanswered at a time
COUNT: Final = 16  # jobs that a consumer takes at a time
RETRY_S: Final = 3600  # nothing comes back by itself while a test lasts


class Account:
    """What clients saw. Bodies name the jobs: a job may be there although its ADDJOB was not answered.

    `added` maps IDs that were answered to bodies; `at_most_once` are bodies of jobs without a retry. `delivered` are
    bodies in the order in which consumers read them. An acknowledgement is `tried` when sent and `acked` when answered.
    """

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.added: dict[bytes, bytes] = {}
        self.at_most_once: set[bytes] = set()
        self.delivered: list[bytes] = []
        self.tried: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.errors: list[str] = []
        self.crashes = 0
        self.consumers = 0

    def check(self, left: list[bytes]) -> None:
        """Compare with the bodies that are `left` in the queue after the crashes."""
        assert not self.errors
        promised = set(self.added.values())
        queued = set(left)
        assert len(left) == len(queued), "a job is queued twice"
        assert queued <= self.sent, "a job that nobody added"
        assert not promised - self.at_most_once - self.tried - queued, "at-least-once jobs are lost"
        assert not self.acked & queued, "acknowledged jobs are back"
        assert not queued & self.at_most_once & set(self.delivered), "at-most-once jobs would be delivered twice"
        self._check_deliveries()
        unread = promised & self.at_most_once - set(self.delivered) - queued
        assert len(unread) <= self.crashes * self.consumers * COUNT, (
            "at-most-once jobs are lost that nobody can have got"
        )

    def _check_deliveries(self) -> None:
        again = {body for body, times in Counter(self.delivered).items() if times > 1}
        assert not again & self.at_most_once, "at-most-once jobs were delivered twice"
        assert not again & self.acked - self.tried, "delivered after an acknowledgement"


class Load:
    """Threads that add, take and acknowledge until the connection breaks or they are told to stop."""

    def __init__(self, node: Node, account: Account, name: str) -> None:
        self._node = node
        self._account = account
        self._name = name
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, producers: int, consumers: int) -> None:
        self._account.consumers = consumers
        jobs: list[tuple[Callable[[Raw, str], None], str]] = [
            (self._produce, f"{self._name}-{number}") for number in range(producers)
        ]
        jobs += [(self._consume, "") for _ in range(consumers)]
        for work, name in jobs:
            thread = threading.Thread(target=self._guard, args=(work, name))
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _guard(self, work: Callable[[Raw, str], None], name: str) -> None:
        with suppress(OSError, EOFError), closing(Raw((LOOPBACK, self._node.port))) as raw:
            work(raw, name)

    def _produce(self, raw: Raw, name: str) -> None:
        account = self._account
        number = 0
        while not self._over.is_set():
            bodies = [f"{name}-{number + offset}".encode() for offset in range(DEPTH)]
            number += DEPTH
            account.sent.update(bodies)
            account.at_most_once.update(bodies[::4])
            retries = [0 if offset % 4 == 0 else RETRY_S for offset in range(DEPTH)]
            raw.send(
                b"".join(
                    request("ADDJOB", QUEUE, body, 0, "RETRY", retry)
                    for body, retry in zip(bodies, retries, strict=True)
                )
            )
            for body in bodies:
                job_id = self._answer(raw)
                if job_id is not None:
                    account.added[job_id] = body

    def _consume(self, raw: Raw, _: str) -> None:
        account = self._account
        while not self._over.is_set():
            raw.send(request("GETJOB", "TIMEOUT", 50, "COUNT", COUNT, "FROM", QUEUE))
            jobs = self._answer(raw) or []
            account.delivered.extend(body for _, _, body in jobs)
            done = jobs[: len(jobs) * 3 // 4]  # others stay out, and come back after a crash
            account.tried.update(body for _, _, body in done)
            raw.send(b"".join(request("ACKJOB", job_id) for _, job_id, _ in done))
            for _, _, body in done:
                if self._answer(raw) is not None:
                    account.acked.add(body)

    def _answer(self, raw: Raw) -> Any:
        reply = raw.reply()
        if isinstance(reply, ServerError):
            self._account.errors.append(str(reply))
            return None
        return reply


@contextmanager
def load(node: Node, account: Account, producers: int = 3, consumers: int = 2) -> Iterator[Load]:
    """Load the node within the block; at its end, whatever happened, nobody asks it any more."""
    running = Load(node, account, f"{account.crashes}-{len(account.sent)}")
    running.begin(producers, consumers)
    try:
        yield running
    finally:
        running.end()


def crash_under_load(node: Node, account: Account, jobs: int) -> None:
    """Let `jobs` be answered, with consumers at work, then kill -9."""
    goal = len(account.added) + jobs
    with load(node, account):
        until(lambda: len(account.added) >= goal or account.errors, f"{goal} jobs")
        node.kill()
    account.crashes += 1


def bodies_left(node: Node) -> list[bytes]:
    """Take everything that is queued."""
    return [body for _, body in drain(node.raw().ask, QUEUE)]
