import logging
from typing import Any

import pytest

from disque.celery import fanout
from disque.celery.fanout import Backlog, Joiner, Topic, channel_of, cut, topics_of
from disque.core.base.glob import Glob

KEYS = ("", "task.sent", "worker.online", "worker.eu.online")
TOPIC = Topic("kombu:fanout:events")


@pytest.mark.parametrize(
    ("bound", "heard"),
    [
        ("", KEYS),
        ("#", ("task.sent", "worker.online", "worker.eu.online")),
        ("worker.#", ("worker.online", "worker.eu.online")),
        ("worker.*", ("worker.online", "worker.eu.online")),
        ("*.online", ("worker.online", "worker.eu.online")),
        ("task.sent", ("task.sent",)),
    ],
)
def test_who_hears_what(bound: str, heard: tuple[str, ...]) -> None:
    topics = topics_of("", "events", bound)
    found = []
    for key in KEYS:
        channel = channel_of("", "events", key).encode()
        fits = [
            Glob(one.name.encode()).matches(channel) if one.is_pattern else one.name.encode() == channel
            for one in topics
        ]
        assert sum(fits) <= 1, "it would be heard twice"
        found += [key] * any(fits)
    assert tuple(found) == heard


def test_other_exchanges_and_hosts_are_not_heard() -> None:
    for prefix, exchange in (("", "events2"), ("", "event"), ("a/", "events"), ("", "e[vx]ents")):
        channel = channel_of(prefix, exchange, "task.sent").encode()
        for bound in ("", "#", "task.sent"):
            for one in topics_of("", "events", bound):
                assert not Glob(one.name.encode()).matches(channel)


def test_a_name_is_no_pattern() -> None:
    name = r"a*b?c[d]^e\f"
    [whole, pattern] = topics_of("", name, "")
    assert whole.name == channel_of("", name, None)
    assert Glob(pattern.name.encode()).matches(channel_of("", name, "key").encode())
    assert not Glob(pattern.name.encode()).matches(channel_of("", r"aXb?c[d]^e\f", "key").encode())


class TestPieces:
    @pytest.mark.parametrize("size", [0, 1, fanout.PIECE, fanout.PIECE + 1, 3 * fanout.PIECE])
    def test_what_is_cut_is_joined(self, size: int) -> None:
        payload = b"x y" * (size // 3) + b"z" * (size % 3)
        joiner = Joiner()
        pieces = cut(payload)
        assert max(map(len, pieces)) < 1 << 18
        assert [joiner.join(TOPIC, piece) for piece in pieces] == [None] * (len(pieces) - 1) + [payload]

    def test_pieces_of_several_messages_may_be_mixed(self) -> None:
        first, second = cut(b"a" * fanout.PIECE * 2), cut(b"b" * fanout.PIECE * 2)
        joiner = Joiner()
        assert [joiner.join(TOPIC, piece) for piece in (first[0], second[0])] == [None, None]
        assert joiner.join(TOPIC, second[1]) == b"b" * fanout.PIECE * 2
        assert joiner.join(TOPIC, b"{}") == b"{}"
        assert joiner.join(TOPIC, first[1]) == b"a" * fanout.PIECE * 2

    def test_one_of_which_a_piece_is_lost_is_lost(self) -> None:
        pieces = cut(b"a" * fanout.PIECE * 3)
        joiner = Joiner()
        assert [joiner.join(TOPIC, piece) for piece in (pieces[0], pieces[2], pieces[1])] == [None, None, None]

    def test_a_message_that_comes_for_two_topics_is_whole_for_both(self) -> None:
        payload = b"a" * fanout.PIECE * 2
        joiner = Joiner()
        both = (TOPIC, Topic("kombu:fanout:events", is_pattern=True))
        found = [joiner.join(topic, piece) for piece in cut(payload) for topic in both]
        assert found == [None, None, payload, payload]

    def test_what_never_becomes_whole_makes_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fanout, "INCOMPLETE_MOST", 3 * fanout.PIECE + 10_000)
        joiner = Joiner()
        messages = [cut(b"a" * fanout.PIECE * 2) for _ in range(5)]
        assert [joiner.join(TOPIC, pieces[0]) for pieces in messages] == [None] * 5
        assert [joiner.join(TOPIC, pieces[1]) is not None for pieces in messages] == [False, False, True, True, True]

    def test_empty_pieces_count_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fanout, "INCOMPLETE_MOST", 100_000)
        joiner = Joiner()
        for number in range(1000):
            assert joiner.join(TOPIC, b"\0%d 0 9 " % number) is None
        begun = sum(joiner.join(TOPIC, b"\0%d 1 2 " % number) is not None for number in range(1000))
        assert 0 < begun <= 100_000 // fanout.BEGUN_BYTES

    def test_the_pieces_of_one_message_count_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fanout, "INCOMPLETE_MOST", 100_000)
        joiner = Joiner()
        for at in range(5000):
            assert joiner.join(TOPIC, b"\0a %d 9999 " % at) is None
        assert joiner.join(TOPIC, b"\0a 5000 5001 ") is None, "all pieces were kept"

    @pytest.mark.parametrize("nonsense", [b"\0", b"\0a b", b"\0a b c d", b"\0a 0 x d"])
    def test_nonsense_is_refused(self, nonsense: bytes) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Joiner().join(TOPIC, nonsense)


class TestBacklog:
    def test_what_has_come_is_taken_in_order(self) -> None:
        backlog = Backlog()
        backlog.add("a", b"1")
        backlog.add("b", b"2")
        assert (len(backlog), backlog.take(), backlog.take(), len(backlog)) == (2, ("a", b"1"), ("b", b"2"), 0)

    @pytest.mark.parametrize("size", [0, 850])
    def test_when_much_waits_the_oldest_make_room_and_the_log_says_so(
        self, monkeypatch: pytest.MonkeyPatch, caplog: Any, size: int
    ) -> None:
        monkeypatch.setattr(fanout, "WAITING_MOST", 10 * (size + fanout.WAITING_BYTES))
        backlog = Backlog()
        for _ in range(2):  # when it was empty it is counted again
            caplog.clear()
            with caplog.at_level(logging.WARNING, "disque.celery.fanout"):
                for number in range(110):
                    backlog.add(str(number), b"x" * size)
            assert [record.args[0] for record in caplog.records] == [1, 2, 4, 8, 16, 32, 64]
            assert [backlog.take()[0] for _ in range(10)] == [str(number) for number in range(100, 110)]
            assert len(backlog) == 0

    def test_a_message_that_is_too_long_by_itself_is_kept(self, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        monkeypatch.setattr(fanout, "WAITING_MOST", 1000)
        backlog = Backlog()
        with caplog.at_level(logging.CRITICAL):
            for number in range(3):
                backlog.add(str(number), b"x" * 2000)
        assert (len(backlog), backlog.take()[0]) == (1, "2")

    def test_what_was_cleared_takes_no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fanout, "WAITING_MOST", 2 * fanout.WAITING_BYTES)
        backlog = Backlog()
        for _ in range(2):
            backlog.clear()
            backlog.add("a", b"")
            backlog.add("b", b"")
            assert len(backlog) == 2
