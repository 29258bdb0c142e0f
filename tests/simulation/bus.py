"""The bus of one node process: which links it keeps, and what it tells the core of them.

It does what the real bus does, on the simulated network: it connects to whom the membership wants, with a backoff;
tells the core when a link is there or gone; lets messages out over the links, each peer's in order; and gives back
those of which no byte has left. A node that is still reading its journal has no bus.
"""

from typing import TYPE_CHECKING, Any

from cluster.messages import NEEDS
from disque.core import step

if TYPE_CHECKING:
    from disque.core.node import Node
    from tests.simulation.network import Link
    from tests.simulation.process import Process

Message = tuple[Any, ...]

BACKOFF_MS = 100
BACKOFF_MOST_MS = 1500
#: An attempt that nobody answers is given up.
CONNECT_MOST_MS = 3000


class Attempt:
    """How it goes with one node to which there is no link."""

    __slots__ = ("busy", "failures", "not_before_ms", "since_ms")

    def __init__(self) -> None:
        self.busy = False
        self.failures = 0
        self.not_before_ms = 0
        self.since_ms = 0


class Bus:
    """Links by node ID: those that this process opened, and those that others opened to it."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.world = process.world
        self.network = process.network
        self.outgoing: dict[bytes, Link] = {}
        self.incoming: dict[bytes, Link] = {}
        self.attempts: dict[bytes, Attempt] = {}
        #: Processes that have opened a link from which nothing has come yet: the first bytes make it count.
        self.fresh: set[Process] = set()

    # -- links -----------------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Ten times a second: connect to whom a link is missing, drop links that are of no use."""
        membership = self.process.node.membership
        for node_id in membership.stale():
            link = self.outgoing.get(node_id)
            if link is not None:
                self.network.end(link)
        wanted = {node.id: node for node in membership.wanted()}
        for node_id in [node_id for node_id in self.attempts if node_id not in wanted]:
            del self.attempts[node_id]
        for node_id in [node_id for node_id in self.outgoing if node_id not in wanted]:
            self.network.end(self.outgoing[node_id])
        for node in wanted.values():
            if node.id not in self.outgoing and node.ip:
                self._try(node.id, node.ip, node.bus_port)

    def _try(self, node_id: bytes, ip: bytes, bus_port: int) -> None:
        attempt = self.attempts.setdefault(node_id, Attempt())
        if attempt.busy and self.world.now - attempt.since_ms < CONNECT_MOST_MS:
            return
        if self.world.now < attempt.not_before_ms:
            return
        attempt.busy = True
        attempt.since_ms = self.world.now
        self.network.connect(self.process, node_id, self.process.cluster.machine_at(ip, bus_port))

    def failed(self, node_id: bytes, refused: bool) -> None:
        """An attempt to connect came to nothing."""
        if not self.process.gone:
            self.process.enter_bus(self._failed, node_id, refused)

    def _failed(self, node_id: bytes, refused: bool) -> None:
        attempt = self.attempts.get(node_id)
        if attempt is None or node_id in self.outgoing:
            return
        attempt.busy = False
        attempt.failures += 1
        wait_ms = min(BACKOFF_MS << min(attempt.failures - 1, 6), BACKOFF_MOST_MS)
        attempt.not_before_ms = self.world.now + wait_ms
        step.link_down(self.process.node, node_id, refused, self.process.now_ms())
        self.process.schedule()

    def accepted(self, link: "Link") -> None:
        """Another node has opened a link to this one; its older one is closed before the first frame is read."""
        src = link.src
        node_id = link.src_id
        old = self.incoming.get(node_id)
        self.incoming[node_id] = link
        if old is not None and old.open:
            self.network.end(old, spare=False)
        node, now = self.process.node, self.process.now_ms()
        self.fresh.add(src)
        node.membership.incoming(node_id, src.machine.ip, src.machine.port, src.machine.bus_port, now)
        self._learn(node_id, src)
        self.world.note("heard", self.process.name, src.name)
        attempt = self.attempts.get(node_id)
        if attempt is not None:
            attempt.failures = attempt.not_before_ms = 0
        mine = self.outgoing.get(node_id)
        if mine is not None and mine.target is not src:
            self.network.end(mine)  # that leads to a process that is gone
        self.process.schedule()

    def _learn(self, node_id: bytes, other: "Process") -> None:
        """What a process says of itself at the handshake."""
        membership, told = self.process.node.membership, other.node.membership.myself
        membership.set_zone(node_id, told.zone)
        membership.set_body_most(node_id, told.body_most)
        membership.set_capabilities(node_id, told.capabilities)
        self.process.watch.learnt(self.process, node_id, told.capabilities)

    def connected(self, link: "Link", node_id: bytes) -> None:
        """The handshake is through: this process may speak."""
        target = link.target
        real_id = link.target_id
        attempt = self.attempts.get(node_id)
        if not link.open or attempt is None or real_id in self.outgoing or link.src_id != self.process.node.node_id:
            if link.open:
                self.network.end(link)
            if attempt is not None:
                attempt.busy = False
            return
        node, now = self.process.node, self.process.now_ms()
        machine = target.machine
        del self.attempts[node_id]
        if node_id != real_id and not node.membership.identify(
            node_id, real_id, machine.ip, machine.port, machine.bus_port, now
        ):
            self.network.end(link)
            return
        self._learn(real_id, target)
        self.outgoing[real_id] = link
        self.network.log.look(self.network, self.process.machine.number, machine.number)
        self.world.note("link", self.process.name, target.name)
        step.link_up(node, real_id, target.node.start, now)
        self.process.watch.met(self.process, target)
        self.process.schedule()

    def ended(self, link: "Link") -> None:
        """A link of this process is gone."""
        node_id = link.target_id
        if self.outgoing.get(node_id) is not link:
            return
        del self.outgoing[node_id]
        self.world.note("unlink", self.process.name, link.target.name)
        node, now = self.process.node, self.process.now_ms()
        if link.queue:
            self.process.watch.unsent(self.process, link.queue)
            step.undelivered(node, node_id, link.queue, now)
        step.link_down(node, node_id, False, now)
        self.process.look_for_parting()
        self.process.schedule()

    # -- messages --------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """This node has another ID from here on: all links were made by or to somebody else."""
        for link in [*self.outgoing.values(), *self.incoming.values()]:
            self.network.end(link)
        self.outgoing.clear()
        self.incoming.clear()
        self.attempts.clear()
        self.fresh.clear()

    def received(self, link: "Link", messages: list[Message]) -> None:
        """A frame has come."""
        process, src = self.process, link.src
        node_id = link.src_id
        node, now = process.node, process.now_ms()
        if src in self.fresh:
            self.fresh.discard(src)
            step.heard(node, node_id, src.node.start, now)
            process.watch.met(process, src)
        self.world.note("take", process.name, node_id, *messages)
        for message in messages:
            process.watch.message(process, src, message)
            if understands(node, message):
                step.message(node, node_id, message, now)
            else:
                node.messages_skipped += 1
        process.look_for_parting()
        process.schedule()

    def send(self, outbox: list[tuple[bytes, Message]]) -> None:
        """Let messages leave, one frame a peer; those to nodes without a link are given back."""
        frames: dict[bytes, list[Message]] = {}
        for node_id, message in self.process.node.membership.understood(outbox):
            frames.setdefault(node_id, []).append(message)
        for node_id, messages in frames.items():
            link = self.outgoing.get(node_id)
            if link is not None and link.open:
                self.world.note("send", self.process.name, node_id, *messages)
                self.network.send(link, messages)
            else:
                self.world.note("unsent", self.process.name, node_id, *messages)
                self.process.watch.unsent(self.process, messages)
                self.world.after(0, self.process.enter_bus, self._give_back, node_id, messages)

    def _give_back(self, node_id: bytes, messages: list[Message]) -> None:
        step.undelivered(self.process.node, node_id, messages, self.process.now_ms())
        self.process.schedule()


def understands(node: "Node", message: Message) -> bool:
    """Whether a node of this version knows the kind of a message."""
    return not NEEDS.get(message[0], 0) & ~node.membership.myself.capabilities
