"""The body of a job: what is written is read again, and nonsense is named."""

import datetime as dt
from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.tasks.errors import EncodeError, MessageError
from disque.tasks.message import Format, Message, decode, dump, dump_result, read

FULL = Message("t", [1, "a"], {"b": [True]}, 5.5, 1e9, result=True, then=[{"call": {"task": "u"}, "queue": "q"}])


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("message", [Message("t", [], {}), Message("t", [1], {}), FULL])
def test_what_is_written_is_read(form: Format, message: Message) -> None:
    assert decode(message.encode(form)) == message


def test_a_plain_call_is_short_and_readable() -> None:
    assert Message("welcome", [7], {}).encode("json") == b'{"task":"welcome","args":[7]}'
    assert Message("welcome", ["é"], {}).encode("json").decode() == '{"task":"welcome","args":["é"]}'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "neither JSON nor msgpack"),
        (b"hello", "neither JSON nor msgpack"),
        (b"\xff\xfe\x00", "neither JSON nor msgpack|a map is expected"),
        (b"[1]", "a map is expected, not list"),
        (b"{}", "no text 'task'"),
        (b'{"task":5}', "no text 'task'"),
        (b'{"task":"t","args":{}}', "'args' must be a list"),
        (b'{"task":"t","kwargs":[]}', "'kwargs' a map"),
        (b'{"task":"t","timeout":"x"}', "must be numbers"),
        (b'{"task":"t","timeout":-1}', "must be numbers"),
        (b'{"task":"t","deadline":true}', "must be numbers"),
        (b'{"task":"t","deadline":NaN}', "must be numbers"),
        (b'{"task":"t","timeout":1' + b"0" * 400 + b"}", "must be numbers"),
        (b'{"task":"t","then":5}', "'then' must be a list"),
        (b'{"task":"t","then":[5]}', "'then' must be a list"),
        (b"[" * 100_000, "neither JSON"),
        (msgpack.packb({1: 2}), "no text 'task'"),
        (msgpack.packb({"task": "t", "kwargs": {1: 2}}), "a map of names"),
    ],
)
def test_nonsense_is_named(body: bytes, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode(body)


def test_a_time_without_end() -> None:
    assert decode(b'{"task":"t","timeout":Infinity}').timeout == float("inf")


@given(st.binary(max_size=50))
def test_any_bytes_are_a_message_or_an_error(body: bytes) -> None:
    with suppress(MessageError):
        decode(body)


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("value", [0, 5, 35, 91, 127, 300, -1, 1.5, None, True, "x", [1], {"a": 1}, [], float("inf")])
def test_results_are_told_apart_by_their_first_byte(form: Format, value: Any) -> None:
    assert read(dump_result(value, form)) == value


def test_what_cannot_be_sent_is_an_error_of_the_sender() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in (object(), circle, {(1, 2): 3}):
        with pytest.raises(EncodeError):
            dump(value, "json")
    with pytest.raises(EncodeError):
        dump(object(), "msgpack")
    sent = dump({"at": dt.date(2030, 1, 1), "both": (1, {2})}, "msgpack")
    assert sent == msgpack.packb({"at": "2030-01-01", "both": [1, [2]]})
