"""GETJOB LEASE: a delivery after which the job comes back sooner or later than its RETRY says.

A lease binds the node that delivered the job: until it ends, this node answers HOLD to other holders that want to queue
the job (see `arbitration`). So nobody else need know of it, and a lease is in no message and no record: a node that
crashes forgets its leases, as it forgets when it delivered what. After a clean stop it still knows until when each
delivery lasts, and WORKING extends it by RETRY.

WORKING extends a delivery by its lease, at the node that knows it, and by a second at least. Another node extends it by
RETRY and tells the holders; the one that delivered the job then holds it for its lease or for RETRY, whichever is
longer.

A lease is known from the delivery until the job is queued or handed back, here or elsewhere, or is gone. A job of
RETRY 0 has none.
"""

from typing import TYPE_CHECKING, Final

from disque.core.model.job import LEASE_OWNER, Job

if TYPE_CHECKING:
    from disque.core.node import Node

#: The least that WORKING extends a delivery by.
LEAST_MS: Final = 1000


def begin_all(node: "Node", jobs: list[Job], lease_ms: int, now_ms: int) -> None:
    """These jobs were delivered a moment ago, for so long."""
    for job in jobs:
        if job.retry:
            node.used += node.leases.begin(job.id, lease_ms)
            node.hold(job, now_ms + lease_ms, LEASE_OWNER)


def extension_ms(node: "Node", job: Job) -> int:
    """For how long WORKING extends the delivery of ``job``, in ms: its lease or its RETRY.

    A shorter lease is extended by a second, so that the reply, which has whole seconds, is never longer than the truth.
    """
    leases = node.leases.by_id
    known = leases.get(job.id, 0) if leases else 0
    return max(known, LEAST_MS) if known else job.retry * 1000
