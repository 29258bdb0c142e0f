"""What a connection has taken and not settled, and that it keeps it: WORKING for all of it, three times a lease.

A thread does it, which is there while there is something to keep: an event loop may be busy with the work itself. Only
under Celery's pool of processes a timer of the loop does it: that loop is never busy, and its process forks. So a
message stays with a consumer as long as its process lives, however long its work takes, and comes to another one a
lease after that process has died.

Under gevent and eventlet that thread is a greenlet, which waits for tasks to yield. A real thread could not share the
client with them, whose sockets belong to the loop of one thread.
"""

import threading
import weakref
from collections import defaultdict
from itertools import islice
from typing import Final

from kombu.log import get_logger

from disque.client import Disque, DisqueError, JobCancelledError, NoJobError
from disque.client.config import Address
from disque.client.errors import is_out_of_reach

LOG: Final = get_logger(__name__)
#: So often a lease is renewed while it lasts.
RENEWALS: Final = 3
#: IDs of one request.
IDS_MOST: Final = 1000


class Leases:
    """IDs of jobs by the node that gave them."""

    def __init__(self, client: Disque, lease_s: float) -> None:
        self.client = client
        self.lease_s = lease_s
        #: Whether an event loop calls `renew`, so that no thread is needed.
        self.has_timer = False
        self._held: dict[str, Address | None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def interval_s(self) -> float:
        """How often they are to be renewed."""
        return self.lease_s / RENEWALS

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._held

    def take(self, job_id: str, node: Address | None) -> None:
        """This job was taken."""
        with self._lock:
            self._held[job_id] = node
            if not self.has_timer and self._thread is None:
                self._thread = threading.Thread(
                    target=_keep, args=(weakref.ref(self), self._stopped, self.interval_s), daemon=True,
                    name="disque-leases",
                )  # fmt: skip
                self._thread.start()

    def drop(self, job_id: str) -> Address | None:
        """This job is settled, or will be: the node that gave it. Raises KeyError if it is not held."""
        with self._lock:
            return self._held.pop(job_id)

    def renew(self) -> None:
        """Say WORKING for all that is held. What is lost is not held any more; what fails is said again next time."""
        by_node: defaultdict[Address | None, list[str]] = defaultdict(list)
        with self._lock:
            for job_id, node in self._held.items():
                by_node[node].append(job_id)
        for node, ids in by_node.items():
            rest = iter(ids)
            while part := list(islice(rest, IDS_MOST)):
                try:
                    self._judge(part, self.client.working_at(node, part))
                except DisqueError as error:
                    LOG.warning("%d messages may come to others as well: %s", len(part), error)

    def _judge(self, ids: list[str], answers: list[int | DisqueError]) -> None:
        for job_id, answer in zip(ids, answers, strict=True):
            if isinstance(answer, NoJobError | JobCancelledError) or is_out_of_reach(answer):
                with self._lock:
                    lost = self._held.pop(job_id, self) is not self
                if lost:
                    LOG.warning("message %s is this consumer's no more: %s", job_id, answer)
            elif isinstance(answer, DisqueError):
                LOG.warning("message %s may come to others as well: %s", job_id, answer)

    def rest(self) -> bool:
        """Whether the thread may end since nothing is held."""
        with self._lock:
            if self._held:
                return False
            self._thread = None
            return True

    def stop(self) -> None:
        """Nothing is renewed any more."""
        self._stopped.set()

    def after_fork(self) -> None:
        """In a child process: what the parent has taken is not ours."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._held = {}
        self._thread = None


def _keep(leases: "weakref.ref[Leases]", stopped: threading.Event, interval_s: float) -> None:
    """Renew until there is nothing to renew, or nobody who has it: this thread keeps nothing alive."""
    while not stopped.wait(interval_s):
        held = leases()
        if held is None or held.rest():
            return
        held.renew()
        del held
