"""The network: links between node processes that deliver a prefix of what was written to them, in order.

A link has a direction: whatever a node says to another goes over the link that it opened itself. Frames travel in
order, each with a delay of its own. While the way is blocked, frames stand still, and behind some of them the bus
keeps further ones in its own queue. When a link ends, some suffix of what was on the way is lost; nobody is told how
much. Of what the bus had not handed to the link, certainly no byte has left, and the bus says so.

A link is made by connecting: the node that accepts learns first who the other one is, then the node that connects.
Ways that are blocked let nobody connect; a machine whose process is down refuses; a machine without power is silent.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from cluster import messages as wire
from tests.simulation.links_log import LinksLog
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.process import Process

Message = tuple[Any, ...]

#: A connection attempt that nobody answers ends after so many ms.
CONNECT_MS = (400, 2500)
#: How often a system tries again to get something through.
RETRANSMIT_MS = 500


class Way:
    """How messages travel from one machine to another: blocked or not, how long it takes."""

    __slots__ = ("blocked", "high_ms", "low_ms", "worst_ms")

    def __init__(self) -> None:
        self.blocked = 0
        self.low_ms = 0
        self.high_ms = 3
        #: The most that a frame ever took.
        self.worst_ms = 3

    def delay(self, random: Random) -> int:
        """How long the next frame takes."""
        delay = random.randint(self.low_ms, self.high_ms)
        self.worst_ms = max(self.worst_ms, delay)
        return delay


class Link:
    """What one process has opened to another. ``spared`` frames of those on the way still arrive once it has ended."""

    __slots__ = (
        "flying",
        "last_ms",
        "open",
        "queue",
        "spared",
        "src",
        "src_id",
        "stalled",
        "target",
        "target_id",
        "under_way",
        "window",
    )

    def __init__(self, src: "Process", target: "Process", window: int) -> None:
        self.src = src
        self.target = target
        #: Who they were when they made the link.
        self.src_id = src.node.node_id
        self.target_id = target.node.node_id
        self.open = True
        self.window = window
        self.flying = 0
        #: The messages of the frames that fly, oldest first.
        self.under_way: deque[list[Message]] = deque()
        self.spared = 0
        self.last_ms = 0
        #: Frames on the way that the network does not let through.
        self.stalled: deque[tuple[bytes, list[Message]]] = deque()
        #: Messages that the bus has not handed to the link.
        self.queue: list[Message] = []


class Network:
    """All ways between machines, by the numbers of the machines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random("network")
        self.ways: dict[tuple[int, int], Way] = {}
        self.links: set[Link] = set()
        self.log = LinksLog(world)
        #: Told of each frame that is lost: messages, source, target.
        self.on_lost: list[Any] = []
        self.frames = 0
        self.bytes = 0

    def way(self, src: int, target: int) -> Way:
        """The way from one machine to another."""
        way = self.ways.get((src, target))
        if way is None:
            way = self.ways[src, target] = Way()
            if self.random.random() < 0.1:
                way.high_ms = self.random.randint(10, 60)
        return way

    def is_open(self, src: int, target: int) -> bool:
        """Whether frames get through from one machine to another."""
        return not self.way(src, target).blocked

    def slowest(self, one: int, other: int) -> int:
        """The most that a message there and back ever took."""
        return self.way(one, other).worst_ms + self.way(other, one).worst_ms

    # -- connecting ------------------------------------------------------------------------------------------------

    def connect(self, src: "Process", node_id: bytes, machine: "Machine | None") -> None:
        """Try to open a link; the bus of ``src`` is told of the outcome in a while. ``machine`` None: nobody there."""
        number = src.machine.number
        if machine is None or machine.dark or not self._both(number, machine.number):
            self.world.after(self.random.randint(*CONNECT_MS), src.bus.failed, node_id, False)
            return
        delay = self.random.randint(0, 3)
        if machine.process is None:
            self.world.after(delay, src.bus.failed, node_id, True)
            return
        delay += self.way(number, machine.number).delay(self.random)
        self.world.after(delay, self._arrive, src, node_id, machine.process)

    def _both(self, one: int, other: int) -> bool:
        return self.is_open(one, other) and self.is_open(other, one)

    def _arrive(self, src: "Process", node_id: bytes, target: "Process") -> None:
        """The handshake reaches its target."""
        if src.gone:
            return
        if target.gone or not target.listening:
            src.bus.failed(node_id, True)
        elif not self._both(src.machine.number, target.machine.number):
            self.world.after(self.random.randint(*CONNECT_MS), src.bus.failed, node_id, False)
        else:
            target.enter_bus(self._accept, src, node_id, target)

    def _accept(self, src: "Process", node_id: bytes, target: "Process") -> None:
        """The target knows who connects, and answers."""
        link = Link(src, target, self.random.choice([2, 10, 50]))
        self.links.add(link)
        if src.gone or not self._both(src.machine.number, target.machine.number):
            link.open = False
            self.links.discard(link)
            if not src.gone:
                self.world.after(self.random.randint(*CONNECT_MS), src.bus.failed, node_id, False)
            return
        target.bus.accepted(link)
        delay = self.way(target.machine.number, src.machine.number).delay(self.random)
        self.world.after(delay, src.enter_bus, src.bus.connected, link, node_id)

    # -- frames ----------------------------------------------------------------------------------------------------

    def send(self, link: Link, messages: list[Message]) -> None:
        """Write messages to an open link as one frame."""
        assert link.open
        if link.queue or len(link.stalled) >= link.window:
            link.queue += messages
            return
        payload = wire.frame([wire.encode_message(message) for message in messages])
        self.frames += 1
        self.bytes += len(payload)
        if link.stalled:
            link.stalled.append((payload, messages))
        else:
            self._fly(link, payload, messages)

    def _fly(self, link: Link, payload: bytes, messages: list[Message]) -> None:
        way = self.way(link.src.machine.number, link.target.machine.number)
        link.last_ms = max(link.last_ms, self.world.now + way.delay(self.random))
        link.flying += 1
        link.under_way.append(messages)
        self.world.at(link.last_ms, self._land, link, payload, messages)

    def _land(self, link: Link, payload: bytes, messages: list[Message]) -> None:
        link.flying -= 1
        link.under_way.popleft()
        if not link.open:
            if link.spared <= 0:
                self.lost(link, messages)
                return
            link.spared -= 1
        elif link.stalled or not self.is_open(link.src.machine.number, link.target.machine.number):
            link.stalled.append((payload, messages))
            return
        if link.target.gone:
            self.lost(link, messages)
        else:
            link.target.enter_bus(self._read, link, payload, messages)

    def _read(self, link: Link, payload: bytes, messages: list[Message]) -> None:
        """The process takes a frame, unless a newer link of the same node has closed this one."""
        target = link.target
        if target.bus.incoming.get(link.src_id) is link:
            target.bus.received(link, wire.decode(payload[4:]))
        else:
            self.lost(link, messages)

    def not_taken(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        """A process that stood still has ended: what had arrived was taken by nobody."""
        if call == self._read:
            link, _, messages = args
            self.lost(link, messages)

    def lost(self, link: Link, messages: list[Message]) -> None:
        """A frame will not arrive."""
        for told in self.on_lost:
            told(link, messages)

    # -- the end of links ------------------------------------------------------------------------------------------

    def end(self, link: Link, *, spare: bool = True) -> None:
        """A link is no more. Some of what is on the way still arrives, if it may be spared."""
        if not link.open:
            return
        link.open = False
        self.links.discard(link)
        link.spared = self.random.randint(0, link.flying) if spare and link.flying else 0
        while link.stalled:
            self.lost(link, link.stalled.popleft()[1])
        self.log.look(self, link.src.machine.number, link.target.machine.number)
        if link.src.gone:
            self.lost(link, link.queue)
        else:
            link.src.enter_bus(link.src.bus.ended, link)

    def reset(self, link: Link) -> None:
        """Something between the nodes cuts the link; both sides notice."""
        if link.open:
            self.end(link)

    def process_gone(self, process: "Process", *, power: bool, clean: bool = False) -> None:
        """A process is no more: its links end. Without power, the others find out late."""
        for link in self.sorted_links():
            if link.src is process:
                self.end(link, spare=not power)
                if clean:
                    link.spared = link.flying
            elif link.target is process and not power:
                self.world.after(self.random.randint(0, 3), self._closed, link)
            elif link.target is process:
                self.world.after(self.random.randint(500, 8000), self._closed, link)
        self.log.look_at(self, process.machine.number)

    def _closed(self, link: Link) -> None:
        """The system at the other end says that nobody is there any more, as soon as that gets through."""
        if not link.open:
            return
        if self._both(link.src.machine.number, link.target.machine.number):
            self.end(link)
        else:
            self.world.after(RETRANSMIT_MS, self._closed, link)

    def sorted_links(self) -> list[Link]:
        """All open links, in an order that does not hang on where objects lie in memory."""
        return sorted(self.links, key=lambda link: (link.src.machine.number, link.target.machine.number, link.src.life))

    # -- faults ----------------------------------------------------------------------------------------------------

    def block(self, src: int, target: int) -> None:
        """Let nothing through from one machine to another, until `unblock` was called as often."""
        self.way(src, target).blocked += 1
        self.log.look(self, src, target)

    def unblock(self, src: int, target: int) -> None:
        """Let frames through again, those that stand still first."""
        way = self.way(src, target)
        way.blocked = max(0, way.blocked - 1)
        if not way.blocked:
            for link in self.sorted_links():
                if (link.src.machine.number, link.target.machine.number) == (src, target):
                    self._go_on(link)
            self.log.look(self, src, target)

    def _go_on(self, link: Link) -> None:
        while link.stalled:
            self._fly(link, *link.stalled.popleft())
        messages, link.queue = link.queue, []
        if messages:
            self.send(link, messages)

    def heal(self) -> None:
        """Everything gets through, at once."""
        for (src, target), way in sorted(self.ways.items()):
            way.low_ms, way.high_ms = 0, 3
            if way.blocked:
                way.blocked = 1
                self.unblock(src, target)
