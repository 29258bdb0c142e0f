"""A job in a message of its own: for a node that is asked later than others, or to which a copy goes anew."""

from typing import TYPE_CHECKING

from cluster.messages import repljob

if TYPE_CHECKING:
    from disque.core.model.job import Job
    from disque.core.node import Message, Node


def one_copy(node: "Node", job: "Job", flags: int, delay_ms: int, holders: tuple[bytes, ...], now_ms: int) -> "Message":
    """REPLJOB with ``job``, and all that is known of it. It is not due before ``delay_ms`` have passed."""
    return repljob(
        job.queue,
        job.spec.encoded,
        flags=flags,
        left_ms=max(1, job.expires_ms - now_ms),
        delay_ms=max(0, delay_ms),
        holders=holders,
        ids=(job.id,),
        bodies=(job.body,),
        ctimes=(job.ctime,),
        more=node.more_of(job, now_ms),
    )
