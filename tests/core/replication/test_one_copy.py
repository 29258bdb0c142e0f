"""What a message with one job says."""

from disque.core.model.extra import Extra, encode
from disque.core.model.job import Job
from disque.core.model.spec import JobSpec
from disque.core.replication.one_copy import one_copy
from tests.core.support import MYSELF, START_MS, Bench, foreign_id
from tests.support.formats import repljob

FLAGS = 1
HOLDERS = (MYSELF, b"b" * 40)


def job_of(bench: Bench) -> Job:
    return Job(foreign_id(), JobSpec(b"q", 600, 60, 3), b"body", 7, bench.now_ms + 600_000, 5, HOLDERS)


def test_it_is_a_repljob_with_what_is_left_of_the_job() -> None:
    bench = Bench(peers=1)
    job = job_of(bench)
    expected = repljob(job.id, ttl=600, retry=60, repl=3, flags=FLAGS, delay_ms=5000, holders=HOLDERS, ctimes=(7,))
    assert one_copy(bench.node, job, FLAGS, 5000, HOLDERS, START_MS) == expected
    later = repljob(job.id, ttl=600, retry=60, repl=3, flags=FLAGS, delay_ms=0, holders=HOLDERS, ctimes=(7,))
    assert one_copy(bench.node, job, FLAGS, -1, HOLDERS, START_MS) == later, "it was due already"


def test_what_is_known_of_the_job_beyond_its_fields_goes_along() -> None:
    bench = Bench(peers=1)
    job = job_of(bench)
    assert one_copy(bench.node, job, 0, 0, HOLDERS, START_MS)[-1] == b""
    extra = Extra()
    extra.tries = 2
    bench.node.put_extra(job, extra)
    assert one_copy(bench.node, job, 0, 0, HOLDERS, START_MS)[-1] == encode(extra, START_MS) != b""
