"""What `manage.py disque_worker` does: threads that take one job after the other and run its task.

A task that returns ends its job with its result. One that raises gives it back with the error, for another try if it
has one, or as a dead letter; one whose result cannot be kept has done its work, and is a dead letter at once. While a
task runs, its lease is kept. Whoever stops finishes what runs, as long as the grace allows; what runs longer goes back,
and uses up no try.
"""

import logging
import os
import socket
import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from django.db import close_old_connections

from disque.client import CommandError, DisqueError, Job
from disque.client.heartbeat import KeepWorking
from disque.client.pool import Interrupt
from disque.client.requests import how_words
from disque.django import records
from disque.django.api import TaskContext, task_finished, task_started

if TYPE_CHECKING:
    from disque.django.backend import DisqueBackend

LOG: Final = logging.getLogger("disque.django")
#: After an error of all nodes, in seconds.
PAUSE_S: Final = 1.0
#: How often it is looked whether threads have ended.
LOOK_S: Final = 0.2
#: Who ends when nothing is left waits so long for more.
BURST_S: Final = 0.5


class Keeping(KeepWorking):
    """Keeps the job of a task; when that cannot be, it says so once, since nothing is kept then."""

    def beat(self) -> None:
        """Say WORKING once."""
        super().beat()
        for job_id, error in self.errors.items():
            LOG.warning("task %s can be kept for this worker no longer: %s", job_id, error)


class Runner:
    """Runs the tasks of queues in threads. ``burst``: ends when nothing is left."""

    def __init__(
        self, backend: "DisqueBackend", queues: Sequence[str], *, concurrency: int = 1, burst: bool = False
    ) -> None:
        self.backend = backend
        self.queues = [backend.job_queue(name) for name in queues]
        self.burst = burst
        self.stopped = threading.Event()
        self.at_once = threading.Event()
        self._how = how_words(lease=backend.parsed.lease)
        self._running: dict[str, Job] = {}
        name = f"{socket.gethostname()}-{os.getpid()}"
        self._interrupts = [Interrupt() for _ in range(concurrency)]
        self._threads = [
            threading.Thread(target=self._work, args=(f"{name}-{at}", one), name=f"disque-{at}", daemon=True)
            for at, one in enumerate(self._interrupts)
        ]

    def run(self, grace_s: float) -> bool:
        """Work until `stop` is called, or with ``burst`` until nothing is left. False: some tasks were given up."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive() and not self.stopped.is_set():
                thread.join(LOOK_S)
        for interrupt in self._interrupts:
            interrupt.end()
        deadline_s = monotonic() + grace_s
        for thread in self._threads:
            while thread.is_alive() and monotonic() < deadline_s and not self.at_once.is_set():
                thread.join(LOOK_S)
        left = list(self._running.values())
        for job in left:
            LOG.warning("task %s takes longer than the grace: it goes to another worker", job.id)
            self.backend.client.give_back_quietly([job.id], job.node, count=False)
        return not left

    def stop(self) -> None:
        """Take no more, finish what runs, and end. Called twice, it ends at once."""
        if self.stopped.is_set():
            self.at_once.set()
        self.stopped.set()

    def _work(self, worker: str, interrupt: Interrupt) -> None:
        client, wait_s = self.backend.client, BURST_S if self.burst else None
        while not self.stopped.is_set():
            try:
                jobs = client.take(list(self.queues), 1, interrupt, None, wait_s, self._how)
            except DisqueError as error:
                LOG.error("no task can be had: %s", error)  # noqa: TRY400 - no bug here
                self.stopped.wait(PAUSE_S)
                continue
            for job in jobs:
                self._running[job.id] = job
                try:
                    self._run(job, worker)
                except DisqueError:
                    LOG.exception("the end of task %s was not told: it comes again", job.id)
                except Exception:
                    LOG.exception("a receiver of a signal failed about task %s", job.id)
                finally:
                    self._running.pop(job.id, None)
            if not jobs and self.burst:
                return

    def _run(self, job: Job, worker: str) -> None:
        """Run the task of one job. Raises DisqueError when its end cannot be told."""
        client, backend = self.backend.client, self.backend
        if job.additional_deliveries >= backend.parsed.crashes:
            self._bury(job, RuntimeError(records.DIED), "task %s of queue %r has failed: %s")
            return
        again = job.nacks + job.additional_deliveries > 0
        before = client.result(job.id) if again else None
        attempts = records.Attempts.unpacked(before.progress if before else None).begun(worker, records.now())
        try:
            result = records.running(records.read(job.body, job.id, backend.alias), attempts)
        except Exception as wrong:  # noqa: BLE001 - whatever is wrong with it, it stays so
            self._bury(job, wrong, "job %s of queue %r is no task that is known here: %s")
            return
        if before is not None and before.error is not None:
            result.errors.append(records.read_error(before.error)[0])
        keeping = Keeping(client, [job])
        keeping.progress(attempts.packed())
        result, error = self._call(result, keeping)
        if error is not None:
            self._fail(result, job, error, is_last=job.nacks + 1 >= backend.parsed.tries)
            return
        try:
            self._settle(result, job)
        except (CommandError, TypeError, ValueError) as wrong:  # too long for a node, or nothing that JSON can say
            wrong.add_note("the function has ended, but its result cannot be kept")
            self._fail(result, job, wrong, is_last=True)
        else:
            task_finished.send(type(backend), task_result=result)

    def _settle(self, result: Any, job: Job) -> None:
        """Tell the end of a task that has succeeded. What it has returned counts for more than its arguments."""
        client = self.backend.client
        try:
            client.settle(job.id, job.node, records.end(result, job.body))
        except CommandError as error:
            client.settle(job.id, job.node, records.end(result, job.body, with_arguments=False))
            LOG.warning("the result of task %s is kept without its arguments: %s", job.id, error)

    def _call(self, result: Any, keeping: KeepWorking) -> tuple[Any, BaseException | None]:
        """Call the function of a task, and keep it meanwhile: the result with what it returned, or its error."""
        task = result.task
        context = [TaskContext(task_result=result)] if task.takes_context else []
        pid = os.getpid()
        close_old_connections()
        try:
            with keeping:
                task_started.send(type(self.backend), task_result=result)
                return records.succeeded(result, task.call(*context, *result.args, **result.kwargs)), None
        except BaseException as error:  # noqa: BLE001 - SystemExit of a task ends the task, not the worker
            return result, error
        finally:
            if os.getpid() != pid:
                os._exit(1)  # a child that the function has forked comes back: the parent has the task
            close_old_connections()

    def _bury(self, job: Job, error: Exception, text: str) -> None:
        """Make a dead letter of a job that does not begin."""
        LOG.error(text, job.id, job.queue, error)
        self.backend.client.give_back([job.id], job.node, error=records.error_text(records.error_of(error)), dead=True)

    def _fail(self, result: Any, job: Job, error: BaseException, *, is_last: bool) -> None:
        """Give a task back that has raised."""
        told = records.error_of(error)
        if not is_last:
            LOG.warning("task %s is tried again: %r", job.id, error)
        self.backend.client.give_back([job.id], job.node, error=records.error_text(told), dead=is_last)
        if is_last:  # receivers log the exception that is being handled: Django's own does
            try:
                raise error  # noqa: TRY301 - for them
            except BaseException:  # noqa: BLE001 - it is on record already
                task_finished.send(type(self.backend), task_result=records.failed(result, told, records.now()))
