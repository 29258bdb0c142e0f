"""The screen of `disque top`."""

import pytest

from disque.tasks.inspector import QueueView, WorkerView
from disque.tasks.top import LINES_MOST, ago, screen


def queue(name: str, added: int = 0, acked: int = 0, paused: str = "none") -> QueueView:
    return QueueView(name, 5, 1, 2, 3, added, acked, 0, 0, 61_000, 20, 1500, paused)


def test_the_busiest_first_with_rates() -> None:
    before = {"a": queue("a", 100, 50), "b": queue("b", 100, 50)}
    now = [queue("a", 100, 50), queue("b", 300, 150), queue("new", 500), queue("b:dead"), queue("z" * 40, paused="out")]
    lines = screen(now, [WorkerView("shop", "host", 7, 2, 3700, 0, ("n:1",))], before, 2.0).splitlines()
    assert lines[0] == "4 queues, 20 waiting, 8 in flight, 12 dead letters, 1 workers"
    assert lines[3].split() == ["b", "5", "1", "2", "3", "100", "50", "0", "1.0m", "20ms", "1.5s"]
    assert [line.split()[0] for line in lines[4:7]] == ["a", "new", "z" * 27 + "..."]
    assert "(paused)" in lines[6]
    assert lines[-1] == "worker shop host 7: up 1.0h"


def test_many_queues_are_cut() -> None:
    assert "\x1b" not in screen([queue("\x1b[31m")], [WorkerView("a\x1b", "\x1b", 7, 2, 3700, 0, ("n:1",))], {}, 1.0)
    lines = screen([queue(f"q{number:03}") for number in range(100)], [], {}, 1.0).splitlines()
    assert lines[-1] == f"... and {100 - LINES_MOST} more"


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0"), (5, "5ms"), (1500, "1.5s"), (75_000, "1.2m"), (600_000, "10m"), (90_000_000, "1.0d")]
)
def test_durations(ms: int, text: str) -> None:
    assert ago(ms) == text
