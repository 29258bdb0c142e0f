import random
import threading
import time
from typing import Any

import pytest

from disque.celery.wire import Wire, opened
from disque.client import Config, UnavailableError
from disque.client.router import Router
from tests.client.served import SILENCE, Answer, Served
from tests.end_to_end.node import free_port, until


def wire_to(served: Served, closed: list[int] | None = None) -> Wire:
    return Wire(
        Config(nodes=(served.address,), timeout_ms=2000), served.address, ([] if closed is None else closed).append
    )


def all_of(wire: Wire, count: int) -> list[Any]:
    found: list[Any] = []

    def read() -> bool:
        found.extend(wire.replies())
        return len(found) >= count

    until(read, "replies")
    return found


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"+OK\r\n", ["OK"]),
        (b"$3\r\nabc\r\n:7\r\n", [b"abc", 7]),
        (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", [[b"message", b"c", b"m"]]),
        (b"_\r\n", [None]),
    ],
)
def test_replies_come_as_they_are(sent: bytes, read: list[Any]) -> None:
    answer: Answer = lambda _: sent  # noqa: E731 - one line
    with Served(answer) as served:
        wire = wire_to(served)
        assert wire.replies() == []
        wire.send([b"PING"])
        texts = [one.decode() if isinstance(one, bytes) and one == b"OK" else one for one in all_of(wire, len(read))]
        assert texts == read
        assert not wire.ended
        wire.close()


def test_an_error_is_a_value() -> None:
    with Served(lambda _: b"-OOM full\r\n") as served:
        wire = wire_to(served)
        wire.send([b"GETJOB"])
        [error] = all_of(wire, 1)
        assert str(error) == "OOM full"
        wire.close()


def test_a_connection_that_ends_says_so() -> None:
    with Served(lambda _: None) as served:
        wire = wire_to(served)
        wire.send([b"GETJOB"])
        until(lambda: (wire.replies(), wire.ended)[1], "the end")
        wire.close()


def test_nonsense_ends_it() -> None:
    with Served(lambda _: b"?what\r\n") as served:
        wire = wire_to(served)
        wire.send([b"GETJOB"])
        until(lambda: (wire.replies(), wire.ended)[1], "the end")
        wire.close()


def test_much_is_sent_while_it_is_read() -> None:
    with Served(lambda words: b":%d\r\n" % len(words[1])) as served:
        wire = wire_to(served)
        wire.send([b"PUBLISH", b"x" * 20_000_000])
        assert all_of(wire, 1) == [20_000_000]
        wire.close()


def test_who_reads_nothing_is_given_up() -> None:
    stop = threading.Event()
    with Served(lambda _: (stop.wait(30) and SILENCE) or SILENCE) as served:
        wire = wire_to(served)
        wire._timeout_s = 0.05
        with pytest.raises(TimeoutError):
            wire.send([b"PUBLISH", b"x" * 100_000_000])
        stop.set()
        wire.close()


def test_a_wait_is_ended_and_what_came_is_kept() -> None:
    with Served(lambda _: b"*0\r\n") as served:
        wire = wire_to(served)
        wire.send([b"GETJOB"])
        assert wire.finish(10) == [[]]
        wire.close()


def test_who_watches_hears_of_the_end_before_it() -> None:
    closed: list[int] = []
    with Served(lambda _: None) as served:
        wire = wire_to(served, closed)
        fd = wire.fileno()
        wire.close()
        wire.close()
        assert closed == [fd]


def test_the_next_node_is_tried() -> None:
    with Served(lambda _: b"+OK\r\n") as served:
        config = Config(nodes=(("127.0.0.1", free_port()), served.address), order="given")
        router = Router(config, time.monotonic, random.Random(1))
        wire = opened(config, router, lambda _: None)
        assert (wire.address, router.current) == (served.address, served.address)
        wire.close()


def test_where_there_is_none_the_error_lists_all() -> None:
    ports = free_port(), free_port()
    config = Config(nodes=tuple(("127.0.0.1", port) for port in ports))
    with pytest.raises(UnavailableError, match="no node could be reached") as caught:
        opened(config, Router(config, time.monotonic, random.Random(1)), lambda _: None)
    assert {name for name, _ in caught.value.failures} == {f"127.0.0.1:{port}" for port in ports}
