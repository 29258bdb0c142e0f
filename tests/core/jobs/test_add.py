from itertools import permutations

import pytest

from disque.core.jobs.add import KINDS_MOST, parse, parse_options
from disque.core.journal.schema import JOBS_HELD_MS
from disque.core.model.job import ACTIVE, DEFERRED, LEASE_OWNER
from disque.core.model.request import Request
from disque.core.model.spec import PRIORITY, RETAIN
from tests.core.support import MYSELF, Bench, Client, words
from tests.support.formats import jobs_record

U32 = 2**32


def request(bench: Bench, *options: str | int) -> Request:
    parsed = parse(bench.node, words("ADDJOB", "q", "b", 0, *options))
    assert isinstance(parsed, Request), parsed
    return parsed


def wrong(bench: Bench, *options: str | int, timeout: str | int = 0) -> bytes:
    parsed = parse(bench.node, words("ADDJOB", "q", "b", timeout, *options))
    assert isinstance(parsed, bytes), "an error was expected"
    return parsed


def test_what_is_not_said_has_its_default(bench: Bench) -> None:
    plain = request(bench)
    assert (plain.queue, plain.body, plain.timeout_ms) == (b"q", b"b", 0)
    assert (plain.replicate, plain.ttl, plain.retry, plain.delay_ms, plain.maxlen) == (1, 86400, 300, 0, 0)
    assert not plain.asynchronous
    assert plain.key is None


@pytest.mark.parametrize(
    ("ttl", "retry"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (2999, 299), (3000, 300), (3001, 300), (U32 - 1, 300)]
)
def test_retry_is_a_tenth_of_the_ttl_at_least_1_at_most_300(bench: Bench, ttl: int, retry: int) -> None:
    assert request(bench, "TTL", ttl).retry == retry


@pytest.mark.parametrize(
    "order",
    list(permutations([("TTL", 100), ("RETRY", 7), ("DELAY", 5), ("MAXLEN", 9), ("REPLICATE", 2), ("ASYNC",)], 6))[
        ::37
    ],
)
def test_options_stand_in_any_order(bench: Bench, order: tuple[tuple[str | int, ...], ...]) -> None:
    mixed = request(bench, *[word for option in order for word in option])
    assert (mixed.ttl, mixed.retry, mixed.delay_ms, mixed.maxlen, mixed.replicate) == (100, 7, 5000, 9, 2)
    assert mixed.asynchronous


def test_option_names_do_not_mind_case_and_the_last_of_several_wins(bench: Bench) -> None:
    mixed = request(bench, "ttl", 5, "Retry", 9, "TTL", 50, "retry", 3, "async", "ASYNC")
    assert isinstance(mixed, Request)
    assert (mixed.ttl, mixed.retry) == (50, 3)


def test_priority_0_is_as_if_nothing_was_said(bench: Bench, client: Client) -> None:
    jobs = [client.add("q", "b", *options) for options in ((), ("PRIORITY", 0))]
    assert [bench.job(job).spec.number(PRIORITY) for job in jobs] == [0, 0]
    assert len({bench.job(job).spec.encoded for job in jobs}) == 1


def test_the_keyword_of_an_option_may_be_its_value(bench: Bench) -> None:
    assert request(bench, "UNIQUE", "TTL", 5).key == b"TTL"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("REPLICATE", value, b"ERR REPLICATE must be between 1 and 65535")
        for value in ("0", "-1", "65536", "x", "", "1.5", " 1", "1 ", "0x1")
    ]
    + [("TTL", value, b"ERR TTL must be a number > 0") for value in ("0", "-1", "x", "", "-0", str(2**63))]
    + [("RETRY", value, b"ERR RETRY time must be a non negative number") for value in ("-1", "x", str(-(2**63) - 1))]
    + [
        ("DELAY", value, b"ERR DELAY time must be a non negative number")
        for value in ("-1", "x", "+", "--1", "-0.5", "1e3", "1e400", "nan", "inf", "1.", ".5", "1." + "0" * 63)
    ]
    + [("RETRY", value, b"ERR RETRY time must be a non negative number") for value in ("0.0", "-0.5", "1e3", "nan")]
    + [("TTL", value, b"ERR TTL must be a number > 0") for value in ("0.0", "-1.5", "inf", "1e3")]
    + [
        ("AT", value, b"ERR AT must be milliseconds since 1970, as a non negative number")
        for value in ("-1", "x", "1.5", str(2**63), "now")
    ]
    + [
        (name, f"{U32 - 1}.5", b"ERR %b must be at most 4294967295 seconds" % name.encode())
        for name in ("TTL", "RETRY", "DELAY")
    ]
    + [("PRIORITY", value, b"ERR PRIORITY must be a number from 0 to 255") for value in ("-1", "256", "x", "1.0")]
    + [("MAXLEN", value, b"ERR MAXLEN must be a positive number") for value in ("0", "-1", "x", "")]
    + [
        (name, str(U32), b"ERR %b must be at most 4294967295 seconds" % name.encode())
        for name in ("TTL", "RETRY", "DELAY")
    ],
)
def test_a_number_out_of_bounds_is_named(bench: Bench, option: str, value: str, text: bytes) -> None:
    assert wrong(bench, option, value) == text
    assert wrong(bench, option.lower(), value) == text


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("REPLICATE", ("1", "65535", "+5", "0005")),
        ("TTL", ("1", str(U32 - 1), "+1")),
        ("RETRY", ("0", "", "-0", str(U32 - 1))),
        ("PRIORITY", ("0", "", "255", "+7")),
        ("MAXLEN", ("1", str(2**63 - 1))),
    ],
)
def test_the_bounds_themselves_are_fine(bench: Bench, option: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert request(bench, option, value, *(("REPLICATE", 1) if option == "RETRY" else ()))


def test_delay_goes_up_to_the_ttl(bench: Bench) -> None:
    assert request(bench, "DELAY", U32 - 2, "TTL", U32 - 1).delay_ms == (U32 - 2) * 1000
    text = b"ERR The specified DELAY is greater than TTL. Job refused since would never be delivered"
    assert wrong(bench, "TTL", 10, "DELAY", 10) == text
    assert wrong(bench, "DELAY", 11, "TTL", 10) == text
    assert request(bench, "TTL", 10, "DELAY", 9).delay_ms == 9000


# -- decimals, and AT -------------------------------------------------------------------------------------------------

BEYOND = b"ERR The specified DELAY is greater than TTL. Job refused since would never be delivered"


def test_a_delay_may_have_decimals(bench: Bench) -> None:
    assert request(bench, "DELAY", "0.25").delay_ms == 250
    assert request(bench, "DELAY", "0.00001").delay_ms == 1
    assert request(bench, "DELAY", "0.0").delay_ms == 0
    assert request(bench, "TTL", 10, "DELAY", "9.999").delay_ms == 9999
    assert wrong(bench, "TTL", 10, "DELAY", "10.0") == BEYOND


def test_what_is_kept_in_whole_seconds_is_rounded_up(bench: Bench) -> None:
    mixed = request(bench, "TTL", "9.1", "RETRY", "0.001", "UNIQUE", "k", "1.5")
    assert (mixed.ttl, mixed.retry, mixed.window) == (10, 1, 2)
    assert request(bench, "RETAIN", "0.5").rows == {RETAIN.number: 1}


def test_a_delay_ends_to_the_millisecond(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "DELAY", "1.25", "RETRY", 5)
    assert client.show(job)["delay"] == 2, "whole seconds are rounded up"
    bench.advance(1249)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_at_counts_by_the_wall_clock_of_the_node_that_is_asked(bench: Bench, client: Client) -> None:
    wall_ms = bench.host.wall_us() // 1000
    job = client.add("q", "b", "AT", wall_ms + 1500)
    assert client.show(job)["delay"] == 2
    bench.advance(1499)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_what_is_past_is_queued_at_once(bench: Bench, client: Client) -> None:
    wall_ms = bench.host.wall_us() // 1000
    for at in (0, 1, wall_ms - 1, wall_ms):
        assert bench.state(client.add("q", "b", "AT", at)) == "queued"


def test_at_beyond_the_ttl_is_refused(bench: Bench) -> None:
    wall_ms = bench.host.wall_us() // 1000
    assert request(bench, "TTL", 10, "AT", wall_ms + 9999).delay_ms == 9999
    for at in (wall_ms + 10_000, 2**63 - 1):
        text = b"ERR AT is after the end of the TTL. Job refused since it would never be delivered"
        assert wrong(bench, "AT", at, "TTL", 10) == text


def test_at_and_delay_exclude_each_other(bench: Bench) -> None:
    text = b"ERR AT and DELAY cannot be used together"
    for delay in (0, "0.0", 5):
        assert wrong(bench, "AT", 0, "DELAY", delay) == wrong(bench, "DELAY", delay, "AT", 0) == text
    assert wrong(bench, "AT", 0, "AT", 7) == b"ERR AT can be said once"
    assert request(bench, "DELAY", 9, "DELAY", "0.5").delay_ms == 500


def test_a_moment_survives_a_crash() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    client.add("q", "b", "AT", bench.host.wall_us() // 1000 + 1234)
    (record,) = bench.records()
    assert record[JOBS_HELD_MS] == bench.now_ms + 1234


@pytest.mark.parametrize(
    "options",
    [("NONSENSE",), ("AT",), ("TTL",), ("ASYNC", "RETRY"), ("TTL", "5", "MAXLEN"), ("",), ("5",), ("TTL", "5", "6")],
)
def test_a_word_too_many_or_too_few_is_a_syntax_error(bench: Bench, options: tuple[str, ...]) -> None:
    assert wrong(bench, *options) == b"ERR syntax error"


@pytest.mark.parametrize("timeout", ["x", "1.5", " 1", "1 ", str(2**63), "-", "1_0"])
def test_a_timeout_is_an_integer(bench: Bench, timeout: str) -> None:
    assert wrong(bench, timeout=timeout) == b"ERR timeout is not an integer or out of range"


def test_a_timeout_is_not_negative(bench: Bench) -> None:
    assert wrong(bench, timeout="-1") == b"ERR timeout is negative"


def test_the_empty_word_is_zero(bench: Bench) -> None:
    assert request(bench).timeout_ms == 0
    parsed = parse(bench.node, words("ADDJOB", "q", "b", ""))
    assert isinstance(parsed, Request)
    assert parsed.timeout_ms == 0


def test_at_most_once_needs_replicate_1(bench: Bench) -> None:
    text = b"ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)"
    assert wrong(bench, "RETRY", 0, "REPLICATE", 2) == text
    assert request(bench, "RETRY", 0).retry == 0
    bench.meet(0)
    assert wrong(bench, "RETRY", 0) == text, "the default counts as well"
    assert request(bench, "RETRY", 0, "REPLICATE", 1).replicate == 1


def test_errors_come_in_the_order_of_disque(bench: Bench) -> None:
    at_most_once = ("RETRY", 0, "REPLICATE", 2)
    beyond = ("TTL", 5, "DELAY", 5)
    assert wrong(bench, "TTL", 0, "RETRY", -1, timeout="x") == b"ERR TTL must be a number > 0"
    assert wrong(bench, "RETRY", -1, "TTL", 0, timeout="x").startswith(b"ERR RETRY")
    assert wrong(bench, *at_most_once, *beyond, timeout="x") == b"ERR timeout is not an integer or out of range"
    assert wrong(bench, *at_most_once, *beyond, timeout="-1") == b"ERR timeout is negative"
    assert wrong(bench, *at_most_once, *beyond).startswith(b"ERR With RETRY set to 0")
    assert wrong(bench, *beyond, "UNIQUE", "k", 0, "ASYNC").startswith(b"ERR The specified DELAY")


def test_words_that_are_not_ascii_are_just_unknown() -> None:
    assert parse_options(Request(b"q", b"b", 1), [b"a", b"b", b"c", b"0", b"\xff\xfe"]) == b"ERR syntax error"


# -- the reply, and what has become of the job ------------------------------------------------------------------------


def test_the_reply_is_the_id_as_a_simple_string(client: Client) -> None:
    raw = client.raw("ADDJOB", "q", "b", 0)
    assert raw[:11] == b"+D-a0a0a0a0"
    assert raw[-7:] == b"-05a1\r\n"
    assert len(raw) == 43


def test_ids_tell_the_ttl_and_whether_the_job_comes_back(client: Client) -> None:
    assert client.add("q", "b", "TTL", 86400, "RETRY", 0)[-4:] == b"05a0"
    assert client.add("q", "b", "TTL", 59)[-4:] == b"0001"
    assert client.add("q", "b", "TTL", U32 - 1)[-4:] == b"ffff"


def test_more_kinds_of_ids_than_are_remembered_are_still_right(bench: Bench) -> None:
    bench.checked = False
    client = bench.client()
    for ttl in range(1, KINDS_MOST + 10):
        client.send("ADDJOB", "q", "b", 0, "TTL", ttl * 60)
    assert all(int(job_id[-4:], 16) == ttl | 1 for ttl, job_id in enumerate(client.read_all(), 1))


@pytest.mark.parametrize(("queue", "body"), [("", ""), (b"\r\n", b"\0\xff"), ("q", b"x" * 100_000)])
def test_names_and_bodies_may_hold_anything(client: Client, queue: bytes, body: bytes) -> None:
    job = client.add(queue, body)
    expected = queue if isinstance(queue, bytes) else queue.encode()
    text = body if isinstance(body, bytes) else body.encode()
    assert client("GETJOB", "FROM", queue) == [[expected, job, text]]


def test_maxlen_looks_at_the_local_queue(client: Client) -> None:
    text = b"-MAXLEN Queue is already longer than the specified MAXLEN count\r\n"
    client.add("q", "b", "MAXLEN", 2)
    client.add("q", "b", "MAXLEN", 2)
    assert client.raw("ADDJOB", "q", "b", 0, "MAXLEN", 2) == text
    client.get("q")
    client.add("q", "b", "MAXLEN", 2)


def test_maxlen_comes_before_paused(client: Client) -> None:
    client.add("q")
    client("PAUSE", "q", "in")
    assert client.raw("ADDJOB", "q", "b", 0) == b"-PAUSED Queue paused in input, try later\r\n"
    assert client.error("ADDJOB", "q", "b", 0, "MAXLEN", 1).startswith("MAXLEN")


def test_a_refused_job_leaves_nothing(bench: Bench, client: Client) -> None:
    client.error("ADDJOB", "q", "b", 0, "REPLICATE", 2)
    client.error("ADDJOB", "q", "b", "x")
    assert bench.node.jobs_registered() == 0
    assert bench.node.queues == {}
    assert bench.node.used == 0


def test_async_answers_at_once_however_many_copies(client: Client, cluster: Bench) -> None:
    producer = cluster.client()
    assert cluster.state(producer.add("q", "b", "REPLICATE", 3, "ASYNC")) == "queued"
    assert client.error("ADDJOB", "q", "b", 0, "REPLICATE", 2, "ASYNC").startswith("NOREPL")


def test_jobs_of_one_millisecond_keep_their_order(bench: Bench, client: Client) -> None:
    jobs = [client.add("q") for _ in range(20)]
    ctimes = [bench.job(job).ctime for job in jobs]
    assert ctimes == sorted(set(ctimes))
    assert client.get("q", count=20) == jobs


def test_a_job_is_filed_once_and_its_reply_has_to_wait_for_that() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job = client.add("q", "b", "RETRY", 7, "TTL", 50, "DELAY", 3)
    now_ms = bench.now_ms
    (record,) = bench.records()
    assert record == jobs_record(
        job,
        ttl=50,
        retry=7,
        state=ACTIVE,
        flags=DEFERRED | LEASE_OWNER,
        delay=3,
        held_ms=now_ms + 3000,
        holders=(MYSELF,),
        bodies=(b"b",),
        ctimes=(now_ms * 1_000_000,),
    )


# -- a node that must not keep copies ---------------------------------------------------------------------------------

NO_REPL = "NOREPL Not enough reachable nodes for the requested replication level"
REASON = ", since I'm unable to hold a copy of the message for the following reason: "


def test_a_leaving_node_alone_takes_no_jobs(bench: Bench, client: Client) -> None:
    bench.membership.leaving = True
    assert client.error("ADDJOB", "q", "b", 0) == NO_REPL + REASON + "I'm leaving the cluster"
    assert client.error("ADDJOB", "q", "b", 0, "REPLICATE", 2) == NO_REPL


def test_a_node_short_of_memory_takes_no_jobs(bench: Bench, client: Client) -> None:
    client.add("q", "x" * 10_000)
    bench.set("maxmemory", bench.node.used * 100 // 80)
    assert client.error("ADDJOB", "q", "b", 0) == NO_REPL + REASON + "I'm out of memory"
