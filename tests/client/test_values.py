from datetime import timedelta
from typing import Any

import pytest

from disque.client import values


def test_names_are_text_and_any_bytes_come_back() -> None:
    assert values.name_word("grüße") == "grüße".encode()
    assert values.text_of(b"\xff") == "\udcff"
    assert values.name_word("\udcff") == b"\xff"
    assert values.name_word(b"raw") == b"raw"


@pytest.mark.parametrize("body", ["ä", "ä".encode(), bytearray("ä".encode()), memoryview("ä".encode())])
def test_bodies_are_bytes(body: Any) -> None:
    assert values.body_word(body) == b"\xc3\xa4"


@pytest.mark.parametrize("body", [None, 1, {"a": 1}])
def test_other_bodies_are_refused_with_advice(body: Any) -> None:
    with pytest.raises(TypeError, match=r"body must be str or bytes, not .*json_body"):
        values.body_word(body)


def test_durations_are_rounded_up() -> None:
    assert values.seconds_word(0, "delay") == b"0"
    assert values.seconds_word(0.2, "delay") == b"1"
    assert values.seconds_word(timedelta(minutes=1, microseconds=1), "delay") == b"61"
    assert values.milliseconds(0.0001, "timeout") == 1
    assert values.milliseconds(timedelta(seconds=2), "timeout") == 2000


def test_durations_with_decimals() -> None:
    assert values.duration_word(5, "delay") == b"5"
    assert values.duration_word(0.25, "delay") == b"0.25"
    assert values.duration_word(0.0001, "delay") == b"0.001"
    assert values.duration_word(timedelta(minutes=1, milliseconds=50), "delay") == b"60.05"
    assert values.duration_word(-1.5, "delay") == b"-1.5", "which a node refuses"
    assert int(values.duration_word(float("inf"), "delay").split(b".")[0]) > 2**50


def test_half_of_a_ttl_is_left_when_the_delay_is_over_and_no_job_lives_longer_than_jobs_can() -> None:
    assert values.ttl_beyond(20, 11) / 2 == 11 + 20 / 2
    assert values.ttl_beyond(timedelta(minutes=1), -5) == 60
    assert values.ttl_beyond(values.TTL_MOST_S, 11) == values.TTL_MOST_S


def test_absurd_durations_are_the_servers_to_refuse() -> None:
    assert values.seconds_word(-1, "delay") == b"-1"
    assert values.seconds_word(10**30, "delay") == b"1%030d" % 0
    assert values.seconds_word(float("inf"), "delay") == b"%d" % values.LONGEST
    assert values.seconds_word(float("-inf"), "delay") == b"%d" % -values.LONGEST


@pytest.mark.parametrize("duration", ["5", None, True, b"5"])
def test_what_is_no_duration(duration: Any) -> None:
    with pytest.raises(TypeError, match="delay must be a timedelta or a number of seconds"):
        values.seconds_word(duration, "delay")


def test_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="not nan"):
        values.seconds_word(float("nan"), "delay")
    wrong: list[Any] = ["1", True, 1.5, None]
    for number in wrong:
        with pytest.raises(TypeError, match="replicate must be an int"):
            values.number_word(number, "replicate")


def test_queues_are_one_or_several() -> None:
    assert values.queue_words("a") == [b"a"]
    assert values.queue_words(["a", b"b"]) == [b"a", b"b"]
    with pytest.raises(ValueError, match="at least one queue"):
        values.queue_words([])
    wrong: Any = [1]
    with pytest.raises(TypeError, match="queue must be str or bytes, not int"):
        values.queue_words(wrong)


def test_one_id_is_not_several() -> None:
    assert values.id_words(["a", b"b"]) == [b"a", b"b"]
    assert values.id_word("a") == b"a"
    with pytest.raises(TypeError, match="several job IDs"):
        values.id_words("D-abc")


def test_the_last_digit_of_an_id_tells_whether_the_job_comes_again() -> None:
    job_id = f"D-0123abcd-{'x' * 24}-05a"
    assert [digit for digit in "0123456789abcdef" if values.comes_again(job_id + digit)] == list("13579bdf")


def test_json_is_compact_utf8() -> None:
    assert values.json_body({"ä": [1, None]}) == '{"ä":[1,null]}'.encode()
    with pytest.raises(TypeError):
        values.json_body(object())
