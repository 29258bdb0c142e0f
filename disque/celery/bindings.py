"""Which queues are bound to an exchange, so that all processes agree: each binding is a job that nobody takes.

The bindings of an exchange are the jobs of the queue `kombu:bindings:<exchange>`. They are as safe as other jobs, on as
many nodes, and live as long as the broker. Those of queues that expire are written again from time to time while their
consumer lives, and go by themselves after it.

Each node shows the jobs that are queued with it, so all nodes are asked, those too that have just joined: a message is
dropped if the only binding that fits it is not seen. When one cannot be reached, what it told last still counts; soon
others have its jobs.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kombu.log import get_logger
from kombu.utils.json import dumps, loads

from disque.celery.options import FOREVER_S
from disque.client import Disque, DisqueError, UnavailableError
from disque.client.config import Address

LOG: Final = get_logger(__name__)
QUEUE: Final = "kombu:bindings:"
#: When the node that has a binding in its queue is gone, others put it into theirs after so many seconds.
RETRY_S: Final = 10
#: A binding of a queue that expires lives twice as long as its queue, and at least so many seconds.
LEAST_S: Final = 3600
#: A node that fails is not asked for so long, and after that time it is no reason to believe that bindings are missing.
COOLDOWN_S: Final = 15
MISSED_S: Final = 60
#: So long may it take to reach a node, in ms: who publishes waits for it.
CONNECT_MS: Final = 1000
ROWS_MOST: Final = 10_000


class Row(NamedTuple):
    """A binding as kombu's exchanges have it."""

    routing_key: str
    pattern: str
    queue: str


class Binding(NamedTuple):
    """A binding that was read: the job that it is, until when it lives, for how long its queue keeps messages."""

    row: Row
    job_id: str
    until_s: float
    queue_ttl_s: float | None


class Bindings:
    """The bindings of all exchanges, as one connection sees them. ``replicate``: how many nodes have each."""

    def __init__(self, client: Disque, prefix: str, replicate: int | None = None) -> None:
        self.client = client
        self.prefix = prefix
        self.replicate = replicate
        self._nodes: dict[Address, Disque] = {}
        self._failed: dict[Address, tuple[float, float]] = {}
        self._known: dict[str, dict[str, Binding]] = {}

    def read(self, exchange: str) -> list[Binding]:
        """The bindings of an exchange. Raises UnavailableError where none is known and some may be missed."""
        found, complete = self._gather(exchange)
        if not found and not complete:
            raise UnavailableError("the bindings of an exchange are not known, since nodes cannot be reached")
        return found

    def _gather(self, exchange: str) -> tuple[list[Binding], bool]:
        """What all nodes tell, and whether none may be missed."""
        found: dict[str, Binding] = {}
        complete = True
        with suppress(DisqueError):  # those that are known are asked all the same, and they tell why they do not answer
            self.client.look()
        for address in self.client.router.addresses():
            try:
                rows = self._ask(address, exchange)
            except DisqueError as error:
                complete = self._note_failure(address, error) and complete
            else:
                self._failed.pop(address, None)
                found |= {one.job_id: one for one in rows}
        if not complete:
            now_s = time.time()
            found = {one.job_id: one for one in self._known.get(exchange, {}).values() if one.until_s > now_s} | found
        self._known[exchange] = found
        return list(found.values()), complete

    def add(self, exchange: str, row: Row, queue_ttl_s: float | None = None) -> None:
        """Bind a queue, unless it is bound already for long enough. ``queue_ttl_s``: how long it keeps messages."""
        life_s = FOREVER_S if queue_ttl_s is None else max(2 * queue_ttl_s, LEAST_S)
        now_s = time.time()
        for one in self._gather(exchange)[0]:
            if one.row == row and one.until_s > now_s + life_s / 2 and one.queue_ttl_s == queue_ttl_s:
                return
        body = dumps([*row, now_s + life_s, queue_ttl_s])
        self.client.add(self._queue(exchange), body, ttl=life_s, retry=RETRY_S, replicate=self.replicate)

    def remove(self, exchange: str, rows: Iterable[Row]) -> None:
        """Bind these no more."""
        gone = set(rows)
        ids = [one.job_id for one in self._gather(exchange)[0] if one.row in gone]
        if ids:
            self.client.cancel(*ids)
            for job_id in ids:
                self._known[exchange].pop(job_id, None)

    def close(self) -> None:
        """Close all connections."""
        for node in self._nodes.values():
            node.close()

    def _queue(self, exchange: str) -> str:
        return f"{self.prefix}{QUEUE}{exchange}"

    def _ask(self, address: Address, exchange: str) -> list[Binding]:
        """What one node has. Raises DisqueError."""
        if self._cools(address):
            raise UnavailableError("it has failed a moment ago")
        if address not in self._nodes:
            config = replace(self.client.config, nodes=(address,), discover=False, attempts=1)
            limit_ms = min(config.connect_timeout_ms, CONNECT_MS)
            self._nodes[address] = Disque(replace(config, connect_timeout_ms=limit_ms))
        rows: list[Binding] = []
        for job in self._nodes[address].peek(self._queue(exchange), ROWS_MOST):
            try:
                rows.append(read_row(job.id, job.body))
            except (TypeError, ValueError):
                LOG.warning("job %s of %s is no binding", job.id, job.queue)
        return rows

    def _cools(self, address: Address) -> bool:
        return address in self._failed and time.monotonic() < self._failed[address][1] + COOLDOWN_S

    def _note_failure(self, address: Address, error: DisqueError) -> bool:
        """Whether a node has failed for so long that nothing is missed without it."""
        now_s = time.monotonic()
        first_s, last_s = self._failed.get(address, (now_s, 0.0))
        if not self._cools(address):
            LOG.warning("node %s:%d does not tell of bindings: %s", *address, error)
            last_s = now_s
        self._failed[address] = (first_s, last_s)
        return now_s > first_s + MISSED_S


def read_row(job_id: str, body: bytes) -> Binding:
    """A binding out of its job. Raises ValueError, TypeError."""
    row: list[Any] = loads(body.decode())
    routing_key, pattern, queue, until_s, queue_ttl_s = row
    return Binding(Row(str(routing_key), str(pattern), str(queue)), job_id, float(until_s), queue_ttl_s)
