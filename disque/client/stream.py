"""Iterating over jobs, blocking: a thread fetches the next ones while the consumer works, another acknowledges."""

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from disque.client.bell import Bell
from disque.client.errors import DisqueError
from disque.client.job import Job, by_node
from disque.client.pool import Interrupt
from disque.client.requests import USUALLY
from disque.client.shelf import PREFETCH, Pile, Shelf
from disque.client.values import Duration, Name, milliseconds, queue_words, text_of

if TYPE_CHECKING:
    from disque.client.client import Disque


#: How long whoever lets go of an iteration waits until it is closed.
LET_GO_S: Final = 2.0


def finish(thread: threading.Thread | None) -> None:
    """Wait for the end of a thread, but not of one that has not begun: its start was interrupted, by Ctrl-C maybe."""
    if thread is not None and thread.is_alive():
        thread.join()


class Acknowledger:
    """Sends acknowledgements from a thread of its own, which begins with the first of them."""

    def __init__(self, client: "Disque") -> None:
        self._client = client
        self._pile = Pile()
        self._lock = threading.Lock()
        self._work = Bell()
        self._room = Bell()
        self._thread: threading.Thread | None = None
        self._idle = False

    def put(self, job_id: str) -> bool:
        """Take one; False when it is closed. Waits while too many have gathered. Raises what went wrong with others."""
        pile = self._pile
        if pile.full:
            while pile.full and not pile.ended:
                self._room.wait()
            self._room.ring()  # others may wait, too
        with self._lock:
            if pile.ended:
                return False
            pile.ids.append(job_id)
            if self._thread is None or not self._thread.is_alive():
                self._begin()
            elif self._idle:
                self._work.ring()
            fault = pile.fault()
        if fault is not None:
            raise fault
        return True

    def close(self) -> None:
        """Send what is there and end the thread. Raises what went wrong."""
        with self._lock:
            self._pile.ended = True
        self._work.ring()
        self._room.ring()
        finish(self._thread)
        self._run()  # what is left by a thread that was interrupted before it began
        finish(self._thread)
        self._thread = None
        fault = self._pile.fault()
        if fault is not None:
            raise fault

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="disque-acknowledge", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while ids := self._next():
            error: BaseException | None = None
            try:
                self._client.ack_many(ids)
            except Exception as wrong:  # noqa: BLE001 - the consumer gets it, whatever it is
                error = wrong
            with self._lock:
                self._pile.sent(error)
            self._room.ring()

    def _next(self) -> list[str]:
        while True:
            with self._lock:
                self._idle = not self._pile.ids and not self._pile.ended
                if not self._idle:
                    return self._pile.take()
            self._work.wait()


class Fetcher:
    """Keeps jobs ready, from a thread of its own. Its thread knows nothing of the iteration, which may be forgotten."""

    def __init__(
        self,
        client: "Disque",
        queues: list[Name],
        shelf: Shelf[Job],
        acknowledger: Acknowledger,
        how: tuple[bytes, ...],
    ) -> None:
        self._client = client
        self._queues = queues
        self._acknowledger = acknowledger
        self._how = how
        self._interrupt = Interrupt()
        self._lock = threading.Lock()
        self._came = Bell()
        self._wanted = Bell()
        self._thread: threading.Thread | None = None
        self.shelf = shelf

    def start(self) -> None:
        """Begin to fetch."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="disque-prefetch", daemon=True)
            self._thread.start()

    def take(self, timeout_s: float | None) -> Job | None:
        """The next job, or None when none came in time or it is closed. Raises what ended the fetching."""
        shelf = self.shelf
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                job = shelf.next()
                if job is not None:
                    if len(shelf.ready) == shelf.prefetch // 2:
                        self._wanted.ring()
                    return job
                if shelf.ended:
                    break
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            self._came.wait(left_s)
        finish(self._thread)  # it may receive something yet, in spite of a stop
        job = shelf.next()
        if job is None and shelf.error is not None:
            error, shelf.error = shelf.error, None
            raise error
        return job

    def take_now(self, timeout_s: float | None) -> Job | None:
        """The next job without a thread: those that are asked for here are acknowledged one by one."""
        shelf = self.shelf
        if not shelf.ready and not shelf.ended:
            shelf.ready.extend(
                self._client.take(self._queues, shelf.count, self._interrupt, None, timeout_s, self._how)
            )
        return shelf.next()

    def stop(self) -> None:
        """Fetch nothing more. Whoever waits gets only what cannot be given back."""
        with self._lock:
            self.shelf.stop()
        self._came.ring()
        self._wanted.ring()
        self._interrupt.end()

    def close(self) -> list[Job]:
        """End the thread: what was not handed out."""
        self.stop()
        finish(self._thread)  # one that begins later finds that it is stopped
        self._thread = None
        return self.shelf.rest()

    def _run(self) -> None:
        try:
            while wanted := self._count():
                jobs = self._client.take(self._queues, wanted, self._interrupt, self._acknowledger, how=self._how)
                if jobs:
                    with self._lock:
                        self.shelf.ready.extend(jobs)
                    self._came.ring()
        except Exception as error:  # noqa: BLE001 - the consumer gets it, whatever it is
            with self._lock:
                self.shelf.error, self.shelf.ended = error, True
            self._came.ring()

    def _count(self) -> int:
        """Wait until jobs are wanted: how many. 0 at the end."""
        while True:
            with self._lock:
                wanted = self.shelf.wanted()
                if wanted or self.shelf.ended:
                    return wanted
            self._wanted.wait()


class Jobs:
    """An iteration over the jobs of some queues, as they come.

    Up to ``prefetch`` jobs are kept ready while the consumer works: they are delivered already, so RETRY should be
    longer than the work on all of them. ``job.ack()`` returns at once; acknowledgements travel together and have been
    sent when the iteration is closed, and one that fails is raised by a later ``ack()`` or by `close`. With
    ``prefetch=0`` nothing happens in the background: up to ``count`` jobs are taken when there is none, and each is
    acknowledged by itself.

    It ends when nothing came for ``timeout`` (None: never), or after the job at hand when it was told to `stop`.
    Closing it, by `close`, as a context manager, or by leaving a ``for`` that alone knows it, gives back what was not
    handed out, which does not count as a failure of these jobs (NACK NOCOUNT). At-most-once jobs cannot be given back:
    after a `stop` those that were fetched are still handed out, and whoever closes it before loses them. So take these
    with ``prefetch=0``, one at a time. Raises UnavailableError when no node could be used. One thread may use it.
    """

    def __init__(
        self,
        client: "Disque",
        queues: Name | Iterable[Name],
        *,
        count: int | None = None,
        prefetch: int = PREFETCH,
        timeout: Duration | None = None,
        how: tuple[bytes, ...] = USUALLY,
    ) -> None:
        self._client = client
        self._closed = True
        self._queues: list[Name] = list(queue_words(queues))
        self._timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        self._shelf: Shelf[Job] = Shelf(prefetch, count)
        self._acknowledger = Acknowledger(client)
        self._fetcher = Fetcher(client, self._queues, self._shelf, self._acknowledger, how)
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Job:
        if self._closed:
            raise StopIteration
        try:
            job = self._next_fetched() if self._shelf.prefetch else self._fetcher.take_now(self._timeout_s)
        except BaseException:
            with suppress(DisqueError):
                self.close()
            raise
        if job is None:
            self.close()
            raise StopIteration
        return job

    def stop(self) -> None:
        """Let the iteration end after the job at hand, and at-most-once jobs that were fetched already.

        For a signal handler, or another thread: it does not wait.
        """
        # A handler interrupts the iteration anywhere, with any lock: another thread may wait for those.
        threading.Thread(target=self._fetcher.stop, name="disque-stop", daemon=True).start()

    def close(self) -> None:
        """Give back what was not handed out, and wait for acknowledgements. Raises what went wrong with these."""
        if self._closed:
            return
        rest = self._fetcher.close()
        self._closed = True  # not before: what interrupts that wait, such as Ctrl-C, leaves it to `__del__`
        try:
            self._acknowledger.close()
        finally:
            for node, ids in by_node(rest).items():
                self._client.give_back_quietly(ids, node, count=False)

    def _next_fetched(self) -> Job | None:
        self._fetcher.start()
        return self._fetcher.take(self._timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with suppress(DisqueError):
                self.close()

    def __del__(self) -> None:
        """Close it from another thread: this one may be the collector, in the middle of anything, with any lock."""
        if self._closed or sys.is_finalizing():
            return
        thread = threading.Thread(target=self._let_go, name="disque-let-go", daemon=True)
        thread.start()
        thread.join(LET_GO_S)

    def _let_go(self) -> None:
        with suppress(DisqueError):
            self.close()

    def __repr__(self) -> str:
        return f"<Jobs of {', '.join(map(text_of, self._queues))}>"
