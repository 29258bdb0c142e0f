"""The job specs of all queues, also of those that are not there: jobs that have the same in common share one object.

Jobs may wait by the million while their queue itself is not there, so it is not the queue alone that knows.
"""

from typing import Final

from disque.core.model.queue import Queue
from disque.core.model.spec import JobSpec, SpecCache, read

#: Queues that are not there and whose specs are remembered, and how long such a name is at most, in bytes.
NAMES_MOST: Final = 4096
NAME_BYTES: Final = 256


class Specs:
    """Finds the spec of a job. ``queues`` are those of the node; ``absent`` has the specs of others by name."""

    __slots__ = ("absent", "queues")

    def __init__(self, queues: dict[bytes, Queue]) -> None:
        self.queues = queues
        self.absent: dict[bytes, SpecCache] = {}

    def of(self, name: bytes) -> SpecCache | None:
        """What is remembered of the queue ``name``; None if nothing is."""
        queue = self.queues.get(name)
        return self.absent.get(name) if queue is None else queue.specs

    def find(self, name: bytes, ttl: int, retry: int, repl: int) -> JobSpec:
        """The one object for jobs of the queue ``name`` with these numbers and no other options."""
        queue = self.queues.get(name)
        specs = self.absent.get(name) if queue is None else queue.specs  # `of`, written out: one call less for each job
        if specs is None:
            return self._first(queue, JobSpec(name if queue is None else queue.name, ttl, retry, repl))
        last = specs.last
        if last.ttl == ttl and last.retry == retry and last.repl == repl and last.rows is None:
            return last  # what `SpecCache.spec` does, written out, too
        return specs.spec(ttl, retry, repl)

    def read(self, name: bytes, encoded: bytes) -> JobSpec | None:
        """The one object for jobs of the queue ``name`` with this encoded spec; None if that is none.

        What is known is only compared.
        """
        queue = self.queues.get(name)
        specs = self.absent.get(name) if queue is None else queue.specs
        if specs is not None:
            return specs.read(encoded)
        spec = read(name if queue is None else queue.name, encoded)
        return None if spec is None else self._first(queue, spec)

    def _first(self, queue: Queue | None, spec: JobSpec) -> JobSpec:
        if queue is not None:
            queue.specs = SpecCache(spec)
        elif len(spec.queue) <= NAME_BYTES:
            if len(self.absent) >= NAMES_MOST:
                self.absent.clear()
            self.absent[spec.queue] = SpecCache(spec)
        return spec
