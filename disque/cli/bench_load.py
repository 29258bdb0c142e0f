"""The engine: one thread, many connections, and a lane for each that decides what to send.

It uses plain sockets with epoll. Against a redis-server, it was compared with uvloop protocols and with counting
replies by their line ends. All four variants are within a tenth of each other, at 5.5 to 7 us of client CPU a request
without pipelining and 0.4 to 0.5 us at pipeline 16, because the system calls dominate. So the simplest was chosen, with
every reply parsed in full by hiredis. It costs no more than redis-benchmark, which takes 8 us and 0.6 us on the same
machine.

With a pace, a lane rests after its batch is answered until the next batch is due. Time is counted from when a batch was
due, not from when it could be sent. So if a server hangs for a second, all the requests of that second show it.
"""

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import hiredis

from disque.cli.bench_lane import Budget, Lane, Pace
from disque.cli.bench_options import Address
from disque.cli.bench_resp import BenchError

_CHUNK_BYTES: Final = 1 << 16
_TICK_S: Final = 0.1
_STALL_S: Final = 30.0
_READ: Final = select.POLLIN
_WRITE: Final = select.POLLOUT

Poll = Callable[[], list[tuple[int, int]]]


class Link:
    """A connection with its lane, and what could not be sent yet."""

    __slots__ = ("backlog", "feed", "lane", "recv", "send", "sock")

    def __init__(self, sock: socket.socket, lane: Lane) -> None:
        self.sock = sock
        self.lane = lane
        self.recv = sock.recv
        self.send = sock.send
        self.feed = lane.feed
        self.backlog = b""


class Engine:
    """Runs lanes on connected sockets until each has nothing more to send.

    `on_tick` is called about ten times a second; when it returns False no further batch is begun.
    """

    def __init__(self, address: Address, budget: Budget, on_tick: Callable[[], bool]) -> None:
        self._address = address
        self._budget = budget
        self._pace = budget if isinstance(budget, Pace) else None
        self._resting: deque[Link] = deque()
        self._on_tick = on_tick
        self._links: dict[int, Link] = {}
        self._active = 0
        self._poller = select.epoll() if hasattr(select, "epoll") else select.poll()
        # epoll counts in seconds, poll in milliseconds.
        self._second: float = 1.0 if hasattr(select, "epoll") else 1000.0

    def run(self, sockets: list[socket.socket], lanes: list[Lane], seconds: float | None) -> None:
        """Run to the end, or for `seconds` and then until the batches under way are answered.

        Raises BenchError when the server is gone, stops answering, or answers what makes it pointless to go on.
        """
        now = time.monotonic()
        deadline = None if seconds is None else now + seconds
        if self._pace is not None:
            self._pace.begin(time.perf_counter_ns())
        try:
            for sock, lane in zip(sockets, lanes, strict=False):
                self._begin(Link(sock, lane))
            self._loop(deadline, now)
        except OSError as error:
            raise BenchError(f"{self._address}: {error.strerror or error}") from error
        except hiredis.ProtocolError as error:
            raise BenchError(f"{self._address} does not speak RESP: {error}") from error
        finally:
            self._close()

    def _begin(self, link: Link) -> None:
        link.sock.setblocking(False)
        self._links[link.sock.fileno()] = link
        self._poller.register(link.sock.fileno(), _READ)
        self._active += 1
        self._answer(link, link.lane.start())

    def _close(self) -> None:
        for fd in self._links:
            self._poller.unregister(fd)
        close = getattr(self._poller, "close", None)  # poll() has nothing to close
        if close is not None:
            close()

    def _loop(self, deadline: float | None, now: float) -> None:
        poll, links, wait = self._poller.poll, self._links, _TICK_S * self._second
        clock, tick_at, heard_at = time.monotonic, now + _TICK_S, now
        while self._active:
            if self._pace is not None:
                wait = self._wake(self._pace) * self._second
            events = poll(wait)
            for fd, event in events:
                link = links[fd]
                try:
                    if event != _READ:
                        self._unusual(link, event)
                    elif (payload := link.feed(link.recv(_CHUNK_BYTES))) is not None:
                        self._answer(link, payload)
                except ssl.SSLWantReadError:  # a part of a record, or one that is for TLS itself
                    continue
            now = clock()
            heard_at = now if events else heard_at
            if deadline is not None and now >= deadline:
                self._budget.close()
                deadline = None
            if now >= tick_at:
                tick_at = now + _TICK_S
                self._tick(now - heard_at)

    def _tick(self, silence_s: float) -> None:
        if not self._on_tick():
            self._budget.close()
        if silence_s > _STALL_S:
            raise BenchError(f"{self._address}: no reply for {_STALL_S:.0f} seconds")

    def _answer(self, link: Link, payload: bytes) -> None:
        if not payload:
            self._rest(link)
        elif link.backlog:
            link.backlog += payload
        else:
            self._send(link, payload)

    def _rest(self, link: Link) -> None:
        if self._pace is None or self._pace.over():
            self._active -= 1
        else:
            self._resting.append(link)

    def _wake(self, pace: Pace) -> float:
        """Send what is due; give the seconds until something is, or until it is time to look around."""
        now_ns, resting = time.perf_counter_ns(), self._resting
        while resting and (pace.over() or pace.due_ns() <= now_ns):
            link, due_ns = resting.popleft(), pace.due_ns()
            pace.open()
            payload = link.lane.start()
            link.lane.sent_ns = due_ns
            self._answer(link, payload)
        if not resting:
            return _TICK_S if self._active else 0.0
        return max(0.0, min(_TICK_S, (pace.due_ns() - now_ns) / 1e9))

    def _send(self, link: Link, payload: bytes) -> None:
        try:
            sent = link.send(payload)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        if sent < len(payload):
            link.backlog = payload[sent:]
            self._poller.modify(link.sock.fileno(), _READ | _WRITE)

    def _unusual(self, link: Link, event: int) -> None:
        if event & _WRITE and link.backlog:
            unsent, link.backlog = link.backlog, b""
            self._poller.modify(link.sock.fileno(), _READ)
            self._send(link, unsent)
        if event & ~_WRITE:
            # Also for a hang-up: reading says what happened.
            payload = link.feed(link.recv(_CHUNK_BYTES))
            if payload is not None:
                self._answer(link, payload)
