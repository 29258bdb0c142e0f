"""Commands that do something with jobs at all nodes: what is asked, one question after the other.

MOVE and REVIVEJOB ask where the jobs are that are not known here, and tell one node of each that has it. QMOVE, REVIVE
and QFLUSH tell all nodes, and again those that say that they have more; with COUNT they ask all for their oldest jobs,
and tell those that have the oldest of all. What a node does is in `jobs.orders`.
"""

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from cluster.messages import ID_LENGTH
from disque.core import questions
from disque.core.base import errors, resp
from disque.core.jobs import bulk, orders
from disque.core.jobs.bulk import Bulk
from disque.core.jobs.figures import DIGITS_MOST, number, numbers_of
from disque.core.jobs.orders import CTIME_DIGITS, ORDER_WORDS, Order, ages_of, place_of
from disque.core.model.jobid import SHARDS, shard_of, valid
from disque.core.model.session import WAIT_NODES, Session
from disque.core.model.survey import WAIT_MS, WORD_BYTES, Answers, Words
from disque.core.replication import surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: IDs that are asked for at once.
AT_ONCE = 1000  # not Final: tests want less, compiled too
#: Rounds of one command: a node that always has more does not tell the truth.
ROUNDS_MOST = 100_000  # not Final: tests want less, compiled too


class Task:
    """One command, and what has come of it so far. ``left`` jobs are still wanted, with COUNT."""

    __slots__ = ("count", "left", "order", "protocol", "rounds", "unreachable", "without")

    def __init__(self, order: Order, protocol: int) -> None:
        self.order = order
        self.protocol = protocol
        self.count = 0
        self.left = 0
        self.rounds = 0
        self.without: dict[bytes, int] = {}
        self.unreachable: set[bytes] = set()

    def note(self, answers: Answers) -> None:
        """A question is over."""
        self.unreachable.update(answers.unreachable)

    def reply(self) -> bytes:
        """The reply to a command about a queue."""
        pairs = [resp.bulk(b"count"), resp.integer(self.count)]
        if self.order.verb == orders.REVIVE:
            pairs += [resp.bulk(b"without-origin"), resp.integer(sum(self.without.values()))]
        pairs += [resp.bulk(b"unreachable"), resp.bulks(sorted(self.unreachable))]
        return resp.mapping(pairs, self.protocol)


# -- by ID -------------------------------------------------------------------------------------------------------------


class Looking(Answers):
    """Where jobs are that are not known here. ``rest`` are those of the command that are asked for next."""

    __slots__ = ("_best", "_heard", "_ids", "_rest", "_task")

    def __init__(self, task: Task, ids: list[bytes]) -> None:
        self._task = task
        self._ids = ids[:AT_ONCE]
        self._rest = ids[AT_ONCE:]
        #: Nodes that have answered.
        self._heard = 0
        #: By ID, how much a node knows of it, and which one.
        self._best: dict[bytes, tuple[int, bytes]] = {}
        super().__init__(orders.WHERE, tuple(self._ids))
        self.wait_ms = WAIT_MS // 2

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        said = words[0]
        if len(said) != len(self._ids) or said.strip(b"0123"):
            return False
        self._heard += 1
        for job_id, digit in zip(self._ids, said, strict=True):
            known = digit - 48
            if known and known > self._best.get(job_id, NOBODY)[0]:
                self._best[job_id] = (known, node_id)
        return True

    def is_settled(self) -> bool:
        """As in `Answers`."""
        return len(self._best) == len(self._ids) and min(self._best.values())[0] >= orders.OUT_HERE

    def following(self) -> Answers | None:
        """As in `Answers`."""
        owners: dict[bytes, list[bytes]] = {}
        for job_id, (_, node_id) in self._best.items():
            owners.setdefault(node_id, []).append(job_id)
        if owners:
            return Telling(self._task, owners, self._rest)
        if not self._rest or self._heard < 2:  # nobody but this node
            return None
        return Looking(self._task, self._rest)

    def reply(self) -> bytes:
        """As in `Answers`."""
        return resp.integer(self._task.count)


NOBODY: Final = (orders.UNKNOWN, b"")


class Told(Answers):
    """Some nodes are told to do something with certain jobs."""

    __slots__ = ("task",)

    def __init__(self, task: Task, owners: dict[bytes, list[bytes]]) -> None:
        super().__init__(orders.THESE, ())
        self.task = task
        self.only = {node_id: (*task.order.words(), *ids) for node_id, ids in owners.items()}

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        done = number(words[0])
        if done < 0 or done > len(self.words_for(node_id)) - ORDER_WORDS:
            return False
        self.task.count += done
        return True


class Telling(Told):
    """The owners of jobs are told. ``rest`` are IDs that are asked for next."""

    __slots__ = ("_rest",)

    def __init__(self, task: Task, owners: dict[bytes, list[bytes]], rest: list[bytes]) -> None:
        super().__init__(task, owners)
        self._rest = rest
        self.wait_ms = WAIT_MS // 2

    def following(self) -> Answers | None:
        """As in `Answers`."""
        return Looking(self.task, self._rest) if self._rest else None

    def reply(self) -> bytes:
        """As in `Answers`."""
        return resp.integer(self.task.count)


def look(node: "Node", session: Session, task: Task, ids: list[bytes], now_ms: int) -> bool:
    """Ask the others about jobs that are not known here; False if there is nobody, or nothing to ask."""
    if not ids or not any(surveys.is_able(node, peer_id) for peer_id in node.peers):
        return False
    questions.ask(node, session, Looking(task, ids), now_ms)
    return True


class ByIds(Bulk):
    """One command with many IDs. Each counts once."""

    __slots__ = ("_seen", "_task", "_unknown")

    def __init__(self, session: Session, ids: list[bytes], order: Order) -> None:
        super().__init__(session, ids)
        self._task = Task(order, session.protocol)
        self._unknown: list[bytes] = []
        self._seen: list[set[bytes]] = [set() for _ in range(SHARDS)]

    def do(self, node: "Node", job_id: bytes, now_ms: int) -> None:
        """As in `Bulk`."""
        seen = self._seen[shard_of(job_id)]
        if job_id not in seen:
            seen.add(job_id)
            do_here(node, self._task, job_id, self._unknown, now_ms)

    def goes_on(self, node: "Node", now_ms: int) -> bool:
        """As in `Bulk`."""
        self.session.waiting = WAIT_NODES
        return look(node, self.session, self._task, self._unknown, now_ms)

    def reply(self) -> bytes:
        """As in `Bulk`."""
        return resp.integer(self._task.count)


def do_here(node: "Node", task: Task, job_id: bytes, unknown: list[bytes], now_ms: int) -> None:
    """Do it with one job if it is known here; else note that."""
    job = node.find(job_id)
    if job is None or (orders.is_for_owner(task.order) and orders.where(node, job_id) == orders.COPY):
        unknown.append(job_id)
    elif orders.do(node, job, task.order, now_ms):
        task.count += 1


def by_ids(node: "Node", session: Session, ids: list[bytes], order: Order, now_ms: int) -> None:
    """Do something with each job, wherever it is, and answer for how many it worked."""
    if len(ids) > bulk.MOST:
        bulk.begin(node, ByIds(session, ids, order))
        return
    for job_id in ids:
        if not valid(job_id):
            session.out.append(resp.error(errors.BAD_ID))
            return
    task = Task(order, session.protocol)
    unknown: list[bytes] = []
    for job_id in dict.fromkeys(ids):
        do_here(node, task, job_id, unknown, now_ms)
    if not look(node, session, task, unknown, now_ms):
        session.out.append(resp.integer(task.count))


# -- queues ------------------------------------------------------------------------------------------------------------


class Sweeping(Answers):
    """All nodes do something with all jobs of a queue that they speak for: in rounds, those that have more."""

    __slots__ = ("_more", "_task")

    def __init__(self, task: Task, places: dict[bytes, bytes] | None) -> None:
        words = task.order.words()
        super().__init__(orders.ALL, (*words, b""))
        self._task = task
        self._more: dict[bytes, bytes] = {}
        if places is not None:
            self.only = {node_id: (*words, place) for node_id, place in places.items()}

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        counts = numbers_of(words[0], 2, DIGITS_MOST)
        place = place_of(numbers_of(words[1], 3, DIGITS_MOST)) if len(words) == 2 else None
        if counts is None or len(counts) != 2 or place is None:
            return False
        task = self._task
        task.count += counts[0]
        task.without[node_id] = task.without.get(node_id, 0) + counts[1]
        if not place.is_end:
            self._more[node_id] = place.word()
        return True

    def following(self) -> Answers | None:
        """As in `Answers`."""
        task = self._task
        task.note(self)
        task.rounds += 1
        return Sweeping(task, self._more) if self._more and task.rounds < ROUNDS_MOST else None

    def reply(self) -> bytes:
        """As in `Answers`."""
        self._task.note(self)
        return self._task.reply()


class Choosing(Answers):
    """Which jobs of a queue are the oldest of all nodes."""

    __slots__ = ("_count", "_found", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._count = min(task.left, orders.IDS_MOST)
        super().__init__(orders.OLDEST, (*task.order.words(), b"%d" % self._count))
        self.most += self._count * (CTIME_DIGITS + ID_LENGTH + 2 * WORD_BYTES)
        #: By ID, when it was made, and which node has it.
        self._found: dict[bytes, tuple[int, bytes]] = {}

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        without = number(words[0])
        ages = ages_of(words[1:], self._count)
        if without < 0 or ages is None:
            return False
        self._task.without[node_id] = without
        for ctime, job_id in ages:
            self._found[job_id] = (ctime, node_id)
        return True

    def following(self) -> Answers | None:
        """As in `Answers`."""
        task = self._task
        task.note(self)
        rows = [(ctime, job_id, node_id) for job_id, (ctime, node_id) in self._found.items()]
        chosen = nsmallest(self._count, rows)
        if not chosen:
            return None
        owners: dict[bytes, list[bytes]] = {}
        for _, job_id, node_id in chosen:
            owners.setdefault(node_id, []).append(job_id)
        task.left -= len(chosen)
        if len(chosen) < self._count:
            task.left = 0  # these are all that there are
        return Taking(task, owners)

    def reply(self) -> bytes:
        """As in `Answers`."""
        self._task.note(self)
        return self._task.reply()


class Taking(Told):
    """The owners of the oldest jobs are told."""

    __slots__ = ()

    def following(self) -> Answers | None:
        """As in `Answers`."""
        self.task.note(self)
        return Choosing(self.task) if self.task.left else None

    def reply(self) -> bytes:
        """As in `Answers`."""
        self.task.note(self)
        return self.task.reply()


def by_queue(node: "Node", session: Session, order: Order, count: int, now_ms: int) -> None:
    """Do something with the jobs of a queue, at all nodes; with ``count`` above 0 with so many, the oldest ones."""
    task = Task(order, session.protocol)
    task.left = count
    questions.ask(node, session, Choosing(task) if count else Sweeping(task, None), now_ms)
