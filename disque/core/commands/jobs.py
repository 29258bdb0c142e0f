"""The commands of a job's life: ADDJOB, GETJOB, ACKJOB, FASTACK, DELJOB, NACK, WORKING, ENQUEUE, DEQUEUE, SHOW."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import SECONDS_MAX, parse_int, parse_ms
from disque.core.commands import show
from disque.core.federation import demand
from disque.core.jobs import add, bulk, deliver, meta, requeue, terms
from disque.core.jobs.bulk import Bulk
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import (
    BLOCKING,
    CONSUME,
    DENYOOM,
    FAST,
    LIST,
    PRODUCE,
    READONLY,
    WRITE,
    Command,
)
from disque.core.model.ends import CANCELLED, DONE
from disque.core.model.extra import PROGRESS_MOST
from disque.core.model.job import ACKED, WAIT_REPL
from disque.core.model.jobid import SHARDS, shard_of, valid
from disque.core.model.request import Request
from disque.core.model.session import Session
from disque.core.model.spec import DEADLETTER
from disque.core.replication import acks, generations

if TYPE_CHECKING:
    from disque.core.node import Node


class GetOptions:
    """What stands before FROM in a GETJOB. ``first`` is the index of the first queue name."""

    __slots__ = (
        "bodies",
        "bytes_most",
        "count",
        "counters",
        "first",
        "lease_ms",
        "meta",
        "no_hang",
        "strict",
        "timeout_ms",
    )

    def __init__(self) -> None:
        self.count = 1
        self.timeout_ms = 0
        self.no_hang = False
        self.counters = False
        self.meta = False
        self.bodies = True
        self.bytes_most = deliver.BYTES_MOST
        self.strict = False
        self.lease_ms = 0
        self.first = 0

    def jobs_most(self) -> int:
        """How many jobs to answer with: what is known of each takes longer than its body, and others wait."""
        return min(self.count, deliver.META_JOBS_MOST) if self.meta else self.count


FROM: Final = frozenset({b"FROM", b"from"})
NOHANG: Final = frozenset({b"NOHANG", b"nohang"})


def is_usual(args: list[bytes]) -> bool:
    """Whether a GETJOB asks for one job of one queue in the words that nearly all clients use."""
    words = len(args)
    return (words == 3 and args[1] in FROM) or (words == 4 and args[2] in FROM and args[1] in NOHANG)


def parse_get(args: list[bytes], options: GetOptions) -> bytes:
    """Read the words before the queue names; returns the text of an error, or nothing."""
    at = 1
    last = len(args) - 1
    while at < last:
        word = args[at].upper()
        at += 1
        if word == b"FROM":
            options.first = at
            return b""
        if word == b"NOHANG":
            options.no_hang = True
        elif word == b"WITHCOUNTERS":
            options.counters = True
        elif word == b"WITHMETA":
            options.meta = True
        elif word == b"NOBODY":
            options.bodies = False
        elif word == b"STRICT":
            options.strict = True
        elif word in {b"COUNT", b"TIMEOUT", b"BYTES", b"LEASE"}:
            wrong = set_get_number(options, word, args[at])
            if wrong:
                return wrong
            at += 1
        else:
            return errors.SYNTAX
    return errors.SYNTAX


def set_get_number(options: GetOptions, word: bytes, said: bytes) -> bytes:
    """Take COUNT, BYTES, TIMEOUT or LEASE; returns the text of an error, or nothing."""
    if word == b"LEASE":
        return set_lease(options, said)
    value = parse_int(said)
    if word == b"TIMEOUT":
        if value is None:
            return errors.BAD_TIMEOUT
        if value < 0:
            return errors.NEGATIVE_TIMEOUT
        options.timeout_ms = value
        return b""
    if value is None or value <= 0:
        return errors.BAD_BYTES if word == b"BYTES" else errors.BAD_COUNT
    if word == b"BYTES":
        options.bytes_most = min(value, deliver.BYTES_MOST)
    else:
        options.count = value
    return b""


def set_lease(options: GetOptions, word: bytes) -> bytes:
    """Take LEASE; returns the text of an error, or nothing."""
    lease_ms = parse_ms(word)
    if lease_ms is None or lease_ms <= 0:
        return errors.BAD_LEASE
    if options.lease_ms:
        return errors.TWICE % b"LEASE"
    options.lease_ms = lease_ms
    return errors.TOO_FAR % b"LEASE" if lease_ms > SECONDS_MAX * 1000 else b""


def getjob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """GETJOB: jobs at once if there are any, else a wait in the lines of the queues."""
    queue = node.queues.get(args[-1])
    if (
        queue is not None
        and queue.length
        and not queue.paused
        and queue.waiters is None
        and not node.reconciling
        and is_usual(args)
    ):
        deliver.give_one(node, session, queue, now_ms)
        return
    options = GetOptions()
    wrong = parse_get(args, options)
    if wrong:
        session.out.append(resp.error(wrong))
        return
    names = args[options.first :]
    queues = [queue for queue in map(node.queues.get, names) if queue is not None]
    if node.ready and any(queue.ready and queue.waiters is not None for queue in queues):
        deliver.serve_lines(node, now_ms)
    count, size = options.jobs_most(), options.bytes_most
    if options.strict:
        jobs = deliver.take_strictly(node, session, queues, count, size, options.lease_ms, now_ms)
    else:
        jobs = deliver.take(node, session, queues, count, size, options.lease_ms, now_ms) if queues else []
    if jobs:
        metas = [meta.encode(node, job, session.protocol, now_ms) for job in jobs] if options.meta else None
        reply = deliver.encode(node, jobs, counters=options.counters, bodies=options.bodies, metas=metas)
        session.large = session.large or len(reply) > 1
        session.out += reply
    else:
        find_none(node, session, options, names, now_ms)


def find_none(node: "Node", session: Session, options: GetOptions, names: list[bytes], now_ms: int) -> None:
    """There is no job for a GETJOB: say so, or let it wait; other nodes are asked."""
    if options.no_hang:
        session.out.append(resp.null_array(session.protocol))
        if node.linked:
            demand.poll(node, names, options.count, now_ms)
    elif node.membership.leaving:
        session.out.append(resp.error(errors.LEAVING))
    elif len(names) > deliver.QUEUES_MOST:
        session.out.append(resp.error(errors.TOO_MANY_QUEUES))
    elif len(names) > deliver.FEW and node.places + len(names) > deliver.PLACES_MOST:
        session.out.append(resp.error(errors.TOO_MANY_PLACES % deliver.FEW))
    elif not node.may_make_queues(names) or (len(names) > deliver.FEW and node.used > node.limits.most):
        session.out.append(resp.error(errors.OUT_OF_MEMORY))
    else:
        session.wait_counters = options.counters
        session.wait_meta = options.meta
        session.wait_bodies = options.bodies
        session.wait_bytes = options.bytes_most
        session.wait_strict = options.strict
        session.wait_lease_ms = options.lease_ms
        deliver.block(node, session, names, options.jobs_most(), options.timeout_ms, now_ms)


def bad_ids(session: Session, ids: list[bytes]) -> bool:
    """Whether one of ``ids`` is none: then that is the reply, and nothing is done."""
    for job_id in ids:
        if not valid(job_id):
            session.out.append(resp.error(errors.BAD_ID))
            return True
    return False


#: What a command does with one job; True if that counts.
Deed = Callable[["Node", bytes, int], bool]


class Counting(Bulk):
    """A command that answers for how many of its jobs it worked."""

    __slots__ = ("_count", "_deed")

    def __init__(self, session: Session, ids: list[bytes], deed: Deed) -> None:
        super().__init__(session, ids)
        self._deed = deed
        self._count = 0

    def do(self, node: "Node", job_id: bytes, now_ms: int) -> None:
        """As in `Bulk`."""
        self._count += self._deed(node, job_id, now_ms)

    def reply(self) -> bytes:
        """As in `Bulk`."""
        return resp.integer(self._count)


def count(node: "Node", session: Session, ids: list[bytes], deed: Deed, now_ms: int) -> None:
    """Do something with each job, and answer for how many it worked."""
    if len(ids) > bulk.MOST:
        bulk.begin(node, Counting(session, ids, deed))
    elif not bad_ids(session, ids):
        session.out.append(resp.integer(sum([deed(node, job_id, now_ms) for job_id in ids])))


def acknowledge_one(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """ACKJOB of one job."""
    done = acks.acknowledge(node, job_id, now_ms)
    node.stats.jobs_acknowledged += done
    return done


def fast_ack_one(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """FASTACK of one job."""
    done = acks.fast_ack(node, job_id, now_ms)
    node.stats.jobs_acknowledged += done
    return done


def ackjob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACKJOB: how many of the jobs were known and not acknowledged before."""
    if len(args) == 2:
        job = node.find(args[1])
        if job is not None:  # what nearly every ACKJOB comes to
            is_done = acks.acknowledge_known(node, job, now_ms)
            node.stats.jobs_acknowledged += is_done
            session.out.append(resp.integer(is_done))
            return
    if len(args) == 4 and args[2].upper() == b"RESULT":
        acknowledge_with(node, session, args[1], args[3], now_ms)
        return
    ids = args[1:]
    if len(ids) > bulk.MOST:
        bulk.begin(node, Counting(session, ids, acknowledge_one))
        return
    if bad_ids(session, ids):
        return
    done = 0
    for job_id in ids:
        done += acks.acknowledge(node, job_id, now_ms)
    node.stats.jobs_acknowledged += done
    session.out.append(resp.integer(done))


def acknowledge_with(node: "Node", session: Session, job_id: bytes, result: bytes, now_ms: int) -> None:
    """ACKJOB id RESULT value: the job is done, and this has come of it."""
    if bad_ids(session, [job_id]):
        return
    most = node.config.number("max-result-bytes")
    wrong = errors.BAD_RESULT % most if len(result) > most else terms.lacking(node, b"ACKJOB RESULT")
    job = node.find(job_id)
    done = False
    if not wrong:
        if job is not None:
            done = acks.end(node, job, DONE, result, now_ms)
        elif not acks.end_unknown(node, job_id, result, now_ms):
            wrong = errors.RESULTS_FULL
    node.stats.jobs_acknowledged += done
    session.out.append(resp.error(wrong) if wrong else resp.integer(done))


def deljob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DELJOB: how many of the jobs were known here."""
    count(node, session, args[1:], acks.delete, now_ms)


def fastack(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """FASTACK: delete jobs here and wherever else they may be; how many were known here."""
    count(node, session, args[1:], fast_ack_one, now_ms)


def enqueue_one(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """ENQUEUE of one job."""
    job = node.find(job_id)
    return job is not None and requeue.enqueue(node, job, now_ms)


def dequeue_one(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """DEQUEUE of one job."""
    job = node.find(job_id)
    return job is not None and requeue.dequeue(node, job, now_ms)


def enqueue(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ENQUEUE: how many jobs went into their queue."""
    count(node, session, args[1:], enqueue_one, now_ms)


def dequeue(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEQUEUE: how many jobs were taken out of their queue."""
    count(node, session, args[1:], dequeue_one, now_ms)


class Nacking(Bulk):
    """A NACK of many jobs. An ID that is there twice counts once, whoever has got its job between."""

    __slots__ = ("_count", "_said", "_seen")

    def __init__(self, session: Session, ids: list[bytes], said: requeue.Nack) -> None:
        super().__init__(session, ids)
        self._said = said
        self._count = 0
        self._seen: list[set[bytes]] = [set() for _ in range(SHARDS)]

    def do(self, node: "Node", job_id: bytes, now_ms: int) -> None:
        """As in `Bulk`."""
        seen = self._seen[shard_of(job_id)]
        job = node.find(job_id)
        if job is not None and job_id not in seen:
            seen.add(job.id)
            self._count += requeue.nack(node, job, self._said, now_ms)

    def reply(self) -> bytes:
        """As in `Bulk`."""
        return resp.integer(self._count)


def parse_nack(args: list[bytes], said: requeue.Nack) -> tuple[list[bytes], bytes]:
    """The IDs of a NACK, and the text of an error, or nothing. Options begin at the first word that is the name of one.

    Each may be said once; ERROR takes the next word whatever it is.
    """
    ids: list[bytes] = []
    seen: set[bytes] = set()
    at = 1
    while at < len(args):
        word = args[at].upper() if len(args[at]) <= LONGEST_OPTION else b""
        at += 1
        if word not in NACK_OPTIONS and not seen:
            ids.append(args[at - 1])
            continue
        takes = NACK_OPTIONS.get(word, 0)
        if word not in NACK_OPTIONS or (word in OLD_OPTIONS and at + takes > len(args)):
            return ids, errors.BAD_ID  # as it always was: what is no option is meant as an ID
        if at + takes > len(args):
            return ids, errors.SYNTAX
        if word in seen and word not in OLD_OPTIONS:
            return ids, errors.TWICE % word
        seen.add(word)
        wrong = set_nack(said, word, args[at] if takes else b"")
        if wrong:
            return ids, wrong
        at += takes
    contradicts = not said.counts and (said.is_dead or said.error is not None)
    if contradicts or (said.is_dead and said.delay_ms >= 0):
        return ids, errors.NACK_CONTRADICTS
    return ids, b""


#: Options of NACK, and how many words each takes.
NACK_OPTIONS: Final = {b"DELAY": 1, b"ERROR": 1, b"DEAD": 0, b"NOCOUNT": 0}
LONGEST_OPTION: Final = 16
#: Of those that could always be repeated, the last one counts.
OLD_OPTIONS: Final = frozenset({b"DELAY", b"NOCOUNT"})


def set_nack(said: requeue.Nack, option: bytes, word: bytes) -> bytes:
    """Take one option; returns the text of an error, or nothing."""
    if option == b"DELAY":
        delay_ms = parse_ms(word)
        if delay_ms is None or delay_ms < 0:
            return errors.BAD_DELAY
        if delay_ms > SECONDS_MAX * 1000:
            return errors.TOO_FAR % b"DELAY"
        said.delay_ms = delay_ms
    elif option == b"ERROR":
        said.error = word
    elif option == b"DEAD":
        said.is_dead = True
    else:
        said.counts = False
    return b""


def nack(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """NACK id [id ...] [options]: how many jobs go back to their queue, now or later, or become dead letters."""
    said = requeue.Nack()
    ids, wrong = parse_nack(args, said)
    if not wrong and said.is_dead:
        wrong = terms.lacking(node, b"NACK DEAD")
    if wrong:
        session.out.append(resp.error(wrong))
        return
    if len(ids) > bulk.MOST:
        bulk.begin(node, Nacking(session, ids, said))
        return
    if bad_ids(session, ids):
        return
    jobs = [job for job in map(node.find, dict.fromkeys(ids)) if job is not None]
    session.out.append(resp.integer(sum([requeue.nack(node, job, said, now_ms) for job in jobs])))


class Postponing(Bulk):
    """A WORKING for many jobs."""

    __slots__ = ("_parts", "_progress", "_replies")

    def __init__(self, session: Session, ids: list[bytes], progress: bytes | None) -> None:
        super().__init__(session, ids)
        self._progress = progress
        self._parts = [b"*%d\r\n" % len(ids)]
        self._replies: list[bytes] = []

    def do(self, node: "Node", job_id: bytes, now_ms: int) -> None:
        """As in `Bulk`."""
        self._replies.append(work_on(node, job_id, self._progress, now_ms))

    def end_slice(self) -> None:
        """As in `Bulk`."""
        self._parts.append(b"".join(self._replies))
        self._replies.clear()

    def reply(self) -> bytes:
        """As in `Bulk`."""
        return b"".join(self._parts)


def working(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """WORKING id [id ...] [PROGRESS text].

    The seconds by which each delivery is postponed; one ID answers alone, several as an array.
    """
    ids = args[1:]
    progress: bytes | None = None
    if len(ids) > 2 and ids[-2].upper() == b"PROGRESS":
        progress = ids[-1][:PROGRESS_MOST]  # it takes the next word whatever that is
        ids = ids[:-2]
        wrong = terms.lacking(node, b"WORKING PROGRESS")
        if wrong:
            session.out.append(resp.error(wrong))
            return
    elif len(ids) > 1 and ids[-1].upper() == b"PROGRESS":
        session.out.append(resp.error(errors.BAD_PROGRESS))
        return
    if len(ids) > bulk.MOST:
        bulk.begin(node, Postponing(session, ids, progress))
        return
    if bad_ids(session, ids):
        return
    replies = [work_on(node, job_id, progress, now_ms) for job_id in ids]
    session.out.append(replies[0] if len(replies) == 1 else resp.array(replies))


def work_on(node: "Node", job_id: bytes, progress: bytes | None, now_ms: int) -> bytes:
    """The reply of WORKING for one job."""
    job = node.find(job_id)
    if job is None or job.state == ACKED:
        end = node.ends.by_id.get(job_id)
        if end is not None and end.status == CANCELLED:
            return resp.error(errors.CANCELLED)
    if job is None:
        return resp.error(errors.NO_JOB)
    seconds = requeue.working(node, job, now_ms)
    if progress is not None and seconds >= 0 and job.state not in {ACKED, WAIT_REPL}:
        generations.note_progress(node, job, progress, now_ms)
    return resp.error(errors.TOO_LATE) if seconds == requeue.WORKING_TOO_LATE else resp.integer(seconds)


def show_job(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """SHOW: everything that is known of a job, or nothing."""
    if bad_ids(session, args[1:]):
        return
    job_id, protocol = args[1], session.protocol
    job = node.find(job_id)
    if job is not None:
        reply = show.pieces(node, job, protocol, now_ms)
        if len(reply) > 1:
            session.large = True
        session.out += reply
    elif job_id in node.acks.by_id and session.user.all_queues:  # else: of which queue it was is not known here
        session.out.append(show.encode_dummy(node, node.acks.by_id[job_id], protocol, now_ms))
    else:
        session.out.append(resp.null_bulk(protocol))


# -- what requests claim -----------------------------------------------------------------------------------------------


def added(args: list[bytes]) -> Claims:
    """ADDJOB puts a job into its queue, and later perhaps into the one for dead letters."""
    claims = Claims()
    claims.queues.append((args[1], may.WRITE))
    claims.queues += dead_letters(args)
    return claims


def dead_letters(args: list[bytes]) -> list[tuple[bytes, int]]:
    """The claim to the queue that an ADDJOB names for dead letters, if it names one."""
    request = Request(args[1], b"", 1)
    if not add.parse_options(request, args) and request.rows is not None:
        name = request.rows.get(DEADLETTER.number, b"")
        if isinstance(name, bytes) and len(name) > 1:
            return [(name[1:], may.WRITE)]
    return []


def taken(args: list[bytes]) -> Claims:
    """GETJOB takes jobs out of its queues."""
    claims = Claims()
    options = GetOptions()
    if not parse_get(args, options):
        # One more than may be named at once: that is all that the error needs.
        claims.queues += [(name, may.READ) for name in args[options.first : options.first + may.QUEUES_MOST + 1]]
    return claims


def acknowledged(args: list[bytes]) -> Claims:
    """ACKJOB ends jobs."""
    is_one = len(args) == 4 and args[2].upper() == b"RESULT"
    return may.of_ids(args[1:2] if is_one else args[1:], may.READ, counts=True)


def given_back(args: list[bytes]) -> Claims:
    """NACK gives back jobs."""
    return may.of_ids(parse_nack(args, requeue.Nack())[0], may.READ, counts=True)


def worked_on(args: list[bytes]) -> Claims:
    """WORKING postpones jobs."""
    ids = args[1:]
    return may.of_ids(ids[:-2] if len(ids) > 2 and ids[-2].upper() == b"PROGRESS" else ids, may.READ, counts=False)


class AddJob(Command):
    """The row of ADDJOB."""

    def run(self, node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
        """As in `Command`."""
        add.add(node, session, args, now_ms)


class GetJob(Command):
    """The row of GETJOB."""

    def run(self, node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
        """As in `Command`."""
        getjob(node, session, args, now_ms)


class AckJob(Command):
    """The row of ACKJOB."""

    def run(self, node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
        """As in `Command`."""
        ackjob(node, session, args, now_ms)


#: What those have in common that take a list of IDs, or of queues.
OF_IDS: Final = WRITE | FAST | LIST

COMMANDS: Final = (
    AddJob(
        "addjob",
        -4,
        WRITE | DENYOOM | FAST | PRODUCE,
        add.add,
        "jobs",
        "queue body ms-timeout [REPLICATE n] [DELAY s] [AT unix-ms] [RETRY s] [TTL s] [PRIORITY n] "
        "[MAXLEN n] [UNIQUE key s] [ASYNC] "
        "[TRIES n] [BACKOFF kind:s] [DEADLETTER queue] [RETAIN s] [HEADER name value ...]",
        "Add a job to a queue; the reply is its ID.",
        touches=added,
    ),
    GetJob(
        "getjob",
        -2,
        OF_IDS | CONSUME | BLOCKING,
        getjob,
        "jobs",
        "[NOHANG] [TIMEOUT ms] [COUNT n] [BYTES n] [LEASE s] [STRICT] [WITHCOUNTERS] [WITHMETA] [NOBODY] "
        "FROM queue [queue ...]",
        "Get jobs out of queues, or wait for them.",
        touches=taken,
    ),
    AckJob(
        "ackjob",
        -1,
        OF_IDS | CONSUME,
        ackjob,
        "jobs",
        "id [id ...] | id RESULT value",
        "Acknowledge jobs: they are done everywhere.",
        touches=acknowledged,
    ),
    Command(
        "fastack",
        -1,
        OF_IDS | CONSUME,
        fastack,
        "jobs",
        "id [id ...]",
        "Acknowledge at once, with weaker promises.",
        touches=may.ends_ids,
    ),
    Command(
        "deljob",
        -1,
        OF_IDS,
        deljob,
        "jobs",
        "id [id ...]",
        "Delete jobs from this node, in any state.",
        touches=may.ends_ids,
    ),
    Command(
        "nack",
        -1,
        OF_IDS | DENYOOM | CONSUME,
        nack,
        "jobs",
        "id [id ...] [DELAY s] [ERROR text] [DEAD] [NOCOUNT]",
        "Give jobs back to their queues, now or after a delay, and count the failure unless it is none.",
        touches=given_back,
    ),
    Command(
        "working",
        -2,
        OF_IDS | CONSUME,
        working,
        "jobs",
        "id [id ...] [PROGRESS text]",
        "Postpone the next delivery of jobs by their RETRY, or their lease; the reply is its seconds.",
        touches=worked_on,
    ),
    Command(
        "enqueue",
        -1,
        OF_IDS | DENYOOM,
        enqueue,
        "jobs",
        "id [id ...]",
        "Put jobs into their queues now.",
        touches=may.ends_ids,
    ),
    Command(
        "dequeue",
        -1,
        OF_IDS,
        dequeue,
        "jobs",
        "id [id ...]",
        "Take jobs out of their queues until RETRY.",
        touches=may.ends_ids,
    ),
    Command(
        "show",
        2,
        READONLY | FAST,
        show_job,
        "jobs",
        "id",
        "Show what this node knows of a job.",
        touches=may.shows_ids,
    ),
)
