"""What the walk takes itself, and what it leaves alone. That it reads as the other readers do is in test_requests."""

import pytest

from disque.server.requests import RequestReader
from disque.server.walker import Walker, make_reader
from tests.conftest import FORM

ADD = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$4\r\nbody\r\n$1\r\n0\r\n"


def walked(stream: bytes, max_bulk: int = 1 << 20, max_query: int = 1 << 20) -> list[bytes] | None:
    """What one step gives where the stream begins: a request that was walked over, or nothing."""
    reader = Walker(max_bulk, max_query)
    reader.trusted = True
    reader.feed(stream)
    assert reader._join()
    return reader._walk()


def test_a_request_that_is_all_there_is_walked_over() -> None:
    assert walked(ADD) == walked(ADD + ADD[:-1]) == [b"ADDJOB", b"q", b"body", b"0"]


@pytest.mark.parametrize("length", range(len(ADD)))
def test_a_part_of_a_request_is_left_alone(length: int) -> None:
    assert not length or walked(ADD[:length]) is None


@pytest.mark.parametrize(
    "odd",
    [
        *(b"*0\r\n", b"*-1\r\n", b"*01\r\n$1\r\na\r\n", b"*1\n$1\r\na\r\n", b"*1000000\r\n"),
        *(b"*1\r\n$01\r\na\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$+1\r\na\r\n", b"*1\r\n$9999999\r\n"),
        *(b"*1\r\n+a\r\n", b"PING\r\n", b"\r\n"),
    ],
)
def test_what_is_odd_is_left_alone(odd: bytes) -> None:
    assert walked(odd + b"a" * 20) is None


def test_what_might_break_a_limit_is_left_alone() -> None:
    assert walked(ADD, max_bulk=len(ADD), max_query=len(ADD)) is not None
    assert walked(ADD, max_bulk=len(ADD) - 1) is None
    assert walked(ADD, max_query=len(ADD) - 1) is None
    assert walked(b"*1\r\n$70000\r\n" + b"a" * 70_002) is None


@pytest.mark.parametrize("at", range(1, 4))
def test_a_short_request_behind_one_whose_head_came_in_two_parts_is_not_kept_waiting(at: int) -> None:
    reader = Walker(1 << 20, 1 << 20)
    reader.trusted = True
    stream = ADD + b"a\n"
    for chunk in (stream[:at], stream[at:]):
        reader.feed(chunk)
        got = reader.next()
    assert got == [b"ADDJOB", b"q", b"body", b"0"]
    assert reader.next() == [b"a"]


def test_each_form_has_the_reader_that_is_faster_in_it() -> None:
    assert type(make_reader(1 << 20, 1 << 20)) is (RequestReader if FORM == "plain" else Walker)
