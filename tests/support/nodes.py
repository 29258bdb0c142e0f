"""A node without a process around it: what it asks of its host is noted, never done."""

from collections.abc import Callable
from random import Random

from cluster.membership import Member, Membership
from disque.core.base import resp
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.model.session import Session
from disque.core.node import Node

START_MS = 1_700_000_000_000


class NotedHost:
    """A host that only writes down what it was asked to do. IDs follow from ``seed``."""

    def __init__(self, seed: int = 0) -> None:
        self.asked: list[str] = []
        self._random = Random(seed)
        #: The wall clock, in ms.
        self.clock: Callable[[], int] = lambda: START_MS

    def facts(self) -> dict[str, int | float | str]:
        return {}

    def client_facts(self, session: Session) -> dict[str, int | str]:
        del session
        return {}

    def kill(self, session: Session) -> None:
        session.closing = True

    def suspect(self, session: Session, what: str) -> None:
        self.asked.append(f"suspect {session.id} {what}")

    def warn(self, text: str) -> None:
        self.asked.append(f"warn {text}")

    def configure(self, name: str) -> None:
        self.asked.append(f"configure {name}")

    def rewrite_config(self, session: Session) -> None:
        self.asked.append("rewrite config")
        session.out.append(resp.OK)

    def save_cluster(self) -> None:
        self.asked.append("save cluster")

    def shutdown(self, session: Session, *, rewrite: bool) -> None:
        self.asked.append(f"shutdown of {session.id}, rewrite {rewrite}")

    def rewrite_journal(self) -> bool:
        self.asked.append("rewrite journal")
        return True

    def reload_journal(self, session: Session) -> None:
        self.asked.append(f"reload journal for {session.id}")

    def sleep(self, seconds: float) -> None:
        self.asked.append(f"sleep {seconds}")

    def restart(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        self.asked.append(f"restart of {session.id} in {delay_ms}, clean {clean}")

    def crash(self, how: str) -> None:
        self.asked.append(f"crash {how}")

    def entropy(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def wall_us(self) -> int:
        return self.clock() * 1000


def node_id(number: int) -> bytes:
    """The ID of the node with this number: its digits over and over."""
    return (b"%d" % number * 40)[:40]


def make_node(
    now_ms: int = START_MS, number: int = 1, others: int = 0, seed: int = 0, clock: Callable[[], int] | None = None
) -> Node:
    """A fresh node that knows ``others`` reachable nodes; everything that it draws follows from ``seed``.

    ``clock`` gives the time of its wall clock in ms.
    """
    membership = Membership(Member(node_id(number), b"10.0.0.%d" % number, 7711))
    for other in [other for other in range(1, others + 2) if other != number][:others]:
        membership.add(Member(node_id(other), b"10.0.0.%d" % other, 7711))
    host = NotedHost(seed)
    host.clock = clock or host.clock
    return Node(membership, Config(), Random(seed), host, ROWS, now_ms)
