"""Nodes that are functions: what a client sends to them is read, answered by the test, and kept in ``log``.

Both kinds of clients are tested with the same scenes: `blocking` and `with_asyncio` make a client whose pool is a fake,
and `Hands` calls its methods, awaiting what must be.
"""

import asyncio
import inspect
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import hiredis
import pytest
from redis._parsers.base import BaseParser

from disque.client import AsyncDisque, Config, Disque
from disque.client.config import Address
from disque.client.delivery import Exchange, Outcome

#: A GETJOB that waits until its client does not want to wait any more.
WAIT: Final = object()
A: Final[Address] = ("a", 1)
B: Final[Address] = ("b", 2)
C: Final[Address] = ("c", 3)
#: The IDs of these nodes.
ID_A: Final = "aaaaaaaa" * 5
ID_B: Final = "bbbbbbbb" * 5
ID_C: Final = "cccccccc" * 5
#: That of a job.
ID: Final = "D-0123456789-not-looked-at-by-the-client"

Words = list[bytes]
Answer = Callable[[Address, Words], object]


def lost(text: str = "gone") -> ConnectionError:
    """What a broken connection looks like."""
    return ConnectionError(text)


def refusal(text: str) -> Exception:
    """An error reply as redis-py makes it of its text."""
    error: Exception = BaseParser.parse_error(text)
    return error


def config(*nodes: Address, **options: Any) -> Config:
    """A configuration that makes no pauses and no random choices."""
    words: dict[str, Any] = {"order": "given", "backoff_ms": 0}
    return Config(nodes=nodes or (A,), **(words | options))


def job_id(number: int, *, once: bool = False) -> str:
    """The ID of a job, with ``once`` of one that is delivered at most once."""
    return f"D-0123abcd-{number:024}-05a{0 if once else 1}"


def hello(own: str, *rows: tuple[str, str, int, int]) -> list[Any]:
    """A reply of HELLO: the ID of the node that answers, and rows of ID, host, port and priority."""
    return [1, own.encode(), *[[i.encode(), h.encode(), b"%d" % p, b"%d" % priority] for i, h, p, priority in rows]]


def guarding(*away: str) -> "Answer":
    """Answers of a node to a user who has no right to the queue of these jobs: a command that names one is refused."""

    def answer(_address: Address, words: Words) -> object:
        named = [word.decode() for word in words[1:] if word.startswith(b"D-")]
        if not {*away}.isdisjoint(named):
            return refusal("NOPERM this user has no permissions to access one of the keys used as arguments")
        return len(named) if words[0] != b"WORKING" else 300 if len(named) == 1 else [300] * len(named)

    return answer


def row(number: int, queue: bytes = b"q", body: bytes = b"body", *, once: bool = False) -> list[object]:
    """A job as GETJOB gives it."""
    return [queue, job_id(number, once=once).encode(), body, b"nacks", 0, b"additional-deliveries", 0]


class FakeNodes:
    """Answers requests with ``answer``; a `ConnectionError` is a connection that breaks there."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.log: list[tuple[Address, Words]] = []

    def outcome(self, step: Exchange) -> tuple[Outcome, bool]:
        """What becomes of an exchange, and whether its last request waits."""
        outcome = Outcome()
        outcome.sent = True
        reader = hiredis.Reader(notEnoughData=...)
        reader.feed(step.data)
        while (words := reader.gets()) is not ...:
            self.log.append((step.address, words))
            reply = self.answer(step.address, words)
            if reply is WAIT:
                return outcome, True
            if isinstance(reply, ConnectionError):
                outcome.failure = reply
                break
            outcome.replies.append(reply)
        return outcome, False

    def sent(self, *names: str) -> list[Words]:
        """The requests with these names, without them."""
        wanted = {name.encode() for name in names}
        return [words[1:] for _, words in self.log if words[0] in wanted]

    def asked(self) -> list[Address]:
        """Who was asked, in order."""
        return [address for address, _ in self.log]


class FakeConnection:
    """What an interrupt half closes: a socket whose other end notices, or the same as a writer."""

    def __init__(self) -> None:
        self._sock, self.other = socket.socketpair()
        self._writer = self
        self.ended = asyncio.Event()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self._sock.close()
        self.other.close()


class FakePool:
    def __init__(self, nodes: FakeNodes) -> None:
        self.nodes = nodes
        self.closed = False

    def exchange(self, step: Exchange, interrupt: Any = None) -> Outcome:
        outcome, waits = self.nodes.outcome(step)
        if waits:
            assert interrupt is not None, "this would wait for ever"
            connection = FakeConnection()
            interrupt.enter(connection)
            assert connection.other.recv(1) == b""
            interrupt.leave()
            connection.close()
            outcome.failure = lost("closed by us")
        return outcome

    def close(self) -> None:
        self.closed = True


class AsyncFakePool(FakePool):
    async def exchange(  # type: ignore[override]  # awaited
        self, step: Exchange, interrupt: Any = None, _came: Outcome | None = None
    ) -> Outcome:
        await asyncio.sleep(0)
        outcome, waits = self.nodes.outcome(step)
        if waits:
            assert interrupt is not None, "this would wait for ever"
            connection = FakeConnection()
            interrupt.enter(connection)
            await connection.ended.wait()
            interrupt.leave()
            connection.close()
            outcome.failure = lost("closed by us")
        return outcome

    async def close(self) -> None:  # type: ignore[override]  # awaited
        self.closed = True


async def cancel_at_each_await(task: "asyncio.Task[Any]") -> None:
    """Begin a task, and cancel it wherever it waits, until it has ended: this is what a scope of anyio does."""
    await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


class Hands:
    """A client whose methods are called the same way, whether they are awaited or not."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self.client = client
        self.runner = runner

    def wait(self, value: Any) -> Any:
        """The value itself, or what comes of awaiting it."""
        if inspect.iscoroutine(value):
            return self.runner.run(value)
        return value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        return (lambda *args, **kwargs: self.wait(found(*args, **kwargs))) if callable(found) else found

    def inside(self, manager: Any, work: Callable[[Any], Any]) -> None:
        """Do work inside a context manager of either kind."""

        async def asynchronous() -> None:
            async with manager as entered:
                result = work(entered)
                if inspect.iscoroutine(result):
                    await result

        if hasattr(manager, "__aenter__"):
            self.runner.run(asynchronous())
        else:
            with manager as entered:
                work(entered)


MakeHands = Callable[..., Hands]


@contextmanager
def making(kind: str) -> Iterator[MakeHands]:
    """Give a function that makes hands on fake nodes: `make(answer, config)`."""
    with asyncio.Runner() as runner:

        def make(answer: Answer | FakeNodes, settings: Config | None = None) -> Hands:
            nodes = answer if isinstance(answer, FakeNodes) else FakeNodes(answer)
            client: Any = Disque(settings or config()) if kind == "blocking" else AsyncDisque(settings or config())
            client._pool = FakePool(nodes) if kind == "blocking" else AsyncFakePool(nodes)
            return Hands(client, runner)

        yield make


both: Final = pytest.mark.parametrize("kind", ["blocking", "asyncio"])
