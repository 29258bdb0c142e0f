"""Requests: the words of a command, how its reply is read, and how it may be sent.

The commands about jobs are here, each as a function from Python values to a `Request`. `admin` has the others. Both
clients make their methods of these functions, so a command is described once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, Self, TypeGuard, TypeVar

from disque.client import replies
from disque.client.config import Address, Config
from disque.client.delivery import NO_CODES, Flow, Parcel, Reply, deliver
from disque.client.errors import DisqueError, NoJobError, NoPermError, UnexpectedReplyError, is_out_of_reach
from disque.client.failure import error_word
from disque.client.newjob import NewJob
from disque.client.packing import pack
from disque.client.router import Router
from disque.client.terms import Backoff
from disque.client.values import (
    Body,
    Duration,
    Name,
    body_word,
    duration_word,
    id_word,
    id_words,
    milliseconds,
    name_word,
    queue_words,
    text_word,
)

T = TypeVar("T")
J = TypeVar("J")

#: A GETJOB waits at most so long at the server; longer waits are several, so that a node that hangs is noticed.
WAIT_MOST_MS: Final = 10_000
#: So long a node waits for the others, in ms: once for so many IDs that it does not know itself.
OTHERS_MS: Final = 5000
IDS_ASKED: Final = 1000
#: Nodes keep so many bytes of what a consumer says of its progress.
PROGRESS_MOST: Final = 1024
#: Only some nodes know a job: the others answer this.
UNKNOWN_HERE: Final = frozenset({"NOJOB"})
#: What comes of a reply that has another shape than expected.
UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError)


class Request(Generic[T]):
    """One command. ``parse`` makes the value of its reply; see `Parcel` for the rest.

    Error replies are raised, but for those with a code in ``accepted``, which ``parse`` gets. What is for a node
    ``alone`` is refused by a client that knows several.
    """

    __slots__ = ("accepted", "again", "alone", "elsewhere", "parse", "prefer", "wait_ms", "words")

    def __init__(
        self,
        words: list[bytes],
        parse: Callable[[Reply], T],
        *,
        wait_ms: int | None = 0,
        again: bool = True,
        elsewhere: frozenset[str] = NO_CODES,
        accepted: frozenset[str] = NO_CODES,
        alone: bool = False,
    ) -> None:
        self.words = words
        self.parse = parse
        self.wait_ms = wait_ms
        self.again = again
        self.elsewhere = elsewhere
        self.accepted = accepted
        self.alone = alone
        self.prefer: Address | None = None

    def to(self, node: Address | None) -> Self:
        """The same, and ``node`` is asked first if it is well."""
        self.prefer = node
        return self

    def parcel(self) -> Parcel:
        """The parcel that holds only this."""
        return Parcel([pack(self.words)], self.wait_ms, again=self.again, elsewhere=self.elsewhere, prefer=self.prefer)

    def value(self, reply: Reply) -> T:
        """The value of a reply. Raises it if it is an error, and UnexpectedReplyError if no node would say it."""
        if isinstance(reply, DisqueError) and reply.code not in self.accepted:
            raise reply
        try:
            return self.parse(reply)
        except UNREADABLE as wrong:
            name = self.words[0].decode(errors="replace")
            raise UnexpectedReplyError(f"this is no reply to {name}: {replies.shown(reply)}") from wrong

    def answer(self, reply: Reply) -> T | DisqueError | None:
        """The same, with errors given; None where there was no reply."""
        try:
            return None if reply is None else self.value(reply)
        except DisqueError as error:
            return error


def run(router: Router, config: Config, request: Request[T]) -> Flow[T]:
    """Bring one request to a node and give its value. Raises ValueError where it must be said to which."""
    if request.alone and router.count() > 1:
        name = b" ".join(request.words).decode(errors="replace")
        raise ValueError(f"{name} is for one node, and several are known: say which with at(host, port)")
    [reply] = yield from deliver(router, config, request.parcel())
    return request.value(reply)


def say(
    router: Router, config: Config, groups: Sequence[Sequence[J]], request: Callable[[Sequence[J]], Request[T]]
) -> Flow[list[tuple[Sequence[J], T | DisqueError | None]]]:
    """Say the same of jobs that have nothing to do with each other, a ``request`` for each group: groups and answers.

    A node refuses a command as a whole if one of its jobs is in a queue to which the user has no right, or nobody knows
    in which. Then it is said of each job of this group alone, so that the others do not suffer. What is raised has in
    ``results`` what was answered before, and None for groups of which nothing is known.
    """
    requests = [request(group) for group in groups]
    if not requests:
        return []
    parcel = requests[0].parcel()
    parcel.requests = [pack(one.words) for one in requests]
    try:
        answers = yield from deliver(router, config, parcel)
    except DisqueError as error:
        answered = list(error.results) or [None] * len(requests)
        known = [None if is_refused(*pair) else pair[1] for pair in zip(groups, answered, strict=True)]
        error.results = [(group, one.answer(reply)) for group, one, reply in zip(groups, requests, known, strict=True)]
        raise
    pairs = list(zip(groups, requests, answers, strict=True))
    said = [(group, one.answer(reply)) for group, one, reply in pairs if not is_refused(group, reply)]
    alone = [[job] for group, _, reply in pairs if is_refused(group, reply) for job in group]
    try:
        said += yield from say(router, config, alone, request)
    except DisqueError as error:
        error.results = [*said, *error.results]
        raise
    return said


def is_refused(group: Sequence[J], reply: Reply) -> bool:
    """Whether a node has refused to hear of several jobs for the sake of one of them."""
    return len(group) > 1 and is_of_one(reply)


def is_of_one(reply: Reply) -> TypeGuard[NoJobError | NoPermError]:
    """Whether a reply is an error about one job, though there may be several.

    NOJOB is one if the user has rights to some queues only, and a node is away that may know in which one that job is.
    """
    return isinstance(reply, NoJobError) or is_out_of_reach(reply)


def say_counted(
    router: Router, config: Config, groups: Sequence[Sequence[J]], request: Callable[[Sequence[J]], Request[int]]
) -> Flow[int]:
    """The same, and the sum of the answers. Raises the first error, when all was said."""
    count = 0
    for _, answer in (yield from say(router, config, groups, request)):
        if isinstance(answer, DisqueError):
            raise answer
        count += answer or 0
    return count


def add(
    config: Config,
    queue: Name,
    body: Body,
    *,
    timeout_ms: int | None = None,
    delay: Duration | None = None,
    retry: Duration | None = None,
    ttl: Duration | None = None,
    replicate: int | None = None,
    maxlen: int | None = None,
    background: bool = False,
    unique: Name | None = None,
    window: Duration | None = None,
    tries: int | None = None,
    backoff: Backoff | str | None = None,
    deadletter: Name | None = None,
    priority: int | None = None,
    headers: Mapping[Name, Name] | None = None,
    at: datetime | float | None = None,
    retain: Duration | None = None,
) -> Request[str]:
    """Add a job and give its ID, when as many nodes as ``replicate`` says have it (ADDJOB).

    ``timeout_ms`` is how long to wait for the copies (default: that of the configuration; 0: for ever). ``delay``,
    ``retry`` and ``ttl`` are durations; ``retry=0`` means at most once. ``maxlen`` refuses the job where the queue is
    that long. ``background`` answers before the copies are made. While a job was added with the key ``unique`` less
    than ``window`` ago (None or 0: while it is alive), nothing is added, and the ID is that of the first.

    After ``tries`` failures the job is a dead letter: it moves to the queue ``deadletter`` (None: the name of its queue
    with ``:dead``; "": nowhere, it ends). ``backoff`` is how long a failure holds it back, a `Backoff` or a text such
    as "exponential:2:60". Jobs of a higher ``priority`` (0 to 255) leave the queue first. ``headers`` are names and
    values that go with it. ``at`` says when it is queued, in place of ``delay``: a datetime with a time zone, or
    seconds since 1970. For ``retain`` after its end, however it ends, `result` and `wait` tell of it.

    When the connection is lost the job is added again at another node, so it may be there twice; not if it is unique.
    Raises NoReplError, PausedError, OomError, MaxlenError, CommandError, UnavailableError.
    """
    job = NewJob(queue, body, delay, retry, ttl, replicate, maxlen, background, unique, window,
                 tries, backoff, deadletter, priority, headers, at, retain)  # fmt: skip
    wait_ms = config.timeout_ms if timeout_ms is None else timeout_ms
    return Request(job.words(wait_ms), replies.job_id, wait_ms=wait_ms or None)


def how_words(
    *, lease: Duration | None = None, strict: bool = False, counters: bool = True, meta: bool = False
) -> tuple[bytes, ...]:
    """How jobs are to be taken, as options of GETJOB. Raises TypeError, ValueError."""
    words: list[bytes] = []
    if lease is not None:
        if milliseconds(lease, "lease") <= 0:
            raise ValueError("lease must be above 0")
        words += (b"LEASE", duration_word(lease, "lease"))
    return (*words, *[b"STRICT"] * strict, *[b"WITHCOUNTERS"] * counters, *[b"WITHMETA"] * meta)


#: How jobs are taken unless said otherwise.
USUALLY: Final = how_words()


def get(
    config: Config, queues: list[bytes], count: int, wait_ms: int, how: tuple[bytes, ...] = USUALLY
) -> Request[list[replies.Delivered]]:
    """Take jobs out of queues; wait ``wait_ms`` if there are none (0: not at all). ``how``: see `how_words`."""
    del config
    words = [b"GETJOB", *([b"TIMEOUT", b"%d" % wait_ms] if wait_ms else [b"NOHANG"]), b"COUNT", b"%d" % count]
    return Request([*words, *how, b"FROM", *queues], replies.delivered, wait_ms=wait_ms)


def get_flow(
    router: Router,
    config: Config,
    queues: Name | Iterable[Name],
    *,
    count: int,
    timeout: Duration | None = None,
    nohang: bool = False,
    how: tuple[bytes, ...] = USUALLY,
    wait_most_ms: int = WAIT_MOST_MS,
) -> Flow[tuple[Address | None, list[replies.Delivered]]]:
    """Take jobs; wait as long as ``timeout`` says (None: without end). Gives the node that delivered, and the jobs.

    No jobs, and no node, when the time is over.
    """
    names = queue_words(queues)
    left_ms = 0 if nohang else -1 if timeout is None else milliseconds(timeout, "timeout")
    if timeout is not None and left_ms < 0:
        raise ValueError("timeout must not be negative")
    until_s = router.clock() + left_ms / 1000
    while True:
        wait_ms = wait_most_ms if left_ms < 0 else min(left_ms, wait_most_ms)
        request = get(config, names, count, wait_ms, how)
        parcel = request.parcel()
        [reply] = yield from deliver(router, config, parcel)
        jobs = request.value(reply)
        if jobs:
            if config.affinity:
                router.saw_jobs(job.id for job in jobs)
            return parcel.answered_by, jobs
        if left_ms >= 0:
            left_ms = min(max(0, round((until_s - router.clock()) * 1000)), left_ms - wait_ms)
            if left_ms <= 0:
                return None, []


def ack(config: Config, *ids: Name, result: Body | None = None) -> Request[int]:
    """These jobs are done, at all nodes (ACKJOB). How many of them this node knew and did not know to be done.

    ``result`` is what has come of it, of one job: who waits for it gets it, and `result` as long as the job's RETAIN
    says. Raises ValueError for a result of several jobs.
    """
    del config
    if result is None:
        return Request([b"ACKJOB", *id_words(ids)], replies.whole)
    if len(ids) != 1:
        raise ValueError(f"a result is that of one job, not of {len(ids)}")
    return Request([b"ACKJOB", *id_words(ids), b"RESULT", body_word(result, "result")], replies.whole)


def fast_ack(config: Config, *ids: Name) -> Request[int]:
    """The same, sent once: cheaper, and a node that does not receive it may deliver the job again (FASTACK)."""
    del config
    return Request([b"FASTACK", *id_words(ids)], replies.whole)


def nack(
    config: Config,
    *ids: Name,
    delay: Duration | None = None,
    count: bool = True,
    error: str | BaseException | None = None,
    dead: bool = False,
) -> Request[int]:
    """Give jobs back to their queues, now or after ``delay`` (NACK). How many went back.

    Without ``delay`` the BACKOFF of each job counts, if it has one. ``count`` says whether it counts as a failure of
    the jobs; not if nobody has begun them. ``error`` says why, in a text of at most 4 KB, or as the exception: it stays
    with the jobs. With ``dead`` they are dead letters now, and not tried again. Raises ValueError for what contradicts
    itself.
    """
    del config
    if not count and (error is not None or dead):
        raise ValueError("what does not count as a failure has no error, and kills no job")
    if dead and delay is not None:
        raise ValueError("a job that is not tried again has no delay")
    words = [] if delay is None else [b"DELAY", duration_word(delay, "delay")]
    if error is not None:
        words += (b"ERROR", error_word(error))
    words += [b"DEAD"] * dead + [b"NOCOUNT"] * (not count)
    return Request([b"NACK", *id_words(ids), *words], replies.whole)


def progress_words(progress: str | None) -> list[bytes]:
    """How far the work is, as an option of WORKING. Raises TypeError."""
    if progress is None:
        return []
    if not isinstance(progress, str):
        raise TypeError(f"progress must be str, not {type(progress).__name__}")
    return [b"PROGRESS", text_word(progress, PROGRESS_MOST)]


def working(config: Config, *ids: Name, progress: str | None = None) -> Request[list[int | DisqueError]]:
    """Start the RETRY of these jobs again (WORKING).

    For each its seconds, or the `NoJobError`, `TooLateError` or `JobCancelledError` that says why not. A single job is
    looked for at all nodes. ``progress`` says how far the work on them is, in a text of at most 1 KB: `result` shows
    it.
    """
    del config
    accepted = frozenset({"NOJOB", "TOOLATE", "CANCELLED"})
    jobs = len(ids)
    words = [b"WORKING", *id_words(ids), *progress_words(progress)]
    elsewhere = UNKNOWN_HERE if jobs == 1 else NO_CODES
    return Request(words, lambda reply: replies.answers(reply, jobs), elsewhere=elsewhere, accepted=accepted)


def working_flow(
    router: Router, config: Config, node: Address | None, ids: Sequence[Name], progress: str | None = None
) -> Flow[list[int | DisqueError]]:
    """The same, ``node`` first; whatever it does not know is looked for at all nodes, one by one.

    Of a job in a queue to which the user has no right, the `NoPermError` is its answer, and the others have theirs.
    """
    request = working(config, *ids, progress=progress).to(node)
    [reply] = yield from deliver(router, config, request.parcel())
    refused = is_of_one(reply)
    answers: list[int | DisqueError] = [reply] * len(ids) if is_of_one(reply) else request.value(reply)
    unknown = [at for at, answer in enumerate(answers) if isinstance(answer, NoJobError | NoPermError)]
    if unknown and len(answers) > 1:
        said = progress_words(progress)
        words = [pack([b"WORKING", id_word(ids[at]), *said]) for at in unknown]
        parcel = Parcel(words, elsewhere=UNKNOWN_HERE, prefer=node if refused else None)
        found = yield from deliver(router, config, parcel)
        for at, reply in zip(unknown, found, strict=True):
            [answers[at]] = [reply] if is_out_of_reach(reply) else working(config, ids[at]).value(reply)
    return answers


def working_one(config: Config, job_id: Name, *, progress: str | None = None) -> Request[int]:
    """Start the RETRY of a job again: its seconds. Raises `NoJobError`, `TooLateError`, `JobCancelledError`."""
    del config
    return Request([b"WORKING", id_word(job_id), *progress_words(progress)], replies.whole, elsewhere=UNKNOWN_HERE)


def enqueue(config: Config, *ids: Name) -> Request[int]:
    """Put jobs into their queues now, delayed ones too (ENQUEUE). How many."""
    del config
    return Request([b"ENQUEUE", *id_words(ids)], replies.whole)


def dequeue(config: Config, *ids: Name) -> Request[int]:
    """Take jobs out of their queues until their RETRY brings them back (DEQUEUE). How many."""
    del config
    return Request([b"DEQUEUE", *id_words(ids)], replies.whole)


def others_ms(ids: int) -> int:
    """How long a node may take that asks the others about so many IDs."""
    return OTHERS_MS * -(-ids // IDS_ASKED)


def move(config: Config, queue: Name, *ids: Name, delay: Duration | None = None) -> Request[int]:
    """Put jobs into another queue for good, now or after ``delay``, whatever they wait for (MOVE). How many.

    For those that the node does not know it asks the others.
    """
    del config
    later = [] if delay is None else [b"DELAY", duration_word(delay, "delay")]
    words = [b"MOVE", name_word(queue), *id_words(ids), *later]
    return Request(words, replies.whole, again=False, wait_ms=others_ms(len(ids)))


def revive(config: Config, *ids: Name) -> Request[int]:
    """Put dead letters back into the queue in which they died, with tries and TTL as at first (REVIVEJOB). How many.

    For those that the node does not know it asks the others. See `revive_queue` for all of a queue.
    """
    del config
    return Request([b"REVIVEJOB", *id_words(ids)], replies.whole, again=False, wait_ms=others_ms(len(ids)))


def delete(config: Config, *ids: Name) -> Request[int]:
    """Delete jobs from one node only, in any state (DELJOB). How many it knew."""
    del config
    return Request([b"DELJOB", *id_words(ids)], replies.whole, again=False)


def show(config: Config, job_id: Name) -> Request[replies.JobInfo | None]:
    """All that one node knows of a job, or None (SHOW)."""
    del config
    return Request([b"SHOW", id_word(job_id)], replies.job_info)


def peek(config: Config, queue: Name, count: int = 10) -> Request[list[replies.Delivered]]:
    """Look at the oldest jobs of a queue without taking them; a negative count shows the newest first (QPEEK)."""
    del config
    return Request([b"QPEEK", name_word(queue), b"%d" % count], replies.delivered)
