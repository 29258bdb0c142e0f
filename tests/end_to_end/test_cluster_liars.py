"""A member that lies: it knows the secret, is met, and then says what no node would say. The others stay well."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from random import Random
from typing import Any, Final

import pytest

from cluster.frames import enclosed
from cluster.handshake import Acceptor, Dialer, HandshakeError, Identity
from cluster.messages import FIELDS, KINDS, MEET, REPLJOB, YOURJOBS, encode_message, frame
from disque.core.model.key_store import DIGEST_BYTES
from tests.end_to_end.cluster import SECRET, Cluster, rows
from tests.end_to_end.node import LOOPBACK, Node, until
from tests.support.formats import encoded, yourjobs_row

BUS: Final = 10_000
LIAR: Final = b"1" * 40
STRANGER: Final = b"2" * 40
#: What lists are made of that stand behind a list of IDs and are as long.
LISTS: Final = {"numbers": 2**43 - 1, "stamps": 2**62 - 1, "bodies": b"b" * 1000}
#: The ID of nothing.
NO_ID: Final = b"z" * 40


class Wire:
    """Frames over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(30)
        self._data = b""

    def payload(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._data += data
        data, self._data = self._data[:size], self._data[size:]
        return data


class Liar:
    """A node as far as the handshake goes, both ways; what it hears it forgets."""

    def __init__(self, node: Node) -> None:
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = self._server.getsockname()[1]
        self._me = Identity(LIAR, 1 + int.from_bytes(os.urandom(7), "big"), self.port, self.port, LOOPBACK.encode())
        self._links: list[socket.socket] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self._wire = Wire(socket.create_connection((node.host, node.port + BUS)))
        dialer = Dialer(self._me, SECRET.encode(), os.urandom(32))
        self.send(enclosed(dialer.hello))
        self.send(enclosed(dialer.challenged(self._wire.payload())))
        dialer.welcomed(self._wire.payload())
        self.say((MEET, 0, LOOPBACK.encode(), self.port, self.port, ()))
        until(lambda: any(row.node_id == LIAR.decode() and row.connected for row in rows(node)), "the liar to be known")

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                self._links.append(sock)
                with suppress(OSError, EOFError, HandshakeError):
                    wire = Wire(sock)
                    acceptor = Acceptor(self._me, SECRET.encode(), os.urandom(32))
                    sock.sendall(enclosed(acceptor.greeted(wire.payload())))
                    sock.sendall(enclosed(acceptor.proven(wire.payload())))

    def say(self, *messages: tuple[Any, ...]) -> None:
        self.send(frame(list(map(encode_message, messages))))

    def send(self, data: bytes) -> None:
        self._wire.socket.sendall(data)

    def closed(self) -> bool:
        """Wait for the end of the link; False when something came instead."""
        try:
            return self._wire.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._listener.join()
        for sock in (*self._links, self._wire.socket):
            sock.close()


def some_id(random: Random) -> bytes:
    """Give the ID of nothing, of a node, or of one of some jobs that no node has made: at most once, at least once."""
    job_id = b"D-11111111-%024d-%04d" % (random.randrange(2000), random.choice([2, 3, 9999]))
    return random.choice([job_id, job_id, job_id, NO_ID, LIAR, STRANGER])


def some_spec(random: Random) -> bytes:
    """Give what jobs may have in common, or nonsense."""
    said = encoded(random.choice([60, 2**32 - 1, 2**43]), random.choice([0, 5]), random.choice([1, 9, 65536]))
    return random.choice([said, said, encoded(60, 5, 1, {98: 2**64 - 1, 99: b"x" * 900}), b"", b"\xff" * 300])


def lie(random: Random, field: str) -> Any:
    """Give a value that fits the field and means nothing, or the worst."""
    choices: dict[str, Callable[[], Any]] = {
        "number": lambda: random.choice([0, 1, 2, 3, 1000, 65536, 2**43 - 1]),
        "stamp": lambda: random.choice([0, 1, 2**62 - 1]),
        "bytes": lambda: random.choice([b"", b"q", b"k" * DIGEST_BYTES, b"\xff" * 300, b"x" * 70_000]),
        "id": lambda: some_id(random),
        "ids": lambda: tuple(sorted([some_id(random) for _ in range(random.randrange(5))])),
        "entries": lambda: (
            (
                random.choice([1, 1, 9]),
                b"q",
                b"",
                random.choice([b"", b"1", b"x"]),
                random.choice([0, 5, 2**61]),
                LIAR,
                0,
            ),
        ),
        "words": lambda: tuple(
            random.choices([b"", b"q", b"7", b"\xff" * 300, b"k" * DIGEST_BYTES, b"1 2"], k=random.randrange(4))
        ),
        "gossip": lambda: ((STRANGER, b"127.0.0.1", 1, 1, random.choice([0, 1, 2, 2**40])),),
        "jobs": lambda: (
            yourjobs_row(
                some_id(random),
                spec=some_spec(random),
                left_ms=2**43 - 1,
                ctime=random.choice([0, 2**62 - 1]),
                nacks=2**43 - 1,
                deliveries=random.choice([0, 5, 2**43 - 1]),
                holders=(some_id(random),),
            ),
        ),
    }
    return choices[field]()


def lies(random: Random, kind: int) -> tuple[Any, ...]:
    """Give a message of a kind, with fields that fit and lie."""
    fields = KINDS[kind][1].fields
    values: list[Any] = [kind]
    for name in fields:
        what = FIELDS[name]
        if name == "spec":
            values.append(some_spec(random))
        elif what in LISTS:
            values.append(tuple([LISTS[what]] * len(values[-1])))  # it stands behind its IDs
        else:
            values.append(lie(random, what))
    return tuple(values)


#: What closes the link: frames that no node makes.
FRAMES: Final = {
    "a kind with too few fields": lambda: frame([encode_message((REPLJOB, 0))]),
    "an ID that is too short": lambda: frame([encode_message((YOURJOBS + 1, (b"short",)))]),
    "a negative count": lambda: frame([encode_message((12, b"q", -1))]),
    "a count that lies": lambda: enclosed(b"\xdd\xff\xff\xff\xff\x00"),
    "a length that lies": lambda: enclosed(b"\x91\x92\x05\xc6\xff\xff\xff\xffx"),
    "no messages": lambda: enclosed(b"\xa3abc"),
    "nested without end": lambda: enclosed(b"\x91" * 100_000),
    "a frame that is too long": lambda: (0xFFFFFFF0).to_bytes(4, "big") + b"x" * 1000,
    "numbers beyond all bounds": lambda: frame([encode_message((12, b"q", 2**63))]),
}


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("liars"), 2)
    cluster.start_whole()
    yield cluster
    cluster.discard()


@pytest.fixture
def cluster(module_cluster: Cluster) -> Iterator[Cluster]:
    """Give two nodes with jobs that a liar must not touch: they are all there afterwards, once each."""
    first, second = module_cluster.members
    ids = {first.ask("ADDJOB", "held", b"%d" % at, 5000, "REPLICATE", 2, "RETRY", 300) for at in range(20)}
    yield module_cluster
    for node in module_cluster.members:
        assert node.process is not None
        assert "Traceback" not in node.log()
        for liar in (LIAR, STRANGER):
            node.ask("CLUSTER", "FORGET", liar)
    got: list[bytes] = []
    while len(got) < len(ids):
        jobs = second.ask("GETJOB", "TIMEOUT", 20_000, "COUNT", 20, "FROM", "held")
        assert jobs is not None, f"{len(got)} of {len(ids)} came"
        got += [job[1] for job in jobs]
    assert sorted(got) == sorted(ids)
    assert second.ask("ACKJOB", *got) == len(got)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_no_node_makes_ends_the_link(cluster: Cluster, make: Callable[[], bytes]) -> None:
    with closing(Liar(cluster.members[0])) as liar:
        liar.send(make())
        assert liar.closed()


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_all_kinds_that_fit_and_lie_harm_nobody(cluster: Cluster, seed: int) -> None:
    random = Random(seed)
    node = cluster.members[0]
    with closing(Liar(node)) as liar:
        for _ in range(20):
            kinds = random.choices(list(KINDS), k=20)
            liar.say(*[lies(random, kind) for kind in kinds], (999, b"a kind of tomorrow"))
            assert node.ask("PING") == b"PONG"
    assert node.ask("PING") == b"PONG"
