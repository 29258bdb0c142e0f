"""How often a token may produce and consume."""

import pytest

from disque.gateway.lmstfy import throttle as module
from disque.gateway.lmstfy.throttle import Throttle
from disque.gateway.lmstfy.tokens import Limit


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_as_many_as_allowed_in_each_window_reads_and_writes_apart() -> None:
    now = Now()
    throttle = Throttle(now)
    limit = Limit(2, 1, 10)
    assert [throttle.admit("ns", "t", limit, reads=True) for _ in range(3)] == [True, True, False]
    assert [throttle.admit("ns", "t", limit, reads=False) for _ in range(2)] == [True, False]
    assert throttle.admit("other", "t", limit, reads=False)
    now.seconds += 9.9
    assert not throttle.admit("ns", "t", limit, reads=True)
    now.seconds += 0.1
    assert throttle.admit("ns", "t", limit, reads=True)


def test_0_is_no_limit() -> None:
    throttle = Throttle(Now())
    assert all(throttle.admit("ns", "t", Limit(0, 1, 1), reads=True) for _ in range(1000))


def test_what_came_to_nothing_does_not_count() -> None:
    now = Now()
    throttle = Throttle(now)
    limit = Limit(1, 1, 10)
    assert throttle.admit("ns", "t", limit, reads=True)
    throttle.forgive("ns", "t", reads=True)
    assert throttle.admit("ns", "t", limit, reads=True)
    now.seconds += 20
    throttle.forgive("ns", "t", reads=True)
    throttle.forgive("ns", "unknown", reads=True)
    assert throttle.admit("ns", "t", limit, reads=True)
    assert not throttle.admit("ns", "t", limit, reads=True)


def test_windows_that_are_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNTED_MOST", 10)
    now = Now()
    throttle = Throttle(now)
    for number in range(100):
        now.seconds += 1
        throttle.admit("ns", str(number), Limit(1, 1, 1), reads=True)
    assert len(throttle._windows) <= 10
