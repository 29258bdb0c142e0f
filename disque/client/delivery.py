"""How requests reach a node, and another one when that fails: a state machine without sockets and clocks.

A `Parcel` is one request or a batch of them. `deliver` is a generator: it yields an `Exchange` (send these bytes to
that node, read so many replies) or a `Pause`, is sent the `Outcome`, and returns the replies in order. The blocking and
the asyncio client only do what is yielded.

Requests that were answered are done. Those that were not answered, or were refused by a node that cannot serve now
(LEAVING, LOADING, MISCONF, DENIED, and the codes of `also_retry`), go to the next node. A node that leaves is asked
before which others there are: those that stay may have joined after the client had asked. So is one that is used for
long: it may be gone without saying that it leaves. That comes before a request, since what a GETJOB has brought must
not be lost when somebody ends the wait.

So after a lost connection a request may be executed twice: jobs may be added twice, unless they are UNIQUE. A parcel
that must not be sent twice is marked (``again``). If its connection is lost after sending, it ends in
`IncompleteError`.
"""

import re
from collections.abc import Collection, Generator, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from redis.exceptions import AuthenticationError
from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client.config import Address, Config
from disque.client.errors import (
    DisqueError,
    IncompleteError,
    NoAuthError,
    TooLongError,
    UnavailableError,
    cause_text,
    make,
    typed,
)
from disque.client.limits import LONG_BYTES, QUESTION, QUESTIONS, is_refusal, too_long
from disque.client.packing import pack
from disque.client.router import Router

#: Errors of a node that cannot serve now while others can.
MOVE_ON: Final = frozenset({"LEAVING", "LOADING", "MISCONF", "DENIED"})
LEAVES: Final = "LEAVING"
#: Asks which nodes there are.
HELLO: Final = pack([b"HELLO"])
#: Errors that all nodes would give.
FINAL: Final = frozenset({"NOAUTH", "WRONGPASS", "NOPROTO"})
NOT_LOGGED_IN: Final = "this node wants a password: disque://password@host, or the option 'password'"
#: A node that hangs: it has not closed the connection.
TIMEOUTS: Final = (RedisTimeoutError, TimeoutError)
NO_CODES: Final[frozenset[str]] = frozenset()
#: Packed requests that wait for what other clients do.
WAITS: Final = re.compile(rb"\*\d+\r\n\$\d+\r\n(?:GETJOB|WAITJOB)\r\n", re.IGNORECASE)
ADDS: Final = re.compile(rb"\*\d+\r\n\$\d+\r\nADDJOB\r\n", re.IGNORECASE)
#: Any other request that a node may take longer for, in ms, is counted as one of those that wait.
SOON_MS: Final = 5000
#: So many bytes are sent before replies are read. A node stops reading when nobody takes its replies: with more, both
#: might wait for each other until the time is over, and what was done by then would be done again.
PART_BYTES: Final = 1 << 20

Reply = object
T = TypeVar("T")


class Kind(Enum):
    """What a node may wait for before it answers, though all is well with it.

    Requests of one kind never keep those of another one from a connection: while a machine restarts, ADDJOBs may wait
    for their copies, and questions for other nodes, but the work on jobs must go on.
    """

    #: Nothing: acknowledgements, WORKING, and all that one node does by itself.
    NOTHING = 1
    #: The copies of a job.
    COPIES = 2
    #: The answers of other nodes.
    OTHERS = 3
    #: What other clients do, or whatever takes long.
    CLIENTS = 4


class Exchange(NamedTuple):
    """Send ``data`` to a node and read so many ``replies``, each in ``timeout_s`` (None: however long it takes)."""

    address: Address
    data: bytes
    replies: int
    timeout_s: float | None
    kind: Kind = Kind.NOTHING


class Pause(NamedTuple):
    """Do nothing for so long."""

    seconds: float


class Outcome:
    """What came of an exchange: replies in order, errors among them, and why they ended too early, if they did."""

    __slots__ = ("failure", "replies", "sent")

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.failure: Exception | None = None
        self.sent = False


Step = Exchange | Pause
Flow = Generator[Step, Outcome, T]


class Parcel:
    """Requests that travel together, as packed bytes.

    ``wait_ms`` is how long the server may wait by itself (None: for ever), ``again`` whether the requests may be sent
    twice, ``elsewhere`` has codes that other nodes may not answer, ``prefer`` the node to ask first. ``answered_by`` is
    the node that answered last.
    """

    __slots__ = ("again", "answered_by", "elsewhere", "prefer", "requests", "wait_ms")

    def __init__(
        self,
        requests: Sequence[bytes],
        wait_ms: int | None = 0,
        *,
        again: bool = True,
        elsewhere: frozenset[str] = NO_CODES,
        prefer: Address | None = None,
    ) -> None:
        self.requests = requests
        self.wait_ms = wait_ms
        self.again = again
        self.elsewhere = elsewhere
        self.prefer = prefer
        self.answered_by: Address | None = None

    def parts(self) -> Iterator["Parcel"]:
        """The same as parcels that end at `PART_BYTES`."""
        part: list[bytes] = []
        size = 0
        for request in self.requests:
            if part and len(request) >= PART_BYTES:  # alone, since a node may close the connection over it
                yield self._part(part)
                part, size = [], 0
            part.append(request)
            size += len(request)
            if size >= PART_BYTES:
                yield self._part(part)
                part, size = [], 0
        if part:
            yield self._part(part)

    def _part(self, requests: list[bytes]) -> "Parcel":
        return Parcel(requests, self.wait_ms, again=self.again, elsewhere=self.elsewhere, prefer=self.prefer)


class Delivery:
    """The state of one parcel on its way."""

    def __init__(self, router: Router, config: Config, parcel: Parcel) -> None:
        self.router = router
        self.config = config
        self.parcel = parcel
        self.replies: list[Reply] = [None] * len(parcel.requests)
        self.pending = list(range(len(parcel.requests)))
        self.failures: list[tuple[str, Exception]] = []
        #: Whether the node has just said that it is about to leave.
        self.leaves = False
        self._refused: dict[int, DisqueError] = {}
        self._long: dict[int, DisqueError] = {}
        self._tried: set[Address] = set()
        self._sent = 0
        self._rounds = 0
        self._maybe_done = False
        self._address: Address = ("", 0)

    def next(self) -> Step | None:
        """What is to be done: an exchange, or a pause before a new round; None when nothing is left to be done.

        Raises `UnavailableError` at the end.
        """
        if self._sent >= max(self.config.attempts, self.router.count()):
            self._give_up()
            return None
        address = self.router.choose(self._tried, self.parcel.prefer)
        if address is None:
            self._settle_long()
            if self._all_said(self.parcel.elsewhere):
                self._give_up()
                return None
            self._tried.clear()
            self._rounds += 1
            return Pause(self._pause_s())
        self._sent += 1
        self._tried.add(address)
        self._address = self.parcel.answered_by = address
        data = b"".join([self.parcel.requests[at] for at in self.pending])
        return Exchange(address, data, len(self.pending), self._timeout_s(), self._kind())

    def question(self, outcome: Outcome) -> Exchange | None:
        """What to ask the node if it may have closed the connection over a request that is too long for it."""
        told = is_refusal(outcome.replies[-1]) if outcome.replies else False
        if not told and (not outcome.sent or outcome.failure is None or isinstance(outcome.failure, TIMEOUTS)):
            return None
        if not told and all(len(self.parcel.requests[at]) < LONG_BYTES for at in self.pending[len(outcome.replies) :]):
            return None
        return Exchange(self._address, QUESTION, QUESTIONS, self.config.timeout_ms / 1000)

    def look(self) -> Flow[Outcome]:
        """Ask the node which nodes there are. It is in use, so this costs no connection."""
        self.leaves = False
        told = yield Exchange(self._address, HELLO, 1, self.config.timeout_ms / 1000)
        if told.replies:
            self.router.learned(self._address, told.replies[0])
        return told

    def look_first(self) -> Flow[bool]:
        """The same before a request is sent there. False if the node fails at that already, so another one is next."""
        told = yield from self.look()
        if told.failure is None:
            return True
        lost = Outcome()
        lost.failure = told.failure
        self.take(lost)
        return False

    def refuse_long(self, outcome: Outcome, told: Sequence[Reply]) -> None:
        """Note what was too long for the node, which another one may take; ``told`` is what it said of its limits."""
        refusal = outcome.replies.pop() if outcome.replies and is_refusal(outcome.replies[-1]) else None
        unread = self.pending[len(outcome.replies) :]
        found = {at: too_long(self.parcel.requests[at], told, self._where()) for at in unread}
        self._long = {at: error for at, error in found.items() if error is not None}
        if refusal is not None and unread[0] not in self._long:
            outcome.replies.append(refusal)

    def take(self, outcome: Outcome) -> None:
        """Note what came of the exchange; ``pending`` is what is left. Raises what no other node would do better."""
        long, self._long = self._long, {}
        left = [at for at in self.pending[len(outcome.replies) :] if at not in long]
        if long and not left:
            outcome.failure = None  # the node closed the connection, and is well
        self._refused.update(long)
        again = list(long)
        for at, reply in zip(self.pending, outcome.replies, strict=False):
            error = self._typed(reply) if isinstance(reply, Exception) else None
            if error is not None and self._leads_on(error):
                self._refused[at] = error
                again.append(at)
            else:
                self.replies[at] = reply if error is None else error
        if again:
            self._refusal(self._refused[again[0]])
        elif outcome.failure is None:
            self.router.worked(self._address)
        self.pending = [*again, *left]
        if outcome.failure is not None:
            self._lost(outcome.failure, outcome.sent)

    def _lost(self, failure: Exception, sent: bool) -> None:
        """The exchange was cut short."""
        error = self._typed(failure)
        if isinstance(failure, AuthenticationError) or (error is not None and error.code in FINAL):
            raise error or make("NOAUTH", cause_text(failure))
        self.router.failed(self._address)
        self.failures.append((self._where(), error or failure))
        self._maybe_done = self._maybe_done or sent
        if sent and not self.parcel.again and not isinstance(error, DisqueError):
            reason = f"{self._where()} was lost before it answered: {cause_text(failure)}"
            raise IncompleteError(reason) from failure

    def _typed(self, error: Exception) -> DisqueError | None:
        """The same as `typed`; who has no password is told where to say it, not how commands would."""
        found = typed(error)
        if isinstance(found, NoAuthError) and self.config.password is None:
            return NoAuthError(NOT_LOGGED_IN, status_code=found.code)
        return found

    def _refusal(self, error: DisqueError) -> None:
        """The node has answered with an error that another node may not give."""
        self.failures.append((self._where(), error))
        self.leaves = error.code == LEAVES and self.config.discover
        if error.code in MOVE_ON:
            self.router.failed(self._address)

    def _leads_on(self, error: DisqueError) -> bool:
        code = error.code
        return code in MOVE_ON or code in self.parcel.elsewhere or code in self.config.also_retry

    def _all_said(self, codes: Collection[str]) -> bool:
        """Whether all that is pending was refused with one of these codes."""
        return all(at in self._refused and self._refused[at].code in codes for at in self.pending)

    def _settle_long(self) -> None:
        """Answer what was too long for all nodes; what was cut off with it goes on alone."""
        for at in self.pending:
            error = self._refused.get(at)
            if isinstance(error, TooLongError):
                self.replies[at] = error
        self.pending = [at for at in self.pending if self.replies[at] is None]

    def _give_up(self) -> None:
        """What was refused is answered so, if it is not the nodes that are the reason. Raises `UnavailableError`."""
        self._settle_long()
        if not self._all_said({*self.parcel.elsewhere, *self.config.also_retry} - MOVE_ON):
            error = UnavailableError.of("no node could be used", self.failures)
            error.maybe_done = self._maybe_done
            raise error from (self.failures[-1][1] if self.failures else None)
        for at in self.pending:
            self.replies[at] = self._refused[at]
        self.pending = []

    def _pause_s(self) -> float:
        longest_ms = min(self.config.backoff_ms * float(2 ** (self._rounds - 1)), self.config.backoff_max_ms)
        return longest_ms / 1000 * (0.5 + self.router.random.random() / 2)

    def _timeout_s(self) -> float | None:
        wait_ms = self.parcel.wait_ms
        return None if wait_ms is None else (self.config.timeout_ms + wait_ms) / 1000

    def _kind(self) -> Kind:
        wait_ms = self.parcel.wait_ms
        if wait_ms is None or wait_ms > max(self.config.timeout_ms, SOON_MS):
            return Kind.CLIENTS
        if wait_ms == 0:
            return Kind.NOTHING
        requests = [self.parcel.requests[at] for at in self.pending]
        if any(map(WAITS.match, requests)):
            return Kind.CLIENTS
        return Kind.COPIES if any(map(ADDS.match, requests)) else Kind.OTHERS

    def _where(self) -> str:
        return "{}:{}".format(*self._address)


def deliver(router: Router, config: Config, parcel: Parcel) -> Flow[list[Reply]]:
    """Bring a parcel to a node, a large one in parts. Gives the replies in order, each a value or a `DisqueError`.

    Raises `UnavailableError` when no node could be used, `IncompleteError`, and what all nodes would answer (a wrong
    password). These carry in ``results`` what was answered before.
    """
    if len(parcel.requests) == 1 or sum(map(len, parcel.requests)) <= PART_BYTES:
        return (yield from deliver_part(router, config, parcel))
    replies: list[Reply] = []
    for part in parcel.parts():
        try:
            replies += yield from deliver_part(router, config, part)
        except DisqueError as error:
            rest = len(parcel.requests) - len(replies) - len(error.results)
            error.results = [*replies, *error.results, *[None] * rest]
            raise
        parcel.answered_by = part.answered_by
    return replies


def deliver_part(router: Router, config: Config, parcel: Parcel) -> Flow[list[Reply]]:
    """The same for what can be sent before any reply is read."""
    delivery = Delivery(router, config, parcel)
    while delivery.pending:
        try:
            step = delivery.next()
            if step is None:
                break
            if isinstance(step, Exchange) and router.should_look() and not (yield from delivery.look_first()):
                continue
            outcome = yield step
            if isinstance(step, Exchange):
                question = delivery.question(outcome)
                if question is not None:
                    delivery.refuse_long(outcome, (yield question).replies)
                delivery.take(outcome)
                if delivery.leaves:
                    yield from delivery.look()
        except DisqueError as error:
            error.results = delivery.replies
            raise
    return delivery.replies


def look(router: Router, config: Config) -> Flow[None]:
    """Ask which nodes there are now. Raises `UnavailableError`."""
    parcel = Parcel([HELLO])
    [reply] = yield from deliver(router, config, parcel)
    if parcel.answered_by is not None:
        router.learned(parcel.answered_by, reply)
