"""Clients with TLS: redis-cli, redis-py, this project's own shell and bench, and those who do it wrong."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import redis

from disque.client import Disque
from tests.end_to_end.node import LOOPBACK, PATIENCE_S, ROOT, Node, Raw, ServerError, request, until
from tests.support import certificates

MB: Final = 1 << 20
MakeTls = Callable[..., "Tls"]


class Secured(Raw):
    """A raw connection with TLS."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        super().__init__((LOOPBACK, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = context or certificates.trusting()
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=LOOPBACK)
        except BaseException:
            self.socket.close()
            raise

    def end(self) -> None:
        socket.socket.shutdown(self.socket, socket.SHUT_WR)  # that of ssl would forget TLS, too

    def receive(self) -> bytes:
        with suppress(ssl.SSLError):
            return super().receive()
        return b""


class Tls(Node):
    """A node whose clients may speak TLS."""

    def __init__(self, directory: Path, tls_port: int, *options: str, auth: str = "yes") -> None:
        words = [word for name, value in certificates.options(auth).items() for word in (f"--{name}", value)]
        super().__init__(directory, "--tls-port", str(tls_port), *words, *options)
        self.tls_port = tls_port

    def secured(self, who: str | None = "client") -> Secured:
        raw = Secured(self.tls_port, certificates.trusting(who))
        self._raws.append(raw)
        return raw

    def ask_with_tls(self, *words: str | bytes | int) -> Any:
        with closing(Secured(self.tls_port)) as raw:
            return raw.ask(*words)

    def serves_tls(self) -> bool:
        try:
            return bool(self.ask_with_tls("PING") == b"PONG")
        except (OSError, EOFError):
            return False


class OnlyTls(Tls):
    """A node without a plain port."""

    @property
    def command(self) -> list[str]:
        return [*super().command, "--port", "0"]

    def await_ready(self) -> "OnlyTls":
        until(self.serves_tls, f"TLS port {self.tls_port}")
        return self


@pytest.fixture
def make_tls(tmp_path: Path, new_port: Callable[[], int]) -> Iterator[MakeTls]:
    """Give a function that makes a node with TLS that is not started yet; its words are options."""
    nodes: list[Tls] = []

    def make(*options: str, auth: str = "yes", kind: type[Tls] = Tls) -> Tls:
        directory = tmp_path / f"tls{len(nodes)}"
        directory.mkdir()
        nodes.append(kind(directory, new_port(), *options, auth=auth))
        return nodes[-1]

    yield make
    for one in nodes:
        one.discard()


@pytest.fixture
def node(make_tls: MakeTls) -> Tls:
    made = make_tls()
    made.start()
    return made


def authenticated() -> list[str]:
    """The flags of redis-cli and of the shell for a client that is believed and believes."""
    certificate, key = certificates.pair("client")
    return ["--tls", "--cacert", certificates.AUTHORITY, "--cert", certificate, "--key", key]


def run(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False, env=environment)


def shell(node: Tls, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-m", "disque.cli.main", "-p", str(node.tls_port), *words, text=text)


class TestClients:
    def test_both_ports_serve_the_same_node(self, node: Tls) -> None:
        job_id = node.ask_with_tls("ADDJOB", "q", "body", 0)
        assert node.ask("GETJOB", "FROM", "q") == [[b"q", job_id, b"body"]]
        node.await_log(f"ready to accept connections on port {node.port} and TLS port {node.tls_port}")

    def test_redis_cli(self, node: Tls, redis_cli: str) -> None:
        def ask(*words: str, text: str = "") -> str:
            done = run(redis_cli, "-h", LOOPBACK, "-p", str(node.tls_port), *authenticated(), *words, text=text)
            assert done.returncode == 0, done.stderr
            return done.stdout

        job_id = ask("ADDJOB", "q", "body", "0").strip()
        assert ask("-3", "GETJOB", "FROM", "q") == f"q\n{job_id}\nbody\n"
        assert "errors: 0, replies: 5000" in ask("--pipe", text="ADDJOB many body 0\r\n" * 5000)
        assert node.ask("QLEN", "many") == 5000

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_redis_py(self, node: Tls, protocol: int) -> None:
        certificate, key = certificates.pair("client")
        files = {"ssl_ca_certs": certificates.AUTHORITY, "ssl_certfile": certificate, "ssl_keyfile": key}
        client = node.client(port=node.tls_port, ssl=True, protocol=protocol, **files)
        job_id = client.execute_command("ADDJOB", "q", b"x" * MB, 0)
        assert client.execute_command("GETJOB", "FROM", "q") == [[b"q", job_id, b"x" * MB]]
        with client.pipeline(transaction=False) as pipeline:
            for number in range(2000):
                pipeline.execute_command("ADDJOB", "q", number, 0)
            assert len(set(pipeline.execute())) == 2000

    def test_redis_py_with_a_url(self, make_tls: MakeTls) -> None:
        node = make_tls(auth="no")
        node.start()
        url = f"rediss://localhost:{node.tls_port}"
        with closing(redis.Redis.from_url(url, ssl_ca_certs=certificates.AUTHORITY)) as client:
            assert client.ping()

    @pytest.mark.parametrize("kind", [Tls, OnlyTls])
    def test_the_client_of_this_project(self, make_tls: MakeTls, kind: type[Tls]) -> None:
        node = make_tls(kind=kind)
        node.start()
        certificate, key = certificates.pair("client")
        words = f"ca={certificates.AUTHORITY}&cert={certificate}&key={key}"
        with closing(Disque.from_url(f"disques://localhost:{node.tls_port}?{words}")) as client:
            for _ in range(5):
                client.add("q", b"body")
        assert node.ask_with_tls("QLEN", "q") == 5

    @pytest.mark.parametrize(("auth", "who"), [("yes", None), ("yes", "stranger"), ("optional", "stranger")])
    def test_who_shows_no_good_certificate_is_refused(self, make_tls: MakeTls, auth: str, who: str | None) -> None:
        node = make_tls(auth=auth)
        node.start()
        with pytest.raises((ssl.SSLError, EOFError)):
            node.secured(who).ask("PING")
        node.await_log("TLS failed: ")
        assert node.serves_tls()
        assert node.ask("PING") == b"PONG"

    def test_with_only_tls_that_port_is_told(self, make_tls: MakeTls) -> None:
        node = make_tls(kind=OnlyTls, auth="no")
        node.start()
        with pytest.raises(ConnectionRefusedError):
            Raw((LOOPBACK, node.port))
        port = b"%d" % node.tls_port
        assert b":%b " % port in node.ask_with_tls("CLUSTER", "NODES")
        assert node.ask_with_tls("HELLO")[2][2] == port
        assert b"tcp_port:%b\r\n" % port in node.ask_with_tls("INFO", "server")
        Raw((LOOPBACK, node.tls_port + 10000)).close()
        assert node.stop() == 0

    def test_with_both_the_plain_port_is_told(self, node: Tls) -> None:
        assert node.ask_with_tls("HELLO")[2][2] == b"%d" % node.port

    def test_jobs_of_a_clean_stop_and_under_always(self, make_tls: MakeTls) -> None:
        node = make_tls("--appendonly", "yes", "--appendfsync", "always")
        node.start()
        raw = node.secured()
        raw.send(request("ADDJOB", "q", "body", 0) * 1000)
        assert len({raw.reply() for _ in range(1000)}) == 1000
        assert node.stop() == 0
        node.start()
        assert node.ask_with_tls("QLEN", "q") == 1000


class TestShell:
    def test_a_command(self, node: Tls) -> None:
        done = shell(node, *authenticated(), "addjob", "q", "body", "0")
        assert (done.returncode, done.stderr) == (0, "")
        assert node.ask("QLEN", "q") == 1

    def test_a_url_and_lines_of_standard_input(self, node: Tls) -> None:
        url = f"disques://localhost:{node.tls_port}"
        done = shell(node, *authenticated()[1:], "-u", url, text="ping\nqlen q\n")
        assert (done.returncode, done.stdout) == (0, "PONG\n0\n")

    def test_pipe(self, node: Tls) -> None:
        done = shell(node, *authenticated(), "--pipe", text="ADDJOB q body 0\r\n" * 20_000)
        assert "errors: 0, replies: 20000" in done.stdout
        assert node.ask("QLEN", "q") == 20_000

    def test_a_server_of_another_name_or_authority_is_not_believed(self, node: Tls) -> None:
        system = shell(node, "--tls", "ping")
        assert (system.returncode, system.stdout) == (1, "")
        assert "its certificate is not trusted: " in system.stderr
        named = shell(node, *authenticated(), "--sni", "other.example.org", "ping")
        assert named.returncode == 1
        assert "Hostname mismatch" in named.stderr
        good = shell(node, *authenticated(), "--sni", certificates.NAME, "ping")
        assert good.stdout == "PONG\n"
        certificate, key = certificates.pair("client")
        insecure = shell(node, "--tls", "--insecure", "--cert", certificate, "--key", key, "ping")
        assert insecure.stdout == "PONG\n"

    def test_without_a_certificate_it_is_told_that_one_is_wanted(self, node: Tls) -> None:
        done = shell(node, "--tls", "--cacert", certificates.AUTHORITY, "ping")
        assert done.returncode == 1
        assert "certificate required" in done.stderr

    def test_tls_to_the_plain_port_and_the_other_way_round(self, node: Tls) -> None:
        to_plain = run(sys.executable, "-m", "disque.cli.main", "-p", str(node.port), *authenticated(), "ping")
        assert to_plain.returncode == 1
        assert "TLS failed: wrong version number" in to_plain.stderr
        to_tls = shell(node, "ping")
        assert to_tls.returncode == 1
        assert "ERR this port speaks TLS, and the client does not" in to_tls.stdout
        node.await_log("A client without TLS connected to the TLS port")

    @pytest.mark.slow
    def test_bench(self, node: Tls) -> None:
        words = ("-p", str(node.tls_port), *authenticated(), "-n", "2000", "-c", "8", "-P", "4", "--json")
        done = run(sys.executable, "-m", "disque.cli.main", "bench", *words, "add", "get", "ack", "cycle", "mixed")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)

    def test_bench_that_nobody_believes(self, node: Tls) -> None:
        done = run(sys.executable, "-m", "disque.cli.main", "bench", "-p", str(node.tls_port), "--tls", "add")
        assert done.returncode == 1
        assert "its certificate is not trusted" in done.stderr


class TestPressure:
    def test_a_client_that_never_reads_is_cut_and_costs_little(self, node: Tls) -> None:
        node.ask("ADDJOB", "q", b"x" * 16 * MB, 0)
        before = node.rss()
        raw = node.secured()
        raw.send(request("QPEEK", "q", 1) * 200)
        until(lambda: omem(node, raw) > 8 * MB, "the replies")
        for _ in range(20):
            assert node.ask("PING") == b"PONG"
        assert node.rss() - before < 80 * MB
        assert node.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 8mb 0 0") == b"OK"
        node.await_log("for overcoming of output buffer limits")
        until(lambda: node.info("connected_clients") == "1", "the end of the client")

    def test_a_client_that_waits_may_send_only_so_much_ahead(self, node: Tls) -> None:
        before = node.rss()
        raw = node.secured()
        raw.send(request("GETJOB", "FROM", "q"))
        raw.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            raw.send(request("PING") * 3_000_000)
        assert node.rss() - before < 32 * MB
        assert node.ask("PING") == b"PONG"

    def test_a_long_pipeline_is_answered_in_order(self, node: Tls) -> None:
        raw = node.secured()
        for start in range(0, 50_000, 2000):
            raw.send(b"".join(request("ECHO", number) for number in range(start, start + 2000)))
            assert [raw.reply() for _ in range(2000)] == [b"%d" % number for number in range(start, start + 2000)]

    def test_a_client_that_closes_its_side_is_answered(self, node: Tls) -> None:
        raw = node.secured()
        raw.send(b"PING\r\n" * 3000)
        raw.end()
        assert raw.all() == b"+PONG\r\n" * 3000

    def test_a_client_that_is_gone_while_it_waits_gets_no_job(self, node: Tls) -> None:
        raw = node.secured()
        raw.send(request("GETJOB", "FROM", "q"))
        until(lambda: node.info("blocked_clients") == "1", "the client to wait")
        raw.close()
        until(lambda: node.info("connected_clients") == "1", "the end of the client")
        node.ask("ADDJOB", "q", "body", 0)
        assert node.ask("QLEN", "q") == 1

    def test_one_client_too_many_is_told_so(self, make_tls: MakeTls) -> None:
        node = make_tls("--maxclients", "2")
        node.launch()
        node.await_log("ready to accept")
        first, second = node.secured(), node.secured()
        assert (first.ask("PING"), second.ask("PING")) == (b"PONG", b"PONG")
        assert node.secured().all() == b"-ERR max number of clients reached\r\n"

    def test_handshakes_that_never_end_are_bounded_and_disturb_nobody(self, make_tls: MakeTls) -> None:
        node = make_tls("--maxclients", "40")
        node.start()
        before = node.rss()
        raws = []
        for number in range(200):
            raws.append(Raw((LOOPBACK, node.tls_port)))
            with suppress(OSError):
                raws[-1].send(hello()[: number % 100])
        dropped = until(lambda: [raw for raw in raws if is_closed(raw)], "those that there is no room for")
        until(lambda: len([raw for raw in raws if is_closed(raw)]) >= 150, "all of them")
        assert dropped
        assert len(psutil.Process(node.pid).net_connections()) < 70
        assert node.rss() - before < 16 * MB
        for raw in raws:
            raw.close()
        until(node.serves_tls, "room for a client")

    def test_idle_clients_are_disconnected(self, make_tls: MakeTls) -> None:
        node = make_tls("--timeout", "1")
        node.start()
        assert node.secured().all() == b""

    @pytest.mark.slow
    def test_many_connections_leave_nothing_behind(self, make_tls: MakeTls) -> None:
        node = make_tls(auth="no")
        node.start()

        def visit(times: int) -> None:
            for number in range(times):
                with suppress(OSError, EOFError), closing(node.secured(None)) as raw:
                    assert raw.ask("PING") == b"PONG"
                    if number % 3 == 1:
                        raw.send(request("GETJOB", "FROM", "q"))
                    if number % 3 == 2:
                        raw.socket.unwrap()  # type: ignore[attr-defined]  # it is one with TLS
                node.hang_up()

        visit(200)
        before = node.rss()
        visit(600)
        until(lambda: node.info("connected_clients") == "1", "the end of all clients")
        assert node.rss() - before < 3 * MB, "5 KB a connection, where one that stays takes 30"


class TestNewCertificates:
    """The files are read anew while the node runs; clients that are there stay."""

    @staticmethod
    def put(directory: Path, who: str) -> None:
        for file in certificates.pair(who):
            (directory / f"own{Path(file).suffix}").write_bytes(Path(file).read_bytes())

    @staticmethod
    def shown(node: Tls) -> str:
        """The common name in the certificate of the node, which may be of any authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with socket.create_connection((LOOPBACK, node.tls_port)) as plain, context.wrap_socket(plain) as tls:
            der = tls.getpeercert(binary_form=True)
        assert der is not None
        return next(who for who in ("server", "client", "stranger") if who.encode() in der)

    def test_on_sighup(self, make_tls: MakeTls, tmp_path: Path) -> None:
        self.put(tmp_path, "server")
        own = [f"--tls-{kind}-file={tmp_path / f'own.{end}'}" for kind, end in (("cert", "crt"), ("key", "key"))]
        words = [word for option in own for word in option.split("=")]
        node = make_tls(*words, auth="no")
        node.start()
        there = node.secured(None)
        assert self.shown(node) == "server"
        self.put(tmp_path, "client")
        node.signal(signal.SIGHUP)
        node.await_log("The certificates were read anew")
        assert self.shown(node) == "client"
        (tmp_path / "own.key").write_text("nonsense")
        node.signal(signal.SIGHUP)
        node.await_log("Those that were read before stay in use")
        assert self.shown(node) == "client"
        assert there.ask("PING") == b"PONG"

    def test_by_config_set(self, node: Tls) -> None:
        certificate, key = certificates.pair("stranger")
        wrong = node.ask("CONFIG", "SET", "tls-cert-file", certificate)
        assert isinstance(wrong, ServerError)
        assert str(wrong).startswith("ERR Cannot use the certificates of tls-port")
        assert str(wrong).endswith("key values mismatch")
        assert node.ask("CONFIG", "GET", "tls-cert-file")[1].decode() == certificates.pair("server")[0]
        assert self.shown(node) == "server"
        assert node.ask("CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key) == b"OK"
        assert self.shown(node) == "stranger"
        assert node.ask("CONFIG", "SET", "tls-auth-clients", "no") == b"OK"
        assert self.shown(node) == "stranger"
        wrong = node.ask("CONFIG", "SET", "tls-auth-clients", "yes", "tls-ca-cert-file", "/no/such")
        assert isinstance(wrong, ServerError)
        assert node.ask("CONFIG", "GET", "tls-auth-clients")[1] == b"no"


class TestWrong:
    @pytest.mark.parametrize(
        ("option", "value", "line"),
        [
            ("tls-cert-file", "/no/such/file", "Cannot use the certificates of tls-port (/no/such/file with "),
            ("tls-key-file", certificates.pair("stranger")[1], "key values mismatch"),
            ("tls-ca-cert-file", "", "tls-port needs tls-ca-cert-file, or tls-auth-clients no"),
            ("tls-cert-file", "", "tls-port needs tls-cert-file and tls-key-file"),
        ],
    )
    def test_files_that_are_wrong_stop_the_start(self, make_tls: MakeTls, option: str, value: str, line: str) -> None:
        node = make_tls(f"--{option}", value)
        node.launch()
        assert node.ended() == 1
        assert line in node.log()

    def test_a_port_that_is_taken_stops_the_start(self, node: Tls, make_tls: MakeTls) -> None:
        other = make_tls("--tls-port", str(node.tls_port))
        other.launch()
        assert other.ended() == 1
        assert f"{LOOPBACK}:{node.tls_port}: Address already in use" in other.log()

    def test_nonsense_on_the_tls_port_harms_nobody(self, node: Tls) -> None:
        raws = []
        long = b"\x16\x03\x01\xff\xff" + bytes(70_000)
        for data in (b"\x16", long, b"GET / HTTP/1.1\r\n\r\n", hello()[:50] * 3, bytes(9)):
            raws.append(Raw((LOOPBACK, node.tls_port)))
            with suppress(OSError):
                raws[-1].send(data)
                raws[-1].end()
        for raw in raws:
            raw.all()
            raw.close()
        assert node.serves_tls()
        assert "Traceback" not in node.log()

    def test_bytes_that_were_changed_on_the_way_are_found_out(self, node: Tls) -> None:
        raw = node.secured()
        assert raw.ask("PING") == b"PONG"
        socket.socket.send(raw.socket, b"\x17\x03\x03\x00\x20" + bytes(32))
        assert raw.all() == b""
        node.await_log("TLS failed: decryption failed or bad record mac")

    def test_tls_on_the_plain_port_is_refused_at_once(self, node: Tls) -> None:
        started = time.monotonic()
        with pytest.raises(ssl.SSLError):
            Secured(node.port)
        assert time.monotonic() - started < PATIENCE_S / 2, "it does not wait until somebody gives up"
        with closing(node.raw()) as raw:
            raw.send(b"\x16")
            assert raw.all().startswith(b"-ERR Protocol error: this looks like TLS")


def omem(node: Node, raw: Raw) -> int:
    """What CLIENT LIST says of the output of a connection."""
    address = f"addr={LOOPBACK}:{raw.socket.getsockname()[1]} "
    for line in node.ask("CLIENT", "LIST").decode().splitlines():
        if address in line:
            return int(line.partition(" omem=")[2].split()[0])
    return 0


def hello() -> bytes:
    """The first bytes of a client with TLS."""
    outgoing = ssl.MemoryBIO()
    tls = certificates.trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=LOOPBACK)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def is_closed(raw: Raw) -> bool:
    """Whether the server has closed a connection on which it said nothing."""
    raw.socket.setblocking(False)
    try:
        return raw.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
