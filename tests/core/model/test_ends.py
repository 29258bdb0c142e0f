import pytest

from disque.core.base.timers import Timers
from disque.core.model.ends import CANCELLED, DEAD, DONE, DROPPED, EXPIRED, End, Ends
from disque.core.model.memory import END_BYTES, WATCH_BYTES
from tests.core.support import MYSELF, START_MS, UNKNOWN_ID

OTHER = b"b" * 40


@pytest.fixture
def ends() -> Ends:
    return Ends(Timers(), MYSELF)


def end(status: int = DONE, node_id: bytes = MYSELF, text: bytes = b"", *, lasts: bool = True) -> End:
    made = End(UNKNOWN_ID, b"q", status, node_id, START_MS, START_MS + 1000)
    made.text, made.lasts = text, lasts
    return made


def test_of_two_ends_the_same_one_wins_everywhere() -> None:
    ranked = [
        (status, node_id, text)
        for status in (DONE, CANCELLED, DEAD, DROPPED, EXPIRED)
        for node_id in (MYSELF, OTHER)
        for text in (b"z", b"a", b"")
    ]
    for at, (status, node_id, text) in enumerate(ranked):
        better = end(status, node_id, text)
        assert [better.beats(*other) for other in ranked] == [at < number for number in range(len(ranked))]


def test_a_new_end_takes_the_place_of_the_old_one(ends: Ends) -> None:
    assert ends.put(end(text=b"12345")) == END_BYTES + len(b"q") + 5
    assert ends.put(end(text=b"1")) == -4
    assert ends.cost() == END_BYTES + len(b"q") + 1
    assert ends.drop(UNKNOWN_ID) == END_BYTES + len(b"q") + 1
    assert ends.drop(UNKNOWN_ID) == 0
    assert ends.cost() == 0


def test_results_that_are_kept_are_counted_by_queue_where_they_were_taken(ends: Ends) -> None:
    for other in (end(node_id=OTHER), end(CANCELLED), end(lasts=False)):
        ends.put(other)
        assert ends.done == {}
    ends.put(end())
    assert ends.done == {b"q": 1}
    ends.drop(UNKNOWN_ID)
    assert ends.done == {}


def test_results_of_unknown_jobs_are_counted_in_bytes(ends: Ends) -> None:
    strange = end(text=b"12345")
    strange.is_strange = True
    ends.put(strange)
    assert (ends.strange, ends.done) == (5, {})
    ends.drop(UNKNOWN_ID)
    assert ends.strange == 0


def test_who_wants_to_hear_of_a_job(ends: Ends) -> None:
    assert [ends.watch(OTHER, UNKNOWN_ID), ends.watch(OTHER, UNKNOWN_ID)] == [WATCH_BYTES, 0]
    assert ends.watch(MYSELF, UNKNOWN_ID) == WATCH_BYTES
    assert ends.watched == {UNKNOWN_ID: [OTHER, MYSELF]}
    assert ends.cost() == 2 * WATCH_BYTES
    assert [ends.unwatch(OTHER, UNKNOWN_ID), ends.unwatch(OTHER, UNKNOWN_ID)] == [WATCH_BYTES, 0]
    assert ends.unwatch(MYSELF, UNKNOWN_ID) == WATCH_BYTES
    assert (ends.watched, ends.by_node) == ({}, {})


def test_all_of_it_is_forgotten(ends: Ends) -> None:
    ends.put(end(text=b"x"))
    ends.watch(OTHER, UNKNOWN_ID)
    ends.clear()
    assert (ends.cost(), ends.done, ends.strange) == (0, {}, 0)
