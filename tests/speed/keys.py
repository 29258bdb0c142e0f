"""What a UNIQUE key costs on several nodes: `python -m tests.speed.keys`, in the plain or the compiled form.

The cores of three nodes in one process, without sockets and disks: requests in pipelines, messages encoded, put into
frames and taken apart as between real nodes, records encoded as for a journal. Rows with a key and without take turns,
since machines drift. Counted are the messages, the IDs in them, the records and the bytes of a row; measured is the CPU
of all nodes together. Not a test: nothing here passes or fails.
"""

import argparse
import gc
from collections import defaultdict
from random import Random
from statistics import median
from time import process_time
from typing import Any, Final

from cluster import membership
from cluster.capabilities import MINE
from cluster.messages import KINDS, decode, encode_message, frame
from disque.core import step
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.jobs import sessions
from disque.core.journal import codec
from disque.core.model.key_ring import SLOTS
from disque.core.model.session import Session
from disque.core.node import Node
from tests.core.support import PROCESS, START_MS, FakeHost

NODES: Final = 3
COPIES: Final = 2
BODY: Final = b"x" * 100
#: How long the nodes have known each other, in ms: keepers are sure of the keys that they have.
BEFORE_MS: Final = 60_000


class Nodes:
    """Some nodes that reach each other, each with one client."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.nodes: list[Node] = []
        self.sessions: list[Session] = []
        ids = [b"%02x" % (0xA0 + number) * 20 for number in range(NODES)]
        for number, node_id in enumerate(ids):
            members = membership.Membership(membership.Member(node_id, b"127.0.0.1", 7711 + number))
            node = Node(members, Config(), Random(number), FakeHost(number), ROWS, self.now_ms)
            node.journaling, node.segment, node.registry.is_met = True, 1, True
            for other, other_id in enumerate(ids):
                if other != number:
                    members.add(membership.Member(other_id, b"127.0.0.1", 7711 + other))
                    members.set_capabilities(other_id, MINE)
                    step.link_up(node, other_id, PROCESS, self.now_ms)
            members.messages.clear()
            node.messages.clear()
            node.early.clear()
            self.nodes.append(node)
            self.sessions.append(sessions.connect(node, 1, b"127.0.0.1:5000", b"127.0.0.1:7711", self.now_ms))
        self.by_id = {node.node_id: node for node in self.nodes}
        #: How much of what went through, by name, since the last look; and the seconds by name.
        self.counts: defaultdict[str, float] = defaultdict(float)
        self.spent: defaultdict[str, float] = defaultdict(float)
        for number in range(NODES):  # keepers begin to be sure of what they know
            self.send(number, [[b"ADDJOB", b"first", b"", b"0", b"UNIQUE", b"%d" % number, b"1"]])
        self.settle()
        self.now_ms += BEFORE_MS
        for node in self.nodes:
            step.tick(node, self.now_ms)
            for slot in range(SLOTS):  # as after some thousand keys: whose slot it is, is found out once
                node.unique.ring.keepers((slot << 4).to_bytes(2, "big"), COPIES)
        self.settle()

    def send(self, number: int, requests: list[list[bytes]]) -> None:
        """A client sends a pipeline."""
        node, session, now_ms = self.nodes[number], self.sessions[number], self.now_ms
        begun_s = process_time()
        for request in requests:
            step.command(node, session, request, now_ms)
        self.spent["commands"] += process_time() - begun_s

    def settle(self) -> None:
        """Let turns follow each other until nobody has anything to say."""
        while sum(self.turn(node) for node in self.nodes):  # of all of them, whoever has something to say
            self.now_ms += 1

    def turn(self, node: Node) -> bool:
        """The end of a turn of one node: whether it has said something."""
        at_s = process_time()
        step.settle(node, self.now_ms)
        at_s = self.note("settle", at_s)
        records = node.outbox.take()
        if records:
            self.counts["records"] += len(records)
            self.counts["bytes of records"] += sum(map(len, codec.encode(records, self.now_ms)))
        at_s = self.note("records encoded", at_s)
        outbox = [*node.early, *node.messages]
        node.early, node.messages = [], []
        groups: dict[bytes, list[Any]] = {}
        for peer, message in outbox:
            groups.setdefault(peer, []).append(message)
        for peer, messages in groups.items():
            at_s = process_time()
            payload = frame(list(map(encode_message, messages)))[4:]
            at_s = self.note("messages encoded", at_s)
            self.counts["frames"] += 1
            self.counts["bytes of messages"] += len(payload)
            received: list[Any] = decode(payload)
            at_s = self.note("messages decoded", at_s)
            other = self.by_id[peer]
            for message in received:
                step.message(other, node.node_id, message, self.now_ms)
                name = KINDS[message[0]][0]
                self.counts[name] += 1
                self.counts[f"{name} IDs"] += max((len(one) for one in message if type(one) is tuple), default=1)
                at_s = self.note(name, at_s)
        for session in node.touched:
            session.touched = False
        node.touched.clear()
        return bool(outbox)

    def note(self, name: str, begun_s: float) -> float:
        """Note how long something took, that begins anew now."""
        now_s = process_time()
        self.spent[name] += now_s - begun_s
        return now_s

    def rows(self, pipelines: int, size: int, *, unique: bool) -> float:
        """Add rows, at all nodes alike: microseconds of all nodes for one."""
        salt = b"%d" % self.now_ms
        made = []
        for pipeline in range(pipelines * NODES):
            words = [b"ADDJOB", b"queue", BODY, b"60000", b"REPLICATE", b"%d" % COPIES]
            keys = [b"%b-%d-%d" % (salt, pipeline, row) for row in range(size)]
            made.append([[*words, b"UNIQUE", key, b"600"] if unique else list(words) for key in keys])
        self.counts.clear()
        self.spent.clear()
        gc.collect()
        gc.disable()
        for at in range(0, len(made), NODES):
            for number in range(NODES):
                self.send(number, made[at + number])
            self.settle()
        gc.enable()
        for session in self.sessions:
            assert not session.adds
            assert all(reply.startswith(b"+D-") for reply in session.out)
            session.out.clear()
        count = pipelines * NODES * size
        for counter in (self.counts, self.spent):
            for name in counter:
                counter[name] /= count
        return sum(self.spent.values()) * 1e6


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pipelines", type=int, default=10, help="of each node, in one round")
    parser.add_argument("--size", type=int, default=500, help="rows of a pipeline")
    parser.add_argument("--short", action="store_true", help="only the sums")
    given = parser.parse_args()
    found: dict[str, list[tuple[float, Nodes]]] = {"plain": [], "keys": []}
    for _ in range(given.rounds):
        for name, sums in found.items():
            nodes = Nodes()
            nodes.rows(1, given.size, unique=name == "keys")
            sums.append((nodes.rows(given.pipelines, given.size, unique=name == "keys"), nodes))
            nodes.nodes.clear()
            nodes.by_id.clear()
            nodes.sessions.clear()
    for name, sums in found.items():
        rates = sorted(us for us, _ in sums)
        print(f"{name}: {median(rates):.2f} us a row, all nodes together ({rates[0]:.2f}-{rates[-1]:.2f})")
        if not given.short:
            for key, share in sums[0][1].counts.items():
                print(f"    {key:<24}{share:>10.4f}")
            for key in sums[0][1].spent:
                print(f"    {key:<24}{median([one.spent[key] for _, one in sums]) * 1e6:>10.2f} us")


if __name__ == "__main__":
    main()
