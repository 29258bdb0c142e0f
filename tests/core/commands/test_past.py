from typing import Any

import hiredis
import pytest

from tests.core.support import Client


def test_a_queue_that_never_had_a_job(client: Client) -> None:
    assert client("QHISTORY", "q", "minute") is None


@pytest.mark.parametrize(
    "words", [("week",), ("",), ("hours",), ("day", "CLUSTERS"), ("day", "CLUSTER", "CLUSTER"), ("CLUSTER", "day")]
)
def test_bad_input(client: Client, words: tuple[str, ...]) -> None:
    client.add("q")
    assert str(client("QHISTORY", "q", *words)).startswith("ERR syntax error")


def test_too_few_words(client: Client) -> None:
    assert isinstance(client("QHISTORY", "q"), hiredis.ReplyError)


def test_case_does_not_matter(client: Client) -> None:
    client.add("q")
    assert client("qhistory", "q", "MINUTE") == client("QHISTORY", "q", "minute")


def test_it_is_a_map_in_resp3(client: Client) -> None:
    client.add("q")
    client("HELLO", 3)
    shown: Any = client("QHISTORY", "q", "day")
    assert list(shown) == [b"begin", b"seconds", b"added", b"delivered", b"acked", b"nacked", b"died"]
    whole: Any = client("QHISTORY", "q", "day", "cluster")
    assert list(whole)[7:] == [b"nodes", b"unreachable"]
    assert (whole[b"nodes"], whole[b"unreachable"], whole[b"added"]) == (1, [], shown[b"added"])
