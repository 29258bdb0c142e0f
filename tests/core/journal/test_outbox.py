from disque.core.journal.outbox import Outbox
from disque.core.journal.schema import ACK, JOBS
from disque.core.model.job import Job
from tests.core.support import Bench


def job(bench: Bench, body: str) -> Job:
    return bench.job(bench.client().add("q", body, "RETRY", 5))


def test_jobs_of_one_kind_are_one_record_and_each_counts() -> None:
    bench = Bench()
    outbox = Outbox()
    for body in ("a", "b", "c"):
        outbox.file(job(bench, body))
    assert (len(outbox.records), outbox.count) == (1, 3)
    assert outbox.records[0][0] == JOBS


def test_what_comes_between_keeps_its_place() -> None:
    bench = Bench()
    outbox = Outbox()
    outbox.file(job(bench, "a"))
    outbox.add((ACK, b"x" * 40))
    outbox.file(job(bench, "b"))
    assert [record[0] for record in outbox.records] == [JOBS, ACK, JOBS]


def test_what_was_taken_is_over_and_the_count_goes_on() -> None:
    bench = Bench()
    outbox = Outbox()
    outbox.file(job(bench, "a"))
    assert [record[0] for record in outbox.take()] == [JOBS]
    outbox.file(job(bench, "b"))
    assert (len(outbox.records), outbox.count) == (1, 2)
