"""What becomes of UNIQUE keys when replication has decided, given up or ended a job."""

from typing import TYPE_CHECKING

from disque.core.base import resp
from disque.core.dedup import key_keeper, keys
from disque.core.model.outcome import Abandoned, Decided, Ended, Parted, Relocated
from disque.core.replication import coordinator

if TYPE_CHECKING:
    from disque.core.node import Node


def hand_on(node: "Node", now_ms: int) -> None:
    """Go on with all that has come out since the last time, and with what comes out of that."""
    while node.outcomes:
        outcomes, node.outcomes = node.outcomes, []
        for outcome in outcomes:
            if isinstance(outcome, Decided):
                decided(node, outcome, now_ms)
            elif isinstance(outcome, Abandoned):
                key_keeper.leave(node, outcome.add)
            elif isinstance(outcome, Parted):
                keys.stays(node, outcome.job_id)
            elif isinstance(outcome, Relocated):
                key_keeper.job_moved(node, outcome.job_id)
            else:
                assert isinstance(outcome, Ended)
                key_keeper.job_done(node, outcome.job_id, outcome.told)


def decided(node: "Node", outcome: Decided, now_ms: int) -> None:
    """Answer those who wanted the key with the ID of the job, when its keepers know it."""
    job, acquisition = outcome.job, outcome.add.key
    if acquisition is None:
        return
    if outcome.is_over and not acquisition.request.window:
        key_keeper.take_back(node, acquisition)  # the key goes with its job
    elif not key_keeper.commit(node, acquisition, job, now_ms):
        return
    for one in key_keeper.release(node, acquisition):
        one.session.unsettled |= node.journaling
        coordinator.answer(node, one, resp.status(job.id))
