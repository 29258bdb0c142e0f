"""Some node tables that talk to each other in memory, at a clock that the test moves. Stands in for the bus."""

from random import Random
from typing import Final

from cluster.membership import HANDSHAKE, Member, Membership
from cluster.messages import Message, decode, encode_message, frame
from cluster.nodesfile import parse, render

START_MS: Final = 1_000_000
TICK_MS: Final = 100
TIMEOUT_MS: Final = 3000


def node_id(number: int) -> bytes:
    return b"%02x" % (0xA0 + number) * 20


class Machine:
    """A node of the world: its table, where it listens, and the links that it has made."""

    def __init__(self, number: int) -> None:
        self.membership = Membership(Member(node_id(number), b"", 7711), Random(number), TIMEOUT_MS)
        self.ip = b"10.0.0.%d" % number
        self.up = True
        self.frozen = False
        self.links: dict[bytes, Machine] = {}
        self.heard: list[Message] = []
        self.sent = 0

    @property
    def id(self) -> bytes:
        return self.membership.myself.id

    def knows(self, other: "Machine") -> Member:
        return self.membership.nodes[other.id]

    def flags(self, other: "Machine") -> int:
        return self.knows(other).flags

    def full(self) -> set[bytes]:
        """The nodes that it knows for good."""
        return {node.id for node in self.membership.nodes.values() if not node.flags & HANDSHAKE}


class World:
    """`World(3)` are three nodes that do not know each other; `cut` holds the one-way ways that lose everything."""

    def __init__(self, count: int) -> None:
        self.now_ms = START_MS
        self.machines = [Machine(number) for number in range(1, count + 1)]
        self.cut: set[tuple[Machine, Machine]] = set()

    # -- what a test does -------------------------------------------------------------------------------------------

    def meet(self, one: Machine, other: Machine) -> None:
        assert one.membership.meet(other.ip, 7711, 0, self.now_ms)

    def meet_all(self) -> None:
        """All meet the first one, and know each other soon after."""
        for machine in self.machines[1:]:
            self.meet(machine, self.machines[0])
        self.advance(2000)
        assert self.is_mesh(), "they did not find each other"

    def is_mesh(self) -> bool:
        ids = {machine.id for machine in self.machines}
        return all(machine.full() == ids == set(machine.membership.nodes) for machine in self.machines)

    def advance(self, ms: int) -> None:
        for _ in range(ms // TICK_MS):
            self.now_ms += TICK_MS
            for machine in self.running():
                self.connect(machine)
                machine.membership.tick(self.now_ms)
                for peer_id in machine.membership.stale():
                    self.end_link(machine, peer_id, refused=False)
            self.deliver()

    def kill(self, machine: Machine) -> None:
        """The process ends: its links with it."""
        machine.up = False
        machine.links.clear()
        for other in self.machines:
            if machine in other.links.values():
                self.end_link(other, machine.id, refused=False)

    def start(self, machine: Machine, ip: bytes) -> None:
        """A new process begins with the nodes.conf of the old one, perhaps at another address."""
        machine.membership = parse(render(machine.membership, self.now_ms), self.now_ms)
        machine.membership.timeout_ms = TIMEOUT_MS
        machine.up, machine.ip = True, ip

    def separate(self, one: Machine, other: Machine) -> None:
        self.cut |= {(one, other), (other, one)}

    def running(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.up and not machine.frozen]

    # -- what the bus does ------------------------------------------------------------------------------------------

    def connect(self, machine: Machine) -> None:
        wanted = {node.id: node for node in machine.membership.wanted()}
        for peer_id in [peer_id for peer_id in machine.links if peer_id not in wanted]:
            self.end_link(machine, peer_id, refused=False)
        for peer_id, node in wanted.items():
            if peer_id not in machine.links:
                self.connect_to(machine, peer_id, node.ip, node.bus_port)

    def connect_to(self, machine: Machine, peer_id: bytes, ip: bytes, bus_port: int) -> None:
        found = [one for one in self.machines if one.ip == ip and one.membership.myself.bus_port == bus_port]
        if found and ((machine, found[0]) in self.cut or found[0].frozen):
            return
        if not found or not found[0].up:
            machine.membership.link_down(peer_id, self.now_ms, refused=True)
            return
        other, membership = found[0], machine.membership
        if membership.identify(peer_id, other.id, ip, 7711, bus_port, self.now_ms):
            assert not membership.nodes[other.id].linked
            machine.links[other.id] = other
            other.membership.incoming(machine.id, machine.ip, 7711, 17711, self.now_ms)
            other.membership.learn_own_ip(ip)
            membership.link_up(other.id, self.now_ms)

    def end_link(self, machine: Machine, peer_id: bytes, *, refused: bool) -> None:
        del machine.links[peer_id]
        machine.membership.link_down(peer_id, self.now_ms, refused=refused)

    def deliver(self) -> None:
        for _ in range(20):
            if not any(machine.membership.messages for machine in self.running()):
                return
            for machine in self.running():
                self.send(machine)
        raise AssertionError("they never stop talking")

    def send(self, machine: Machine) -> None:
        messages, machine.membership.messages = machine.membership.messages, []
        for peer_id, message in messages:
            machine.sent += 1
            other = machine.links.get(peer_id)
            if other is not None and other.up and not other.frozen and (machine, other) not in self.cut:
                (received,) = decode(frame([encode_message(message)])[4:])
                other.heard.append(received)
                other.membership.receive(machine.id, received, self.now_ms)
