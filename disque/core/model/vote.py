"""Asking the other holders of a job whether it may be queued again."""

from disque.core.base.timers import IDLE, Timed
from disque.core.model.job import Job


class RequeueVote(Timed):
    """A job that this node is about to queue. ``answered`` has when those who said NO were asked."""

    __slots__ = ("answered", "asked_ms", "job", "rounds")

    def __init__(self, job: Job) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.job = job
        self.asked_ms = 0
        self.rounds = 0
        self.answered: dict[bytes, int] = {}
