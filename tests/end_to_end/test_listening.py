"""Where clients come in, how many, for how long, and what they may cost."""

import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import LOOPBACK, Node, Raw, ServerError, request, until

MB = 1 << 20


def has_ipv6() -> bool:
    try:
        with closing(socket.socket(socket.AF_INET6)) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_several_addresses(start_node: StartNode) -> None:
    node = start_node("--bind", LOOPBACK, "127.0.0.2")
    for address in (LOOPBACK, "127.0.0.2"):
        with closing(Raw((address, node.port))) as raw:
            assert raw.ask("PING") == b"PONG"
    with pytest.raises(ConnectionRefusedError):
        Raw(("127.0.0.3", node.port))


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
def test_ipv6(start_node: StartNode) -> None:
    node = start_node("--bind", LOOPBACK, "::1")
    with closing(Raw(("::1", node.port))) as raw:
        assert b"addr=[::1]:" in raw.ask("CLIENT", "LIST")


def test_an_address_with_a_dash_may_be_missing(start_node: StartNode) -> None:
    node = start_node("--bind", LOOPBACK, "-192.0.2.1")
    assert node.ask("PING") == b"PONG"


def test_an_address_that_is_missing_stops_the_start(make_node: StartNode) -> None:
    node = make_node("--bind", LOOPBACK, "192.0.2.1")
    node.launch()
    assert node.ended() == 1
    assert f"Could not create server TCP listening socket 192.0.2.1:{node.port}" in node.log()


def test_a_unix_socket_with_permissions(start_node: StartNode) -> None:
    node = start_node("--unixsocket", "s", "--unixsocketperm", "700")
    path = node.directory / "s"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    with closing(Raw(str(path))) as raw:
        assert raw.ask("PING") == b"PONG"
        lines = raw.ask("CLIENT", "LIST").decode().splitlines()
        assert any("addr=s:0 " in line and "flags=U" in line for line in lines)
    node.stop()
    assert not path.exists()


def test_a_socket_file_that_a_crash_left_behind_is_replaced(start_node: StartNode) -> None:
    node = start_node("--unixsocket", "s")
    node.kill()
    assert (node.directory / "s").exists()
    node.start()
    with closing(Raw(str(node.directory / "s"))) as raw:
        assert raw.ask("PING") == b"PONG"


def test_a_socket_that_somebody_listens_on_is_left_alone(
    start_node: StartNode, make_node: StartNode, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    start_node("--unixsocket", str(path))
    other = make_node("--unixsocket", str(path))
    other.launch()
    assert other.ended() == 1
    assert "another server listens on it" in other.log()
    with closing(Raw(str(path))) as raw:
        assert raw.ask("PING") == b"PONG"


def test_without_a_tcp_port_there_is_only_the_unix_socket(make_node: StartNode) -> None:
    node = make_node("--port", "0", "--unixsocket", "s")
    node.launch()
    node.await_log("ready to accept connections on the unix socket")
    with closing(Raw(str(node.directory / "s"))) as raw:
        assert raw.ask("PING") == b"PONG"


def test_one_client_too_many_is_told_so(start_node: StartNode) -> None:
    node = start_node("--maxclients", "3")
    first = [node.raw() for _ in range(3)]
    assert [raw.ask("PING") for raw in first] == [b"PONG"] * 3
    late = node.raw()
    assert late.all() == b"-ERR max number of clients reached\r\n"
    assert first[0].ask("CONFIG", "SET", "maxclients", 4) == b"OK"
    assert node.ask("PING") == b"PONG"
    assert b"rejected_connections:1\r\n" in first[0].ask("INFO", "stats")


def test_the_one_that_leaves_makes_room(start_node: StartNode) -> None:
    node = start_node("--maxclients", "1")
    for _ in range(20):
        raw = node.raw()
        until(lambda: isinstance(knock(node), ServerError) or True, "")
        raw.close()
        until(lambda: knock(node) == b"PONG", "a free place")


def knock(node: Node) -> object:
    try:
        return node.ask("PING")
    except EOFError:
        return None


def test_silent_clients_are_disconnected_and_those_that_wait_are_not(start_node: StartNode) -> None:
    node = start_node("--timeout", "1")
    silent, waiting = node.raw(), node.raw()
    waiting.send(request("GETJOB", "FROM", "q"))
    assert silent.all() == b""
    job_id = node.ask("ADDJOB", "q", "body", 0)
    assert waiting.reply() == [[b"q", job_id, b"body"]]


def test_a_client_that_never_reads_is_cut_and_costs_little(node: Node) -> None:
    node.ask("ADDJOB", "q", b"x" * 16 * MB, 0)  # more than the system buffers
    before = node.rss()
    raw = node.raw()
    raw.send(request("QPEEK", "q", 1) * 200)
    until(lambda: int(field(node, "omem", f"addr={LOOPBACK}:{raw.socket.getsockname()[1]} ")) > 8 * MB, "the replies")
    for _ in range(20):
        assert node.ask("PING") == b"PONG"
    assert node.rss() - before < 80 * MB
    assert node.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 8mb 0 0") == b"OK"
    node.await_log("for overcoming of output buffer limits")
    until(lambda: node.info("connected_clients") == "1", "the end of the client")


def field(node: Node, name: str, which: str) -> str:
    """A field of the line of CLIENT LIST in which `which` stands, or 0 without such a line."""
    for line in node.ask("CLIENT", "LIST").decode().splitlines():
        if which in line:
            found: str = line.partition(f" {name}=")[2].split()[0]
            return found
    return "0"


def test_a_client_that_never_reads_does_not_make_requests_pile_up(node: Node) -> None:
    node.ask("ADDJOB", "q", b"x" * MB, 0)
    before = node.rss()
    raw = node.raw()
    raw.socket.settimeout(0.2)
    peeks = request("QPEEK", "q", 1) * 20_000
    with pytest.raises(TimeoutError):
        raw.send(peeks * 200)
    assert node.rss() - before < 48 * MB
    assert node.ask("PING") == b"PONG"


def test_a_client_that_waits_may_send_only_so_much_ahead(node: Node) -> None:
    before = node.rss()
    raw = node.raw()
    raw.send(request("GETJOB", "FROM", "q"))
    raw.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        raw.send(request("PING") * 3_000_000)
    assert node.rss() - before < 32 * MB
    assert node.ask("ADDJOB", "q", "body", 0)
    raw.socket.settimeout(30)
    raw.reply()
    assert raw.reply() == b"PONG"


def test_a_client_that_sends_and_hangs_up_its_side_is_answered(node: Node) -> None:
    raw = node.raw()
    raw.send(b"PING\r\n" * 3000)
    raw.end()
    assert raw.all() == b"+PONG\r\n" * 3000


def test_a_job_of_a_half_closed_client_is_answered_under_always(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "always")
    raw = node.raw()
    raw.send(request("ADDJOB", "q", "body", 0) * 100)
    raw.end()
    assert raw.all().count(b"-05a1\r\n") == 100
    assert node.ask("QLEN", "q") == 100


def test_a_half_closed_client_that_waits_for_jobs_is_gone(node: Node) -> None:
    raw = node.raw()
    raw.send(request("GETJOB", "FROM", "q"))
    raw.end()
    assert raw.all() == b""
    node.ask("ADDJOB", "q", "body", 0)
    assert node.ask("QLEN", "q") == 1


def test_a_client_that_breaks_off_disturbs_nobody(node: Node) -> None:
    for _ in range(200):
        raw = Raw((LOOPBACK, node.port))
        raw.send(request("GETJOB", "FROM", "q") + b"*3\r\n$3\r\nfo")
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a hard close
        raw.close()
    until(lambda: node.info("connected_clients") == "1", "the end of the clients")
    node.ask("ADDJOB", "q", "body", 0)
    assert len(node.ask("GETJOB", "FROM", "q")) == 1


def test_a_hundred_thousand_commands_in_one_piece_let_others_in_between(node: Node) -> None:
    raw = node.raw()
    raw.socket.setblocking(False)
    raw.socket.send(request("QLEN", "q") * 100_000)
    served = int(node.info("total_commands_processed"))
    raw.socket.setblocking(True)
    assert served < 100_000
    raw.close()
    assert node.ask("PING") == b"PONG"


def test_every_command_of_a_long_pipeline_is_answered_in_order(node: Node) -> None:
    raw = node.raw()
    for start in range(0, 100_000, 2000):
        raw.send(b"".join(request("ECHO", number) for number in range(start, start + 2000)))
        assert [raw.reply() for _ in range(2000)] == [b"%d" % number for number in range(start, start + 2000)]


def test_what_a_half_closed_client_asked_before_it_waits_is_answered(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "always")
    other, raw = node.raw(), node.raw()
    raw.ask("PING")
    other.send(request("DEBUG", "SLEEP", "0.2"))  # so that all of it arrives at once
    raw.send(request("PING") + request("ADDJOB", "other", "body", 0) + request("GETJOB", "FROM", "q"))
    raw.end()
    assert raw.all().startswith(b"+PONG\r\n+D-")
    node.ask("ADDJOB", "q", "body", 0)
    assert node.ask("QLEN", "q") == 1


def test_a_web_page_cannot_reach_a_command(node: Node) -> None:
    node.ask("ADDJOB", "q", "body", 0)
    body = b"DEBUG FLUSHALL\r\n"
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n\r\n" % (node.port, len(body))
    for request_bytes in (head + body, b"GET" + head[4:] + body):
        raw = node.raw()
        raw.send(request_bytes)
        assert not raw.all().replace(b"-ERR unknown command 'GET'\r\n", b"")
    assert node.ask("QLEN", "q") == 1
    assert node.log().count("Possible SECURITY ATTACK detected") == 1


def test_guessed_passwords_are_in_the_log_and_the_guesses_not(start_node: StartNode) -> None:
    node = start_node("--requirepass", "sesame")
    raw = node.raw()
    raw.send(b"".join(request("AUTH", f"guess{number}") for number in range(10)) + request("AUTH", "sesame"))
    for _ in range(10):
        assert str(raw.reply()) == "ERR invalid password"
    assert node.raw().ask("PING")  # others do not wait for the second that this login takes now
    half = node.raw()
    half.send(request("AUTH", "sesame"))
    half.end()
    assert half.reply() == b"OK"  # it sends nothing more, and is answered
    assert raw.reply() == b"OK"
    assert "Ten wrong passwords within a minute from 127.0.0.1" in node.log()
    assert node.log().count("Failed AUTH of a client at 127.0.0.1:") == 1
    assert "guess" not in node.log()
    assert b"acl_access_denied_auth:10\r\n" in raw.ask("INFO", "stats")
