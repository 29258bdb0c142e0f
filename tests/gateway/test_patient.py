"""The client of the gateway gives up nodes that hang, and keeps what they have answered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import pytest

from disque.client import Config, IncompleteError, UnavailableError
from disque.client.config import Address
from disque.client.delivery import Exchange, Outcome, Parcel, deliver
from disque.client.packing import pack
from disque.gateway import circuit as limits
from disque.gateway.circuit import Circuit
from disque.gateway.patient import PatientDisque
from tests.client.served import SILENCE, Served

HANG = b"HANG"


class Hanging(Served):
    """A server that is told when to hang."""

    def __init__(self) -> None:
        self.hangs = False
        super().__init__(self._said)

    def _said(self, words: list[bytes]) -> bytes:
        if words[0] != HANG:
            return b"+first\r\n"
        self.hangs = True
        return SILENCE

    def say(self, reply: bytes) -> None:
        """Answer what was asked after all."""
        for connection in self._open:
            connection.sendall(reply)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    with Hanging() as served:
        yield served


@pytest.fixture
def well() -> Iterator[Served]:
    with Served(lambda _words: b"+second\r\n") as served:
        yield served


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing."""
    for name in ("PATIENCE_S", "HUNG_S"):
        monkeypatch.setattr(limits, name, 0.001)


class Known(Circuit):
    """Knows which nodes hang without asking them."""

    def __init__(self, config: Config, nodes: Iterable[Served]) -> None:
        super().__init__(config)
        self.hanging = {node.address: node for node in nodes if isinstance(node, Hanging)}

    async def look_at(self, addresses: Iterable[Address]) -> None:
        del addresses

    def is_silent(self, address: Address) -> bool:
        return address in self.hanging and self.hanging[address].hangs


def play(act: Callable[[PatientDisque], Awaitable[None]], *nodes: Served) -> None:
    """Do something with a client of some nodes, which has an hour for each answer."""
    config = Config(
        nodes=tuple(node.address for node in nodes), discover=False, attempts=1, order="given", timeout_ms=3_600_000
    )

    async def both() -> None:
        async with PatientDisque(config, Known(config, nodes)) as client:
            await act(client)

    asyncio.run(both())


async def ask(client: PatientDisque, word: bytes, *, again: bool = True) -> object:
    """Ask for one word; what is answered."""
    [reply] = await client.drive(deliver(client.router, client.config, Parcel([pack([word])], again=again)))
    return reply


def test_what_a_node_that_hangs_has_not_answered_goes_to_another_one(hanging: Hanging, well: Served) -> None:
    async def act(client: PatientDisque) -> None:
        assert await ask(client, HANG) == b"second"

    play(act, hanging, well)


def test_what_it_has_answered_is_kept(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: PatientDisque) -> None:
        outcome = Outcome()
        monkeypatch.setattr(client.circuit, "is_silent", lambda _: len(outcome.replies) == 2)
        data = b"".join([pack([b"ECHO"]), pack([b"ECHO"]), pack([HANG])])
        await client.perform(Exchange(hanging.address, data, 3, 3600.0), outcome=outcome)
        assert outcome.replies == [b"first", b"first"]
        assert outcome.failure is not None

    play(act, hanging)


def test_without_another_one_it_is_said_that_it_may_have_been_done(hanging: Hanging) -> None:
    async def act(client: PatientDisque) -> None:
        with pytest.raises(UnavailableError, match="does not answer") as failed:
            await ask(client, HANG)
        assert failed.value.maybe_done

    play(act, hanging)


def test_what_must_not_be_sent_twice_is_not(hanging: Hanging, well: Served) -> None:
    async def act(client: PatientDisque) -> None:
        with pytest.raises(IncompleteError):
            await ask(client, HANG, again=False)
        assert not well.named(HANG)

    play(act, hanging, well)


def test_a_node_that_is_only_slow_is_waited_for() -> None:
    looks = 0

    async def act(client: PatientDisque) -> None:
        async def look_at(addresses: Iterable[Address]) -> None:
            del addresses
            nonlocal looks
            looks += 1

        client.circuit.look_at = look_at  # type: ignore[method-assign]  # it is counted
        slow = asyncio.ensure_future(ask(client, b"SLOW"))
        while looks < 3:  # noqa: ASYNC110 - it looks behind our back
            await asyncio.sleep(0.001)
        assert not slow.done()
        slow.cancel()

    with Served(lambda _words: SILENCE) as node:
        play(act, node)


def test_a_node_that_was_busy_for_a_moment_is_waited_for(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HUNG_S", 3600.0)

    async def act(client: PatientDisque) -> None:
        asked = asyncio.ensure_future(ask(client, HANG))
        while not hanging.hangs:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)
        hanging.hangs = False
        hanging.say(b"+late\r\n")
        assert await asked == b"late"

    play(act, hanging)
