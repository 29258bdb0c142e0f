"""The figures to reach are found in the book and judged by their medians."""

from tests.speed.book import Book, Cell
from tests.speed.goals import GOALS, judged

GIGABYTE = 1_000_000_000


def verdict(book: Book, beginning: str) -> tuple[str, str]:
    [row] = [row for row in judged(book, "compiled") if row[0].startswith(beginning)]
    return row[2], row[3]


def test_nothing_is_claimed_that_was_not_measured() -> None:
    assert {row[3] for row in judged(Book(), "compiled")} == {"not measured"}
    assert len({goal.title for goal in GOALS}) == len(GOALS)


def test_speed_is_judged_beside_redis() -> None:
    book = Book()
    for turn, rate in enumerate((30, 35, 50)):
        book.add(Cell("depth", "compiled", "add", 16), turn, rate=rate * 1000, cpu_us=3)
        book.add(Cell("depth", "redis", "add", 16), turn, rate=100_000, cpu_us=1)
    text = "0.35 (0.30 to 0.50); 35,000 /s, CPU 3.00 us against 1.00"
    assert verdict(book, "add beside LPUSH, pipeline 16") == (text, "not reached")
    book.add(Cell("depth", "compiled", "add", 16), 1, rate=36_000)
    assert verdict(book, "add beside LPUSH, pipeline 16")[1] == "reached"


def test_processor_time_must_be_below() -> None:
    book = Book()
    book.add(Cell("depth", "redis", "get", 1), 0, cpu_us=10.0)
    book.add(Cell("depth", "compiled", "get", 1), 0, cpu_us=13.0, rate=5)
    assert verdict(book, "CPU of a get") == ("1.30; 5 /s, CPU 13.00 us against 10.00", "not reached")
    book.add(Cell("depth", "compiled", "get", 1), 0, cpu_us=12.9)
    assert verdict(book, "CPU of a get")[1] == "reached"


def test_three_copies() -> None:
    book = Book()
    book.add(Cell("nodes", "redis", "lpush P1", 1), 0, rate=72_000)
    book.add(Cell("nodes", "compiled", "add R3 P1", 3), 0, rate=20_000, cpu_us=50)
    book.add(Cell("nodes", "compiled", "add R3 P16", 3), 0, rate=50_000, cpu_us=23.5)
    book.add(Cell("nodes", "compiled", "cycle R3 P16", 3), 0, rate=20_000, cpu_us=60)
    assert verdict(book, "three copies on three nodes") == ("0.28; 20,000 /s", "reached")
    assert verdict(book, "three copies, pipeline 16") == ("23.5 us; 50,000 /s", "reached")
    assert verdict(book, "three copies: add, get, ack beside add, pipeline 16") == ("0.40", "not reached")


def test_fewer_jobs_than_asked_for_are_scaled_up_and_it_is_said() -> None:
    book = Book()
    book.add(Cell("standing", "compiled", "delayed", 10_000), 0, cpu_us=10, rss_bytes=GIGABYTE)
    book.add(Cell("standing", "compiled", "delayed", 5_000_000), 0, cpu_us=14, rss_bytes=2 * GIGABYTE)
    assert verdict(book, "ten million") == ("4.00 GB, scaled up from 5,000,000 jobs", "not reached")
    book.add(Cell("standing", "compiled", "delayed", 10_000_000), 0, cpu_us=12, rss_bytes=3 * GIGABYTE)
    assert verdict(book, "ten million") == ("3.00 GB", "reached")
    text = "1.20; 10.00 us at 10,000 jobs, 12.00 us at 10,000,000"
    assert verdict(book, "CPU of a job among very many delayed") == (text, "reached")
    book.add(Cell("restart", "compiled", "kill -9", 500_000), 0, seconds=3.5)
    assert verdict(book, "restart") == ("7.0 s, scaled up from 500,000 jobs", "not reached")


def test_growth_over_the_first_half_is_not_counted() -> None:
    book = Book()
    for cycles, megabytes in ((0, 30), (1_000_000, 40), (2_000_000, 50), (10_000_000, 51)):
        book.add(Cell("flat", "compiled", "cycle", cycles), 0, rss_bytes=megabytes * 1e6)
    text, judgement = verdict(book, "flat memory")
    assert text.endswith("12.5 MB more after a hundred million")
    assert judgement == "reached"


def test_the_load_that_a_latency_belongs_to_is_said() -> None:
    book = Book()
    values = {"rate": 9000.0, "p99.9_ms": 12.0, "delivery_p99.9_ms": 9.0, "turn_ms": 0.0, "max_ms": 15.0}
    book.add(Cell("mixed", "compiled", "half", 300_000), 0, **values)
    load = "(300,000 jobs, 9,000 /s, slowest ADDJOB 15.0 ms)"
    assert verdict(book, "a million live jobs, half the load: ADDJOB") == (f"p99.9 12.0 ms {load}", "not reached")
    assert verdict(book, "a million live jobs, half the load: until")[1] == "reached"
    assert verdict(book, "a million live jobs, half the load: the loop") == (f"longest 0.0 ms {load}", "reached")


def test_the_journal_and_memory() -> None:
    book = Book()
    book.add(Cell("journal", "off", "add", 1), 0, rate=100)
    book.add(Cell("journal", "everysec", "add", 1), 0, rate=85)
    book.add(Cell("memory", "compiled", "queued", 1000), 0, job_bytes=419.6)
    assert verdict(book, "journal everysec beside none, add, one") == ("0.85", "reached")
    assert verdict(book, "memory of a queued") == ("420 bytes (1,000 jobs)", "reached")
