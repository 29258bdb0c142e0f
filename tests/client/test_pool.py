import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from redis.exceptions import ResponseError

from disque.client import AsyncDisque, Config, Disque, NoAuthError, UnavailableError, WrongPassError, async_pool
from disque.client.async_pool import PLACES, AsyncInterrupt, AsyncPool, Line
from disque.client.config import Address
from disque.client.delivery import Exchange, Kind, Outcome
from disque.client.packing import PIECE, pack
from disque.client.pool import Interrupt, Pool
from tests.client.fake import Hands
from tests.client.served import SILENCE, Served

PATIENCE_MS = 20_000


class Use:
    """A pool of either kind, used the same way."""

    def __init__(self, kind: str, config: Config, runner: asyncio.Runner) -> None:
        self.kind = kind
        self.runner = runner
        self.learned: list[tuple[Address, object]] = []
        learn = lambda address, reply: self.learned.append((address, reply))  # noqa: E731 - shorter so
        self.pool: Any = Pool(config, learn) if kind == "blocking" else AsyncPool(config, learn)

    def exchange(self, address: Address, *requests: str, timeout_s: float | None = 20.0, data: bytes = b"") -> Outcome:
        data = data or b"".join(pack(request.encode().split()) for request in requests)
        step = Exchange(address, data, len(requests), timeout_s)
        done = self.pool.exchange(step)
        outcome: Outcome = self.runner.run(done) if self.kind == "asyncio" else done
        return outcome

    def close(self) -> None:
        done = self.pool.close()
        if self.kind == "asyncio":
            self.runner.run(done)


@contextmanager
def using(kind: str, **options: Any) -> Iterator[Use]:
    words: dict[str, Any] = {"timeout_ms": PATIENCE_MS, "connect_timeout_ms": PATIENCE_MS}
    with asyncio.Runner() as runner:
        use = Use(kind, Config(**(words | options)), runner)
        try:
            yield use
        finally:
            use.close()


def echo(words: list[bytes]) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(words[0]), words[0])


def test_requests_are_answered_in_order_on_one_connection(kind: str) -> None:
    with Served(echo) as served, using(kind) as use:
        outcome = use.exchange(served.address, "ONE", "TWO")
        assert (outcome.replies, outcome.failure, outcome.sent) == ([b"ONE", b"TWO"], None, True)
        assert use.exchange(served.address, "THREE").replies == [b"THREE"]
        assert served.connections == 1


def test_a_reply_that_python_cannot_hold_is_a_failure_of_the_node(kind: str) -> None:
    with Served(lambda _words: b"%1\r\n*1\r\n:1\r\n:1\r\n") as served, using(kind) as use:
        outcome = use.exchange(served.address, "GETJOB")
        assert isinstance(outcome.failure, TypeError)
        assert not outcome.replies


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_new_connection_tells_of_the_nodes(kind: str, protocol: int) -> None:
    with Served(echo) as served, using(kind, protocol=protocol) as use:
        use.exchange(served.address, "ONE")
        assert use.learned == [(served.address, [1, b"id"])]
        names = [words[:2] for words in served.requests]
        assert names == [*([[b"HELLO", b"3"]] if protocol == 3 else []), [b"HELLO"], [b"ONE"]]


def test_error_replies_are_replies(kind: str) -> None:
    with Served(lambda _words: b"-NOREPL x\r\n") as served, using(kind) as use:
        outcome = use.exchange(served.address, "ONE", "TWO")
        assert [str(reply) for reply in outcome.replies] == ["NOREPL x", "NOREPL x"]
        assert isinstance(outcome.replies[0], ResponseError)
        assert outcome.failure is None


def test_a_connection_that_breaks_gives_what_came_before(kind: str) -> None:
    def answer(words: list[bytes]) -> bytes | None:
        return None if words[0] == b"TWO" else echo(words)

    with Served(answer) as served, using(kind) as use:
        outcome = use.exchange(served.address, "ONE", "TWO", "THREE")
        assert outcome.replies == [b"ONE"]
        assert "closed" in str(outcome.failure)
        assert outcome.sent
        assert use.exchange(served.address, "ONE").replies == [b"ONE"]
        assert served.connections == 2


def test_a_node_that_is_not_there(kind: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = listener.getsockname()
    with using(kind) as use:
        outcome = use.exchange(address, "ONE")
        assert "Error 111" in str(outcome.failure)
        assert not outcome.sent
        assert use.exchange(("no.such.host.invalid", 1), "ONE").failure is not None


def test_a_node_that_does_not_answer(kind: str) -> None:
    with Served(lambda _words: SILENCE) as served, using(kind) as use:
        outcome = use.exchange(served.address, "ONE", timeout_s=0.05)
        assert "Timeout" in str(outcome.failure)
        assert outcome.sent


def test_a_node_that_accepts_and_says_nothing(kind: str) -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        using(kind, connect_timeout_ms=30, timeout_ms=30) as use,
    ):
        outcome = use.exchange(listener.getsockname(), "ONE")
        assert "Timeout" in str(outcome.failure)
        assert not outcome.sent


def test_something_that_is_no_node(kind: str) -> None:
    with Served(echo, handshake=b"HTTP/1.1 400 Bad Request\r\n\r\n") as served, using(kind) as use:
        assert use.exchange(served.address, "ONE").failure is not None


def test_a_connection_that_was_closed_while_idle_is_not_a_failure(kind: str) -> None:
    with Served(echo) as served, using(kind) as use:
        assert use.exchange(served.address, "ONE").replies == [b"ONE"]
        served.drop()
        for thread in served._threads:
            thread.join()
        if kind == "asyncio":
            use.runner.run(asyncio.sleep(0.01))  # the loop hears of it
        assert use.exchange(served.address, "TWO").replies == [b"TWO"]
        assert served.connections == 2


def test_large_requests_arrive_whole(kind: str) -> None:
    body = b"x" * (PIECE * 3 + 7)

    def answer(words: list[bytes]) -> bytes:
        return b":%d\r\n" % len(words[1])

    with Served(answer) as served, using(kind) as use:
        outcome = use.exchange(served.address, "one", data=pack([b"ECHO", body]))
        assert outcome.replies == [len(body)]


@pytest.mark.parametrize(
    ("options", "protocol", "sent"),
    [
        ({"password": "p"}, 3, [b"HELLO", b"3", b"AUTH", b"default", b"p"]),
        ({"user": "u", "password": "p"}, 3, [b"HELLO", b"3", b"AUTH", b"u", b"p"]),
        ({"password": "p"}, 2, [b"AUTH", b"p"]),
        ({"user": "u", "password": "p"}, 2, [b"AUTH", b"u", b"p"]),
    ],
)
def test_logging_in(kind: str, options: dict[str, Any], protocol: int, sent: list[bytes]) -> None:
    with Served(echo) as served, using(kind, protocol=protocol, **options) as use:
        assert use.exchange(served.address, "ONE").replies == [b"ONE"]
        assert served.requests[0] == sent


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"-WRONGPASS invalid username-password pair\r\n", WrongPassError),
        (b"-NOAUTH HELLO must be called\r\n", NoAuthError),
        (b"-DENIED protected mode\r\n", UnavailableError),
    ],
)
def test_clients_that_may_not_come_in(kind: str, reply: bytes, error: type[Exception]) -> None:
    with Served(echo, handshake=reply) as served, asyncio.Runner() as runner:
        config = Config(nodes=(served.address,), password="x", attempts=1)
        client: Any = Disque(config) if kind == "blocking" else AsyncDisque(config)
        with pytest.raises(error):
            Hands(client, runner).ping()


@pytest.mark.parametrize("protocol", [2, 3])
def test_who_has_no_password_is_told_where_to_say_it(kind: str, protocol: int) -> None:
    refused = b"-NOAUTH Authentication required.\r\n"
    with Served(lambda _words: refused, handshake=refused) as served, asyncio.Runner() as runner:
        config = Config(nodes=(served.address,), protocol=protocol)
        client: Any = Disque(config) if kind == "blocking" else AsyncDisque(config)
        with pytest.raises(NoAuthError) as caught:
            Hands(client, runner).ping()
    assert str(caught.value) == "this node wants a password: disque://password@host, or the option 'password'"
    assert caught.value.code == "NOAUTH"


class TestInterrupt:
    """A wait is ended by half closing: the node sees the end of what is sent, and what it has given still arrives."""

    def test_a_thread_that_waits(self) -> None:
        with Served(lambda _words: SILENCE) as served, using("blocking") as use:
            interrupt = Interrupt()
            outcomes: list[Outcome] = []
            step = Exchange(served.address, pack([b"GETJOB"]), 1, None)
            thread = threading.Thread(target=lambda: outcomes.append(use.pool.exchange(step, interrupt)))
            thread.start()
            interrupt.end()
            thread.join()
            assert outcomes[0].failure is not None
            assert use.pool.exchange(step, interrupt).failure is not None

    def test_a_task_that_waits(self) -> None:
        async def scene(use: Use, served: Served) -> None:
            interrupt = AsyncInterrupt()
            step = Exchange(served.address, pack([b"GETJOB"]), 1, None)
            task = asyncio.create_task(use.pool.exchange(step, interrupt))
            await asyncio.sleep(0)
            interrupt.end()
            assert (await task).failure is not None
            assert (await use.pool.exchange(step, interrupt)).failure is not None

        with Served(lambda _words: SILENCE) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))


def test_a_child_process_makes_connections_of_its_own() -> None:
    with Served(echo) as served, using("blocking") as use:
        assert use.exchange(served.address, "ONE").replies == [b"ONE"]
        use.pool._pid = os.getpid() + 1
        assert use.exchange(served.address, "ONE").replies == [b"ONE"]
        assert served.connections == 2


def test_what_is_cancelled_closes_its_connection() -> None:
    async def scene(use: Use, served: Served) -> None:
        step = Exchange(served.address, pack([b"GETJOB"]), 1, None)
        assert (await use.pool.exchange(Exchange(served.address, pack([b"ONE"]), 1, 20.0))).replies == [b"ONE"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await use.pool.exchange(step)
        assert (await use.pool.exchange(Exchange(served.address, pack([b"TWO"]), 1, 20.0))).replies == [b"TWO"]
        assert served.connections == 2

    def answer(words: list[bytes]) -> bytes:
        return SILENCE if words[0] == b"GETJOB" else echo(words)

    with Served(answer) as served, using("asyncio") as use:
        use.runner.run(scene(use, served))


def test_a_pool_of_asyncio_belongs_to_one_loop() -> None:
    with Served(echo) as served, using("asyncio") as use:
        use.exchange(served.address, "ONE")
        with asyncio.Runner() as other, pytest.raises(RuntimeError, match="one event loop"):
            other.run(use.pool.exchange(Exchange(served.address, pack([b"ONE"]), 1, 20.0)))


class TestMany:
    """However many tasks ask at once, so many connections are opened that handshakes do not hold up each other."""

    @staticmethod
    def step(served: Served, name: bytes, timeout_s: float | None = 20.0, kind: Kind = Kind.NOTHING) -> Exchange:
        return Exchange(served.address, pack([name]), 1, timeout_s, kind)

    @staticmethod
    def answer(words: list[bytes]) -> bytes:
        return SILENCE if words[0] == b"GETJOB" else echo(words)

    @pytest.fixture
    def one_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for kind in PLACES:
            monkeypatch.setitem(PLACES, kind, 1)
        monkeypatch.setattr(async_pool, "OPENED_MOST", 1)

    @pytest.mark.parametrize("kind", PLACES)
    def test_requests_share_connections(self, kind: Kind) -> None:
        async def scene(use: Use, served: Served) -> None:
            step = self.step(served, b"ONE", kind=kind)
            count = 2 * PLACES[kind]
            outcomes = await asyncio.gather(*(use.pool.exchange(step) for _ in range(count)))
            assert [outcome.replies for outcome in outcomes] == [[b"ONE"]] * count
            assert served.connections <= PLACES[kind]

        with Served(echo) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))

    @pytest.mark.usefixtures("one_place")
    @pytest.mark.parametrize("kind", [Kind.COPIES, Kind.OTHERS, Kind.CLIENTS])
    def test_those_that_wait_keep_no_connection_from_others(self, kind: Kind) -> None:
        """While a machine restarts, ADDJOBs wait for their copies, and questions for it: WORKING must not."""

        async def scene(use: Use, served: Served) -> None:
            step = self.step(served, b"GETJOB", kind=kind)
            many = 5 if kind is Kind.CLIENTS else 1
            waiting = [asyncio.create_task(use.pool.exchange(step)) for _ in range(5)]
            while len(served.named(b"GETJOB")) < many:
                await use.pool.exchange(self.step(served, b"ONE"))
            for other in set(PLACES) - {kind}:
                assert (await use.pool.exchange(self.step(served, b"ONE", kind=other))).replies == [b"ONE"]
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

        with Served(self.answer) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))

    @pytest.mark.usefixtures("one_place")
    @pytest.mark.parametrize("kind", Kind)
    def test_who_is_cancelled_leaves_its_place(self, kind: Kind) -> None:
        async def scene(use: Use, served: Served) -> None:
            step = self.step(served, b"GETJOB", kind=kind)
            for turns in range(6):
                waiting = [asyncio.create_task(use.pool.exchange(step)) for _ in range(3)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in waiting:
                    task.cancel()
                await asyncio.wait(waiting)
            assert (await use.pool.exchange(self.step(served, b"ONE", kind=kind))).replies == [b"ONE"]

        with Served(self.answer) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))

    @pytest.mark.usefixtures("one_place")
    def test_a_line_that_does_not_move_is_left(self) -> None:
        async def scene(use: Use, served: Served) -> None:
            first = asyncio.create_task(use.pool.exchange(self.step(served, b"GETJOB", 0.0)))
            await asyncio.sleep(0)
            outcome = await use.pool.exchange(self.step(served, b"ONE", 0.0))
            assert "Timeout waiting for a connection" in str(outcome.failure)
            assert not outcome.sent
            await first

        with Served(self.answer) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))

    def test_what_is_in_use_when_the_pool_is_closed_is_closed_when_it_comes_back(self) -> None:
        came, may_go = threading.Event(), threading.Event()

        def answer(words: list[bytes]) -> bytes:
            came.set()
            may_go.wait(20.0)
            return echo(words)

        async def scene(use: Use, served: Served) -> None:
            asked = asyncio.create_task(use.pool.exchange(self.step(served, b"ONE")))
            await asyncio.to_thread(came.wait, 20.0)
            await use.pool.close()
            may_go.set()
            assert (await asked).replies == [b"ONE"]
            await use.pool.exchange(self.step(served, b"TWO"))
            assert served.connections == 2

        with Served(answer) as served, using("asyncio") as use:
            use.runner.run(scene(use, served))


class TestLine:
    """Places are given out in the order in which they are asked for, as long as something comes of it."""

    @staticmethod
    async def turns(line: Line) -> None:
        """Something comes of what has a place, often enough that whoever waits has looked several times."""
        for _ in range(20):
            line.moved += 1
            await asyncio.sleep(0)

    def test_a_line_that_moves_is_waited_in_and_each_keeps_its_place(self) -> None:
        async def scene() -> None:
            line = Line(1)
            went: list[int] = []

            async def go(number: int) -> None:
                await line.enter(0.0)
                went.append(number)
                line.leave(1)

            await line.enter(0.0)
            going = [asyncio.create_task(go(number)) for number in range(3)]
            await self.turns(line)
            assert went == []
            line.leave(1)
            await asyncio.gather(*going)
            assert went == [0, 1, 2]

        asyncio.run(scene())

    def test_those_in_front_have_the_time_that_they_may_take(self) -> None:
        """An ADDJOB may wait longer for its copies than who stands behind it."""

        async def scene() -> None:
            line = Line(1)
            await line.enter(1000.0)
            waiting = asyncio.create_task(line.enter(0.0))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            line.leave(0)
            await waiting

        asyncio.run(scene())

    @pytest.mark.parametrize("turns", range(5))
    def test_whoever_is_cancelled_has_no_place_also_when_all_tasks_are(self, turns: int) -> None:
        """Those of the line as well: somebody may cancel all that the loop has."""

        async def scene() -> None:
            line = Line(1)
            await line.enter(1000.0)
            waiting = [asyncio.create_task(line.enter(1000.0)) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            mine = asyncio.current_task()
            everybody = [task for task in asyncio.all_tasks() if task is not mine]
            for task in sorted(everybody, key=lambda task: task in waiting):
                task.cancel()
            assert all(
                isinstance(it, asyncio.CancelledError) for it in await asyncio.gather(*waiting, return_exceptions=True)
            )
            line.leave(1)
            await line.enter(0.0)
            more = asyncio.create_task(line.enter(0.0))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not more.done(), "there is one place"

        asyncio.run(scene())
