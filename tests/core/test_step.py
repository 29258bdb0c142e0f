from collections.abc import Callable

import pytest

from disque.core import step
from disque.core.base.timers import Timed
from disque.core.commands import COMMANDS
from disque.core.model.catalog import Catalog
from disque.core.model.command import WORDS_MOST
from tests.core.support import (
    NOTHING,
    START_MS,
    Bench,
    Client,
    assert_delivered,
    assert_still_waiting,
    words,
)

PASSWORD = "secret"


def test_an_unknown_command_is_named_as_typed(client: Client) -> None:
    assert client.raw("FooBar", "x") == b"-ERR unknown command 'FooBar'\r\n"
    assert client.raw("") == b"-ERR unknown command ''\r\n"
    assert client.raw(b"a\r\nb\0c") == b"-ERR unknown command 'a  b'\r\n"


def test_names_do_not_mind_case(client: Client) -> None:
    assert {client.raw(name) for name in ("PING", "ping", "PiNg")} == {b"+PONG\r\n"}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, row in COMMANDS.items() if row.arity not in {0, -1}])
def test_the_number_of_words_is_checked_by_the_table(client: Client, name: bytes, row: object) -> None:
    del row
    assert (
        client.raw(name.upper()) == b"-ERR wrong number of arguments for '%b' command\r\n" % name
        or COMMANDS[name].arity == 1
    )


@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row.arity > 0])
def test_no_more_words_than_the_table_says(client: Client, name: bytes) -> None:
    request = [name, *[b"x"] * COMMANDS[name].arity]
    assert client.raw(*request) == b"-ERR wrong number of arguments for '%b' command\r\n" % name


def test_unknown_commands_and_wrong_arity_are_told_before_auth(bench: Bench) -> None:
    bench.set("requirepass", PASSWORD)
    client = bench.client()
    assert client.error("NONSENSE") == "ERR unknown command 'NONSENSE'"
    assert client.error("QLEN") == "ERR wrong number of arguments for 'qlen' command"
    assert client.raw("QLEN", "q") == b"-NOAUTH Authentication required.\r\n"


def test_auth_comes_before_memory_the_disk_and_loading(bench: Bench, client: Client) -> None:
    client.add("q", "x" * 10_000)
    bench.set("maxmemory", 1)
    bench.node.misconf = b"MISCONF no disk"
    bench.node.loading = True
    bench.set("requirepass", PASSWORD)
    request = ("ADDJOB", "q", "b", 0)
    client.session.passed = False
    assert client.error(*request).startswith("NOAUTH")
    client.session.passed = True
    assert client.error(*request) == "OOM command not allowed when used memory > 'maxmemory'."
    bench.set("maxmemory", 0)
    assert client.error(*request) == "MISCONF no disk"
    bench.node.misconf = b""
    assert client.error(*request) == "LOADING Disque is loading the dataset in memory"


def test_what_needs_no_memory_works_on_a_node_that_is_full(bench: Bench, client: Client) -> None:
    job = client.add("q")
    bench.set("maxmemory", 1)
    assert client.get("q") == [job]
    assert client.error("NACK", job).startswith("OOM")
    assert client.error("ENQUEUE", job).startswith("OOM")
    assert client("WORKING", job) == 300
    assert client("ACKJOB", job) == 1


def test_what_writes_nothing_works_while_the_disk_fails(bench: Bench, client: Client) -> None:
    client.add("q")
    bench.node.misconf = b"MISCONF no disk"
    assert client("QLEN", "q") == 1
    for request in (("GETJOB", "FROM", "q"), ("ACKJOB",), ("DELJOB",), ("PING",)):
        assert client.error(*request) == "MISCONF no disk"
    assert client("PING", "hello") == b"hello"


#: What only looks, as often as there is a way to look; {job} is the ID of a job in the queue q.
LOOKS = (
    *("SHOW {job}", "QLEN q", "QLEN q CLUSTER", "QPEEK q 10", "QSTAT q", "QSTAT q CLUSTER", "QSCAN", "QSCAN BUSYLOOP"),
    *("JSCAN", "JSCAN BUSYLOOP REPLY ALL", "QHISTORY q minute", "PAUSE q state"),
    *("QCONFIG GET q", "QCONFIG LIST", "QCONFIG HELP"),
    *("CRON GET s", "CRON LIST", "cron list 0", "CRON NEXT @daily 2", "CRON HELP"),
    *("ACL LIST", "ACL USERS", "ACL GETUSER default", "ACL WHOAMI", "ACL CAT", "ACL LOG", "ACL DRYRUN default QLEN q"),
    *("CLUSTER INFO", "CLUSTER NODES", "CLUSTER MYID", "CLUSTER LEAVING"),
    *("INFO", "METRICS", "HELLO", "CONFIG GET *", "CLIENT LIST", "COMMAND", "SLOWLOG GET", "LATENCY LATEST", "TIME"),
    *("PUBSUB CHANNELS", "PUBLISH channel text"),
)
#: What only looks, too, but says what must still be true after a crash.
PROMISES = ("RESULT {job}", "WAITJOB 10 {job}", "FIND q key")


@pytest.mark.parametrize("request_", LOOKS)
def test_what_only_looks_is_answered_while_the_disk_fails(bench: Bench, client: Client, request_: str) -> None:
    client("CRON", "SET", "s", "@daily", "q", "body")
    job = client.add("q")
    bench.node.misconf = b"MISCONF no disk"
    bench.node.journaling = True
    client.session.unsettled = False
    records = bench.node.outbox.count
    reply = client.raw(*request_.format(job=job.decode()).split())
    assert reply, "at once"
    assert not reply.startswith(b"-")
    assert not client.session.unsettled, "it does not wait for the journal"
    assert bench.node.outbox.count == records


def test_all_that_looks_at_jobs_and_queues_is_tried_with_a_disk_that_fails() -> None:
    catalog = Catalog(COMMANDS.values())
    tried = {tuple(request.lower().split()[:2]) for request in (*LOOKS, *PROMISES)}
    for unit in catalog.by_category[b"read"]:
        words_ = tuple(unit.decode().split("|"))
        assert any(one[: len(words_)] == words_ for one in tried), unit


SETS = (
    *("CRON SET s @daily q body", "CRON DEL s", "CRON PAUSE s", "CRON RESUME s"),
    "PAUSE q in",
    "PAUSE q bcast",
    "QCONFIG SET q ttl 5",
    "QCONFIG UNSET q",
    "ACL SETUSER bob on",
    "ACL DELUSER bob",
    *("DEBUG FLUSHALL", "CLUSTER RESET", "CLUSTER RESET HARD"),
)


@pytest.mark.parametrize("request_", SETS)
def test_what_sets_something_is_refused_while_the_disk_fails(bench: Bench, client: Client, request_: str) -> None:
    job = client.add("other")
    bench.node.misconf = b"MISCONF no disk"
    assert client.error(*request_.split()) == "MISCONF no disk", "it would wait until there is room"
    assert client("SHOW", job), "nothing has happened"
    bench.node.misconf = b""
    client(*request_.split())


def test_what_must_be_true_after_a_crash_is_not_said_while_the_disk_fails(bench: Bench, client: Client) -> None:
    job = client.add("q")
    bench.node.misconf = b"MISCONF no disk"
    for request in PROMISES:
        assert client.error(*request.format(job=job.decode()).split()) == "MISCONF no disk"
    assert client.error("CRON", "RUN", "s") == "MISCONF no disk"


@pytest.mark.parametrize("request_", ["QLEN q CLUSTER", "QSTAT q", "QSTAT q CLUSTER", "QHISTORY q minute"])
def test_figures_do_not_wait_for_the_journal(bench: Bench, client: Client, request_: str) -> None:
    client.add("q")
    bench.node.journaling = True
    client.session.unsettled = False
    client(*request_.split())
    assert not client.session.unsettled


@pytest.mark.parametrize("name", ["INFO", "HELLO", "COMMAND", "QUIT", "RESET"])
def test_what_may_run_while_loading(bench: Bench, client: Client, name: str) -> None:
    bench.set("requirepass", PASSWORD)
    bench.node.loading = True
    assert client("AUTH", PASSWORD) == b"OK"
    assert client.error("PING").startswith("LOADING")
    assert not client.raw(name).startswith(b"-")


def test_while_the_journal_is_read_nobody_gets_in_whom_its_users_may_refuse(bench: Bench, client: Client) -> None:
    bench.node.loading = True
    for request in (
        ("INFO",),
        ("SHUTDOWN",),
        ("HELLO",),
        ("ACL", "LIST"),
        ("COMMAND",),
        ("LATENCY", "LATEST"),
        ("AUTH", "x"),
        ("AUTH", "ann", "x"),
        ("HELLO", "3", "AUTH", "default", "x"),
    ):
        assert client.error(*request).startswith("LOADING"), request
    assert client("INFO", "persistence")
    assert client("HELLO", "2")
    assert bench.node.stats.auths_denied == 0


def test_users_of_the_configuration_can_log_in_while_the_journal_is_read(bench: Bench, client: Client) -> None:
    bench.set("requirepass", PASSWORD)
    bench.node.loading = True
    client.session.passed = False
    assert client.error("AUTH", "wrong") == "ERR invalid password"
    assert client.error("INFO").startswith("NOAUTH")
    assert client("AUTH", PASSWORD) == b"OK"
    assert client("INFO", "server")


def test_the_command_that_ran_is_told(bench: Bench, client: Client) -> None:
    assert step.command(bench.node, client.session, words("QLEN", "q"), START_MS) is COMMANDS[b"qlen"]
    assert step.command(bench.node, client.session, words("NONSENSE"), START_MS) is None


def test_renamed_commands_have_their_new_name_only(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench()
    bench.node.config.put("rename-command", ("debug", "Hidden"))
    bench.node.config.put("rename-command", ("monitor", ""))
    bench.node.name_commands()
    client = bench.client()
    assert client.error("DEBUG", "ERROR", "x").startswith("ERR unknown command 'DEBUG'")
    assert client.error("MONITOR").startswith("ERR unknown command")
    assert client.error("hidden", "ERROR", "ERR x") == "ERR x"
    assert client.error("HIDDEN") == "ERR wrong number of arguments for 'debug' command"
    assert client("COMMAND", "COUNT") == len(COMMANDS) - 1


# -- CLIENT REPLY -----------------------------------------------------------------------------------------------------


def test_off_silences_replies_and_errors_until_on(client: Client) -> None:
    assert client.raw("CLIENT", "REPLY", "OFF") == b""
    for request in (("PING",), ("NONSENSE",), ("QLEN",), ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "x")):
        assert client.raw(*request) == b""
    job_count = client.bench.node.jobs_registered()
    client("ADDJOB", "q", "b", 0)
    assert client.bench.node.jobs_registered() == job_count + 1
    assert client.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"
    assert client.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    "skipped", [("PING",), ("NONSENSE",), ("QLEN",), ("ADDJOB", "q", "b", "x"), ("GETJOB", "NOHANG", "FROM", "q")]
)
def test_skip_silences_one_command_whatever_it_answers(client: Client, skipped: tuple[str, ...]) -> None:
    assert client.raw("CLIENT", "REPLY", "SKIP") == b""
    assert client.raw(*skipped) == b""
    assert client.raw("PING") == b"+PONG\r\n"


def test_skip_behind_skip_silences_the_next_command(client: Client) -> None:
    client("CLIENT", "REPLY", "SKIP")
    client("CLIENT", "REPLY", "SKIP")
    assert client.raw("PING", "1") == b""
    assert client.raw("PING", "2") == b"$1\r\n2\r\n"


def test_on_is_answered_even_behind_skip(client: Client) -> None:
    client("CLIENT", "REPLY", "SKIP")
    assert client.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"
    assert client.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_reset_ends_the_silence(client: Client, mode: str) -> None:
    client("CLIENT", "REPLY", mode)
    assert client.raw("RESET") == b"+RESET\r\n"
    assert client.raw("PING") == b"+PONG\r\n"


def test_skip_silences_a_getjob_that_waits_and_nothing_behind_it(bench: Bench, client: Client) -> None:
    producer = bench.client()
    client("CLIENT", "REPLY", "SKIP")
    client("GETJOB", "FROM", "q")
    assert_still_waiting(client)
    job = producer.add("q")
    assert client.read() is NOTHING
    assert not client.waiting
    assert bench.state(job) == "active"
    assert client.raw("PING") == b"+PONG\r\n"


def test_off_silences_a_getjob_that_times_out(bench: Bench, client: Client) -> None:
    client("CLIENT", "REPLY", "OFF")
    client("GETJOB", "TIMEOUT", 10, "FROM", "q")
    bench.advance(10)
    assert client.read() is NOTHING
    assert not client.waiting
    assert client.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"


def test_a_getjob_behind_a_silent_one_is_answered(bench: Bench, client: Client) -> None:
    producer = bench.client()
    client("CLIENT", "REPLY", "SKIP")
    client("GETJOB", "FROM", "q")
    producer.add("q")
    client("GETJOB", "FROM", "q")
    assert_delivered(client, producer.add("q"))


@pytest.mark.parametrize("blocked", [False, True])
def test_jobs_whose_reply_was_not_wanted_are_not_given_back(bench: Bench, client: Client, blocked: bool) -> None:
    producer = bench.client()
    client("CLIENT", "REPLY", "OFF")
    jobs = [] if blocked else [producer.add("q")]
    client("GETJOB", "FROM", "q")
    jobs = jobs or [producer.add("q")]
    assert client.session.handed == []
    client.disconnect()
    assert bench.state(jobs[0]) == "active"


# -- MONITOR, SLOWLOG -------------------------------------------------------------------------------------------------


def test_slow_commands_are_logged_from_the_threshold_on(bench: Bench, client: Client) -> None:
    bench.set("slowlog-log-slower-than", 100)
    bench.set("latency-monitor-threshold", 2)
    for spent_us in (99.9, 100, 1999, 2000, 5000.5):
        step.account(bench.node, client.session, COMMANDS[b"qlen"], words("QLEN", "q"), spent_us, bench.now_ms)
    assert [entry.duration_us for entry in bench.node.slowlog.get(-1)] == [5000, 2000, 1999, 100]
    assert bench.node.latency.latest() == [(b"fast-command", bench.now_ms // 1000, 5, 5)]


def test_negative_thresholds_log_nothing(bench: Bench, client: Client) -> None:
    bench.set("slowlog-log-slower-than", -1)
    step.account(bench.node, client.session, COMMANDS[b"qpeek"], words("QPEEK", "q", 1), 10**9, bench.now_ms)
    assert len(bench.node.slowlog) == 0
    assert bench.node.latency.latest() == []


def test_passwords_are_logged_nowhere(bench: Bench, client: Client) -> None:
    bench.set("slowlog-log-slower-than", 0)
    for request in (
        ("AUTH", PASSWORD),
        ("AUTH", "default", PASSWORD),
        ("HELLO", "3", "AUTH", "default", PASSWORD),
        ("CONFIG", "SET", "RequirePass", PASSWORD),
        ("config", "set", "requirepass", PASSWORD, "more"),
        ("config", "set", "timeout", "1", "cluster-SECRET", PASSWORD),
    ):
        args = words(*request)
        step.account(bench.node, client.session, COMMANDS[args[0].lower()], args, 5, bench.now_ms)
    assert all(PASSWORD.encode() not in b" ".join(entry.args) for entry in bench.node.slowlog.get(-1))
    assert len(bench.node.slowlog) == 6


# -- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["POST", "post", "Host:", "HOST:"])
def test_a_client_that_speaks_http_is_closed_without_an_answer(bench: Bench, word: str) -> None:
    client = bench.client()
    client.send(word, "/", "HTTP/1.1")
    assert client.session.closing
    assert client.session.out == []
    assert bench.host.asked == [("suspect", client.session.id, "cross-protocol")]


def test_a_locked_client_that_speaks_http_is_closed_too(bench: Bench) -> None:
    bench.set("requirepass", PASSWORD)
    client = bench.client()
    client.send("POST", "/")
    assert client.session.closing


# -- ticks ------------------------------------------------------------------------------------------------------------


def test_a_tick_does_at_most_so_much_and_asks_for_another(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(checked=False)
    client = bench.client()
    for _ in range(2500):
        client.send("ADDJOB", "q", "b", 0, "DELAY", 1)
    client.read_all()
    bench.now_ms += 1000
    lengths = []
    while bench.node.next_due_ms <= bench.now_ms:
        step.tick(bench.node, bench.now_ms)
        lengths.append(client("QLEN", "q"))
    assert lengths[-1] == 2500
    assert all(after - before <= step.TICK_MOST for before, after in zip([0, *lengths], lengths, strict=False))


def test_jobs_forgotten_all_at_once_are_freed_bit_by_bit(bench: Bench, client: Client) -> None:
    for _ in range(20):
        client.add("q")
    client("DEBUG", "FLUSHALL")
    assert bench.node.jobs_registered() == 0
    assert bench.node.next_due_ms == 0
    bench.advance(0)
    assert bench.node.trash == []


def test_a_fault_in_one_timer_leaves_the_others_theirs(bench: Bench) -> None:
    client = bench.client()
    before, after = client.add("q", "b", "DELAY", "1"), client.add("q", "b", "DELAY", "1")
    bench.node.timers.arm(Timed(), START_MS + 1000)  # nobody knows what to do for it
    later = bench.node.find(after)
    assert later is not None
    bench.node.timers.arm(later, START_MS + 1000)
    with pytest.raises(KeyError):
        step.tick(bench.node, START_MS + 1000)
    step.tick(bench.node, START_MS + 1000)
    assert [job.id for job in bench.node.queues[b"q"].jobs()] == [before, after]


@pytest.mark.parametrize("name", ["JSCAN", "PAUSE", "CONFIG", "COMMAND", "CLIENT", "CLUSTER", "HELLO", "ADDJOB"])
def test_so_many_words_that_others_would_have_to_wait_are_refused_unless_they_are_a_list(name: str) -> None:
    bench = Bench()
    reply = bench.client().raw(name, *["x"] * WORDS_MOST)
    wanted = f"-ERR too many arguments for '{name.lower()}' command: at most {WORDS_MOST} words\r\n"
    assert reply == wanted.encode()


def test_a_list_of_ids_may_be_long() -> None:
    assert COMMANDS[b"ackjob"].accepts(1_000_000)
