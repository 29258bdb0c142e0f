"""Links without sockets; what needs both ends is in test_bus.py."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.frames import enclosed
from cluster.handshake import Acceptor, Dialer, Identity
from cluster.link import SLICE_MESSAGES, Incoming, Outgoing, host_of
from cluster.messages import ENQUEUE, GOTJOB, Message, encode_message, frame
from cluster.peer import Peer

ME = Identity(b"a" * 40, 1, 7711, 17711)
ZED = Identity(b"f" * 40, 2, 7712, 17712)
NONCE = bytes(32)
JOB = b"j" * 40


def message(number: int) -> Message:
    return (ENQUEUE, JOB, number)


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.options: list[tuple[Any, ...]] = []
        self.aborted = False
        self.closed = False
        self.reading = True
        self.peer: tuple[str, int] | None = ("127.0.0.1", 5000)

    def get_extra_info(self, name: str) -> Any:
        if name == "socket":
            return SimpleNamespace(setsockopt=lambda *words: self.options.append(words))
        return self.peer

    def write(self, data: bytes) -> None:
        assert not self.aborted
        self.written.append(data)

    def set_write_buffer_limits(self, *_limits: int) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Timer:
    def __init__(self, call: Any) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Bus:
    """The loop, the bus and its owner at once."""

    def __init__(self) -> None:
        self.loop = self.owner = self
        self.secret = b""
        self.server_tls = None
        self.frame_most = 1 << 20
        self.queue_most = 1000
        self.large_most = 20_000
        self.bytes_sent = self.bytes_received = 0
        self.timers: list[Timer] = []
        self.calls: list[Any] = []
        self.events: list[Any] = []
        self.lines: list[str] = []
        self.messages: list[Message] = []
        self.now_s = 5.0

    def call_later(self, _delay_s: float, call: Any) -> Timer:
        self.timers.append(Timer(call))
        return self.timers[-1]

    def call_soon(self, call: Any) -> None:
        self.calls.append(call)

    def time(self) -> float:
        return self.now_s

    def nonce(self) -> bytes:
        return NONCE

    def identity(self) -> Identity:
        return ME

    def complain(self, _address: str, text: str) -> None:
        self.lines.append(text)

    def notice(self, text: str) -> None:
        self.lines.append(text)

    def received(self, _peer: bytes, messages: list[Message]) -> None:
        self.messages += messages

    def knock(self, _link: Incoming) -> str:
        return ""

    def objection(self, _link: Incoming) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        return lambda link: self.events.append((name, link))


def incoming() -> tuple[Incoming, Bus, Transport]:
    bus, transport = Bus(), Transport()
    link = Incoming(cast("Any", bus))
    link.connection_made(cast("Any", transport))
    return link, bus, transport


def entered() -> tuple[Incoming, Bus, Transport]:
    link, bus, transport = incoming()
    dialer = Dialer(ZED, b"", NONCE)
    link.data_received(enclosed(dialer.hello))
    link.data_received(enclosed(dialer.challenged(transport.written[-1][4:])))
    dialer.welcomed(transport.written[-1][4:])
    return link, bus, transport


def outgoing() -> tuple[Outgoing, Bus, Transport]:
    bus, transport = Bus(), Transport()
    link = Outgoing(cast("Any", bus), Peer(ZED.id, "127.0.0.1", 17712))
    link.connection_made(cast("Any", transport))
    link.introduce()
    acceptor = Acceptor(ZED, b"", NONCE)
    link.data_received(enclosed(acceptor.greeted(transport.written[-1][4:])))
    link.data_received(enclosed(acceptor.proven(transport.written[-1][4:])))
    return link, bus, transport


def test_a_link_is_proven_and_has_no_timer_any_more() -> None:
    for link, bus, _ in (entered(), outgoing()):
        assert link.proven
        assert link.peer == ZED
        assert [timer.cancelled for timer in bus.timers] == [True]
        assert link.reader.most == bus.frame_most


def test_a_handshake_may_come_byte_by_byte() -> None:
    link, _, transport = incoming()
    for byte in enclosed(Dialer(ZED, b"", NONCE).hello):
        assert transport.written == []
        link.data_received(bytes([byte]))
    assert len(transport.written) == 1


def test_an_incoming_link_counts_when_it_begins_to_speak() -> None:
    link, bus, _ = entered()
    assert bus.events == []
    link.data_received(b"\0")
    link.data_received(b"\0\0")
    assert bus.events == [("entered", link)]


def test_who_hangs_up_before_his_address_is_known_is_not_complained_about() -> None:
    bus, transport = Bus(), Transport()
    transport.peer = None
    link = Incoming(cast("Any", bus))
    link.connection_made(cast("Any", transport))
    assert link.closed
    assert transport.aborted
    assert bus.lines == []


def test_a_handshake_that_takes_too_long_is_given_up() -> None:
    link, bus, transport = incoming()
    bus.timers[0].call()
    assert transport.aborted
    assert "no handshake within 5 s" in bus.lines[0]
    link.connection_lost(None)
    assert bus.events == [("incoming_lost", link)]


def test_a_link_that_is_closed_takes_and_says_nothing_more() -> None:
    link, bus, transport = entered()
    link.close()
    link.data_received(frame([encode_message(message(1))]))
    assert bus.messages == []
    assert transport.aborted
    assert transport.options[-1][2] == b"\x01\0\0\0\0\0\0\0", "what was not sent is dropped by the system"


def test_the_other_side_hears_why_it_was_refused_if_it_can_understand_that() -> None:
    link, bus, transport = incoming()
    bus.secret = b"another"
    dialer = Dialer(ZED, b"", NONCE)
    link.data_received(enclosed(dialer.hello))
    link.data_received(enclosed(dialer.challenged(transport.written[-1][4:])))
    assert b"another cluster-secret" in transport.written[-1]
    assert transport.closed
    assert not transport.aborted


def test_messages_are_handed_on_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.link.SLICE_S", 0.0)
    link, bus, transport = entered()
    link.data_received(frame([encode_message(message(number)) for number in range(100)]) * 2)
    assert len(bus.messages) == SLICE_MESSAGES
    assert (link.busy, transport.reading) == (True, False)
    link.data_received(frame([encode_message(message(100))]))
    assert len(bus.messages) == SLICE_MESSAGES, "what comes all the same waits its turn"
    while bus.calls:
        bus.calls.pop()()
    assert bus.messages == [message(number) for number in [*range(100), *range(100), 100]]
    assert (link.busy, transport.reading) == (False, True)


def test_of_long_messages_a_slice_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.link.SLICE_S", 0.0)
    link, bus, _ = entered()
    long = [(GOTJOB, (b"%040d" % number,) * 1000) for number in range(3)]
    link.data_received(frame(list(map(encode_message, long))))
    assert bus.messages == long[:1], "the next look at the clock is after 1,000 IDs"
    while bus.calls:
        bus.calls.pop()()
    assert bus.messages == long


class TestDamage:
    """A bit that was changed in the length of a frame: all that came after it was taken for a part of it, for days."""

    @pytest.mark.parametrize("bit", range(10, 20))
    def test_a_frame_that_is_over_before_its_length_ends_the_link(self, bit: int) -> None:
        link, bus, transport = entered()
        data = bytearray(frame([encode_message(message(number)) for number in range(3)]))
        data[3 - bit // 8] ^= 1 << bit % 8
        link.data_received(bytes(data))
        for now_s in (5.0, 5.9):
            bus.now_s = now_s
            link.look(now_s)
            assert not transport.aborted
        link.data_received(frame([encode_message(message(3))]))
        link.look(6.0)
        assert transport.aborted
        assert bus.lines == [f"Closed the link of node {'f' * 40}: the length of a frame does not match what is in it"]
        assert not bus.messages

    def test_a_frame_that_takes_long_may_do_so(self) -> None:
        link, bus, transport = entered()
        data = frame([encode_message((GOTJOB, (JOB,) * 100))])
        for at in range(0, len(data), 50):
            bus.now_s += 2
            link.data_received(data[at : at + 50])
            link.look(bus.now_s)
        assert not transport.aborted
        assert bus.messages == [(GOTJOB, (JOB,) * 100)]


class TestChoked:
    def test_frames_wait_while_the_transport_has_enough_and_leave_in_order(self) -> None:
        link, _, transport = outgoing()
        transport.written.clear()
        link.send([message(0)], b"zero")
        link.pause_writing()
        link.send([message(1)], b"one")
        link.send([message(2)], b"two")
        assert transport.written == [b"zero"]
        assert link.queued_bytes == 6
        link.resume_writing()
        assert transport.written == [b"zero", b"one", b"two"]
        assert (len(link.queue), link.queued_bytes) == (0, 0)

    def test_only_so_much_waits_and_one_frame_more(self) -> None:
        link, bus, transport = outgoing()
        link.pause_writing()
        for number in range(3):
            link.send([message(number)], b"x" * 500)
        before = transport.aborted
        link.send([message(3)], b"x" * 500)
        assert [before, transport.aborted] == [False, True]
        assert "does not read" in bus.lines[-1]
        assert [messages for messages, _ in link.queue] == [[message(number)] for number in range(4)]

    def test_what_nodes_say_of_each_other_goes_before_what_waits_but_not_into_a_frame(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cluster.link.PIECE_BYTES", 2)
        link, _, transport = outgoing()
        transport.written.clear()
        link.pause_writing()
        link.send([message(1)], b"one")
        link.send([], b"ping", urgent=True)
        link.send([message(2)], [b"he", b"body"])
        link.send([], b"pong", urgent=True)
        link.resume_writing()
        assert b" ".join(transport.written) == b"ping pong one he bo dy"

    def test_a_large_frame_leaves_so_much_a_turn_and_nothing_comes_between(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cluster.link.PIECE_BYTES", 2)
        monkeypatch.setattr("cluster.link.TURN_BYTES", 3)
        link, bus, transport = outgoing()
        transport.written.clear()
        link.send([message(1)], [b"he", b"bodies"])
        assert transport.written == [b"he", b"bo"]
        link.send([], b"ping", urgent=True)
        link.send([message(2)], b"next")
        assert [messages for messages, _ in link.queue] == [[message(2)]], "of the first some bytes have left"
        while bus.calls:
            bus.calls.pop()()
        assert transport.written == [b"he", b"bo", b"di", b"es", b"ping", b"next"]
        assert (link.choked, link.queued_bytes) == (False, 0)
        link.send([message(3)], b"three")
        assert transport.written[-1] == b"three"

    def test_large_bodies_have_a_limit_of_their_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.link.LARGE_BODY", 4000)
        link, _, transport = outgoing()
        link.pause_writing()
        for number in range(5):
            link.send([message(number)], [b"head", b"x" * 5000])
        assert (link.queued_bytes, link.large_bytes, transport.aborted) == (20, 25_000, False)
        link.send([message(5)], [b"head", b"x" * 5000])
        assert transport.aborted, "more than all jobs may take: some of them must be done"

    def test_what_has_left_counts_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.link.LARGE_BODY", 4000)
        link, _, _ = outgoing()
        link.pause_writing()
        link.send([message(1)], [b"head", b"x" * 5000])
        assert (link.queued_bytes, link.large_bytes) == (4, 5000)
        link.resume_writing()
        assert (link.queued_bytes, link.large_bytes) == (0, 0)

    def test_the_end_lets_go_what_waits(self) -> None:
        link, _, transport = outgoing()
        link.pause_writing()
        link.send([message(1)], b"one")
        link.finish()
        assert transport.written[-1] == b"one"
        assert transport.closed
        assert not transport.aborted


@pytest.mark.parametrize(
    ("address", "host"),
    [(("10.0.0.1", 1), "10.0.0.1"), (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"), (("::1", 1, 0, 0), "::1"), (None, "?")],
)
def test_the_host_of_an_address(address: object, host: str) -> None:
    assert host_of(address) == host


def test_random_bytes_never_let_anybody_in() -> None:
    random = Random(1)
    for _ in range(300):
        link, bus, transport = incoming()
        while not transport.aborted and len(link.reader) < 5000:
            link.data_received(random.randbytes(random.randrange(1, 200)))
        assert not link.proven
        assert bus.events == []
