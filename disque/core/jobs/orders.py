"""Orders about jobs of all nodes: what a node does that is asked by MOVE, REVIVEJOB, CANCEL, QMOVE, REVIVE, QFLUSH.

One node is told about each job by its ID (MOVE, REVIVEJOB, CANCEL, and those of queues with COUNT): the asker has
heard before from all nodes who has it. Without COUNT each node does it with all jobs of the queue that it speaks for.
These are queued, or delayed, at one node only, so none is counted twice.

All of it is done some jobs at a time. A node that is asked for a whole queue answers after `ROUND` jobs with how far it
has come, and the asker asks again: so nobody takes it for unreachable because its queue is long.
"""

from collections.abc import Callable
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from disque.core.base.numbers import SECONDS_MAX
from disque.core.jobs import relocate
from disque.core.jobs.figures import DIGITS_MOST, number, numbers_of, words_of
from disque.core.model.claims import WRITE
from disque.core.model.ends import CANCELLED
from disque.core.model.job import ACTIVE, DEFERRED, QUEUED, SPENT, SPOKEN, Job, is_in_flight
from disque.core.model.jobid import SHARDS, valid
from disque.core.model.queue import ELSEWHERE
from disque.core.model.user import User, of_queues
from disque.core.replication import acks, surveys, tries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.survey import Asked, Words
    from disque.core.node import Node

#: Kinds of questions: see `questions`.
WHERE: Final = 10
THESE: Final = 11
OLDEST: Final = 12
ALL: Final = 13

#: The commands that give orders.
MOVE: Final = b"MOVE"
REVIVEJOB: Final = b"REVIVEJOB"
QMOVE: Final = b"QMOVE"
REVIVE: Final = b"REVIVE"
QFLUSH: Final = b"QFLUSH"
CANCEL: Final = b"CANCEL"
#: Its option, in place of a queue.
WAITING: Final = b"WAITING"
OF_QUEUES: Final = frozenset({QMOVE, REVIVE, QFLUSH})

#: IDs in one question or answer.
IDS_MOST = 5000  # not Final: tests want less, compiled too
#: Jobs with which one step does something, and at which it looks; jobs until a node says how far it has come.
SLICE = 100  # not Final: tests want less, compiled too
STEP = 2000  # not Final: tests want less, compiled too
ROUND = 20_000  # not Final: tests want less, compiled too

#: What a node says of a job that is asked for: that of the greatest number is asked to do it.
UNKNOWN: Final = 0
COPY: Final = 1
OUT_HERE: Final = 2
QUEUED_HERE: Final = 3


#: Words of a question that say the order; others stand behind them.
ORDER_WORDS: Final = 4


class Order:
    """What is to be done with jobs. ``queue`` is where they are, of orders for queues; ``to`` where they shall be.

    Of orders that revive jobs, ``to`` are the rights of who gives them, if he may not add jobs everywhere.
    """

    __slots__ = ("_rights", "delay_ms", "queue", "to", "verb")

    def __init__(self, verb: bytes, queue: bytes, to: bytes, delay_ms: int) -> None:
        self.verb = verb
        self.queue = queue
        self.to = to
        self.delay_ms = delay_ms
        self._rights: User | None = None

    def may_write(self, node: "Node", job: Job) -> bool:
        """Whether who gives the order may add jobs to the queue that a dead letter came from."""
        if self._rights is None:
            self._rights = of_queues(b"", self.to) or User(b"")
        extra = node.extra_of(job)
        return extra is not None and self._rights.may(extra.origin, WRITE)

    def words(self) -> "Words":
        """How another node is told: `read` makes the order of it again."""
        return (self.verb, self.queue, self.to, b"%d" % self.delay_ms)


def rights_of(user: User) -> bytes:
    """What an order to revive jobs says of who gives it: nothing if he may add jobs everywhere."""
    return b"" if user.all_queues else b" ".join(user.words_of_queues()) or b"%W~"


def read(words: "Words") -> Order | None:
    """The order that a question begins with; None if there is none."""
    if len(words) <= ORDER_WORDS or words[0] not in DEEDS:
        return None
    delay_ms = number(words[3])
    if not 0 <= delay_ms <= SECONDS_MAX * 1000:
        return None
    return Order(words[0], words[1], words[2], delay_ms)


# -- one job -----------------------------------------------------------------------------------------------------------


def move_one(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """MOVE."""
    return relocate.move(node, job.id, order.to, order.delay_ms, now_ms)


def move_on(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """QMOVE: what is delayed stays so."""
    delay_ms = max(0, job.requeue_ms - now_ms) if job.flags & DEFERRED else 0
    return relocate.move(node, job.id, order.to, delay_ms, now_ms)


def revive_one(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """REVIVEJOB, REVIVE. Who may not do everything must be allowed to add jobs where this one goes."""
    if order.to and not order.may_write(node, job):
        return False
    return tries.revive(node, job, now_ms)


def end_one(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """QFLUSH: it is cancelled."""
    del order
    return acks.end(node, job, CANCELLED, b"", now_ms)


def cancel_one(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """CANCEL; with WAITING only what no consumer has."""
    if is_for_owner(order) and not (job.state == QUEUED or is_delayed_here(job)):
        return False
    return acks.end(node, job, CANCELLED, b"", now_ms)


#: What each order does with a job that is known: False if it cannot be.
DEEDS: "Final[dict[bytes, Callable[[Node, Job, Order, int], bool]]]" = {
    MOVE: move_one,
    REVIVEJOB: revive_one,
    QMOVE: move_on,
    REVIVE: revive_one,
    QFLUSH: end_one,
    CANCEL: cancel_one,
}


def is_for_owner(order: Order) -> bool:
    """Whether only the node that has a job in its queue, or speaks for it, can do it."""
    return order.verb == CANCEL and order.to == WAITING


def do(node: "Node", job: Job, order: Order, now_ms: int) -> bool:
    """Do it with one job."""
    return DEEDS[order.verb](node, job, order, now_ms)


def is_meant(order: Order, job: Job) -> bool:
    """Whether this node does it with ``job``: of orders for queues only what is queued or delayed here."""
    if order.verb not in OF_QUEUES:
        return True
    if job.spec.queue != order.queue:
        return False
    return job.state == QUEUED or is_delayed_here(job)


def is_delayed_here(job: Job) -> bool:
    """Whether this node speaks for ``job``, and nobody has it."""
    flags = job.flags
    if job.state != ACTIVE or not flags & SPOKEN or flags & SPENT or job.place >= ELSEWHERE:
        return False
    return not is_in_flight(job)


# -- by ID -------------------------------------------------------------------------------------------------------------


def are_ids(words: "Words") -> bool:
    """Whether these words of another node are IDs, and not too many."""
    return 0 < len(words) <= IDS_MOST and all(map(valid, words))


def say_where(node: "Node", asked: "Asked", now_ms: int) -> None:
    """Answer what is known here of these jobs: a digit for each."""
    del now_ms
    if not are_ids(asked.words):
        surveys.say(node, asked, surveys.CANNOT)
        return
    surveys.say(node, asked, (b"".join([b"%d" % where(node, job_id) for job_id in asked.words]),))


def where(node: "Node", job_id: bytes) -> int:
    """What is known here of one job."""
    job = node.find(job_id)
    if job is None or job.state not in {ACTIVE, QUEUED}:
        return UNKNOWN
    if job.state == QUEUED:
        return QUEUED_HERE
    return OUT_HERE if job.flags & SPOKEN and job.place < ELSEWHERE else COPY


def do_these(node: "Node", asked: "Asked", now_ms: int) -> None:
    """Do what is asked with these jobs, and answer with how many it was done."""
    order = read(asked.words)
    ids = asked.words[ORDER_WORDS:]
    if order is None or not are_ids(ids) or node.misconf:
        surveys.say(node, asked, surveys.CANNOT)
    else:
        node.begin_chore(these(node, asked, order, ids, now_ms))


def these(node: "Node", asked: "Asked", order: Order, ids: "Words", now_ms: int) -> "Iterator[None]":
    """A chore: some of these jobs in each step."""
    done = 0
    for count, job_id in enumerate(ids, 1):
        job = node.find(job_id)
        if job is not None and is_meant(order, job) and do(node, job, order, now_ms):
            done += 1
        if count % SLICE == 0 and count < len(ids):
            yield
            now_ms = max(now_ms, node.beat_ms)
    surveys.say(node, asked, (b"%d" % done,))


# -- the oldest of a queue ---------------------------------------------------------------------------------------------


def say_oldest(node: "Node", asked: "Asked", now_ms: int) -> None:
    """Answer which jobs of a queue here are the oldest that can be taken, and how many have no origin."""
    del now_ms
    order = read(asked.words)
    most = number(asked.words[4]) if len(asked.words) == 5 else 0
    if order is None or not 0 < most <= IDS_MOST:
        surveys.say(node, asked, surveys.CANNOT)
    else:
        node.begin_chore(oldest(node, asked, order, most))


def oldest(node: "Node", asked: "Asked", order: Order, most: int) -> "Iterator[None]":
    """A chore: a walk through all jobs."""
    found: list[tuple[int, bytes]] = []
    without = looked = 0
    for shard in node.shards:
        for job in shard.values():
            if not is_meant(order, job):
                continue
            if order.verb == REVIVE and not tries.is_dead(node, job):
                without += 1
            else:
                found.append((job.ctime, job.id))
        looked += len(shard) + 1
        if len(found) > 2 * most + STEP:
            found = nsmallest(most, found)
        if looked >= STEP:
            looked = 0
            yield
            if not surveys.is_wanted(node, asked):
                return
    rows = [word for ctime, job_id in nsmallest(most, found) for word in (b"%d" % ctime, job_id)]
    surveys.say(node, asked, (b"%d" % without, *rows))


def ages_of(words: "Words", most: int) -> list[tuple[int, bytes]] | None:
    """When jobs were made, and their IDs, in turn, as another node tells them; None for nonsense."""
    if len(words) % 2 or len(words) > 2 * most:
        return None
    found = []
    for at in range(0, len(words), 2):
        if not words[at].isdigit() or len(words[at]) > CTIME_DIGITS or not valid(words[at + 1]):
            return None
        found.append((int(words[at]), words[at + 1]))
    return found


#: Digits of the time when a job was made.
CTIME_DIGITS: Final = 20


# -- a whole queue -----------------------------------------------------------------------------------------------------


class Place:
    """How far a node has come with a queue.

    First it takes jobs from the head, at most ``left`` more: so many were there. Then it looks through the table of all
    jobs, from the dict number ``shard`` on, for those that are delayed; and, with ``is_mixed``, for queued ones too:
    the head could not be taken.
    """

    __slots__ = ("is_mixed", "left", "shard")

    def __init__(self, left: int, shard: int, is_mixed: int) -> None:
        self.left = left
        self.shard = shard
        self.is_mixed = is_mixed

    @property
    def is_end(self) -> bool:
        """Whether nothing is left to do."""
        return self.left == 0 and self.shard == SHARDS

    def word(self) -> bytes:
        """As one word."""
        return words_of([self.left, self.shard, self.is_mixed])


def place_of(numbers: list[int] | None) -> Place | None:
    """The place that another node tells; None for nonsense."""
    if numbers is None or len(numbers) != 3 or numbers[1] > SHARDS or numbers[2] > 1:
        return None
    return Place(numbers[0], numbers[1], numbers[2])


def do_all(node: "Node", asked: "Asked", now_ms: int) -> None:
    """Do what is asked with all jobs of a queue here, from a place on, and answer with how many and how far."""
    order = read(asked.words)
    if order is None or order.verb not in OF_QUEUES or len(asked.words) != 5 or node.misconf:
        surveys.say(node, asked, surveys.CANNOT)
        return
    if asked.words[4]:
        place = place_of(numbers_of(asked.words[4], 3, DIGITS_MOST))
    else:
        queue = node.queues.get(order.queue)
        place = Place(0 if queue is None else queue.length, 0, 0)
    if place is None:
        surveys.say(node, asked, surveys.CANNOT)
    else:
        node.begin_chore(Sweep(node, order, place).run(asked, now_ms))


class Sweep:
    """What one node does with its jobs of a queue, in one round."""

    __slots__ = ("budget", "done", "node", "order", "place", "some", "without")

    def __init__(self, node: "Node", order: Order, place: Place) -> None:
        self.node = node
        self.order = order
        self.place = place
        self.budget = ROUND
        self.done = 0
        self.without = 0
        #: Jobs of this step.
        self.some = 0

    def run(self, asked: "Asked", now_ms: int) -> "Iterator[None]":
        """A chore."""
        place = self.place
        while place.left and self.budget > 0 and self.has_room():
            self.take_heads(now_ms)
            if place.left and self.budget > 0:
                yield
                now_ms = max(now_ms, self.node.beat_ms)
        while not place.left and place.shard < SHARDS and self.budget > 0 and self.has_room():
            found = self.look()
            while found:
                self.some = 0
                while found and self.some < SLICE:
                    self.work(found.pop(), now_ms)
                if found:
                    yield
                    now_ms = max(now_ms, self.node.beat_ms)
            if place.shard < SHARDS and self.budget > 0:
                yield
                now_ms = max(now_ms, self.node.beat_ms)
        surveys.say(self.node, asked, (words_of([self.done, self.without]), place.word()))

    def has_room(self) -> bool:
        """Whether there is memory for more; moves need some until all holders know of them."""
        if self.order.verb == QFLUSH or self.node.used <= self.node.limits.full:
            return True
        self.place.left, self.place.shard = 0, SHARDS
        return False

    def take_heads(self, now_ms: int) -> None:
        """Do it with some jobs from the head of the queue on, while they let it be done."""
        node, place = self.node, self.place
        for _ in range(min(SLICE, place.left, self.budget)):
            queue = node.queues.get(self.order.queue)
            job = None if queue is None else queue.head()
            if job is None:
                place.left = 0
                return
            if not do(node, job, self.order, now_ms):
                place.left, place.is_mixed = 0, 1
                return
            self.done += 1
            self.budget -= 1
            place.left -= 1

    def look(self) -> list[Job]:
        """The jobs that are meant in the next dicts, together of `STEP` jobs or one dict."""
        order, place = self.order, self.place
        found: list[Job] = []
        looked = 0
        while place.shard < SHARDS and looked < STEP:
            shard = self.node.shards[place.shard]
            place.shard += 1
            looked += len(shard) + 1
            for job in shard.values():
                if (place.is_mixed or job.state != QUEUED) and is_meant(order, job):
                    found.append(job)  # noqa: PERF401 - compiled, this is as fast, and one list less
        return found

    def work(self, job: Job, now_ms: int) -> None:
        """Do it with one job that was found some time ago."""
        self.some += 1
        self.budget -= 1
        if self.node.find(job.id) is not job or not is_meant(self.order, job):
            return
        if do(self.node, job, self.order, now_ms):
            self.done += 1
        elif self.order.verb == REVIVE:
            self.without += 1
