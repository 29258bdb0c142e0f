"""One request for jobs between two nodes, seen from both sides: see `demand`."""

from typing import Final

#: How long a request stands, in ms.
WANT_MS: Final = 60_000
#: Of whom something came within so long, in ms, is expected to have more; the rate of imports is 0 after it.
RESPONDER_MS: Final = 5000
#: The rate counts from windows of this length, in ms.
WINDOW_MS: Final = 1000
#: What is asked of all responders together lasts so long at the rate of imports, in ms; bounds of it for each of them.
AHEAD_MS: Final = 200
SHARE_LEAST: Final = 5
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
