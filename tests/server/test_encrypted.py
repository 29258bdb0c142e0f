"""A client with TLS on a transport without a socket: OpenSSL on both sides, turns taken by hand."""

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

import pytest
import uvloop

from disque.core.config.settings import Config
from disque.server import encrypted
from disque.server.encrypted import HANDSHAKE_S, SLICE_BYTES, Encrypted, TlsListener
from disque.server.pump import HANDSHAKES_BESIDE
from disque.server.tls import client_context
from tests.server.shell import PEER, Shell, Transport
from tests.support import certificates

PING: Final = b"PING\r\n"
PONG: Final = b"+PONG\r\n"


class Loop:
    """What the shell of these tests has not: the time."""

    @staticmethod
    def time() -> float:
        return 1.0


class Raw(Transport):
    """A transport of the loop, asked as asyncio does."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return super().get_extra_info(name) or default


class Client:
    """The other side: its own OpenSSL, and the server's transport."""

    def __init__(self, door: "Door", who: str | None = "client", context: ssl.SSLContext | None = None) -> None:
        self.door = door
        self.transport = Raw(door.peer)
        self.server = Encrypted(door.listener)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or certificates.trusting(who)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=certificates.NAME)
        self.server.connection_made(cast("Any", self.transport))

    def step(self, act: Callable[[], Any]) -> Any:
        """Do something, and carry what it makes to the server and back; None when more has to come."""
        try:
            return act()
        except ssl.SSLWantReadError:
            return None
        finally:
            self.carry()

    def carry(self) -> None:
        data = self.outgoing.read()
        if data and not self.transport.is_closing():
            self.server.data_received(data)
        self.door.shell.loop.settle()
        self.incoming.write(self.transport.take())

    def shake_hands(self) -> "Client":
        for _ in range(3):  # as many as the older version needs
            self.step(self.tls.do_handshake)
        return self

    def say(self, data: bytes) -> bytes:
        """Send and give what is answered; whatever is there, in one piece."""
        self.tls.write(data)
        self.carry()
        return self.hear()

    def hear(self) -> bytes:
        pieces = []
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while piece := self.step(lambda: self.tls.read(1 << 20)):
                pieces.append(piece)
        return b"".join(pieces)

    def is_read(self) -> bool:
        return self.transport.reading

    def lose(self) -> None:
        self.server.connection_lost(None)
        self.door.shell.loop.settle()


class Door:
    """A shell with a listener for TLS."""

    def __init__(self, auth: str = "yes", **options: str) -> None:
        self.shell = Shell(**options)
        cast("Any", self.shell.loop).time = Loop.time
        self.peer: object = PEER
        config = Config()
        for name, value in certificates.options(auth).items():
            config.put(name, (value,))
        self.listener = TlsListener(self.shell.pump, client_context(config))

    def client(self, who: str | None = "client", context: ssl.SSLContext | None = None) -> Client:
        return Client(self, who, context)

    @property
    def sessions(self) -> int:
        return len(self.shell.pump.connections)

    @property
    def handshakes(self) -> int:
        assert self.shell.pump.handshakes == len(self.listener.waiting)
        return self.shell.pump.handshakes

    def timers(self) -> int:
        """Handshakes that will be over at some time."""
        return sum(handle.delay_s == HANDSHAKE_S for handle in self.shell.loop.waiting())

    @property
    def lines(self) -> list[str]:
        return self.shell.log.lines


class TestServing:
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_a_client_is_served_like_any_other(self, version: ssl.TLSVersion) -> None:
        door = Door()
        context = certificates.trusting()
        context.minimum_version = context.maximum_version = version
        client = door.client(context=context).shake_hands()
        assert client.tls.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2"}.get(version, "TLSv1.3")
        assert client.say(PING * 3) == PONG * 3
        assert door.sessions == 1
        assert door.lines == []

    def test_a_certificate_can_name_the_user(self) -> None:
        door = Door()
        node = door.shell.pump.node
        admin = door.client().shake_hands()
        admin.say(b"ACL SETUSER client on +acl|whoami\r\n")
        assert door.client().shake_hands().say(b"ACL WHOAMI\r\n") == b"$7\r\ndefault\r\n"
        node.config.set_text("tls-auth-clients-user", "cn")
        assert door.client().shake_hands().say(b"ACL WHOAMI\r\n") == b"$6\r\nclient\r\n"
        admin.say(b"ACL SETUSER client off\r\n")
        assert door.client().shake_hands().say(b"ACL WHOAMI\r\n") == b"$7\r\ndefault\r\n"
        assert node.stats.certificates_denied == 1

    def test_without_a_certificate_there_is_no_name(self) -> None:
        door = Door("optional")
        door.shell.pump.node.config.set_text("tls-auth-clients-user", "CN")
        assert door.client(None).shake_hands().say(b"ACL WHOAMI\r\n") == b"$7\r\ndefault\r\n"
        assert door.client("client").shake_hands().say(b"ACL WHOAMI\r\n") == b"$7\r\ndefault\r\n"

    def test_older_versions_are_not_spoken(self) -> None:
        assert Door().listener.context.minimum_version == ssl.TLSVersion.TLSv1_2

    def test_bytes_may_come_one_by_one(self) -> None:
        door = Door()
        client = door.client()
        for _ in range(2):
            with contextlib.suppress(ssl.SSLWantReadError):
                client.tls.do_handshake()
            for byte in client.outgoing.read():
                client.server.data_received(bytes([byte]))
            client.carry()
        client.tls.write(PING)
        for byte in client.outgoing.read():
            client.server.data_received(bytes([byte]))
        client.carry()
        assert client.hear() == PONG

    def test_a_request_that_comes_with_the_end_of_the_handshake_is_served(self) -> None:
        client = Door().client()
        client.step(client.tls.do_handshake)
        client.tls.do_handshake()
        assert client.say(PING) == PONG

    def test_a_large_reply_is_encrypted_in_slices_and_whole(self) -> None:
        client = Door().client().shake_hands()
        body = b"x" * (3 * SLICE_BYTES + 7)
        assert client.say(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(body), body)).endswith(body + b"\r\n")

    def test_what_is_not_sent_is_what_the_transport_has(self) -> None:
        client = Door().client().shake_hands()
        client.transport.unsent = 12345
        assert client.server.get_write_buffer_size() == 12345
        assert client.server.get_extra_info("peername") == PEER

    def test_a_client_that_does_not_read_is_not_served_further(self) -> None:
        door = Door()
        client = door.client().shake_hands()
        client.server.pause_writing()
        assert len(door.shell.pump.choked) == 1
        assert client.say(PING) == b""
        client.server.resume_writing()
        client.carry()
        assert client.hear() == PONG
        assert not door.shell.pump.choked

    def test_a_client_that_waits_is_not_read_without_end(self) -> None:
        door = Door()
        client = door.client().shake_hands()
        client.say(b"GETJOB FROM q\r\n")
        for _ in range(20):
            client.tls.write(PING * 10_000)
            client.carry()
        reading = [client.transport.reading]
        door.client().shake_hands().say(b"ADDJOB q body 0\r\n")
        reading.append(client.transport.reading)
        assert reading == [False, True]
        client.carry()
        assert client.hear().endswith(PONG * 10_000)


class TestEnd:
    def test_who_says_goodbye_still_gets_the_answers(self) -> None:
        client = Door().client().shake_hands()
        client.tls.write(PING * 3000)
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.carry()
        assert client.transport.closed
        client.incoming.write(client.transport.take())
        assert client.hear() == PONG * 3000
        with pytest.raises(ssl.SSLZeroReturnError):
            client.tls.read(1)

    def test_so_does_who_only_closes_its_side(self) -> None:
        client = Door().client().shake_hands()
        client.tls.write(PING)
        client.server.data_received(client.outgoing.read())
        assert client.server.eof_received()
        assert client.server.eof_received(), "a second end is none"
        client.carry()
        assert client.tls.read(100) == PONG
        assert client.transport.closed

    def test_what_comes_behind_a_goodbye_is_thrown_away(self) -> None:
        client = Door().client().shake_hands()
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.server.data_received(client.outgoing.read())
        for _ in range(100):
            client.server.data_received(b"\x17\x03\x03" * 1000)
        assert client.server._incoming.pending == 0

    def test_the_server_says_goodbye_behind_the_last_reply(self) -> None:
        client = Door().client().shake_hands()
        assert client.say(b"QUIT\r\n") == b"+OK\r\n"
        assert client.transport.closed
        assert client.tls.read(1) == b""

    def test_nothing_is_written_or_closed_twice_behind_the_end(self) -> None:
        client = Door().client().shake_hands()
        client.server.close()
        client.transport.take()
        client.server.write(b"late")
        client.server.close()
        assert client.transport.written == b""
        assert client.server.is_closing()

    def test_a_broken_record_ends_the_connection(self) -> None:
        door = Door()
        client = door.client().shake_hands()
        client.server.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert client.transport.aborted
        client.lose()
        assert door.sessions == 0
        assert door.lines == ["TLS failed: decryption failed or bad record mac (addr=127.0.0.1)"]

    def test_nothing_refers_to_itself_when_it_is_over(self) -> None:
        door = Door()
        client = door.client().shake_hands()
        client.say(PING)
        client.server.connection_lost(None)
        assert client.server._connection is None
        assert client.server._tls is None
        assert client.server._timer is None
        assert door.sessions == 0


class TestTinyRecords:
    """Each turn is long from its beginning on, and so is each look at what is left: one slice each."""

    @pytest.fixture
    def door(self, monkeypatch: pytest.MonkeyPatch) -> Door:
        monkeypatch.setattr(encrypted, "LEFT_S", 0.0)
        door = Door()
        door.shell.pump.turn_most_s = -1.0
        return door

    @staticmethod
    def records(client: Client, data: bytes) -> bytes:
        """Each byte in a record of its own."""
        for at in range(len(data)):
            client.tls.write(data[at : at + 1])
        return client.outgoing.read()

    @staticmethod
    def hello(client: Client) -> bytes:
        """The first message of a handshake, in such records."""
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        return b"".join(b"\x16\x03\x01\0\1%c" % byte for byte in client.outgoing.read()[5:])

    def test_they_are_taken_over_many_turns_and_nothing_of_them_is_lost(self, door: Door) -> None:
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, PING * 500))
        assert door.shell.node.stats.net_in < 100, "only the first slice was decrypted"
        assert not client.is_read()
        turns, last = 0, 0
        while not client.is_read():
            door.shell.loop.turn()
            turns += 1
            came = door.shell.node.stats.net_in - last
            assert came < 2 * encrypted.TAKE_BYTES // 22
            last += came
        assert turns > 5
        assert door.shell.node.stats.net_in == len(PING) * 500
        client.carry()
        assert client.hear() == PONG * 500

    def test_others_are_served_between(self, door: Door) -> None:
        busy, other = door.client().shake_hands(), door.client().shake_hands()
        busy.server.data_received(self.records(busy, b"\n" * 5000))
        other.tls.write(PING)
        other.server.data_received(other.outgoing.read())
        for _ in range(4):
            door.shell.loop.turn()
        other.incoming.write(other.transport.take())
        assert other.tls.read(100) == PONG
        assert not busy.is_read(), "this one is not through"

    def test_those_who_have_something_left_take_turns(self, door: Door) -> None:
        clients = [door.client().shake_hands() for _ in range(3)]
        for client in clients:
            client.server.data_received(self.records(client, b"\n" * 2000))
        through: list[Client] = []
        while len(through) < 3:
            sizes = [len(client.server._left) for client in clients]
            assert max(sizes) - min(sizes) <= encrypted.TAKE_BYTES
            door.shell.loop.turn()
            through += [client for client in clients if client.is_read() and client not in through]
        assert through == clients
        door.shell.loop.settle()
        assert not door.listener.left

    def test_a_goodbye_is_heard_behind_all_of_them(self, door: Door) -> None:
        client = door.client().shake_hands()
        data = self.records(client, PING * 300)
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.server.data_received(data + client.outgoing.read())
        door.shell.loop.turn()
        assert not client.server._ended
        door.shell.loop.settle()
        assert client.transport.closed
        client.incoming.write(client.transport.take())
        assert client.hear() == PONG * 300

    def test_so_is_an_end_without_one(self, door: Door) -> None:
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, PING * 300))
        assert client.server.eof_received()
        assert not client.server._ended
        door.shell.loop.settle()
        assert client.transport.closed
        client.incoming.write(client.transport.take())
        assert client.hear() == PONG * 300

    @pytest.mark.parametrize("end", ["connection_lost", "close", "abort"])
    def test_nothing_goes_on_behind_the_end(self, door: Door, end: str) -> None:
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, PING * 300))
        came = door.shell.node.stats.net_in
        getattr(client.server, end)(*[None] * (end == "connection_lost"))
        door.shell.loop.settle()
        assert door.shell.node.stats.net_in == came
        assert not client.server._left
        assert not door.listener.left
        assert not client.is_read(), "nobody asks for more"

    def test_a_broken_record_among_them_ends_the_connection(self, door: Door) -> None:
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, PING * 300) + b"\x17\x03\x03\x00\x20" + bytes(32))
        assert not door.lines
        door.shell.loop.settle()
        assert client.transport.aborted
        assert door.lines == ["TLS failed: decryption failed or bad record mac (addr=127.0.0.1)"]

    def test_the_socket_is_read_when_nothing_is_left_and_the_connection_wants_to(self, door: Door) -> None:
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, b"\n" * 500))
        client.server.pause_reading()
        door.shell.loop.settle()
        assert not client.server._left
        assert not client.is_read()
        client.server.resume_reading()
        assert client.is_read()
        client.server.pause_reading()
        assert not client.is_read()
        client.server.resume_reading()
        client.server.data_received(self.records(client, b"\n" * 500))
        client.server.pause_reading()
        client.server.resume_reading()
        assert not client.is_read(), "something is left"
        client.server.data_received(self.records(client, PING))
        door.shell.loop.settle()
        assert client.is_read()
        assert client.hear() == b""
        client.carry()
        assert door.shell.node.stats.net_in == 1000 + len(PING)

    def test_a_handshake_takes_its_turns_too(self, door: Door) -> None:
        client = door.client()
        client.server.data_received(self.hello(client))
        assert client.transport.written == b""
        assert not client.is_read()
        client.carry()
        client.shake_hands()
        assert client.say(PING) == PONG

    def test_who_hangs_up_in_a_handshake_is_noticed_behind_what_came(self, door: Door) -> None:
        client = door.client()
        client.server.data_received(self.hello(client))
        assert client.server.eof_received()
        door.shell.loop.settle()
        assert client.transport.closed
        assert len(door.lines) == 1

    def test_a_turn_that_is_not_long_takes_all_at_once(self, door: Door) -> None:
        door.shell.pump.turn_most_s = 3600.0
        client = door.client().shake_hands()
        client.server.data_received(self.records(client, b"\n" * 5000))
        assert door.shell.node.stats.net_in == 5000
        assert client.is_read()

    def test_a_record_that_is_not_whole_leaves_no_turn_open(self, door: Door) -> None:
        client = door.client().shake_hands()
        door.shell.loop.settle()
        client.server.data_received(b"\x17\x03")
        assert door.shell.pump.turn_s == 0.0


class TestHandshake:
    def test_who_says_nothing_costs_no_more_than_a_socket(self) -> None:
        door = Door()
        client = door.client()
        assert client.server._tls is None
        assert (door.handshakes, door.sessions, door.timers()) == (1, 0, 1)

    def test_it_is_over_after_some_seconds(self) -> None:
        door = Door()
        client = door.client()
        client.step(client.tls.do_handshake)
        [handle] = [handle for handle in door.shell.loop.waiting() if handle.delay_s == HANDSHAKE_S]
        handle.call()
        assert client.transport.closed
        assert door.handshakes == 0
        assert door.lines == ["A client did not finish the TLS handshake within 10 s (addr=127.0.0.1)"]

    def test_a_client_is_none_before_its_end_and_its_timer_goes_with_it(self) -> None:
        door = Door()
        client = door.client()
        client.step(client.tls.do_handshake)
        assert (door.handshakes, door.sessions, door.timers()) == (1, 0, 1)
        client.step(client.tls.do_handshake)
        assert (door.handshakes, door.sessions, door.timers()) == (0, 1, 0)

    def test_who_hangs_up_before_the_first_byte_is_no_line_in_the_log(self) -> None:
        door = Door()
        client = door.client()
        assert not client.server.eof_received()
        client.lose()
        assert (door.handshakes, door.lines) == (0, [])

    def test_who_hangs_up_later_is_one(self) -> None:
        door = Door()
        client = door.client()
        client.step(client.tls.do_handshake)
        assert not client.server.eof_received()
        client.lose()
        assert (door.handshakes, door.lines) == (0, ["A client broke off the TLS handshake (addr=127.0.0.1)"])

    def test_plain_text_is_answered_in_plain_text(self) -> None:
        door = Door()
        client = door.client()
        client.server.data_received(PING)
        assert client.transport.written == b"-ERR this port speaks TLS, and the client does not\r\n"
        assert client.transport.closed
        assert door.lines == ["A client without TLS connected to the TLS port (addr=127.0.0.1)"]

    def test_nonsense_that_begins_like_tls_is_closed(self) -> None:
        door = Door()
        client = door.client()
        client.server.data_received(b"\x16\x03\x01\x00\x05hello")
        client.server.data_received(b"more")
        assert client.transport.closed
        assert len(door.lines) == 1

    def test_each_address_has_one_line_a_minute(self) -> None:
        door = Door()
        for _ in range(10):
            door.client().server.data_received(PING)
        door.peer = ("127.0.0.2", 5000)
        door.client().server.data_received(PING)
        assert len(door.lines) == 2

    def test_a_fault_of_ours_closes_the_client_and_is_logged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_words: object) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(encrypted, "Connection", broken)
        door = Door()
        client = door.client()
        client.step(client.tls.do_handshake)
        client.step(client.tls.do_handshake)
        assert client.transport.aborted
        assert door.handshakes == 0
        assert "RuntimeError: a fault" in door.lines[0]


class TestWhoIsLetIn:
    @pytest.mark.parametrize(
        ("auth", "who", "let_in"),
        [
            ("yes", "client", True),
            ("yes", None, False),
            ("yes", "stranger", False),
            ("optional", "client", True),
            ("optional", None, True),
            ("optional", "stranger", False),
            ("no", "client", True),
            ("no", None, True),
            ("no", "stranger", True),
        ],
    )
    def test_certificates(self, auth: str, who: str | None, let_in: bool) -> None:
        door = Door(auth)
        client = door.client(who).shake_hands()
        assert door.sessions == let_in
        assert client.transport.closed is not let_in
        assert len(door.lines) == (not let_in)
        if not let_in:
            with pytest.raises(ssl.SSLError, match="alert"):
                client.tls.read(1)

    def test_the_log_says_what_is_wrong_with_a_certificate(self) -> None:
        door = Door()
        door.client(None).shake_hands()
        assert door.lines == ["TLS failed: peer did not return a certificate (addr=127.0.0.1)"]
        door = Door()
        door.client("stranger").shake_hands()
        assert door.lines[0].startswith("TLS failed: the certificate is not trusted: ")

    def test_protected_mode_counts_behind_tls(self) -> None:
        door = Door()
        door.peer = ("192.0.2.7", 5000)
        assert door.client().shake_hands().hear().startswith(b"-DENIED")

    def test_one_client_too_many_is_told_so(self) -> None:
        door = Door()
        door.shell.pump.maxclients = 1
        first, late = door.client().shake_hands(), door.client().shake_hands()
        assert first.say(PING) == PONG
        assert late.hear() == b"-ERR max number of clients reached\r\n"
        assert late.transport.closed
        late.lose()
        assert (door.sessions, door.handshakes) == (1, 0)

    def test_handshakes_are_bounded_by_maxclients_too(self) -> None:
        door = Door()
        door.shell.pump.maxclients = 2
        clients = [door.client() for _ in range(2 + HANDSHAKES_BESIDE + 5)]
        assert door.handshakes == 2 + HANDSHAKES_BESIDE
        assert [client.transport.aborted for client in clients[-6:]] == [False] + [True] * 5
        assert door.shell.node.stats.rejected == 5
        _, plain = door.shell.connect()
        assert plain.written == b"-ERR max number of clients reached\r\n"
        for client in clients:
            client.lose()
        assert door.handshakes == 0
        assert door.client().shake_hands().say(PING) == PONG

    def test_a_server_that_stops_ends_handshakes_and_begins_none(self) -> None:
        door = Door()
        early, client = door.client(), door.client().shake_hands()
        door.shell.pump.stopping = True
        door.listener.close()
        late = door.client()
        assert (early.transport.aborted, late.transport.aborted, client.transport.is_closing()) == (True, True, False)
        assert door.handshakes == 0


class Visitor:
    """A client with a socket of its own, for the loop that servers have."""

    def __init__(self, port: int) -> None:
        self.port = port

    def _open(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port), 10)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _secured(self) -> ssl.SSLSocket:
        return certificates.trusting().wrap_socket(self._open(), server_hostname="127.0.0.1")

    def asks(self) -> None:
        with self._secured() as secured:
            secured.sendall(PING)
            assert secured.recv(100) == PONG

    def says_goodbye(self) -> None:
        with self._secured() as secured:
            secured.sendall(PING + b"QUIT\r\n")
            while secured.recv(100):
                pass

    def is_gone_while_it_waits(self) -> None:
        with self._secured() as secured:
            secured.sendall(b"GETJOB FROM q\r\n")

    def speaks_no_tls(self) -> None:
        with self._open() as opened:
            opened.sendall(PING)
            while opened.recv(100):
                pass

    def breaks_off(self) -> None:
        with self._open() as opened:
            opened.sendall(b"\x16\x03\x01\x02")

    def says_nothing(self) -> None:
        self._open().close()

    def breaks_a_record(self) -> None:
        with self._secured() as secured, contextlib.suppress(OSError):
            socket.socket.send(secured, b"\x17\x03\x03\x00\x20" + bytes(32))
            while secured.recv(100):
                pass

    def is_no_client(self) -> None:
        context = certificates.trusting(None)
        with contextlib.suppress(OSError), context.wrap_socket(self._open(), server_hostname="127.0.0.1") as secured:
            secured.recv(100)

    def visit(self, times: int) -> None:
        for _ in range(times):
            self.asks()
            self.says_goodbye()
            self.is_gone_while_it_waits()
            self.speaks_no_tls()
            self.breaks_off()
            self.says_nothing()
            self.breaks_a_record()
            self.is_no_client()


async def garbage_of(visit: Callable[[int], None], door: Door) -> int:
    """How many objects only the cyclic collector finds after many connections."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, visit, 3)
    gc.collect()
    gc.disable()
    try:
        await loop.run_in_executor(None, visit, 25)
        for _ in range(10_000):
            await asyncio.sleep(0.001)
            if not door.sessions and not door.handshakes:
                break
        return gc.collect()
    finally:
        gc.enable()


def test_connections_leave_nothing_for_the_cyclic_collector(new_port: Callable[[], int]) -> None:
    port = new_port()

    async def scene() -> None:
        door = Door()
        door.shell.pump.loop = asyncio.get_running_loop()
        await door.listener.listen(("127.0.0.1",), port, 16)
        found.append(await garbage_of(Visitor(port).visit, door))
        door.listener.close()

    found: list[int] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
    assert found == [0]
