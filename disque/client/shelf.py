"""The state of an iteration over jobs: jobs that are ready, and acknowledgements on their way. It never waits.

The next jobs are fetched when half of them are handed out, so that many come at a time. Acknowledgements collect while
others are on their way, and all that have collected when a reply comes are sent together. So none waits longer than one
round trip, however slow the consumer is, and a fast consumer pays little for each.
"""

from collections import deque
from typing import Final, Generic, Protocol, TypeVar

from disque.client.values import comes_again


class Identified(Protocol):
    """A job, of which only the ID counts here."""

    id: str


J = TypeVar("J", bound=Identified)

#: Jobs that are kept ready, unless said otherwise.
PREFETCH: Final = 64
#: Acknowledgements that may gather before the consumer waits for them.
PILE_MOST: Final = 1000


class Shelf(Generic[J]):
    """Jobs that are ready. ``count`` is the most that one fetch may bring."""

    def __init__(self, prefetch: int, count: int | None) -> None:
        if prefetch < 0:
            raise ValueError(f"prefetch must not be negative, but is {prefetch}")
        if count is not None and count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        self.ready: deque[J] = deque()
        self.prefetch = prefetch
        self.count = count or max(prefetch, 1)
        self.ended = False
        self.stopped = False
        self.error: BaseException | None = None

    def stop(self) -> None:
        """Fetch nothing more, and of what is there hand out only what cannot be given back."""
        self.ended = self.stopped = True

    def next(self) -> J | None:
        """The next job to be handed out, or None.

        After a stop these are the at-most-once jobs: a node takes none of them back, so nobody else would get them.
        """
        if not self.stopped:
            return self.ready.popleft() if self.ready else None
        for at, job in enumerate(self.ready):
            if not comes_again(job.id):
                del self.ready[at]
                return job
        return None

    def wanted(self) -> int:
        """How many jobs should be fetched now."""
        if self.ended or len(self.ready) > self.prefetch // 2:
            return 0
        return min(self.count, self.prefetch - len(self.ready))

    def rest(self) -> list[J]:
        """End it, and give what was not handed out."""
        self.ended = True
        rest = list(self.ready)
        self.ready.clear()
        return rest


class Pile:
    """Acknowledgements that are not sent yet."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.ended = False
        self.error: BaseException | None = None

    @property
    def full(self) -> bool:
        """Whether whoever brings more must wait."""
        return len(self.ids) >= PILE_MOST and self.error is None

    def take(self) -> list[str]:
        """What is to be sent now; `sent` must follow."""
        ids, self.ids = self.ids, []
        return ids

    def sent(self, error: BaseException | None = None) -> None:
        """What was taken has been sent, or that has failed."""
        self.error = self.error or error

    def fault(self) -> BaseException | None:
        """What went wrong since this was asked last."""
        error, self.error = self.error, None
        return error
