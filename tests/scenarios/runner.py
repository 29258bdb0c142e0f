"""Scenarios: what a node does, as text that people read. Each file is a list of acts, what came of each indented below.

::

    # What the file promises, in one sentence.

    node 1 anna: ADDJOB q hello 0 | ADDJOB q world 0
        1 anna> +<1>
        1 anna> +<2>
    advance 5000
        [5.000] 1 bob> [["q", <1>, "hello"]]

Acts (``1`` is the number of a node, a client has any name, ``main`` when none is given):

===================================== =================================================================================
node 1 [client]: COMMAND [| COMMAND]  requests of a client, in one flush; words as in a shell, <n> is the n-th job ID
begin ... flush                       everything between is one turn of the loop: one flush
advance MS                            time goes on; each node is called exactly when it asks to be
stall 1 client / read 1 client        the client does not take its replies / takes them again
disconnect 1 client                   the connection ends, with what did not leave
journal 1 POLICY                      the node keeps a journal from now on (always, everysec, no)
crash 1 / power 1 / stop 1 / start 1  the process dies / the machine does / a clean stop / a start from the journal
peers 1: 2 3                          the node knows these other nodes as reachable
message 2->1 GOTJOB <1>               a message of a node that is not part of the scenario arrives
drop 1->2 GOTJOB                      from now on messages of this kind are lost between these two
===================================== =================================================================================

Nodes come into being when they are first named. Messages to a node of the scenario arrive at the next flush, others are
only shown. ``python -m tests.scenarios.runner --rewrite [file ...]`` writes what happens now into the files; read the
difference before keeping it.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import hiredis
import msgpack

from cluster import messages
from cluster.membership import Node as Member
from disque.core import journal, life, step
from disque.core.node import Message, Node
from disque.core.session import NOT_WAITING, WAIT_COPIES, Session
from tests.support.nodes import START_MS, make_node, node_id

JOB_ID = re.compile(rb"D-[0-9a-f]{8}-[0-9A-Za-z+/]{24}-[0-9a-f]{4}")
KINDS = {name: value for name, value in vars(messages).items() if name.isupper() and isinstance(value, int)}
KIND_NAMES = {value: name for name, value in KINDS.items()}
INDENT = "    "


class Place:
    """A node of a scenario with what is around it: its clients, its journal, the machine that it runs on."""

    def __init__(self, number: int, now_ms: int) -> None:
        self.number = number
        self.node: Node | None = make_node(now_ms, number)
        self.sessions: dict[str, Session] = {}
        self.stalled: set[str] = set()
        self.payloads: list[bytes] = []
        self.policy = ""
        self.boot = 1
        self.peers: list[int] = []
        self.inbox: list[tuple[int, Message]] = []
        self.connected = 0

    @property
    def running(self) -> Node:
        assert self.node is not None, f"node {self.number} is down"
        return self.node

    def session(self, client: str, now_ms: int) -> Session:
        found = self.sessions.get(client)
        if found is None:
            self.connected += 1
            found = life.connect(self.running, self.connected, client.encode(), b"", now_ms)
            self.sessions[client] = found
        return found

    def know(self, numbers: list[int]) -> None:
        for number in numbers:
            self.running.membership.add(Member(node_id(number), b"10.0.0.%d" % number, 7711))
        self.running.count_nodes()


class Scenario:
    """Plays one file. `play` gives the text with what came of each act."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.places: dict[int, Place] = {}
        self.ids: list[bytes] = []
        self.shown: list[str] = []
        self.timed = False
        self.open_turn = False
        self.dropped: set[tuple[int, int, int]] = set()

    # -- the file ------------------------------------------------------------------------------------------------------

    def play(self, text: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith(INDENT):
                continue
            lines.append(line)
            if line.strip() and not line.startswith("#"):
                self.shown = []
                self.act(line)
                lines += [INDENT + shown for shown in self.shown]
        return "\n".join(lines) + "\n"

    def act(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        self.timed = verb == "advance"
        self.VERBS[verb](self, rest)
        if not self.open_turn:
            self.flush_all()

    def place(self, number: str) -> Place:
        return self.places.setdefault(int(number), Place(int(number), self.now_ms))

    def show(self, what: str) -> None:
        elapsed_ms = self.now_ms - START_MS
        self.shown.append(f"[{elapsed_ms / 1000:.3f}] {what}" if self.timed else what)

    # -- acts ----------------------------------------------------------------------------------------------------------

    def commands(self, rest: str) -> None:
        where, _, requests = rest.partition(":")
        number, _, client = where.partition(" ")
        place = self.place(number)
        session = place.session(client or "main", self.now_ms)
        for request in requests.split(" | "):
            words = [self.word(word) for word in shlex.split(request)]
            adds_on = session.waiting == WAIT_COPIES and words[0].upper() == b"ADDJOB"
            assert session.waiting == NOT_WAITING or adds_on, f"{client} waits and cannot say {request}"
            step.command(place.running, session, words, self.now_ms)
            place.running.touch(session)

    def begin(self, _rest: str) -> None:
        self.open_turn = True

    def flush(self, _rest: str) -> None:
        self.open_turn = False

    def advance(self, rest: str) -> None:
        until_ms = self.now_ms + int(rest)
        for _ in range(10_000):
            due_ms, number = min(self.next_due(), default=(until_ms + 1, 0))
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            step.tick(self.places[number].running, self.now_ms)
            self.flush_all()
        self.now_ms = until_ms

    def next_due(self) -> Iterator[tuple[int, int]]:
        for number, place in self.places.items():
            if place.node is not None:
                yield place.node.next_due_ms, number

    def stall(self, rest: str) -> None:
        number, client = rest.split()
        self.place(number).stalled.add(client)

    def read(self, rest: str) -> None:
        number, client = rest.split()
        place = self.place(number)
        place.stalled.discard(client)
        place.running.touch(place.sessions[client])

    def disconnect(self, rest: str) -> None:
        number, client = rest.split()
        place = self.place(number)
        life.disconnect(place.running, place.sessions.pop(client), self.now_ms)

    def peers(self, rest: str) -> None:
        number, _, others = rest.partition(":")
        place = self.place(number)
        place.peers = [int(other) for other in others.split()]
        place.know(place.peers)

    def message(self, rest: str) -> None:
        link, kind, *words = rest.split()
        source, _, target = link.partition("->")
        values: list[object] = [int(word) if word.isdigit() else self.word(word) for word in words]
        step.message(self.place(target).running, node_id(int(source)), (KINDS[kind], *values), self.now_ms)

    def drop(self, rest: str) -> None:
        link, kind = rest.split()
        source, _, target = link.partition("->")
        self.dropped.add((int(source), int(target), KINDS[kind]))

    # -- life of a process ---------------------------------------------------------------------------------------------

    def keep_journal(self, rest: str) -> None:
        number, policy = rest.split()
        place = self.place(number)
        place.policy = policy
        self.open_journal(place)

    def open_journal(self, place: Place) -> None:
        node = place.running
        node.journaling = True
        node.segment = 1
        place.payloads.append(journal.head(node, f"boot {place.boot}", place.policy, self.now_ms))

    def crash(self, rest: str) -> None:
        place = self.place(rest)
        place.node = None
        place.sessions.clear()
        place.stalled.clear()
        place.inbox.clear()

    def power(self, rest: str) -> None:
        self.crash(rest)
        self.place(rest).boot += 1

    def stop(self, rest: str) -> None:
        place = self.place(rest)
        place.running.journal.extend(journal.clean_list(place.running))
        self.write(place)
        self.crash(rest)

    def start(self, rest: str) -> None:
        place = self.place(rest)
        place.node = node = make_node(self.now_ms, place.number, seed=self.now_ms)
        place.know(place.peers)
        replay = journal.Replay(node, f"boot {place.boot}")
        for payload in place.payloads:
            replay.apply(payload, 1)
        for _ in replay.finish(self.now_ms):
            pass
        self.show(f"{place.number} started with {node.jobs_registered()} jobs, {replay.dropped} dropped")
        if place.policy:
            self.open_journal(place)

    # -- the flush -----------------------------------------------------------------------------------------------------

    def flush_all(self) -> None:
        for place in self.places.values():
            if place.node is not None:
                self.flush_one(place, place.node)

    def flush_one(self, place: Place, node: Node) -> None:
        while place.inbox:
            source, received = place.inbox.pop(0)
            step.message(node, node_id(source), received, self.now_ms)
        step.settle(node, self.now_ms)
        self.write(place)
        self.send(place, node)
        node.touched.clear()
        for client, session in place.sessions.items():
            session.touched = False
            if client not in place.stalled and session.out:
                self.let_leave(place, client, session)

    def write(self, place: Place) -> None:
        records, place.running.journal = place.running.journal, []
        if records:
            place.payloads += journal.encode(records, self.now_ms)

    def let_leave(self, place: Place, client: str, session: Session) -> None:
        reader = hiredis.Reader(replyError=ErrorReply)
        for reply in session.out:
            reader.feed(reply)
            value = reader.gets()
            sign = {b"+": "+", b":": ":"}.get(reply[:1], "")
            self.show(f"{place.number} {client}> {sign}{self.text(value, bare=bool(sign))}")
        session.out.clear()
        session.handed.clear()

    def send(self, place: Place, node: Node) -> None:
        sent, node.messages = node.messages, []
        for target_id, values in sent:
            target = int(target_id[:1])
            kind, *rest = values
            assert isinstance(kind, int)
            lost = (place.number, target, kind) in self.dropped
            words = [KIND_NAMES[kind], *[self.text(value) for value in rest]]
            self.show(f"{place.number}->{target} {' '.join(words)}{' (lost)' if lost else ''}")
            if target in self.places and not lost:
                carried = msgpack.unpackb(msgpack.packb(values, use_bin_type=True), use_list=False)
                self.places[target].inbox.append((place.number, carried))

    # -- words ---------------------------------------------------------------------------------------------------------

    def word(self, word: str) -> bytes:
        """A word of the file as bytes; ``<n>`` is a job ID."""
        return self.ids[int(word[1:-1]) - 1] if re.fullmatch(r"<\d+>", word) else word.encode()

    def text(self, value: Any, *, bare: bool = False) -> str:
        """A value as it is shown."""
        if isinstance(value, list):
            return "[" + ", ".join([self.text(item) for item in value]) + "]"
        if isinstance(value, ErrorReply):
            return f"-{value}"
        if value is None or isinstance(value, int):
            return "nil" if value is None else self.number(value)
        if JOB_ID.fullmatch(value):
            return self.name(value)
        shown: str = value.decode("utf-8", "backslashreplace")
        return shown if bare else f'"{shown}"'

    @staticmethod
    def number(value: int) -> str:
        """Numbers as they are; the place in the order of all jobs as a time since the start."""
        start = START_MS * 1_000_000
        return f"start+{value - start}" if start <= value < start * 2 else str(value)

    def name(self, job_id: bytes) -> str:
        if job_id not in self.ids:
            self.ids.append(job_id)
        return f"<{self.ids.index(job_id) + 1}>"

    VERBS: ClassVar[dict[str, Callable[["Scenario", str], None]]] = {
        "node": commands,
        "begin": begin,
        "flush": flush,
        "advance": advance,
        "stall": stall,
        "read": read,
        "disconnect": disconnect,
        "peers": peers,
        "message": message,
        "drop": drop,
        "journal": keep_journal,
        "crash": crash,
        "power": power,
        "stop": stop,
        "start": start,
    }


class ErrorReply(Exception):  # noqa: N818 - it is a reply
    """An error reply, as the reader gives it."""


def scenario_files() -> list[Path]:
    """All scenarios, in the order of their names."""
    return sorted(Path(__file__).parent.glob("*.txt"))


def rewrite(paths: list[Path]) -> None:
    """Write into each file what happens now."""
    for path in paths:
        before = path.read_text()
        after = Scenario().play(before)
        if after != before:
            path.write_text(after)
            sys.stdout.write(f"rewritten: {path}\n")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] != ["--rewrite"]:
        sys.exit("usage: python -m tests.scenarios.runner --rewrite [file ...]")
    rewrite([Path(name) for name in arguments[1:]] or scenario_files())
