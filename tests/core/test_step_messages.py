"""Every message that a node can send, about a job in every state, from a friend or a stranger: nothing breaks.

What a message should do is said where its receiver is tested; here only that it can do no harm: the books are true,
what is sent and written has its form, and time goes on to the end of the job's life without a fault.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cluster import messages
from cluster.messages import (
    ABORT,
    ALL_SENT,
    ANSWER,
    ASKCOPY,
    ASKEND,
    COPYIS,
    DELJOB,
    DIGEST,
    ENDED,
    ENQUEUE,
    ENTRIES,
    GOTACK,
    GOTJOB,
    GOTMOVE,
    HAVE,
    HOLD,
    I_STOP,
    KEEPEND,
    KINDS,
    LIMIT,
    MORE,
    MOVED,
    NEEDJOBS,
    NEEDNOW,
    OFFER,
    PUBLISHED,
    QUEUED,
    REFUSED,
    SETACK,
    STOPPING,
    SURVEY,
    SURVEYED,
    TAKEJOB,
    UPSINCE,
    WATCH,
    WILLQUEUE,
    WORKING,
    YOURJOBS,
)
from disque.core import step
from disque.core.dedup.keys import digest_of
from disque.core.model.extra import Extra, encode
from disque.core.model.registry import DIGEST_BYTES
from disque.core.questions import TABLE
from tests.conftest import rarely
from tests.core.support import MYSELF, Bench, foreign_id, repljob
from tests.support import formats
from tests.support.formats import encoded, repljob_with, row_with

KEY_KINDS = range(21, 30)
#: Messages that one node hears, one after the other.
AT_ONCE = 12
Maker = Callable[[Bench], bytes]


def unknown(bench: Bench) -> bytes:
    del bench
    return foreign_id()


def malformed(bench: Bench) -> bytes:
    del bench
    return b"x" * 40


def waiting(bench: Bench) -> bytes:
    bench.client().send("ADDJOB", "q", "body", 0, "REPLICATE", 3, "RETRY", 5, "TTL", 60)
    (job_id,) = bench.node.copies.wanted
    return job_id


def waiting_outside(bench: Bench) -> bytes:
    bench.membership.leaving = True
    return waiting(bench)


def queued(bench: Bench) -> bytes:
    job_id = waiting(bench)
    bench.confirm(job_id, *bench.peers)
    return job_id


def alone(bench: Bench) -> bytes:
    return bench.client().add("q", "body", "REPLICATE", 1, "RETRY", 5, "TTL", 60)


def at_most_once(bench: Bench) -> bytes:
    return bench.client().add("q", "body", "REPLICATE", 1, "RETRY", 0, "TTL", 60)


def spent(bench: Bench) -> bytes:
    job_id = at_most_once(bench)
    bench.client().get("q")
    return job_id


def out(bench: Bench) -> bytes:
    job_id = queued(bench)
    bench.client().get("q")
    return job_id


def claimed(bench: Bench) -> bytes:
    job_id = out(bench)
    bench.advance(5000)
    assert job_id in bench.node.votes.by_id
    return job_id


def delayed(bench: Bench) -> bytes:
    job_id = out(bench)
    bench.client()("NACK", job_id, "DELAY", 10)
    return job_id


def backup(bench: Bench) -> bytes:
    bench.hear(bench.peers[0], repljob(bench.peers[0].id, retry=5, ttl=60))
    return foreign_id(retry=5)


def acked(bench: Bench) -> bytes:
    job_id = out(bench)
    bench.client()("ACKJOB", job_id)
    return job_id


def dummy(bench: Bench) -> bytes:
    bench.client()("ACKJOB", foreign_id())
    return foreign_id()


def gone(bench: Bench) -> bytes:
    bench.hear(bench.peers[0], (DELJOB, (foreign_id(),)))
    return foreign_id()


USUAL_STATES = (unknown, waiting, queued, out, backup, dummy)
RARE_STATES = (malformed, waiting_outside, alone, at_most_once, spent, claimed, delayed, acked, gone)


def about(bench: Bench, job_id: bytes) -> dict[str, list[tuple[Any, ...]]]:
    """By kind the messages about a job: the usual ones, the largest, the strangest."""
    ids = (job_id,)
    twice = (job_id, job_id)
    one, stranger = bench.peers[0].id, b"c" * 40
    job = bench.node.find(job_id)
    mine = job.holders if job is not None else (MYSELF,)
    sets: list[tuple[bytes, ...]] = [(), mine, (one, MYSELF, one, stranger), (stranger,)]
    most, now_ms = 2**43 - 1, bench.now_ms
    copy = formats.repljob(job_id, ttl=60, retry=5, holders=mine)
    row = formats.yourjobs_row(job_id, ttl=60, retry=5, repl=2, nacks=1, deliveries=2, holders=mine)
    strange_row = row_with(
        row, body=b"", left_ms=most, ctime=2**62 - 1, nacks=most, deliveries=most, holders=(stranger,)
    )
    newer = encoded(60, 5, 2, {9: 7, 10_000: b"new"})
    specs = (encoded(most, most, most), encoded(60, 5, 0), b"", b"spec", b"\xdf\xff\xff\xff\xff", newer)
    return {
        "REPLJOB": [
            *[repljob_with(repljob(job_id=job_id, retry=retry, flags=flags), holders=given)
              for given in sets for retry in (0, 5) for flags in (0, 1, most)],
            repljob_with(copy, flags=most, left_ms=most, delay_ms=most, holders=(), ctimes=(2**62 - 1,)),
            repljob_with(copy, ids=twice, bodies=(b"a", b"b"), ctimes=(1, 2)),
            repljob_with(copy, ids=(), bodies=(), ctimes=()),
            *[repljob_with(copy, spec=spec) for spec in specs],
        ],
        "GOTJOB": [(GOTJOB, given) for given in ((), ids, twice)],
        "ENQUEUE": [(ENQUEUE, job_id, delay_ms) for delay_ms in (0, 5000, most)],
        "QUEUED": [(QUEUED, why, given) for why in (0, 1, 2, 3, most) for given in (ids, twice)],
        "SETACK": [(SETACK, given, twice) for given in sets],
        "WILLQUEUE": [(WILLQUEUE, number, given, twice) for number in (0, 2**62 - 1) for given in sets],
        "GOTACK": [(GOTACK, known, given, twice) for known in (0, 1, most) for given in sets],
        "DELJOB": [(DELJOB, twice)],
        "NEEDJOBS": [(NEEDJOBS, name, count) for name in (b"q", b"", b"new") for count in (0, 1, most)],
        "LIMIT": [(LIMIT, size) for size in (0, 1, most)],
        "PUBLISHED": [(PUBLISHED, channel, text) for channel in (b"", b"news", b"job:added:q", b"x" * 5000)
                      for text in (b"", b"x" * ((1 << 20) + 1))],
        "UPSINCE": [(UPSINCE, up_ms) for up_ms in (0, 5000, most)],
        "NEEDNOW": [(NEEDNOW, name, count) for name in (b"q", b"", b"new") for count in (0, 1, most)],
        "OFFER": [(OFFER, b"q"), (OFFER, b"other")],
        "TAKEJOB": [
            (TAKEJOB, *given[1:])
            for given in (
                *[repljob_with(repljob(job_id=job_id, retry=retry, flags=flags), holders=holders, delay_ms=delay_ms)
                  for holders in sets for retry in (0, 5) for flags, delay_ms in ((4, 0), (most, most))],
                repljob_with(repljob(job_id=job_id, retry=0), ids=twice, bodies=(b"a", b"b"), ctimes=(1, 2)),
                repljob_with(repljob(job_id=job_id, retry=0), ids=(), bodies=(), ctimes=()),
                *[repljob_with(repljob(job_id=job_id, retry=0), spec=spec) for spec in specs],
            )
        ],
        "YOURJOBS": [(YOURJOBS, b"q", rows) for rows in (
            (row,), (strange_row,), (row, row), *[(row_with(row, spec=spec),) for spec in specs]
        )],
        "STOPPING": [(STOPPING, what) for what in (I_STOP, ALL_SENT, most)],
        "WORKING": [(WORKING, given) for given in (ids, twice)],
        "ENTRIES": [(ENTRIES, ((kind, b"q", field, value, counter, who, deleted),)) for kind in (1, 3, 4, most)
                    for field in (b"", b"f") for value in (b"", b"3", b"9") for counter in (0, 2**62 - 1)
                    for who in (one, stranger) for deleted in (0, 1, most)],
        "DIGEST": [(DIGEST, what, digest) for what in (0, 1, most)
                   for digest in (b"", b"x", bytes(DIGEST_BYTES), b"x" * DIGEST_BYTES)],
        "SURVEY": [(SURVEY, number, what, given) for number in (0, 7, 2**62 - 1) for what in (0, *TABLE, most)
                   for given in ((), (b"q",), (b"",), (b"q", b"q"), (digest_of(b"q", b"k"),), (b"x" * 40,) * 1000)],
        "SURVEYED": [(SURVEYED, number, given) for number in (0, bench.node.surveys.base + 1, 2**62 - 1)
                     for given in ((), (b"1",), (b"x",), (b"-1",), (b"9" * 1000,), (b"",) * 1000)],
        "ABORT": [(ABORT, given) for given in (ids, twice)],
        "REFUSED": [(REFUSED, reason, given) for reason in (0, 3, most) for given in (ids, twice)],
        "ANSWER": [(ANSWER, number, what, given, twice) for number in (0, now_ms, now_ms - 100, 2**62 - 1)
                   for what in (0, 1, most) for given in sets],
        "HOLD": [(HOLD, number, given, twice, (1, left_ms)) for number in (0, 2**62 - 1) for given in sets
                 for left_ms in (0, 5000, most)],
        "HAVE": [(HAVE, given) for given in (ids, twice)],
        "ASKCOPY": [(ASKCOPY, given, some) for given in sets for some in (ids, twice)],
        "COPYIS": [(COPYIS, what, given, twice) for what in (0, 1, 2, 3, 4, 5, 6, most) for given in sets],
        "ASKEND": [(ASKEND, given, some) for given in sets for some in (ids, twice)],
        "KEEPEND": [(KEEPEND, b"q", status, who, age_ms, left_ms, repl, tries, given, b"", text, b"body", job_id)
                    for status in (0, 1, 5, most) for who in (one, MYSELF) for given in sets
                    for age_ms, left_ms, repl, tries in ((0, 5000, 2, 0), (most, most, 1, 1), (0, 0, most, most))
                    for text in (b"", b"result")],
        "MOVED": [(MOVED, name, spec, left_ms, delay_ms, given, more, twice) for name in (b"q", b"r")
                  for spec in (encoded(60, 5, 2), encoded(60, 0, 1), b"x")
                  for left_ms, delay_ms, given in ((0, most, mine), (most, 0, sets[2])) for more in some_extras(one)],
        "GOTMOVE": [(GOTMOVE, generation, who, twice) for generation in (0, 1, most) for who in (one, MYSELF)],
        "MORE": [(MORE, more, twice) for more in some_extras(one)],
        "ENDED": [(ENDED, what, status, who, 0, left_ms, text, twice) for what in (0, 1, 2, 3, most)
                  for status in (0, 1, 2, 5, 7, most) for who in (one, MYSELF) for left_ms in (0, 5000, most)
                  for text in (b"", b"result")],
        "WATCH": [(WATCH, what, twice) for what in (0, 1, most)],
    }  # fmt: skip


def some_extras(mover: bytes) -> list[bytes]:
    """What is said of a job beyond its fields."""
    failed, moved, dead = Extra(), Extra(), Extra()
    failed.tries, failed.error, failed.headers = 65535, b"x" * 4096, (b"name", b"value")
    moved.generation, moved.mover = 1, mover
    dead.generation, dead.mover, dead.died, dead.origin, dead.first = 2**39, mover, 9, b"q", b"nonsense"
    return [b"", b"x", *[encode(extra, 0) for extra in (Extra(), failed, moved, dead)]]


def kinds() -> list[str]:
    """All kinds of messages but those of the membership and of UNIQUE keys."""
    return [name for number, (name, _) in KINDS.items() if number > messages.FAIL and number not in KEY_KINDS]


def test_every_kind_is_here() -> None:
    assert set(about(Bench(peers=1), foreign_id())) == set(kinds())
    assert {number for number in step.MESSAGES if number not in KEY_KINDS} == {
        number for number in KINDS if number > messages.FAIL and number not in KEY_KINDS
    }


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("state", [*USUAL_STATES, *rarely(*RARE_STATES)])
def test_no_message_does_harm(state: Maker, kind: str) -> None:
    at, most = 0, 1
    while at < most:
        bench = Bench(peers=3, journaling=True)
        some = about(bench, state(bench))[kind]
        most = len(some)
        for message in some[at : at + AT_ONCE]:
            bench.hear(bench.peers[at % 3], message)
            bench.hear(bench.peers[0], message)
        at += AT_ONCE
        bench.live(100)
        bench.checked = False
        bench.advance(70_000)
        bench.checked = True
        bench.settle()
