"""What a node knows of one client connection.

Waiting is state here, never a coroutine: a session in a queue's line, a session on jobs that wait for copies, a
session that waits for something slow that the host does, for the answers of other nodes, or for what the ticks do
(WAIT_SCAN): a walk through all jobs or queues, or its own command with many IDs; one that was answered and still has to
be taken out of many lines. While `waiting` is not NOT_WAITING, the shell hands the session no further command
(WAIT_COPIES lets further ADDJOBs pass).
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from disque.core.base.timers import IDLE, NEVER, Timed
from disque.core.model.job import Job
from disque.core.model.queue import Queue
from disque.core.model.user import User, open_default
from disque.core.model.waiter import Waiter

if TYPE_CHECKING:
    from disque.core.model.request import Request

NOT_WAITING: Final = 0
WAIT_JOBS: Final = 1
WAIT_COPIES: Final = 2
WAIT_HOST: Final = 3
WAIT_SCAN: Final = 4
#: Not for jobs any more: it stands in many lines and leaves them some at a time.
WAIT_LINES: Final = 5
#: For the answers of other nodes: see `surveys`.
WAIT_NODES: Final = 6
#: For the ends of jobs: see `waits`.
WAIT_ENDS: Final = 7
#: For its AUTH or HELLO to be looked at: too many from its address were wrong.
WAIT_LOGIN: Final = 8
#: For what other nodes know of the registry, to set something: see `entries`.
WAIT_ENTRIES: Final = 9
#: Waits that end with an answer in any case, also for a client that will send nothing more.
OWED: Final = frozenset({WAIT_COPIES, WAIT_HOST, WAIT_SCAN, WAIT_NODES, WAIT_ENTRIES, WAIT_LOGIN})

REPLY_ON: Final = 0
REPLY_OFF: Final = 1
REPLY_SKIP: Final = 2
#: The command that SKIP was meant for is being executed.
REPLY_SKIPPING: Final = 3

#: Bounds of what one connection may have unanswered.
ADDS_MAX: Final = 1024
ADDS_BYTES_MAX: Final = 1 << 20


#: The user of a session that nobody has given one yet.
ANYBODY: Final[User] = open_default()


class Spread:
    """The copies of ``job`` that are still wanted: until then its ADDJOB (``add``; None for ASYNC) is not answered.

    ``confirmed`` are the other nodes that have said that they hold it, ``asked`` all that were ever asked. With
    ``outside`` this node coordinates without keeping a copy. ``elsewhere``: another node has queued the job meanwhile.
    ``refused`` are those that have refused it at any time: nobody waits for a copy there to count others.
    """

    __slots__ = ("add", "asked", "confirmed", "elsewhere", "job", "outside", "refused")

    def __init__(self, job: Job, add: "PendingAdd | None", *, outside: bool) -> None:
        self.job = job
        self.add = add
        self.outside = outside
        self.elsewhere = False
        # Tuples, which the jobs of one message share; a set for each job would be the largest thing about it.
        self.confirmed: tuple[bytes, ...] = ()
        self.asked: tuple[bytes, ...] = ()
        self.refused: tuple[bytes, ...] = ()

    def missing(self) -> int:
        """How many confirmations are still wanted."""
        return self.job.repl - len(self.confirmed) - (not self.outside)

    def comes_here(self) -> bool:
        """Whether an ADDJOB that waits for its copies will queue the job on this node, and at once."""
        return not self.outside and not self.job.delay


class PendingAdd(Timed):
    """One ADDJOB whose reply is owed. ``reply`` is empty until it is known, so that replies stay in order.

    ``spread`` are the copies that it waits for. ``key`` is the acquisition of its UNIQUE key, its own or the
    one that it waits for; ``args`` are kept to try again when that one fails. ``size`` counts against the bound of
    unanswered bytes. A ``silent`` one was sent under CLIENT REPLY OFF or SKIP: its reply is dropped.
    """

    __slots__ = ("args", "key", "reply", "session", "silent", "size", "spread")

    def __init__(self, session: "Session", args: list[bytes]) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.session = session
        self.args = args
        size = 0
        for word in args:
            size += len(word)
        self.size = size
        self.spread: Spread | None = None
        self.key: Acquisition | None = None
        self.reply = b""
        self.silent = False


class Subscriptions:
    """The channels and patterns that one client listens to, in their order."""

    __slots__ = ("channels", "patterns")

    def __init__(self) -> None:
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self.channels) + len(self.patterns)

    def names(self, *, are_patterns: bool) -> dict[bytes, None]:
        """The patterns, or the channels."""
        return self.patterns if are_patterns else self.channels


class Session(Waiter):
    """One client.

    ``out`` collects its replies until the shell flushes them; the shell owns the connection behind ``id``.
    """

    __slots__ = (
        "active_ms",
        "address",
        "adds",
        "adds_bytes",
        "answer_by_ms",
        "certificate",
        "closing",
        "command",
        "created_ms",
        "handed",
        "id",
        "large",
        "library",
        "library_version",
        "limited",
        "local",
        "local_address",
        "monitoring",
        "name",
        "named",
        "out",
        "passed",
        "protocol",
        "reply_mode",
        "subscriptions",
        "touched",
        "unsettled",
        "user",
        "wait_bodies",
        "wait_bytes",
        "wait_counters",
        "wait_lease_ms",
        "wait_meta",
        "wait_queues",
        "wait_silent",
        "wait_strict",
        "walked",
    )

    def __init__(self, session_id: int, address: bytes, local_address: bytes, now_ms: int) -> None:
        super().__init__()
        self.id = session_id
        self.address = address
        self.local_address = local_address
        self.created_ms = now_ms
        self.active_ms = now_ms
        self.out: list[bytes] = []
        #: There are replies of some MB in `out`, in pieces: they are not to be joined.
        self.large = False
        self.name = b""
        self.library = b""
        self.library_version = b""
        #: On this machine, or come over the Unix socket: the shell knows.
        self.local = True
        self.command = b"NULL"
        #: Who it is, and whether it has proven that.
        self.user = ANYBODY
        self.passed = False
        #: The user that its certificate names, which it is as soon as there is one, unless it has said who it is.
        self.certificate = b""
        self.named = False
        #: There is something that it may not do.
        self.limited = True
        self.protocol = 2
        self.reply_mode = REPLY_ON
        self.monitoring = False
        #: What it listens to (SUBSCRIBE); None: nothing.
        self.subscriptions: Subscriptions | None = None
        self.closing = False
        #: In `Node.touched`: has replies that the shell has not looked at.
        self.touched = False
        #: Has replies that depend on journal records which are not written yet.
        self.unsettled = False
        #: Jobs in replies that did not begin to leave yet: taken back when the connection dies first. With each its
        #: requeue time, nacks and deliveries as this delivery left them, by which it is told from a later one.
        self.handed: list[tuple[Job, int, int, int]] = []
        self.wait_queues: list[Queue] = []
        self.wait_counters = False
        self.wait_bodies = True
        self.wait_meta = False
        self.wait_bytes = 0
        self.wait_strict = False
        self.wait_lease_ms = 0
        #: What it waits for was asked under CLIENT REPLY OFF or SKIP: the reply is dropped.
        self.wait_silent = False
        #: Bytes of the reply to a walk in steps that this client has not taken yet: see `scan`.
        self.walked = 0
        self.adds: deque[PendingAdd] = deque()
        self.adds_bytes = 0
        #: When the first of the ADDJOBs that are answered or owed here, and whose replies have not left, is too late.
        self.answer_by_ms = NEVER

    def expect(self, timeout_ms: int, now_ms: int) -> None:
        """The client sends an ADDJOB with this timeout; 0 is none."""
        due_ms = now_ms + timeout_ms if timeout_ms else NEVER
        if due_ms < self.answer_by_ms or self.answer_by_ms <= now_ms or not (self.out or self.adds):
            self.answer_by_ms = due_ms

    def log_in(self, user: User, *, passed: bool) -> None:
        """From now on this is the client of ``user``, if it has proven that."""
        self.user = user
        self.passed = passed
        self.limited = user.is_limited() or not self.may()

    def is_expected(self) -> bool:
        """Whether it is to be the user that its certificate names, and is not: there may be none yet."""
        return len(self.certificate) > 0 and not self.named and self.user.name != self.certificate

    def may(self) -> bool:
        """Whether it may run commands at all: it has logged in, or need not."""
        return self.passed or self.user.is_open()

    def full(self) -> bool:
        """Whether as many ADDJOBs are unanswered as one connection may have."""
        return len(self.adds) >= ADDS_MAX or self.adds_bytes >= ADDS_BYTES_MAX


class Acquisition(Timed):
    """The ADDJOBs of this node that want one key.

    ``add`` is the one whose job it is to be (None: its client has gone or gave up, but the job was decided by then),
    ``waiting`` are those that wait in line, if there are any. ``is_next``: it was in line until now, so ``request`` is
    still that of the one before. ``job_id`` is the ID that the keepers were asked to note, empty between two
    attempts; ``keepers`` are asked now, ``bound`` have noted it, ``asked`` were ever asked. ``decided``: the job is
    there, and all that is missing is that the keepers say so. ``copies`` are the nodes that have it then.
    """

    __slots__ = (
        "add",
        "asked",
        "bound",
        "copies",
        "decided",
        "digest",
        "is_next",
        "job_id",
        "keepers",
        "request",
        "tries",
        "waiting",
    )

    def __init__(self, request: "Request", digest: bytes, add: PendingAdd) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.request = request
        self.digest = digest
        self.add: PendingAdd | None = add
        self.is_next = False
        self.waiting: OrderedDict[PendingAdd, None] | None = None
        self.job_id = b""
        self.keepers: tuple[bytes, ...] = ()
        self.bound: tuple[bytes, ...] = ()
        self.asked: tuple[bytes, ...] = ()
        self.decided = False
        self.copies: tuple[bytes, ...] | None = None
        self.tries = 0

    def complete(self) -> bool:
        """Whether all keepers have noted the ID."""
        bound = self.bound
        for keeper in self.keepers:
            if keeper not in bound:
                return False
        return bool(self.job_id)

    def bind(self, keeper: bytes) -> None:
        """This keeper has noted the ID."""
        if keeper not in self.bound:
            self.bound = (*self.bound, keeper)

    def unbind(self, keeper: bytes) -> None:
        """This keeper has not noted it, or not any more."""
        if keeper in self.bound:
            self.bound = tuple([one for one in self.bound if one != keeper])

    def may_decide(self) -> bool:
        """Whether nothing but copies of the job can be missing."""
        return self.decided or self.complete()

    def forget(self) -> None:
        """An attempt is over: the next one has another ID, which nobody has noted."""
        self.job_id = b""
        self.keepers = ()
        self.bound = ()
        self.asked = ()

    def companions(self) -> tuple[bytes, ...]:
        """The nodes that must hear when the job is done: the keepers of a key that goes with it."""
        return () if self.request.window else self.keepers
