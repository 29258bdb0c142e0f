"""The job that the running function works on: `current()`."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final

from disque.client.replies import Meta

Known = Callable[[], Meta | None]


class Context:
    """The job at hand: its ``id``, ``queue`` and ``task``, and what the node told of it."""

    __slots__ = ("_known", "_say", "id", "queue", "task")

    def __init__(self, job_id: str, queue: str, task: str, known: Known, say: Callable[[str], None]) -> None:
        self.id = job_id
        self.queue = queue
        self.task = task
        self._known = known
        self._say = say

    @property
    def tries(self) -> int:
        """How many tries have ended before this one."""
        known = self._known()
        return 0 if known is None else known.tries

    @property
    def tries_left(self) -> int | None:
        """How many tries there are, with this one; None: without end."""
        known = self._known()
        return None if known is None else known.tries_left

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the job."""
        known = self._known()
        return {} if known is None else known.headers

    @property
    def error(self) -> str | None:
        """Why the job failed last."""
        known = self._known()
        return None if known is None else known.error

    def progress(self, text: str) -> None:
        """Say how far the work is, in a text of at most 1 KB: `Job.status` shows it. It is sent soon, never awaited."""
        self._say(text)

    def __repr__(self) -> str:
        return f"<Context {self.id} of {self.task}>"


CURRENT: Final[ContextVar[Context]] = ContextVar("disque_task")


def current() -> Context:
    """The job that the calling function works on. Raises RuntimeError outside of a worker."""
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("no job is being worked on here") from None
