import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from cluster.membership import Member
from cluster.messages import ALL_SENT, GOTACK, I_STOP, SETACK, STOPPING
from disque.core.commands import scan
from disque.core.config.settings import Config
from disque.core.host import HostRefusedError
from disque.core.jobs import deliver
from disque.core.model.session import Session
from disque.server import daemon
from disque.server import server as server_module
from disque.server.connection import Connection
from disque.server.facts import NodeClock
from disque.server.journal import Journal
from disque.server.listen import ListenError
from disque.server.nodes_conf import open_nodes_conf
from disque.server.segments import JournalError
from disque.server.server import NODES_EVERY, Server
from disque.server.tls import TlsError
from tests.core.support import foreign_id
from tests.server.shell import Log, Transport
from tests.support import certificates

ADD = b"ADDJOB q body 0\r\n"
PEER = b"b" * 40


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def in_loop(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner() as runner:
        runner.run(scene())


def assemble(*, config_path: str = "", **options: str) -> Server:
    """A server in the running loop that neither listens nor takes signals."""
    config = Config()
    config.put("dir", (str(Path.cwd()),))
    for name, value in options.items():
        config.put(name.replace("_", "-"), (value,))
    log = cast("Any", Log())
    clock = NodeClock()
    nodes_conf, membership = open_nodes_conf(
        "nodes.conf", ip=b"", port=7711, bus_port=17711, now_ms=clock.now_ms(), random=Random(1), log=log
    )
    server = Server(config, log, membership, nodes_conf, clock, config_path, str(Path.cwd()))
    server.pump.turn_most_s = 3600.0  # how fast this machine is decides nothing
    return server


def loaded(server: Server) -> Server:
    for _ in server.persistence.load():
        pass
    return server


def lines(server: Server) -> str:
    return "\n".join(cast("Any", server.log).lines)


def connect(server: Server) -> tuple[Connection, Transport]:
    connection, transport = Connection(server.pump, ""), Transport()
    connection.connection_made(cast("Any", transport))
    return connection, transport


def ask(server: Server, connection: Connection, data: bytes) -> bytes:
    connection.data_received(data)
    server.pump.flush()
    return cast("Transport", cast("Any", connection.transport)).take()


def end(server: Server) -> None:
    server.stop(None, rewrite=False)
    server.nodes_conf.close()


def test_a_stop_answers_says_goodbye_and_closes() -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, transport = connect(server)
        client.data_received(ADD)
        end(server)
        assert transport.take().startswith(b"+D-")
        assert transport.closed
        assert server.exit_code == 0
        assert "bye bye" in lines(server)

    in_loop(scene)


def test_a_second_stop_does_nothing() -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        end(server)
        server.stop(None, rewrite=True)
        assert lines(server).count("bye bye") == 1

    in_loop(scene)


def test_what_a_stop_wrote_is_read_by_the_next_start() -> None:
    async def scene() -> None:
        first = loaded(assemble(appendonly="yes"))
        client, _ = connect(first)
        job_id = ask(first, client, b"ADDJOB q body 0 RETRY 0\r\n")[1:-2]
        end(first)
        second = loaded(assemble(appendonly="yes"))
        client, _ = connect(second)
        assert job_id in ask(second, client, b"QPEEK q 1\r\n")
        end(second)

    in_loop(scene)


class TestRepliesAtAStop:
    """What clients are owed leaves before a clean stop, if they read."""

    ADD_LARGE = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$2000\r\n" + b"x" * 2000 + b"\r\n$1\r\n0\r\n"

    @pytest.fixture(autouse=True)
    def _large_replies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(deliver, "LARGE_REPLY", 1000)
        monkeypatch.setattr(deliver, "LARGE_PIECE", 100)
        monkeypatch.setattr(server_module, "LOOK_S", 0.0)

    def test_a_reply_behind_a_long_one_leaves(self) -> None:
        async def scene() -> None:
            server = assemble()
            client, transport = connect(server)
            ask(server, client, self.ADD_LARGE)
            ask(server, client, b"GETJOB FROM q\r\n")
            assert client.choked
            client.session.out.append(b"+OWED\r\n")
            end(server)
            await server._finished
            assert transport.take().endswith(b"x" * 2000 + b"\r\n+OWED\r\n")
            assert transport.closed

        in_loop(scene)

    def test_the_stop_waits_until_the_system_has_taken_them(self) -> None:
        async def scene() -> None:
            server = assemble()
            _, transport = connect(server)
            transport.unsent = 10
            end(server)
            for _ in range(5):
                await asyncio.sleep(0)
            assert not transport.closed
            transport.unsent = 0
            await server._finished
            assert transport.closed

        in_loop(scene)

    @pytest.mark.parametrize("monitoring", [False, True])
    def test_a_client_that_does_not_read_delays_it_for_a_while_and_its_jobs_go_back(
        self, monkeypatch: pytest.MonkeyPatch, *, monitoring: bool
    ) -> None:
        monkeypatch.setattr(server_module, "REPLIES_S", 3600.0 if monitoring else 0.0)

        async def scene() -> None:
            server = assemble()
            (client, transport), (other, _) = connect(server), connect(server)
            client.session.monitoring = monitoring
            client.data_received(b"GETJOB FROM q\r\n")
            client.pause_writing()
            transport.unsent = 10
            ask(server, other, ADD)
            assert len(client.session.handed) == 1
            end(server)
            await server._finished
            assert server.node.queues[b"q"].length == 1
            assert transport.closed

        in_loop(scene)


def fail_to_sync(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = server.pump.journal
    assert journal is not None
    monkeypatch.setattr(journal, "sync", lambda: False)


def test_a_client_that_asks_for_a_stop_hears_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, transport = connect(server)
        fail_to_sync(server, monkeypatch)
        server.stop(client.session, rewrite=False)
        server.pump.flush()
        assert transport.take() == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
        assert not transport.closed
        assert ask(server, client, b"PING\r\n") == b"+PONG\r\n"
        monkeypatch.undo()
        end(server)

    in_loop(scene)


def test_a_signal_stops_although_the_disk_fails_and_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        fail_to_sync(server, monkeypatch)
        end(server)
        assert server.exit_code == 1

    in_loop(scene)


def test_a_restart_that_is_refused_is_not_made_up_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, _ = connect(server)
        fail_to_sync(server, monkeypatch)
        server._restart(client.session, clean=True)
        assert server.restart_argv is None
        monkeypatch.undo()
        end(server)

    in_loop(scene)


def test_a_second_interrupt_insists(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)

    async def scene() -> None:
        server = assemble()
        server._on_stop_signal("SIGINT")
        assert codes == []
        server._on_stop_signal("SIGINT")
        assert codes == [1]
        server.nodes_conf.close()

    in_loop(scene)


def test_more_clients_than_the_system_allows_are_refused_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = assemble()
        client, _ = connect(server)
        assert ask(server, client, b"CONFIG SET maxclients 50\r\n") == b"+OK\r\n"
        monkeypatch.setattr(daemon, "fit_fd_limit", lambda _: 100)
        assert b"try with 100" in ask(server, client, b"CONFIG SET maxclients 1000\r\n")
        assert server.pump.maxclients == 50
        assert b"$2\r\n50\r\n" in ask(server, client, b"CONFIG GET maxclients\r\n")
        end(server)

    in_loop(scene)


def test_what_the_system_allows_at_the_start_is_what_config_get_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(daemon, "fit_fd_limit", lambda _: 100)
        server = assemble()
        assert server._set_maxclients(1000) == 100
        client, _ = connect(server)
        assert b"$3\r\n100\r\n" in ask(server, client, b"CONFIG GET maxclients\r\n")
        assert "maxclients is now 100" in lines(server)
        end(server)

    in_loop(scene)


def test_the_directory_that_config_set_names_must_exist(tmp_path: Path) -> None:
    async def scene() -> None:
        server = assemble()
        client, _ = connect(server)
        answer = ask(server, client, b"CONFIG SET dir %b\r\n" % str(tmp_path / "missing").encode())
        assert answer == b"-ERR Changing directory: No such file or directory\r\n"
        assert server.config.text("dir") == str(tmp_path)
        (tmp_path / "there").mkdir()
        assert ask(server, client, b"CONFIG SET dir there\r\n") == b"+OK\r\n"
        assert server.config.text("dir") == str(tmp_path / "there")
        end(server)

    in_loop(scene)


def test_the_socket_file_is_removed_although_the_directory_has_changed(tmp_path: Path) -> None:
    async def scene() -> None:
        server = assemble(port="0", unixsocket="s")
        server.port = 0
        await server._listen()
        assert (tmp_path / "s").exists()
        (tmp_path / "there").mkdir()
        client, _ = connect(server)
        assert ask(server, client, b"CONFIG SET dir there\r\n") == b"+OK\r\n"
        end(server)
        assert not (tmp_path / "s").exists()

    in_loop(scene)


def test_a_config_file_is_written_in_one_step(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "disque.conf"
        path.write_text("# notes\ntimeout 5\n")
        server = assemble(config_path=str(path), timeout="7")
        server.rewrite_config()
        assert path.read_text().startswith("# notes\ntimeout 7\n")
        assert names(tmp_path, "disque.conf*") == ["disque.conf"]
        path.unlink()
        server.rewrite_config()
        assert "timeout 7" in path.read_text()
        end(server)

    in_loop(scene)


async def answered(server: Server, transport: Any) -> bytes:
    """What the client is answered once the thread that writes has nothing more to do."""
    await server.loop.run_in_executor(server._writer, lambda: None)
    for _ in range(5):
        await asyncio.sleep(0)
    return cast("bytes", transport.take())


def test_config_rewrite_waits_for_the_disk_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_sync = threading.Event()
    monkeypatch.setattr("disque.server.config_file.fsync", lambda _: may_sync.wait())

    async def scene() -> None:
        path = tmp_path / "disque.conf"
        server = assemble(config_path=str(path), timeout="7")
        (client, transport), (other, _) = connect(server), connect(server)
        client.data_received(b"CONFIG REWRITE\r\nPING\r\n")
        assert ask(server, other, b"PING\r\n") == b"+PONG\r\n", "others are served while the disk works"
        assert not transport.take()
        assert not path.exists()
        may_sync.set()
        assert await answered(server, transport) == b"+OK\r\n+PONG\r\n"
        assert "timeout 7" in path.read_text()
        server.config_path = str(tmp_path / "missing" / "disque.conf")
        client.data_received(b"CONFIG REWRITE\r\n")
        assert (await answered(server, transport)).startswith(b"-ERR Rewriting config file: No such file")
        end(server)

    in_loop(scene)


def test_a_config_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        server = assemble(config_path=str(tmp_path / "missing" / "disque.conf"))
        with pytest.raises(HostRefusedError, match="ERR Rewriting config file: No such file or directory"):
            server.rewrite_config()
        server.config_path = ""
        with pytest.raises(HostRefusedError, match="without a config file"):
            server.rewrite_config()
        end(server)

    in_loop(scene)


def names(directory: Path, pattern: str) -> list[str]:
    return [path.name for path in directory.glob(pattern)]


def silent(server: Server, seconds: int) -> tuple[Session, Transport]:
    client, transport = connect(server)
    client.session.active_ms -= seconds * 1000
    return client.session, transport


def test_silent_clients_are_cut_but_not_those_that_wait_or_watch() -> None:
    async def scene() -> None:
        server = assemble(timeout="10")
        _, idle = silent(server, 11)
        _, fresh = silent(server, 9)
        watcher, watching = silent(server, 11)
        watcher.monitoring = True
        waiter, waiting = connect(server)
        ask(server, waiter, b"GETJOB FROM q\r\n")
        waiter.session.active_ms -= 11_000
        server._close_idle()
        assert [one.aborted for one in (idle, fresh, watching, waiting)] == [True, False, False, False]
        end(server)

    in_loop(scene)


@pytest.mark.parametrize(
    ("size", "since_s", "cut"), [(99, 0, False), (100, 0, True), (50, 0, False), (50, 9, False), (50, 11, True)]
)
def test_clients_that_do_not_read_are_cut_at_the_hard_limit_or_after_a_while_above_the_soft_one(
    size: int, since_s: int, *, cut: bool
) -> None:
    async def scene() -> None:
        server = assemble()
        server.config.put("client-output-buffer-limit", ("normal", "100", "40", "10"))
        client, transport = connect(server)
        client.pause_writing()
        transport.unsent = size
        client.over_since_ms = server.clock.now_ms() - since_s * 1000 if since_s else 0
        server._watch_outputs()
        assert transport.aborted is cut
        end(server)

    in_loop(scene)


def test_those_with_the_most_unread_replies_are_cut_until_all_together_have_few_enough() -> None:
    async def scene() -> None:
        server = assemble()
        clients = [connect(server) for _ in range(4)]
        for size, (client, transport) in zip((10, 40, 20, 30), clients, strict=True):
            client.pause_writing()
            transport.unsent = size
        server.config.put("maxmemory-clients", ("100",))
        server._watch_outputs()
        assert [transport.aborted for _, transport in clients] == [False] * 4
        server.config.put("maxmemory-clients", ("30",))
        server._watch_outputs()
        assert [transport.aborted for _, transport in clients] == [False, True, False, True]
        end(server)

    in_loop(scene)


def test_those_that_read_are_cut_behind_those_that_do_not() -> None:
    async def scene() -> None:
        server = assemble()
        (reader, fast), (idler, slow), (fresh, third) = (connect(server) for _ in range(3))
        server.config.put("maxmemory-clients", ("100",))
        for client, transport, size in ((reader, fast, 50), (idler, slow, 10)):
            client.pause_writing()
            transport.unsent = size
        server._watch_outputs()
        fast.unsent = 49
        fresh.pause_writing()
        third.unsent = 41
        server.config.put("maxmemory-clients", ("90",))
        server._watch_outputs()
        assert [transport.aborted for transport in (fast, slow, third)] == [False, True, False]
        server.pump.lost(idler)
        idler._closed = True
        server.config.put("maxmemory-clients", ("49",))
        server._watch_outputs()
        assert [transport.aborted for transport in (fast, third)] == [True, False], "neither has read since"
        end(server)

    in_loop(scene)


@pytest.mark.parametrize(("size", "since_s", "cut"), [(50, 0, False), (50, 2, True), (40, 2, False)])
def test_a_monitor_may_stay_above_the_soft_limit_for_a_second_only(size: int, since_s: int, *, cut: bool) -> None:
    async def scene() -> None:
        server = assemble()
        server.config.put("client-output-buffer-limit", ("normal", "100", "40", "10"))
        client, transport = connect(server)
        client.session.monitoring = True
        client.pause_writing()
        transport.unsent = size
        client.over_since_ms = server.clock.now_ms() - since_s * 1000
        server._watch_outputs()
        assert transport.aborted is cut
        end(server)

    in_loop(scene)


def test_a_walk_whose_reply_reaches_the_hard_limit_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 1)

    async def scene() -> None:
        server = assemble()
        server.config.put("client-output-buffer-limit", ("normal", "1500", "1000", "10"))
        client, transport = connect(server)
        ask(server, client, ADD * 50)
        client.data_received(b"JSCAN BUSYLOOP\r\n")
        server._watch_outputs()
        before = transport.aborted
        walk = server.node.walks[0]
        assert isinstance(walk, scan.Walk)
        walk.go_on(server.node, 10_000, server.clock.now_ms())
        server._watch_outputs()
        assert (before, transport.aborted) == (False, True)
        assert "output buffer limits" in lines(server)
        end(server)

    in_loop(scene)


def test_many_small_replies_that_nobody_reads_are_counted_once() -> None:
    async def scene() -> None:
        server = assemble()
        client, transport = connect(server)
        client.pause_writing()
        out = client.session.out
        for numbers in (range(1000), range(1000, 2000), range(2000, 2001)):
            out += [b"%d " % number for number in numbers]
            server._watch_outputs()
        assert len(out) == 3
        client.resume_writing()
        server.pump.flush()
        assert transport.written.split() == [b"%d" % number for number in range(2001)]
        client.pause_writing()
        out += [b"more"] * 1000
        server._watch_outputs()
        assert out == [b"more" * 1000]
        end(server)

    in_loop(scene)


def test_signals_are_taken_by_the_loop() -> None:
    async def scene() -> None:
        server = assemble()
        server._take_signals()
        loop = asyncio.get_running_loop()
        assert all(loop.remove_signal_handler(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        end(server)

    in_loop(scene)


def test_after_a_reload_that_failed_nothing_is_promised_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.server.journal.INLINE_S", 3600.0)  # however slow the disk is just now

    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, transport = connect(server)
        ask(server, client, ADD)
        ask(server, client, b"CONFIG SET appendfsync always\r\n" + ADD)
        path = min(Path.cwd().glob("disque.aof.*"))
        damaged = bytearray(path.read_bytes())
        damaged[60] ^= 255
        path.write_bytes(damaged)
        client.data_received(b"DEBUG LOADAOF\r\n")
        server.pump.flush()
        await asyncio.sleep(0)
        server.pump.flush()
        assert transport.take() == b"-ERR\r\n"
        assert ask(server, client, ADD).startswith(b"-MISCONF The journal could not be loaded again")
        end(server)

    in_loop(scene)


def test_a_start_whose_journal_cannot_be_written_promises_nothing_while_it_ends(
    new_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is read, so clients were served: an ADDJOB in the last turns of the loop was answered, and lost."""

    def refuse(_journal: Journal, _rebuild: bool) -> None:
        raise JournalError("Can't write the journal")

    monkeypatch.setattr(Journal, "start", refuse)

    async def scene() -> None:
        server = assemble(appendonly="yes", port=str(new_port()), bind="127.0.0.1")
        assert await server.run() == 1
        client, _ = connect(server)
        assert ask(server, client, ADD).startswith(b"-LOADING")
        server.nodes_conf.close()

    in_loop(scene)


def test_a_nodes_conf_that_is_removed_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "nodes.conf"

    async def scene() -> None:
        server = loaded(assemble())
        path.unlink()
        for _ in range(2 * NODES_EVERY + 10):
            server._cron()
        await server.loop.shutdown_default_executor()  # it is written in there
        assert lines(server).count("nodes.conf was removed. It is written again") == 1
        assert path.read_bytes().startswith(server.node.node_id)
        end(server)

    in_loop(scene)


def test_a_restart_that_is_refused_leaves_the_client_served() -> None:
    async def scene() -> None:
        server = assemble(config_path="/nowhere/disque.conf")
        client, _ = connect(server)
        assert ask(server, client, b"DEBUG RESTART\r\nECHO x\r\n").endswith(b"$1\r\nx\r\n")
        end(server)

    in_loop(scene)


def test_a_callback_that_fails_is_told_to_the_log() -> None:
    async def scene() -> None:
        server = assemble()
        server._on_fault(server.loop, {"message": "Exception in callback", "exception": RuntimeError("a mistake")})
        assert "Exception in callback\nRuntimeError: a mistake" in lines(server)
        end(server)

    in_loop(scene)


class TestOtherNodes:
    """The part of the server that starts and ends the talk with other nodes."""

    def test_the_bus_is_bound_at_once_and_answers_when_all_is_loaded(self, new_port: Callable[[], int]) -> None:
        port = new_port()

        async def scene() -> None:
            server = assemble(port=str(port), bind="127.0.0.1")
            await server._listen()
            assert server.mesh is not None
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port + 10000)
            await server.mesh.start()
            _, writer = await asyncio.open_connection("127.0.0.1", port + 10000)
            writer.close()
            end(server)
            await server._finished

        in_loop(scene)

    def test_a_bus_port_that_is_taken_ends_the_start(self, new_port: Callable[[], int]) -> None:
        port = new_port()

        async def scene() -> None:
            with closing(socket.create_server(("127.0.0.1", port + 10000))):
                server = assemble(port=str(port), bind="127.0.0.1")
                with pytest.raises(ListenError, match=f"{port + 10000}: Address already in use"):
                    await server._listen()
                end(server)

        in_loop(scene)

    @pytest.mark.parametrize("distance", [0, 10000])
    def test_a_start_that_fails_on_a_port_leaves_no_new_nodes_conf(
        self, new_port: Callable[[], int], distance: int
    ) -> None:
        port = new_port()

        async def scene() -> None:
            with closing(socket.create_server(("127.0.0.1", port + distance))):
                server = assemble(port=str(port), bind="127.0.0.1")
                assert await server.run() == 1
                assert "Address already in use" in lines(server)
                server.nodes_conf.close()

        in_loop(scene)
        assert not Path("nodes.conf").exists()

    def test_without_a_port_for_it_a_node_stays_alone(self, tmp_path: Path) -> None:
        async def scene() -> None:
            server = assemble(port="0", unixsocket=str(tmp_path / "s"))
            await server._listen()
            assert server.mesh is None
            end(server)

        in_loop(scene)

    @pytest.mark.parametrize("plain", [True, False])
    def test_with_tls_alone_its_port_is_the_one_that_is_told(self, new_port: Callable[[], int], plain: bool) -> None:
        port, tls_port = new_port() if plain else 0, new_port()

        async def scene() -> None:
            options = {name.replace("-", "_"): value for name, value in certificates.options().items()}
            server = assemble(port=str(port), tls_port=str(tls_port), bind="127.0.0.1", **options)
            await server._listen()
            assert server.port == (port or tls_port)
            assert server._where() == (f"port {port} and " if plain else "") + f"TLS port {tls_port}"
            assert server.mesh is not None
            assert server.node.membership.myself.port == server.port
            assert server.node.membership.myself.bus_port == server.port + 10000
            end(server)

        in_loop(scene)

    def test_a_stop_ends_when_what_was_said_to_others_has_left(self, new_port: Callable[[], int]) -> None:
        port = new_port()

        async def scene() -> None:
            server = assemble(port=str(port), bind="127.0.0.1", appendonly="yes")
            await server._listen()
            assert server.mesh is not None
            await server.mesh.start()
            loaded(server)
            left: list[str] = []

            async def close(patience_s: float) -> None:
                assert patience_s == 1.0
                left.append("journal closed" if server.pump.journal is None else "journal open")
                assert not server._finished.done()

            server.mesh.bus.close = close  # type: ignore[method-assign]  # to look at the moment
            server.stop(None, rewrite=False)
            await server._finished
            assert left == ["journal closed"]
            server.nodes_conf.close()
            for listener in server.mesh.bus._servers:
                listener.close()

        in_loop(scene)

    def test_what_comes_while_a_stop_ends_is_not_answered(
        self, new_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The journal is closed: who heard that an acknowledgement is known here would not say it again."""
        port = new_port()
        sent: list[Any] = []

        def send(outbox: list[Any]) -> list[Any]:
            sent.extend(outbox)
            return []

        async def scene() -> None:
            server = assemble(port=str(port), bind="127.0.0.1", appendonly="yes")
            await server._listen()
            mesh = server.mesh
            assert mesh is not None
            await mesh.start()
            loaded(server)
            server.node.membership.add(Member(PEER, b"127.0.0.1", 1))
            mesh.link_up(PEER, 1)
            await asyncio.sleep(0)
            monkeypatch.setattr(mesh.bus, "send", send)
            mesh.received(PEER, [(SETACK, (PEER,), (foreign_id(1),))])
            await asyncio.sleep(0)
            assert sent == [(PEER, (GOTACK, 0, (), (foreign_id(1),)))]
            server.stop(None, rewrite=False)
            await asyncio.sleep(0)
            assert sent.pop() == (PEER, (STOPPING, I_STOP))
            mesh.received(PEER, [(STOPPING, ALL_SENT)])
            for _ in range(10):  # turns of the loop that it takes until the journal is closed
                await asyncio.sleep(0)
            assert server.pump.ended
            sent.clear()
            mesh.received(PEER, [(SETACK, (PEER,), (foreign_id(2),))])
            server.pump.on_timer()
            await server._finished
            assert sent == []
            server.nodes_conf.close()

        in_loop(scene)

    def test_settings_of_the_cluster_count_when_they_are_changed(self, new_port: Callable[[], int]) -> None:
        port = new_port()

        async def scene() -> None:
            server = assemble(port=str(port), bind="127.0.0.1")
            await server._listen()
            server.config.set_text("cluster-node-timeout", "700")
            server.configure("cluster-node-timeout")
            assert server.node.membership.timeout_ms == 700
            end(server)

        in_loop(scene)

    def test_tls_without_certificates_ends_the_start(self, new_port: Callable[[], int]) -> None:
        port = new_port()

        async def scene() -> None:
            server = assemble(port=str(port), bind="127.0.0.1", tls_cluster="yes")
            with pytest.raises(TlsError, match="tls-cluster needs"):
                await server._listen()
            end(server)

        in_loop(scene)


@pytest.mark.parametrize(("value", "warned"), [("10", True), ("1048575", True), ("1mb", False), ("0", False)])
def test_a_maxmemory_too_small_to_be_meant_is_noted(value: str, warned: bool) -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="no"))
        client, _ = connect(server)
        request = f"CONFIG SET maxmemory {value}\r\n".encode()
        assert ask(server, client, request) == b"+OK\r\n"
        assert ("almost no job fits" in lines(server)) == warned
        assert (f"maxmemory is {value} bytes" in lines(server)) == warned
        end(server)

    in_loop(scene)


def test_no_rewrite_begins_while_the_disk_is_known_to_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, _ = connect(server)
        assert server.pump.journal is not None
        with monkeypatch.context() as broken:
            broken.setattr(server.pump.journal, "_write_error", "No space left on device")
            refused = b"-ERR The journal cannot be written now: No space left on device\r\n"
            assert ask(server, client, b"BGREWRITEAOF\r\n") == refused
            facts = server.persistence.facts()
            assert (facts["aof_rewrite_scheduled"], facts["aof_last_bgrewrite_status"]) == (0, "err")
        assert ask(server, client, b"BGREWRITEAOF\r\n").startswith(b"+Background")
        end(server)

    in_loop(scene)


def test_a_rewrite_is_answered_at_once_and_begins_behind_the_turn() -> None:
    async def scene() -> None:
        server = loaded(assemble(appendonly="yes"))
        client, _ = connect(server)
        started = b"+Background append only file rewriting started\r\n"
        client.data_received(b"BGREWRITEAOF\r\n")
        assert server.persistence.facts()["aof_rewrite_scheduled"] == 1
        server.pump.flush()
        assert cast("Transport", cast("Any", client.transport)).take() == started
        assert b"already in progress" in ask(server, client, b"BGREWRITEAOF\r\n")
        await asyncio.sleep(0)
        assert server.persistence.facts()["aof_rewrite_scheduled"] == 0
        assert server.persistence.copying is not None
        end(server)

    in_loop(scene)
