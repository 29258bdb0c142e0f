"""A pump without an event loop, and connections without sockets: turns are taken by hand, time stands still."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, cast

from cluster import membership
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.node import Node
from disque.server.connection import Connection
from disque.server.facts import NodeClock
from disque.server.pump import Pump
from tests.core.support import START_MS, FakeHost

LOCAL: Final = ("127.0.0.1", 7711)
PEER: Final = ("127.0.0.1", 50000)


class Handle:
    """What call_later gives."""

    def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Calls that wait for their turn, and timers that wait for somebody to fire them."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], object]] = deque()
        self.timers: list[Handle] = []

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        self.calls.append(lambda: function(*args))

    def call_later(self, delay_s: float, function: Callable[..., object], *args: Any) -> Handle:
        self.timers.append(Handle(delay_s, lambda: cast("None", function(*args))))
        return self.timers[-1]

    def turn(self) -> None:
        """Do what waits now; what it asks for comes in the next turn."""
        for _ in range(len(self.calls)):
            self.calls.popleft()()

    def settle(self) -> None:
        """Take turns until nothing waits."""
        while self.calls:
            self.turn()

    def waiting(self) -> list[Handle]:
        return [handle for handle in self.timers if not handle.cancelled]


class Transport:
    """The other end of a connection: what was written, and whether it was closed, cut or paused."""

    def __init__(self, peer: object = PEER) -> None:
        self.peer = peer
        self.written = b""
        self.closed = False
        self.aborted = False
        self.reading = True
        self.unsent = 0

    def get_extra_info(self, name: str) -> object:
        return {"peername": self.peer, "sockname": LOCAL}.get(name)

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, *args: Any, **options: Any) -> None:
        pass

    def take(self) -> bytes:
        """Give what was written since the last time."""
        written, self.written = self.written, b""
        return written


class Clock:
    """The time of the machine, which goes on by hand."""

    def __init__(self) -> None:
        self.ms = START_MS

    def ns(self) -> int:
        return self.ms * 1_000_000


class Log:
    """Notes lines of all levels."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __getattr__(self, level: str) -> Callable[[str], None]:
        return self.lines.append


class Writer:
    """A journal that says when something is safe; `hold` lets it keep back what comes."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.sequence = 0
        self.safe = 0
        self.segment = 1
        self.hold = False
        self.failing = ""

    def append(self, payload: bytes) -> int:
        self.payloads.append(payload)
        self.sequence += 1
        return self.sequence

    def flush(self) -> None:
        if not self.hold:
            self.safe = self.sequence


class Shell:
    """A pump with a node behind it."""

    def __init__(self, **options: str) -> None:
        config = Config()
        for name, value in options.items():
            config.put(name.replace("_", "-"), (value,))
        self.loop = Loop()
        self.clock = Clock()
        self.log = Log()
        self.host = FakeHost()
        table = membership.Membership(membership.Member(b"a0" * 20, b"127.0.0.1", 7711))
        self.node = Node(table, config, Random(1), self.host, ROWS, self.clock.ms)
        clock = NodeClock(0, self.clock.ns, self.clock.ns)
        self.pump = Pump(self.node, clock, cast("Any", self.log), cast("Any", self.loop))
        self.pump.turn_most_s = 3600.0  # how fast this machine is decides nothing

    def journal(self) -> Writer:
        """Let the node be journalled."""
        writer = Writer()
        self.pump.journal = cast("Any", writer)
        self.node.journaling = True
        self.node.segment = 1
        return writer

    def connect(self, peer: object = PEER, unix_path: str = "") -> tuple[Connection, Transport]:
        connection, transport = Connection(self.pump, unix_path), Transport(peer)
        connection.connection_made(cast("Any", transport))
        return connection, transport

    def fire(self) -> float:
        """Let the timer fire that is armed, now; give the seconds for which it was armed."""
        [handle] = self.loop.waiting()
        handle.cancelled = True
        handle.call()
        self.loop.settle()
        return handle.delay_s

    def ask(self, connection: Connection, data: bytes) -> bytes:
        """Send, take all turns, give what was answered."""
        connection.data_received(data)
        self.loop.settle()
        return cast("Any", connection.transport).take()  # type: ignore[no-any-return]  # a Transport of this file
