from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base import timers as timers_module
from disque.core.base.timers import IDLE, NEVER, Timed, Timers
from tests.core.support import START_MS as T


def drain(timers: Timers, now_ms: int, most: int = 1 << 30) -> list[Timed]:
    """Everything that is due, in as many slices as it takes."""
    out: list[Timed] = []
    while True:
        some = timers.due(now_ms, most)
        assert len(some) <= most
        out += some
        if not some and timers.next_due_ms() > now_ms:
            return out


def armed(timers: Timers, due_ms: int) -> Timed:
    item = Timed()
    timers.arm(item, due_ms)
    return item


def test_an_empty_timer_is_never_due() -> None:
    timers = Timers()
    assert timers.next_due_ms() == NEVER
    assert timers.due(T, 100) == []
    assert timers.count == 0


@pytest.mark.parametrize("wait_ms", [0, 1, 999, 1000, 1001, 5000, 86_400_000, 2**32 * 1000])
def test_an_item_is_due_to_the_millisecond_and_once(wait_ms: int) -> None:
    timers = Timers()
    item = armed(timers, T + wait_ms)
    assert drain(timers, T + wait_ms - 1) == []
    assert item.due_ms == T + wait_ms
    assert drain(timers, T + wait_ms) == [item]
    assert (item.slot, item.due_ms, timers.count) == (IDLE, 0, 0)
    assert drain(timers, T + wait_ms + 10_000) == []


def test_what_is_long_past_is_due_at_once() -> None:
    timers = Timers()
    drain(timers, T)
    item = armed(timers, T - 1_000_000)
    assert timers.next_due_ms() <= T
    assert drain(timers, T) == [item]


def test_items_come_earliest_first() -> None:
    timers = Timers()
    late, early, middle = armed(timers, T + 900), armed(timers, T + 5), armed(timers, T + 50)
    assert drain(timers, T + 1000) == [early, middle, late]


def test_arming_again_replaces_what_was() -> None:
    timers = Timers()
    item = armed(timers, T + 10)
    for due_ms in (T + 50_000, T + 20, T + 10, T + 7000, T + 30):
        timers.arm(item, due_ms)
    assert timers.count == 1
    assert drain(timers, T + 29) == []
    assert drain(timers, T + 30) == [item]
    assert drain(timers, T + 100_000) == []


def test_a_disarmed_item_never_comes_and_disarming_twice_is_harmless() -> None:
    timers = Timers()
    near, far = armed(timers, T + 10), armed(timers, T + 100_000)
    timers.due(T, 10)
    for item in (near, far, near, far, Timed()):
        timers.disarm(item)
    assert timers.count == 0
    assert timers.next_due_ms() == NEVER
    assert drain(timers, T + 200_000) == []


def test_disarming_in_the_middle_of_a_second_keeps_the_others() -> None:
    timers = Timers()
    items = [armed(timers, T + 10_000 + number) for number in range(5)]
    for number in (1, 4, 0):
        timers.disarm(items[number])
    assert drain(timers, T + 20_000) == [items[2], items[3]]


def test_the_next_due_time_is_never_too_late() -> None:
    timers = Timers()
    item = armed(timers, T + 5000)
    assert timers.next_due_ms() <= T + 5000
    assert timers.due(timers.next_due_ms(), 10) == []
    assert timers.next_due_ms() == T + 5000, "near enough, it is exact"
    timers.disarm(item)
    assert timers.next_due_ms() == NEVER


def test_a_hundred_thousand_items_of_one_moment_come_in_slices() -> None:
    timers = Timers()
    items = [armed(timers, T + 5000) for _ in range(100_000)]
    out: set[int] = set()
    slices = 0
    while timers.next_due_ms() <= T + 5000:
        some = timers.due(T + 5000, 1000)
        assert len(some) <= 1000
        out.update(map(id, some))
        slices += 1
    assert out == set(map(id, items))
    assert 100 <= slices <= 201
    assert timers.count == 0


def test_a_second_that_was_half_moved_still_takes_and_gives_items() -> None:
    timers = Timers()
    items = [armed(timers, T + 5000) for _ in range(30)]
    assert timers.due(T + 4500, 10) == [], "10 are moved closer, none is due"
    late = armed(timers, T + 5000)
    gone = items[::3]
    for item in gone:
        timers.disarm(item)
    assert set(drain(timers, T + 5000, most=7)) == {*items, late} - set(gone)


def test_seconds_that_come_and_go_leave_nothing_behind() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.disarm(armed(timers, T + 10_000 + number * 1000))
    assert len(timers._seconds) <= 65
    assert timers._buckets == {}
    assert timers.next_due_ms() == NEVER


def test_traffic_on_one_far_second_leaves_nothing_behind() -> None:
    timers = Timers()
    for _ in range(10_000):
        timers.disarm(armed(timers, T + 10_000))
    assert len(timers._seconds) <= 65


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arm"), st.integers(0, 9), st.integers(-1500, 20_000)),
            st.tuples(st.just("disarm"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("pass"), st.just(0), st.integers(0, 4000)),
        ),
        max_size=60,
    ),
    st.sampled_from([1, 2, 1000]),
)
def test_items_come_when_a_simple_model_says_so(actions: list[tuple[str, int, int]], most: int) -> None:
    timers, items = Timers(), [Timed() for _ in range(10)]
    model: dict[int, int] = {}
    now_ms = T
    for action, number, value in actions:
        if action == "arm":
            timers.arm(items[number], now_ms + value)
            model[number] = now_ms + value
        elif action == "disarm":
            timers.disarm(items[number])
            model.pop(number, None)
        else:
            now_ms += value
            due = {number for number, due_ms in model.items() if due_ms <= now_ms}
            assert set(map(items.index, drain(timers, now_ms, most))) == due
            for one in due:
                del model[one]
        assert timers.count == len(model)
        assert timers.next_due_ms() <= min(model.values(), default=NEVER)
        assert model or timers.next_due_ms() == NEVER


def test_following_the_next_due_time_meets_each_item_at_its_moment() -> None:
    random = Random(7)
    timers = Timers()
    due = {id(item): item.due_ms for item in [armed(timers, T + random.randrange(60_000)) for _ in range(500)]}
    met = {}
    while timers.next_due_ms() != NEVER:
        now_ms = timers.next_due_ms()
        met.update({id(item): now_ms for item in timers.due(now_ms, 3)})
    assert met == due


def test_shells_are_thrown_away_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers_module, "SHELLS_MOST", 10)
    timers = Timers()
    timers.due(T, 10)  # from here on, what is near lies in the heap
    shells = [armed(timers, T + 100) for _ in range(100)]
    item = armed(timers, T + 200)
    for shell in shells:
        timers.disarm(shell)
    assert timers.next_due_ms() == T + 100, "as if there were something: whoever comes then throws more away"
    assert len(timers._heap) == 91
    assert timers.due(T + 150, 1000) == []
    assert len(timers._heap) == 81
    for _ in range(9):
        assert timers.next_due_ms() <= T + 200
    assert drain(timers, T + 200) == [item]
