"""QHISTORY: what happened to the jobs of a queue in the last minutes, hours and days.

Counters of queues are there anyway (`model.figures`), so jobs pay nothing. When a minute is over, a walk over the
queues, some at a time, notes how much the counters of each have grown since, and who asks looks at that queue again.

At most `history-queues` queues are kept. A further one takes the place of one that had no traffic for an hour; while
there is none, and while memory is above 75 %, it is not kept. Hours and days are in the journal: each walk writes the
newest ones of the queues that had traffic, a compaction all of them.
"""

from typing import TYPE_CHECKING, Any, Final

from disque.core.base import resp
from disque.core.base.numbers import INT64_MAX
from disque.core.jobs.figures import DIGITS_MOST, NO_QUEUE, numbers_of, words_of
from disque.core.journal.schema import HISTORY
from disque.core.model.history import (
    DAYS,
    HOURS,
    MINUTE_MS,
    MINUTES,
    NAMES,
    NO_COUNTS,
    QUIET_MINUTES,
    ROW_BYTES,
    SLOT_MOST,
    Counts,
    History,
    rows_in,
)
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import surveys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.model.figures import Figures
    from disque.core.model.queue import Queue
    from disque.core.node import Node

#: Kind of question: see `questions`.
PAST: Final = 4
#: The units by name: which of the rows, minutes in one, how many.
UNITS: Final = {b"minute": (0, *MINUTES), b"hour": (1, *HOURS), b"day": (2, *DAYS)}
#: Queues in one step of a walk.
STEP = 200  # not Final: tests want less, compiled too
#: Numbers of a row that a node tells.
COLUMNS: Final = 1 + len(NAMES)


# -- noting what happened ----------------------------------------------------------------------------------------------


def beat(node: "Node", now_ms: int) -> None:
    """Ten times a second: when a minute is over, note what happened in it."""
    histories = node.histories
    minute = min(now_ms // MINUTE_MS, SLOT_MOST)
    if minute <= histories.minute or histories.running:
        return
    if histories.minute >= 0:
        histories.running = True
        node.begin_chore(walk(node, minute - 1))
    histories.minute = minute


def walk(node: "Node", minute: int) -> "Iterator[None]":
    """Look at the counters of all queues. Those that are kept come first: then it is known which had no traffic."""
    histories = node.histories
    yield from walk_kept(node, minute)
    cursor = 0
    while True:
        cursor, some = node.queue_index.look(cursor, STEP)
        for queue in some:
            if queue.name not in histories.by_queue:
                look_and_file(node, queue.name, minute)
        if not cursor:
            break
        yield
    for at, name in enumerate(list(node.specs.absent), 1):
        if name not in histories.by_queue and name not in node.queues:
            look_and_file(node, name, minute)
        if not at % STEP:
            yield
    histories.running = False


def walk_kept(node: "Node", minute: int) -> "Iterator[None]":
    """Look at the queues that are kept; where fewer are to be, those with the oldest traffic go."""
    most = node.config.number("history-queues")
    for at, name in enumerate(list(node.histories.by_queue), 1):
        history = node.histories.by_queue.get(name)
        if history is not None:
            look(node, name, minute)
            retire_some(node, history, minute, most)
        if not at % STEP:
            yield


def retire_some(node: "Node", history: History, minute: int, most: int) -> None:
    """Write what is new of a queue, and forget what is too old, or all of it where fewer queues are to be kept."""
    before = history.size()
    history.prune(minute)
    node.used -= before - history.size()
    if not history.rows[2].data or len(node.histories.by_queue) > most:
        drop(node, history)
    elif history.is_new and node.journaling:
        file(node, history)


def look_and_file(node: "Node", name: bytes, minute: int) -> None:
    """Look at a queue that was not kept; if it is now, that is written."""
    history = look(node, name, minute)
    if history is not None and node.journaling:
        file(node, history)


def look(node: "Node", name: bytes, minute: int) -> History | None:
    """Add what the counters of a queue have grown by to this minute; what is known of the queue, if it is kept."""
    history = node.histories.by_queue.get(name)
    queue = node.queues.get(name)
    specs = node.specs.of(name)
    figures = None if specs is None else specs.last.figures
    if figures is None and history is not None:
        figures = history.figures  # jobs of a queue that is gone may still end
    grown = NO_COUNTS if figures is None else grown_by(figures, queue)
    if grown == NO_COUNTS:
        return history
    if history is None:
        history = admit(node, name, minute)
        if history is None:
            return None
    histories = node.histories.by_queue
    histories[history.name] = histories.pop(name)
    before = history.size()
    history.figures = figures
    history.add(minute, grown)
    node.used += history.size() - before
    return history


def grown_by(figures: "Figures", queue: "Queue | None") -> Counts:
    """How much the counters have grown since they were looked at. Who delivers a job has its queue."""
    delivered = 0
    if queue is not None:
        delivered = queue.jobs_out - queue.given - queue.noted
        queue.noted += delivered
    added, acked, nacked, died = figures.noted
    now = (figures.added, figures.acked, figures.nacked, figures.died)
    figures.noted = now
    return (now[0] - added, delivered, max(0, now[1] - acked), now[2] - nacked, now[3] - died)


def admit(node: "Node", name: bytes, minute: int) -> History | None:
    """Make a place for a queue that has traffic, if there can be one."""
    histories = node.histories.by_queue
    most = node.config.number("history-queues")
    oldest = next(iter(histories.values()), None)
    if oldest is not None and len(histories) >= most and oldest.minute + QUIET_MINUTES <= minute:
        drop(node, oldest)
    if len(histories) >= most or node.limits.level(node.used):
        return None
    return put(node, name)


def put(node: "Node", name: bytes) -> History:
    """The history of a queue that has none yet."""
    history = node.histories.by_queue[name] = History(name)
    node.used += history.size()
    return history


def drop(node: "Node", history: History) -> None:
    """Forget what happened in a queue. It needs no record: the next start forgets as well."""
    del node.histories.by_queue[history.name]
    node.used -= history.size()
    if history.segment:
        node.live[history.segment] -= 1


def close(node: "Node") -> None:
    """The node is about to stop cleanly: note what happened since the last walk, all at once."""
    if node.journaling:
        for _ in walk(node, min(node.beat_ms // MINUTE_MS, SLOT_MOST)):
            pass


# -- journal -----------------------------------------------------------------------------------------------------------


def file(node: "Node", history: History) -> None:
    """Write the two newest hours and days of a queue; all of them if no record has them, which then counts as alive."""
    _, hours, days = history.rows
    is_whole = not history.segment
    said = [bytes(rows.data if is_whole else rows.data[-2 * ROW_BYTES :]) for rows in (hours, days)]
    node.outbox.add((HISTORY, history.name, int(is_whole), *said))
    history.is_new = False
    if is_whole:
        lies_in(node, history, node.segment)


def lies_in(node: "Node", history: History, segment: int) -> None:
    """The last record with all rows is in this segment."""
    if history.segment:
        node.live[history.segment] -= 1
    history.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def is_history(record: tuple[Any, ...]) -> bool:
    """Whether the values of HISTORY fit together."""
    _, _, whole, hours, days = record
    if whole not in {0, 1}:
        return False
    return rows_in(hours, HOURS[1]) is not None and rows_in(days, DAYS[1]) is not None


def apply_history(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """HISTORY. Where there are too many queues, the one of which nothing was heard for longest is forgotten."""
    _, name, whole, *said = record
    node = recovery.node
    most = node.config.number("history-queues")
    if not most:
        return
    histories = node.histories.by_queue
    history = histories.pop(name, None)
    if history is None:
        while len(histories) >= most:
            drop(node, next(iter(histories.values())))
        history = put(node, recovery.names.setdefault(name, name))
    else:
        histories[history.name] = history
    before = history.size()
    for rows, data, (_, kept) in zip(history.rows[1:], said, (HOURS, DAYS), strict=True):
        if whole:
            rows.data.clear()
        for row in rows_in(data, kept) or ():
            rows.put(row)
    last = history.rows[1].last()
    history.minute = 0 if last is None else last[0] * HOURS[0]
    node.used += history.size() - before
    if whole or not history.segment:
        lies_in(node, history, segment)


def copy_histories(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again all of what happened in queues whose rows are in old segments."""
    for name in list(node.histories.by_queue):
        history = node.histories.by_queue.get(name)
        if history is not None and history.segment <= copying.upto and history.rows[2].data:
            if history.segment:
                node.live[history.segment] -= 1
                history.segment = 0
            file(node, history)
            yield 1 + len(history.rows[1].data) // 4096


def forget_histories(node: "Node") -> "Iterator[None]":
    """No queue has a record of what happened in it any more."""
    for history in node.histories.by_queue.values():
        history.segment = 0
    yield


# -- who asks ----------------------------------------------------------------------------------------------------------


def say_past(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer what is known here of a queue."""
    unit = UNITS.get(asked.words[1]) if len(asked.words) == 2 else None
    if unit is None:
        surveys.say(node, asked, surveys.CANNOT)
        return
    at, minutes, kept = unit
    minute = min(now_ms // MINUTE_MS, SLOT_MOST)
    history = look(node, asked.words[0], minute)
    if history is None:
        surveys.say(node, asked, NO_QUEUE)
        return
    first = minute // minutes - kept
    rows = [number for row in history.rows[at].all() if row[0] > first for number in row]
    surveys.say(node, asked, (b"1", words_of(rows)))


class Past(Answers):
    """QHISTORY: of this node alone, or of all nodes together (``is_whole``)."""

    __slots__ = ("_columns", "_first", "_is_whole", "_known", "_nodes", "_protocol", "_unit_s")

    def __init__(self, name: bytes, unit: bytes, protocol: int, now_ms: int, *, is_whole: bool) -> None:
        super().__init__(PAST, (name, unit))
        self.promises = False
        _, minutes, kept = UNITS[unit]
        self._unit_s = minutes * MINUTE_MS // 1000
        self._first = now_ms // (minutes * MINUTE_MS) - kept + 1
        self._columns = [[0] * kept for _ in NAMES]
        self._protocol = protocol
        self._is_whole = is_whole
        self._known = False
        self._nodes = 0

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`. Clocks differ: what another node says of times that are not asked for is left out."""
        del node_id
        if words != NO_QUEUE:
            kept = len(self._columns[0])
            numbers = numbers_of(words[1], kept * COLUMNS, DIGITS_MOST) if len(words) > 1 else None
            if numbers is None or len(numbers) % COLUMNS:
                return False
            for at in range(0, len(numbers), COLUMNS):
                slot = numbers[at]
                if slot > SLOT_MOST:
                    return False
                if 0 <= slot - self._first < kept:
                    self._add(slot - self._first, numbers[at + 1 : at + COLUMNS])
            self._known = True
        self._nodes += 1
        return True

    def _add(self, place: int, counts: list[int]) -> None:
        for column, count in zip(self._columns, counts, strict=True):
            column[place] = min(column[place] + count, INT64_MAX)

    def reply(self) -> bytes:
        """As in `Answers`."""
        if not self._known:
            return resp.null_array(self._protocol)
        pairs = [resp.bulk(b"begin"), resp.integer(self._first * self._unit_s)]
        pairs += [resp.bulk(b"seconds"), resp.integer(self._unit_s)]
        for name, column in zip(NAMES, self._columns, strict=True):
            pairs += [resp.bulk(name), resp.array([resp.integer(count) for count in column])]
        if self._is_whole:
            pairs += [resp.bulk(b"nodes"), resp.integer(self._nodes)]
            pairs += [resp.bulk(b"unreachable"), resp.bulks(self.unreachable)]
        return resp.mapping(pairs, self._protocol)
