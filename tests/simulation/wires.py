"""The client's end of a connection: what it sends arrives in order after a while, and so do the replies."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.connection import Connection, Request
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.process import Process

Replies = list[tuple[Request, Any]]


class Wire:
    """A connection to one machine. ``heard`` is called with replies, ``broken`` once when the connection is gone."""

    def __init__(
        self, world: World, random: Random, heard: Callable[[Replies], None], broken: Callable[[], None]
    ) -> None:
        self.world = world
        self.random = random
        self.heard = heard
        self.broken = broken
        self.connection: Connection | None = None
        self.open = True
        #: The client has said that it sends nothing more.
        self.half = False
        self._there_ms = 0
        self._back_ms = 0
        self._early: list[Request] = []

    def connect(self, machine: "Machine") -> None:
        """Begin to connect; nobody tells whether it works but by an answer or a break."""
        self.world.after(self._delay(), self._arrive, machine)

    def _delay(self) -> int:
        return self.random.choice((0, 0, 0, 1, 1, 2, 8))

    def _arrive(self, machine: "Machine") -> None:
        process = machine.process
        if not self.open:
            return
        if process is None or process.gone or process.stopping:
            if not machine.dark:
                self.lost()
        else:
            process.enter(self._accepted, process)

    def _accepted(self, process: "Process") -> None:
        if not self.open:
            return
        if process.stopping:
            self.lost()
            return
        self.connection = process.admit(self)
        early, self._early = self._early, []
        for request in early:
            self.connection.arrive(request)

    def send(self, requests: list[list[bytes]]) -> None:
        """Send some requests in one go."""
        self._there_ms = max(self._there_ms, self.world.now + self._delay())
        self.world.at(self._there_ms, self._sent, [Request(args, self.world.now) for args in requests])

    def _sent(self, requests: list[Request]) -> None:
        connection = self.connection
        if connection is None:
            self._early += requests
        else:
            connection.process.enter(self._handed, connection, requests)

    @staticmethod
    def _handed(connection: Connection, requests: list[Request]) -> None:
        for request in requests:
            connection.arrive(request)

    def replies(self, answered: Replies) -> None:
        """Replies begin to leave the server."""
        self._back_ms = max(self._back_ms, self.world.now + self._delay())
        self.world.at(self._back_ms, self._heard, answered)

    def _heard(self, answered: Replies) -> None:
        if self.open:
            self.heard(answered)

    def close(self) -> None:
        """The client hangs up."""
        if self.open:
            self.open = False
            if self.connection is not None:
                at_ms = max(self._there_ms, self.world.now + self._delay())
                self.world.at(at_ms, self.connection.process.enter, self.connection.disconnect)

    def half_close(self) -> None:
        """The client shuts down its sending side, behind what it has sent."""
        if self.open and not self.half and self.connection is not None:
            self.half = True
            at_ms = max(self._there_ms, self.world.now + self._delay())
            self.world.at(at_ms, self.connection.process.enter, self.connection.end_of_input)

    def lost(self) -> None:
        """The server's end is gone."""
        self._back_ms = max(self._back_ms, self.world.now + self._delay())
        self.world.at(self._back_ms, self._lost)

    def _lost(self) -> None:
        if self.open:
            self.open = False
            self.broken()
