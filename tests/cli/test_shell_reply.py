"""Reading replies: types are told apart, and what is no reply is refused."""

from io import BytesIO

import pytest

from disque.cli.shell_reply import Double, ErrorReply, MapReply, Push, ReplyError, Status, is_error, read_reply


def read(wire: bytes) -> object:
    return read_reply(BytesIO(wire))


def test_types_that_programs_fold_together_are_told_apart() -> None:
    kinds = {b"+a\r\n": Status, b"$1\r\na\r\n": bytes, b"-a\r\n": ErrorReply, b",1\r\n": Double, b"#t\r\n": bool}
    assert {wire: type(read(wire)) for wire in kinds} == kinds
    assert type(read(b">1\r\n:1\r\n")) is Push


def test_maps_keep_their_order_and_any_key() -> None:
    assert read(b"%2\r\n*1\r\n:1\r\n:2\r\n+a\r\n_\r\n") == MapReply([([1], 2), (b"a", None)])


def test_only_an_error_at_the_top_makes_an_error() -> None:
    assert is_error(read(b"-ERR x\r\n"))
    assert not is_error(read(b"*1\r\n-ERR x\r\n"))


def test_reading_stops_at_the_end_of_the_reply() -> None:
    stream = BytesIO(b"$3\r\na\r\n\r\n:1\r\n")
    assert [read_reply(stream), read_reply(stream)] == [b"a\r\n", 1]


@pytest.mark.parametrize("wire", [b"", b"+O", b"$3\r\nab", b"*2\r\n:1\r\n"])
def test_an_early_end_is_a_lost_connection(wire: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        read(wire)


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200\r\n",
        b"\r\n",
        b":x\r\n",
        b"$x\r\n",
        b"*99999999999\r\n",
        b"$99999999999\r\n",
        b"$1\r\nabc",
        b"*1\r\n" * 99,
    ],
)
def test_what_is_no_reply_is_refused(wire: bytes) -> None:
    with pytest.raises(ReplyError):
        read(wire)
