"""Whether a client may do what it asks for: the one place that decides.

A request is looked at before it runs, and only if the user of its client may not do everything. First it must be
allowed to run the command, or the subcommand. Then it needs the right to each queue, job and channel that it claims
(see `model.claims`). A job stands for its queue. Where a job is not known here, the other nodes are asked: see
`permits`.
"""

from typing import TYPE_CHECKING, Final

from disque.core.auth import users
from disque.core.base import errors
from disque.core.model.claims import EITHER, IDS_MOST, QUEUES_MOST, READ, WRITE, Claims
from disque.core.model.command import NO_AUTH, Command
from disque.core.model.jobid import valid
from disque.core.model.session import Session
from disque.core.model.user import User
from disque.core.schedule import keeping

if TYPE_CHECKING:
    from disque.core.node import Node

#: Why something was refused, as ACL LOG says it.
OF_COMMAND: Final = b"command"
OF_QUEUE: Final = b"key"
OF_CHANNEL: Final = b"channel"
OF_LOGIN: Final = b"auth"
ERRORS: Final = {OF_QUEUE: errors.NO_QUEUE, OF_CHANNEL: errors.NO_CHANNEL}

#: A connection may say its name and library whatever its user may do, as HELLO SETNAME does: clients begin with it.
ABOUT_ITSELF: Final = frozenset({b"client|setname", b"client|setinfo"})

#: Bytes of names that one command compares with patterns: about a tenth of a second.
COMPARED_MOST: Final = 1 << 20

#: Not refused yet: other nodes must be asked first.
UNKNOWN: Final = b"?"


class Denial:
    """Why a user may not do something, and what it is about."""

    __slots__ = ("reason", "what")

    def __init__(self, reason: bytes, what: bytes) -> None:
        self.reason = reason
        self.what = what

    def error(self) -> bytes:
        """The text of the error."""
        return errors.NO_COMMAND % self.what if self.reason == OF_COMMAND else ERRORS[self.reason]


def refusal(node: "Node", session: Session, row: Command, args: list[bytes], now_ms: int) -> bytes:
    """Why this client may not do that: the text of an error, or nothing. `UNKNOWN`: ask other nodes first."""
    user = session.user
    claims = row.claims(args)
    wrong = too_much(user, claims)
    if wrong:
        return wrong
    denial = denied(node, user, row, args, claims)
    if denial is not None:
        note(node, session, denial, now_ms)
        return denial.error()
    if user.all_queues or not claims.ids:
        return b""
    if len(claims.ids) > IDS_MOST:
        return errors.MANY_CLAIMS % IDS_MOST
    unknown = False
    for job_id in claims.ids:
        verdict = judge(node, user, job_id, claims.of_ids)
        if verdict == MAY_NOT:
            note(node, session, Denial(OF_QUEUE, job_id), now_ms)
            return errors.NO_QUEUE
        unknown = unknown or (verdict == NOBODY_KNOWS and valid(job_id))
    return UNKNOWN if unknown and node.peers else b""


def too_much(user: User, claims: Claims) -> bytes:
    """Why it would take too long to see whether ``user`` may do that: the text of an error, or nothing."""
    if len(claims.queues) > QUEUES_MOST and not user.all_queues:
        return errors.MANY_QUEUES % QUEUES_MOST
    return errors.MANY_NAMES if compared(user, claims) > COMPARED_MOST else b""


def compared(user: User, claims: Claims) -> int:
    """How many bytes of names are compared with patterns to see whether ``user`` may do that.

    The names of some channels end with the name of a queue: then these are compared with the patterns of queues, too.
    """
    globs = user.globs()
    found = 0
    if globs:
        found += globs * sum([len(name) for name, _ in claims.queues])
    if claims.channels:
        found += (globs + user.channel_globs()) * sum([len(name) for name in claims.channels])
    return found


def denied(node: "Node", user: User, row: Command, args: list[bytes], claims: Claims) -> Denial | None:
    """Why ``user`` may not run this, the jobs that it names aside; None if it may."""
    if not row.flags & NO_AUTH:
        unit = node.catalog.unit_of(row, args)
        if not user.may_run(unit) and unit not in ABOUT_ITSELF:
            return Denial(OF_COMMAND, unit)
    if claims.everything and not user.reads_all():
        return Denial(OF_QUEUE, b"*")
    return denied_queue(user, claims) or denied_schedule(node, user, claims) or denied_channel(user, claims)


def denied_queue(user: User, claims: Claims) -> Denial | None:
    """The first queue that ``user`` has no right to; None if there is none."""
    for name, access in claims.queues:
        if not user.may(name, access):
            return Denial(OF_QUEUE, name)
    for name, access in claims.beginnings:
        if not user.may_all(name, access):
            return Denial(OF_QUEUE, name + b"*")
    return None


def denied_schedule(node: "Node", user: User, claims: Claims) -> Denial | None:
    """The first schedule to whose queue ``user`` has no right; None if there is none.

    One of which it may not know is as one that is not there; but it must not be overwritten.
    """
    for name, access in claims.schedules:
        saying = keeping.find(node, name)
        if saying is not None and user.sees(saying.queue) and not user.may(saying.queue, access):
            return Denial(OF_QUEUE, saying.queue)
    for name in claims.overwritten:
        saying = keeping.find(node, name)
        if saying is not None and not user.may(saying.queue, WRITE):
            return Denial(OF_QUEUE, saying.queue)
    return None


def denied_channel(user: User, claims: Claims) -> Denial | None:
    """The first channel, or pattern of channels, that ``user`` has no right to; None if there is none."""
    for name in claims.channels:
        if not users.may_listen(user, name):
            return Denial(OF_CHANNEL, name)
    for name in claims.patterns:
        if not users.may_listen_to_all(user, name):
            return Denial(OF_CHANNEL, name)
    return None


def note(node: "Node", session: Session, denial: Denial, now_ms: int) -> None:
    """Count and log that something was refused."""
    node.stats.acl_denied += 1
    log(node, session, denial.reason, denial.what, session.user.name, now_ms)


def log(node: "Node", session: Session, reason: bytes, what: bytes, user: bytes, now_ms: int) -> None:
    """Make an entry for ACL LOG."""
    client = b"id=%d addr=%b laddr=%b name=%b cmd=%b user=%b resp=%d lib-name=%b lib-ver=%b" % (
        *(session.id, session.address, session.local_address, session.name, session.command, session.user.name),
        *(session.protocol, session.library, session.library_version),
    )
    node.acl_log.add(reason, what, user, client, now_ms)


# -- jobs --------------------------------------------------------------------------------------------------------------

#: What is known of a job that a user names.
NOBODY_KNOWS: Final = 0
MAY: Final = 1
MAY_NOT: Final = 2


def judge(node: "Node", user: User, job_id: bytes, access: int) -> int:
    """Whether a user may do that with a job, as far as this node knows it: also one that has ended and is kept."""
    queue = queue_of(node, job_id)
    if queue is None:
        return NOBODY_KNOWS
    return MAY if user.may(queue, access) else MAY_NOT


def queue_of(node: "Node", job_id: bytes) -> bytes | None:
    """The queue of a job, or None if it is not known here."""
    job = node.find(job_id)
    if job is not None:
        return job.queue
    end = node.ends.by_id.get(job_id)
    return end.queue if end is not None and end.queue else None


ACCESSES: Final = frozenset({READ, WRITE, EITHER})
