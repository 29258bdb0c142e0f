"""What a job's spec says goes with the job wherever it goes, whether this node knows the option or not."""

from typing import Any, Final

import pytest

from cluster.messages import ENQUEUE, GOTJOB, NEEDJOBS, REPLJOB, REPLJOB_SPEC, ROW_SPEC, YOURJOBS
from disque.core.jobs import add
from disque.core.journal.codec import encode, head
from disque.core.journal.compaction import Copying
from disque.core.journal.kinds import begin_copy
from disque.core.journal.replay import Replay
from disque.core.journal.schema import JOBS, JOBS_SPEC
from disque.core.model.spec import ENCODED_MOST, TABLE, Row, Rows
from disque.core.node import Node
from tests.core.support import Bench, all_jobs, foreign_id, repljob
from tests.support.formats import encoded, repljob_with, row_with, yourjobs, yourjobs_row, yourjobs_rows
from tests.support.nodes import make_node

#: As a newer node says them.
ROWS: Final[Rows] = {99: 7, 10_000: b"new"}
NEWER: Final = encoded(60, 60, 2, ROWS)


def specs_in(records: list[Any]) -> list[bytes]:
    return [record[JOBS_SPEC] for record in records if record[0] == JOBS]


def started(records: list[Any], now_ms: int) -> Node:
    """A node that has read these records."""
    node = make_node(now_ms)
    reader = Replay(node, "boot")
    for payload in (head(node, "boot", "always", now_ms), *encode(records, now_ms)):
        reader.apply(payload, 1)
    list(reader.finish(now_ms))
    return node


def copied(bench: Bench) -> list[Any]:
    """The records that a compaction writes."""
    copying: Copying = begin_copy(bench.node, bench.node.segment)
    bench.node.segment += 1
    while not copying.step(100, bench.now_ms):
        pass
    return bench.records()


def test_rows_that_are_not_known_go_on_with_a_copy() -> None:
    bench = Bench(peers=2, journaling=True)
    one, other = bench.peers
    bench.hear(one, repljob_with(repljob(one.id), spec=NEWER))
    assert bench.told(one) == [(GOTJOB, (foreign_id(),))]
    job = bench.job(foreign_id())
    assert (job.ttl, job.retry, job.repl, job.spec.rows) == (60, 60, 2, ROWS)
    records = bench.records()
    assert specs_in(records) == [NEWER]
    again = started(records, bench.now_ms).find(job.id)
    assert again is not None
    assert again.spec.equals(job.spec)
    assert specs_in(copied(bench)) == [NEWER]
    bench.hear(one, (ENQUEUE, job.id, 0))
    bench.hear(other, (NEEDJOBS, b"q", 1))
    ((_, message),) = bench.sent(YOURJOBS)
    assert yourjobs_rows(message)[0][ROW_SPEC] == NEWER


def test_and_with_a_job_that_was_handed_over() -> None:
    bench = Bench(peers=2, journaling=True)
    one, other = bench.peers
    row = yourjobs_row(foreign_id(), spec=NEWER, holders=(one.id,))
    bench.hear(one, yourjobs(row))
    assert specs_in(bench.records()) == [NEWER]
    bench.hear(other, (NEEDJOBS, b"q", 1))
    bench.advance(6000)
    ((_, message),) = bench.sent(YOURJOBS)
    assert yourjobs_rows(message)[0][ROW_SPEC] == NEWER


def test_jobs_that_say_the_same_share_it_wherever_they_come_from() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, repljob_with(repljob(one.id), spec=NEWER))
    bench.hear(one, yourjobs(yourjobs_row(foreign_id(2), spec=NEWER, holders=(one.id,))))
    assert len({id(job.spec) for job in all_jobs(bench.node)}) == 1


@pytest.mark.parametrize(
    "spec", [b"", b"\xc1", encoded(0), encoded(repl=2**31), encoded(rows={99: bytes(ENCODED_MOST)})]
)
def test_nonsense_is_skipped_and_counted(spec: bytes) -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    ids = (foreign_id(1), foreign_id(2))
    copies = repljob_with(repljob(one.id), spec=spec, ids=ids, bodies=(b"a", b"b"), ctimes=(1, 2))
    bench.hear(one, copies)
    assert (bench.node.messages_skipped, all_jobs(bench.node)) == (2, [])
    row = yourjobs_row(foreign_id(), holders=(one.id,))
    bench.hear(one, yourjobs(row_with(row, spec=spec), row))
    assert (bench.node.messages_skipped, [job.id for job in all_jobs(bench.node)]) == (3, [foreign_id()])


def test_a_row_is_all_that_an_option_of_addjob_needs() -> None:
    weeks = TABLE[60_001] = Row(60_001, "weeks", 0, 0, 65535)
    add.ROWS[b"WEEKS"] = (weeks, b"ERR that is no number of weeks")
    try:
        bench = Bench(peers=1, journaling=True)
        client = bench.client()
        job = bench.job(client.add("q", "b", "RETRY", 60, "weeks", 7, "REPLICATE", 2, "ASYNC"))
        assert job.spec.number(weeks) == 7
        assert specs_in(bench.records()) == [encoded(86_400, 60, 2, {60_001: 7})]
        ((_, message),) = bench.sent(REPLJOB)
        assert message[REPLJOB_SPEC] == job.spec.encoded
        again = bench.job(client.add("q", "b", "WEEKS", 7, "RETRY", 60, "REPLICATE", 2, "ASYNC"))
        assert again.spec is job.spec
        for words in (("RETRY", 60), ("RETRY", 60, "WEEKS", 0)):
            plain = bench.job(client.add("q", "b", *words, "REPLICATE", 2, "ASYNC"))
            assert plain.spec is not job.spec
            assert (plain.spec.number(weeks), plain.spec.encoded) == (0, encoded(86_400, 60, 2))
        for wrong in (-1, 65536, "x", 2**80):
            assert client.error("ADDJOB", "q", "b", 0, "WEEKS", wrong) == "ERR that is no number of weeks"
        assert client.error("ADDJOB", "q", "b", 0, "WEEKS") == "ERR syntax error"
    finally:
        del TABLE[60_001], add.ROWS[b"WEEKS"]
