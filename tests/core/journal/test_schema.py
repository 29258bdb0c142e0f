from typing import Any

import pytest

from disque.core.dedup.keys import digest_of
from disque.core.journal.schema import (
    ACK,
    HEAVY,
    JOBS,
    JOBS_IDS,
    JOBS_LEFT_MS,
    JOBS_MOST,
    KEYS,
    PAUSE,
    Filed,
    Record,
    weight,
)
from disque.core.model.job import ACKED
from disque.core.model.spec import JobSpec
from tests.core.support import Bench
from tests.support.formats import jobs_record

ID = b"D-11111111-%024d-003d" % 1


@pytest.mark.parametrize(
    ("record", "heavy"),
    [
        (jobs_record(ID, ID, queue=b"queue", bodies=(b"x" * 1000, b"y")), 1006),
        ((PAUSE, b"q" * 300, 1), 300),
        ((KEYS, 0, 9, 1, (b"k" * 15,), (ID,)), 0),
        ((ACK, ID), 0),
    ],
)
def test_the_weight_of_a_record_is_that_of_what_a_client_can_make_large(record: Record, heavy: int) -> None:
    assert weight(record) == heavy
    assert (record[0] in HEAVY) == bool(heavy)


class TestFiled:
    """Jobs of one turn that differ in ID, body and ctime only are one record."""

    def test_jobs_of_a_kind_share_what_they_have_in_common(self) -> None:
        bench = Bench(journaling=True)
        jobs = [bench.job(bench.client().add("q", body)) for body in ("one", "two", "three")]
        (record,) = bench.records()
        assert record == jobs_record(
            *[job.id for job in jobs],
            spec=jobs[0].spec.encoded,
            left_ms=jobs[0].ttl * 1000,
            holders=jobs[0].holders,
            bodies=(b"one", b"two", b"three"),
            ctimes=tuple([job.ctime for job in jobs]),
        )

    def test_a_later_millisecond_makes_no_difference(self) -> None:
        bench = Bench(journaling=True)
        for _ in range(3):
            bench.client().add("q", "b", "TTL", 60)
            bench.advance(1)
        assert [record[JOBS_LEFT_MS] for record in bench.records()] == [60_000]

    @pytest.mark.parametrize("options", [("DELAY", 1), ("TTL", 9), ("RETRY", 9), ("RETRY", 0)])
    def test_one_that_is_of_another_kind_has_a_record_of_its_own(self, options: tuple[Any, ...]) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        client.add("q", "b")
        client.add("q", "b", *options)
        client.add("other", "b")
        assert [record[0] for record in bench.records()] == [JOBS] * 3

    @pytest.mark.parametrize(
        ("name", "value"),
        [("nacks", 1), ("deliveries", 2), ("flags", 1), ("spec", JobSpec(b"q", 86400, 300, 7)), ("state", 1)],
    )
    def test_what_happened_to_a_job_makes_it_one_of_another_kind(self, name: str, value: object) -> None:
        bench = Bench(journaling=True)
        one, other = [bench.job(bench.client().add("q", "b")) for _ in range(2)]
        filed = Filed(one)
        assert filed.takes(other)
        setattr(other, name, value)
        assert not filed.takes(other)

    def test_what_is_written_between_two_jobs_stays_between_them(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        first = client.add("q", "b")
        client("ACKJOB", first)
        second = client.add("q", "b")
        assert [(record[0], record[JOBS_IDS]) for record in bench.records() if record[0] == JOBS] == [
            (JOBS, (first,)),
            (JOBS, (second,)),
        ]

    def test_a_record_that_was_taken_gets_no_more(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        client.add("q", "b")
        taken = bench.records()
        client.add("q", "b")
        assert [len(record[JOBS_IDS]) for record in (*taken, *bench.records())] == [1, 1]

    def test_a_record_has_so_many_jobs_at_most_or_so_many_bytes_and_one_body(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        for _ in range(JOBS_MOST + 1):
            client.add("q", "b")
        assert [len(record[JOBS_IDS]) for record in bench.records()] == [JOBS_MOST, 1]
        for _ in range(4):
            client.add("q", "b" * 600_000)
        assert [len(record[JOBS_IDS]) for record in bench.records()] == [2, 2]


class TestFiledKeys:
    """Keys of one turn that end together are one record, and the jobs between them still are one."""

    def test_jobs_with_keys_are_two_records(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        ids = tuple([client.add("q", "b", "UNIQUE", key, 60) for key in range(3)])
        jobs, keys = bench.records()
        assert jobs[0] == JOBS
        assert jobs[JOBS_IDS] == ids
        digests = tuple([digest_of(b"q", b"%d" % key) for key in range(3)])
        assert keys == (KEYS, bench.now_ms + 60_000, 0, 1, digests, ids)

    @pytest.mark.parametrize("window", [0, 61])
    def test_keys_that_end_at_another_time_are_another_record(self, window: int) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        first = client.add("q", "b", "UNIQUE", "k", 60)
        second = client.add("q", "b", "UNIQUE", "l", window)
        assert [(record[0], record[-1]) for record in bench.records()[1:]] == [(KEYS, (first,)), (KEYS, (second,))]

    def test_what_is_written_between_two_keys_stays_between_them(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        first = client.add("q", "b", "UNIQUE", "k", 0)
        client("ACKJOB", first)
        client.add("q", "b", "UNIQUE", "k", 0)
        assert [record[0] for record in bench.records()] == [JOBS, KEYS, ACK, JOBS, KEYS]

    def test_a_job_that_is_done_stays_behind_the_keys_before_it(self) -> None:
        """To a start it says that the key that goes with it is free."""
        bench = Bench(journaling=True)
        node = bench.node
        one, other = [bench.job(bench.client().add("q", "b")) for _ in range(2)]
        one.state = other.state = ACKED
        bench.records()
        for job in (one, other):
            node.outbox.file(job)
            node.outbox.file_key(digest_of(b"q", job.id), job.id, 0, 9, 1)
        assert [record[0] for record in bench.records()] == [JOBS, KEYS, JOBS, KEYS]

    def test_a_record_that_was_taken_gets_no_more(self) -> None:
        bench = Bench(journaling=True)
        bench.client().add("q", "b", "UNIQUE", "k", 60)
        taken = bench.records()
        bench.client().add("q", "b", "UNIQUE", "l", 60)
        assert [len(record[-1]) for record in (*taken, *bench.records())] == [1, 1, 1, 1]

    def test_a_record_has_so_many_keys_at_most(self) -> None:
        bench = Bench(journaling=True)
        for number in range(JOBS_MOST + 1):
            bench.client().add("q", "b", "UNIQUE", number, 60)
        assert [(record[0], len(record[-2])) for record in bench.records()] == [
            (JOBS, JOBS_MOST),
            (KEYS, JOBS_MOST),
            (JOBS, 1),
            (KEYS, 1),
        ]
