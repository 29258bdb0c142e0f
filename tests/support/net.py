"""Several node cores in one process, joined by links of which the test decides what arrives when.

A link from one node to another is a queue: `deliver` hands its oldest message over, `cut` loses what is in it, `join`
makes it anew. `crash` takes a node away with all its links and clients; `start` brings it back with what its journal
says, or with nothing. Nobody is ever taken for failed unless `fail` says so. No clock but ``now_ms``.
"""

from collections import deque
from random import Random
from typing import Any

import hiredis

from cluster.membership import PFAIL, Member, Membership
from cluster.messages import decode, encode_message, frame
from disque.core import links, step
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.dedup.keys import digest_of
from disque.core.jobs import sessions
from disque.core.journal import codec
from disque.core.journal import replay as journal
from disque.core.model.key import SETTLED
from disque.core.model.session import Session
from disque.core.node import Node
from tests.core.support import IDLE_TURNS, assert_counters_are_true
from tests.support.keys import K, keys
from tests.support.nodes import START_MS, NotedHost, node_id


class Asker:
    """One client with one ADDJOB under way; ``reply`` is None until it is answered, an error as text."""

    def __init__(self, session: Session, key: bytes, asked_ms: int) -> None:
        self.session = session
        self.key = key
        self.asked_ms = asked_ms
        self.reply: bytes | str | None = None


class Place:
    """A node, up or down, with its journal and its clients."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = node_id(number)
        self.node: Node | None = None
        self.payloads: list[bytes] = []
        self.askers: list[Asker] = []
        self.starts = 0


class Net:
    """``count`` nodes that all know each other, all links up."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.now_ms = START_MS
        self.seed = seed
        self.places = {node_id(number): Place(number) for number in range(1, count + 1)}
        self.wires: dict[tuple[bytes, bytes], deque[bytes]] = {}
        self.failed: set[tuple[bytes, bytes]] = set()
        self.asked: list[Asker] = []
        #: Turns in a row in which only time went on.
        self.idle = 0
        for place in self.places.values():
            self.start(place.number)

    def place(self, number: int) -> Place:
        return self.places[node_id(number)]

    def node(self, number: int) -> Node:
        found = self.place(number).node
        assert found is not None
        return found

    def up(self) -> list[Place]:
        return [place for place in self.places.values() if place.node is not None]

    # -- clients -------------------------------------------------------------------------------------------------------

    def ask(self, number: int, key: bytes, *options: Any, timeout: int = 0) -> Asker:
        """A new client of a node sends ADDJOB with a UNIQUE key."""
        place, node = self.place(number), self.node(number)
        session = sessions.connect(node, node.stats.connections + 1, b"", b"", self.now_ms)
        asker = Asker(session, key, self.now_ms)
        words = [b"ADDJOB", b"q", b"body", timeout, b"UNIQUE", key, *options]
        args = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        place.askers.append(asker)
        self.asked.append(asker)
        step.command(node, session, args, self.now_ms)
        self.flush(place)
        return asker

    def run(self, number: int, *words: Any) -> Any:
        """Another command of a new client, answered at once."""
        node = self.node(number)
        session = sessions.connect(node, node.stats.connections + 1, b"", b"", self.now_ms)
        step.command(node, session, [str(w).encode() if not isinstance(w, bytes) else w for w in words], self.now_ms)
        self.flush(self.place(number))
        reader = hiredis.Reader()
        reader.feed(b"".join(session.out))
        return reader.gets()

    # -- messages ------------------------------------------------------------------------------------------------------

    def flush(self, place: Place, *, is_idle: bool = False) -> None:
        """The end of a turn: records are written, messages and replies leave. In idle ones it is rarely counted."""
        node = place.node
        assert node is not None
        step.settle(node, self.now_ms)
        self.idle = self.idle + 1 if is_idle else 0
        if self.idle % IDLE_TURNS == 0:
            assert_counters_are_true(node)
        records = node.outbox.take()
        if records:
            place.payloads += codec.encode(records, self.now_ms)
        sent = [*node.early, *node.messages]
        node.early.clear()
        node.messages.clear()
        node.membership.messages.clear()
        for peer, message in sent:
            wire = self.wires.get((place.id, peer))
            if wire is not None:
                wire.append(frame([encode_message(message)])[4:])
            else:
                step.undelivered(node, peer, [message], self.now_ms)
        for asker in place.askers:
            if asker.session.out and asker.reply is None:
                reader = hiredis.Reader()
                reader.feed(b"".join(asker.session.out))
                reply = reader.gets()
                asker.reply = str(reply) if isinstance(reply, hiredis.ReplyError) else reply
        if node.retries or node.unique.ended or node.batches:
            self.flush(place)

    def deliver(self, source: bytes, target: bytes) -> None:
        """The oldest message on a link arrives."""
        data = self.wires[source, target].popleft()
        place = self.places[target]
        assert place.node is not None
        for message in decode(data):
            step.message(place.node, source, message, self.now_ms)
        self.flush(place)

    def busy(self) -> list[tuple[bytes, bytes]]:
        """The links on which something is under way."""
        return [ends for ends, wire in self.wires.items() if wire]

    def calm(self) -> None:
        """Everything that is under way arrives, and what follows from it in the same moment."""
        for _ in range(100_000):
            busy = self.busy()
            if not busy:
                self.advance(0)
                busy = self.busy()
            if not busy:
                return
            self.deliver(*busy[0])
        raise AssertionError("messages without an end")

    # -- links and lives -----------------------------------------------------------------------------------------------

    def join(self, source: bytes, target: bytes) -> None:
        """A new link."""
        one, other = self.places[source], self.places[target]
        if one.node is None or other.node is None or (source, target) in self.wires:
            return
        self.wires[source, target] = deque()
        step.heard(other.node, source, one.node.start, self.now_ms)
        self.flush(other)
        step.link_up(one.node, target, other.node.start, self.now_ms)
        self.flush(one)

    def cut(self, source: bytes, target: bytes) -> None:
        """A link ends; what is on it is lost."""
        if self.wires.pop((source, target), None) is None:
            return
        place = self.places[source]
        if place.node is not None:
            step.link_down(place.node, target, False, self.now_ms)
            self.flush(place)

    def fail(self, number: int, other: int, *, failing: bool = True) -> None:
        """A node takes another one for failed, or no more."""
        node = self.node(number)
        members = node.membership
        members.set_flags(members.nodes[node_id(other)], PFAIL if failing else 0)
        links.review(node, self.now_ms)
        self.flush(self.place(number))

    def crash(self, number: int) -> None:
        """A process dies, with its clients."""
        place = self.place(number)
        place.node = None
        for asker in place.askers:
            asker.session.closing = True
        self.asked = [asker for asker in self.asked if asker not in place.askers or asker.reply is not None]
        place.askers = []
        for ends in [ends for ends in self.wires if place.id in ends]:
            self.cut(*ends)

    def start(self, number: int, *, empty: bool = False) -> None:
        """A process begins, with what the journal says, unless that is lost."""
        place = self.place(number)
        if empty:
            place.payloads = []
        place.starts += 1
        membership = Membership(Member(place.id, b"10.0.0.%d" % number, 7711))
        for other in self.places.values():
            if other is not place:
                membership.add(Member(other.id, b"10.0.0.%d" % other.number, 7711))
        seed = self.seed * 1000 + number * 100 + place.starts
        place.node = node = Node(membership, Config(), Random(seed), NotedHost(seed), ROWS, self.now_ms)
        node.registry.is_met = True  # settings are not what this is about
        replay = journal.Replay(node, "boot 1")
        for payload in place.payloads:
            replay.apply(payload, 1)
        for _ in replay.finish(self.now_ms):
            pass
        node.journaling = True
        node.segment = 1
        if not place.payloads:
            place.payloads.append(codec.head(node, "boot 1", "always", self.now_ms))
        links.review(node, self.now_ms)
        self.flush(place)
        for other in self.up():
            if other is not place:
                self.join(place.id, other.id)
                self.join(other.id, place.id)

    def advance(self, ms: int, *, calm: bool = False) -> None:
        """Time goes on; each node does what is due. With ``calm`` messages arrive at once."""
        until_ms = self.now_ms + ms
        for _ in range(100_000):
            due_ms, number = min((place.node.next_due_ms, place.number) for place in self.up() if place.node)
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            step.tick(self.node(number), self.now_ms)
            self.flush(self.place(number), is_idle=True)
            if calm:
                self.calm()
        self.now_ms = until_ms

    def heal(self) -> None:
        """All nodes are up, all links stand."""
        for place in self.places.values():
            if place.node is None:
                self.start(place.number)
        for source in self.places:
            for target in self.places:
                if source != target:
                    self.join(source, target)
        self.calm()


# -- the key k of the queue q ----------------------------------------------------------------------------------------


def keepers(net: Net, key: bytes = b"k", copies: int = 2) -> list[int]:
    """The numbers of the nodes that keep a key."""
    return [int(one[:1]) for one in net.node(1).unique.ring.keepers(digest_of(b"q", key), copies)]


def others(net: Net, key: bytes = b"k", copies: int = 2) -> list[int]:
    """The numbers of those that do not."""
    return [number for number in range(1, len(net.places) + 1) if number not in keepers(net, key, copies)]


def ask(net: Net, number: int, window: int = 3600, copies: int = 2, *options: Any, timeout: int = 0) -> Asker:
    """ADDJOB with that key."""
    return net.ask(number, b"k", window, "REPLICATE", copies, *options, timeout=timeout)


def added(net: Net, number: int, window: int = 3600, copies: int = 2, *options: Any) -> bytes:
    """An ADDJOB that must work."""
    asker = ask(net, number, window, copies, *options)
    net.calm()
    assert isinstance(asker.reply, bytes), asker.reply
    return asker.reply


def who_has(net: Net, state: int = SETTLED) -> set[int]:
    """The nodes that have the key in this state."""
    found = set()
    for place in net.up():
        assert place.node is not None
        key = keys(place.node, net.now_ms).get(K)
        if key is not None and key.state == state:
            found.add(place.number)
    return found
