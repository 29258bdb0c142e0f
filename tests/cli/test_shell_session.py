"""Running commands: what is shown, what is sent again, what is not."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from disque.cli.client import Connection, NotSentError
from disque.cli.shell_help import Table
from disque.cli.shell_session import Output, Session

Answer = Callable[[list[bytes]], bytes | None]


class Desk:
    """A session with everything it says kept."""

    def __init__(self, server: Any, table: Table, manner: str = "pretty") -> None:
        self.server = server
        self.complaints: list[str] = []
        self.stream = io.BytesIO()
        self.output = Output(self.stream, manner, show_slow=True)
        self.times_s: list[float] = []
        connection = Connection(server.target(), self.complaints.append, self.output.push)
        self.session = Session(connection, self.output, lambda: table, self.complaints.append, self._clock)

    def _clock(self) -> float:
        return self.times_s.pop(0) if self.times_s else 0.0

    def shown(self) -> str:
        text = self.stream.getvalue().decode()
        self.stream.seek(0)
        self.stream.truncate()
        return text


@pytest.fixture
def desk(serve: Any, table: Table) -> Iterator[Callable[[Answer], Desk]]:
    made: list[Desk] = []

    def make(answer: Answer) -> Desk:
        made.append(Desk(serve(answer), table))
        return made[-1]

    yield make
    for each in made:
        each.session.connection.close()


def echo(args: list[bytes]) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(args[-1]), args[-1])


def dies_after(count: int) -> Answer:
    """Answer `count` requests, then hang up on each."""
    left = [count]

    def answer(args: list[bytes]) -> bytes | None:
        left[0] -= 1
        return echo(args) if left[0] >= 0 else None

    return answer


def test_a_line_is_split_as_an_inline_command_is(desk: Any) -> None:
    d = desk(echo)
    assert d.session.run_line(b"ADDJOB q \"a \\x00b\" '' 0\r\n")
    assert d.server.requests == [[b"ADDJOB", b"q", b"a \0b", b"", b"0"]]


def test_blank_lines_are_nothing(desk: Any) -> None:
    d = desk(echo)
    assert d.session.run_line(b" \r\n")
    assert d.server.requests == []


def test_an_open_quote_is_a_mistake(desk: Any) -> None:
    d = desk(echo)
    assert not d.session.run_line(b'PING "x')
    assert d.complaints == ["Invalid argument(s): a quote is not closed"]


def test_a_number_in_front_repeats(desk: Any) -> None:
    d = desk(echo)
    assert d.session.run_line(b"3 PING x")
    assert d.shown() == '"x"\n' * 3


def test_a_number_alone_is_a_command(desk: Any) -> None:
    d = desk(echo)
    d.session.run_line(b"3")
    assert d.server.requests == [[b"3"]]


def test_an_error_reply_is_shown_and_counts(desk: Any) -> None:
    d = desk(lambda _args: b"-ERR no\r\n")
    assert not d.session.run_line(b"PING")
    assert d.shown() == "(error) ERR no\n"


@pytest.mark.parametrize(("elapsed_s", "shown"), [(0.49, ""), (0.5, "(0.50s)\n"), (1.234, "(1.23s)\n")])
def test_slow_replies_show_their_time(desk: Any, elapsed_s: float, shown: str) -> None:
    d = desk(echo)
    d.times_s[:] = [10.0, 10.0 + elapsed_s]
    d.session.run([b"PING", b"x"])
    assert d.shown() == '"x"\n' + shown


def test_a_connection_that_was_closed_meanwhile_is_opened_again(desk: Any) -> None:
    d = desk(echo)
    d.session.run([b"PING", b"1"])
    d.server.hang_up()
    assert d.session.run([b"PING", b"2"])
    assert d.complaints == []
    assert d.shown() == '"1"\n"2"\n'


def test_a_request_that_could_not_be_sent_goes_out_over_a_new_connection(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = desk(echo)
    d.session.connect()
    send, failures = d.session.connection.send, [NotSentError("Broken pipe")]

    def fail_once(args: list[bytes]) -> None:
        if failures:
            raise failures.pop()
        send(args)

    monkeypatch.setattr(d.session.connection, "send", fail_once)
    assert d.session.run([b"PING", b"x"])
    assert d.server.requests == [[b"PING", b"x"]]


def test_a_server_that_is_gone_while_sending_is_a_complaint(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    d = desk(echo)
    d.session.connect()
    monkeypatch.setattr(d.session.connection, "alive", lambda: True)
    d.session.connection.close()
    d.server.stop()
    assert not d.session.run([b"PING"])
    assert d.complaints == [f"Could not connect to Disque at 127.0.0.1:{d.server.port}: Connection refused"]


def test_a_request_whose_reply_is_lost_is_not_sent_again(desk: Any) -> None:
    d = desk(dies_after(1))
    d.session.run([b"PING", b"1"])
    assert not d.session.run([b"ADDJOB", b"q", b"b", b"0"])
    assert d.complaints == ["Error: Server closed the connection. It is not known whether the command has run."]
    assert d.server.requests == [[b"PING", b"1"], [b"ADDJOB", b"q", b"b", b"0"]]
    assert d.session.prompt == "not connected> "


def test_repeating_ends_with_the_connection(desk: Any) -> None:
    d = desk(dies_after(2))
    assert not d.session.run_line(b"9 PING x")
    assert len(d.server.requests) == 3


@pytest.mark.parametrize("command", [b"SHUTDOWN", b"debug restart"])
def test_some_commands_end_the_connection_by_intention(desk: Any, command: bytes) -> None:
    d = desk(dies_after(0))
    assert d.session.run_line(command)
    assert d.complaints == []


def test_a_server_that_is_not_there_is_a_complaint(desk: Any) -> None:
    d = desk(echo)
    d.server.stop()
    assert not d.session.run([b"PING"])
    assert d.complaints == [f"Could not connect to Disque at 127.0.0.1:{d.server.port}: Connection refused"]
    assert d.session.prompt == "not connected> "


def test_replies_that_are_switched_off_are_not_awaited(desk: Any) -> None:
    d = desk(lambda args: b"" if args[-1] == b"OFF" else echo(args) if args[-1] == b"ON" else b"")
    assert all(d.session.run_line(line) for line in [b"CLIENT REPLY OFF", b"PING", b"CLIENT REPLY ON"])
    assert d.shown() == '"ON"\n'


def test_monitor_streams_until_the_end(desk: Any) -> None:
    d = desk(lambda _args: b'+OK\r\n+1.5 [h:1] "ping"\r\n+2.5 [h:1] "qlen" "q"\r\n')

    class Reader(io.BytesIO):
        def flush(self) -> None:
            if self.getvalue().count(b"\n") == 3:
                d.server.hang_up()

    d.output.stream = reader = Reader()
    assert not d.session.run([b"MONITOR"])
    assert reader.getvalue() == b'OK\n1.5 [h:1] "ping"\n2.5 [h:1] "qlen" "q"\n'
    assert d.complaints == ["Error: Server closed the connection"]


def test_an_accepted_password_is_used_again_when_reconnecting(desk: Any) -> None:
    d = desk(lambda _args: b"+OK\r\n")
    d.session.run_line(b"AUTH secret")
    d.session.connect()
    assert d.server.requests == [[b"AUTH", b"secret"]] * 2


def test_resp3_is_chosen_again_when_reconnecting(desk: Any) -> None:
    d = desk(lambda _args: b"+OK\r\n")
    d.session.run_line(b"HELLO 3 SETNAME x")
    d.session.connect()
    assert d.server.requests[1:] == [[b"HELLO", b"3"]]


def test_a_refused_password_is_not_remembered(desk: Any) -> None:
    d = desk(lambda _args: b"-ERR invalid password\r\n")
    d.session.run_line(b"AUTH wrong")
    assert d.session.connection.target.password is None


def test_the_prompt_names_the_server(desk: Any) -> None:
    d = desk(echo)
    assert d.session.prompt == "not connected> "
    d.session.connect()
    assert d.session.prompt == f"127.0.0.1:{d.server.port}> "


def test_connect_moves_to_another_server(desk: Any) -> None:
    first, second = desk(echo), desk(echo)
    assert first.session.run_line(b"connect 127.0.0.1 %d" % second.server.port)
    first.session.run_line(b"PING x")
    assert second.server.requests == [[b"PING", b"x"]]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"connect", "Usage: connect host port"),
        (b"connect h x", "Invalid port 'x': a number from 1 to 65535 is expected"),
    ],
)
def test_connect_wants_a_host_and_a_port(desk: Any, line: bytes, complaint: str) -> None:
    d = desk(echo)
    assert not d.session.run_line(line)
    assert d.complaints == [complaint]


def test_help_comes_from_the_table(desk: Any) -> None:
    d = desk(echo)
    assert d.session.run_line(b"help ackjob")
    assert "ACKJOB id [id ...]" in d.shown()
    assert not d.session.run_line(b"help nonsense")
    assert d.server.requests == []


@pytest.mark.parametrize("word", [b"quit", b"EXIT"])
def test_quit_ends_the_session(desk: Any, word: bytes) -> None:
    d = desk(echo)
    assert d.session.run_line(word)
    assert d.session.done


def test_clear_clears_the_screen(desk: Any) -> None:
    d = desk(echo)
    d.session.run_line(b"clear")
    assert d.shown() == "\x1b[H\x1b[2J"


def test_pushes_are_shown_only_if_wanted(desk: Any) -> None:
    d = desk(lambda _args: b">1\r\n+news\r\n:1\r\n")
    d.session.run([b"PING"])
    assert d.shown() == "(integer) 1\n"
    d.output.show_pushes = True
    d.session.run([b"PING"])
    assert d.shown() == "1) news\n(integer) 1\n"


def test_a_reply_that_is_no_resp_closes_the_connection(desk: Any) -> None:
    d = desk(lambda _args: b"HTTP/1.1 400 Bad Request\r\n")
    assert not d.session.run([b"PING"])
    assert d.complaints[0].startswith("Error: not a reply")
    assert not d.session.connection.is_open
