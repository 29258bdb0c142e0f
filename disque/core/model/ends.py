"""How jobs have ended, as long as somebody may want to know; and who waits to hear it.

An end is kept for the RETAIN of its job. Without RETAIN it is there until all holders know that the job is done, if it
has a result or somebody waits for it. A result for a job that is not known here is *strange*: it is there until a
holder has taken it.

Of two ends of one job, taken at two nodes before either heard of the other, the same one wins everywhere: see `beats`.
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from disque.core.base.timers import IDLE, Timed
from disque.core.model.index import Index
from disque.core.model.memory import END_BYTES, WAIT_BYTES, WATCH_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.base.timers import Timers
    from disque.core.model.session import Session
    from disque.core.model.survey import Asked

#: How a job can end. Of two ends of one job the smaller number wins, and EXPIRED never. These numbers are for ever.
DONE: Final = 1
CANCELLED: Final = 2
DEAD: Final = 3
EXPIRED: Final = 4
#: What else ends a wait for a job: it died and lies in a queue of dead letters; it was done or deleted, and nothing
#: more is known; nobody knows it.
DEAD_LETTER: Final = 5
GONE: Final = 6
UNKNOWN: Final = 7
#: Its queue was too long, and has `overflow drop-oldest`.
DROPPED: Final = 8
NAMES: Final = (b"", b"done", b"cancelled", b"dead", b"expired", b"dead-letter", b"gone", b"unknown", b"dropped")
#: The numbers that are ends of jobs.
ENDINGS: Final = (DONE, CANCELLED, DEAD, EXPIRED, DROPPED)

#: Stands for the node that took an end where somebody has heard only that the job is done. No node has this ID.
NOBODY: Final = b"f" * 40

#: Bytes of results for jobs that are not known here, together.
STRANGE_MOST = 64 << 20  # not Final: tests want less, compiled too
#: Jobs of which one node may want to hear at another one.
WATCHES_MOST = 100_000  # not Final: tests want less, compiled too


def is_better(one: tuple[int, bytes, bytes], other: tuple[int, bytes, bytes]) -> bool:
    """Whether the first of two ends of one job wins: each as its status, the node that took it, and its text.

    One that nobody has taken loses: whoever said that the job is done did not know how. So does one by the TTL, which
    each holder sees for its own copy.
    """
    if one[1] != other[1] and (one[1] == NOBODY or other[1] == NOBODY):
        return other[1] == NOBODY
    if one[0] != other[0] and (one[0] == EXPIRED or other[0] == EXPIRED):
        return other[0] == EXPIRED
    return one[:2] < other[:2] or (one[:2] == other[:2] and one[2] > other[2])


@mypyc_attr(acyclic=True)
class End(Timed):
    """How one job has ended.

    ``node_id`` is the node that took the end, ``text`` the result, or why the job died. ``error`` is the last thing
    that a consumer said of a failure, ``tries`` how many have ended. Times are node time: it is kept up to
    ``until_ms``. ``lasts``: that long, not only until all holders know; it is in the journal. ``sure_ms``: not before,
    it is sure that no holder has taken another end; for a job that expires, which each holder sees for itself.

    ``holders`` are the nodes that may keep it, and ``repl`` how many should: 0 where it need not outlive this node.
    ``copied``: it came from a node that knew the job, and this one never did. ``counted``: it is in `Ends.done`.
    ``late`` is a result that came after the copy here had expired: whoever still has the job is told it.
    """

    __slots__ = (
        "body",
        "copied",
        "counted",
        "ended_ms",
        "error",
        "holders",
        "id",
        "is_strange",
        "lasts",
        "late",
        "node_id",
        "number",
        "queue",
        "repl",
        "segment",
        "status",
        "sure_ms",
        "text",
        "tries",
        "until_ms",
    )

    def __init__(self, job_id: bytes, queue: bytes, status: int, node_id: bytes, ended_ms: int, until_ms: int) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.id = job_id
        self.queue = queue
        self.status = status
        self.node_id = node_id
        self.number = 0
        self.ended_ms = ended_ms
        self.until_ms = until_ms
        self.sure_ms = 0
        self.text = b""
        self.error = b""
        self.body = b""
        self.late = b""
        self.tries = 0
        self.lasts = False
        self.is_strange = False
        self.segment = 0
        self.repl = 0
        self.holders: tuple[bytes, ...] = ()
        self.copied = False
        self.counted = False

    def beats(self, status: int, node_id: bytes, text: bytes) -> bool:
        """Whether this end wins against another one: at all nodes alike. A node may have forgotten one that it took."""
        return is_better((self.status, self.node_id, self.text), (status, node_id, text))

    def size(self) -> int:
        """Bytes of memory that it counts for."""
        return END_BYTES + len(self.queue) + len(self.text) + len(self.error) + len(self.body) + len(self.late)

    def strange_size(self) -> int:
        """Bytes of a result that no holder has taken yet."""
        return len(self.text) if self.is_strange else 0


class Wait(Timed):
    """A client that waits for ends: of the jobs ``wanted``, in the order in which it has named them.

    ``left`` is of how many different ones nothing is known.
    """

    __slots__ = ("is_any", "is_over", "left", "session", "wanted")

    def __init__(self, session: "Session", *, is_any: bool) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.session = session
        self.is_any = is_any
        self.wanted: list[Wanted] = []
        self.left = 0
        #: It has heard enough.
        self.is_over = False

    def size(self) -> int:
        """Bytes of memory that it counts for."""
        return WAIT_BYTES + 100 * len(self.wanted)


class Wanted(Timed):
    """A job of whose end clients of this node want to hear: ``waits`` are these.

    ``without`` are the nodes that do not know it any more, with what they say: EXPIRED, GONE or UNKNOWN. ``again``: all
    were asked again. Once its end is known, it has a ``status`` and, with a text, the ``reply`` that all clients get; a
    long ``text`` is beside it.
    """

    __slots__ = ("again", "id", "reply", "status", "text", "waits", "without")

    def __init__(self, job_id: bytes) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.id = job_id
        self.waits: dict[Wait, None] = {}
        self.without: dict[bytes, int] = {}
        self.again = False
        self.status = 0
        self.reply = b""
        self.text = b""

    def size(self) -> int:
        """Bytes of what is kept to answer."""
        return len(self.reply) + len(self.text)


class Ends(Part):
    """The ends that a node knows, and who waits.

    ``by_id`` are ends, the oldest first, and ``index`` all of them by number, for JSCAN; ``done`` counts the results
    that are kept, by queue: those that count here, see `counts`. ``watched`` are the nodes that want to hear of a job,
    this one among them; ``by_node`` the same the other way around. ``unsure`` are jobs that have ended here, when not
    all holders know: with the questions that are answered when they do. ``saying`` is what was said of jobs in this
    turn, by node and job: the last counts. ``over`` are clients with many jobs that have heard enough, and are answered
    some at a time. ``reviews`` counts how often all that clients wait for had to be looked at. ``has_kept``: an end was
    kept here once for its RETAIN, so one may have been forgotten that not all holders know.
    """

    __slots__ = (
        "by_id",
        "by_node",
        "by_session",
        "done",
        "has_kept",
        "index",
        "node_id",
        "over",
        "reviews",
        "saying",
        "strange",
        "timers",
        "unsure",
        "wanted",
        "watched",
    )

    def __init__(self, timers: "Timers", node_id: bytes) -> None:
        self.timers = timers
        self.node_id = node_id
        self.by_id: OrderedDict[bytes, End] = OrderedDict()
        self.index: Index[End] = Index()
        self.done: dict[bytes, int] = {}
        self.strange = 0
        self.watched: dict[bytes, list[bytes]] = {}
        self.by_node: dict[bytes, dict[bytes, None]] = {}
        self.unsure: dict[bytes, list[Asked]] = {}
        self.wanted: dict[bytes, Wanted] = {}
        self.by_session: dict[int, Wait] = {}
        self.over: deque[Wait] = deque()
        self.reviews = 0
        self.has_kept = False
        self.saying: dict[tuple[bytes, bytes], int] = {}

    def put(self, end: End) -> int:
        """Let this be the end of its job. Returns how many bytes more that takes."""
        more = end.size() - self.drop(end.id)
        self.by_id[end.id] = end
        self.has_kept = self.has_kept or end.lasts
        end.number = self.index.add(end)
        self.strange += end.strange_size()
        self.count(end)
        return more

    def counts(self, end: End) -> bool:
        """Whether it counts here as a kept result: at the node that took it, or at the first holder."""
        if not end.lasts or end.status != DONE or end.is_strange:
            return False
        if end.node_id == self.node_id:
            return True
        # that node had no copy, or keeps it no more
        return end.node_id not in end.holders and min(end.holders, default=b"") == self.node_id

    def hold(self, end: End, holders: tuple[bytes, ...]) -> None:
        """From now on these nodes may keep this end, which is known here."""
        self.uncount(end)
        end.holders = holders
        self.count(end)

    def count(self, end: End) -> None:
        """Count an end, if it counts here."""
        if self.counts(end):
            end.counted = True
            self.done[end.queue] = self.done.get(end.queue, 0) + 1

    def uncount(self, end: End) -> None:
        """It does not count any more."""
        if end.counted:
            end.counted = False
            left = self.done.pop(end.queue) - 1
            if left:
                self.done[end.queue] = left

    def drop(self, job_id: bytes) -> int:
        """Forget an end, if there is one. Returns the bytes that this frees."""
        end = self.by_id.pop(job_id, None)
        if end is None:
            return 0
        self.timers.disarm(end)
        self.index.drop(end.number)
        self.strange -= end.strange_size()
        self.uncount(end)
        return end.size()

    def watch(self, node_id: bytes, job_id: bytes) -> int:
        """This node wants to hear of a job. Returns how many bytes more that takes."""
        mine = self.by_node.setdefault(node_id, {})
        if job_id in mine:
            return 0
        mine[job_id] = None
        self.watched.setdefault(job_id, []).append(node_id)
        return WATCH_BYTES

    def unwatch(self, node_id: bytes, job_id: bytes) -> int:
        """It does not want to any more. Returns the bytes that this frees."""
        mine = self.by_node.get(node_id)
        if mine is None or job_id not in mine:
            return 0
        del mine[job_id]
        if not mine:
            del self.by_node[node_id]
        watchers = self.watched[job_id]
        watchers.remove(node_id)
        if not watchers:
            del self.watched[job_id]
        return WATCH_BYTES

    def clear(self) -> None:
        """All ends are forgotten. Who waits was answered before, and whoever asked; other nodes hear of it yet."""
        self.by_id.clear()
        self.index = Index()
        self.done.clear()
        self.strange = 0
        self.unsure.clear()
        self.watched.clear()
        self.by_node.clear()
        self.over.clear()
        assert not self.by_session

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        ends = sum([end.size() for end in self.by_id.values()])
        waits = sum([wait.size() for wait in self.by_session.values()])
        told = {wanted for wait in self.by_session.values() for wanted in wait.wanted}
        waits += sum([wanted.size() for wanted in told]) + WAIT_BYTES * len(self.wanted)
        return ends + waits + WATCH_BYTES * sum([len(nodes) for nodes in self.watched.values()])
