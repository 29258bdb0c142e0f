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
zone a: 1 2                           these nodes fail together, which each link between two nodes tells
cluster 1 2 3                         these nodes are one cluster, with links between all of them
cut 1-2 / join 1-2                    the links between two nodes end / stand again
peers 1: 2 3                          the node knows these other nodes, which are not part of the scenario, as reachable
message 2->1 GOTJOB (<1>)             a message of such a node arrives
drop 1->2 GOTJOB / carry 1->2 GOTJOB  from now on messages of this kind are lost between these two / no more
block 1->2 / unblock 1->2             messages do not leave the node: a cut gives them back / they leave after all
freeze 1 / thaw 1                     the process stands still / goes on; what arrives meanwhile waits
===================================== =================================================================================

Nodes come into being when they are first named. Messages to a node of the scenario arrive before the next act, others
are only shown; so is what the membership says. A node that crashes refuses connections until it starts again: then all
links to and from it stand. Job IDs are shown as <n>, IDs of nodes as #n, the number of a question as the time when it
was asked: @4.500. Questions to all nodes are counted from 1 in each process.

``python -m tests.scenarios.runner --rewrite [file ...]`` writes what happens now into the files; read the difference
before keeping it.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import hiredis

from cluster import messages
from disque.core import handover, step
from disque.core.base.timers import NEVER
from disque.core.dedup.keys import digest_of
from disque.core.jobs import sessions
from disque.core.journal import codec
from disque.core.journal import replay as journal
from disque.core.model.extra import CAUSES, decode
from disque.core.model.registry import LAST_TICK, SCHEDULE
from disque.core.model.session import NOT_WAITING, WAIT_COPIES, Session
from disque.core.model.spec import read
from disque.core.node import Message, Node
from disque.core.schedule.keeping import decode as decode_schedule
from tests.scenarios.place import BEAT_MS, Place
from tests.support.formats import repljob_with, row_with, yourjobs, yourjobs_rows
from tests.support.nodes import START_MS, make_node, node_id

NODE_ID = re.compile(rb"(\d)\1{39}")
WORD = re.compile(r"\([^)]*\)|\S+")
JOB_ID = re.compile(rb"D-[0-9a-f]{8}-[0-9A-Za-z+/]{24}-[0-9a-f]{4}")
#: What keys of the queue q are called between nodes, and their names.
DIGESTS = {digest_of(b"q", name.encode()): name for name in ("k", "j", "key")}
DIGESTS |= {
    digest_of(b"q", b"cron:sync:%d" % (START_MS // 1000 + tick)): f"cron:sync:{tick} s" for tick in range(0, 100, 10)
}
KIND_NAMES = {number: name for number, (name, _) in messages.KINDS.items()}
KINDS = {name: number for number, name in KIND_NAMES.items()}
INDENT = "    "


def spelled(message: Message) -> tuple[Any, ...]:  # noqa: PLR0911 - one for each kind
    """This message with words for what jobs have in common."""
    if message[0] in {messages.REPLJOB, messages.TAKEJOB}:
        told = repljob_with(message, spec=said(message[messages.REPLJOB_SPEC]))
        return with_more(told)
    if message[0] == messages.YOURJOBS:
        rows = [with_more(row_with(row, spec=said(row[messages.ROW_SPEC]))) for row in yourjobs_rows(message)]
        return yourjobs(*rows, queue=cast("bytes", message[messages.YOURJOBS_QUEUE]))
    if message[0] == messages.MOVED:
        kind, queue, spec, left_ms, delay_ms, holders, more, ids = message
        return (kind, queue, said(spec), left_ms, delay_ms, holders, known(more), ids)
    if message[0] == messages.MORE:
        return (message[0], known(message[1]), message[2])
    if message[0] in {messages.SURVEY, messages.SURVEYED}:
        return (message[0], cast("int", message[1]) & 0xFFFF, *message[2:])
    if message[0] == messages.ENTRIES:
        return (message[0], tuple([with_schedule(row) for row in cast("tuple[tuple[Any, ...], ...]", message[1])]))
    if message[0] == messages.DIGEST:
        return (message[0], message[1], b"sums" if message[2] else b"")
    return message


def with_schedule(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """An entry with what a schedule says in words, and its last tick as the time of the scenario."""
    kind, name, field, value, *rest = row
    saying = decode_schedule(value) if kind == SCHEDULE and value else None
    if saying is not None:
        value = b"%b%b" % (saying.spec, b" paused" if saying.paused else b"")
    elif kind == LAST_TICK and value:
        value = b"%d s" % (int(value) - START_MS // 1000)
    return (kind, name, field, value, *rest)


def with_more(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """These values with words for what is known of a job beyond its fields, which comes last; without it if nothing."""
    return (*values[:-1], known(values[-1])) if values[-1] else values[:-1]


def known(more: Any) -> str:
    """What is known of a job beyond its fields, in words."""
    extra = decode(more, START_MS)
    assert extra is not None
    facts = {
        "headers": b" ".join(extra.headers).decode(),
        "tries": extra.tries,
        "error": extra.error.decode(),
        "moved": extra.generation and f"{extra.generation} by #{extra.mover[:1].decode()}",
        "died": extra.died and f"{CAUSES[extra.died].decode()} in {extra.origin.decode()}",
    }
    return "{" + ", ".join([f"{name} {fact}" for name, fact in facts.items() if fact]) + "}"


def said(encoded: Any) -> str:
    """A spec in words."""
    spec = read(b"", encoded)
    assert spec is not None
    rows = "" if spec.rows is None else f" {spec.rows}"
    return f"{{ttl {spec.ttl} retry {spec.retry} repl {spec.repl}{rows}}}"


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
        #: The links that stand, each from one node to another.
        self.links: set[tuple[int, int]] = set()
        #: Messages that wait where they come from, by the way that is blocked.
        self.waiting: dict[tuple[int, int], list[Message]] = {}

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
        if int(number) not in self.places:
            self.places[int(number)] = Place(int(number), self.now_ms, lambda: self.now_ms)
        return self.places[int(number)]

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
        for _ in range(100_000):
            due_ms = min(self.next_due(), default=NEVER)
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            for place in self.places.values():
                if place.node is not None and place.due_ms() <= self.now_ms:
                    place.act(self.now_ms)
            self.flush_all()
        self.now_ms = until_ms

    def next_due(self) -> Iterator[int]:
        for place in self.places.values():
            if place.node is not None:
                yield place.due_ms()

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
        sessions.disconnect(place.running, place.sessions.pop(client), self.now_ms)

    def peers(self, rest: str) -> None:
        number, _, others = rest.partition(":")
        place = self.place(number)
        place.peers = [int(other) for other in others.split()]
        place.know(place.peers)
        for other in place.peers:
            step.link_up(place.running, node_id(other), 1, self.now_ms)

    def message(self, rest: str) -> None:
        link, kind, *words = rest.split(maxsplit=2)
        source, _, target = link.partition("->")
        values = [self.value(found) for found in WORD.findall(" ".join(words))]
        step.message(self.place(target).running, node_id(int(source)), (KINDS[kind], *values), self.now_ms)

    def value(self, text: str) -> object:
        """A field of a message: a number, bytes, or a tuple of bytes."""
        if text.startswith("("):
            return tuple([self.word(word) for word in text[1:-1].split()])
        return int(text) if text.isdigit() else self.word(text)

    def drop(self, rest: str) -> None:
        link, kind = rest.split()
        source, _, target = link.partition("->")
        self.dropped.add((int(source), int(target), KINDS[kind]))

    def carry(self, rest: str) -> None:
        link, kind = rest.split()
        source, _, target = link.partition("->")
        self.dropped.remove((int(source), int(target), KINDS[kind]))

    # -- links ---------------------------------------------------------------------------------------------------------

    def cluster(self, rest: str) -> None:
        numbers = [int(number) for number in rest.split()]
        for number in numbers:
            place = self.place(str(number))
            place.peers = [other for other in numbers if other != number]
            place.know(place.peers)
            place.beat_ms = self.now_ms + BEAT_MS
        for number in numbers:
            self.connect(number)

    def zone(self, rest: str) -> None:
        label, _, numbers = rest.partition(":")
        for number in numbers.split():
            place = self.place(number)
            place.zone = label.encode()
            place.running.membership.set_zone(node_id(place.number), place.zone)

    def connect(self, number: int) -> None:
        """Links from a node to all others that are up, and back. Those that are down refuse."""
        place = self.places[number]
        for other in place.peers:
            if self.places[other].node is not None:
                self.link(number, other)
                self.link(other, number)
            else:
                step.link_down(place.running, node_id(other), True, self.now_ms)

    def link(self, source: int, target: int) -> None:
        if (source, target) not in self.links:
            self.links.add((source, target))
            one, other = self.places[source].running, self.places[target].running
            one.membership.set_zone(node_id(target), self.places[target].zone)
            other.membership.set_zone(node_id(source), self.places[source].zone)
            one.membership.set_capabilities(node_id(target), other.membership.myself.capabilities)
            other.membership.set_capabilities(node_id(source), one.membership.myself.capabilities)
            step.link_up(one, node_id(target), other.start, self.now_ms)
            step.heard(other, node_id(source), one.start, self.now_ms)

    def unlink(self, source: int, target: int, *, refused: bool = False) -> None:
        if (source, target) in self.links:
            self.links.remove((source, target))
            node = self.places[source].node
            unsent = self.waiting.pop((source, target), [])
            if node is not None:
                step.undelivered(node, node_id(target), unsent, self.now_ms)
                step.link_down(node, node_id(target), refused, self.now_ms)

    def block(self, rest: str) -> None:
        source, _, target = rest.partition("->")
        self.waiting[int(source), int(target)] = []

    def unblock(self, rest: str) -> None:
        source, _, target = rest.partition("->")
        for values in self.waiting.pop((int(source), int(target))):
            self.arrive(int(source), int(target), values)

    def cut(self, rest: str) -> None:
        one, _, other = rest.partition("-")
        self.unlink(int(one), int(other))
        self.unlink(int(other), int(one))

    def join(self, rest: str) -> None:
        one, _, other = rest.partition("-")
        self.link(int(one), int(other))
        self.link(int(other), int(one))

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
        place.payloads.append(codec.head(node, f"boot {place.boot}", place.policy, self.now_ms))

    def crash(self, rest: str) -> None:
        place = self.place(rest)
        place.node = None
        for source, target in sorted(self.links):
            if place.number in (source, target):
                self.unlink(source, target, refused=True)
        place.sessions.clear()
        place.stalled.clear()
        place.inbox.clear()

    def freeze(self, rest: str) -> None:
        self.place(rest).frozen = True

    def thaw(self, rest: str) -> None:
        """Go on: the clock comes first."""
        place = self.place(rest)
        place.frozen = False
        place.act(self.now_ms)

    def power(self, rest: str) -> None:
        self.crash(rest)
        self.place(rest).boot += 1

    def stop(self, rest: str) -> None:
        """As the server does it: dismiss the clients, say good-bye, leave the list of what is not simply queued."""
        place = self.place(rest)
        node = place.running
        self.flush_one(place, node)
        for session in place.sessions.values():
            sessions.disconnect(node, session, self.now_ms)
        place.sessions.clear()
        farewell = handover.Farewell(node)
        while not farewell.done:
            farewell.step(self.now_ms)
            self.flush_one(place, node)
        for record in journal.clean_list(node):
            node.outbox.add(record)
        self.write(place)
        self.crash(rest)

    def start(self, rest: str) -> None:
        place = self.place(rest)
        place.node = node = make_node(self.now_ms, place.number, seed=self.now_ms, clock=place.clock)
        place.know(place.peers)
        node.membership.set_zone(node_id(place.number), place.zone)
        replay = journal.Replay(node, f"boot {place.boot}")
        for payload in place.payloads:
            replay.apply(payload, 1)
        for _ in replay.finish(self.now_ms):
            pass
        self.show(f"{place.number} started with {node.jobs_registered()} jobs, {replay.dropped} dropped")
        if place.policy:
            self.open_journal(place)
        if place.beat_ms:
            place.beat_ms = self.now_ms + BEAT_MS
            self.connect(place.number)

    # -- the flush -----------------------------------------------------------------------------------------------------

    def flush_all(self) -> None:
        """Each node has its flush, until no message is on its way."""
        for _ in range(100):
            for place in self.places.values():
                if place.node is not None and not place.frozen:
                    self.flush_one(place, place.node)
            if not any(place.inbox for place in self.places.values() if place.node and not place.frozen):
                return
        raise AssertionError("the nodes talk without end")

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
        records = place.running.outbox.take()
        if records:
            place.payloads += codec.encode(records, self.now_ms)

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
        sent, node.messages, node.early = [*node.early, *node.messages], [], []
        greetings, node.membership.messages = node.membership.messages, []
        for target_id, values in [*greetings, *sent]:
            target = int(target_id[:1])
            kind = values[0]
            assert isinstance(kind, int)
            if target in self.places and (place.number, target) not in self.links:
                step.undelivered(node, target_id, [values], self.now_ms)
                continue
            lost = (place.number, target, kind) in self.dropped
            blocked = self.waiting.get((place.number, target))
            words = [KIND_NAMES[kind], *[self.text(value) for value in spelled(values)[1:]]]
            if kind not in step.OF_MEMBERSHIP:
                fate = " (lost)" if lost else "" if blocked is None else " (waits)"
                self.show(f"{place.number}->{target} {' '.join(words)}{fate}")
            if blocked is not None:
                blocked.append(values)
            elif target in self.places and not lost:
                self.arrive(place.number, target, values)

    def arrive(self, source: int, target: int, values: Message) -> None:
        payload = messages.frame([messages.encode_message(values)])
        self.places[target].inbox += [(source, carried) for carried in messages.decode(payload[4:])]

    # -- words ---------------------------------------------------------------------------------------------------------

    def word(self, word: str) -> bytes:
        """A word of the file as bytes; ``<n>`` is a job ID, ``#n`` that of a node."""
        if re.fullmatch(r"#\d", word):
            return node_id(int(word[1:]))
        return self.ids[int(word[1:-1]) - 1] if re.fullmatch(r"<\d+>", word) else word.encode()

    def text(self, value: Any, *, bare: bool = False) -> str:
        """A value as it is shown."""
        if isinstance(value, list | tuple):
            shown = [self.text(item) for item in value]
            return f"[{', '.join(shown)}]" if isinstance(value, list) else f"({' '.join(shown)})"
        if isinstance(value, ErrorReply | str):
            return value if isinstance(value, str) else f"-{value}"
        if value is None or isinstance(value, int):
            return "nil" if value is None else self.number(value)
        if JOB_ID.fullmatch(value) or NODE_ID.fullmatch(value):
            return self.name(value)
        if value in DIGESTS:
            return f'key of "q" "{DIGESTS[value]}"'
        text: str = value.decode("utf-8", "backslashreplace")
        return text if bare else f'"{text}"'

    @staticmethod
    def number(value: int) -> str:
        """Numbers as they are; the place in the order of all jobs and node time as a time since the start."""
        if START_MS <= value < START_MS * 2:
            return f"@{(value - START_MS) / 1000:.3f}"
        start = START_MS * 1_000_000
        return f"start+{value - start}" if start <= value < start * 2 else str(value)

    def name(self, job_id: bytes) -> str:
        """The name of a job or a node."""
        if NODE_ID.fullmatch(job_id):
            return f"#{job_id[:1].decode()}"
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
        "carry": carry,
        "block": block,
        "unblock": unblock,
        "freeze": freeze,
        "thaw": thaw,
        "cluster": cluster,
        "zone": zone,
        "cut": cut,
        "join": join,
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
