"""Jobs as consumers see them."""

import json
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from disque.client.config import Address
from disque.client.replies import Delivered
from disque.client.values import Duration

if TYPE_CHECKING:
    from disque.client.client import Disque
    from disque.client.heartbeat import KeepWorking
    from disque.client.stream import Acknowledger


class AnyJob:
    """What all jobs have: ``queue`` is text, ``body`` are bytes, counters are 0 where they were not wanted."""

    __slots__ = ("additional_deliveries", "body", "id", "nacks", "node", "queue")

    def __init__(self, delivered: Delivered, node: Address | None) -> None:
        self.id, self.queue, self.body, self.nacks, self.additional_deliveries = delivered
        self.node = node

    def delivered(self) -> Delivered:
        """What the node gave."""
        return Delivered(self.id, self.queue, self.body, self.nacks, self.additional_deliveries)

    def json(self) -> Any:  # noqa: ANN401 - that is what JSON is
        """The body read as JSON. Raises ValueError."""
        return json.loads(self.body)

    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError, which is a ValueError."""
        return self.body.decode()

    def __repr__(self) -> str:
        body = self.body if len(self.body) <= 40 else self.body[:40] + b"..."
        return f"<{type(self).__name__} {self.id} of {self.queue!r}: {body!r}>"


def by_node(jobs: Iterable[AnyJob]) -> dict[Address | None, list[str]]:
    """The IDs of jobs, by the node that gave them."""
    groups: dict[Address | None, list[str]] = {}
    for job in jobs:
        groups.setdefault(job.node, []).append(job.id)
    return groups


class Job(AnyJob):
    """A job that was delivered, with what can be done with it.

    As a context manager it is acknowledged when the block ends, and given back (NACK) when an exception leaves it,
    which goes on; what was acknowledged or given back inside is left alone.
    """

    __slots__ = ("_acknowledger", "_client", "_settled")

    def __init__(
        self,
        client: "Disque",
        delivered: Delivered,
        node: Address | None = None,
        acknowledger: "Acknowledger | None" = None,
    ) -> None:
        super().__init__(delivered, node)
        self._client = client
        self._acknowledger = acknowledger
        self._settled = False

    def __reduce__(self) -> tuple[type[Self], tuple["Disque", Delivered, Address | None]]:
        return type(self), (self._client, self.delivered(), self.node)

    def ack(self) -> None:
        """The job is done. Inside `Disque.jobs` with prefetch it is told soon, together with others."""
        self._settled = True
        if self._acknowledger is None or not self._acknowledger.put(self.id):
            self._client.settle(self.id, self.node)

    def nack(self, *, delay: Duration | None = None) -> None:
        """Give the job back to its queue, now or after a delay."""
        self._settled = True
        self._client.give_back([self.id], self.node, delay)

    def working(self) -> int:
        """Start the RETRY again: its seconds. Raises NoJobError, TooLateError."""
        return self._client.working_one(self.id, self.node)

    def keep_working(self) -> "KeepWorking":
        """Say WORKING in the background, as often as needed, while the block of this context manager runs."""
        return self._client.keep_working([self])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if error is None:
            self.ack()
        else:
            self._client.give_back_quietly([self.id], self.node)
