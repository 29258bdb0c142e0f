"""ADDJOB: from its words to a job, or to the reason why there is none.

`Request` holds the words as values. `place` applies the rules in the order that Disque always had: a UNIQUE key that
is taken, room for copies, MAXLEN, PAUSED; then the job is made. It either answers at once or, when copies on other
nodes or another ADDJOB with the same key must be waited for, leaves the session with an unanswered ADDJOB.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import SECONDS_MAX, parse_int, parse_ms, parse_seconds
from disque.core.base.timers import NEVER
from disque.core.dedup import acquire, keys
from disque.core.jobs import defaults, eviction, terms
from disque.core.jobs.terms import TERMS
from disque.core.model.extra import Extra
from disque.core.model.job import Job
from disque.core.model.jobid import ttl_suffix
from disque.core.model.pubsub import ADDED
from disque.core.model.queue import PAUSED_IN
from disque.core.model.request import DEFAULT_TTL, Kind, Request
from disque.core.model.session import PendingAdd, Session
from disque.core.model.spec import PRIORITY, REPL, JobSpec, Row, encode
from disque.core.replication import coordinator, queue_options, replica

if TYPE_CHECKING:
    from disque.core.model.session import Acquisition
    from disque.core.node import Node

RETRY_CAP: Final = 300

#: Kinds by TTL and RETRY: few different ones exist, so each is made once.
_kinds: dict[tuple[int, int], Kind] = {}
KINDS_MOST: Final = 4096


def kind_of(ttl: int, retry: int) -> Kind:
    """The kind of jobs with these two."""
    key = (ttl, retry)
    kind = _kinds.get(key)
    if kind is None:
        if len(_kinds) >= KINDS_MOST:
            _kinds.clear()
        kind = _kinds[key] = (ttl_suffix(ttl, retry), ttl, retry)
    return kind


#: The request of an ADDJOB without options, filled anew for each: nobody keeps a request beyond the command.
_plain: Final = Request(b"", b"", 1)
_plain.retry = RETRY_CAP
_plain.delay_ms = 0
_plain.kind = kind_of(DEFAULT_TTL, RETRY_CAP)


def parse(node: "Node", args: list[bytes]) -> Request | bytes:
    """The words of an ADDJOB as a `Request`, or the text of the error. The order of the checks is Disque's."""
    found = queue_options.of(node, args[1]) if node.registry.defaults.by_name else None
    if len(args) == 4 and found is None:
        request = _plain
        request.queue, request.body, request.replicate = args[1], args[2], node.default_replicate
    else:
        request = Request(args[1], args[2], node.default_replicate)
        if found is not None:
            defaults.begin(request)
        wrong = parse_options(request, args)
        if wrong:
            return wrong
        if request.at_ms >= 0:
            request.delay_ms = until(node, request.at_ms)
        elif request.delay_ms < 0:
            request.delay_ms = 0
        if found is not None:
            defaults.fill_in(node, request, found)
    timeout_ms = parse_int(args[3])
    if timeout_ms is None or timeout_ms < 0:
        return errors.BAD_TIMEOUT if timeout_ms is None else errors.NEGATIVE_TIMEOUT
    request.timeout_ms = timeout_ms
    wrong = check(request)
    if not wrong and (len(args) > 4 or found is not None):
        wrong = terms.check(node, request)
    return wrong or request


def check(request: Request) -> bytes:
    """What the options say together: settle the default of RETRY; returns the text of an error, or nothing."""
    if request.retry < 0:
        request.retry = min(request.ttl // 10, RETRY_CAP) or 1
    elif request.retry == 0 and request.replicate > 1:
        return errors.AT_MOST_ONCE
    if request.delay_ms and request.delay_ms >= request.ttl * 1000:
        return errors.DELAY_BEYOND_TTL if request.at_ms < 0 else errors.AT_BEYOND_TTL
    if request.key is not None and request.asynchronous:
        return errors.UNIQUE_ASYNC
    return b""


def until(node: "Node", at_ms: int) -> int:
    """How many milliseconds it is from now until then, by the wall clock of this node; 0 for what is past."""
    return max(0, at_ms - node.host.wall_us() // 1000)


def parse_options(request: Request, args: list[bytes]) -> bytes:
    """Read the options from the fifth word on; the last of several wins. Returns the text of an error, or nothing."""
    at = 4
    end = len(args)
    while at < end:
        option = args[at].upper()
        at += 1
        if option == b"ASYNC":
            request.asynchronous = True
            continue
        if option == b"UNIQUE" and at + 1 < end:
            wrong = set_unique(request, args[at], args[at + 1])
            at += 2
        elif option in SETTERS and at < end:
            wrong = set_number(request, option, args[at])
            at += 1
        elif option in MOMENTS and at < end:
            wrong = set_moment(request, option, args[at])
            at += 1
        elif option in TERMS and at < end:
            wrong = terms.take(request, option, args[at])
            at += 1
        elif option == b"HEADER" and at + 1 < end:
            wrong = terms.header(request, args[at], args[at + 1])
            at += 2
        elif option in ROWS and at < end:
            wrong = set_row(request, option, parse_int(args[at]))
            at += 1
        else:
            return errors.SYNTAX
        if wrong:
            return wrong
    return b""


#: The options with one number: least value, error text below it or for what is no number.
SETTERS: Final = {
    b"REPLICATE": (1, errors.BAD_REPLICATE),
    b"TTL": (1, errors.BAD_TTL),
    b"RETRY": (0, errors.BAD_RETRY),
    b"MAXLEN": (1, errors.BAD_MAXLEN),
}
#: Those of them that are kept in whole seconds.
TIMES: Final = frozenset({b"TTL", b"RETRY"})
#: The options that say when the job is to be queued. One of them is enough.
MOMENTS: Final = frozenset({b"DELAY", b"AT"})


#: Further options with one number, which are rows of the job's spec: row, error text for what that does not allow.
ROWS: Final[dict[bytes, tuple[Row, bytes]]] = {b"PRIORITY": (PRIORITY, errors.BAD_PRIORITY)}


def set_number(request: Request, option: bytes, word: bytes) -> bytes:
    """Take one numeric option; returns the text of an error, or nothing."""
    least, wrong = SETTERS[option]
    value = parse_seconds(word) if option in TIMES else parse_int(word)
    if value is None or value < least:
        return wrong
    if option == b"REPLICATE":
        if value > REPL.most:
            return wrong
        request.replicate = value
    elif option == b"MAXLEN":
        request.maxlen = value
    elif value > SECONDS_MAX:
        return errors.TOO_FAR % option
    elif option == b"TTL":
        request.ttl = value
    else:
        request.retry = value
    return b""


def set_moment(request: Request, option: bytes, word: bytes) -> bytes:
    """Take DELAY or AT, but not both; returns the text of an error, or nothing."""
    if option == b"AT":
        at_ms = parse_int(word)
        if request.at_ms >= 0:
            return errors.TWICE % option
        if at_ms is None or at_ms < 0:
            return errors.BAD_AT
        request.at_ms = at_ms
    else:
        delay_ms = parse_ms(word)
        if delay_ms is None or delay_ms < 0:
            return errors.BAD_DELAY
        if delay_ms > SECONDS_MAX * 1000:
            return errors.TOO_FAR % option
        request.delay_ms = delay_ms
    return errors.AT_AND_DELAY if request.at_ms >= 0 and request.delay_ms >= 0 else b""


def set_row(request: Request, option: bytes, value: int | None) -> bytes:
    """Take an option that is a row of the spec; returns the text of an error, or nothing."""
    row, wrong = ROWS[option]
    if request.rows is not None and row.number in request.rows:
        return errors.TWICE % option
    if value is None or not row.fits(value):
        return wrong
    request.say(row, value)
    return b""


def set_unique(request: Request, key: bytes, window: bytes) -> bytes:
    """Take ``UNIQUE key seconds``; returns the text of an error, or nothing."""
    seconds = parse_seconds(window)
    if not 1 <= len(key) <= keys.KEY_MAX or seconds is None or not 0 <= seconds <= keys.WINDOW_MAX:
        return errors.BAD_WINDOW
    request.key = key
    request.window = seconds
    return b""


def add(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """The whole of ADDJOB. The reply goes to the session, behind those that it is still owed."""
    request = parse(node, args)
    if isinstance(request, bytes):
        settle(node, session, args, resp.error(request), now_ms)
        return
    if request.timeout_ms or session.answer_by_ms != NEVER:
        session.expect(request.timeout_ms, now_ms)
    if request.key is not None:
        add_with_key(node, session, args, request, request.key, now_ms)
        return
    outside = coordinator.from_outside(node)
    reply = refused(node, request, now_ms, outside=outside)
    if not reply and (request.replicate == 1 or request.asynchronous):
        reply = at_once(node, request, now_ms, outside=outside)
    if reply:
        settle(node, session, args, reply, now_ms)
    else:
        place(node, coordinator.owe(node, session, args, request.timeout_ms, now_ms), request, b"", now_ms)


def add_kept(node: "Node", session: Session, args: list[bytes], keepers: int, now_ms: int) -> None:
    """An ADDJOB with UNIQUE whose key lies on so many nodes at least, however many copies are wanted."""
    request = parse(node, args)
    if isinstance(request, bytes):
        settle(node, session, args, resp.error(request), now_ms)
        return
    assert request.key is not None
    request.keepers = keepers
    add_with_key(node, session, args, request, request.key, now_ms)


def add_with_key(node: "Node", session: Session, args: list[bytes], request: Request, key: bytes, now_ms: int) -> None:
    """Answer an ADDJOB with a UNIQUE key, or let it wait."""
    digest = keys.digest_of(request.queue, key)
    request.kind = kind_of(request.ttl, request.retry)
    acquire.nodes_changed(node, now_ms)
    reply = taken(node, session, digest, now_ms)
    is_new = reply is None
    if reply is None:
        reply = alone(node, request, digest, now_ms)
    if reply:
        settle(node, session, args, reply, now_ms)
        return
    pending = coordinator.owe(node, session, args, request.timeout_ms, now_ms)
    place(node, pending, request, digest, now_ms, is_new=is_new)


def at_once(node: "Node", request: Request, now_ms: int, *, outside: bool) -> bytes:
    """Make a job that nobody waits for and answer with its ID; nothing, when its only copy must be elsewhere."""
    if not outside:
        job = make_here(node, request, now_ms)
        if request.replicate > 1:
            coordinator.begin_async(node, job, now_ms, outside=False)
        return resp.status(job.id)
    if not request.asynchronous:
        return b""
    job = make(node, request, now_ms)
    coordinator.begin_async(node, job, now_ms, outside=True)
    return resp.status(job.id)


def taken(node: "Node", session: Session, digest: bytes, now_ms: int) -> bytes | None:
    """The reply to an ADDJOB whose UNIQUE key is taken; nothing, when that must be found out; None when it is free."""
    if digest in node.unique.acquisitions:
        return b""
    job_id = keys.is_taken(node, digest, now_ms)
    if job_id is None:
        return None
    session.unsettled |= node.journaling
    return resp.status(job_id) if job_id else b""


def alone(node: "Node", request: Request, digest: bytes, now_ms: int) -> bytes:
    """The reply to an ADDJOB with a free UNIQUE key that this node keeps alone, and the only copy; else nothing."""
    if request.key_copies() > 1 and len(node.unique.ring.nodes) > 1:
        return b""
    if request.replicate > 1 or coordinator.from_outside(node):
        return b""
    if not node.unique.ring.is_alone(digest, node.node_id, now_ms):
        return b""
    reply = refused(node, request, now_ms, outside=False)
    if reply:
        return reply
    job = make_here(node, request, now_ms)
    keys.keep_alone(node, digest, job, request.window * 1000, request.key_copies(), now_ms)
    return resp.status(job.id)


def settle(node: "Node", session: Session, args: list[bytes], reply: bytes, now_ms: int) -> None:
    """Answer at once, or as soon as the ADDJOBs before this one are answered."""
    if session.adds:
        coordinator.answer(node, coordinator.owe(node, session, args, 0, now_ms), reply)
    else:
        session.out.append(reply)


def again(node: "Node", pending: PendingAdd, now_ms: int) -> None:
    """Go on with an ADDJOB that has waited for its key, or try it now that the one that it waited for has failed."""
    if pending.reply or pending.session.closing:
        return
    acquisition = pending.key
    is_next = acquisition is None or acquisition.is_next
    request = parse(node, pending.args) if is_next or acquisition is None else acquisition.request
    if isinstance(request, bytes):  # the default of REPLICATE has changed meanwhile
        coordinator.give_up(node, pending, resp.error(request))
        return
    if acquisition is not None and is_next:
        acquire.take_over(node, acquisition, pending, request, now_ms)
    if acquisition is not None or request.key is None:
        place(node, pending, request, b"" if acquisition is None else acquisition.digest, now_ms)
    else:
        place(node, pending, request, keys.digest_of(request.queue, request.key), now_ms)


def place(
    node: "Node", pending: PendingAdd, request: Request, digest: bytes, now_ms: int, *, is_new: bool = False
) -> None:
    """Answer ``pending``, or let it wait for copies or for the holder of its key, which is empty when it has none.

    ``is_new``: nothing is known of the key here.
    """
    if digest and not acquire.hold(node, pending, request, digest, now_ms, is_new=is_new):
        return
    outside = coordinator.from_outside(node)
    reply = refused(node, request, now_ms, outside=outside)
    if reply:
        coordinator.give_up(node, pending, reply)
        return
    if request.replicate == 1 and not outside:
        coordinator.tell(node, pending, make_here(node, request, now_ms, pending.key))
    else:
        coordinator.begin(node, pending, make(node, request, now_ms, pending.key), now_ms, outside=outside)


def refused(node: "Node", request: Request, now_ms: int, *, outside: bool) -> bytes:
    """The error reply for a job that this node cannot take now, or nothing. ``outside``: see `from_outside`."""
    if outside or request.replicate > 1:
        wrong = too_few(node, request, now_ms, outside=outside)
        if wrong:
            return wrong
    queue = node.queues.get(request.queue)
    if request.maxlen:
        length = 0 if queue is None else queue.length
        if length + node.copies.inbound.get(request.queue, 0) >= request.maxlen:
            return resp.error(errors.MAXLEN)
    if queue is not None and queue.paused & PAUSED_IN:
        return resp.error(errors.PAUSED)
    return b""


def too_few(node: "Node", request: Request, now_ms: int, *, outside: bool) -> bytes:
    """The error reply for a job that cannot have the copies that it wants, or nothing."""
    others = len(node.membership.reachable())
    elsewhere = request.replicate
    if outside:
        if node.used > node.limits.full and not eviction.make_room(node):
            return resp.error(errors.OUT_OF_MEMORY)
        if elsewhere > others and elsewhere > expected(node, now_ms):
            return resp.error(external(node, request, others))
    else:
        elsewhere -= 1
        if elsewhere > others and elsewhere > expected(node, now_ms):
            return resp.error(errors.NO_REPL)
    if elsewhere and len(request.body) > node.body_least and elsewhere > expected(node, now_ms, len(request.body)):
        return resp.error(errors.NO_REPL_SIZE % len(request.body))
    return b""


def expected(node: "Node", now_ms: int, size: int = 0) -> int:
    """How many other nodes a job of this size may wait for: those there a moment ago as well (`restart-grace`).

    Jobs that wait take memory, so where that is short they do not wait for nodes that are away.
    """
    grace_ms = node.grace_ms if node.used <= node.limits.warn else 0
    nodes = node.membership.nodes
    return sum([nodes[node_id].body_most >= size for node_id in node.membership.expected(now_ms, grace_ms)])


def external(node: "Node", request: Request, others: int) -> bytes:
    """Why a node that must not keep a copy itself cannot have enough elsewhere: the text of the error."""
    if request.replicate - 1 == others:
        return errors.NO_REPL_LEAVING if node.membership.leaving else errors.NO_REPL_MEMORY
    return errors.NO_REPL


def make(node: "Node", request: Request, now_ms: int, acquisition: "Acquisition | None" = None) -> Job:
    """A new job as asked for, in no table yet. Its ID is that of ``acquisition``, if it has a UNIQUE key."""
    node.stats.jobs_added += 1
    kind = request.kind
    suffix, ttl, retry = kind_of(request.ttl, request.retry) if kind is None else kind
    if request.rows is None:
        spec = node.specs.find(request.queue, ttl, retry, request.replicate)
    else:
        spec = rare(node, request)
    delay_ms = request.delay_ms if request.at_ms < 0 else until(node, request.at_ms)
    spec.figures.added += 1
    job = Job(
        node.ids.make(suffix) if acquisition is None else acquisition.job_id,
        spec,
        request.body,
        node.next_ctime(now_ms),
        now_ms + ttl * 1000,
        -(-delay_ms // 1000) if delay_ms else 0,
        node.selves if acquisition is None else acquire.with_companions(node, acquisition, node.selves),
    )
    if request.headers:
        extra = Extra()
        extra.headers = request.headers
        node.put_extra(job, extra)
    if delay_ms and (delay_ms % 1000 or request.at_ms >= 0):
        replica.appoint(job, now_ms + delay_ms)
    return job


def rare(node: "Node", request: Request) -> JobSpec:
    """What a job with options that few have has in common with others."""
    encoded = encode(request.ttl, request.retry, request.replicate, request.rows)
    spec = node.specs.read(request.queue, encoded)
    assert spec is not None
    return spec


def make_here(node: "Node", request: Request, now_ms: int, acquisition: "Acquisition | None" = None) -> Job:
    """A new job that needs no other node: registered, queued or delayed, and in the journal."""
    job = make(node, request, now_ms, acquisition)
    if node.pubsub.heard & ADDED:
        node.pubsub.happened(ADDED, request.queue, job.id)
    node.register(job)
    due_ms = replica.first_ms(job, now_ms) if request.delay_ms or request.at_ms >= 0 else now_ms
    replica.start(node, job, due_ms, now_ms)
    if node.registry.defaults.dropping:
        queue_options.grows(node, request.queue)
    return job
