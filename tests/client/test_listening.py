"""Listening with both clients: against a server that says what the test wants, which drops connections."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from disque.client import AsyncDisque, Config, Disque, DisqueError, Event, Message, UnavailableError, async_listening
from disque.client import listening as listening_module
from disque.client.async_listening import TURN_MOST
from disque.client.listening import EVENTS, event_patterns, read_event, read_message, subscriptions
from tests.client.served import Served

HELLO = b"*2\r\n:1\r\n$40\r\n" + b"a" * 40 + b"\r\n"


def bulks(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Server:
    """Confirms subscriptions, and says ``says`` behind each; then closes the connection if ``drops`` is not used up."""

    def __init__(self) -> None:
        self.says = [bulks(b"message", b"news", b"1") + bulks(b"pmessage", b"n*", b"news", b"1")]
        self.error = b""
        self.served = Served(self.answer)

    def answer(self, words: list[bytes]) -> bytes | None:
        if words[0] == b"HELLO":
            return HELLO
        if words[0] in {b"SUBSCRIBE", b"PSUBSCRIBE"}:
            if self.error:
                return self.error
            verb = words[0].lower()
            confirmed = b"".join(b"*3\r\n$%d\r\n%b\r\n$1\r\nx\r\n:1\r\n" % (len(verb), verb) for _ in words[1:])
            return confirmed + (self.says.pop(0) if self.says else b"")
        if words[0] == b"PING":
            return bulks(b"pong", b"")
        return b"+OK\r\n"


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    with one.served:
        yield one


def config(server: Server, **options: Any) -> Config:
    return Config(nodes=(server.served.address,), attempts=2, backoff_ms=1, timeout_ms=2000, **options)


def heard(kind: str, server: Server, make: Callable[[Any], Any], count: int, *, between: Callable[[], None]) -> Any:
    """What an iteration gives, so many values; ``between`` each two of them. And what it is then."""
    if kind == "blocking":
        with Disque(config(server)) as client, make(client) as listener:
            found = []
            for value in listener:
                found.append(value)
                if len(found) == count:
                    break
                between()
            return found, listener.lost

    async def listen() -> Any:
        async with AsyncDisque(config(server)) as client, make(client) as listener:
            found = []
            async for value in listener:
                found.append(value)
                if len(found) == count:
                    break
                between()
            return found, listener.lost

    return asyncio.run(listen())


both = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


@both
def test_what_is_published_comes_as_messages(kind: str, server: Server) -> None:
    found, lost = heard(kind, server, lambda client: client.listen("news"), 2, between=lambda: None)
    assert found == [Message("news", b"1"), Message("news", b"1", "n*")]
    assert lost == 0
    assert server.served.named(b"SUBSCRIBE") == [[b"SUBSCRIBE", b"news"]]


@both
def test_what_happens_to_jobs_comes_as_events(kind: str, server: Server) -> None:
    server.says = [bulks(b"pmessage", b"job:dead:*", b"job:dead:a:b", b"D-1")]
    found, _ = heard(kind, server, lambda client: client.events("dead"), 1, between=lambda: None)
    assert found == [Event("dead", "a:b", "D-1", "job:dead:a:b")]


@both
def test_a_connection_that_is_lost_is_made_again(kind: str, server: Server) -> None:
    server.says = [bulks(b"message", b"news", b"%d" % number) for number in range(3)]
    found, lost = heard(kind, server, lambda client: client.listen("news"), 3, between=server.served.drop)
    assert [one.data for one in found] == [b"0", b"1", b"2"]
    assert lost == 2


@both
def test_it_ends_when_nothing_comes(kind: str, server: Server) -> None:
    server.says = []
    found, _ = heard(kind, server, lambda client: client.listen("news", timeout=0.05), 1, between=lambda: None)
    assert found == []


@both
def test_a_node_that_refuses_ends_it(kind: str, server: Server) -> None:
    server.error = b"-NOPERM no permissions to access a channel\r\n"
    with pytest.raises(DisqueError, match="NOPERM"):
        heard(kind, server, lambda client: client.listen("news"), 1, between=lambda: None)


@both
def test_without_any_node_it_ends(kind: str, server: Server) -> None:
    server.error = b"-LOADING not yet\r\n"
    with pytest.raises(UnavailableError, match="LOADING"):
        heard(kind, server, lambda client: client.listen("news"), 1, between=lambda: None)


@both
def test_a_node_that_is_silent_is_asked_whether_it_is_there(
    kind: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("listening", "async_listening"):
        monkeypatch.setattr(f"disque.client.{module}.QUIET_S", 0.01)
    asked = threading.Event()
    server.says = []
    genuine = server.served.answer

    def answer(words: list[bytes]) -> bytes | None:
        reply = genuine(words)
        if words[0] != b"PING" or reply is None:
            return reply
        asked.set()
        return reply + bulks(b"message", b"news", b"late")

    server.served.answer = answer
    found, lost = heard(kind, server, lambda client: client.listen("news"), 1, between=lambda: None)
    assert ([one.data for one in found], lost, asked.is_set()) == ([b"late"], 0, True)


def test_it_can_be_closed_from_another_thread(server: Server) -> None:
    server.says = []
    with Disque(config(server)) as client:
        listener = client.listen("news")
        threading.Timer(0.05, listener.close).start()
        assert list(listener) == []
        assert not [one for one in threading.enumerate() if one.name == "disque-listen"]


def test_who_is_slow_is_not_read_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "KEPT_MOST", 3)
    server.says = [b"".join(bulks(b"message", b"news", b"%d" % number) for number in range(100))]
    with Disque(config(server)) as client, client.listen("news") as listener:
        assert [next(listener).data for _ in range(100)] == [b"%d" % number for number in range(100)]


def test_long_messages_are_not_read_ahead_for_who_is_slow(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "KEPT_BYTES", 1)
    server.says = [b"".join(bulks(b"message", b"news", b"%d" % number) for number in range(100))]
    with Disque(config(server)) as client, client.listen("news") as listener:
        assert next(listener).data == b"0"
        assert [(next(listener).data, listener._came.qsize() < 2) for _ in range(99)] == [
            (b"%d" % number, True) for number in range(1, 100)
        ]


def test_what_is_kept_with_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_listening, "KEPT_BYTES", 10)

    async def work() -> list[bool]:
        kept: async_listening.Kept[Message] = async_listening.Kept(5)
        full = [kept.full()]
        for data in (b"1234", b"", b"123456"):
            kept.put_nowait(Message("c", data))
            full.append(kept.full())
        assert isinstance(kept.get_nowait(), Message)
        return [*full, kept.full()]

    assert asyncio.run(work()) == [False, False, False, True, False]


def test_words_of_subscriptions() -> None:
    assert subscriptions(["a", b"b"], ["c*"]) == [[b"SUBSCRIBE", b"a", b"b"], [b"PSUBSCRIBE", b"c*"]]
    with pytest.raises(ValueError, match="no channel"):
        subscriptions([], [])
    assert event_patterns([], "q*") == [b"job:*:q*"]
    assert event_patterns(["dead", "acked", "dead"], b"*") == [b"job:dead:*", b"job:acked:*"]
    with pytest.raises(ValueError, match="there is no event 'died'"):
        event_patterns(["died"], "*")


def test_events_are_those_of_the_server() -> None:
    from disque.core.model.pubsub import CHANNELS  # noqa: PLC0415 - the client knows nothing of the core

    assert {f"job:{event}:".encode() for event in EVENTS} == set(CHANNELS.values())


@pytest.mark.parametrize("words", [None, b"x", [], [b"pong", b""], [b"subscribe", b"a", 1], [b"message", b"x"]])
def test_anything_else_is_none(words: object) -> None:
    assert read_message(words) is None
    assert read_event(words) is None


def test_names_of_any_bytes() -> None:
    assert read_message([b"message", b"\xff", b"\x00"]) == Message("\udcff", b"\x00")
    assert read_event([b"pmessage", b"*", b"news", b"x"]) is None


def test_others_have_their_turn_while_one_listener_has_much_to_read(server: Server) -> None:
    server.says = [bulks(b"message", b"news", b"1") * 400]

    async def listen() -> list[int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncDisque(config(server)) as client, client.listen("news") as listener:
            task = asyncio.ensure_future(others())
            await anext(listener)
            before = turns
            found = 1
            while found < 400:
                found += len(listener.take(1000))
                await asyncio.sleep(0)
            task.cancel()
            return [found, turns - before]

    found, turns = asyncio.run(listen())
    assert found == 400
    assert turns >= 400 // TURN_MOST - 1


def test_what_has_come_can_be_taken_without_waiting_and_an_error_comes_behind_it(server: Server) -> None:
    server.error = b"-NOPERM no\r\n"

    async def listen() -> None:
        async with AsyncDisque(config(server)) as client:
            listener = client.listen("news")
            assert listener.take(10) == []
            listener._came.put_nowait(Message("news", b"1"))
            listener._came.put_nowait(DisqueError("gone"))
            listener._came.put_nowait(Message("news", b"2"))
            assert [one.data for one in listener.take(10)] == [b"1"]
            assert listener.take(10) == []
            with pytest.raises(DisqueError, match="gone"):
                await anext(listener)

    asyncio.run(listen())
