import pytest

from tests.core.support import MYSELF, NOTHING, UNKNOWN_ID, Bench, Client

BAD_ID = b"-BADID Invalid Job ID format.\r\n"
SYNTAX = b"-ERR syntax error\r\n"
MANY = ("ACKJOB", "FASTACK", "DELJOB", "NACK", "ENQUEUE", "DEQUEUE")
NO_IDS = (b"", b"x", UNKNOWN_ID[:-1], UNKNOWN_ID + b"x", b"X" + UNKNOWN_ID[1:], b"DX" + UNKNOWN_ID[2:])


def without(job_id: bytes, at: int) -> bytes:
    return job_id[:at] + b"_" + job_id[at + 1 :]


# -- GETJOB -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_getjob_answers_the_same_in_both_protocols(client: Client, protocol: int) -> None:
    client("HELLO", protocol)
    job = client.add("q", "body")
    assert client.raw("GETJOB", "FROM", "q") == b"*1\r\n*3\r\n$1\r\nq\r\n$40\r\n%b\r\n$4\r\nbody\r\n" % job


def test_getjob_with_counters(client: Client) -> None:
    job = client.add("q", "body")
    client.get("q")
    client("NACK", job)
    assert client.raw("GETJOB", "WITHCOUNTERS", "FROM", "q") == (
        b"*1\r\n*7\r\n$1\r\nq\r\n$40\r\n%b\r\n$4\r\nbody\r\n$5\r\nnacks\r\n:1\r\n$21\r\nadditional-deliveries\r\n:0\r\n"
        % job
    )


def test_nobody_gives_sizes_instead_of_bodies(client: Client) -> None:
    job, other = client.add("q", "body"), client.add("q", "")
    assert client.raw("GETJOB", "NOBODY", "FROM", "q") == b"*1\r\n*3\r\n$1\r\nq\r\n$40\r\n%b\r\n:4\r\n" % job
    assert client("GETJOB", "nobody", "WITHCOUNTERS", "FROM", "q") == [
        [b"q", other, 0, b"nacks", 0, b"additional-deliveries", 0]
    ]
    assert client("SHOW", job)[-1] == b"body"


def test_bytes_bound_a_reply(client: Client) -> None:
    jobs = [client.add("q", "x" * 10) for _ in range(9)]

    def taken(*words: str | int) -> list[bytes]:
        return [job for _, job, *_ in client("GETJOB", *words, "FROM", "q") or []]

    assert taken("COUNT", 9, "BYTES", 1) == jobs[:1], "one is always given"
    assert taken("COUNT", 9, "BYTES", 30, "NOBODY") == jobs[1:4], "names of queues count, too"
    assert taken("BYTES", 1000) == jobs[4:5], "COUNT is 1"
    assert taken("COUNT", 9, "BYTES", 10**18) == jobs[5:]


@pytest.mark.parametrize("size", ["0", "-1", "x"])
def test_bytes_is_a_positive_number(client: Client, size: str) -> None:
    assert client.raw("GETJOB", "BYTES", size, "FROM", "q") == b"-ERR BYTES must be a number greater than zero\r\n"


def test_who_waits_gets_no_more_than_was_asked_for_and_no_bodies(bench: Bench, client: Client) -> None:
    other = bench.client()
    client.send("GETJOB", "COUNT", 9, "BYTES", 11, "NOBODY", "FROM", "q")
    one = other.add("q", "x" * 10)
    assert client.read() == [[b"q", one, 10]]


def test_getjob_of_several_is_one_array(client: Client) -> None:
    one, two = client.add("a", ""), client.add("b", "x")
    assert client.raw("GETJOB", "COUNT", 5, "FROM", "a", "b") == (
        b"*2\r\n*3\r\n$1\r\na\r\n$40\r\n%b\r\n$0\r\n\r\n*3\r\n$1\r\nb\r\n$40\r\n%b\r\n$1\r\nx\r\n" % (one, two)
    )


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"*-1\r\n"), (3, b"_\r\n")])
def test_getjob_nohang_answers_nothing_and_makes_no_queue(
    bench: Bench, client: Client, protocol: int, nothing: bytes
) -> None:
    client("HELLO", protocol)
    assert client.raw("GETJOB", "NOHANG", "FROM", "a", "b") == nothing
    assert client.raw("GETJOB", "TIMEOUT", 5000, "NOHANG", "COUNT", 3, "FROM", "a") == nothing
    assert bench.node.queues == {}
    assert bench.node.used == 0


@pytest.mark.parametrize(
    "words",
    [
        ("NOHANG", "COUNT", "2", "TIMEOUT", "10", "WITHCOUNTERS"),
        ("withcounters", "timeout", "10", "count", "2", "nohang"),
        ("COUNT", "9", "NOHANG", "COUNT", "2", "WITHCOUNTERS", "WITHCOUNTERS"),
    ],
)
def test_options_of_getjob_stand_in_any_order(client: Client, words: tuple[str, ...]) -> None:
    jobs = [client.add("q") for _ in range(3)]
    reply = client("GETJOB", *words, "from", "q")
    assert [entry[1] for entry in reply] == jobs[:2]
    assert all(len(entry) == 7 for entry in reply)


def test_everything_behind_from_is_a_queue(client: Client) -> None:
    job = client.add("NOHANG")
    assert client("GETJOB", "FROM", "q", "NOHANG", "COUNT") == [[b"NOHANG", job, b"body"]]
    job = client.add("FROM")
    assert client("GETJOB", "FROM", "FROM") == [[b"FROM", job, b"body"]]


@pytest.mark.parametrize(
    "words",
    [
        ("FROM",),
        ("q",),
        ("NOHANG",),
        ("NOHANG", "FROM"),
        ("COUNT", "1"),
        ("NOHANG", "q"),
        ("COUNT", "1", "q"),
        ("TIMEOUT",),
    ],
)
def test_getjob_without_queues_is_a_syntax_error(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("GETJOB", *words) == SYNTAX


@pytest.mark.parametrize("count", ["0", "-1", "x", "", "1.5", "9223372036854775808", "FROM"])
def test_count_is_a_positive_number(client: Client, count: str) -> None:
    assert client.raw("GETJOB", "COUNT", count, "FROM", "q") == b"-ERR COUNT must be a number greater than zero\r\n"


@pytest.mark.parametrize("timeout", ["x", "1.5", "9223372036854775808", "FROM"])
def test_timeout_is_an_integer(client: Client, timeout: str) -> None:
    assert (
        client.raw("GETJOB", "TIMEOUT", timeout, "FROM", "q") == b"-ERR timeout is not an integer or out of range\r\n"
    )


def test_timeout_is_not_negative(client: Client) -> None:
    assert client.raw("GETJOB", "TIMEOUT", "-1", "FROM", "q") == b"-ERR timeout is negative\r\n"


@pytest.mark.parametrize("timeout", ["", "0", "+5", "9223372036854775807"])
def test_getjob_waits_for_any_time(client: Client, timeout: str) -> None:
    assert client("GETJOB", "TIMEOUT", timeout, "FROM", "q") is NOTHING
    assert client.waiting


# -- commands that take IDs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", MANY)
def test_without_ids_nothing_is_done(client: Client, command: str) -> None:
    assert client.raw(command) == b":0\r\n"


@pytest.mark.parametrize("command", MANY)
def test_an_unknown_id_does_not_count(client: Client, command: str) -> None:
    assert client.raw(command, UNKNOWN_ID, UNKNOWN_ID) == b":0\r\n"


@pytest.mark.parametrize("command", MANY)
@pytest.mark.parametrize("wrong", NO_IDS)
def test_one_bad_id_stops_all(bench: Bench, client: Client, command: str, wrong: bytes) -> None:
    queued, out = client.add("a"), client.add("b")
    client.get("b")
    assert client.raw(command, queued, out, wrong) == BAD_ID
    assert (bench.state(queued), bench.state(out)) == ("queued", "active")


@pytest.mark.parametrize("command", ["SHOW", "WORKING"])
@pytest.mark.parametrize("wrong", NO_IDS)
def test_show_and_working_want_ids(client: Client, command: str, wrong: bytes) -> None:
    assert client.raw(command, wrong) == BAD_ID


@pytest.mark.parametrize("at", [0, 1, 10, 35])
def test_the_marks_of_an_id_must_be_in_their_places(client: Client, at: int) -> None:
    assert client.raw("SHOW", without(UNKNOWN_ID, at)) == BAD_ID


@pytest.mark.parametrize("at", [2, 9, 11, 34, 36, 39])
def test_nothing_else_of_an_id_is_looked_at(client: Client, at: int) -> None:
    assert client.raw("SHOW", without(UNKNOWN_ID, at)) == b"$-1\r\n"


@pytest.mark.parametrize("command", ["ACKJOB", "FASTACK", "DELJOB"])
def test_ended_jobs_are_gone_and_counted_once(bench: Bench, client: Client, command: str) -> None:
    queued, out, delayed = client.add("a"), client.add("b"), client.add("c", "b", "DELAY", 5)
    client.get("b")
    assert client.raw(command, queued, queued, UNKNOWN_ID, out, delayed) == b":3\r\n"
    assert client.raw(command, queued) == b":0\r\n"
    assert bench.node.jobs_registered() == 0
    assert client("QLEN", "a") == 0


def test_moved_jobs_are_counted(client: Client) -> None:
    one, two = client.add("q"), client.add("q")
    assert client.raw("DEQUEUE", one, one, two, UNKNOWN_ID) == b":2\r\n"
    assert client.raw("ENQUEUE", one, two, two) == b":2\r\n"
    client.get("q", count=2)
    assert client.raw("NACK", two, one, two) == b":2\r\n"


# -- NACK DELAY -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", ["-1", "x", "-0.5", "1e3", "nan", "1."])
def test_the_delay_of_a_nack_is_not_negative(bench: Bench, client: Client, delay: str) -> None:
    job = client.add("q")
    client.get("q")
    assert client.raw("NACK", job, "DELAY", delay) == b"-ERR DELAY time must be a non negative number\r\n"
    assert bench.state(job) == "active"


@pytest.mark.parametrize(("delay", "ms"), [("0.25", 250), ("1.5", 1500), ("0.0001", 1)])
def test_the_delay_of_a_nack_may_have_decimals(bench: Bench, client: Client, delay: str, ms: int) -> None:
    job = client.add("q")
    client.get("q")
    assert client("NACK", job, "DELAY", delay) == 1
    bench.advance(ms - 1)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_the_delay_of_a_nack_is_bounded(client: Client) -> None:
    job = client.add("q")
    text = b"-ERR DELAY must be at most 4294967295 seconds\r\n"
    assert client.raw("NACK", job, "DELAY", 2**32) == text


@pytest.mark.parametrize("words", [("DELAY",), ("DELAY", "5", UNKNOWN_ID), (UNKNOWN_ID, "DELAY"), ("x", "DELAY", "5")])
def test_delay_stands_behind_the_ids(client: Client, words: tuple[str | bytes, ...]) -> None:
    assert client.raw("NACK", *words) == BAD_ID


def test_a_nack_of_no_ids_with_a_delay_moves_nothing(client: Client) -> None:
    assert client.raw("NACK", "DELAY", "5") == b":0\r\n"


def test_an_error_needs_a_text(client: Client) -> None:
    assert client.raw("NACK", UNKNOWN_ID, "ERROR") == b"-ERR syntax error\r\n"


# -- NACK NOCOUNT -----------------------------------------------------------------------------------------------------


def counters(client: Client) -> list[int]:
    [words] = client("GETJOB", "NOHANG", "WITHCOUNTERS", "FROM", "q")
    return [int(words[4]), int(words[6])]


def test_what_is_given_back_uncounted_is_queued_at_once_and_no_failure(client: Client) -> None:
    job = client.add("q")
    client.get("q")
    assert client.raw("NACK", job, "nocount") == b":1\r\n"
    assert counters(client) == [0, 0]
    client("NACK", job)
    assert counters(client) == [1, 0]


@pytest.mark.parametrize("words", [("NOCOUNT", "DELAY", "5"), ("DELAY", "5", "NOCOUNT")])
def test_it_can_be_held_back_without_counting(bench: Bench, client: Client, words: tuple[str, ...]) -> None:
    job = client.add("q")
    client.get("q")
    assert client.raw("NACK", job, *words) == b":1\r\n"
    assert bench.state(job) == "active"
    bench.advance(5000)
    assert counters(client) == [0, 0]


def test_a_nack_of_no_ids_without_counting_moves_nothing(client: Client) -> None:
    assert client.raw("NACK", "NOCOUNT") == b":0\r\n"
    assert client.raw("NACK", "DELAY", "5", "NOCOUNT") == b":0\r\n"
    assert client.raw("NACK", "NOCOUNT", UNKNOWN_ID) == BAD_ID


# -- WORKING ----------------------------------------------------------------------------------------------------------


def test_working_on_one_unknown_job(client: Client) -> None:
    assert client.raw("WORKING", UNKNOWN_ID) == b"-NOJOB Job not known in the context of this node.\r\n"


def test_working_on_several_answers_an_array(client: Client) -> None:
    one, two = client.add("q", "b", "RETRY", 5), client.add("q", "b", "RETRY", 7)
    client.get("q", count=2)
    assert client.raw("WORKING", one, UNKNOWN_ID, two) == (
        b"*3\r\n:5\r\n-NOJOB Job not known in the context of this node.\r\n:7\r\n"
    )


def test_working_on_several_is_all_or_nothing_for_bad_ids(client: Client) -> None:
    assert client.raw("WORKING", client.add("q"), "x") == BAD_ID


# -- SHOW -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_show_of_an_unknown_job(client: Client, protocol: int, nothing: bytes) -> None:
    client("HELLO", protocol)
    assert client.raw("SHOW", UNKNOWN_ID) == nothing


def test_show_of_a_queued_job_byte_for_byte(bench: Bench, client: Client) -> None:
    job = client.add("q1", "body1")
    ctime = bench.now_ms * 1_000_000
    assert client.raw("SHOW", job) == (
        b"*30\r\n$2\r\nid\r\n$40\r\n%b\r\n$5\r\nqueue\r\n$2\r\nq1\r\n$5\r\nstate\r\n$6\r\nqueued\r\n$4\r\nrepl\r\n:1\r\n"
        b"$3\r\nttl\r\n:86400\r\n$5\r\nctime\r\n:%d\r\n$5\r\ndelay\r\n:0\r\n$5\r\nretry\r\n:300\r\n$5\r\nnacks\r\n:0\r\n"
        b"$21\r\nadditional-deliveries\r\n:0\r\n$15\r\nnodes-delivered\r\n*1\r\n$40\r\n%b\r\n$15\r\nnodes-confirmed\r\n*0\r\n"
        b"$19\r\nnext-requeue-within\r\n:300000\r\n$17\r\nnext-awake-within\r\n:86400000\r\n$4\r\nbody\r\n$5\r\nbody1\r\n"
        % (job, ctime, MYSELF)
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [("SHOW", ()), ("SHOW", (UNKNOWN_ID, UNKNOWN_ID)), ("ADDJOB", ("q", "b")), ("GETJOB", ()), ("WORKING", ())],
)
def test_arity(client: Client, command: str, words: tuple[bytes, ...]) -> None:
    text = b"-ERR wrong number of arguments for '%b' command\r\n" % command.lower().encode()
    assert client.raw(command, *words) == text
