import pytest

from tests.core.support import MYSELF, Bench, Client

SYNTAX = b"-ERR syntax error\r\n"
NOT_A_NUMBER = b"-ERR value is not an integer or out of range\r\n"


# -- QLEN, QPEEK, QSTAT -----------------------------------------------------------------------------------------------


def test_qlen(client: Client) -> None:
    assert client.raw("QLEN", "q") == b":0\r\n"
    client.add("q")
    client.add("q")
    assert client.raw("QLEN", "q") == b":2\r\n"
    client.get("q")
    assert client.raw("QLEN", "q") == b":1\r\n"


def test_one_qpeek_shows_only_so_many_jobs_and_bytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [client.add("q", "x" * 100) for _ in range(5)]
    monkeypatch.setattr("disque.core.commands.queues.PEEK_MOST", 3)
    assert [entry[1] for entry in client("QPEEK", "q", 100)] == jobs[:3]
    assert [entry[1] for entry in client("QPEEK", "q", -100)] == jobs[:1:-1]
    monkeypatch.setattr("disque.core.commands.queues.PEEK_BYTES_MOST", 150)
    assert [entry[1] for entry in client("QPEEK", "q", 100)] == jobs[:2]
    name = "q" * 80
    jobs = [client.add(name, "body") for _ in range(5)]
    assert [entry[1] for entry in client("QPEEK", name, 100)] == jobs[:2], "each has the name of its queue"


def test_qpeek_shows_the_oldest_or_with_a_negative_count_the_newest(client: Client) -> None:
    jobs = [client.add("q", number) for number in range(4)]
    assert [entry[1] for entry in client("QPEEK", "q", 2)] == jobs[:2]
    assert [entry[1] for entry in client("QPEEK", "q", -2)] == jobs[:1:-1]
    assert [entry[1] for entry in client("QPEEK", "q", 10**18)] == jobs
    assert [entry[1] for entry in client("QPEEK", "q", -(10**18))] == jobs[::-1]
    assert client("QLEN", "q") == 4


def test_qpeek_shows_the_order_of_priorities(bench: Bench, client: Client) -> None:
    jobs = [client.add("q", "b", "PRIORITY", number) for number in (1, 0, 7, 1)]
    wanted = [jobs[2], jobs[0], jobs[3], jobs[1]]
    assert [entry[1] for entry in client("QPEEK", "q", 9)] == wanted
    assert [entry[1] for entry in client("QPEEK", "q", -9)] == wanted[::-1]
    bench.advance(500)
    client.add("q", "b", "PRIORITY", 9)
    stat = client("QSTAT", "q")
    assert stat[stat.index(b"oldest-ms") + 1] == 500, "the oldest is not the one that leaves first"
    assert [client.get("q")[0] for _ in range(4)][1:] == wanted[:3]


def test_qpeek_byte_for_byte(client: Client) -> None:
    job = client.add("q", "body")
    assert client.raw("QPEEK", "q", 1) == b"*1\r\n*3\r\n$1\r\nq\r\n$40\r\n%b\r\n$4\r\nbody\r\n" % job


def test_qpeek_of_nothing_is_an_empty_array_and_makes_no_queue(bench: Bench, client: Client) -> None:
    assert client.raw("QPEEK", "q", 5) == b"*0\r\n"
    assert bench.node.queues == {}
    client.add("q")
    assert client.raw("QPEEK", "q", 0) == b"*0\r\n"
    assert client.raw("QPEEK", "q", "") == b"*0\r\n"
    for wrong in ("x", "1.5", "9223372036854775808"):
        assert client.raw("QPEEK", "q", wrong) == NOT_A_NUMBER


def test_qpeek_sees_jobs_that_came_back_in_their_place(client: Client) -> None:
    jobs = [client.add("q") for _ in range(4)]
    client.get("q", count=2)
    client("NACK", jobs[1])
    client("DELJOB", jobs[2])
    assert [entry[1] for entry in client("QPEEK", "q", 9)] == [jobs[1], jobs[3]]
    assert [entry[1] for entry in client("QPEEK", "q", -9)] == [jobs[3], jobs[1]]


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"*-1\r\n"), (3, b"_\r\n")])
def test_qstat_of_no_queue(client: Client, protocol: int, nothing: bytes) -> None:
    client("HELLO", protocol)
    assert client.raw("QSTAT", "q") == nothing


def test_qstat_says_for_how_long_the_oldest_job_could_have_been_delivered(bench: Bench, client: Client) -> None:
    client.add("q")
    client.get("q")

    def oldest() -> int:
        shown = client("QSTAT", "q")
        return int(dict(zip(shown[::2], shown[1::2], strict=True))[b"oldest-ms"])

    assert oldest() == 0
    client.add("q", "late", "DELAY", 5)
    assert oldest() == 0
    bench.advance(7000)
    assert oldest() == 2000
    client.add("q")
    assert oldest() == 2000
    client.get("q")
    assert oldest() == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_qstat_byte_for_byte(bench: Bench, client: Client, protocol: int) -> None:
    client("HELLO", protocol)
    for _ in range(3):
        client.add("q")
    bench.advance(7000)
    client.get("q")
    bench.advance(2999)
    times = b"".join(
        b"$%d\r\n%b\r\n:%d\r\n" % (len(name), name, ms)
        for name, ms in zip(
            (b"wait-p50-ms", b"wait-p95-ms", b"wait-p99-ms", b"run-p50-ms", b"run-p95-ms", b"run-p99-ms"),
            (6656, 6656, 6656, 0, 0, 0),
            strict=True,
        )
    )
    assert client.raw("QSTAT", "q") == (
        b"*58\r\n$4\r\nname\r\n$1\r\nq\r\n$3\r\nlen\r\n:2\r\n$3\r\nage\r\n:9\r\n$4\r\nidle\r\n:2\r\n$7\r\nblocked\r\n:0\r\n"
        b"$11\r\nimport-from\r\n*0\r\n$11\r\nimport-rate\r\n:0\r\n$7\r\njobs-in\r\n:3\r\n$8\r\njobs-out\r\n:1\r\n"
        b"$5\r\npause\r\n$4\r\nnone\r\n$9\r\noldest-ms\r\n:9999\r\n"
        b"$7\r\ndelayed\r\n:0\r\n$9\r\nin-flight\r\n:1\r\n$4\r\ndone\r\n:0\r\n$5\r\nadded\r\n:3\r\n"
        b"$9\r\ndelivered\r\n:1\r\n$5\r\nacked\r\n:0\r\n$6\r\nnacked\r\n:0\r\n$7\r\nretried\r\n:0\r\n"
        b"$4\r\ndied\r\n:0\r\n$7\r\nexpired\r\n:0\r\n$9\r\ncancelled\r\n:0\r\n$7\r\ndropped\r\n:0\r\n" + times
    )


@pytest.mark.parametrize("command", ["QLEN", "QSTAT"])
def test_behind_the_name_of_a_queue_only_cluster_may_stand(client: Client, command: str) -> None:
    client.add("q")
    text = f"ERR wrong number of arguments for '{command.lower()}' command"  # as it always was
    assert client.error(command, "q", "CLUSTERS") == text
    assert client.error(command, "q", "CLUSTER", "CLUSTER") == text
    assert client(command, "q", "Cluster")


def test_qstat_counts_who_waits_and_tells_the_pause(bench: Bench, client: Client) -> None:
    for _ in range(2):
        bench.client()("GETJOB", "FROM", "q", "r")
    client("PAUSE", "q", "out")
    stat = client("QSTAT", "q")
    assert stat[9] == 2
    assert stat[19] == b"out"


# -- PAUSE ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("in",), b"in"),
        (("OUT",), b"out"),
        (("in", "out"), b"all"),
        (("All",), b"all"),
        (("all", "none"), b"none"),
        (("in", "none", "out"), b"out"),
        (("none",), b"none"),
        (("state",), b"none"),
        (("in", "state", "bcast"), b"in"),
        (("bcast",), b"none"),
        (("in", "in"), b"in"),
    ],
)
def test_pause_answers_how_the_queue_stands(client: Client, words: tuple[str, ...], state: bytes) -> None:
    assert client.raw("PAUSE", "q", *words) == b"+%b\r\n" % state
    assert client.raw("PAUSE", "q", "state") == b"+%b\r\n" % state


def test_pause_replaces_what_was(client: Client) -> None:
    client("PAUSE", "q", "in")
    assert client.raw("PAUSE", "q", "out") == b"+out\r\n"
    assert client.raw("PAUSE", "q", "state") == b"+out\r\n"


def test_an_unknown_word_changes_nothing(bench: Bench, client: Client) -> None:
    assert client.raw("PAUSE", "q", "in", "x") == SYNTAX
    assert bench.node.queues == {}


def test_only_a_pause_makes_a_queue(bench: Bench, client: Client) -> None:
    client("PAUSE", "q", "none")
    client("PAUSE", "q", "state")
    assert bench.node.queues == {}
    client("PAUSE", "q", "in")
    assert list(bench.node.queues) == [b"q"]


def test_a_queue_paused_in_refuses_and_one_paused_out_gives_nothing(client: Client) -> None:
    job = client.add("q")
    client("PAUSE", "q", "in")
    assert client.raw("ADDJOB", "q", "b", 0) == b"-PAUSED Queue paused in input, try later\r\n"
    assert client.get("q") == [job]
    client("PAUSE", "q", "out")
    job = client.add("q")
    assert client.get("q") == []
    client("PAUSE", "q", "none")
    assert client.get("q") == [job]


# -- QSCAN, JSCAN -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["QSCAN", "JSCAN"])
def test_a_scan_of_nothing(client: Client, command: str) -> None:
    assert client.raw(command) == b"*2\r\n$1\r\n0\r\n*0\r\n"


def test_qscan_answers_names_as_bulks(client: Client) -> None:
    client.add("a")
    client.add("b")
    assert client.raw("QSCAN") == b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"


@pytest.mark.parametrize("protocol", [2, 3])
def test_jscan_answers_ids_as_simple_strings(client: Client, protocol: int) -> None:
    client("HELLO", protocol)
    job = client.add("q")
    assert client.raw("JSCAN", "BUSYLOOP") == b"*2\r\n$1\r\n0\r\n*1\r\n+%b\r\n" % job
    assert client.raw("JSCAN", "REPLY", "id", "BUSYLOOP") == b"*2\r\n$1\r\n0\r\n*1\r\n+%b\r\n" % job


def test_jscan_can_answer_whole_jobs(client: Client) -> None:
    job = client.add("q")
    shown = client.raw("SHOW", job)
    assert client.raw("JSCAN", "REPLY", "all") == b"*2\r\n$1\r\n0\r\n*1\r\n" + shown
    assert MYSELF in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("x",), "ERR invalid cursor or option name"),
        (("1", "2"), "ERR syntax error"),
        (("18446744073709551616",), "ERR invalid cursor or option name"),
        (("COUNT",), "ERR invalid cursor or option name"),
        (("0", "COUNT"), "ERR syntax error"),
        (("COUNT", "x"), "ERR value is not an integer or out of range"),
        (("COUNT", "BUSYLOOP"), "ERR value is not an integer or out of range"),
        (("1.5",), "ERR invalid cursor or option name"),
    ],
)
@pytest.mark.parametrize("command", ["QSCAN", "JSCAN"])
def test_wrong_words_of_both_scans(client: Client, command: str, words: tuple[str, ...], text: str) -> None:
    assert client.error(command, *words) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("STATE", "x"), "ERR Invalid job state name"),
        (("STATE", "queued", "STATE", ""), "ERR Invalid job state name"),
        (("REPLY", "x"), "ERR Invalid REPLY type, try ID or ALL"),
        (("QUEUE",), "ERR invalid cursor or option name"),
        (("STATE",), "ERR invalid cursor or option name"),
        (("MINLEN", "1"), "ERR invalid cursor or option name"),
    ],
)
def test_wrong_words_of_jscan(client: Client, words: tuple[str, ...], text: str) -> None:
    assert client.error("JSCAN", *words) == text


@pytest.mark.parametrize("option", ["MINLEN", "MAXLEN", "IMPORTRATE"])
def test_wrong_words_of_qscan(client: Client, option: str) -> None:
    assert client.error("QSCAN", option, "x") == "ERR value is not an integer or out of range"
    assert client.error("QSCAN", option) == "ERR invalid cursor or option name"
    assert client.error("QSCAN", "QUEUE", "q") == "ERR invalid cursor or option name"


@pytest.mark.parametrize("cursor", ["", "-1", "0", "+0", "18446744073709551615"])
def test_cursors_are_64_bits_without_a_sign(client: Client, cursor: str) -> None:
    for command in ("QSCAN", "JSCAN"):
        assert client(command, cursor) == [b"0", []]


def test_jscan_by_state_and_queue(client: Client) -> None:
    queued, out, delayed = client.add("a"), client.add("b"), client.add("b", "b", "DELAY", 9)
    client.get("b")

    def found(*words: str) -> set[bytes]:
        return set(client("JSCAN", "BUSYLOOP", *words)[1])

    assert found() == {queued, out, delayed}
    assert found("STATE", "QUEUED") == {queued}
    assert found("STATE", "active") == {out, delayed}
    assert found("STATE", "active", "STATE", "queued") == {queued, out, delayed}
    assert found("STATE", "acked", "STATE", "wait-repl") == set()
    assert found("QUEUE", "b") == {out, delayed}
    assert found("QUEUE", "b", "STATE", "queued") == set()
    assert found("QUEUE", "a", "QUEUE", "none") == set()


def test_jscan_shows_ends_that_are_kept(client: Client) -> None:
    done, cancelled, unkept = (client.add("q", "body", "RETAIN", seconds) for seconds in (60, 60, 0))
    gone = client.add("other", "body", "RETAIN", 60, "TTL", 5, "RETRY", 1)
    client("ACKJOB", done, "RESULT", "value")
    client("CANCEL", cancelled)
    client("ACKJOB", unkept)
    dead = client.add("q", "body", "RETAIN", 60, "DEADLETTER", "")
    assert client.get("q") == [dead]
    client("NACK", dead, "DEAD")
    waits = client.add("q", "body", "RETAIN", 60)
    client.bench.advance(9000)

    def found(*words: str) -> set[bytes]:
        return set(client("JSCAN", "BUSYLOOP", *words)[1])

    assert found("STATE", "done") == {done}
    assert found("STATE", "cancelled") == {cancelled}
    assert found("STATE", "dead") == {dead}
    assert found("STATE", "expired") == {gone}
    assert found("STATE", "expired", "QUEUE", "q") == set()
    assert found("STATE", "done", "STATE", "queued", "QUEUE", "q") >= {done, waits}
    assert not found() & {done, cancelled, dead, gone}, "without STATE, it shows jobs that go on"
    ((shown,)) = client("JSCAN", "STATE", "done", "REPLY", "ALL")[1]
    row = dict(zip(shown[::2], shown[1::2], strict=True))
    assert (row[b"id"], row[b"status"], row[b"result"], row[b"body"]) == (done, b"done", b"value", b"body")


def test_a_walk_through_ends_meets_each_once(client: Client) -> None:
    ids = [client.add("q", "body", "RETAIN", 60) for _ in range(500)]
    client("ACKJOB", *ids)
    cursor, found = client("JSCAN", "STATE", "done", "COUNT", 10)
    extra = [client.add("q", "body", "RETAIN", 60) for _ in range(50)]
    client("ACKJOB", *extra)
    while cursor != b"0":
        cursor, some = client("JSCAN", cursor, "STATE", "done", "COUNT", 10)
        found += some
    assert sorted(found) == sorted(ids + extra)


def test_jscan_shows_jobs_that_wait_for_copies(cluster: Bench) -> None:
    producer, client = cluster.client(), cluster.client()
    producer("ADDJOB", "q", "b", 0, "REPLICATE", 3)
    assert len(client("JSCAN", "STATE", "wait-repl", "BUSYLOOP")[1]) == 1


def test_qscan_by_length(client: Client) -> None:
    for name, length in (("one", 1), ("two", 2), ("three", 3)):
        for _ in range(length):
            client.add(name)
    assert client("QSCAN", "MINLEN", 2)[1] == [b"two", b"three"]
    assert client("QSCAN", "MAXLEN", 2)[1] == [b"one", b"two"]
    assert client("QSCAN", "MINLEN", 2, "MAXLEN", 2)[1] == [b"two"]
    assert client("QSCAN", "MAXLEN", 0)[1] == []
    assert client("QSCAN", "IMPORTRATE", 0)[1] == [b"one", b"two", b"three"]
    assert client("QSCAN", "IMPORTRATE", 1)[1] == []
