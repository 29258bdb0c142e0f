"""GETJOB LEASE: a delivery after which the job comes back sooner or later than its RETRY says.

A lease binds the node that delivered the job: until it ends, this node answers HOLD to other holders that want to queue
the job (see `arbitration`). So hardly anybody else need know of it. Only a node that handed the job on would object
for its whole RETRY to who queues it again sooner: of a shorter lease all holders of such a job are told (HOLD). A lease
is in no record: a node that crashes forgets its leases, as it forgets when it delivered what. After a clean stop it
still knows until when each delivery lasts, and WORKING extends it by RETRY.

WORKING extends a delivery by its lease, at the node that knows it, and by a second at least. Another node extends it by
RETRY and tells the holders; the one that delivered the job then holds it for its lease or for RETRY, whichever is
longer.

A lease is known from the delivery until the job is queued or handed back, here or elsewhere, or is gone. A job of
RETRY 0 has none.
"""

from typing import TYPE_CHECKING, Final

from disque.core.model.job import LEASE_OWNER, REQUEUE_ANNOUNCED, Job
from disque.core.replication import arbitration

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
            if lease_ms < job.retry * 1000 and job.flags & REQUEUE_ANNOUNCED and len(job.holders) > 1:
                tell(node, job, lease_ms)


def tell(node: "Node", job: Job, lease_ms: int) -> None:
    """Whoever has handed ``job`` on, and speaks for it since it may still be on its way, hears that it has arrived."""
    for holder in job.holders:
        peer = node.peers.get(holder)
        if peer is not None and peer.linked:
            arbitration.hold_answer(node, holder, job, lease_ms, 0, ())


def extension_ms(node: "Node", job: Job) -> int:
    """For how long WORKING extends the delivery of ``job``, in ms: its lease or its RETRY.

    A shorter lease is extended by a second, so that the reply, which has whole seconds, is never longer than the truth.
    """
    leases = node.leases.by_id
    known = leases.get(job.id, 0) if leases else 0
    return max(known, LEAST_MS) if known else job.retry * 1000
