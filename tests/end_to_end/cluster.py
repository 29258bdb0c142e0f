"""Real nodes that make a cluster: started together, made to fail one by one, and whole again.

What was done to them is noted with its time, since it explains what clients see: jobs that come twice.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.end_to_end.node import LOOPBACK, SLOW_POLL_S, Node, ServerError, until

#: Short, so that tests are; long enough for processes that share a busy machine.
NODE_TIMEOUT_MS: Final = 1500
SECRET: Final = "what all nodes of a test know"
OPTIONS: Final = ("--appendonly", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS))
#: So many jobs pass between two events of a test; more make it longer.
JOBS: Final = int(os.environ.get("CLUSTER_JOBS", "300"))


class Place(NamedTuple):
    """Where a node lives: its address, and the words that bring a process there."""

    host: str = LOOPBACK
    prefix: tuple[str, ...] = ()


class Row(NamedTuple):
    """A line of CLUSTER NODES."""

    node_id: str
    address: str
    flags: frozenset[str]
    connected: bool


class Fault:
    """What happened to a node, and from when to when (monotonic seconds); it lasts while `end_s` is None."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begin_s = time.monotonic()
        self.end_s: float | None = None

    def touches(self, begin_s: float, end_s: float, grace_s: float) -> bool:
        """Whether something between these times may come from it, which is so for a while after its end."""
        over_s = time.monotonic() if self.end_s is None else self.end_s
        return self.begin_s < end_s and begin_s < over_s + grace_s


class Cluster:
    """Nodes with the same seeds. `members` are those that belong to it, running or not, in the order of their names."""

    def __init__(self, directory: Path, size: int, *options: str, places: Sequence[Place] = ()) -> None:
        self.directory = directory
        self.options = (*OPTIONS, "--cluster-secret", SECRET, *options)
        self.members: list[Node] = []
        self.faults: list[Fault] = []
        self.stops: list[Fault] = []  # clean ones, which are no faults
        self._all: list[Node] = []
        self._hung: set[Node] = set()
        for place in places or [Place()] * size:
            self.members.append(self.make(place))
        seeds = [f"{node.host}:{node.port}" for node in self.members]
        for node in self.members:
            node.options = (*node.options, "--cluster-seeds", *seeds)

    @property
    def minority(self) -> int:
        """How many nodes may be away while the others are the majority."""
        return (len(self.members) - 1) // 2

    def make(self, place: Place = Place()) -> Node:  # noqa: B008 - it is a tuple
        """Give a node that is not started, knows no seeds and is no member."""
        directory = self.directory / f"node{len(self._all)}"
        directory.mkdir()
        node = Node(directory, *self.options, host=place.host, prefix=place.prefix)
        while node.port in {other.port for other in self._all}:
            node = Node(directory, *self.options, host=place.host, prefix=place.prefix)
        self._all.append(node)
        return node

    def start(self, *nodes: Node) -> None:
        """Start those members that do not run, or these nodes, and wait until they answer."""
        idle = [node for node in nodes or self.members if node.process is None]
        for node in idle:
            node.launch()
        for node in idle:
            node.await_ready()

    def start_whole(self) -> None:
        self.start()
        self.await_whole()

    def discard(self) -> None:
        """End all of them by all means."""
        for node in self._all:
            node.discard()

    def stop(self, node: Node) -> None:
        """End it with SIGTERM: all that it does must go on elsewhere, or wait."""
        self.stops.append(Fault(f"stop of {node.port}"))
        assert node.stop() == 0, node.log()

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault(self, name: str) -> None:
        """Note that something is wrong from now on, until the cluster is whole again."""
        self.faults.append(Fault(name))

    def kill(self, *nodes: Node) -> None:
        """Kill -9."""
        self.fault(f"kill -9 of {len(nodes)}")
        for node in nodes:
            node.signal(signal.SIGKILL)
        for node in nodes:
            node.ended()

    def hang(self, node: Node) -> None:
        """Let the process stand still."""
        self.fault("SIGSTOP")
        self._hung.add(node)
        node.signal(signal.SIGSTOP)

    def wake(self, node: Node) -> None:
        self._hung.discard(node)
        node.signal(signal.SIGCONT)

    # -- how it is -------------------------------------------------------------------------------------------------

    def running(self) -> list[Node]:
        """Give the members that are there to answer."""
        return [node for node in self.members if node.process is not None and node not in self._hung]

    def await_whole(self) -> None:
        """Wait until all members see each other; what was wrong before is over then."""
        until(lambda: all(map(self._sees_all, self.members)), self.describe, SLOW_POLL_S)
        now_s = time.monotonic()
        for fault in [*self.faults, *self.stops]:
            fault.end_s = now_s if fault.end_s is None else fault.end_s

    def await_failed(self, failed: Node) -> None:
        """Wait until all other running members have seen that this one does not answer."""
        others = [node for node in self.running() if node is not failed]
        until(lambda: all(self.sees_failing(node, failed) for node in others), self.describe, SLOW_POLL_S)

    def sees_failing(self, node: Node, failed: Node) -> bool:
        address = f"{failed.host}:{failed.port}"
        return any(row.address == address and row.flags & {"fail", "fail?"} for row in rows(node))

    def _sees_all(self, node: Node) -> bool:
        seen = rows(node)
        good = [row for row in seen if row.connected and row.flags <= {"myself", "noflags", "leaving"}]
        return len(seen) == len(good) == len(self.members)

    def describe(self) -> str:
        """What each running member says of the others."""
        views = [f"{node.port}:\n{node.ask('CLUSTER', 'NODES').decode()}" for node in self.running()]
        return "\n".join(["a whole cluster:", *views])


def rows(node: Node) -> list[Row]:
    """What a node says of all; nothing while it loads."""
    reply = node.ask("CLUSTER", "NODES")
    if isinstance(reply, ServerError):
        return []
    split = [line.split() for line in reply.decode().splitlines()]
    return [Row(line[0], line[1], frozenset(line[2].split(",")), line[-1] == "connected") for line in split]


def id_of(node: Node) -> bytes:
    found: bytes = node.ask("CLUSTER", "MYID")
    return found
