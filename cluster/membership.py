"""Membership: how nodes meet, detect failures, and forget each other. It keeps the node table true.

**Links.** There is one link to each node of `wanted()`, made by this node. Messages to that node go over it. Messages
of that node come over the link that it made itself. Both are authenticated, so the sender is known.

**Meeting.** A node that this node is told to meet, or hears of by gossip, begins in HANDSHAKE, under an ID drawn here,
until a link proves the real ID (`identify`). It becomes a full node when both directions work: a link to it stands, and
it has sent a message, which it does only when it knows this node. Otherwise it is dropped after the node timeout. MEET
is the PING that a node accepts from a stranger: it adds the sender in HANDSHAKE, at the address from which it called.

**Failing.** A node that leaves a ping unanswered for longer than the node timeout, or refuses the connection, is
PFAIL, until it answers a ping. Nodes tell each other which nodes they see failing. A node that sees another one fail
itself, and has heard the same from others within twice the timeout, marks it as FAIL if they are the majority together,
and tells all. A PONG proves both directions at once, as PING and PONG travel over different links. While a long frame
arrives, a PONG behind it cannot arrive. Then the bytes of the frame count as PING and PONG (`is_sending`).

**Stopping.** A node that stops cleanly says so in a last PING (STOPPED). It gets no new jobs from then on. Its failure
is detected as of any other node, but the log names it as stopped. The next message from it ends that.

**Forgetting.** A node is forgotten on request, or when it has failed for `forget_after_ms`. For a minute gossip does
not bring it back. A node that is not in the table gets no answer, so that it can see that it is not known here.

Time and randomness are arguments. Messages to send are put into `messages`. `tick` is to be called every 100 ms.
"""

from random import Random
from typing import Final, cast

from cluster import gossip, messages
from cluster.member import (
    DELETED,
    FAIL,
    FAILING,
    HANDSHAKE,
    LEAVING,
    MEET,
    MYSELF,
    NOADDR,
    PFAIL,
    STOPPED,
    UNREACHABLE,
    Member,
    default_bus_port,
    is_address,
    is_node_id,
)
from cluster.table import Table

#: The names of `node` are offered here as well: who needs the table needs them.
__all__ = ["FAIL", "FAILING", "HANDSHAKE", "LEAVING", "MYSELF", "NOADDR", "PFAIL", "STOPPED", "UNREACHABLE"]
__all__ += ["Member", "Membership", "default_bus_port", "is_node_id"]

Greeting = tuple[int, int, bytes, int, int, tuple[gossip.Row, ...]]

TIMEOUT_MS: Final = 15_000
FORGET_AFTER_MS: Final = 86_400_000
BLACKLIST_MS: Final = 60_000
NODES_MOST: Final = 1000
HANDSHAKES_MOST: Final = 100
CALLERS_MOST: Final = 100
HANDSHAKE_MIN_MS: Final = 1000
#: News (who fails, who came, that this node leaves) are told to all at the next tick, but not more often than this.
NEWS_EVERY_MS: Final = 1000
#: Of so many nodes drawn once a second, the one that was silent longest is asked how it is.
PING_DRAW: Final = 5
TICKS_A_SECOND: Final = 10
#: What a node says of itself with each PING, PONG and MEET.
TOLD: Final = LEAVING | STOPPED


class Membership(Table):
    """The node table (see `Table`), and what this node says and hears to keep it.

    `messages` holds (node ID, message) to be sent at once: take and clear it. `forgotten` collects the IDs of nodes
    that are known no more: whoever reads it empties it. `timeout_ms` (after so much silence a node fails),
    `forget_after_ms` (0: never) and `random` may be set at any time.
    """

    __slots__ = (
        "_blacklist",
        "_callers",
        "_news",
        "_news_ms",
        "_stale",
        "_tick_ms",
        "_ticks",
        "forget_after_ms",
        "forgotten",
        "messages",
        "random",
        "timeout_ms",
    )

    def __init__(self, myself: Member, random: Random | None = None, timeout_ms: int = TIMEOUT_MS) -> None:
        super().__init__(myself)
        self.random = random or Random(0)  # noqa: S311 - it draws whom to ask and names for strangers, no secrets
        self.timeout_ms = timeout_ms
        self.forget_after_ms = FORGET_AFTER_MS
        self.messages: list[tuple[bytes, messages.Message]] = []
        self.forgotten: list[bytes] = []
        #: Until when gossip does not bring a node back.
        self._blacklist: dict[bytes, int] = {}
        #: From where strangers called last, in case that they say MEET.
        self._callers: dict[bytes, bytes] = {}
        self._stale: list[bytes] = []
        self._news = False
        self._news_ms = 0
        self._tick_ms = 0
        self._ticks = 0

    @property
    def leaving(self) -> bool:
        """Whether this node asks clients and nodes to use others (CLUSTER LEAVING)."""
        return self.myself.flags & LEAVING != 0

    @leaving.setter
    def leaving(self, leaving: bool) -> None:
        flags = self.myself.flags
        self._news |= leaving != self.leaving
        self.set_flags(self.myself, flags | LEAVING if leaving else flags & ~LEAVING)

    def stop(self) -> None:
        """This node stops now, cleanly: say so, that nobody takes it for failed.

        It is sent nothing new from here on, and counts as before in all else.
        """
        self.set_flags(self.myself, self.myself.flags | STOPPED)
        for node in self._full():
            if node.linked:
                self._say(node, messages.PING)

    def stale(self) -> list[bytes]:
        """Give the IDs of nodes whose link carries nothing, though it stands: drop it and make it anew.

        Each tick finds them again.
        """
        return self._stale

    def meet(self, ip: bytes, port: int, bus_port: int, now_ms: int) -> bool:
        """Greet whoever is there, so that both clusters become one.

        False when that is no address, or too many are being met already. To be told twice is no harm. With `bus_port`
        0 the bus is at its usual distance.
        """
        return self._half_meet(ip, port, bus_port or default_bus_port(port), MEET, now_ms)

    def forget(self, node_id: bytes, now_ms: int) -> None:
        """Forget a node; for a minute gossip does not bring it back. Of nodes that are not known, nothing happens."""
        node = self.nodes.get(node_id)
        if node is None or node is self.myself:
            return
        if len(self._blacklist) >= NODES_MOST:
            del self._blacklist[next(iter(self._blacklist))]
        self._blacklist[node_id] = now_ms + BLACKLIST_MS
        self._remove(node)

    def reset(self, now_ms: int, new_id: bytes | None) -> None:
        """Forget all other nodes, and with `new_id` take that ID; address and leaving stay. Links end by themselves.

        A link that another node made to the old ID must be closed by the bus.
        """
        del now_ms
        myself = self.myself
        for node in [node for node in self.nodes.values() if node is not myself]:
            self._remove(node)
        if new_id is not None:
            assert is_node_id(new_id), new_id
            myself.id = new_id
            self.nodes = {new_id: myself}
        self.messages = []
        self._stale = []
        self.changed(myself)

    def identify(self, expected_id: bytes, real_id: bytes, ip: bytes, port: int, bus_port: int, now_ms: int) -> bool:
        """The link to the address of `expected_id` has proved to end at `real_id`, which says that this is its address.

        True if the link may be used as the one to `real_id`; tell `link_up` then, else close it. A stranger is taken
        in where one was expected. A node that is not where it should be has no address until it calls.
        """
        expected = self.nodes.get(expected_id)
        if expected is None or expected is self.myself or real_id == expected_id:
            return expected is not None and expected is not self.myself
        other = self.nodes.get(real_id)
        if expected.named:
            self.set_address(expected, b"", expected.port, expected.bus_port)
            self.set_flags(expected, expected.flags | NOADDR)
        elif other is None:
            return self._name(expected, real_id, ip, port, bus_port)
        else:
            self._remove(expected)
            if expected.flags & MEET and other is not self.myself:
                self._greet(other, now_ms)
        if other is None or other is self.myself or other.linked:
            return False
        self._correct(other, ip, port, bus_port)
        return True

    def link_up(self, node_id: bytes, now_ms: int) -> None:
        """The link to a node stands, authenticated."""
        node = self.nodes.get(node_id)
        if node is None or node is self.myself:
            return
        node.linked = True
        node.linked_ms = now_ms
        self.version += 1
        self._perhaps_met(node)
        self._ping(node, now_ms)
        if node.owes_pong:
            self._pong(node, now_ms)

    def link_down(self, node_id: bytes, now_ms: int, *, refused: bool) -> None:
        """The link to a node has ended, or could not be made: `refused` when nobody listens there."""
        node = self.nodes.get(node_id)
        if node is None:
            self.lacking.pop(node_id, None)
            return
        if node is self.myself:
            return
        if node.linked:
            node.linked = False
            self.version += 1
        node.owes_pong = False
        node.ping_sent_ms = node.ping_sent_ms or now_ms
        if refused and not node.flags & HANDSHAKE:
            self._suspect(node, now_ms)

    def incoming(self, node_id: bytes, ip: bytes, port: int, bus_port: int, now_ms: int) -> bool:
        """A node has made a link to this one, authenticated; it says, or its socket, that this is its address.

        False if the node is not known: only MEET counts then.
        """
        del now_ms
        node = self.nodes.get(node_id)
        if node is not None and node is not self.myself:
            self._correct(node, ip, port, bus_port)
            return True
        self._remember(node_id, ip)
        return False

    def _remember(self, node_id: bytes, ip: bytes) -> None:
        """A stranger may still say MEET, over a link that stands."""
        self._callers.pop(node_id, None)
        if len(self._callers) >= CALLERS_MOST:
            del self._callers[next(iter(self._callers))]
        self._callers[node_id] = ip

    def _half_meet(self, ip: bytes, port: int, bus_port: int, flags: int, now_ms: int) -> bool:
        """Begin to meet the node at this address, unless that is going on already."""
        half_met = [node for node in self.nodes.values() if node.flags & HANDSHAKE]
        for node in half_met:
            if (node.ip, node.bus_port) == (ip, bus_port):
                self.set_flags(node, node.flags | flags)
                return True
        if not is_address(ip, port, bus_port) or self._is_full(len(half_met)):
            return False
        node = Member(b"%040x" % self.random.getrandbits(160), ip, port, bus_port, HANDSHAKE | flags)
        node.named = False
        node.met_ms = now_ms
        self.add(node)
        return True

    def _is_full(self, half_met: int) -> bool:
        return half_met >= HANDSHAKES_MOST or len(self.nodes) >= NODES_MOST

    def _name(self, node: Member, real_id: bytes, ip: bytes, port: int, bus_port: int) -> bool:
        """The ID of a node that was known by its address only."""
        if node.flags & MEET:
            self._blacklist.pop(real_id, None)
        self._remove(node)
        if real_id in self._blacklist:
            return False
        node.id = real_id
        node.named = True
        node.flags &= ~DELETED
        self.add(node)
        self._correct(node, ip, port, bus_port)
        return True

    def _take_in(self, node_id: bytes, greeting: Greeting, ip: bytes, now_ms: int) -> Member | None:
        """A stranger says MEET: half meet it where it says it is, or from where it called."""
        ip = greeting[2] or self._callers.get(node_id, ip)
        half_met = sum([node.flags & HANDSHAKE != 0 for node in self.nodes.values()])
        if not is_address(ip, greeting[3], greeting[4]) or self._is_full(half_met):
            return None
        self._blacklist.pop(node_id, None)
        node = Member(node_id, ip, greeting[3], greeting[4], HANDSHAKE)
        node.met_ms = now_ms
        self.add(node)
        return node

    def _perhaps_met(self, node: Member) -> None:
        """Half met is met when a link stands and something was heard."""
        if node.flags & HANDSHAKE and node.linked and node.heard:
            self.set_flags(node, node.flags & ~(HANDSHAKE | MEET))
            self._news = True

    def _greet(self, node: Member, now_ms: int) -> None:
        """Say MEET to a node that is known here: it may not know this one."""
        self._blacklist.pop(node.id, None)
        self.set_flags(node, node.flags | MEET)
        if node.linked:
            self._ping(node, now_ms)

    def _correct(self, node: Member, ip: bytes, port: int, bus_port: int) -> None:
        """A node has a new address, or perhaps the old one; what cannot be an address is ignored."""
        if (node.ip, node.port, node.bus_port) != (ip, port, bus_port) and is_address(ip, port, bus_port):
            self.set_address(node, ip, port, bus_port)
            self.set_flags(node, node.flags & ~NOADDR)

    def _remove(self, node: Member) -> None:
        del self.nodes[node.id]
        if not node.linked:  # what was said to it a moment ago may still leave over its link
            self.lacking.pop(node.id, None)
        node.flags |= DELETED
        node.linked = False
        if node.named:
            self._remember(node.id, node.ip)
            self.forgotten.append(node.id)
            self.depart(node.id)
            for other in self.nodes.values():
                other.reports.pop(node.id, None)
        self.changed(node)

    # -- what is said and heard -------------------------------------------------------------------------------------

    def receive(self, node_id: bytes, message: messages.Message, now_ms: int, ip: bytes = b"") -> None:
        """Take a PING, PONG, MEET or FAIL, in the shape of `messages.KINDS`, from the node with this ID.

        Strangers are heard only when they say MEET. `ip` is their address for want of one that `incoming` told.
        """
        kind = message[0]
        node = self.nodes.get(node_id)
        if node is None and kind == messages.MEET:
            node = self._take_in(node_id, cast("Greeting", message), ip, now_ms)
        if node is None or node is self.myself:
            return
        if kind == messages.FAIL:
            self._told_of_failure(node, message, now_ms)
            return
        self._greeted(node, cast("Greeting", message), now_ms)
        if kind == messages.PONG:
            self._alive(node, now_ms)
        elif node.linked:
            self._pong(node, now_ms)
        else:
            node.owes_pong = True

    def is_sending(self, node_id: bytes, now_ms: int) -> None:
        """Bytes of something long come from this node: what it asks and answers is behind them and will come late.

        So it is alive, and hears that this node is. That cannot go on for ever: something that hangs sends no more than
        its system has taken, and where only one direction works, a PONG is missing as soon as that frame is over.
        """
        node = self.nodes.get(node_id)
        if node is None or not node.linked or node.flags & HANDSHAKE:
            return
        self._alive(node, now_ms)
        if now_ms - node.pong_sent_ms >= self.timeout_ms // 4:
            self._pong(node, now_ms)

    def _greeted(self, node: Member, greeting: Greeting, now_ms: int) -> None:
        """What PING, PONG and MEET have in common: how the sender is, where it is, and whom it knows."""
        kind, flags, ip, port, bus_port, rows = greeting
        trusted = not node.flags & HANDSHAKE or kind == messages.MEET
        node.heard = True
        self.set_flags(node, node.flags & ~(TOLD | MEET) | flags & TOLD)
        self._perhaps_met(node)
        self._correct(node, ip or node.ip, port, bus_port)
        if trusted:
            for row in rows[: gossip.ROWS_MOST]:
                self._told(node, row, now_ms)

    def _told(self, teller: Member, row: gossip.Row, now_ms: int) -> None:
        """One node has said how it sees another one."""
        node_id, ip, port, bus_port, flags = row
        failing = flags & FAILING != 0
        node = self.nodes.get(node_id)
        if node is None:
            if not failing and node_id not in self._blacklist:
                self._half_meet(ip, port, bus_port, 0, now_ms)
        elif node is self.myself or node is teller:
            pass
        elif failing:
            node.reports[teller.id] = now_ms
            self._judge(node, now_ms)
        else:
            node.reports.pop(teller.id, None)
            if node.flags & (FAILING | NOADDR) and (ip, bus_port) != (node.ip, node.bus_port):
                self._half_meet(ip, port, bus_port, 0, now_ms)

    def _told_of_failure(self, teller: Member, message: messages.Message, now_ms: int) -> None:
        node = self.nodes.get(cast("bytes", message[1]))
        if node is None or node is self.myself or (node.flags | teller.flags) & HANDSHAKE or node.flags & FAIL:
            return
        if node.linked and not node.flags & PFAIL:
            return  # it answers here: what others say of it counts for them
        self._fail(node, now_ms)

    def _alive(self, node: Member, now_ms: int) -> None:
        """A node has answered a ping."""
        node.pong_received_ms = now_ms
        node.ping_sent_ms = 0
        node.failing_ms = 0
        self.set_flags(node, node.flags & ~FAILING)

    def _suspect(self, node: Member, now_ms: int) -> None:
        if not node.flags & FAILING:
            node.failing_ms = now_ms
            self.set_flags(node, node.flags | PFAIL)
            self._news = True
            self._judge(node, now_ms)

    def _judge(self, node: Member, now_ms: int) -> None:
        """Call a node failed if the majority sees it fail, this node among them."""
        if node.flags & FAILING != PFAIL:
            return
        oldest_ms = now_ms - 2 * self.timeout_ms
        votes = 1 + sum([said_ms >= oldest_ms for said_ms in node.reports.values()])
        if votes >= self.size // 2 + 1:
            self._fail(node, now_ms)
            verdict = (messages.FAIL, node.id)
            self.messages += [(other.id, verdict) for other in self._full() if other.linked and other is not node]

    def _fail(self, node: Member, now_ms: int) -> None:
        node.failing_ms = node.failing_ms or now_ms
        self.set_flags(node, node.flags & ~PFAIL | FAIL)

    def _full(self) -> list[Member]:
        """The other nodes, without those half met."""
        return [node for node in self.nodes.values() if not node.flags & (MYSELF | HANDSHAKE)]

    def _ping(self, node: Member, now_ms: int) -> None:
        node.ping_sent_ms = node.ping_sent_ms or now_ms
        node.pinged_ms = now_ms
        self._say(node, messages.MEET if node.flags & MEET else messages.PING)

    def _pong(self, node: Member, now_ms: int) -> None:
        """Answer, once a millisecond is enough: who asks more often gets no more answers."""
        node.owes_pong = False
        if node.pong_sent_ms != now_ms:
            node.pong_sent_ms = now_ms
            self._say(node, messages.PONG)

    def _say(self, node: Member, kind: int) -> None:
        myself = self.myself
        rows = gossip.choose(self.nodes.values(), node, self.random)
        greeting = (kind, myself.flags & TOLD, self._announced, myself.port, myself.bus_port, rows)
        self.messages.append((node.id, greeting))

    # -- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Do what is due; to be called every 100 ms. After standing still, nobody is blamed for the silence."""
        self._stand_still(now_ms)
        self._ticks += 1
        gone: list[Member] = []
        stale: list[bytes] = []
        for node in self.nodes.values():
            if node.flags & HANDSHAKE:
                self._look_at_half_met(node, now_ms, gone)
            elif node is not self.myself:
                self._look_at(node, now_ms, stale, gone)
        self._stale = stale
        for node in gone:
            if node.flags & HANDSHAKE:
                self._remove(node)
            else:
                self.forget(node.id, now_ms)
        if self._ticks % TICKS_A_SECOND == 0:
            self._each_second(now_ms)
        if self._news and now_ms - self._news_ms >= NEWS_EVERY_MS:
            self._tell_news(now_ms)

    def _look_at_half_met(self, node: Member, now_ms: int, gone: list[Member]) -> None:
        if now_ms - node.met_ms > max(HANDSHAKE_MIN_MS, self.timeout_ms):
            gone.append(node)
        elif node.linked and now_ms - node.pinged_ms >= HANDSHAKE_MIN_MS:
            self._ping(node, now_ms)

    def _look_at(self, node: Member, now_ms: int, stale: list[bytes], gone: list[Member]) -> None:
        """Ask a node that was silent for long, and draw the conclusions when it was asked."""
        timeout_ms = self.timeout_ms
        if not node.ping_sent_ms:
            if not node.linked:
                node.ping_sent_ms = now_ms
            elif node.flags & FAILING or now_ms - node.pong_received_ms > timeout_ms // 2:
                self._ping(node, now_ms)
            return
        silent_ms = now_ms - node.ping_sent_ms
        if silent_ms > timeout_ms:
            self._suspect(node, now_ms)
        if node.linked and silent_ms > timeout_ms // 2 and now_ms - node.linked_ms > timeout_ms:
            stale.append(node.id)
        elif node.linked and now_ms - node.pinged_ms > timeout_ms // 4:
            self._ping(node, now_ms)
        if node.flags & FAILING:
            node.failing_ms = node.failing_ms or now_ms
            if self.forget_after_ms and now_ms - node.failing_ms > self.forget_after_ms:
                gone.append(node)

    def _each_second(self, now_ms: int) -> None:
        """Ask one of some nodes that were drawn, and let the blacklist age."""
        self.forgotten += self.grow_old(self.timeout_ms)
        if self._blacklist:
            self._blacklist = {node_id: end_ms for node_id, end_ms in self._blacklist.items() if end_ms > now_ms}
        quiet = [node for node in self._full() if node.linked and not node.ping_sent_ms]
        if len(quiet) > PING_DRAW:
            quiet = self.random.sample(quiet, PING_DRAW)
        if quiet:
            oldest_ms = min([node.pong_received_ms for node in quiet])
            for node in [node for node in quiet if node.pong_received_ms == oldest_ms][:1]:
                self._ping(node, now_ms)

    def _tell_news(self, now_ms: int) -> None:
        self._news = False
        self._news_ms = now_ms
        for node in self._full():
            if node.linked:
                self._ping(node, now_ms)

    def _stand_still(self, now_ms: int) -> None:
        """Let all waits begin later if this process has not run for long, or read its journal until now."""
        gap_ms = now_ms - self._tick_ms
        if gap_ms > self.timeout_ms // 2:
            for node in self.nodes.values():
                node.ping_sent_ms = _later(node.ping_sent_ms, gap_ms, now_ms)
                node.failing_ms = _later(node.failing_ms, gap_ms, now_ms)
                node.met_ms = _later(node.met_ms, gap_ms, now_ms)
        self._tick_ms = now_ms


def _later(began_ms: int, gap_ms: int, now_ms: int) -> int:
    """A wait that began before the gap, or just now; 0 is none."""
    return min(began_ms + gap_ms, now_ms) if began_ms else 0
