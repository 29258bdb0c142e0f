"""RESULT: what has become of a job, whichever nodes know it."""

from typing import TYPE_CHECKING, Final

from cluster.member import is_node_id
from disque.core.base import errors, resp
from disque.core.jobs import orders
from disque.core.jobs.figures import DIGITS_MOST, numbers_of
from disque.core.model import ends as model
from disque.core.model.claims import EITHER
from disque.core.model.extra import Extra
from disque.core.model.job import ACKED, DEFERRED, QUEUED, WAIT_REPL, Job, is_in_flight
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import ends, generations, surveys

if TYPE_CHECKING:
    from disque.core.model.user import User
    from disque.core.node import Node

#: The kind of question: see `questions`.
RESULT: Final = 20

#: What a job is that has not ended, behind the numbers of ends.
WAITS: Final = 10
RUNS: Final = 11
DELAYED: Final = 12
NAMES: Final = {
    **{number: model.NAMES[number] for number in (*model.ENDINGS, model.DEAD_LETTER)},
    WAITS: b"queued",
    RUNS: b"in-flight",
    DELAYED: b"delayed",
}
#: Words of an answer: see `ends.words_of`.
WORDS: Final = 6
#: Ranks of what two nodes know of one move of a job.
RANKS: Final = 4
#: Bytes of an answer beside those of a result that this node takes: other nodes may take longer ones.
RESULT_MOST: Final = 64 << 20


def say_result(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer what is known of a job here; of one that has ended, when all holders know that."""
    if len(asked.words) != 1:
        surveys.say(node, asked, surveys.CANNOT)
        return
    job_id = asked.words[0]
    end = node.ends.by_id.get(job_id)
    job = node.find(job_id)
    if end is not None and not end.is_strange and (job is None or job.state == ACKED):
        if not ends.is_sure(node, job_id):
            node.ends.unsure.setdefault(job_id, []).append(asked)
            return
        words = ends.words_of(end, now_ms)
    elif job is None or job.state in {ACKED, WAIT_REPL}:
        words = ends.NOT_KNOWN
    else:
        words = alive(node, job)
    surveys.say(node, asked, words)


def alive(node: "Node", job: Job) -> "Words":
    """What a node says of a job that has not ended: as of an end."""
    extra = node.extra_of(job) or Extra()
    rank = extra.generation * RANKS + orders.where(node, job.id)
    numbers = b"%d %d %d 0" % (state(job, is_dead=extra.is_dead), rank, generations.ended(node, job))
    return (numbers, job.queue, b"", extra.error, extra.progress, b"")


def state(job: Job, *, is_dead: bool) -> int:
    """What a job is that has not ended."""
    if is_dead:
        return model.DEAD_LETTER
    if job.state == QUEUED:
        return WAITS
    if is_in_flight(job):
        return RUNS
    return DELAYED if job.flags & DEFERRED or job.delay else RUNS


class Result(Answers):
    """RESULT: the best of what all nodes know. Who keeps another end than that is told of it."""

    __slots__ = ("_alive", "_best", "_end", "_id", "_kept", "_node", "_protocol", "_rank", "_tries", "_user")

    def __init__(self, node: "Node", user: "User", job_id: bytes, protocol: int, most: int) -> None:
        super().__init__(RESULT, (job_id,))
        self._node = node
        self._user = user
        self._id = job_id
        self._protocol = protocol
        self.most += most
        self.awaits_own = False  # how the job has ended may not be sure for long: a holder does not confirm
        #: The best answer of those that know of an end, and of the others; and the rank of that among these.
        self._best: Words | None = None
        self._alive: Words | None = None
        self._rank = -1
        #: The end that counts, as `model.is_better` has it; and what nodes keep: status, result, and what is beside it.
        self._end: tuple[int, bytes, bytes] | None = None
        self._tries = 0
        self._kept: dict[bytes, tuple[int, bytes, ends.Beside]] = {}

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        numbers = numbers_of(words[0], 4, DIGITS_MOST)
        if numbers is None or len(numbers) != 4 or len(words) != WORDS:
            return False
        status, rank = numbers[0], numbers[1]
        if not status:
            return True
        if status not in NAMES:
            return False
        if status in model.ENDINGS:
            if not is_node_id(words[-1]):
                return False
            end, tries = (status, words[-1], words[2]), numbers[2]
            self._kept[node_id] = (status, words[2], (tries, words[3], words[1]))
            # A node that heard that the job is done, and not how, may not have heard of all tries.
            if self._end is None or model.is_better(end, self._end) or (end == self._end and tries > self._tries):
                self._end, self._best, self._tries = end, words, tries
        elif rank > self._rank:
            self._rank, self._alive = rank, words
        return True

    def reply(self) -> bytes:
        """As in `Answers`."""
        best = self._best
        if self._end is None or (self._end[0] == model.EXPIRED and self._alive is not None):
            best = self._alive  # who says that a job has expired speaks for its own copy
        if best is None:
            return resp.null_bulk(self._protocol)
        # When the nodes were asked for rights, nobody knew the job: it was on its way.
        if best[1] and not self._user.may(best[1], EITHER):
            return resp.error(errors.NO_QUEUE)
        if self._end is not None and best is self._best:
            self._correct(self._end, best)
        return shown(self._id, best, self._protocol)

    def _correct(self, end: tuple[int, bytes, bytes], words: Words) -> None:
        """Nodes that answered with an end that clients can tell from this one are told of it."""
        numbers = numbers_of(words[0], 4, DIGITS_MOST)
        assert numbers is not None
        status, taker, result = end
        text = words[3] if status == model.DEAD else result
        beside = (numbers[2], words[3], words[1])
        for keeper, kept in self._kept.items():
            if kept != (status, result, beside):
                ends.correct(self._node, keeper, self._id, (status, taker), numbers[3], text, beside)


def shown(job_id: bytes, words: "Words", protocol: int, body: bytes | None = None) -> bytes:
    """What a node says of a job, as clients see it: a map; with the body of the job, where that is asked for."""
    numbers = numbers_of(words[0], 4, DIGITS_MOST)
    assert numbers is not None
    status, _, tries, age_ms = numbers
    _, queue, result, error, progress, _ = words
    has_ended = status in model.ENDINGS
    pairs = [
        (b"id", resp.bulk(job_id)),
        (b"queue", resp.bulk(queue)),
        (b"status", resp.bulk(NAMES[status])),
        (b"result", resp.bulk(result) if result else resp.null_bulk(protocol)),
        (b"error", resp.bulk(error) if error else resp.null_bulk(protocol)),
        (b"tries", resp.integer(tries)),
        (b"ended-ms-ago", resp.integer(age_ms) if has_ended else resp.null_bulk(protocol)),
        (b"progress", resp.bulk(progress) if progress else resp.null_bulk(protocol)),
    ]
    if body is not None:
        pairs.append((b"body", resp.bulk(body)))
    return resp.mapping([part for name, value in pairs for part in (resp.bulk(name), value)], protocol)
