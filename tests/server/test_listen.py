import asyncio
import socket
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from disque.server.listen import ListenError, clear_stale_socket, listen_unix, reason, tcp_socket, tcp_sockets

NOWHERE = "192.0.2.1"  # set aside for documentation


def listening(address: str, port: int = 0) -> socket.socket:
    sock = tcp_socket(address, port, 16)
    assert sock is not None
    return sock


def test_a_socket_takes_connections() -> None:
    with closing(listening("127.0.0.1")) as sock, closing(socket.create_connection(sock.getsockname())):
        assert not sock.getblocking()


def test_a_port_that_is_taken_is_named() -> None:
    with closing(listening("127.0.0.1")) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: Address already in use"):
            tcp_socket("127.0.0.1", port, 16)
        with pytest.raises(ListenError, match="Address already in use"):
            tcp_socket("-127.0.0.1", port, 16)


def test_an_address_that_is_not_of_this_machine() -> None:
    with pytest.raises(ListenError, match=f"{NOWHERE}:0: Cannot assign requested address"):
        tcp_socket(NOWHERE, 0, 16)
    assert tcp_socket(f"-{NOWHERE}", 0, 16) is None


def test_a_word_that_is_no_address() -> None:
    with pytest.raises(ListenError, match="Could not create server TCP listening socket"):
        tcp_socket("no address", 0, 16)


def test_all_addresses_share_the_port_that_the_first_one_got() -> None:
    sockets = tcp_sockets(("127.0.0.1", "127.0.0.2", f"-{NOWHERE}"), 0, 16)
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1", "127.0.0.2"]
    finally:
        for sock in sockets:
            sock.close()


def test_when_one_address_fails_no_socket_stays_open(free_port: int) -> None:
    with pytest.raises(ListenError):
        tcp_sockets(("127.0.0.1", NOWHERE), free_port, 16)
    listening("127.0.0.1", free_port).close()


def test_reasons_are_words() -> None:
    assert reason(OSError(98, "x")) == "Address already in use"
    assert reason(OSError("no number")) == "no number"
    assert "not known" in reason(socket.gaierror(-2, "Name or service not known"))


def test_a_socket_file_that_nobody_listens_on_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    clear_stale_socket(str(path))
    with closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(str(path))
    clear_stale_socket(str(path))
    assert not path.exists()


def test_a_socket_file_in_use_and_other_files_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "s", tmp_path / "file"
    other.write_text("precious")
    with closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(str(path))
        sock.listen()
        with pytest.raises(ListenError, match="another server listens on it"):
            clear_stale_socket(str(path))
    with pytest.raises(ListenError, match="another kind of file"):
        clear_stale_socket(str(other))
    assert other.read_text() == "precious"


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ListenError, match="Not a directory"):
        clear_stale_socket(str(tmp_path / "file" / "s"))


def permissions_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run_unix(path: Path, permissions: int) -> int:
    """Listen for a moment; give the permissions of the socket."""

    async def scene() -> int:
        factory: Any = asyncio.Protocol
        server = await listen_unix(asyncio.get_running_loop(), str(path), permissions, 16, factory)
        mode = permissions_of(path)
        server.close()
        await server.wait_closed()
        return mode

    with asyncio.Runner() as runner:
        return runner.run(scene())


def test_a_unix_socket_gets_the_permissions_that_are_asked_for(tmp_path: Path) -> None:
    assert run_unix(tmp_path / "a", 0o600) == 0o600
    assert run_unix(tmp_path / "b", 0o777) == 0o777


def test_a_unix_socket_in_a_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="No such file or directory"):
        run_unix(tmp_path / "missing" / "s", 0)


def test_a_socket_that_is_only_bound_takes_the_port_and_no_connections() -> None:
    sock = tcp_socket("127.0.0.1", 0, None)
    assert sock is not None
    with closing(sock):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(sock.getsockname())
        sock.listen(1)
        socket.create_connection(sock.getsockname()).close()


def test_to_listen_nowhere_is_an_error() -> None:
    with pytest.raises(ListenError, match=f"none of the addresses -{NOWHERE}"):
        tcp_sockets((f"-{NOWHERE}",), 0, 16)
