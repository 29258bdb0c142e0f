"""Connections seen by those who run the server: CLIENT, MONITOR, AUTH, and what SLOWLOG and LATENCY show."""

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import LOOPBACK, Node, Raw, ServerError, request, until


def address(raw: Raw) -> str:
    host, port = raw.socket.getsockname()
    return f"{host}:{port}"


def test_a_killed_client_is_gone_and_others_stay(shared: Node) -> None:
    killer, victim = shared.raw(), shared.raw()
    victim.ask("PING")
    assert killer.ask("CLIENT", "KILL", address(victim)) == b"OK"
    assert victim.all() == b""
    assert str(killer.ask("CLIENT", "KILL", address(victim))) == "ERR No such client"


def test_a_client_that_waits_for_jobs_can_be_killed(shared: Node) -> None:
    killer, victim = shared.raw(), shared.raw()
    number = victim.ask("CLIENT", "ID")
    victim.send(request("GETJOB", "FROM", "q"))
    until(lambda: b"flags=b" in killer.ask("CLIENT", "LIST", "ID", number), "the wait")
    assert killer.ask("CLIENT", "KILL", "ID", number) == 1
    assert victim.all() == b""
    killer.ask("ADDJOB", "q", "body", 0)
    assert killer.ask("QLEN", "q") == 1


def test_a_client_may_kill_itself_and_is_answered(shared: Node) -> None:
    raw = shared.raw()
    raw.send(request("CLIENT", "KILL", address(raw)) + request("PING"))
    assert raw.all() == b"+OK\r\n"


def test_a_client_that_does_not_read_can_be_killed(shared: Node) -> None:
    killer, victim = shared.raw(), shared.raw()
    killer.ask("ADDJOB", "big", b"x" * (16 << 20), 0)
    number = victim.ask("CLIENT", "ID")
    victim.send(request("QPEEK", "big", 1) * 10)
    until(lambda: b" omem=0 " not in killer.ask("CLIENT", "LIST", "ID", number), "the replies")
    assert killer.ask("CLIENT", "KILL", "ID", number) == 1
    until(lambda: killer.ask("CLIENT", "LIST", "ID", number) == b"", "the end")


def test_while_clients_are_paused_nothing_is_executed(shared: Node) -> None:
    raw, other = shared.raw(), shared.raw()
    assert raw.ask("CLIENT", "PAUSE", 200) == b"OK"
    other.send(request("ADDJOB", "q", "body", 0) + request("QLEN", "q"))
    assert len(other.reply()) == 40
    assert other.reply() == 1


def test_a_client_that_wants_no_replies_gets_none(shared: Node) -> None:
    raw = shared.raw()
    raw.send(request("CLIENT", "REPLY", "OFF") + request("ADDJOB", "q", "body", 0) + request("NOSUCH"))
    raw.send(request("CLIENT", "REPLY", "ON") + request("QLEN", "q"))
    assert [raw.reply(), raw.reply()] == [b"OK", 1]
    raw.send(request("CLIENT", "REPLY", "SKIP") + request("QLEN", "q") + request("ECHO", "seen"))
    assert raw.reply() == b"seen"


def test_monitor_shows_what_is_executed_and_no_password(start_node: StartNode) -> None:
    node = start_node("--requirepass", "secret")
    watcher, raw = node.raw(), node.raw()
    assert watcher.ask("AUTH", "secret") == b"OK"
    assert watcher.ask("MONITOR") == b"OK"
    raw.ask("AUTH", "secret")
    raw.ask("ADDJOB", "q", b'a"\x01\n', 0)
    lines: list[bytes] = []
    while not lines or b"ADDJOB" not in lines[-1]:
        lines.append(watcher.reply())
    assert lines[-1].endswith(b'] "ADDJOB" "q" "a\\"\\x01\\n" "0"')
    assert f"[{address(raw)}]".encode() in lines[-1]
    assert not any(b"secret" in line for line in lines)


def test_a_monitor_that_does_not_read_is_cut(start_node: StartNode) -> None:
    node = start_node("--client-output-buffer-limit", "normal", "2mb", "0", "0")
    before = node.rss()
    watcher, raw = node.raw(), node.raw()
    watcher.ask("MONITOR")
    names = [b"x" * 128] * 28  # all of these words are shown
    for _ in range(4000):
        raw.ask("GETJOB", "NOHANG", "FROM", *names)
    node.await_log("for overcoming of output buffer limits")
    assert node.rss() - before < 100 << 20


def test_nothing_works_before_the_password_but_the_password(start_node: StartNode) -> None:
    node = start_node("--requirepass", "secret")
    raw = node.raw()
    for words in (
        ("PING",),
        ("INFO",),
        ("ADDJOB", "q", "b", 0),
        ("CONFIG", "GET", "requirepass"),
        ("HELLO", 3),
        ("SHUTDOWN",),
    ):
        assert str(raw.ask(*words)).startswith("NOAUTH"), words
    assert isinstance(raw.ask("AUTH", "wrong"), ServerError)
    assert raw.ask("AUTH", "secret") == b"OK"
    assert raw.ask("PING") == b"PONG"


def test_a_password_that_is_set_later_is_asked_of_who_connects_later(node: Node) -> None:
    raw, other = node.raw(), node.raw()
    other.ask("PING")
    assert raw.ask("CONFIG", "SET", "requirepass", "secret") == b"OK"
    assert other.ask("PING") == b"PONG"
    late = node.raw()
    assert str(late.ask("PING")) == "NOAUTH Authentication required."
    assert late.ask("AUTH", "secret") == b"OK"
    assert raw.ask("CONFIG", "SET", "requirepass", "") == b"OK"
    assert node.ask("PING") == b"PONG"


def test_quit_is_answered_and_what_comes_behind_it_is_not(shared: Node) -> None:
    raw = shared.raw()
    raw.send(request("PING") + request("QUIT") + request("ADDJOB", "q", "b", 0))
    assert raw.all() == b"+PONG\r\n+OK\r\n"
    assert shared.ask("QLEN", "q") == 0


def test_slow_commands_are_seen(node: Node) -> None:
    raw = node.raw()
    raw.ask("CONFIG", "SET", "slowlog-log-slower-than", 1000)
    raw.ask("CONFIG", "SET", "latency-monitor-threshold", 1)
    assert raw.ask("DEBUG", "SLEEP", "0.02") == b"OK"
    assert [entry[3] for entry in raw.ask("SLOWLOG", "GET")] == [[b"DEBUG", b"SLEEP", b"0.02"]]
    assert b"command" in [event[0] for event in raw.ask("LATENCY", "LATEST")]


def test_consumers_are_served_in_the_order_in_which_they_came(shared: Node) -> None:
    consumers = [shared.raw() for _ in range(20)]
    for number, raw in enumerate(consumers, 1):
        raw.send(request("GETJOB", "FROM", "q"))
        until(lambda: shared.ask("QSTAT", "q") and shared.ask("QSTAT", "q")[9] == number, "the line")  # noqa: B023 - called at once
    producer = shared.raw()
    producer.send(b"".join(request("ADDJOB", "q", number, 0) for number in range(20)))
    assert [raw.reply()[0][2] for raw in consumers] == [b"%d" % number for number in range(20)]


def test_delays_end_in_their_order(shared: Node) -> None:
    raw = shared.raw()
    raw.ask("ADDJOB", "q", "second", 0, "DELAY", 2)
    raw.ask("ADDJOB", "q", "first", 0, "DELAY", 1)
    assert raw.ask("GETJOB", "FROM", "q")[0][2] == b"first"
    assert raw.ask("GETJOB", "FROM", "q")[0][2] == b"second"


def test_a_retry_brings_a_job_back_to_somebody_who_waits(shared: Node) -> None:
    raw = shared.raw()
    job_id = raw.ask("ADDJOB", "q", "body", 0, "RETRY", 1)
    assert raw.ask("GETJOB", "FROM", "q")[0][1] == job_id
    again = raw.ask("GETJOB", "WITHCOUNTERS", "FROM", "q")
    assert again == [[b"q", job_id, b"body", b"nacks", 0, b"additional-deliveries", 1]]


def test_a_client_that_is_gone_before_its_reply_left_gives_the_job_back(shared: Node) -> None:
    big = b"x" * (16 << 20)
    producer = shared.raw()
    for number in range(3):
        producer.ask("ADDJOB", "big", b"%d" % number + big, 0, "RETRY", 0)
    reader = Raw((LOOPBACK, shared.port))
    reader.send(request("GETJOB", "FROM", "big"))
    until(lambda: producer.ask("QLEN", "big") == 2, "the first job")
    reader.send(request("GETJOB", "FROM", "big") * 2)  # of these, no byte leaves while the first is not read
    producer.ask("PING")
    reader.close()
    until(lambda: producer.ask("CLIENT", "LIST").count(b"id=") == 1, "the end of the reader")
    assert producer.ask("QLEN", "big") == 2
