"""Sessions that were logged out, as other gateways hear of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from disque.client import Config, DisqueError
from disque.gateway import circuit as limits
from disque.gateway.cluster import Clusters
from disque.gateway.ended import FRESH_S, QUEUE, Ended
from disque.gateway.sessions import LASTS_S, Session, digest
from tests.client.served import SILENCE, Served
from tests.end_to_end.node import Node

ADA = Session("ada", "secret")


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def play(address: tuple[str, int], act: Callable[[Ended, Ended, Now], Awaitable[None]]) -> None:
    """Do something with what two gateways know."""

    async def both() -> None:
        clusters = [Clusters(Config(nodes=(address,), discover=False, attempts=1)) for _ in range(2)]
        now = Now()
        mine, other = (Ended(one.own, now) for one in clusters)
        await act(mine, other, now)
        for one in clusters:
            await one.close()

    asyncio.run(both())


def test_what_one_gateway_has_ended_others_know_some_seconds_later(node: Node) -> None:
    async def act(mine: Ended, other: Ended, now: Now) -> None:
        assert not await other.has(ADA)
        await mine.tell(ADA)
        assert not await other.has(ADA), "it was asked a moment ago"
        now.seconds += FRESH_S
        assert await other.has(ADA)
        assert not await other.has(Session("ada", "secret")), "each session is one of its own"

    play(("127.0.0.1", node.port), act)


def test_it_is_kept_as_long_as_a_session_can_last_and_its_job_is_not(node: Node) -> None:
    async def act(mine: Ended, other: Ended, _: Now) -> None:
        await mine.tell(ADA)
        job_id = await mine.cluster.client.find(QUEUE, digest(ADA))
        assert job_id is not None
        await mine.cluster.client.delete(job_id)  # as at the end of its TTL, a second later
        assert await other.has(ADA)

    play(("127.0.0.1", node.port), act)


def test_a_user_who_may_not_ask_is_told_so_once(caplog: pytest.LogCaptureFixture) -> None:
    def said(words: list[bytes]) -> bytes:
        return b"-NOPERM no permissions to run the 'find' command\r\n" if words[0] == b"FIND" else b"+OK\r\n"

    async def act(mine: Ended, _: Ended, now: Now) -> None:
        for _time in range(3):
            assert not await mine.has(ADA)
            now.seconds += FRESH_S

    with Served(said) as node, caplog.at_level(logging.WARNING):
        play(node.address, act)
    assert caplog.text.count("it is not known which sessions were logged out") == 1


def test_with_too_few_nodes_one_copy_is_better_than_none() -> None:
    def said(words: list[bytes]) -> bytes:
        return b"$40\r\n%b\r\n" % (b"D" * 40) if words[-2:] == [b"REPLICATE", b"1"] else b"-NOREPL too few\r\n"

    async def act(mine: Ended, _: Ended, __: Now) -> None:
        await mine.tell(ADA)

    with Served(said) as node:
        play(node.address, act)
        assert [words[-1] for words in node.named(b"ADDJOB")] == [b"%d" % LASTS_S, b"1"]


def test_who_cannot_be_told_is_an_error() -> None:
    async def act(mine: Ended, _: Ended, __: Now) -> None:
        with pytest.raises(DisqueError):
            await mine.tell(ADA)

    play(("127.0.0.1", 1), act)


def test_nobody_waits_for_nodes_that_hang_and_their_answer_counts_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE_S", 0.001)
    hangs = True

    def said(words: list[bytes]) -> bytes:
        if words[0] == b"PING":
            return b"+PONG\r\n"
        return SILENCE if hangs else b"$1\r\nx\r\n"

    async def act(mine: Ended, _: Ended, __: Now) -> None:
        nonlocal hangs
        assert not await mine.has(ADA)
        assert not await mine.has(ADA)
        while not node.named(b"FIND"):  # noqa: ASYNC110 - it arrives in a moment
            await asyncio.sleep(0.001)
        assert len(node.named(b"FIND")) == 1
        hangs = False
        for connection in node._open:
            connection.sendall(b"$1\r\nx\r\n")
        while not await mine.has(ADA):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)

    with Served(said) as node:
        play(node.address, act)
