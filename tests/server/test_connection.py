import pytest

from disque.core.commands import scan
from disque.core.jobs import deliver
from disque.core.replication import waits
from disque.server import connection as module
from disque.server import requests
from disque.server.connection import HELD_MOST, JOIN_LEAST, READ_AHEAD, TURN_COMMANDS, Connection
from tests.server.shell import Shell, Transport, Writer

PING = b"*1\r\n$4\r\nPING\r\n"
PONG = b"+PONG\r\n"
ADD = b"ADDJOB q body 0\r\n"
GET = b"GETJOB FROM q\r\n"


def test_a_request_is_executed_at_once_and_answered_at_the_flush() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.data_received(PING)
    assert transport.written == b""
    shell.loop.turn()
    assert transport.written == PONG


def test_requests_that_come_together_are_answered_with_one_write() -> None:
    shell = Shell()
    client, _ = shell.connect()
    assert shell.ask(client, PING * 100) == PONG * 100


def test_a_request_in_pieces() -> None:
    shell = Shell()
    client, _ = shell.connect()
    answers = [shell.ask(client, bytes([byte])) for byte in PING]
    assert answers == [b""] * (len(PING) - 1) + [PONG]


def test_after_some_commands_others_have_their_turn() -> None:
    shell = Shell()
    busy, first = shell.connect()
    quick, second = shell.connect()
    busy.data_received(PING * (3 * TURN_COMMANDS))
    quick.data_received(PING)
    shell.loop.turn()
    assert first.take() == PONG * TURN_COMMANDS
    assert second.take() == PONG
    shell.loop.settle()
    assert first.take() == PONG * (2 * TURN_COMMANDS)


def test_requests_that_were_parsed_ahead_are_not_made_bytes_again_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(request: list[bytes]) -> bytes:
        raise AssertionError(request)

    monkeypatch.setattr(requests, "_encode", encode)
    shell = Shell()
    client, _ = shell.connect()
    assert shell.ask(client, PING * 4 * TURN_COMMANDS) == PONG * 4 * TURN_COMMANDS


def test_big_replies_end_a_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_BYTES", 1000)
    shell = Shell()
    client, transport = shell.connect()
    client.data_received((b"ECHO " + b"x" * 600 + b"\r\n") * 10)
    shell.loop.turn()
    assert transport.written.count(b"$600") == 2
    shell.loop.settle()
    assert transport.written.count(b"$600") == 10


def test_a_client_that_waits_keeps_its_further_requests_for_later() -> None:
    shell = Shell()
    waiting, transport = shell.connect()
    other, _ = shell.connect()
    assert shell.ask(waiting, GET + PING) == b""
    shell.ask(other, ADD)
    answer = transport.take()
    assert answer.startswith(b"*1\r\n*3\r\n$1\r\nq\r\n")
    assert answer.endswith(b"$4\r\nbody\r\n" + PONG)


def test_a_client_that_waits_is_not_read_without_end() -> None:
    shell = Shell()
    waiting, transport = shell.connect()
    shell.ask(waiting, GET)
    shell.ask(waiting, PING * (READ_AHEAD // len(PING) + 2))
    assert not transport.reading
    other, _ = shell.connect()
    shell.ask(other, ADD)
    assert transport.reading


def test_a_client_that_does_not_read_causes_no_more_replies() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.pause_writing()
    assert shell.ask(client, PING * 10) == b""
    assert client.session.out == []
    client.resume_writing()
    shell.loop.settle()
    assert transport.take() == PONG * 10


def test_replies_that_come_while_a_client_does_not_read_wait_for_it() -> None:
    shell = Shell()
    client, transport = shell.connect()
    other, _ = shell.connect()
    shell.ask(client, GET)
    client.pause_writing()
    shell.ask(other, ADD)
    assert transport.take() == b""
    assert client.output_bytes() > 0
    client.resume_writing()
    shell.loop.settle()
    assert transport.take().startswith(b"*1\r\n*3\r\n")


@pytest.mark.parametrize("lie", [b"*1\r\n:5\r\n", b"*9999999999\r\n", b'"\r\n'])
def test_a_protocol_error_is_answered_and_closes_the_connection(lie: bytes) -> None:
    shell = Shell()
    client, transport = shell.connect()
    answer = shell.ask(client, PING + lie + PING)
    assert answer.startswith(PONG + b"-ERR Protocol error: ")
    assert answer.count(b"\r\n") == 2
    assert transport.closed
    assert shell.ask(client, PING) == b""


def test_too_many_bytes_of_requests_cut_the_client() -> None:
    shell = Shell(client_query_buffer_limit="64kb")
    client, transport = shell.connect()
    shell.ask(client, GET)
    shell.ask(client, b"*2\r\n$4\r\nECHO\r\n$100000\r\n" + b"x" * 70_000)
    shell.ask(client, b"x" * 70_000)
    other, _ = shell.connect()
    shell.ask(other, ADD)
    assert transport.aborted
    assert any("max query buffer length" in line for line in shell.log.lines)


def test_before_the_password_the_reader_trusts_nobody() -> None:
    shell = Shell(requirepass="secret")
    client, transport = shell.connect()
    assert shell.ask(client, b"*11\r\n") == b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    assert transport.closed
    client, _ = shell.connect()
    assert shell.ask(client, b"AUTH secret\r\n*11\r\n" + b"$1\r\nx\r\n" * 11).startswith(b"+OK\r\n-ERR unknown command")


def test_a_half_closed_client_is_answered_and_closed() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.data_received(PING * (2 * TURN_COMMANDS))
    assert client.eof_received()
    shell.loop.settle()
    assert transport.take() == PONG * (2 * TURN_COMMANDS)
    assert transport.closed


def test_a_half_closed_client_that_waits_for_a_walk_is_answered_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 1)
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, ADD * 20)
    client.data_received(b"JSCAN BUSYLOOP\r\n")
    assert client.eof_received()
    shell.loop.settle()
    for _ in range(2000):
        if not shell.node.walks:
            break
        shell.pump.on_timer()
        shell.loop.settle()
    shell.loop.settle()
    assert transport.take().count(b"-05a1\r\n") == 20
    assert transport.closed


def test_the_reply_of_a_walk_counts_as_unread_until_the_client_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 1)
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, ADD * 20)
    client.data_received(b"JSCAN BUSYLOOP\r\n")
    client.pause_writing()
    while shell.node.walks:
        shell.pump.on_timer()
        shell.loop.settle()
    assert shell.node.unread > 20 * 40
    client.resume_writing()
    shell.loop.settle()
    assert transport.take().count(b"-05a1\r\n") == 20
    assert shell.node.unread == 0


def test_a_half_closed_client_that_waits_is_answered_what_came_before_and_gets_no_job() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.data_received(PING + GET)
    assert client.eof_received()
    shell.loop.settle()
    assert transport.take() == PONG
    assert transport.closed
    other, _ = shell.connect()
    shell.ask(other, ADD)
    assert shell.ask(other, b"QLEN q\r\n") == b":1\r\n"


def test_a_client_that_ends_before_its_reply_left_gives_the_job_back() -> None:
    shell = Shell()
    client, _ = shell.connect()
    other, _ = shell.connect()
    shell.ask(other, b"ADDJOB q body 0 RETRY 0\r\n")
    client.data_received(GET)
    client.connection_lost(None)
    shell.loop.settle()
    assert shell.ask(other, b"QLEN q\r\n") == b":1\r\n"


def test_a_job_whose_reply_left_is_out() -> None:
    shell = Shell()
    client, _ = shell.connect()
    other, _ = shell.connect()
    shell.ask(other, ADD)
    shell.ask(client, GET)
    client.connection_lost(None)
    assert shell.ask(other, b"QLEN q\r\n") == b":0\r\n"


def test_quit_closes_behind_its_answer() -> None:
    shell = Shell()
    client, transport = shell.connect()
    assert shell.ask(client, PING + b"QUIT\r\n" + PING) == PONG + b"+OK\r\n"
    assert transport.closed


def test_the_end_of_a_slow_act_is_the_reply() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.wait_ended(b"+OK\r\n")
    shell.loop.settle()
    assert transport.take() == b"+OK\r\n"


def test_commands_are_counted() -> None:
    shell = Shell()
    client, _ = shell.connect()
    shell.ask(client, PING * 3)
    assert shell.node.stats.commands == 3
    assert shell.node.stats.net_in == 3 * len(PING)
    assert shell.node.stats.net_out == 3 * len(PONG)


def held_client(shell: Shell) -> tuple[Writer, Connection, Transport]:
    """A client whose ADDJOB waits for the journal."""
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    assert shell.ask(client, ADD) == b""
    return writer, client, transport


@pytest.mark.parametrize(("request_", "most"), [(PING, HELD_MOST), (b"ECHO " + b"x" * 60_000 + b"\r\n", 20)])
def test_while_replies_wait_for_the_journal_no_more_are_caused_than_a_few(request_: bytes, most: int) -> None:
    shell = Shell()
    writer, client, transport = held_client(shell)
    client.data_received(request_ * (2 * most))
    for _ in range(10):
        shell.loop.turn()
    assert not shell.loop.calls, "nothing may be tried again and again"
    assert len(client.session.out) <= most
    writer.hold = False
    writer.safe = writer.sequence
    shell.pump.release()
    shell.loop.settle()
    assert transport.take().count(b"PONG" if request_ == PING else b"$60000") == 2 * most


def test_a_client_that_half_closed_and_does_not_read_costs_nothing_until_it_reads() -> None:
    shell = Shell()
    client, transport = shell.connect()
    client.pause_writing()
    client.data_received(PING * 3)
    client.eof_received()
    for _ in range(5):
        shell.loop.turn()
    assert not shell.loop.calls
    client.resume_writing()
    shell.loop.settle()
    assert transport.take() == PONG * 3
    assert transport.closed


def test_a_connection_that_is_closing_gets_no_job() -> None:
    shell = Shell()
    (waiting, transport), (other, _) = shell.connect(), shell.connect()
    shell.ask(waiting, GET)
    waiting.abort()
    shell.ask(other, b"ADDJOB q body 0 RETRY 0\r\n")
    assert transport.take() == b""
    waiting.connection_lost(None)
    assert shell.node.queues[b"q"].length == 1


def test_a_fault_in_one_request_ends_that_client_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_words: object) -> None:
        raise RuntimeError("a mistake")

    shell = Shell()
    (client, transport), (other, _) = shell.connect(), shell.connect()
    monkeypatch.setattr(shell.node.lookup[b"echo"], "function", fail)
    assert shell.ask(client, PING + b"ECHO x\r\n") == PONG + b"-ERR internal error, see the log of the server\r\n"
    assert transport.closed
    assert "RuntimeError: a mistake" in shell.log.lines[-1]
    assert shell.ask(other, PING) == PONG


def large_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are large from some bytes on, and few of them leave in one turn."""
    monkeypatch.setattr(deliver, "LARGE_REPLY", 1000)
    monkeypatch.setattr(deliver, "LARGE_PIECE", 100)
    monkeypatch.setattr(module, "PIECE_BYTES", 64)
    monkeypatch.setattr(module, "PIECES_BYTES", 256)


ADD_LARGE = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$2000\r\n" + b"x" * 2000 + b"\r\n$1\r\n0\r\n"


@pytest.mark.parametrize("get", [b"GETJOB FROM q", b"GETJOB WITHCOUNTERS FROM q", b"GETJOB COUNT 2 FROM q"])
def test_a_large_reply_leaves_in_pieces_between_which_others_are_served(
    get: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell()
    client, transport = shell.connect()
    other, second = shell.connect()
    shell.ask(client, ADD_LARGE)
    expected = shell.ask(client, get + b"\r\n")
    job_id = expected[expected.index(b"D-") :][:40]
    shell.ask(client, b"NACK " + job_id + b"\r\n")
    expected = expected.replace(b":0\r\n$21", b":1\r\n$21")  # nacks
    large_replies(monkeypatch)
    client.data_received(get + b"\r\n" + PING)
    turns = 0
    while shell.loop.calls:
        before = len(transport.written)
        other.data_received(PING)
        shell.loop.turn()
        turns += 1
        assert len(transport.written) - before <= 256 + 64
        if turns > 1 and shell.loop.calls:
            assert second.take().endswith(PONG)
    assert turns > 2000 // 256
    assert transport.take() == expected + PONG
    assert not client.choked
    assert not client.output_bytes()


def test_a_waiting_client_gets_a_large_reply_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    shell = Shell()
    client, transport = shell.connect()
    other, _ = shell.connect()
    shell.ask(client, GET)
    other.data_received(ADD_LARGE)
    shell.loop.turn()
    shell.loop.turn()
    assert client.output_bytes() > 1000
    shell.loop.settle()
    assert transport.take().endswith(b"$2000\r\n" + b"x" * 2000 + b"\r\n")


def test_a_large_reply_behind_one_that_is_safe_earlier_leaves_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    shell.ask(client, ADD)
    shell.ask(client, ADD_LARGE + GET + GET)
    writer.safe = 1
    shell.pump.release()
    shell.loop.settle()
    assert transport.take().startswith(b"+D-")
    writer.safe = writer.sequence
    shell.pump.release()
    assert client.output_bytes() > 2000
    while shell.loop.calls:
        before = len(transport.written)
        shell.loop.turn()
        assert len(transport.written) - before <= 256 + 64
    assert transport.take().endswith(b"x" * 2000 + b"\r\n")


def test_a_large_reply_waits_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, ADD_LARGE)
    client.data_received(GET + PING)
    for _ in range(4):
        shell.loop.turn()
    client.pause_writing()
    shell.loop.settle()
    some = transport.take()
    assert len(some) < 2000
    assert client.output_bytes() > 2000 - len(some)
    client.resume_writing()
    shell.loop.settle()
    assert (some + transport.take()).endswith(b"x" * 2000 + b"\r\n" + PONG)


def ended(shell: Shell, client: Connection, count: int) -> list[bytes]:
    """Jobs that have ended with a long result."""
    ids = [shell.ask(client, b"ADDJOB q body 0 RETAIN 60\r\n")[1:41] for _ in range(count)]
    for job_id in ids:
        assert shell.ask(client, b"ACKJOB %b RESULT %b\r\n" % (job_id, b"x" * 1000)) == b":1\r\n"
    return ids


def test_long_results_leave_in_pieces_between_which_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    monkeypatch.setattr(waits, "LONG_TEXT", 100)
    shell = Shell()
    client, transport = shell.connect()
    other, second = shell.connect()
    ids = ended(shell, client, 5)
    client.data_received(b"WAITJOB 0 %b\r\n" % b" ".join(ids * 2) + PING)
    turns = 0
    while shell.loop.calls:
        before = len(transport.written)
        other.data_received(PING)
        shell.loop.turn()
        turns += 1
        assert len(transport.written) - before <= 256 + 64
    assert turns > 10_000 // (256 + 64)
    assert second.take() == PONG * turns
    assert transport.take() == b"*10\r\n" + (b"*2\r\n$4\r\ndone\r\n$1000\r\n" + b"x" * 1000 + b"\r\n") * 10 + PONG
    assert not client.output_bytes()


def test_long_results_for_a_client_that_does_not_read_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    monkeypatch.setattr(waits, "LONG_TEXT", 100)
    shell = Shell()
    client, transport = shell.connect()
    other, _ = shell.connect()
    last = shell.ask(other, b"ADDJOB q body 0\r\n")[1:41]
    ids = ended(shell, other, 1) * 200
    shell.ask(client, b"WAITJOB 0 %b %b\r\n" % (b" ".join(ids), last))
    client.pause_writing()
    shell.ask(other, b"ACKJOB %b\r\n" % last)
    shell.pump.on_timer()
    shell.loop.settle()
    pieces = len(client.session.out)
    assert pieces > 2 * JOIN_LEAST
    assert client.output_bytes() > 200_000
    client.join_output()
    assert len(client.session.out) == pieces
    client.resume_writing()
    shell.loop.settle()
    assert transport.take().count(b"$1000\r\n" + b"x" * 1000) == 200


def test_a_connection_is_closed_behind_its_large_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, ADD_LARGE)
    client.data_received(GET)
    client.eof_received()
    shell.loop.settle()
    assert transport.closed
    assert transport.written.endswith(b"x" * 2000 + b"\r\n")


def test_a_node_that_stops_hands_over_what_is_left_of_a_large_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    large_replies(monkeypatch)
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, ADD_LARGE)
    client.data_received(GET)
    for _ in range(3):
        shell.loop.turn()
    client.hurry()
    assert transport.written.endswith(b"x" * 2000 + b"\r\n")
    shell.loop.settle()
    assert not client.output_bytes()
