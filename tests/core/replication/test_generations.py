from cluster.messages import GOTJOB, MORE, NEEDJOBS, REPLJOB, REPLJOB_MORE, YOURJOBS, YOURJOBS_JOBS
from disque.core.model.extra import Extra, decode, encode
from tests.core.support import MYSELF, START_MS, Bench, foreign_id, repljob
from tests.support.formats import encoded, repljob_with, row_with, yourjobs, yourjobs_row

ID = foreign_id()
TRIED: dict[int, int | bytes] = {5: 9}


def known(**values: object) -> bytes:
    made = Extra()
    for name, value in values.items():
        setattr(made, name, value)
    return encode(made, START_MS)


def copy(bench: Bench, more: bytes = b"") -> tuple[object, ...]:
    one = bench.peers[0].id
    return repljob_with(repljob(one, job_id=ID), spec=encoded(rows=TRIED), more=more)


def test_headers_go_with_each_copy_and_each_has_a_message_of_its_own() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    for header in ("1", "2"):
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "HEADER", "number", header)
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2)
    bench.settle()
    sent = [message for _, message in bench.sent(REPLJOB)]
    found = [decode(message[REPLJOB_MORE], START_MS) if message[REPLJOB_MORE] else None for message in sent]
    assert [one and one.headers for one in found] == [(b"number", b"1"), (b"number", b"2"), None]


def test_a_copy_comes_with_what_is_known_of_it() -> None:
    bench = Bench(peers=1, journaling=True)
    bench.hear(bench.peers[0], copy(bench, known(headers=(b"a", b"b"), tries=2, error=b"e", error_ms=START_MS - 50)))
    assert [message[0] for _, message in bench.sent()] == [GOTJOB]
    shown = bench.client().show(ID)
    assert (shown["headers"], shown["tries"], shown["error"], shown["error-ms-ago"]) == ([b"a", b"b"], 2, b"e", 50)


def test_the_greater_number_of_tries_and_the_later_error_count() -> None:
    bench = Bench(peers=1, journaling=True)
    (one,) = bench.peers
    bench.hear(one, copy(bench))
    client = bench.client()
    for tries, error, age_ms, expected in (
        (3, b"old", 9, (3, b"old")),
        (2, b"new", 5, (3, b"new")),
        (1, b"x", 7, (3, b"new")),
    ):
        bench.hear(one, (MORE, known(tries=tries, error=error, error_ms=START_MS - age_ms), (ID, ID)))
        shown = client.show(ID)
        assert (shown["tries"], shown["error"]) == expected


def test_of_two_errors_of_one_millisecond_that_of_the_later_try_counts() -> None:
    bench = Bench(peers=1)
    one = bench.peers[0]
    bench.hear(one, copy(bench, known(tries=1, error=b"first", error_ms=START_MS)))
    for tries, error, expected in ((2, b"second", b"second"), (1, b"late", b"second")):
        bench.hear(one, (MORE, known(tries=tries, error=error, error_ms=START_MS), (ID,)))
        assert bench.client().show(ID)["error"] == expected


def test_what_another_generation_says_does_not_count() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, copy(bench))
    bench.hear(one, (MORE, known(tries=5, generation=1, mover=one.id), (ID,)))
    assert bench.client().show(ID)["tries"] == 0
    bench.hear(one, (MORE, b"nonsense", (ID,)))
    assert bench.node.messages_skipped == 1


def test_a_copy_that_knows_of_a_move_brings_it() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, copy(bench))
    more = known(generation=1, mover=one.id, died=1, origin=b"q", first=encoded())
    bench.hear(one, repljob_with(copy(bench, more), queue=b"q:dead"))
    assert bench.job(ID).queue == b"q:dead"
    row = yourjobs_row(ID, holders=(MYSELF, one.id))
    bench.hear(one, yourjobs(row_with(row, more=more), queue=b"q:dead"))
    assert (bench.job(ID).queue, bench.state(ID)) == (b"q:dead", "queued")


def test_without_a_move_a_job_stays_in_its_queue() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, copy(bench, known(tries=1, error=b"e")))
    more = known(tries=1, headers=(b"a", b"b"))
    bench.hear(one, repljob_with(copy(bench, more), queue=b"a queue that is before q"))
    bench.hear(one, yourjobs(row_with(yourjobs_row(ID, holders=(MYSELF, one.id)), more=more), queue=b"another one"))
    assert bench.job(ID).queue == b"q"


def test_who_hands_on_a_job_says_all_that_is_known() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    client = bench.client()
    client.add("q", "body", "HEADER", "a", "b", "REPLICATE", 1)
    bench.hear(one, (NEEDJOBS, b"q", 1))
    ((_, message),) = bench.sent(YOURJOBS)
    found = decode(message[YOURJOBS_JOBS][0][-1], START_MS)
    assert found is not None
    assert found.headers == (b"a", b"b")


def test_a_row_with_nonsense_is_skipped() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, copy(bench, b"nonsense"), yourjobs(row_with(yourjobs_row(ID, holders=(one.id,)), more=b"x")))
    assert bench.node.messages_skipped == 2
    assert bench.node.find(ID) is None
