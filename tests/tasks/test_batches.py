"""Jobs of batch tasks gather."""

from typing import Any

import pytest

from disque.tasks import App, MessageError
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


def test_full_due_and_dropped() -> None:
    buckets = Buckets()
    first, second, third = job(1), job(2), job(1)
    assert buckets.next_s() is None
    assert buckets.put(first, 10.0) is None
    assert buckets.put(second, 11.0) is None
    assert buckets.next_s() == 15.0
    full = buckets.put(third, 12.0)
    assert full is not None
    assert (full.jobs, full.items) == ([first, third], [{"user": 1}, {"user": 1}])
    assert buckets.due(15.9) == []
    assert [bucket.jobs for bucket in buckets.due(16.0)] == [[second]]
    assert buckets.put(first, 20.0) is None
    assert buckets.put(second, 20.0) is None
    buckets.drop(first)
    assert buckets.waiting() == [second]
    assert buckets.drain() == [second]
    assert buckets.waiting() == []


def test_items_that_do_not_fit() -> None:
    with pytest.raises(MessageError, match=r"item\['user'\]: int is expected"):
        Buckets().put(job("x"), 0.0)
    with pytest.raises(ValueError, match="max_size of huge must be from 1 to 10000"):

        @app.batch(max_size=10_001)
        async def huge(items: list[int]) -> None: ...
