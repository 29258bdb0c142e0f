"""Waits for replies on the connections of all channels: in an event loop of kombu, or in `drain_events`.

In an event loop every channel that may take messages has a GETJOB outstanding at all times. In `drain_events` it has
one while that waits, for a single message, so that nothing is taken that nobody is there for.
"""

import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from kombu.utils.eventio import ERR, READ, poll

from disque.celery.wire import Wire

if TYPE_CHECKING:
    from disque.celery.channel import Channel

#: A GETJOB waits so long at the server, in ms: in an event loop, and in `drain_events`.
LOOP_MS: Final = 10_000
DRAIN_MS: Final = 1000
#: Messages that are taken at once in an event loop where nothing limits them.
MOST: Final = 100
#: So long is an answer waited for after the end of the time that was given, in seconds.
GRACE_S: Final = 0.25
#: How often it is looked whether connections still live, in seconds.
LOOK_S: Final = 5.0


class Poller:
    """The connections of one transport, by file descriptor."""

    def __init__(self) -> None:
        self.loop: Any = None
        self._channels: list[Channel] = []
        self._by_fd: dict[int, tuple[Channel, Wire]] = {}
        self._poller: Any = None
        self._registered: set[int] = set()
        self._waker: tuple[socket.socket, socket.socket] | None = None
        self._draining: int | None = None
        self._looked_s = monotonic()

    # -- what there is ----------------------------------------------------------------------------------------------

    def add(self, channel: "Channel") -> None:
        """This channel may wait for messages."""
        self._channels.append(channel)

    def discard(self, channel: "Channel") -> None:
        """This channel is closed."""
        if channel in self._channels:
            self._channels.remove(channel)

    def watch(self, channel: "Channel", wire: Wire) -> None:
        """A connection was opened."""
        self._by_fd[wire.fileno()] = (channel, wire)

    def forget(self, fd: int) -> None:
        """A connection is about to be closed."""
        self._by_fd.pop(fd, None)
        if self.loop is not None:
            self.loop.remove(fd)
        if fd in self._registered:
            self._registered.discard(fd)
            self._poller.unregister(fd)

    def close(self) -> None:
        """Everything is closed."""
        if self.loop is not None:
            self.loop.on_tick.discard(self.on_tick)
            for fd in self._by_fd:
                self.loop.remove(fd)
            self.loop = None
        if self._poller is not None:
            self._poller.close()
            self._poller = None
        for end in self._waker or ():
            end.close()
        self._waker = None
        self._registered.clear()

    def after_fork(self) -> None:
        """In a child process: what the parent polls is left alone."""
        self.loop = self._poller = self._waker = self._draining = None
        self._by_fd.clear()
        self._registered.clear()

    # -- in an event loop ------------------------------------------------------------------------------------------

    def attach(self, loop: Any) -> None:
        """An event loop waits from now on."""
        self.loop = loop
        loop.on_tick.add(self.on_tick)

    def on_tick(self) -> None:
        """The loop is about to wait: whoever may take messages asks for them. Raises UnavailableError."""
        for channel in list(self._channels):
            channel.deliver_all()
            channel.listen()
            channel.ask(LOOP_MS, MOST)
        readers = self.loop.readers
        for fd in self._by_fd.keys() - readers.keys():
            self.loop.add_reader(fd, self.on_readable, fd)

    def on_readable(self, fd: int) -> None:
        """A connection has something to read."""
        found = self._by_fd.get(fd)
        if found is not None:
            channel, wire = found
            channel.receive(wire)
            channel.deliver_all()

    def look(self) -> None:
        """Look whether all connections still live."""
        self._looked_s = monotonic()
        for channel in list(self._channels):
            channel.look()

    # -- in drain_events -------------------------------------------------------------------------------------------

    def drain(self, timeout_s: float | None) -> None:
        """Wait for one message and deliver it. Raises TimeoutError, UnavailableError."""
        deadline_s = None if timeout_s is None else monotonic() + timeout_s
        is_late = False
        while not any(channel.deliver_one() for channel in list(self._channels)):
            now_s = monotonic()
            left_s = DRAIN_MS / 1000 if deadline_s is None else deadline_s - now_s
            if is_late and (left_s < -GRACE_S or not self._owed(deadline_s)):
                raise TimeoutError("no message in time")
            for channel in list(self._channels):
                channel.listen()
                if not is_late:
                    channel.ask(max(1, min(DRAIN_MS, round(left_s * 1000))), 1)
            is_late = left_s <= 0
            self._wait(left_s + GRACE_S if is_late else min(left_s, DRAIN_MS / 1000))
            if now_s > self._looked_s + LOOK_S:
                self.look()

    def _owed(self, deadline_s: float | None) -> bool:
        """Whether an answer is due that was asked for until then."""
        return deadline_s is not None and any(channel.is_owed(deadline_s + GRACE_S) for channel in self._channels)

    def _wait(self, timeout_s: float) -> None:
        """Read what comes on any connection within so many seconds."""
        if self._poller is None:
            self._poller = poll()
            self._waker = socket.socketpair()
            self._waker[0].setblocking(False)
            self._waker[1].setblocking(False)
            self._poller.register(self._waker[0].fileno(), READ)
        for fd in self._by_fd.keys() - self._registered:
            self._poller.register(fd, READ | ERR)
            self._registered.add(fd)
        self._draining = threading.get_ident()
        try:
            events = self._poller.poll(timeout_s)
        finally:
            self._draining = None
        for fd, _ in events or ():
            found = self._by_fd.get(fd)
            if found is not None:
                channel, wire = found
                channel.receive(wire)
            elif self._waker is not None and fd == self._waker[0].fileno():
                self._waker[0].recv(4096)

    def wake(self) -> None:
        """Another thread has settled messages, so more may be taken."""
        if self._draining not in {None, threading.get_ident()} and self._waker is not None:
            self._waker[1].send(b"\0")
