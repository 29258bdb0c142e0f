"""What nodes want of each other, queue by queue: the tables behind `supply`.

A *want* is the standing request of another node for jobs of a queue. A *flow* is the other side of it: what this node
has asked others for, and what it got. Both go by the name of the queue, since a peer must not be able to make queues by
asking; a queue that exists points to its own (`Federation.adopt`), so that the path of a job looks nothing up.

All tables are bounded: of the wants of one node the oldest are dropped; a flow ends some time
after nobody waits any more and nothing comes.
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from disque.core.model.flow import WANT_MS, Flow, Want

if TYPE_CHECKING:
    from disque.core.model.peers import Peer
    from disque.core.model.queue import Queue

#: Requests of one other node that stand here at most, and bytes of the names in them.
WANTS_MOST = 5000  # not Final: tests want less, compiled too
WANTS_BYTES_MOST = 4 << 20  # not Final: tests want less, compiled too
#: How long it counts, in ms, that somebody waits for jobs at this moment.
NOW_MS: Final = 100
#: Names for which clients that only look in (NOHANG) may make this node ask.
POLLED_MOST = 10_000  # not Final: tests want less, compiled too

#: For so long, in ms, imports that a queue may still hold are kept from requests that have only just come.
STOCK_MS: Final = 120_000

SHARE_MOST: Final = 2000


class Standing:
    """All wants of one other node by queue, the one that was said, or of use, the longest time ago first."""

    __slots__ = ("names_bytes", "wants")

    def __init__(self) -> None:
        self.wants: OrderedDict[bytes, Want] = OrderedDict()
        self.names_bytes = 0

    def oldest(self) -> Want:
        """The first to go; there must be one."""
        return next(iter(self.wants.values()))

    def too_many(self) -> bool:
        """Whether it must go."""
        return len(self.wants) > WANTS_MOST or self.names_bytes > WANTS_BYTES_MOST


class Federation:
    """The tables of one node."""

    __slots__ = (
        "crowded",
        "flows",
        "linked",
        "marked",
        "stalled",
        "standing",
        "turn",
        "wants",
    )

    def __init__(self) -> None:
        #: By queue and peer. The dict of a queue that exists is the one that `Queue.wants` points to.
        self.wants: dict[bytes, dict[bytes, Want]] = {}
        #: The same by peer.
        self.standing: dict[bytes, Standing] = {}
        #: Nodes of which wants were dropped, and until when that matters: they may want whatever there is.
        self.crowded: dict[bytes, int] = {}
        self.flows: dict[bytes, Flow] = {}
        #: All flows, in the order in which they are looked after.
        self.turn: deque[Flow] = deque()
        #: Those to look at in the next settle.
        self.marked: deque[Flow] = deque()
        #: The nodes that were linked when the wants were last looked through.
        self.linked: list[Peer] | None = None
        #: Jobs could not be given, since the journal cannot be written.
        self.stalled = False

    def adopt(self, queue: "Queue") -> None:
        """A queue was made: what is wanted and asked under its name counts for it."""
        queue.wants = self.wants.get(queue.name)
        queue.flow = self.flows.get(queue.name)

    # -- wants ---------------------------------------------------------------------------------------------------------

    def want(self, name: bytes, peer: bytes, count: int, now_ms: int) -> Want:
        """``peer`` wants ``count`` jobs, whatever it wanted before."""
        standing = self.standing.get(peer)
        if standing is None:
            standing = self.standing[peer] = Standing()
        want = standing.wants.get(name)
        if want is None:
            want = standing.wants[name] = self.wants.setdefault(name, {})[peer] = Want(name, peer, now_ms)
            standing.names_bytes += len(name)
        else:
            standing.wants.move_to_end(name)
        want.count = count
        want.until_ms = now_ms + WANT_MS
        want.offered = want.dropped = False
        return want

    def used(self, want: Want) -> None:
        """A want was of use: it is the last to go, and the other nodes get jobs before it."""
        self.standing[want.peer].wants.move_to_end(want.name)
        wants = self.wants[want.name]
        wants[want.peer] = wants.pop(want.peer)

    def crowd(self, peer: bytes, now_ms: int) -> None:
        """Wants of ``peer`` are lost."""
        self.crowded[peer] = now_ms + WANT_MS

    def unwant(self, name: bytes, peer: bytes) -> bool:
        """Forget one want; whether it was the last one for its queue."""
        standing = self.standing.get(peer)
        if standing is None or standing.wants.pop(name, None) is None:
            return False
        standing.names_bytes -= len(name)
        if not standing.wants:
            del self.standing[peer]
        wants = self.wants[name]
        del wants[peer]
        if wants:
            return False
        del self.wants[name]
        return True

    # -- flows ---------------------------------------------------------------------------------------------------------

    def flow(self, name: bytes) -> Flow:
        """The flow of the queue ``name``, made when there is none."""
        flow = self.flows.get(name)
        if flow is None:
            flow = self.flows[name] = Flow(name)
            self.turn.append(flow)
        return flow

    def mark(self, flow: Flow) -> None:
        """Have ``flow`` looked at in the next settle."""
        if not flow.marked:
            flow.marked = True
            self.marked.append(flow)
