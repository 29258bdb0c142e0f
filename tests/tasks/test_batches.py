"""Jobs of batch tasks gather."""

from typing import Any

import pytest

from disque.tasks import App, MessageError, batches
from disque.tasks.batches import Buckets
from disque.tasks.execute import read
from disque.tasks.held import Held
from disque.tasks.message import Message

app = App()


@app.batch(max_size=2, max_wait=5, group_by=lambda item: item["user"])
async def clicks(items: list[dict[str, int]]) -> None:
    del items


def job(user: Any) -> Held:
    held = Held("D-1", "q", Message("clicks", [{"user": user}], {}).encode("json"), None, None, 0.0)
    read(app, held)
    return held


def test_full_and_due() -> None:
    buckets = Buckets()
    first, second, third = job(1), job(2), job(1)
    assert buckets.next_s() is None
    buckets.put(first, 10.0)
    buckets.put(second, 11.0)
    assert (buckets.next_s(), buckets.next()) == (15.0, None)
    buckets.put(third, 12.0)
    full = buckets.next()
    assert full is not None
    assert (full.jobs, full.items) == ([first, third], [{"user": 1}, {"user": 1}])
    buckets.look(15.9)
    assert buckets.next() is None
    buckets.look(16.0)
    assert buckets.waiting() == [second]
    due = buckets.next()
    assert due is not None
    assert (due.jobs, buckets.waiting()) == ([second], [])


def test_those_that_wait_are_given_back_at_a_stop() -> None:
    buckets = Buckets()
    for user in (1, 2, 1):
        buckets.put(job(user), 0.0)
    assert [len(bucket.jobs) for bucket in buckets.drain()] == [2, 1]
    assert (buckets.waiting(), buckets.next(), buckets.blocked()) == ([], None, set())


def test_no_more_is_taken_while_one_waits_for_its_place_or_many_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = Buckets()
    buckets.put(job(1), 0.0)
    assert buckets.blocked() == set()
    buckets.put(job(1), 0.0)
    assert buckets.blocked() == {"q"}
    assert buckets.next()
    assert buckets.blocked() == set()
    for limit, most in (("GATHER_MOST", 3), ("GATHER_BYTES", 3 * len(job(1).body))):
        with monkeypatch.context() as patch:
            patch.setattr(batches, limit, most)
            buckets = Buckets()
            for user in range(3):
                assert buckets.blocked() == set()
                buckets.put(job(user), 0.0)
            assert buckets.blocked() == {"q"}
            buckets.look(5.0)
            while buckets.next():
                pass
            assert buckets.blocked() == set()


def test_items_that_do_not_fit() -> None:
    with pytest.raises(MessageError, match=r"item\['user'\]: int is expected"):
        Buckets().put(job("x"), 0.0)
    with pytest.raises(ValueError, match="max_size of huge must be from 1 to 10000"):

        @app.batch(max_size=10_001)
        async def huge(items: list[int]) -> None: ...
