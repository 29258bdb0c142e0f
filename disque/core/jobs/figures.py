"""Figures of a queue, of this node and of all together: QLEN and QSTAT.

A job is queued at one node only, and delayed or in flight where somebody speaks for it, so what all nodes say adds up.
Counts are of the life of the queue at a node: one that nobody uses is forgotten, and its counts with it.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import ID_LENGTH
from disque.core.base import resp
from disque.core.base.numbers import INT64_MAX
from disque.core.federation import supply
from disque.core.jobs import census
from disque.core.journal.schema import CTIME_A_MS
from disque.core.model.figures import COUNTS_MOST, Figures, Histogram
from disque.core.model.queue import PAUSE_NAMES, Queue
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: Kinds of questions: see `questions`.
LENGTH: Final = 1
FIGURES: Final = 2

#: Digits of a number that another node tells.
DIGITS_MOST: Final = 18
#: Numbers that it tells at once.
NUMBERS_MOST: Final = 100


def number(word: bytes) -> int:
    """A number that another node tells; -1 for what is none."""
    return int(word) if word.isdigit() and len(word) <= DIGITS_MOST else -1


def length(node: "Node", name: bytes) -> int:
    """How many jobs are in the queue at this node."""
    queue = node.queues.get(name)
    return 0 if queue is None else queue.length


def say_length(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer how long a queue is here."""
    del now_ms
    known = len(asked.words) == 1
    surveys.say(node, asked, (b"%d" % length(node, asked.words[0]),) if known else surveys.CANNOT)


class Lengths(Answers):
    """QLEN of all nodes."""

    __slots__ = ("_sum",)

    def __init__(self, name: bytes) -> None:
        super().__init__(LENGTH, (name,))
        self.promises = False
        self._sum = 0

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        found = number(words[0])
        self._sum += max(0, found)
        return found >= 0

    def reply(self) -> bytes:
        """As in `Answers`."""
        return resp.integer(self._sum)


class Field:
    """A number in QSTAT. ``of_all`` makes one number of those of all nodes."""

    __slots__ = ("name", "of_all")

    def __init__(self, name: bytes, of_all: int) -> None:
        self.name = name
        self.of_all = of_all


ADD: Final = 0
GREATEST: Final = 1
LEAST: Final = 2
UNION: Final = 3

#: The numbers that a node tells of a queue, in this order for ever; further ones are added at the end. Those up to
#: `oldest-ms` are shown among fields that are no numbers, see `shown`.
FIELDS: Final = (
    Field(b"len", ADD),
    Field(b"age", GREATEST),
    Field(b"idle", LEAST),
    Field(b"blocked", ADD),
    Field(b"import-rate", ADD),
    Field(b"jobs-in", ADD),
    Field(b"jobs-out", ADD),
    Field(b"pause", UNION),
    Field(b"oldest-ms", GREATEST),
    Field(b"delayed", ADD),
    Field(b"in-flight", ADD),
    Field(b"done", ADD),
    Field(b"added", ADD),
    Field(b"delivered", ADD),
    Field(b"acked", ADD),
    Field(b"nacked", ADD),
    Field(b"retried", ADD),
    Field(b"died", ADD),
    Field(b"expired", ADD),
    Field(b"cancelled", ADD),
    Field(b"dropped", ADD),
)
#: Nodes of the first version that could be asked told so many; what they do not know is 0.
FIELDS_LEAST: Final = 20
PAUSE: Final = 7
FIRST_NEW: Final = 9
DELAYED: Final = 9
IN_FLIGHT: Final = 10
#: What is shown of times.
PERCENTS: Final = (50, 95, 99)

#: The answer of a node that knows no such queue.
NO_QUEUE: Final[Words] = (b"",)
#: Digits of a count in a histogram.
COUNT_DIGITS_MOST: Final = 9


def say_figures(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer what is known of a queue here, when its jobs are counted."""
    if len(asked.words) != 1:
        surveys.say(node, asked, surveys.CANNOT)
    elif census.is_counted(node, asked.words[0], now_ms):
        say_counted(node, asked, now_ms)
    else:
        census.wait(node, asked, say_counted, now_ms)


def say_counted(node: "Node", asked: Asked, now_ms: int) -> None:
    """The jobs are counted."""
    if surveys.is_wanted(node, asked):
        surveys.say(node, asked, told(node, asked.words[0], now_ms))


def told(node: "Node", name: bytes, now_ms: int) -> Words:
    """All numbers, two histograms, and the nodes that jobs came from."""
    known = [node.census.delayed.get(name, 0), node.census.in_flight.get(name, 0), node.ends.done.get(name, 0)]
    queue = node.queues.get(name)
    figures = figures_of(node, name)
    if queue is None:
        numbers = [0] * DELAYED + [*known, figures.added, 0]
    else:
        numbers = [
            queue.length,
            max(0, now_ms - queue.created_ms) // 1000,
            max(0, now_ms - queue.used_ms) // 1000,
            len(queue.waiters or ()),
            supply.import_rate(queue, now_ms),
            queue.jobs_in,
            queue.jobs_out,
            queue.paused,
            oldest_ms(queue, now_ms),
            *known,
            figures.added,
            queue.jobs_out - queue.given,
        ]
    numbers += [figures.acked, figures.nacked, figures.retried, figures.died]
    numbers += [figures.expired, figures.cancelled, figures.dropped]
    if queue is None and not any(numbers):
        return NO_QUEUE
    times = [b"" if one is None else words_of(one.counts) for one in (figures.waits, figures.runs)]
    senders = () if queue is None else supply.sent_from(queue, now_ms)
    return (words_of(numbers), *times, *senders)


#: Those of a queue that never had a job.
NO_FIGURES: Final = Figures()


def figures_of(node: "Node", name: bytes) -> Figures:
    """What was counted of a queue here; it need not be there: this node may have copies of its jobs only."""
    specs = node.specs.of(name)
    return NO_FIGURES if specs is None else specs.last.figures


def oldest_ms(queue: Queue, now_ms: int) -> int:
    """For how long the oldest job of the queue could have been delivered; 0 where there is none."""
    job = queue.oldest()
    return 0 if job is None else max(0, now_ms - job.ctime // CTIME_A_MS - job.delay * 1000)


def words_of(numbers: list[int]) -> bytes:
    """Numbers as one word."""
    return b" ".join([b"%d" % one for one in numbers])


def numbers_of(word: bytes, most: int, digits: int) -> list[int] | None:
    """The numbers in a word of another node; None if there is something else, or more than ``most``."""
    if not word:
        return []
    if len(word) > most * (digits + 1):
        return None
    parts = word.split(b" ")
    if len(parts) > most:
        return None
    for part in parts:
        if not part.isdigit() or len(part) > digits:
            return None
    return [int(part) for part in parts]


class Totals(Answers):
    """QSTAT: of this node alone, or of all nodes together (``is_whole``)."""

    __slots__ = ("_imports", "_is_whole", "_nodes", "_numbers", "_protocol", "_runs", "_waits")

    def __init__(self, name: bytes, protocol: int, *, is_whole: bool) -> None:
        super().__init__(FIGURES, (name,))
        self.promises = False
        self._protocol = protocol
        self._is_whole = is_whole
        self._nodes = 0
        self._numbers: list[int] = []
        self._imports: dict[bytes, None] = {}
        self._waits = Histogram()
        self._runs = Histogram()

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        if words == NO_QUEUE:
            self._nodes += 1
            return True
        if len(words) < 3:
            return False
        numbers = numbers_of(words[0], NUMBERS_MOST, DIGITS_MOST)
        waits = numbers_of(words[1], COUNTS_MOST, COUNT_DIGITS_MOST)
        runs = numbers_of(words[2], COUNTS_MOST, COUNT_DIGITS_MOST)
        if numbers is None or len(numbers) < FIELDS_LEAST or waits is None or runs is None:
            return False
        if numbers[PAUSE] >= len(PAUSE_NAMES) or any(len(one) != ID_LENGTH for one in words[3:]):
            return False
        self._nodes += 1
        self._merge(numbers + [0] * (len(FIELDS) - len(numbers)))
        self._waits.merge(waits)
        self._runs.merge(runs)
        self._imports.update(dict.fromkeys(words[3:]))
        return True

    def _merge(self, numbers: list[int]) -> None:
        """Make one number of each and what is there."""
        mine = self._numbers
        if not mine:
            self._numbers = numbers[: len(FIELDS)]
            return
        for at, field in enumerate(FIELDS):
            if field.of_all == ADD:
                mine[at] = min(mine[at] + numbers[at], INT64_MAX)
            elif field.of_all == GREATEST:
                mine[at] = max(mine[at], numbers[at])
            elif field.of_all == LEAST:
                mine[at] = min(mine[at], numbers[at])
            else:
                mine[at] |= numbers[at]

    def reply(self) -> bytes:
        """As in `Answers`."""
        if not self._numbers:
            return resp.null_array(self._protocol)
        pairs = self._shown()
        return resp.array([part for name, value in pairs for part in (resp.bulk(name), value)])

    def _shown(self) -> list[tuple[bytes, bytes]]:
        """Names and values, encoded; first those of Disque, in its order."""
        numbers = [resp.integer(one) for one in self._numbers]
        names = [field.name for field in FIELDS]
        shown = [(b"name", resp.bulk(self.words[0])), *zip(names[:4], numbers[:4], strict=True)]
        shown.append((b"import-from", resp.bulks(list(self._imports))))
        shown += zip(names[4:PAUSE], numbers[4:PAUSE], strict=True)
        shown.append((names[PAUSE], resp.bulk(PAUSE_NAMES[self._numbers[PAUSE]])))
        shown += zip(names[PAUSE + 1 :], numbers[PAUSE + 1 :], strict=True)
        for name, times in ((b"wait", self._waits), (b"run", self._runs)):
            shown += [(b"%b-p%d-ms" % (name, percent), resp.integer(times.percentile(percent))) for percent in PERCENTS]
        if self._is_whole:
            shown += [(b"nodes", resp.integer(self._nodes)), (b"unreachable", resp.bulks(self.unreachable))]
        return shown
