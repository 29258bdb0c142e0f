"""TLS of the shell and of the bench: whom a connection believes."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from disque.cli.client import ConnectError, Connection, Target
from disque.cli.client_tls import Trust, TrustError, context_of, reason, secure
from tests.support import certificates

CERTIFICATE, KEY = certificates.pair("client")
GOOD = Trust(cacert=certificates.AUTHORITY, cert=CERTIFICATE, key=KEY)


class TlsServer:
    """Answers each line with `+OK` over TLS; `hang_up` ends the connection with a goodbye or without."""

    def __init__(self, auth: ssl.VerifyMode = ssl.CERT_NONE) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates.pair("server"))
        context.load_verify_locations(certificates.AUTHORITY)
        context.verify_mode = auth
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connected: ssl.SSLSocket | None = None
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(connected, server_side=True) as self._connected:
                    while self._connected.recv(1000):
                        self._connected.sendall(b"+OK\r\n")

    def hang_up(self) -> None:
        if self._connected is not None:
            with suppress(OSError):
                self._connected.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[TlsServer]:
    made = TlsServer()
    yield made
    made.stop()


def connection(port: int, trust: Trust, host: str = "127.0.0.1") -> Connection:
    return Connection(Target(addresses=[(host, port)], trust=trust), print, print)


def test_a_server_that_the_authority_knows_by_this_name_is_believed(server: TlsServer) -> None:
    for host in ("127.0.0.1", "localhost"):
        with closing(connection(server.port, GOOD, host)) as connected:
            connected.connect()
            assert connected.call([b"PING"]) == b"OK"


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        (Trust(), "its certificate is not trusted: self-signed certificate in certificate chain"),
        (GOOD._replace(sni="other.example.org"), "Hostname mismatch"),
    ],
)
def test_others_are_not(server: TlsServer, trust: Trust, why: str) -> None:
    with pytest.raises(ConnectError, match=rf"Could not connect to Disque at 127.0.0.1:\d+: .*{why}"):
        connection(server.port, trust).connect()


@pytest.mark.parametrize("trust", [GOOD._replace(sni=certificates.NAME), Trust(insecure=True)])
def test_another_name_or_none_can_be_asked_for(server: TlsServer, trust: Trust) -> None:
    with closing(connection(server.port, trust)) as connected:
        connected.connect()
        assert connected.call([b"PING"]) == b"OK"


@pytest.mark.parametrize("name", [".", ".example.org", "a..b", "x" * 70])
def test_a_name_that_can_be_none_is_an_error_like_others(server: TlsServer, name: str) -> None:
    with pytest.raises(ConnectError, match="Could not connect"):
        connection(server.port, GOOD._replace(sni=name)).connect()


def test_a_server_without_tls_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as accepted:
                accepted.recv(1000)
                accepted.sendall(b"-ERR Protocol error\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectError, match="TLS failed: wrong version number"):
            connection(listener.getsockname()[1], GOOD).connect()
        thread.join()


def test_alive_sees_an_end_and_leaves_replies_where_they_are(server: TlsServer) -> None:
    with closing(connection(server.port, GOOD)) as connected:
        connected.connect()
        assert connected.alive()
        connected.send([b"PING"])
        for _ in range(1000):
            assert connected.alive()
        assert connected.receive() == b"OK"
        server.hang_up()
        while connected.alive():  # the news travels over loopback
            pass
        assert not connected.is_open


class TestFiles:
    @pytest.mark.parametrize(
        ("trust", "message"),
        [
            (Trust(cert=CERTIFICATE), "--cert and --key belong together"),
            (Trust(key=KEY), "--cert and --key belong together"),
            (Trust(cacert="/no/such/file"), "Cannot use /no/such/file: No such file or directory"),
            (Trust(cacert="no-such"), f"Cannot use {Path.cwd()}/no-such: No such file or directory"),
            (
                Trust(cert=CERTIFICATE, key=certificates.pair("stranger")[1]),
                "client.crt with .*: TLS failed: key values",
            ),
            (Trust(cert="/no/such/file", key=KEY), "Cannot use /no/such/file with "),
        ],
    )
    def test_what_cannot_be_used_is_named(self, trust: Trust, message: str) -> None:
        with pytest.raises(TrustError, match=message):
            context_of(trust)

    def test_files_are_read_once(self) -> None:
        assert context_of(GOOD) is context_of(Trust(*GOOD))

    def test_who_believes_everybody_says_so(self) -> None:
        assert context_of(GOOD).verify_mode is ssl.CERT_REQUIRED
        assert context_of(GOOD).check_hostname
        assert context_of(Trust(insecure=True)).verify_mode is ssl.CERT_NONE

    def test_files_that_are_wrong_end_a_connection(self, server: TlsServer) -> None:
        with pytest.raises(ConnectError, match="Cannot use /no/such/file"):
            connection(server.port, Trust(cacert="/no/such/file")).connect()


def test_the_socket_that_is_given_owns_the_connection(server: TlsServer) -> None:
    with secure(socket.create_connection(("127.0.0.1", server.port)), "127.0.0.1", GOOD) as secured:
        secured.sendall(b"PING\r\n")
        assert secured.recv(100) == b"+OK\r\n"


def test_reasons_are_words() -> None:
    assert reason(OSError(2, "No such file or directory")) == "No such file or directory"
    assert reason(OSError("no number")) == "no number"
