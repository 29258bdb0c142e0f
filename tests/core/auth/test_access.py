"""What a user may: commands, queues, jobs and channels, and what enumerations show."""

import pytest

from disque.core.commands import COMMANDS, ROWS, scan
from disque.core.model.claims import EITHER, QUEUES_MOST, READ, WRITE, Claims
from disque.core.model.command import FREE_GROUPS, NO_AUTH, PRODUCE
from tests.core.support import START_MS, UNKNOWN_ID, Bench, Client

NO_QUEUE = "NOPERM this user has no permissions to access one of the keys used as arguments"
NO_CHANNEL = "NOPERM this user has no permissions to access one of the channels used as arguments"


@pytest.fixture
def admin(client: Client) -> Client:
    return client


def user(admin: Client, *rules: str, name: str = "u") -> Client:
    """A client that is logged in as a new user."""
    assert admin("ACL", "SETUSER", name, "on", ">p", *rules) == b"OK"
    client = admin.bench.client()
    assert client("AUTH", name, "p") == b"OK"
    return client


def claims(*words: bytes) -> Claims:
    row = COMMANDS[words[0].lower()]
    return row.claims(list(words))


def test_a_connection_may_say_its_name_whatever_its_user_may(admin: Client) -> None:
    client = user(admin, "+addjob", "%W~q")
    assert client("CLIENT", "SETNAME", "gateway") == b"OK"
    assert client("CLIENT", "SETINFO", "lib-name", "x") == b"OK"
    for word in ("LIST", "GETNAME"):
        assert client.error("CLIENT", word).startswith("NOPERM")


def test_every_command_about_jobs_says_what_it_touches() -> None:
    silent = [row.name for row in ROWS if row.touches is None and row.group not in FREE_GROUPS]
    assert silent == []


def test_a_command_that_does_not_say_it_is_for_those_who_may_everything() -> None:
    row = COMMANDS[b"qlen"]
    assert row.claims([b"qlen", b"q"]).queues == [(b"q", READ)]
    assert type(row)("x", 1, 0, row.function, "new", "", "").claims([b"x"]).everything
    assert not type(row)("x", 1, 0, row.function, "server", "", "").claims([b"x"]).everything


@pytest.mark.parametrize(
    ("words", "queues"),
    [
        (b"addjob q body 0", [(b"q", WRITE)]),
        (b"addjob q deadletter 0 tries 3 deadletter d", [(b"q", WRITE), (b"d", WRITE)]),
        (b"addjob q b 0 header deadletter x", [(b"q", WRITE)]),
        (b"getjob nohang count 3 from a from", [(b"a", READ), (b"from", READ)]),
        (b"getjob nonsense a", []),
        (b"qmove a b", [(b"a", READ), (b"b", WRITE)]),
        (b"move a id", [(b"a", WRITE)]),
        (b"qflush a count 2", [(b"a", READ)]),
        (b"revive a", [(b"a", READ)]),
        (b"pause a in", [(b"a", READ), (b"a", WRITE)]),
        (b"pause a state", [(b"a", READ)]),
        (b"pause a bcast", [(b"a", READ), (b"a", WRITE)]),
        (b"qconfig set a ttl 5 deadletter d", [(b"a", READ), (b"a", WRITE), (b"d", WRITE)]),
        (b"qconfig get a", [(b"a", EITHER)]),
        (b"jscan queue a", [(b"a", READ)]),
        (b"jscan", []),
        (b"find q key", [(b"q", EITHER)]),
        (b"qhistory q day cluster", [(b"q", READ)]),
    ],
)
def test_which_queues_a_request_claims(words: bytes, queues: list[tuple[bytes, int]]) -> None:
    assert claims(*words.split()).queues == queues


def test_which_jobs_a_request_claims() -> None:
    one, two = UNKNOWN_ID, b"D-ffffffff-BBBBBBBBBBBBBBBBBBBBBBBB-05a1"
    assert claims(b"ackjob", one, b"RESULT", two).ids == [one]
    assert claims(b"ackjob", one, two).ids == [one, two]
    assert claims(b"nack", one, b"ERROR", two).ids == [one]
    assert claims(b"working", one, b"PROGRESS", two).ids == [one]
    assert claims(b"move", b"q", one, b"DELAY", b"5").ids == [one]
    assert claims(b"cancel", one, b"WAITING").ids == [one]
    assert claims(b"waitjob", b"0", one, two, b"ANY").ids == [one, two]


def test_begins_with_commands(admin: Client) -> None:
    client = user(admin, "~*", "&*", "+ping", "+config|get")
    assert client("PING") == b"PONG"
    assert client.error("GETJOB", "NOHANG", "FROM", "q") == (
        "NOPERM this user has no permissions to run the 'getjob' command"
    )
    assert client.error("CONFIG", "SET", "timeout", 5) == (
        "NOPERM this user has no permissions to run the 'config|set' command"
    )
    assert client("CONFIG", "GET", "timeout") == [b"timeout", b"0"]
    assert client("HELLO", 2)
    assert client("RESET") == b"RESET"
    assert client("ACL", "WHOAMI") == b"default"


def test_queues_to_write_and_to_read(admin: Client) -> None:
    client = user(admin, "%W~in", "%R~out", "+@all")
    job_id = client.add("in")
    assert client.error("GETJOB", "NOHANG", "FROM", "in") == NO_QUEUE
    assert client.error("GETJOB", "NOHANG", "FROM", "out", "in") == NO_QUEUE
    assert client.error("ADDJOB", "out", "b", 0) == NO_QUEUE
    assert client.error("ADDJOB", "in", "b", 0, "TRIES", 2, "DEADLETTER", "secret") == NO_QUEUE
    assert client.error("SHOW", job_id) == NO_QUEUE
    assert client("GETJOB", "NOHANG", "FROM", "out") is None
    out = admin.add("out")
    assert client.get("out") == [out]
    assert client("ACKJOB", out) == 1


def test_a_producer_may_follow_and_cancel_its_jobs(admin: Client) -> None:
    client = user(admin, "%W~in", "+@produce")
    assert {row.name for row in ROWS if row.flags & PRODUCE} == {b"addjob", b"cancel", b"result", b"waitjob"}
    job_id = client.add("in")
    assert client("RESULT", job_id)[1] == job_id
    assert client("CANCEL", job_id) == 1
    foreign = admin.add("foreign")
    assert client.error("CANCEL", foreign) == NO_QUEUE
    assert client.error("RESULT", foreign) == NO_QUEUE
    assert client.error("WAITJOB", 1000, job_id, foreign) == NO_QUEUE


@pytest.mark.parametrize(
    "words",
    [
        ("ACKJOB",), ("FASTACK",), ("DELJOB",), ("NACK",), ("WORKING",), ("ENQUEUE",), ("DEQUEUE",), ("SHOW",),
        ("CANCEL",), ("RESULT",), ("REVIVEJOB",), ("MOVE", "mine"), ("WAITJOB", 0),
    ],
)  # fmt: skip
def test_foreign_jobs_are_left_alone(admin: Client, words: tuple[str | int, ...]) -> None:
    client = user(admin, "~mine", "+@all")
    foreign = admin.add("foreign")
    before = admin.show(foreign)
    assert client.error(*words, foreign) == NO_QUEUE
    assert admin.show(foreign) == before
    assert admin.bench.node.stats.acl_denied == 1


def test_move_needs_both_queues(admin: Client) -> None:
    client = user(admin, "~mine*", "+@all")
    job_id = admin.add("mine")
    assert client.error("MOVE", "foreign", job_id) == NO_QUEUE
    assert client.error("QMOVE", "mine", "foreign") == NO_QUEUE
    assert client.error("QMOVE", "foreign", "mine") == NO_QUEUE
    assert client("MOVE", "mine2", job_id) == 1


def test_who_revives_must_be_allowed_to_add_where_the_jobs_go(admin: Client) -> None:
    client = user(admin, "~dead", "~mine", "+@all")
    ids = {}
    for queue in ("mine", "foreign"):
        ids[queue] = admin.add(queue, "b", "TRIES", 1, "DEADLETTER", "dead")
        assert admin.get(queue) == [ids[queue]]
        assert admin("NACK", ids[queue]) == 1
    assert client("REVIVEJOB", ids["foreign"]) == 0
    reply = client("REVIVE", "dead")
    assert (reply[reply.index(b"count") + 1], admin("QLEN", "mine"), admin("QLEN", "dead")) == (1, 1, 1)
    assert admin("REVIVEJOB", ids["foreign"]) == 1


def test_unknown_ids_alone_are_only_unknown(admin: Client) -> None:
    client = user(admin, "~mine", "+@all")
    assert client("ACKJOB", UNKNOWN_ID) == 0
    assert client("SHOW", UNKNOWN_ID) is None
    assert client.error("ACKJOB", "nonsense").startswith("BADID")


def test_many_jobs_in_one_command_are_too_many(admin: Client) -> None:
    client = user(admin, "~mine", "+@all")
    assert "at most 1000 jobs" in client.error("ACKJOB", *[UNKNOWN_ID] * 1001)
    assert admin("ACKJOB", *[UNKNOWN_ID] * 10) == 0


def test_many_queues_in_one_command_are_too_many(admin: Client) -> None:
    client = user(admin, "~q*", "+@all")
    names = [f"q{number}" for number in range(QUEUES_MOST)]
    assert client("GETJOB", "NOHANG", "FROM", *names) is None
    assert "at most 4096 queues" in client.error("GETJOB", "NOHANG", "FROM", *names, "one-more")
    assert len(claims(b"getjob", b"from", *[b"q"] * 10_000).queues) == QUEUES_MOST + 1
    assert admin("GETJOB", "NOHANG", "FROM", *names, "one-more") is None


def test_long_names_are_not_compared_with_many_patterns_by_the_thousand(admin: Client) -> None:
    client = user(
        admin, *[f"~a*{number}*z" for number in range(10)], *[f"&a*{number}*z" for number in range(10)], "+@all"
    )
    long = ["a" + f"{number}".zfill(1000) + "z" for number in range(200)]
    assert client("GETJOB", "NOHANG", "FROM", *long[:100]) is None
    assert "too many names" in client.error("GETJOB", "NOHANG", "FROM", *long)
    assert "too many names" in client.error("SUBSCRIBE", *long)
    assert "too many names" in client.error("PUBSUB", "NUMSUB", *long)
    plain = user(admin, "~a*", "&a*", "+@all", name="plain")
    assert plain("GETJOB", "NOHANG", "FROM", *long) is None
    assert admin("GETJOB", "NOHANG", "FROM", *long) is None


def test_a_user_with_many_patterns_is_served_in_smaller_slices(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 1000)
    for number in range(1000):
        admin("ADDJOB", f"q{number}", "body", 0)
    few = user(admin, "~q*", "~one", "+@all")
    assert len(few("QSCAN", "COUNT", 1000)[1]) == 1000
    many = user(admin, "~q*", *[f"~a*b{number}*c" for number in range(60)], "+@all", name="many")
    assert len(many("QSCAN", "COUNT", 1000)[1]) == 100


def test_scans_show_nothing_of_foreign_queues(admin: Client) -> None:
    mine, foreign = admin.add("mine", "b", "RETAIN", 100), admin.add("foreign", "b", "RETAIN", 100)
    client = user(admin, "%R~mine", "%W~drop", "+@all")
    admin.add("drop")
    assert sorted(client("QSCAN", "BUSYLOOP")[1]) == [b"drop", b"mine"]
    assert client("JSCAN", "BUSYLOOP")[1] == [mine]
    assert client.error("JSCAN", "QUEUE", "foreign") == NO_QUEUE
    for job_id in (mine, foreign):
        admin("CANCEL", job_id)
    assert client("JSCAN", "BUSYLOOP", "STATE", "cancelled")[1] == [mine]
    assert len(admin("JSCAN", "BUSYLOOP", "STATE", "cancelled")[1]) == 2


def test_options_of_foreign_queues_are_not_shown(admin: Client) -> None:
    for name in ("mine1", "mine*", "m*", "foreign"):
        assert admin("QCONFIG", "SET", name, "ttl", 50) == b"OK"
    client = user(admin, "~mine*", "+@all")
    assert sorted(row[0] for row in client("QCONFIG", "LIST")[1]) == [b"mine*", b"mine1"]
    assert client.error("QCONFIG", "GET", "foreign") == NO_QUEUE
    assert client.error("QCONFIG", "SET", "m*", "ttl", 5) == NO_QUEUE
    assert client.error("QCONFIG", "SET", "mine1", "deadletter", "foreign") == NO_QUEUE
    assert client("QCONFIG", "SET", "mine2*", "ttl", 5) == b"OK"


def test_metrics_of_foreign_queues_are_not_shown(admin: Client) -> None:
    for queue in ("mine", "mine2", "foreign", "foreign2"):
        admin.add(queue)
    for queue in ("mine2", "foreign2"):
        admin.get(queue)
    client = user(admin, "~mine*", "+@all")
    client.send("METRICS")
    admin.bench.tick()
    text = client.read()
    assert b'"mine"' in text
    assert b'"mine2"' in text
    assert b"foreign" not in text
    admin.send("METRICS")
    admin.bench.tick()
    assert b"foreign2" in admin.read()


def test_schedules_stand_for_their_queues(admin: Client) -> None:
    assert admin("CRON", "SET", "theirs", "@daily", "foreign", "b") == b"OK"
    client = user(admin, "%W~mine", "+@all")
    for words in (
        ("SET", "own", "@daily", "foreign", "b"),
        ("SET", "theirs", "@daily", "mine", "b"),
        ("SET", "own", "@daily", "mine", "b", "TRIES", 2, "DEADLETTER", "foreign"),
    ):
        assert client.error("CRON", *words) == NO_QUEUE
    for verb in ("GET", "DEL", "PAUSE", "RESUME", "RUN"):  # as of one that is not there
        assert client.raw("CRON", verb, "theirs") == client.raw("CRON", verb, "nobody's"), verb
    assert admin("CRON", "GET", "theirs")
    assert client("CRON", "SET", "own", "@daily", "mine", "b") == b"OK"
    assert [row[1] for row in client("CRON", "LIST")[1]] == [b"own"]
    assert client.error("CRON", "GET", "own") == NO_QUEUE  # it shows the body, which is to look
    assert len(client("CRON", "NEXT", "@daily", 2)) == 2
    assert client("CRON", "DEL", "own") == 1
    reader = user(admin, "~foreign", "+@read", name="reader")
    assert reader("CRON", "GET", "theirs")
    assert reader.error("CRON", "DEL", "theirs").startswith("NOPERM this user has no permissions to run")


def test_monitor_and_slowlog_are_for_who_may_look_at_all_queues(admin: Client) -> None:
    client = user(admin, "~mine", "%W~*", "+@all")
    for command in (("MONITOR",), ("SLOWLOG", "GET"), ("DEBUG", "FLUSHALL")):
        assert client.error(*command) == NO_QUEUE
    watcher = user(admin, "%R~*", "&x", "+@all", name="watcher")
    assert watcher("MONITOR") == b"OK"


def test_channels(admin: Client) -> None:
    client = user(admin, "~mine", "&news:*", "&job:*", "&*:x", "&job:added:mine", "+@all")
    assert client.error("PUBLISH", "x", "m") == NO_CHANNEL
    assert client("PUBLISH", "news:1", "m") == 0
    for name in ("other", "job:added:foreign"):
        assert client.error("SUBSCRIBE", "news:1", name) == NO_CHANNEL
    for name in ("*", "news:1*", "job:*", "*:x"):
        assert client.error("PSUBSCRIBE", name) == NO_CHANNEL
    assert client("PSUBSCRIBE", "news:*") == [b"psubscribe", b"news:*", 1]
    assert client("PSUBSCRIBE", "job:added:mine") == [b"psubscribe", b"job:added:mine", 2]
    assert client("SUBSCRIBE", "job:added:mine") == [b"subscribe", b"job:added:mine", 3]
    listener = admin.bench.client()
    listener("SUBSCRIBE", "secret")
    other = user(admin, "~mine", "&news:*", "+@all", name="other")
    listener("SUBSCRIBE", "news:1")
    assert other("PUBSUB", "CHANNELS") == [b"news:1"]
    assert other("PUBSUB", "NUMSUB", "secret", "news:1") == [b"secret", 0, b"news:1", 1]
    globs = user(admin, "~m[i]ne", "&n*s:1", "&j*d:*", "+@all", name="globs")
    assert globs("PUBSUB", "CHANNELS") == [b"job:added:mine", b"news:1"]
    assert sorted(admin("PUBSUB", "CHANNELS")) == [b"job:added:mine", b"news:1", b"secret"]


def test_all_channels_and_some_queues(admin: Client) -> None:
    """Nothing is told of jobs in foreign queues, whatever the pattern is."""
    client = user(admin, "~mine*", "&*", "+@all")
    for pattern in ("*", "j*", "[j]ob:*", "job:*", "job:*:mine", "job:added:*", "job:added:m*"):
        assert client.error("PSUBSCRIBE", pattern) == NO_CHANNEL
    for pattern in ("news*", "job:added:mine*", "job:added:mine1?"):
        assert client("PSUBSCRIBE", pattern)[1] == pattern.encode()


def test_silent_requests_are_refused_in_silence(admin: Client) -> None:
    client = user(admin, "~mine", "+@all")
    client.send("CLIENT", "REPLY", "OFF")
    client.send("ADDJOB", "foreign", "b", 0)
    assert client.read_raw() == b""
    assert admin("QLEN", "foreign") == 0


def test_a_pipeline_of_adds_goes_on_behind_one_that_is_refused(cluster: Bench) -> None:
    client = user(cluster.client(), "~mine", "+@all")
    client.send("ADDJOB", "mine", "b", 0, "REPLICATE", 2)
    client.send("ADDJOB", "foreign", "b", 0, "REPLICATE", 2)
    assert client.read_raw() == b""
    cluster.now_ms = START_MS
    client.disconnect()


def test_commands_before_a_login_are_those_that_need_none(admin: Client) -> None:
    client = user(admin, "~*")
    assert {row.name for row in ROWS if row.flags & NO_AUTH} == {b"auth", b"hello", b"reset", b"quit"}
    assert client("QUIT") == b"OK"
