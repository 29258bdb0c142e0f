"""BENCHMARKS.md has what was measured, leaves out what was not, and names no folder of anybody's machine."""

import re
from pathlib import Path

from tests.speed.book import Book, Cell
from tests.speed.report import document, table


def book() -> Book:
    found = Book()
    found.facts = {"command": "make bench", "date": "1 May 2026", "processors": "2 x Some CPU"}
    found.notes = ["beanstalkd is not installed."]
    return found


def measured(found: Book) -> Book:
    latency = {f"{name}_ms": 1.5 for name in ("p50", "p95", "p99", "p99.9", "max")}
    for turn in range(2):
        for server, rate in (("compiled", 40_000 + 2000 * turn), ("redis", 80_000)):
            found.add(Cell("depth", server, "add", 1), turn, rate=rate, cpu_us=11.5, **latency)
    return found


def test_a_table_has_a_line_below_its_head() -> None:
    assert table(("a", "b"), [("1", "2")]) == ["| a | b |", "| --- | --- |", "| 1 | 2 |", ""]


def test_what_was_measured() -> None:
    text = document(measured(book()), "compiled", ["depth"])
    assert "Made by `make bench` on 1 May 2026" in text
    assert "| processors | 2 x Some CPU |" in text
    assert "- beanstalkd is not installed." in text
    row = "| 1 | 41,000 (40,000 to 42,000) | 80,000 | 0.51 (0.50 to 0.53) | 11.50 / 11.50 |"
    assert row in text
    assert "| add | ours, compiled | 1.500 | 1.500 | 1.500 | 1.500 | 1.500 |" in text
    found = "0.51 (0.50 to 0.53); 41,000 /s, CPU 11.50 us against 11.50"
    assert f"| add beside LPUSH, one at a time | 0.95 | {found} | not reached |" in text


def test_what_was_not() -> None:
    text = document(book(), "plain", ["depth"])
    assert "docs/bench/depth.svg" not in text
    assert "not measured" in text


def test_every_section_can_be_written() -> None:
    found = measured(book())
    found.add(Cell("memory", "redis", "queued", 10), 0, job_bytes=111.6)
    found.add(Cell("standing", "compiled", "queued", 10), 0, cpu_us=12, rate=1, rss_bytes=2e6)
    found.add(Cell("nodes", "compiled", "add R3 P1", 7), 0, cpu_us=30, rate=2)
    found.add(Cell("journal", "off", "add", 1), 0, rate=3)
    found.add(Cell("rivals", "RQ", "add", 1), 0, rate=4)
    found.add(Cell("celery", "on disque://", "work", 2), 0, rate=6)
    found.add(Cell("celery", "on redis://", "work", 2), 0, rate=4)
    found.add(Cell("driver", "disque bench", "LPUSH", 16), 0, rate=5, cpu_us=1, client_us=0.5)
    text = document(found, "compiled", ["depth"])
    for line in (
        "| queued | Redis | 10 | 112 |",
        "| queued | 10 | 12.00 | 1 | 2 MB |",
        "| ours, compiled | add R3 P1 | 7 | 2 | 30.0 |",
        "| add | 1 | - | 3 | - |",
        "| RQ | 4 |",
        "| work | 6 | 4 | 1.50 |",
        "| Celery on disque:// beside Celery on Redis, tasks done | level | 1.50; 6 /s | reached |",
        "| LPUSH | 16 | disque bench | 5 | 1.00 | 0.50 |",
    ):
        assert line in text


def test_the_one_that_is_here_names_no_folder_of_a_machine() -> None:
    folder = Path(__file__).parents[2]
    for path in (folder / "BENCHMARKS.md", folder / "docs" / "bench" / "samples.json"):
        if path.exists():  # a copy of the tests has no documents beside it
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.:/-])/(home|root|tmp|Users)/", text)
