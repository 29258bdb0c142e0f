"""Results of tasks, kept as ends of jobs: at any node, for as long as wanted, as safe as jobs.

A result is the RESULT of a job in a queue of its own. The job is found by a key, which is the ID of the task.
"""

from typing import Any, Final, TypeVar

from taskiq.abc.result_backend import AsyncResultBackend
from taskiq.abc.serializer import TaskiqSerializer
from taskiq.exceptions import ResultGetError
from taskiq.result import TaskiqResult
from taskiq.serializers import JSONSerializer

from disque.client import AsyncDisque, Config, NoReplError
from disque.client.ends import Result

T = TypeVar("T")
QUEUE: Final = "taskiq:results"
DAY_S: Final = 86_400
#: A key is kept for so long at most: then its result is not found any more.
RETAIN_MOST_S: Final = 7 * DAY_S


class NoResultError(ResultGetError):
    """There is no result of this task, or not yet, or not any more."""


class DisqueResultBackend(AsyncResultBackend[T]):
    """Keeps results for ``retain`` seconds, a week at most, on ``replicate`` nodes; 1 MB is the longest."""

    def __init__(
        self,
        url: str | Config = "disque://127.0.0.1:7711",
        queue: str = QUEUE,
        *,
        retain: float = DAY_S,
        replicate: int | None = None,
        serializer: TaskiqSerializer | None = None,
    ) -> None:
        if not 0 < retain <= RETAIN_MOST_S:
            raise ValueError(f"retain must be above 0 and at most {RETAIN_MOST_S} seconds, not {retain!r}")
        self.client = AsyncDisque(url)
        self.queue = queue
        self.retain_s = retain
        self.replicate = replicate
        self.serializer = serializer or JSONSerializer()

    async def shutdown(self) -> None:
        """Close all connections."""
        await self.client.aclose()

    async def set_result(self, task_id: str, result: TaskiqResult[T]) -> None:
        """Keep a result; the first one for a task counts. Raises DisqueError, and TypeError of the serializer.

        Where a node hangs, there may be too few for the time of one request. After that it is known to hang, and
        another one takes its place: so it is tried twice.
        """
        words = self.serializer.dumpb(result.model_dump())
        try:
            job_id = await self._begin(task_id)
        except NoReplError:
            job_id = await self._begin(task_id)
        await self.client.settle(job_id, None, words)

    async def _begin(self, task_id: str) -> str:
        """Add the job whose end is the result; the same one if there is one already. Returns its ID."""
        life_s = self.retain_s
        return await self.client.add(
            self.queue, b"", unique=task_id, window=life_s, retain=life_s, ttl=life_s, replicate=self.replicate
        )

    async def is_result_ready(self, task_id: str) -> bool:
        """Whether there is a result. Raises DisqueError."""
        return await self._find(task_id) is not None

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[T]:
        """The result of a task. Raises NoResultError, DisqueError."""
        del with_logs  # taskiq does not gather them any more
        found = await self._find(task_id)
        if found is None or found.result is None:
            raise NoResultError
        words: Any = self.serializer.loadb(found.result)
        found_result: TaskiqResult[T] = TaskiqResult.model_validate(words)
        return found_result

    async def _find(self, task_id: str) -> Result | None:
        job_id = await self.client.find(self.queue, task_id)
        found = None if job_id is None else await self.client.result(job_id)
        return found if found is not None and found.done else None
