"""One connection: the handshake, silence on demand, servers that go away."""

import socket
from pathlib import Path
from typing import Any

import pytest

from disque.cli.client import NO_REPLY, ConnectError, Connection, NotSentError, Target, address_name, pack
from disque.cli.shell_reply import ErrorReply, Push


class Ear:
    """Collects what a connection says beside its replies."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.pushes: list[Push] = []

    def connect(self, target: Target) -> Connection:
        connection = Connection(target, self.warnings.append, self.pushes.append)
        connection.connect()
        return connection


@pytest.fixture
def ear() -> Ear:
    return Ear()


def ok(_request: list[bytes]) -> bytes:
    return b"+OK\r\n"


def test_a_request_is_an_array_of_strings() -> None:
    assert pack([b"PING", b"", b"a\r\n"]) == b"*3\r\n$4\r\nPING\r\n$0\r\n\r\n$3\r\na\r\n\r\n"


@pytest.mark.parametrize(("host", "name"), [("h", "h:1"), ("::1", "[::1]:1")])
def test_addresses_are_written_so_that_they_can_be_read(host: str, name: str) -> None:
    assert address_name(host, 1) == name


def test_call_gives_the_reply(serve: Any, ear: Ear) -> None:
    connection = ear.connect(serve(lambda args: b":%d\r\n" % len(args)).target())
    assert connection.call([b"a", b"b"]) == 2
    connection.close()


def test_nothing_is_asked_without_credentials_or_resp3(serve: Any, ear: Ear) -> None:
    server = serve(ok)
    connection = ear.connect(server.target())
    connection.call([b"PING"])
    assert server.requests == [[b"PING"]]
    assert connection.name == f"127.0.0.1:{server.port}"
    connection.close()


def test_the_handshake_says_who_one_is_and_which_protocol(serve: Any, ear: Ear) -> None:
    server = serve(ok)
    target = server.target()
    target.user, target.password, target.resp = "u", "p", 3
    ear.connect(target).close()
    assert server.requests == [[b"AUTH", b"u", b"p"], [b"HELLO", b"3"]]
    assert ear.warnings == []


def test_a_refused_password_is_a_warning(serve: Any, ear: Ear) -> None:
    target = serve(lambda _args: b"-ERR invalid password\r\n").target()
    target.password = "p"
    ear.connect(target).close()
    assert ear.warnings == ["AUTH failed: ERR invalid password"]


@pytest.mark.parametrize(("wish", "warnings"), [(False, ["HELLO 3 failed: NOPROTO"]), (True, [])])
def test_refused_resp3_is_a_warning_if_it_was_asked_for(serve: Any, ear: Ear, wish: bool, warnings: list[str]) -> None:
    target = serve(lambda _args: b"-NOPROTO\r\n").target()
    target.resp, target.resp_wish = 3, wish
    ear.connect(target).close()
    assert ear.warnings == warnings


def test_a_server_that_speaks_something_else_is_not_connected(serve: Any, ear: Ear) -> None:
    target = serve(lambda _args: b"HTTP/1.1 400 Bad Request\r\n").target()
    target.password = "p"
    with pytest.raises(ConnectError, match="not a reply"):
        ear.connect(target)


def test_a_server_that_hangs_up_in_the_handshake_is_not_connected(serve: Any, ear: Ear) -> None:
    target = serve(lambda _args: None).target()
    target.password = "p"
    with pytest.raises(ConnectError, match="Server closed the connection"):
        ear.connect(target)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_refused_connection_says_where_and_why(ear: Ear) -> None:
    port = free_port()
    with pytest.raises(ConnectError) as error:
        ear.connect(Target(addresses=[("127.0.0.1", port)]))
    assert str(error.value) == f"Could not connect to Disque at 127.0.0.1:{port}: Connection refused"


def test_the_next_address_is_tried(serve: Any, ear: Ear) -> None:
    server = serve(ok)
    target = Target(addresses=[("127.0.0.1", free_port()), ("127.0.0.1", server.port)])
    connection = ear.connect(target)
    assert connection.name == f"127.0.0.1:{server.port}"
    connection.close()


def test_an_error_has_the_whole_path_of_a_socket(ear: Ear) -> None:
    with pytest.raises(ConnectError, match=f"at {Path.cwd()}/no.sock: No such file"):
        ear.connect(Target(path="no.sock"))


def test_a_unix_socket_takes_the_place_of_host_and_port(tmp_path: Path, ear: Ear) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        connection = ear.connect(Target(path=path))
        assert connection.name == path
        connection.close()
    with pytest.raises(ConnectError, match=f"{path}2: No such file"):
        ear.connect(Target(path=path + "2"))


def scripted(replies: dict[bytes, bytes]) -> Any:
    """Answer by the last word of the request."""
    return lambda args: replies[args[-1]]


def test_silence_until_replies_are_on_again(serve: Any, ear: Ear) -> None:
    connection = ear.connect(serve(scripted({b"off": b"", b"x": b"", b"on": b"+OK\r\n", b"y": b":1\r\n"})).target())
    calls = [[b"client", b"reply", b"off"], [b"x"], [b"x"], [b"CLIENT", b"REPLY", b"on"], [b"y"]]
    assert [connection.call(call) for call in calls] == [NO_REPLY, NO_REPLY, NO_REPLY, b"OK", 1]
    connection.close()


def test_skip_silences_itself_and_one_more(serve: Any, ear: Ear) -> None:
    connection = ear.connect(serve(scripted({b"skip": b"", b"x": b"", b"y": b":1\r\n"})).target())
    calls = [[b"client", b"reply", b"skip"], [b"x"], [b"y"]]
    assert [connection.call(call) for call in calls] == [NO_REPLY, NO_REPLY, 1]
    connection.close()


def test_an_unknown_reply_mode_is_answered(serve: Any, ear: Ear) -> None:
    connection = ear.connect(serve(lambda _args: b"-ERR syntax error\r\n").target())
    assert connection.call([b"client", b"reply", b"maybe"]) == ErrorReply(b"ERR syntax error")
    connection.close()


def test_pushes_are_no_replies(serve: Any, ear: Ear) -> None:
    connection = ear.connect(serve(lambda _args: b">1\r\n+news\r\n:1\r\n").target())
    assert connection.call([b"x"]) == 1
    assert ear.pushes == [[b"news"]]
    connection.close()


def test_a_closed_connection_is_noticed_before_anything_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Ear().connect(Target(addresses=[listener.getsockname()]))
        assert connection.alive()
        listener.accept()[0].close()
        while connection.alive():  # the news travels over loopback
            pass
        assert not connection.is_open


def test_without_a_connection_nothing_is_sent(ear: Ear) -> None:
    connection = Connection(Target(), ear.warnings.append, ear.pushes.append)
    with pytest.raises(NotSentError):
        connection.call([b"PING"])
    with pytest.raises(ConnectionResetError):
        connection.receive()
    assert not connection.alive()
