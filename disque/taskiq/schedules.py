"""Schedules that the servers keep and run: no scheduler process is needed, and none must be the only one.

A cron spec or an interval is written with CRON SET, a single time is a job that waits (AT). All nodes know it, and each
tick is one job, whichever nodes are there.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from taskiq import TaskiqEvents
from taskiq.abc.schedule_source import ScheduleSource
from taskiq.labels import prepare_label
from taskiq.message import TaskiqMessage
from taskiq.scheduler.scheduled_task import ScheduledTask

from disque.client import DisqueError, NewJob
from disque.client.config import Address
from disque.taskiq.broker import DisqueBroker, addressed
from disque.taskiq.marks import PLACE, marked

PREFIX: Final = "taskiq:"
#: The label of a task that has its schedules.
SCHEDULE: Final = "schedule"
#: A label that middlewares read from the task itself: taskiq sends it with no message.
TYPES: Final = "types_of_exceptions"
#: Where an object is in memory, as its name has it: that is another place after every start.
PLACE_IN_MEMORY: Final = re.compile(r" at 0x[0-9a-fA-F]+")
#: Jobs that a node is asked for at a time.
STEP: Final = 1000


class DisqueScheduleSource(ScheduleSource):
    """Writes schedules to the servers: those in the labels of tasks when a worker starts, others when they are added.

    ``get_schedules`` gives nothing, since there is nothing to do for taskiq's scheduler: a process of it that runs all
    the same sends nothing twice. ``catchup`` says what becomes of ticks that passed while no node was up: "none",
    "last" or "all".
    """

    def __init__(self, broker: DisqueBroker, *, catchup: str = "none") -> None:
        self.broker = broker
        self.catchup = catchup
        broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, lambda _: self.startup())

    async def startup(self) -> None:
        """Write the schedules in the labels of tasks. Raises DisqueError, and ValueError for what is none."""
        for task in self.broker.get_all_tasks().values():
            if task.broker is self.broker:
                for schedule in labelled(task.task_name, task.labels):
                    if schedule.time is None or aware(schedule.time) > datetime.now(UTC):
                        await self.add_schedule(schedule)

    async def get_schedules(self) -> list[ScheduledTask]:
        """Nothing: see the class."""
        return []

    async def add_schedule(self, schedule: ScheduledTask) -> None:
        """Write a schedule, in place of one with the same ID; a single time stays as it is.

        Raises DisqueError, ValueError.
        """
        labels = {**schedule.labels, "schedule_id": schedule.schedule_id}
        prepared = {name: prepare_label(value) for name, value in labels.items()}  # as for each other message
        body = TaskiqMessage(
            task_id=schedule.task_id or PLACE,
            task_name=schedule.task_name,
            labels={name: text for name, (text, _) in prepared.items()},
            labels_types={name: kind for name, (_, kind) in prepared.items()},
            args=schedule.args,
            kwargs=schedule.kwargs,
        )
        queue, words = addressed(labels, self.broker.queue)
        message = marked(self.broker.formatter.dumps(body).message)
        name = PREFIX + schedule.schedule_id
        if schedule.time is not None:
            at = aware(schedule.time)
            words |= {"delay": None, "at": at, "unique": name}
            words = self.broker.job_options(words, (at - datetime.now(UTC)).total_seconds())
            await self.broker.client.add(queue, message, **words)
            return
        spec, zone = spec_of(schedule)
        job = NewJob(queue, message, **self.broker.job_options(words, words.get("delay", 0.0)))
        await self.broker.client.set_schedule(name, spec, job, tz=zone, catchup=self.catchup)

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule, or the task that waits for its time, in whatever queue.

        Raises DisqueError, also where it was not found, and a node that may have it cannot be asked.
        """
        name = PREFIX + schedule_id
        if not await self.broker.client.delete_schedule(name):
            job_id = await self._waiting(name)
            if job_id is not None:
                await self.broker.client.cancel(job_id)

    async def _waiting(self, name: str) -> str | None:
        """The job of a single time: in a queue of the broker or its tasks, or in any other where jobs wait."""
        labels = [task.labels for task in self.broker.get_all_tasks().values()]
        asked = {*self.broker.queues, *(str(one["queue_name"]) for one in labels if one.get("queue_name"))}
        job_id = await self._find(asked, name)
        failure: DisqueError | None = None
        for address in self.broker.client.router.addresses() if job_id is None else ():
            try:
                queues = await self._queues(address) - asked
                asked |= queues
                job_id = await self._find(queues, name)
            except DisqueError as error:
                failure = error
            if job_id is not None:
                break
        if job_id is None and failure is not None:
            raise failure
        return job_id

    async def _find(self, queues: Iterable[str], name: str) -> str | None:
        for queue in queues:
            job_id = await self.broker.client.find(queue, name)
            if job_id is not None:
                return job_id
        return None

    async def _queues(self, address: Address) -> set[str]:
        """Queues with jobs that wait, at one node: a queue where all wait for their time is in no list of queues."""
        node = self.broker.client.at(*address)
        try:
            queues: set[str] = set()
            cursor = 0
            while True:
                cursor, jobs = await node.scan_job_infos(cursor, count=STEP, states=("delayed", "queued"))
                queues |= {str(job["queue"]) for job in jobs}
                if not cursor:
                    return queues
        finally:
            with suppress(DisqueError):
                await node.aclose()


def aware(when: datetime) -> datetime:
    """A time with its zone; taskiq means UTC where there is none."""
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def spec_of(schedule: ScheduledTask) -> tuple[str, str | None]:
    """The spec of CRON and its time zone. Raises ValueError for an offset that is no time zone."""
    if schedule.interval is not None:
        interval = schedule.interval
        seconds = interval.total_seconds() if isinstance(interval, timedelta) else interval
        return f"@every {seconds:.0f}s", None
    offset = schedule.cron_offset
    if isinstance(offset, timedelta):
        if offset:
            raise ValueError("cron_offset must be the name of a time zone, such as Europe/Berlin")
        offset = None
    return str(schedule.cron), offset


def labelled(task_name: str, labels: dict[str, Any]) -> Iterator[ScheduledTask]:
    """The schedules in the labels of a task. Each has an ID that stays the same as long as what it says does."""
    rest = {name: value for name, value in labels.items() if name not in {SCHEDULE, TYPES}}
    for given in labels.get(SCHEDULE, ()):
        if not {"cron", "interval", "time"} & given.keys():
            continue
        words = {"args": [], "kwargs": {}, **given, "labels": {**given.get("labels", {}), **rest}}
        said = PLACE_IN_MEMORY.sub("", repr(sorted((name, repr(value)) for name, value in words.items())))
        words.setdefault("schedule_id", f"{task_name}:{zlib.crc32(said.encode()):08x}")
        yield ScheduledTask(task_name=task_name, **words)
