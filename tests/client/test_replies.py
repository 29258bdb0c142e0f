from typing import Any

import pytest

from disque.client import replies
from disque.client.errors import NoJobError, UnexpectedReplyError
from disque.client.replies import Delivered, NodeInfo
from tests.client.fake import refusal


def test_jobs_with_and_without_counters() -> None:
    assert replies.delivered([[b"q", b"D-1", b"\xff"]]) == [Delivered("D-1", "q", b"\xff")]
    counted = [b"q\xff", b"D-1", b"b", b"nacks", 2, b"additional-deliveries", 3]
    assert replies.delivered([counted]) == [Delivered("D-1", "q\udcff", b"b", 2, 3)]
    assert replies.delivered(None) == []


def test_a_job_by_name_and_value() -> None:
    shown = [b"id", b"D-1", b"body", b"\xff", b"nodes-delivered", [b"n1"], b"next-requeue-within", None, b"ttl", 5]
    assert replies.job_info(shown) == {
        "id": "D-1",
        "body": b"\xff",
        "nodes_delivered": ["n1"],
        "next_requeue_within": None,
        "ttl": 5,
    }
    assert replies.job_info(None) is None


def test_working_answers_one_or_several() -> None:
    assert replies.answers(300) == [300]
    seconds, error = replies.answers([5, refusal("NOJOB x")], 2)
    assert seconds == 5
    assert isinstance(error, NoJobError)


def test_settings_in_both_protocols() -> None:
    assert replies.dictionary([b"port", b"7711"]) == replies.dictionary({b"port": b"7711"}) == {"port": "7711"}


def test_scans() -> None:
    assert replies.scanned([b"7", [b"a", b"b"]]) == (7, ["a", "b"])
    assert replies.scanned_jobs([b"0", [[b"id", b"D-1"]]]) == (0, [{"id": "D-1"}])


def test_figures_are_numbers_where_they_are() -> None:
    text = b"# Server\r\nname:disque\r\ntcp_port:7711\r\nratio:0.5\r\nodd\r\n"
    assert replies.info(text) == {"name": "disque", "tcp_port": 7711, "ratio": 0.5}


def test_nodes() -> None:
    assert replies.nodes([1, b"id", [b"id", b"h", b"7711", b"1"]]) == [NodeInfo("id", "h", 7711, 1)]


def test_a_moment_is_seconds() -> None:
    assert replies.moment([b"100", b"500000"]) == 100.5


def test_texts() -> None:
    assert replies.text(b"x") == replies.text("x") == "x"
    assert replies.text_or_none(None) is None
    assert replies.text_or_none(b"x") == "x"
    assert replies.texts([b"a"]) == ["a"]
    replies.nothing(b"OK")
    assert replies.same(b"x") == b"x"


@pytest.mark.parametrize(
    ("read", "reply"),
    [
        (replies.whole, b"x"),
        (replies.text, 1),
        (replies.job_id, b"D-1"),
        (replies.job_id, b"E" * 40),
        (replies.job_id, None),
        (replies.answers, [1, 2]),
        (replies.listed, b"x"),
        (replies.delivered, [1]),
        (replies.delivered, [[b"q"]]),
        (replies.delivered, 7),
    ],
)
def test_what_no_node_would_say_is_told(read: Any, reply: object) -> None:
    with pytest.raises(UnexpectedReplyError, match="expected, not"):
        read(reply)
