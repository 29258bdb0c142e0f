from typing import Any

import pytest

from disque.client import replies
from disque.client.errors import NoJobError, UnexpectedReplyError
from disque.client.replies import Delivered, Meta, NodeInfo
from tests.client.fake import refusal


def test_jobs_with_and_without_counters() -> None:
    assert replies.delivered([[b"q", b"D-1", b"\xff"]]) == [Delivered("D-1", "q", b"\xff")]
    counted = [b"q\xff", b"D-1", b"b", b"nacks", 2, b"additional-deliveries", 3]
    assert replies.delivered([counted]) == [Delivered("D-1", "q\udcff", b"b", 2, 3)]
    assert replies.delivered(None) == []


META: dict[bytes, object] = {
    b"tries": 1,
    b"tries-left": 2,
    b"nacks": 3,
    b"additional-deliveries": 4,
    b"priority": 5,
    b"created-ms-ago": 6,
    b"due-ms-ago": 7,
    b"ttl-ms": 8,
    b"lease-ms": 9,
    b"error": b"\xc3",
    b"origin": None,
    b"headers": {b"a": b"\xff"},
    b"of-a-newer-node": b"x",
}


def flat(reply: dict[bytes, object]) -> list[object]:
    """As RESP2 has it."""
    return [flat(word) if isinstance(word, dict) else word for pair in reply.items() for word in pair]


def test_jobs_with_all_that_is_known_in_both_protocols() -> None:
    known = Meta(1, 2, 3, 4, 5, 6, 7, 8, 9, "\ufffd", None, {"a": "\udcff"})
    counted = [b"q", b"D-1", b"b", b"nacks", 3, b"additional-deliveries", 4]
    for meta in (META, flat(META)):
        for row in ([b"q", b"D-1", b"b", meta], [*counted, meta]):
            assert replies.delivered([row]) == [Delivered("D-1", "q", b"b", 3, 4, known)]
    endless = {**META, b"tries-left": None, b"error": None, b"origin": b"mails", b"headers": {}, b"backoff": b"e:1"}
    found = replies.meta(endless)
    assert (found.tries_left, found.error, found.origin, found.headers) == (None, None, "mails", {})
    assert found.backoff == "e:1"


@pytest.mark.parametrize("wrong", [{b"tries": b"x"}, {b"tries-left": b"x"}, {b"headers": 1}, {b"origin": 1}])
def test_what_is_nothing_known_of_a_job(wrong: dict[bytes, object]) -> None:
    row: Any = [b"q", b"D-1", b"b", {**META, **wrong}]
    with pytest.raises(UnexpectedReplyError, match="expected, not"):
        replies.delivered([row])
    with pytest.raises(UnexpectedReplyError, match="expected, not"):
        replies.delivered([[b"q", b"D-1", b"b", {}]])


def test_headers_are_shown_in_both_protocols() -> None:
    for headers in ({b"a": b"b"}, [b"a", b"b"]):
        assert replies.job_info([b"headers", headers]) == {"headers": {"a": "b"}}


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
        (replies.whole, True),
        (replies.text, 1),
        (replies.job_id, b"D-1"),
        (replies.job_id, b"E" * 40),
        (replies.job_id, None),
        (replies.answers, [1, 2]),
        (replies.listed, b"x"),
        (replies.delivered, [1]),
        (replies.delivered, [[b"q"]]),
        (replies.delivered, 7),
        (replies.delivered, [[b"q", b"D-1", None]]),
        (replies.delivered, [[b"q", b"D-1", 5]]),
    ],
)
def test_what_no_node_would_say_is_told(read: Any, reply: object) -> None:
    with pytest.raises(UnexpectedReplyError, match="expected, not"):
        read(reply)
