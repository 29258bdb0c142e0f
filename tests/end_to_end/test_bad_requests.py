"""What no honest client sends: a clear error or a closed connection, bounded memory, and everybody else is served."""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import Node, request

MB: Final = 1 << 20
BOUND: Final = 48 * MB  # of what one client may cost, with what the allocator keeps

LIES: Final = {
    "a count of a thousand million": (b"*1000000000\r\n$4\r\nPING\r\n", b"invalid multibulk length"),
    "a count that is no number": (b"*abc\r\n", b"invalid multibulk length"),
    "a count with a leading zero": (b"*01\r\n$4\r\nPING\r\n", b"invalid multibulk length"),
    "a length of a hundred gigabytes": (b"*2\r\n$4\r\nECHO\r\n$99999999999\r\n", b"invalid bulk length"),
    "a length beyond 64 bits": (b"*1\r\n$99999999999999999999999\r\n", b"invalid bulk length"),
    "a negative length": (b"*1\r\n$-1\r\n", b"invalid bulk length"),
    "an array in an array": (b"*1\r\n*1\r\n$4\r\nPING\r\n", b"expected '$', got '*'"),
    "a number for an argument": (b"*1\r\n:5\r\n", b"expected '$', got ':'"),
    "a null for an argument": (b"*1\r\n_\r\n", b"expected '$', got '_'"),
    "quotes without an end": (b'ECHO "abc\r\n', b"unbalanced quotes in request"),
    "a line without an end": (b"x" * 70_000, b"too big inline request"),
    "a count without an end": (b"*" + b"1" * 70_000, b"too big mbulk count string"),
    "a length without an end": (b"*1\r\n$" + b"1" * 70_000, b"too big bulk count string"),
}


@pytest.fixture(autouse=True)
def _goes_on(shared: Node) -> Iterator[None]:
    """After each of these tests, somebody else is served and nothing big has stayed."""
    before = shared.rss()
    yield
    assert shared.ask("PING") == b"PONG"
    assert shared.rss() - before < BOUND


@pytest.mark.parametrize("what", LIES)
def test_a_lie_is_answered_with_an_error_and_ends_the_connection(shared: Node, what: str) -> None:
    data, error = LIES[what]
    raw = shared.raw()
    raw.send(data)
    assert raw.all() == b"-ERR Protocol error: %b\r\n" % error


@pytest.mark.parametrize("what", LIES)
def test_what_came_before_a_lie_is_answered_and_what_comes_behind_it_is_not(shared: Node, what: str) -> None:
    data, error = LIES[what]
    raw = shared.raw()
    raw.send(request("PING") * 10 + data)
    assert raw.all() == b"+PONG\r\n" * 10 + b"-ERR Protocol error: %b\r\n" % error


def test_a_million_empty_lines_are_passed_over(shared: Node) -> None:
    raw = shared.raw()
    for _ in range(10):
        raw.send(b"\r\n" * 100_000)
    assert raw.ask("PING") == b"PONG"


def test_a_million_empty_arrays_are_passed_over(shared: Node) -> None:
    raw = shared.raw()
    for _ in range(10):
        raw.send(b"*0\r\n" * 100_000)
    assert raw.ask("PING") == b"PONG"


def test_megabytes_of_inline_commands(shared: Node) -> None:
    raw = shared.raw()
    line = b"ECHO " + b"x" * 60_000 + b"\n"
    for _ in range(50):
        raw.send(line)
        assert raw.reply() == b"x" * 60_000


def test_lines_end_with_or_without_a_carriage_return(shared: Node) -> None:
    raw = shared.raw()
    raw.send(b"PING\nPING\r\n\nPING\r\n\r\n\nPING\n")
    assert [raw.reply() for _ in range(4)] == [b"PONG"] * 4


def test_garbage_never_ends_the_server(shared: Node) -> None:
    chance = random.Random(5)
    for _ in range(200):
        raw = shared.raw()
        start = chance.choice([b"", b"*", b"*2\r\n$", b"*1\r\n$4\r\n", b"$5\r\n", b"\x00"])
        with suppress(ConnectionError):  # the server may have refused the first part and hung up
            raw.send(start + chance.randbytes(chance.choice([10, 1000, 100_000])))
        raw.end()
        raw.all()
        raw.close()
    assert shared.ask("PING") == b"PONG"


def test_a_request_that_is_cut_off_everywhere(shared: Node) -> None:
    data = request("ADDJOB", "cut", "body", 0)
    for length in range(len(data)):
        raw = shared.raw()
        raw.send(data[:length])
        raw.end()
        assert raw.all() == b""
        raw.close()
    assert shared.ask("QLEN", "cut") == 0


def test_a_request_that_comes_byte_by_byte(shared: Node) -> None:
    raw = shared.raw()
    for byte in request("ECHO", b"\r\n$5*") + b'ECHO "a\\x01"\r\n':
        raw.send(bytes([byte]))
    assert [raw.reply(), raw.reply()] == [b"\r\n$5*", b"a\x01"]


def test_a_million_arguments_are_an_arity_error(shared: Node) -> None:
    raw = shared.raw()
    raw.send(b"*1000000\r\n$4\r\nSHOW\r\n")
    for _ in range(99):
        raw.send(b"$1\r\nx\r\n" * 10_000)
    raw.send(b"$1\r\nx\r\n" * 9_999)
    raw.end()
    assert raw.all() == b"-ERR wrong number of arguments for 'show' command\r\n"


def test_a_big_body_that_is_announced_costs_what_has_arrived(shared: Node) -> None:
    before = shared.rss()
    raws = [shared.raw() for _ in range(50)]
    for raw in raws:
        raw.send(b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$67108864\r\nabc")
    assert shared.ask("PING") == b"PONG"
    assert shared.rss() - before < BOUND


def test_a_query_buffer_beyond_its_limit_is_cut(start_node: StartNode) -> None:
    node = start_node("--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "512kb")
    raw = node.raw()
    raw.send(request("GETJOB", "FROM", "q"))
    header = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$524288\r\n" + b"x" * 524_288 + b"\r\n$1\r\n0\r\n"
    raw.socket.settimeout(0.3)
    try:
        for _ in range(20):
            raw.send(header)
    except (OSError, TimeoutError):
        pass
    assert node.ask("PING") == b"PONG"
    assert node.rss() < 150 * MB


def test_before_a_password_only_little_is_read(start_node: StartNode) -> None:
    node = start_node("--requirepass", "secret")
    for data, error in (
        (b"*11\r\n", b"unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nECHO\r\n$16385\r\n", b"unauthenticated bulk length"),
    ):
        raw = node.raw()
        raw.send(data)
        assert raw.all() == b"-ERR Protocol error: %b\r\n" % error
    raw = node.raw()
    assert str(raw.ask("QLEN", "q")) == "NOAUTH Authentication required."
    assert raw.ask("AUTH", "secret") == b"OK"
    assert len(raw.ask("ADDJOB", "q", b"x" * 20_000, 0)) == 40


def test_what_comes_in_one_piece_behind_the_password_is_trusted(start_node: StartNode) -> None:
    node = start_node("--requirepass", "secret")
    raw = node.raw()
    raw.send(request("AUTH", "secret") + request("ECHO", b"x" * 100_000) + request("ECHO", *["x"] * 20))
    assert raw.reply() == b"OK"
    assert raw.reply() == b"x" * 100_000
    assert str(raw.reply()) == "ERR wrong number of arguments for 'echo' command"
