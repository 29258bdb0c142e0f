"""Long texts of one answer: those that are too much are dropped, and nothing else of a reply is lost."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError

from disque.client import Config, NoPermError, UnavailableError
from disque.client.ends import Ended
from disque.gateway import rations
from disque.gateway.circuit import Circuit
from disque.gateway.patient import PatientDisque
from disque.gateway.rations import LEFT_OUT, SHORT, Ration, read
from tests.client.served import SILENCE, Served

LONG = b"r" * (SHORT + 1000)
DONE = b"*2\r\n$4\r\ndone\r\n"


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    """All that a test takes it gives back."""
    yield
    assert Ration.held == 0


class Heard(Connection):
    """A connection on which something has come, and then its end."""

    def __init__(self, came: bytes) -> None:
        super().__init__()
        self._reader = asyncio.StreamReader()
        self._reader.feed_data(came)
        self._reader.feed_eof()


def heard(came: bytes, most: int = 1 << 20) -> object:
    """What is read of it."""

    async def go() -> object:
        ration = Ration(most)
        try:
            return await read(Heard(came), ration)
        finally:
            ration.back_to(0)

    return asyncio.run(go())


def test_replies_of_either_protocol() -> None:
    assert heard(b"*3\r\n*-1\r\n" + DONE + b"$-1\r\n_\r\n") == [None, [b"done", None], None]
    assert heard(b"*2\r\n:1\r\n:-7\r\n") == [1, -7], "HELLO may be asked in between"
    assert heard(b"*1\r\n" + DONE + bulk(b"a\r\nb")) == [[b"done", b"a\r\nb"]]
    error = heard(b"-ERR no\r\n")
    assert isinstance(error, ResponseError)
    assert str(error) == "ERR no"


@pytest.mark.parametrize("came", [b"", b"*2\r\n", b"$5\r\nab", b"$9000\r\nab", b"*1\r\n$9000\r\n", b"*"])
def test_a_reply_that_ends_too_early(came: bytes) -> None:
    with pytest.raises(RedisConnectionError):
        heard(came)


@pytest.mark.parametrize("came", [b"?\r\n", b"%1\r\n", b"*x\r\n"])
def test_what_is_no_such_reply(came: bytes) -> None:
    with pytest.raises((InvalidResponse, ValueError)):
        heard(came)


def test_what_is_too_much_is_dropped_and_what_comes_behind_it_is_there() -> None:
    words = [LONG, LONG, b"short", b"x" * 200_000, LONG, b"end"]
    found = heard(b"*%d\r\n" % len(words) + b"".join(map(bulk, words)), 2 * len(LONG))
    assert isinstance(found, list)
    assert [one is LEFT_OUT for one in found] == [False, False, False, True, True, False]
    assert [one for one in found if one is not LEFT_OUT] == [LONG, LONG, b"short", b"end"]


def test_a_lost_connection_in_what_is_dropped() -> None:
    with pytest.raises(RedisConnectionError):
        heard(b"*2\r\n" + bulk(LONG) + b"$900000\r\nab", 1)


def test_the_first_is_there_however_long() -> None:
    assert heard(bulk(LONG), 1) == LONG


def test_all_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rations, "ALL_MOST", 20_000)
    first, second = Ration(50_000), Ration(50_000)
    assert first.take(15_000)
    assert second.take(6000), "the first one is always there"
    assert not second.take(6000)
    assert second.take(SHORT)
    first.back_to(0)
    assert second.take(14_000)
    second.back_to(0)


def test_who_is_cancelled_gives_nothing_back_twice() -> None:
    """The answer is given up before the exchange that is read under its ration has ended."""
    ration = Ration(50_000)
    assert ration.take(15_000)
    before = ration.used
    assert ration.take(15_000)
    ration.back_to(0)
    ration.back_to(before)
    assert (ration.used, Ration.held) == (0, 0)


def ended(most: int, *nodes: Served, **more: Any) -> list[Ended | None]:
    """How two jobs ended, as nodes tell that."""
    addresses = tuple(node.address for node in nodes)
    config = Config(nodes=addresses, discover=False, attempts=len(nodes), order="given", **more)

    async def go() -> list[Ended | None]:
        async with PatientDisque(config, Circuit(config)) as client:
            return await client.ends([b"D-1", b"D-2"], most, 0.001, any_one=False)

    return asyncio.run(go())


def test_what_came_of_a_reply_that_was_lost_does_not_count() -> None:
    reply = b"*2\r\n" + DONE + bulk(LONG) + DONE + bulk(LONG)
    with Served(lambda _: reply[: -len(bulk(LONG))] + b"?\r\n") as broken, Served(lambda _: reply) as well:
        found = ended(2 * len(LONG), broken, well)
        assert [len(node.named(b"WAITJOB")) for node in (broken, well)] == [1, 1]
    assert [one and one.result for one in found] == [LONG, LONG]


def test_a_node_that_refuses_is_heard() -> None:
    with Served(lambda _: b"-NOPERM this user may not\r\n") as node, pytest.raises(NoPermError, match="may not"):
        ended(1, node)


def test_a_node_that_says_nothing_is_waited_for_as_long_as_ever() -> None:
    with Served(lambda _: SILENCE) as node, pytest.raises(UnavailableError, match="Timeout reading"):
        ended(1, node, timeout_ms=1)
