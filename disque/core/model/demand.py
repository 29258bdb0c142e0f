"""What nodes want of each other, queue by queue: the tables behind `supply`.

A *want* is the standing request of another node for jobs of a queue. A *flow* is the other side of it: what this node
has asked others for, and what it got. Both go by the name of the queue, since a peer must not be able to make queues by
asking; a queue that exists points to its own (`Federation.adopt`), so that the path of a job looks nothing up.

All tables are bounded: of the wants of one node and of broadcast pauses the oldest are dropped; a flow ends some time
after nobody waits any more and nothing comes.
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from disque.core.model.peers import Peer
    from disque.core.model.queue import Queue

#: How long a request stands, in ms.
WANT_MS: Final = 60_000
#: Requests of one other node that stand here at most, and bytes of the names in them.
WANTS_MOST = 5000  # not Final: tests want less, compiled too
WANTS_BYTES_MOST = 4 << 20  # not Final: tests want less, compiled too
#: How long it counts, in ms, that somebody waits for jobs at this moment.
NOW_MS: Final = 100
#: Names for which clients that only look in (NOHANG) may make this node ask.
POLLED_MOST = 10_000  # not Final: tests want less, compiled too
#: Broadcast pauses that are remembered, and bytes of the names in them.
PAUSES_MOST = 10_000  # not Final: tests want less, compiled too
PAUSES_BYTES_MOST = 16 << 20  # not Final: tests want less, compiled too

#: For so long, in ms, imports that a queue may still hold are kept from requests that have only just come.
STOCK_MS: Final = 120_000

#: Of whom something came within so long, in ms, is expected to have more; the rate of imports is 0 after it.
RESPONDER_MS: Final = 5000
#: The rate counts from windows of this length, in ms.
WINDOW_MS: Final = 1000
#: What is asked of all responders together lasts so long at the rate of imports, in ms; bounds of it for each of them.
AHEAD_MS: Final = 200
SHARE_LEAST: Final = 5
SHARE_MOST: Final = 2000
#: Imports a second from which on jobs are asked for ahead.
RATE_LEAST: Final = 5


class Want:
    """``count`` more jobs of the queue ``name`` for ``peer``, until ``until_ms``; it has stood since ``since_ms``.

    Until ``now_ms`` somebody is sure to wait there. ``offered``: it was told that there are jobs which it does not get
    unasked, and has not said that it wants them. ``dropped``: what it wants is not known any more.
    """

    __slots__ = ("count", "dropped", "name", "now_ms", "offered", "peer", "since_ms", "until_ms")

    def __init__(self, name: bytes, peer: bytes, now_ms: int) -> None:
        self.name = name
        self.peer = peer
        self.count = 0
        self.since_ms = now_ms
        self.until_ms = now_ms + WANT_MS
        self.now_ms = 0
        self.offered = False
        self.dropped = False


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


class Flow:
    """What this node asks others for, and gets, for one queue.

    ``left`` is what each node was asked for and has not sent yet, ``asked_ms`` when all were asked last, ``responders``
    when each node sent something last; ``offers`` are those that keep jobs until somebody waits here. ``stock`` is how
    many imported jobs the queue may still hold. ``polled_ms`` is when somebody looked in last who does not wait,
    ``poll_count`` how many he wanted. ``marked``: it is in `Federation.marked`.
    """

    __slots__ = (
        "asked_ms",
        "before",
        "before_ms",
        "count",
        "count_ms",
        "imported_ms",
        "left",
        "marked",
        "name",
        "offers",
        "poll_count",
        "polled_ms",
        "responders",
        "stock",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.left: dict[bytes, int] = {}
        self.asked_ms = 0
        self.responders: dict[bytes, int] = {}
        self.offers: dict[bytes, None] = {}
        self.stock = 0
        self.imported_ms = 0
        self.polled_ms = 0
        self.poll_count = 0
        self.marked = False
        #: Imports of the present window and the one before, and when they began.
        self.count = 0
        self.count_ms = 0
        self.before = 0
        self.before_ms = 0

    def imported(self, peer: bytes, count: int, now_ms: int) -> None:
        """``peer`` has sent ``count`` jobs that were new here."""
        if now_ms - self.count_ms > WINDOW_MS:
            self.before, self.before_ms = self.count, self.count_ms if self.count else now_ms
            self.count, self.count_ms = 0, now_ms
        self.count += count
        self.imported_ms = now_ms
        self.responders[peer] = now_ms

    def rate(self, now_ms: int) -> int:
        """Imports a second, rounded up; 0 when there were none for a while."""
        if not self.count or now_ms - self.count_ms > RESPONDER_MS:
            return 0
        return -(-(self.before + self.count) * 1000 // max(50, now_ms - self.before_ms))

    def ahead(self, now_ms: int) -> int:
        """How many jobs are worth having on the way or in stock: 0 unless they come quickly.

        A burst counts as if it had taken a second: a consumer that takes many at once may be slow with them. The window
        before the present one counts unless that makes it less.
        """
        if now_ms - self.imported_ms > RESPONDER_MS:
            return 0
        present = self.count * 1000 // max(WINDOW_MS, now_ms - self.count_ms)
        both = (self.before + self.count) * 1000 // max(WINDOW_MS, now_ms - self.before_ms)
        rate = max(present, both)
        return max(SHARE_LEAST, rate * AHEAD_MS // 1000) if rate >= RATE_LEAST else 0

    def senders(self, now_ms: int) -> list[bytes]:
        """The nodes that have sent jobs lately; the others are forgotten."""
        responders = self.responders
        for peer in [peer for peer, sent_ms in responders.items() if now_ms - sent_ms > RESPONDER_MS]:
            del responders[peer]
        return list(responders)

    def forget(self, peer: bytes) -> None:
        """What ``peer`` was asked for, it may not have heard, or have sent in vain."""
        self.left.pop(peer, None)
        self.responders.pop(peer, None)
        self.offers.pop(peer, None)


class Broadcast:
    """The newest PAUSE of the queue ``name`` for all nodes; ``segment`` is the part of the journal with its record."""

    __slots__ = ("counter", "flags", "name", "origin", "segment")

    def __init__(self, name: bytes, flags: int, counter: int, origin: bytes) -> None:
        self.name = name
        self.flags = flags
        self.counter = counter
        self.origin = origin
        self.segment = 0


class Federation:
    """The tables of one node."""

    __slots__ = (
        "crowded",
        "flows",
        "linked",
        "marked",
        "pauses",
        "pauses_bytes",
        "stalled",
        "standing",
        "turn",
        "waiting",
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
        #: By queue the newest PAUSE for all nodes, and those of them that wait for memory: see `queues`.
        self.pauses: OrderedDict[bytes, Broadcast] = OrderedDict()
        self.pauses_bytes = 0
        self.waiting: dict[bytes, None] = {}
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

    # -- pauses --------------------------------------------------------------------------------------------------------

    def is_news(self, name: bytes, counter: int, origin: bytes) -> bool:
        """Whether no newer PAUSE of this queue for all nodes is known, nor this one."""
        known = self.pauses.get(name)
        return known is None or (counter, origin) > (known.counter, known.origin)

    def paused(self, broadcast: Broadcast) -> list[Broadcast]:
        """Note the newest PAUSE of a queue. Returns what had to go: the one before it, and the oldest beyond bounds."""
        gone = [self.forget_pause(broadcast.name)] if broadcast.name in self.pauses else []
        self.pauses[broadcast.name] = broadcast
        self.pauses_bytes += len(broadcast.name)
        while len(self.pauses) > PAUSES_MOST or self.pauses_bytes > PAUSES_BYTES_MOST:
            gone.append(self.forget_pause(next(iter(self.pauses))))
        return gone

    def forget_pause(self, name: bytes) -> Broadcast:
        """Forget the newest PAUSE of a queue, which must be known."""
        broadcast = self.pauses.pop(name)
        self.pauses_bytes -= len(name)
        self.waiting.pop(name, None)
        return broadcast
