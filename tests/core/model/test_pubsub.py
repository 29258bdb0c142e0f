import pytest

from disque.core.model import pubsub as module
from disque.core.model.pubsub import (
    ADDED,
    CHANNELS,
    DEAD,
    DELIVERED,
    KNOWN_MOST,
    SUBSCRIPTION_BYTES,
    WAITING_BYTES,
    Pubsub,
    events_of,
)
from disque.core.model.session import Session

ALL = sum(CHANNELS)


def session(number: int) -> Session:
    return Session(number, b"there", b"here", 0)


@pytest.mark.parametrize(
    ("pattern", "events"),
    [
        (b"*", ALL),
        (b"job:*", ALL),
        (b"job:*:mails", ALL),
        (b"job:dead:*", DEAD),
        (b"job:de*", DEAD | DELIVERED),
        (b"job:[ad]*", ALL),
        (b"j?b:*", ALL),
        (b"job:added:mails", ADDED),
        (b"news:*", 0),
        (b"job:", 0),
    ],
)
def test_only_what_a_pattern_may_fit_is_heard(pattern: bytes, events: int) -> None:
    assert events_of(pattern, is_pattern=True) == events


def test_a_channel_hears_of_its_own_event_alone() -> None:
    assert events_of(b"job:added:mails", is_pattern=False) == ADDED
    assert events_of(b"job:*", is_pattern=False) == 0


def test_what_is_heard_follows_those_who_come_and_go() -> None:
    pubsub = Pubsub()
    assert pubsub.heard == 0
    pubsub.subscribe(session(1), b"job:dead:*", is_pattern=True)
    pubsub.subscribe(session(2), b"job:dead:q", is_pattern=False)
    pubsub.subscribe(session(2), b"job:added:q", is_pattern=False)
    assert pubsub.heard == DEAD | ADDED
    pubsub.unsubscribe(session(1), b"job:dead:*", is_pattern=True)
    assert pubsub.heard == DEAD | ADDED
    pubsub.unsubscribe(session(2), b"job:dead:q", is_pattern=False)
    assert pubsub.heard == ADDED
    pubsub.unsubscribe(session(2), b"job:added:q", is_pattern=False)
    assert pubsub.heard == 0


def test_each_subscription_counts_once() -> None:
    pubsub = Pubsub()
    cost = SUBSCRIPTION_BYTES + 4
    assert [pubsub.subscribe(session(1), b"news", is_pattern=False) for _ in range(2)] == [cost, 0]
    assert pubsub.subscribe(session(1), b"news", is_pattern=True) == cost
    assert pubsub.size == 2 * cost
    assert [pubsub.unsubscribe(session(1), b"news", is_pattern=False) for _ in range(2)] == [cost, 0]
    assert pubsub.size == cost


def test_whom_a_channel_concerns_is_known_until_somebody_comes_or_goes() -> None:
    pubsub = Pubsub()
    assert pubsub.say(b"news", b"1") == 0
    pubsub.subscribe(session(1), b"news", is_pattern=False)
    pubsub.subscribe(session(2), b"n*", is_pattern=True)
    pubsub.subscribe(session(1), b"n*", is_pattern=True)
    assert pubsub.say(b"news", b"2") == 3
    pubsub.unsubscribe(session(1), b"news", is_pattern=False)
    assert pubsub.say(b"news", b"3") == 2


def test_of_many_channels_only_so_much_is_kept() -> None:
    pubsub = Pubsub()
    pubsub.subscribe(session(1), b"*", is_pattern=True)
    for number in range(KNOWN_MOST + 10):
        assert pubsub.say(b"%d" % number, b"") == 1
    assert len(pubsub._known) <= KNOWN_MOST


class TestWaiting:
    """News wait until the server has time for them, and their lines have an end."""

    @pytest.fixture
    def pubsub(self, monkeypatch: pytest.MonkeyPatch) -> Pubsub:
        monkeypatch.setattr(module, "WAITING_MOST", 2)
        pubsub = Pubsub()
        pubsub.subscribe(session(1), b"*", is_pattern=True)
        return pubsub

    def test_events_beyond_those_that_may_wait_are_missed_and_counted(self, pubsub: Pubsub) -> None:
        for job_id in (b"1", b"2", b"3"):
            pubsub.happened(ADDED, b"q", job_id)
        assert [job_id for _, _, job_id in pubsub.pending] == [b"1", b"2"]
        assert pubsub.missed == 1

    def test_messages_of_other_nodes_as_well(self, pubsub: Pubsub) -> None:
        for text in (b"1", b"2", b"3"):
            pubsub.published(b"news", text)
        assert (list(pubsub.said), pubsub.missed) == ([(b"news", b"1"), (b"news", b"2")], 1)

    def test_their_bytes_have_a_bound(self, pubsub: Pubsub) -> None:
        text = bytes(WAITING_BYTES - len(b"news"))
        pubsub.published(b"news", text)
        pubsub.published(b"news", b"")
        assert (len(pubsub.said), pubsub.missed) == (1, 1)
        pubsub.say_next()
        assert (pubsub.said_bytes, len(pubsub.dirty)) == (0, 1)

    def test_where_nobody_listens_nothing_waits(self) -> None:
        pubsub = Pubsub()
        pubsub.published(b"news", b"1")
        assert not pubsub.said
