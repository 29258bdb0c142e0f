"""Which nodes are gone, and what is being done to make the copies of jobs again that were lost with them."""

from collections import Counter, deque
from typing import Final

from disque.core.model.ends import End
from disque.core.model.job import Job
from disque.core.model.memory import CHECK_BYTES, RETURNED_BYTES
from disque.core.model.part import Part
from disque.core.model.session import Spread

#: Lines for the log that nobody has taken yet.
NEWS_MOST: Final = 100


class Check:
    """A job whose copies are being counted.

    ``open`` are the nodes that were asked at ``since_ms`` and have not answered, ``have`` those that have a copy.
    """

    __slots__ = ("have", "open", "since_ms")

    def __init__(self, asked: list[bytes], now_ms: int) -> None:
        self.open = asked
        self.since_ms = now_ms
        self.have: list[bytes] = []


class Keeping:
    """A kept end whose copies are being counted, and then made again (``is_sent``).

    ``open`` are the nodes that were asked, or sent a copy, at ``since_ms`` and have not answered, ``have`` other nodes
    that keep it, ``away`` those that most likely do and cannot be asked, ``refused`` those that take none. ``missing``
    is how many more are to keep it. ``is_alone``: there was one copy.
    """

    __slots__ = ("away", "end", "have", "is_alone", "is_sent", "missing", "open", "refused", "since_ms")

    def __init__(self, end: End, asked: list[bytes], now_ms: int) -> None:
        self.end = end
        self.open = asked
        self.since_ms = now_ms
        self.have: list[bytes] = []
        self.away: tuple[bytes, ...] = ()
        self.refused: list[bytes] = []
        self.missing = 0
        self.is_sent = self.is_alone = False


class Replacement(Spread):
    """The copies of a job that are made again: as if its ADDJOB were ASYNC, and some nodes had confirmed already.

    ``have`` are nodes that have a copy, ``away`` those that most likely have one and cannot be asked. ``wanted`` is how
    many confirmations there must be, ``had`` how many there were at first, and ``before`` are the holders that the job
    had. ``since_ms`` is when this began. ``is_alone``: there was one copy.
    """

    __slots__ = ("before", "had", "is_alone", "since_ms", "wanted")

    def __init__(
        self, job: Job, have: tuple[bytes, ...], away: tuple[bytes, ...], more: int, now_ms: int, *, is_alone: bool
    ) -> None:
        super().__init__(job, None, outside=False)
        self.confirmed = have
        self.asked = (*have, *away)
        self.had = len(have)
        self.wanted = self.had + more
        self.before = job.holders
        self.since_ms = now_ms
        self.is_alone = is_alone

    def missing(self) -> int:
        """How many confirmations are still wanted."""
        return self.wanted - len(self.confirmed)


class Takeover(Spread):
    """A job that is delivered at most once, and that a node which leaves gives away: as if its ADDJOB were ASYNC.

    ``beats`` are left until it is forgotten, since the link to the node that was asked ended, or that node was
    forgotten; 0: the link stands.
    """

    __slots__ = ("beats",)

    def __init__(self, job: Job) -> None:
        super().__init__(job, None, outside=True)
        self.beats = 0


class Walk:
    """One walk through all jobs.

    ``doubted`` are nodes that may have lost copies; ``all``: whatever the nodes, jobs that should have copies elsewhere
    are looked at. ``why`` says it for the log, ``said_ms`` is when that heard of it last. ``levels`` counts jobs by the
    number of nodes that may have a copy. ``memo`` has by set of holders how many of them may have one, and whether that
    is to be looked at. ``step_us`` and ``beat_us`` are what was spent in this step, and in those before since the beat.

    ``made`` are jobs that have their copies again; ``short`` are those that have too few, and that this node is the one
    to repair; ``alone`` those of them that have one; ``refused`` those that may get more, since a node that could take
    one only refuses to at the moment. ``unsure`` are those of which not enough is known, as an answer was lost.
    ``passed`` are those that it leaves to another node, which comes first; when it ``insists``, it leaves none.
    ``leaves``: this node left when it began; ``left`` are those that have too few copies elsewhere then, ``parted``
    those that are delivered at most once and went to another node.
    """

    __slots__ = ("all", "alone", "beat_us", "doubted", "insists", "leaves", "left", "levels", "made", "memo", "parted",
                 "passed", "refused", "said_ms", "short", "step_us", "unsure", "why")  # fmt: skip

    def __init__(self, doubted: frozenset[bytes], why: str, now_ms: int, *, everything: bool) -> None:
        self.doubted = doubted
        self.all = everything
        self.why = why
        self.said_ms = now_ms
        self.levels: Counter[int] = Counter()
        self.insists = self.leaves = False
        self.memo: dict[tuple[bytes, ...], tuple[int, bool]] = {}
        self.step_us = self.beat_us = 0
        self.made = self.short = self.alone = self.refused = self.unsure = self.left = self.parted = self.passed = 0


class Repairs(Part):
    """What a node knows of copies that were lost.

    ``doubts`` has nodes of which copies may be lost, and since when: they have started again, or could not be reached
    for a while; this node itself when it has started. ``failing`` are those that cannot be reached, and since when.
    ``gone`` are those whose copies count no more: they have failed for too long, or somebody says so. ``leaving`` are
    those that leave, this one among them. ``urgent`` are those that are to be looked at without delay, and why;
    ``everything``: all jobs are. ``again_ms``: the last walk has left something undone, which is tried again then, and
    the next time after ``pause_ms``; ``open`` are the nodes that it was about.

    ``linked`` are the nodes that could take copies at the last look. ``walk`` goes on now, ``checks`` are jobs whose
    copies are being counted, ``copying`` those of which copies are being made, ``parting`` those that go elsewhere as
    this node leaves, ``keeping`` kept ends with which one or the other is done. ``short`` and ``alone`` are as in
    `Walk`: an estimate while it goes on, then what it has left. So is ``left``; -1 as long as that is not known.
    ``made`` counts jobs. ``news`` are lines for the log. ``lacking`` are nodes that did not know jobs of which they are
    holders, and when the youngest of these was made: they may lack older ones, too.

    ``returned`` are jobs that are in doubt since this node was away for long, with the nodes that do not know them;
    ``is_asking`` about them, ``noted`` is the segment of the journal that says so, 0 for none. ``is_forgotten``: it was
    away for so long that the others do not know it any more.
    """

    __slots__ = (
        "again_ms",
        "alone",
        "checks",
        "copying",
        "doubts",
        "everything",
        "failing",
        "gone",
        "is_asking",
        "is_forgotten",
        "keeping",
        "lacking",
        "leaving",
        "left",
        "linked",
        "made",
        "news",
        "noted",
        "open",
        "parting",
        "pause_ms",
        "returned",
        "short",
        "urgent",
        "walk",
    )

    def __init__(self, node_id: bytes, now_ms: int) -> None:
        self.doubts: dict[bytes, int] = {node_id: now_ms}
        self.lacking: dict[bytes, int] = {}
        self.failing: dict[bytes, int] = {}
        self.gone: set[bytes] = set()
        self.leaving: set[bytes] = set()
        self.urgent: dict[bytes, str] = {}
        self.everything = False
        self.again_ms = 0
        self.pause_ms = 0
        self.open: frozenset[bytes] = frozenset()
        self.linked: set[bytes] = set()
        self.walk: Walk | None = None
        self.checks: dict[bytes, Check] = {}
        self.copying: dict[bytes, Replacement] = {}
        self.parting: dict[bytes, Takeover] = {}
        self.keeping: dict[bytes, Keeping] = {}
        self.short = 0
        self.alone = 0
        self.left = -1
        self.made = 0
        self.returned: dict[bytes, tuple[bytes, ...]] = {}
        self.is_asking = False
        self.is_forgotten = False
        self.noted = 0
        self.news: deque[str] = deque(maxlen=NEWS_MOST)

    def drop_job(self, job: Job) -> int:
        """What is kept of single jobs ends by itself."""
        del job
        return 0

    def clear(self) -> None:
        """All jobs are forgotten: there is nothing to repair."""
        self.walk = None
        self.again_ms = 0
        self.checks.clear()
        self.copying.clear()
        self.parting.clear()
        self.keeping.clear()
        self.short = self.alone = 0
        self.returned.clear()
        self.is_asking = False
        self.noted = 0

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return CHECK_BYTES * (len(self.checks) + len(self.keeping)) + RETURNED_BYTES * len(self.returned)
