"""The connection between core and bus: messages from other nodes go to the core, and those of the core to other nodes.

Ten times a second (`beat`), the core checks the other nodes, links are made and ended as the table of nodes says, and a
node that knows no other introduces itself to those of `cluster-seeds`. One that has reached none of those that it knows
for a node timeout looks for them there: all may have other addresses now. It does not introduce itself, and knows
nobody else afterwards, so a node that was forgotten on request does not come back by this.

A process that was suspended for long (SIGSTOP, a machine that slept) does not know what happened meanwhile: others may
have marked it as failed and delivered its jobs. The news is in its sockets. So when half a node timeout has passed
since the last beat, the next event, be it a timer, a client or a peer, first runs a beat. Clients wait until what the
peers have sent is read.
"""

import asyncio
import contextlib
import os
import socket
import traceback
from collections.abc import Callable
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from cluster.bus import Bus
from cluster.handshake import Identity
from cluster.member import HANDSHAKE, MEET, MYSELF, Member, default_bus_port
from disque.core import handover, sizes, step
from disque.core.base.timers import NEVER
from disque.core.config.kinds import as_bytes
from disque.core.config.seeds import Seed, parse_seed
from disque.core.config.settings import Config
from disque.server import listen
from disque.server.roster import Roster
from disque.server.tls import contexts

if TYPE_CHECKING:
    from cluster.messages import Message
    from disque.server.pump import Pump

#: How often a node that is alone introduces itself to its seeds, and for how long one that was itself is left out.
JOIN_EVERY_MS: Final = 1000
MYSELF_FOR_MS: Final = 30_000
#: How often one does that knows nodes of its own zone only, and how often those that are lost are looked for.
JOIN_ZONES_MS: Final = 10_000
#: Turns of the loop in which sockets are read before clients are served after a stop, at least and at most.
CATCH_UP_LEAST: Final = 3
CATCH_UP_MOST: Final = 1000
#: Faults are logged at most so often.
FAULT_EVERY_MS: Final = 1000
#: Settings that count for what is between this node and others.
SETTINGS_OF_THE_MESH: Final = frozenset({
    *("cluster-node-timeout", "cluster-forget-after", "cluster-seeds", "cluster-secret", "maxmemory"),
    *("cluster-announce-ip", "cluster-announce-port", "cluster-announce-bus-port", "proto-max-bulk-len"),
})  # fmt: skip


def client_port_of(config: Config) -> int:
    """The port that clients are told unless another one is announced, 0 for none: the plain one while there is one."""
    return config.number("port") or config.number("tls-port")


def bus_port_of(config: Config) -> int:
    """The port on which this node listens for others, 0 for none. Above 65535, the settings cannot be used."""
    port = client_port_of(config)
    return config.number("cluster-bus-port") or (default_bus_port(port) if port else 0)


class Mesh:
    """Owner of the bus. ``port`` and ``bus_port`` are those that this node listens on."""

    def __init__(self, pump: "Pump", port: int, bus_port: int) -> None:
        self.pump = pump
        self.node = pump.node
        self.membership = pump.node.membership
        self.clock = pump.clock
        self.log = pump.log
        self.port = port
        self.bus_port = bus_port
        random = Random(SystemRandom().getrandbits(256))  # noqa: S311 - to spread attempts; secrets use urandom
        self.membership.random = random
        self.bus = Bus(self, pump.loop, random, os.urandom)
        self.started = False
        self._sockets: list[socket.socket] = []
        self.seeds: list[Seed] = []
        self._announced = b""
        self._version = -1
        self._me = (self.membership.myself.id, self.node.start)
        self._beat_ms = self.clock.now_ms()
        self._join_ms = 0
        #: When another node was linked last, or this one began; when the lost ones were looked for last; and the half
        #: met nodes that stand for them.
        self._linked_ms = self._beat_ms
        self._search_ms = 0
        self._sought: set[bytes] = set()
        #: Addresses that have turned out to be this node, and when.
        self._mine: dict[tuple[bytes, int], int] = {}
        self._turns = 0
        self._read_before = -1
        self._fault_ms = 0
        self._roster = Roster(self.membership, self.log)
        #: This node stops, and nothing is on its way here any more.
        self._parted = asyncio.Event()
        self.configure()

    def configure(self) -> None:
        """Take over settings that count here."""
        config = self.node.config
        membership = self.membership
        membership.timeout_ms = config.number("cluster-node-timeout")
        membership.forget_after_ms = config.number("cluster-forget-after") * 1000
        secret = as_bytes(config.text("cluster-secret"))
        body_most = config.number("proto-max-bulk-len")
        self.bus.configure(secret, membership.timeout_ms, body_most, config.number("maxmemory") or NEVER)
        sizes.announce(self.node, body_most)
        self.seeds = [seed for seed in map(parse_seed, config.words("cluster-seeds")) if seed is not None]
        self._announced = as_bytes(config.text("cluster-announce-ip"))
        port = config.number("cluster-announce-port") or self.port
        membership.announce(self._announced, port, config.number("cluster-announce-bus-port") or self.bus_port)
        membership.set_zone(membership.myself.id, as_bytes(config.text("cluster-zone")))

    def bind(self) -> None:
        """Take the port, so that one that is not free is told before a journal is read. Raises ListenError, TlsError.

        Who connects is refused until `start`.
        """
        config = self.node.config
        if config.flag("tls-cluster"):
            self.bus.use_tls(*contexts(config))
        self._sockets = listen.tcp_sockets(config.words("bind"), self.bus_port, None)

    def unbind(self) -> None:
        """Let go of the port, if `start` has not been called."""
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    async def start(self) -> None:
        """Talk to other nodes: the node has read its journal. Raises ListenError."""
        try:
            await self.bus.listen(self._sockets, self.node.config.number("tcp-backlog"))
        except OSError as error:
            reason = listen.reason(error)
            raise listen.ListenError(f"Could not listen on the bus port {self.bus_port}: {reason}") from error
        self._sockets = []
        self.started = True
        self._beat_ms = self._linked_ms = self.clock.now_ms()
        self.beat(self._beat_ms)

    async def part(self, patience_s: float) -> None:
        """Have the others send nothing more, and take what is on its way, for so long at most."""
        self._guarded(handover.begin, self.node)
        self.pump.flush()
        self._look_for_parting()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._parted.wait(), patience_s)

    def _look_for_parting(self) -> None:
        if handover.is_settled(self.node):
            self._parted.set()

    def take_leave(self) -> None:
        """Say to the others what they must know before this node is gone. What is said waits for the journal."""
        self.bus.queue_most = self.bus.large_most = NEVER  # what is said of a job takes less memory than the job did
        farewell = handover.Farewell(self.node)
        while not farewell.done:
            self._guarded(farewell.step, self.clock.now_ms())
            self.pump.flush()

    async def close(self, patience_s: float) -> None:
        """Talk to nobody any more; what was sent has so many seconds to leave."""
        self.started = False
        await self.bus.close(patience_s)

    # -- time ------------------------------------------------------------------------------------------------------

    def beat(self, now_ms: int) -> None:
        """Ten times a second, and first of all after a stop."""
        if not self.started:
            return
        membership = self.membership
        half_ms = membership.timeout_ms // 2
        stopped = now_ms - self._beat_ms > half_ms
        self._beat_ms = now_ms
        alone = membership.known == 1
        self.pump.gap_ms = NEVER if alone else now_ms + half_ms
        if stopped and not alone:
            self._catch_up_first()
        self._look_for_others(now_ms)
        for peer_id in self.bus.sending():
            membership.is_sending(peer_id, now_ms)
        self._guarded(step.beat, self.node, now_ms)
        for peer_id in membership.stale():
            self.bus.renew(peer_id)
        self.reconcile()
        self._roster.look()
        node = self.node
        while node.repairs.news:
            self.log.notice(node.repairs.news.popleft())
        if membership.messages or node.messages or node.early or node.outbox.records or node.batches or node.chores:
            self.pump.schedule()

    def reconcile(self) -> None:
        """Make and end links, if the table of nodes has changed."""
        membership = self.membership
        if membership.version == self._version or not self.started:
            return
        self._version = membership.version
        if (membership.myself.id, self.node.start) != self._me:
            self._me = (membership.myself.id, self.node.start)
            self.bus.restart()
        self.bus.reconcile(membership.wanted())

    def _look_for_others(self, now_ms: int) -> None:
        """Do what a node must that knows no others, that they do not know, or that has lost all of them."""
        others = self._others() if self.seeds else []
        if self.seeds and not others:
            self._join(now_ms)
            return
        if self.node.repairs.is_forgotten:
            self._greet(now_ms)
        if any(node.linked for node in others):
            self._linked_ms = now_ms
        elif others and now_ms - self._linked_ms > self.membership.timeout_ms:
            self._search(now_ms)

    def _others(self) -> list[Member]:
        """The other nodes, without those half met and those of this zone: processes of one host meet at once."""
        mine = self.membership.myself.zone
        nodes = self.membership.nodes.values()
        return [node for node in nodes if not node.flags & (MYSELF | HANDSHAKE) and not (mine and node.zone == mine)]

    def _join(self, now_ms: int) -> None:
        """Introduce this node to its seeds."""
        if now_ms - self._join_ms < (JOIN_EVERY_MS if self.membership.size == 1 else JOIN_ZONES_MS):
            return
        self._join_ms = now_ms
        self._meet_seeds(now_ms)

    def _meet_seeds(self, now_ms: int) -> None:
        """Half meet who is at the seeds, but for addresses of nodes that are known and of this one."""
        self._mine = {place: ms for place, ms in self._mine.items() if now_ms - ms < MYSELF_FOR_MS}
        known = {(node.ip, node.bus_port) for node in self.membership.nodes.values()}
        for seed in self.seeds:
            host = as_bytes(seed.host)
            if (host, seed.bus_port) not in known and (host, seed.bus_port) not in self._mine:
                self.membership.meet(host, seed.port, seed.bus_port, now_ms)

    def _search(self, now_ms: int) -> None:
        """Look at the seeds for the nodes that this one knows: a link that is made there tells both sides the address.

        Only one that was away for too long introduces itself, as it does where it knows them to be.
        """
        if now_ms - self._search_ms < JOIN_ZONES_MS:
            return
        self._search_ms = now_ms
        nodes = self.membership.nodes
        before = set(nodes)
        self._meet_seeds(now_ms)
        if not self.node.repairs.is_forgotten:
            self._sought = self._sought & before | nodes.keys() - before
            for node in [nodes[node_id] for node_id in self._sought - before]:
                self.membership.set_flags(node, node.flags & ~MEET)

    def _is_strange(self, expected: Member, peer: Identity) -> bool:
        """Whether a node that was lost was looked for, and one that is not known was found: it is left alone."""
        return expected.id in self._sought and not expected.flags & MEET and peer.id not in self.membership.nodes

    def _greet(self, now_ms: int) -> None:
        """Introduce this node to those that it knows: it was away for so long that they have forgotten it.

        They would hear nothing else from it, and it would wait for them until it has forgotten them in turn.
        """
        if now_ms - self._join_ms < JOIN_ZONES_MS:
            return
        if self._join_ms and self.node.linked:
            self.node.repairs.is_forgotten = False
            return
        self._join_ms = now_ms
        for node in list(self.membership.nodes.values()):
            if not node.flags & (MYSELF | HANDSHAKE):
                self.membership.meet(node.ip, node.port, node.bus_port, now_ms)

    def _catch_up_first(self) -> None:
        """Let clients wait for some turns of the loop."""
        self.log.notice("This process was suspended: it reads what other nodes have sent before it serves clients")
        if not self._turns:
            self.pump.loop.call_soon(self._catch_up)
        self._turns = 1
        self._read_before = -1
        self.pump.catching_up = True

    def _catch_up(self) -> None:
        """One more turn: enough when peers had nothing more to say in it."""
        self._turns += 1
        read, self._read_before = self.bus.bytes_received, self._read_before
        quiet = read == self._read_before and not self.bus.busy
        self._read_before = read
        if self._turns > CATCH_UP_MOST or (quiet and self._turns > CATCH_UP_LEAST):
            self._turns = 0
            self.pump.catching_up = False
            self.pump.schedule()
        else:
            self.pump.loop.call_soon(self._catch_up)

    # -- out -------------------------------------------------------------------------------------------------------

    def send(self, outbox: "list[tuple[bytes, Message]]") -> None:
        """Let messages leave. Those to nodes without a link are given back to the core in another turn."""
        outbox = self.membership.understood(outbox)
        remains = self.bus.send(outbox)
        self.membership.messages_sent += len(outbox)
        if remains:
            self.membership.messages_sent -= sum([len(messages) for _, messages in remains])
            self.pump.loop.call_soon(self._give_back, remains)

    def _give_back(self, remains: "list[tuple[bytes, list[Message]]]") -> None:
        for peer_id, messages in remains:
            self.undelivered(peer_id, messages)

    # -- what the bus tells ----------------------------------------------------------------------------------------

    def identity(self) -> Identity:
        """Who this node is."""
        myself = self.membership.myself
        address = myself.port, myself.bus_port, self._announced
        return Identity(
            myself.id, self.node.start, *address, myself.zone, myself.body_most, capabilities=myself.capabilities
        )

    def identified(self, expected_id: bytes, peer: Identity, ip: bytes) -> bool:
        """At a known address, somebody has said who he is."""
        now_ms = self.clock.now_ms()
        membership = self.membership
        expected = membership.nodes.get(expected_id)
        if expected is not None and peer.id == membership.myself.id:
            self._mine[expected.ip, expected.bus_port] = now_ms
        if expected is not None and self._is_strange(expected, peer):
            membership.forget(expected_id, now_ms)
            return False
        of_use = membership.identify(expected_id, peer.id, peer.ip or ip, peer.port, peer.bus_port, now_ms)
        if peer.id != membership.myself.id:
            self._learn(peer)
        self.pump.schedule()
        return of_use

    def _learn(self, peer: Identity) -> None:
        """Keep what a peer has said of itself at the handshake."""
        self.membership.set_zone(peer.id, peer.zone)
        self.membership.set_body_most(peer.id, peer.body_most)
        self.membership.set_capabilities(peer.id, peer.capabilities)

    def link_up(self, peer_id: bytes, start: int) -> None:
        """The link to a peer is there."""
        self.pump.begin_turn()
        self.log.verbose(f"Linked to node {peer_id.decode()}")
        self._guarded(step.link_up, self.node, peer_id, start, self.clock.now_ms())
        self.pump.schedule()

    def link_down(self, peer_id: bytes, *, refused: bool) -> None:
        """The link to a peer has ended, or could not be made."""
        self.pump.begin_turn()
        self.log.debug(f"No link to node {peer_id.decode()}: {'refused' if refused else 'ended, or no answer'}")
        self._guarded(step.link_down, self.node, peer_id, refused, self.clock.now_ms())
        if self.node.stopping:
            self._look_for_parting()
        self.pump.schedule()

    def heard(self, peer: Identity, ip: bytes, own_ip: bytes) -> None:
        """A peer has made a link to this node."""
        self.pump.begin_turn()
        now_ms = self.clock.now_ms()
        self.membership.learn_own_ip(own_ip)
        if self.membership.incoming(peer.id, peer.ip or ip, peer.port, peer.bus_port, now_ms):
            self._learn(peer)
            self._guarded(step.heard, self.node, peer.id, peer.start, now_ms)
        self.pump.schedule()

    def received(self, peer_id: bytes, messages: "list[Message]") -> None:
        """A peer has said something."""
        self.pump.begin_turn()
        node = self.node
        now_ms = self.clock.now_ms()
        if now_ms > self.pump.gap_ms:
            self.beat(now_ms)
        self.membership.messages_received += len(messages)
        message = step.message
        for one in messages:
            try:
                message(node, peer_id, one, now_ms)
            except Exception:  # noqa: BLE001 - whatever is wrong with one message, the others count
                self._fault(f"Could not process a message of node {peer_id.decode()}: kind {one[0]}")
        if node.stopping:
            self._look_for_parting()
        self.pump.schedule()

    def undelivered(self, peer_id: bytes, messages: "list[Message]") -> None:
        """No byte of these has left."""
        self.pump.begin_turn()
        self._guarded(step.undelivered, self.node, peer_id, messages, self.clock.now_ms())
        self.pump.schedule()

    def unreached(self, place: str, reason: str) -> None:
        """No node was reached at an address that should have one, and it is time to log it."""
        self.log.notice(f"No node can be reached at {place}: {reason}. Trying again")

    def notice(self, text: str) -> None:
        """A line for the log."""
        self.log.warning(text)

    def verbose(self, text: str) -> None:
        """A line for the log that is rarely wanted."""
        self.log.verbose(text)

    def _guarded(self, door: Callable[..., None], *words: object) -> None:
        """Go through a door of the core; a fault behind it must not end a link or the beat."""
        try:
            door(*words)
        except Exception:  # noqa: BLE001 - whatever is wrong there, the node goes on
            self._fault("Could not process an event about another node")

    def _fault(self, what: str) -> None:
        """Log a fault of ours, with where it happened, but not thousands a second."""
        now_ms = self.clock.now_ms()
        if now_ms - self._fault_ms >= FAULT_EVERY_MS:
            self._fault_ms = now_ms
            self.log.warning(f"{what}\n{traceback.format_exc()}")

    def facts(self) -> dict[str, int | float | str]:
        """What INFO shows of the bus."""
        bus = self.bus
        return {
            "links_out": bus.links_up(),
            "links_in": len(bus.incoming),
            "net_input_bytes": bus.bytes_received,
            "net_output_bytes": bus.bytes_sent,
            "waiting_bytes": bus.waiting_bytes(),
            "refused": bus.complaints.count,
        }
