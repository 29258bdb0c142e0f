"""A small network of its own for a cluster: each node in a namespace, all on one bridge, and ways to cut between them.

A way is cut by telling one node a wrong link address of another one: what it sends there is gone without a word, as in
a network that fails, and what comes from there still arrives. This takes the right to make namespaces, which root has
on most machines, and `ip` of iproute2.
"""

import os
import subprocess
from collections.abc import Iterable
from itertools import count, product
from pathlib import Path
from random import SystemRandom
from typing import Final

from tests.end_to_end.cluster import Cluster, Place
from tests.end_to_end.node import Node

#: Addresses for tests of networks (RFC 2544): nobody has them.
NETWORK: Final = "198.18"
#: A link address that nobody has.
NOBODY: Final = "02:00:00:00:00:01"
#: Nodes ask for a password from elsewhere, and clients of the tests are elsewhere.
OPTIONS: Final = ("--protected-mode", "no")

_numbers = count()


class RefusedError(Exception):
    """No network of its own can be made here; it says why."""


class Network:
    """A bridge in a namespace of its own, so that no filter of this machine counts; this machine is attached to it."""

    def __init__(self) -> None:
        self._name = f"dq{os.getpid()}n{next(_numbers)}"
        self._prefix = f"{NETWORK}.{SystemRandom().randrange(256)}"
        self._spaces: list[str] = []
        try:
            self._make_hub()
        except RefusedError:
            self.remove()
            raise

    def _make_hub(self) -> None:
        hub = self._space("hub")
        run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "bridge", "up")
        run("ip", "link", "add", self._name, "type", "veth", "peer", "name", "host", "netns", hub)
        run("ip", "-n", hub, "link", "set", "host", "master", "bridge", "up")
        run("ip", "address", "add", f"{self._prefix}.254/24", "dev", self._name)
        run("ip", "link", "set", self._name, "up")

    def _space(self, name: str) -> str:
        space = f"{self._name}-{name}"
        run("ip", "netns", "add", space)
        self._spaces.append(space)
        run("ip", "-n", space, "link", "set", "lo", "up")
        return space

    def place(self) -> Place:
        """Make room for one more node."""
        number = len(self._spaces)
        hub, host = self._spaces[0], f"{self._prefix}.{number}"
        space = self._space(str(number))
        run("ip", "-n", hub, "link", "add", f"node{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", hub, "link", "set", f"node{number}", "master", "bridge", "up")
        run("ip", "-n", space, "address", "add", f"{host}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        return Place(host, ("ip", "netns", "exec", space))

    def remove(self) -> None:
        """Take it away; nothing may run in it."""
        for space in self._spaces:
            run("ip", "netns", "delete", space)
        self._spaces.clear()


class Divided(Cluster):
    """A cluster on a network that can be cut."""

    def __init__(self, directory: Path, size: int) -> None:
        self.network = Network()
        self._cut: list[tuple[Node, Node]] = []
        super().__init__(directory, size, *OPTIONS, places=[self.network.place() for _ in range(size)])

    def cut(self, ways: Iterable[tuple[Node, Node]]) -> None:
        """From now on nothing of what the first sends reaches the second, for each of these pairs."""
        self.fault("partition")
        for sender, receiver in ways:
            neighbour(sender, "replace", receiver.host, "lladdr", NOBODY, "nud", "permanent")
            self._cut.append((sender, receiver))

    def heal(self) -> None:
        """All reach all others again."""
        for sender, receiver in self._cut:
            neighbour(sender, "delete", receiver.host)
        self._cut.clear()

    def discard(self) -> None:
        super().discard()
        self.network.remove()


def neighbour(node: Node, *words: str) -> None:
    run(*node.prefix, "ip", "neighbour", *words, "dev", "eth0")


def both_ways(one: Iterable[Node], other: Iterable[Node]) -> list[tuple[Node, Node]]:
    """All ways between two parts of a cluster."""
    return [way for here, there in product(one, other) for way in ((here, there), (there, here))]


def run(*words: str) -> None:
    """Run a program; RefusedError with what it says if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RefusedError(str(error)) from error
    if done.returncode:
        raise RefusedError(f"{' '.join(words)}: {done.stderr.strip()}")
