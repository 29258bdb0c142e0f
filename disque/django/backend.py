"""The backend: a task is a job, and its result is the end of the job."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.core import checks
from django.utils import timezone

from disque.client import BadIdError, Disque, DisqueError, UnavailableError
from disque.client.values import ttl_beyond
from disque.django import records
from disque.django.api import BaseTaskBackend, TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from disque.django.options import Options, faults

#: Django's priorities are from -100 to 100, those of jobs from 0 to 255.
PRIORITY_0: Final = 100
#: What a job can be whose task is not over.
STATUSES: Final = {"queued": "READY", "delayed": "READY", "in-flight": "RUNNING", "dead-letter": "FAILED"}
#: A job may end between two questions about it.
LOOKS: Final = 3


class DisqueBackend(BaseTaskBackend):
    """Adds tasks, and finds their results."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._client: Disque | None = None
        self._parsed: Options | None = None

    @property
    def parsed(self) -> Options:
        """The OPTIONS of the setting. Raises ValueError."""
        if self._parsed is None:
            self._parsed = Options.of(self.options)
        return self._parsed

    @property
    def client(self) -> Disque:
        """The client, which connects when it must. Threads may share it, and it may be used after a fork."""
        if self._client is None:
            self._client = Disque(self.parsed.config)
        return self._client

    def check(self, **_: Any) -> Iterator[Any]:
        """What `manage.py check` says of the setting."""
        for fault in faults(self.options):
            yield checks.Error(f"TASKS[{self.alias!r}]['OPTIONS']: {fault}", id="disque.E001")

    def job_queue(self, queue_name: str) -> str:
        """The queue of the server for one of the project."""
        return self.parsed.prefix + queue_name

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Add a task; its result, which is not there yet. Raises DisqueError, and Django's InvalidTask."""
        self.validate_task(task)
        options = self.parsed
        result = records.new(task, args, kwargs, self.alias)
        at_s = timestamp(task.run_after)
        job_id = self.client.add(
            self.job_queue(task.queue_name),
            records.body(result),
            at=at_s,
            priority=PRIORITY_0 + task.priority,
            tries=options.tries - 1 + options.crashes,  # a worker that gets it sees which of the two it was
            backoff=options.backoff,
            retain=options.retain,
            ttl=ttl_beyond(options.ttl, 0.0 if at_s is None else at_s - time.time()),
            retry=max(1, options.lease),
            replicate=options.replicate,
        )
        result = replace(result, id=job_id)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """What is known of a task. Raises TaskResultDoesNotExist, also when its result is not kept any more."""
        for _ in range(LOOKS):
            try:
                found = self.client.result(result_id)
            except BadIdError:
                found = None
            if found is None:
                break
            with suppress(ValueError, TypeError, LookupError, ImportError):
                if found.done and found.result is not None:
                    return records.read_end(found.result, result_id, self.alias)
                shown = None if found.has_ended else self._show(result_id)
                if shown is not None:
                    return self._living(shown, found)
            if found.has_ended:
                break
        raise TaskResultDoesNotExist(result_id)

    def _living(self, shown: Any, found: Any) -> Any:
        """The result of a task whose job is there."""
        status = TaskResultStatus(STATUSES[found.status])
        result = records.read(shown["body"], found.id, self.alias)
        result = records.tried(result, records.Attempts.unpacked(found.progress), status)
        if found.status == "dead-letter" or found.error is not None:
            error, when = records.read_error(found.error)
            result = records.failed(result, error, when if found.status == "dead-letter" else None)
            result = replace(result, status=status)
        return result

    def _show(self, job_id: str) -> Any:
        """All that a node that has the job knows of it, or None. Raises UnavailableError if a node cannot be asked."""
        failure: DisqueError | None = None
        self.client.look()  # nodes may have joined since
        for host, port in self.client.router.addresses():
            with self.client.at(host, port) as node:
                try:
                    shown = node.show(job_id)
                except UnavailableError as error:
                    failure = error
                else:
                    if shown is not None:
                        return shown
        if failure is not None:
            raise failure
        return None


def timestamp(when: datetime | None) -> float | None:
    """A time as seconds since 1970; one without a time zone is in that of the project."""
    if when is None:
        return None
    return (when if timezone.is_aware(when) else timezone.make_aware(when)).timestamp()
