"""One node of a scenario."""

from collections.abc import Callable

from cluster.membership import Member
from disque.core import step
from disque.core.base.timers import NEVER
from disque.core.jobs import sessions
from disque.core.model.session import Session
from disque.core.node import Message, Node
from tests.support.nodes import make_node, node_id

#: How often a process looks after the other nodes.
BEAT_MS = 100


class Place:
    """A node of a scenario with what is around it: its clients, its journal, the machine that it runs on."""

    def __init__(self, number: int, now_ms: int, clock: Callable[[], int]) -> None:
        self.number = number
        self.clock = clock
        self.node: Node | None = make_node(now_ms, number, clock=clock)
        self.node.registry.is_met = True  # it has been there for a while
        self.sessions: dict[str, Session] = {}
        self.stalled: set[str] = set()
        self.payloads: list[bytes] = []
        self.policy = ""
        self.boot = 1
        self.peers: list[int] = []
        self.zone = b""
        self.inbox: list[tuple[int, Message]] = []
        self.connected = 0
        #: In a cluster: when it looks after the other nodes next.
        self.beat_ms = 0
        #: The process stands still: it neither reads nor looks at its clock.
        self.frozen = False

    @property
    def running(self) -> Node:
        assert self.node is not None, f"node {self.number} is down"
        return self.node

    def session(self, client: str, now_ms: int) -> Session:
        found = self.sessions.get(client)
        if found is None:
            self.connected += 1
            found = sessions.connect(self.running, self.connected, client.encode(), b"", now_ms)
            self.sessions[client] = found
        return found

    def know(self, numbers: list[int]) -> None:
        for number in numbers:
            self.running.membership.add(Member(node_id(number), b"10.0.0.%d" % number, 7711))
        self.running.count_nodes()

    def due_ms(self) -> int:
        """When the process has something to do."""
        if self.frozen:
            return NEVER
        return min(self.running.next_due_ms, self.beat_ms or NEVER)

    def act(self, now_ms: int) -> None:
        """Do what is due."""
        if self.beat_ms and now_ms >= self.beat_ms:
            self.beat_ms = now_ms + BEAT_MS
            step.beat(self.running, now_ms)
        if now_ms >= self.running.next_due_ms:
            step.tick(self.running, now_ms)
