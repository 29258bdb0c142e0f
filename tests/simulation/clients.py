"""Clients: each is a small story told as a generator, on connections that come and go.

A story yields a number of ms to sleep, or an `Ask`: requests that are sent in one go. It is resumed with the replies,
or with None when the connection broke or its patience was over, and goes on with a new connection, to any node.
"""

from collections.abc import Generator
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.wires import Replies, Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.machine import Machine

#: A client is sent to no node for so long when none is there.
NOBODY_MS = 200


class Ask:
    """Requests, how long to wait for all replies, and whether to stop reading for a while."""

    __slots__ = ("choke_ms", "patience_ms", "requests")

    def __init__(self, *requests: list[bytes], patience_ms: int = 10_000, choke_ms: int = 0) -> None:
        self.requests = list(requests)
        self.patience_ms = patience_ms
        self.choke_ms = choke_ms


class Leave:
    """Hang up; the next request goes to another node."""


Story = Generator[int | Ask | Leave, list[Any] | None, None]


class Client:
    """Tells one story."""

    def __init__(self, cluster: "Cluster", name: str, *, home: "Machine | None" = None) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.home = home
        self.random: Random = self.world.random(name)
        self.wire: Wire | None = None
        self.ended = False
        self._story: Story | None = None
        self._replies: list[Any] = []
        self._wanted = 0
        self._turn = 0

    def begin(self, story: Story) -> None:
        """Start to tell it."""
        self._story = story
        self.world.after(self.random.randint(0, 20), self._resume, self._turn, None)

    def end(self) -> None:
        """Stop here, and hang up."""
        self.ended = True
        self._turn += 1
        self._hang_up()
        if self._story is not None:
            self._story.close()

    def _resume(self, turn: int, value: list[Any] | None) -> None:
        if self.ended or turn != self._turn:
            return
        assert self._story is not None
        self._turn += 1
        try:
            step = self._story.send(value)
        except StopIteration:
            self.end()
            return
        if isinstance(step, int):
            self.world.after(step, self._resume, self._turn, None)
        elif isinstance(step, Leave):
            self._hang_up()
            self.world.after(0, self._resume, self._turn, None)
        else:
            self._send(step)

    def _send(self, ask: Ask) -> None:
        if not ask.requests:
            self.world.after(0, self._resume, self._turn, [])
            return
        if self.wire is not None and self.wire.half:
            self._hang_up()
        if self.wire is None and not self._connect():
            self.world.after(NOBODY_MS, self._resume, self._turn, None)
            return
        assert self.wire is not None
        self._replies = []
        self._wanted = len(ask.requests)
        self.wire.send(ask.requests)
        self.world.after(ask.patience_ms, self._give_up, self._turn)
        if ask.choke_ms and self.wire.connection is not None:
            self._choke(self.wire, ask.choke_ms)

    def _choke(self, wire: Wire, choke_ms: int) -> None:
        connection = wire.connection
        assert connection is not None
        connection.choked = True
        self.world.after(choke_ms, connection.process.enter, connection.unchoke)

    def _connect(self) -> bool:
        machine = self.home or self.random.choice(self.cluster.machines)
        if machine.retired:
            return False
        self.wire = Wire(self.world, self.random, self._heard, self._broken)
        self.wire.connect(machine)
        return True

    def _heard(self, answered: Replies) -> None:
        self._replies += [reply for _, reply in answered]
        if len(self._replies) >= self._wanted:
            self._resume(self._turn, self._replies)

    def _broken(self) -> None:
        self.wire = None
        self.world.after(self.random.randint(1, 300), self._resume, self._turn, None)

    def _give_up(self, turn: int) -> None:
        if turn == self._turn and not self.ended:
            self._hang_up()
            self._resume(turn, None)

    def _hang_up(self) -> None:
        if self.wire is not None:
            self.wire.close()
            self.wire = None
