"""Nodes that hang are noticed soon, and not waited for again until they answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from disque.client import AsyncDisque, Config, DisqueError
from disque.gateway import circuit as module
from disque.gateway.circuit import AGAIN_S, HEARD_S, Circuit, SilentError
from tests.client.served import SILENCE, Served

Address = tuple[str, int]


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Hanging(Served):
    """A server that answers, or hangs, as it is told."""

    def __init__(self) -> None:
        self.hangs = False
        self.asked: list[bytes] = []
        super().__init__(self._said)

    def _said(self, words: list[bytes]) -> bytes:
        if self.hangs:
            return SILENCE
        self.asked.append(words[0])
        return b"+PONG\r\n"


@pytest.fixture
def node() -> Iterator[Hanging]:
    with Hanging() as served:
        yield served


def play(node: Hanging, act: Callable[[Circuit, Now], Awaitable[None]]) -> None:
    """Do something with a circuit."""

    async def both() -> None:
        now = Now()
        circuit = Circuit(Config(nodes=(node.address,)), now)
        await act(circuit, now)
        await circuit.close()

    asyncio.run(both())


def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.001)
    monkeypatch.setattr(module, "PING_S", 0.001)


async def hang_for_a_look(node: Hanging, circuit: Circuit) -> None:
    """The node hangs when it is looked at, and is well again."""
    node.hangs = True
    await circuit.look_at([node.address])
    node.hangs = False


async def never() -> None:
    await asyncio.Event().wait()


def test_who_is_slow_but_answers_is_waited_for(node: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.001)
    monkeypatch.setattr(module, "PING_S", 60.0)

    async def act(circuit: Circuit, now: Now) -> None:
        async def slow() -> str:
            while node.asked.count(b"PING") < 3:
                now.seconds += HEARD_S
                await asyncio.sleep(0.001)
            return "done"

        assert await circuit.ask(node.address, slow) == "done"
        assert not circuit.quiet()

    play(node, act)


def test_who_hangs_is_left_and_told_of_and_not_waited_for_again(node: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty(monkeypatch)
    told: list[tuple[Address, bool]] = []

    async def act(circuit: Circuit, now: Now) -> None:
        circuit.told = lambda *heard: told.append(heard)
        node.hangs = True
        with pytest.raises(SilentError, match="does not answer"):
            await circuit.ask(node.address, never)
        monkeypatch.setattr(module, "PATIENCE_S", 3600.0)
        with pytest.raises(SilentError):
            await circuit.ask(node.address, never)
        assert (told, circuit.falls, circuit.quiet()) == ([(node.address, False)], 1, [node.address])
        node.hangs = False
        now.seconds += AGAIN_S
        while circuit.is_silent(node.address):  # noqa: ASYNC110 - it is asked behind the scenes
            await asyncio.sleep(0.001)
        assert told == [(node.address, False), (node.address, True)]

    play(node, act)


def test_it_is_asked_again_behind_the_scenes_while_somebody_wants_it(
    node: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty(monkeypatch)

    async def act(circuit: Circuit, now: Now) -> None:
        await hang_for_a_look(node, circuit)
        assert circuit.is_silent(node.address), "it was asked just now"
        now.seconds += AGAIN_S
        assert circuit.is_silent(node.address), "nobody waits for what it says this time"
        while circuit.is_silent(node.address):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)
        assert await circuit.ask(node.address, said) == "said"

    async def said() -> str:
        return "said"

    play(node, act)


def test_who_is_cancelled_leaves_the_look_to_the_others(node: Hanging) -> None:
    async def act(circuit: Circuit, now: Now) -> None:
        del now
        first = asyncio.ensure_future(circuit.look_at([node.address]))
        second = asyncio.ensure_future(circuit.look_at([node.address]))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        assert not circuit.quiet()

    play(node, act)


def test_what_is_done_while_a_node_is_found_to_hang_counts() -> None:
    async def both() -> str:
        work = asyncio.get_running_loop().create_future()

        async def is_lost() -> bool:
            work.set_result("done")
            return True

        return await module.unless(work, is_lost)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PATIENCE_S", 0.001)
        assert asyncio.run(both()) == "done"


def test_whoever_comes_first_when_all_have_hung_waits_for_what_they_say_now(
    node: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty(monkeypatch)

    async def act(circuit: Circuit, now: Now) -> None:
        await hang_for_a_look(node, circuit)
        assert not await circuit.is_back([node.address]), "it was asked just now"
        now.seconds += AGAIN_S
        monkeypatch.setattr(module, "PING_S", 60.0)
        assert circuit.is_silent(node.address)
        assert await circuit.is_back([node.address])

    play(node, act)


def test_the_only_node_has_longer(node: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty(monkeypatch)
    monkeypatch.setattr(module, "HUNG_S", 60.0)

    async def act(circuit: Circuit, _: Now) -> None:
        circuit.is_alone = lambda: True
        node.hangs = True
        looking = asyncio.ensure_future(circuit.look_at([node.address]))
        while not node.named(b"PING"):  # noqa: ASYNC110 - it arrives in a moment
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert not looking.done()
        looking.cancel()

    play(node, act)


def test_a_node_that_refuses_connections_or_the_user_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING_S", 60.0)

    async def both() -> None:
        circuit = Circuit(Config(nodes=(("127.0.0.1", 1),)))
        await circuit.look_at([("127.0.0.1", 1)])
        assert not circuit.quiet()

        async def refused() -> None:
            async with AsyncDisque(Config(nodes=(("127.0.0.1", 1),), discover=False, attempts=1)) as client:
                await client.ping()

        with pytest.raises(DisqueError):
            await circuit.ask(("127.0.0.1", 1), refused)
        await circuit.close()

    asyncio.run(both())


def test_a_node_that_has_left_is_forgotten(node: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty(monkeypatch)

    async def act(circuit: Circuit, _: Now) -> None:
        node.hangs = True
        await circuit.look_at([node.address])
        circuit.keep([node.address])
        assert circuit.quiet()
        circuit.keep([("127.0.0.1", 1)])
        assert not circuit.quiet()
        assert not circuit._clients

    play(node, act)


def test_who_has_answered_a_moment_ago_is_not_asked_again(node: Hanging) -> None:
    async def act(circuit: Circuit, now: Now) -> None:
        for _ in range(10):
            await circuit.look_at([node.address])
        assert node.asked.count(b"PING") == 1
        now.seconds += HEARD_S
        await circuit.look_at([node.address])
        assert node.asked.count(b"PING") == 2

    play(node, act)
