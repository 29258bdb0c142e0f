"""What replication has found out and others go on with. It lies in ``Node.outcomes`` up to the end of a door."""

from disque.core.model.job import Job
from disque.core.model.session import PendingAdd


class Outcome:
    """Something has happened that is also the business of a feature above."""

    __slots__ = ()


class Decided(Outcome):
    """The job of an ADDJOB with a UNIQUE key is there, in all its copies. ``is_over``: and done already."""

    __slots__ = ("add", "is_over", "job")

    def __init__(self, add: PendingAdd, job: Job, *, is_over: bool) -> None:
        self.add = add
        self.job = job
        self.is_over = is_over


class Abandoned(Outcome):
    """An ADDJOB with a UNIQUE key is answered with an error, or its client is gone."""

    __slots__ = ("add",)

    def __init__(self, add: PendingAdd) -> None:
        self.add = add


class Ended(Outcome):
    """A job that this node has no copy of is done. The holders ``told`` know; None: nobody is to be told."""

    __slots__ = ("job_id", "told")

    def __init__(self, job_id: bytes, told: tuple[bytes, ...] | None) -> None:
        self.job_id = job_id
        self.told = told


class Parted(Outcome):
    """The journal has let go of a job, which may live elsewhere: a UNIQUE key that it has is not free."""

    __slots__ = ("job_id",)

    def __init__(self, job_id: bytes) -> None:
        self.job_id = job_id


class Relocated(Outcome):
    """A job is in another queue for good: a UNIQUE key that lasts as long as its job is free."""

    __slots__ = ("job_id",)

    def __init__(self, job_id: bytes) -> None:
        self.job_id = job_id
