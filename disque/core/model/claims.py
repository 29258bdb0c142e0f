"""What one request wants to do, as far as rights go: with which queues, jobs and channels.

Each row of the table of commands says how to tell that from its words (`Command.touches`). It is asked only for clients
whose user may not do everything.
"""

from collections.abc import Callable
from typing import Final

#: What can be done with a queue: take jobs out, end them and look at them; and put jobs in. EITHER: one of both.
READ: Final = 1
WRITE: Final = 2
EITHER: Final = 4

#: Jobs that one command can name while the rights to their queues must be looked up.
IDS_MOST: Final = 1000
#: Queues that it can name then: as many as a client can wait in.
QUEUES_MOST: Final = 4096


class Claims:
    """The claims of one request.

    ``queues`` are names with what is wanted of each. ``beginnings`` are the same for all queues whose names begin so.
    ``ids`` are jobs: their queues must allow ``of_ids``. With ``counts`` the reply is how many of them it worked with,
    so one that nobody knows can be left out. ``schedules`` stand for their queues, too; one that a user may not know is
    as one that is not there, but not in ``overwritten``. ``channels`` are names of channels, ``patterns`` patterns of
    them, which are claimed as they are. ``everything``: it shows, or touches, the jobs of any queue.
    """

    __slots__ = (
        "beginnings",
        "channels",
        "counts",
        "everything",
        "ids",
        "of_ids",
        "overwritten",
        "patterns",
        "queues",
        "schedules",
    )

    def __init__(self) -> None:
        self.queues: list[tuple[bytes, int]] = []
        self.beginnings: list[tuple[bytes, int]] = []
        self.ids: list[bytes] = []
        self.of_ids = READ
        self.counts = False
        self.schedules: list[tuple[bytes, int]] = []
        self.overwritten: list[bytes] = []
        self.channels: list[bytes] = []
        self.patterns: list[bytes] = []
        self.everything = False


#: Finds the claims of a request in its words. Words that make no sense claim nothing: the command refuses them.
Touches = Callable[[list[bytes]], Claims]


def nothing(args: list[bytes]) -> Claims:
    """It has to do with no queue."""
    del args
    return Claims()


def everything(args: list[bytes]) -> Claims:
    """It may show or touch any job."""
    del args
    claims = Claims()
    claims.everything = True
    return claims


def of_queue(args: list[bytes], *accesses: int) -> Claims:
    """The word behind the command is a queue with which this is done."""
    claims = Claims()
    claims.queues += [(args[1], access) for access in accesses]
    return claims


def looks(args: list[bytes]) -> Claims:
    """The word behind the command is a queue that is looked at, or from which jobs are taken."""
    return of_queue(args, READ)


def ends_ids(args: list[bytes]) -> Claims:
    """All words are jobs; the reply is a count."""
    return of_ids(args[1:], READ, counts=True)


def shows_ids(args: list[bytes]) -> Claims:
    """All words are jobs."""
    return of_ids(args[1:], READ, counts=False)


def of_ids(ids: list[bytes], access: int, *, counts: bool) -> Claims:
    """These are jobs."""
    claims = Claims()
    claims.ids = ids
    claims.of_ids = access
    claims.counts = counts
    return claims
