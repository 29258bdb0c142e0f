"""What an entry of the registry must be to be a schedule, and what a node knows because of it."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.core.model.registry import LAST_TICK, SCHEDULE, Entry
from disque.core.schedule import keeping
from tests.core.journal.test_replay import replayed
from tests.core.schedule.support import BEGIN_S, CronBench, saying

ROW = (b"@daily", b"", 0, 0, BEGIN_S, b"q", b"body", (b"RETRY", b"5"))


def entry(kind: int, value: bytes, name: bytes = b"s", field: bytes = b"", deleted: int = 0) -> Entry:
    return Entry((kind, name, field), value, 5, b"b0" * 20, deleted)


def packed(**changed: object) -> bytes:
    names = ("spec", "zone", "catchup", "paused", "since", "queue", "body", "options")
    row = dict(zip(names, ROW, strict=True)) | changed
    return bytes(msgpack.packb(list(row.values()), use_bin_type=True))


def test_what_is_said_comes_back() -> None:
    said = saying(b"@hourly", zone=b"Europe/Berlin", catchup=keeping.ALL, paused=True, options=(b"x", b"\xff\0"))
    found = keeping.decode(said.encoded())
    assert found is not None
    names = [name for name in dir(said) if not name.startswith("_") and not callable(getattr(said, name))]
    assert {"spec", "options", "paused"} <= set(names)
    assert [getattr(found, name) for name in names] == [getattr(said, name) for name in names]


def test_a_later_version_may_say_more() -> None:
    assert keeping.decode(packed(more=b"x")) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": "text"},
        {"spec": b"x" * 257},
        {"zone": 5},
        {"zone": b"x" * 65},
        {"catchup": 3},
        {"catchup": True},
        {"paused": 2},
        {"since": -1},
        {"since": 2**60},
        {"queue": None},
        {"body": [b"x"]},
        {"options": b"x"},
        {"options": [b"x", 5]},
        {"options": [b"x"] * 1001},
        {"options": {b"x": b"y"}},
    ],
    ids=repr,
)
def test_nonsense_is_no_schedule(changed: dict[str, object]) -> None:
    assert keeping.is_schedule(entry(SCHEDULE, packed()))
    assert not keeping.is_schedule(entry(SCHEDULE, packed(**changed)))


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_schedule_or_none(value: bytes) -> None:
    keeping.decode(value)
    keeping.decode(packed()[: len(value)])


def test_names_and_fields_have_bounds() -> None:
    for kind, value in ((SCHEDULE, packed()), (LAST_TICK, b"5")):
        check = keeping.is_schedule if kind == SCHEDULE else keeping.is_tick
        assert check(entry(kind, value))
        assert check(entry(kind, b"", deleted=1))
        assert not check(entry(kind, value, b""))
        assert not check(entry(kind, value, b"x" * 257))
        assert not check(entry(kind, value, field=b"f"))


def test_a_last_tick_is_a_number() -> None:
    for value in (b"", b"-5", b"x", b"1" * 13, b"1.5", b" 5"):
        assert not keeping.is_tick(entry(LAST_TICK, value))


def test_a_start_finds_schedules_and_last_ticks_by_themselves() -> None:
    bench = CronBench()
    bench.set("s", "@every 2s", "q", "b")
    bench.set("gone", "@every 2s", "other", "b")
    bench.until(2.5)
    bench.one("CRON", "DEL", "gone")
    node = replayed(bench.records())[0]
    assert node.schedules.by_name == {}, "nobody has looked"
    keeping.refresh(node)
    assert set(node.schedules.by_name) == {b"s"}
    assert keeping.last_tick(node, b"s") == BEGIN_S + 2
    assert keeping.last_tick(node, b"gone") == 0


def test_a_turn_looks_at_some_of_many() -> None:
    bench = CronBench()
    for number in range(keeping.REFRESH_MOST + 10):
        bench.node.registry.put(entry(SCHEDULE, packed(), b"s%d" % number))
    keeping.refresh(bench.node)
    assert len(bench.node.schedules.by_name) == keeping.REFRESH_MOST
    assert bench.node.next_due_ms == 0
    bench.checked = False
    bench.tick()
    assert len(bench.node.schedules.by_name) == keeping.REFRESH_MOST + 10
