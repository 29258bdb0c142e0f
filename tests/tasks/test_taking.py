"""Which queues are asked, and for how many jobs."""

from collections import Counter
from random import Random

import pytest

from disque.tasks.taking import AHEAD_MOST, Order, Pace, held, request


def test_strict_order() -> None:
    order = Order({"b": 1, "a": 5}, Random(1), strict=True)
    assert order.draw() == ["b", "a"]
    assert order.draw({"b"}) == ["a"]


def test_weights_say_how_often_a_queue_is_first() -> None:
    order = Order({"heavy": 3, "light": 1}, Random(1), strict=False)
    first = Counter(order.draw()[0] for _ in range(4000))
    assert 0.70 < first["heavy"] / 4000 < 0.80


def test_queues_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="no queues"):
        Order({}, Random(1), strict=False)
    with pytest.raises(ValueError, match="weight of queue 'a'"):
        Order({"a": 0}, Random(1), strict=False)


def test_a_slow_worker_takes_nothing_ahead_and_a_fast_one_much() -> None:
    pace = Pace()
    assert pace.ahead(100.0) == 0
    for look in range(1, 50):
        for _ in range(500):
            pace.done()
        pace.ahead(100.0 + look / 10)
    assert 400 < pace.ahead(104.9) <= 500, "5000 a second, a tenth of them ahead"
    assert pace.ahead(120.0) < 5, "it has done nothing since"
    for look in range(1, 50):
        for _ in range(50_000):
            pace.done()
        pace.ahead(120.0 + look / 10)
    assert pace.ahead(124.9) == AHEAD_MOST
    assert Pace(0).ahead(1.0) == 0


def test_the_request() -> None:
    words = request(["a", "b"], 7, 1000, 60).words
    assert b" ".join(words) == b"GETJOB TIMEOUT 1000 COUNT 7 BYTES 8388608 LEASE 60 STRICT WITHMETA FROM a b"


def test_a_row() -> None:
    one = held([b"q", b"D-1", b"body", {b"due-ms-ago": 1500}], ("h", 1), 5.0)
    assert (one.id, one.queue, one.body, one.waited_s) == ("D-1", "q", b"body", 1.5)
    assert (one.node, one.lease_until_s) == (("h", 1), 5.0)
    assert held([b"q", b"D-1", b"body"], None, 0.0).waited_s == 0.0
