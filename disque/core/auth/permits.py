"""Jobs that a user names and that are not known here: the nodes that know them say whether he may.

Before a command with such jobs runs, all nodes are asked one question. It names the user and his rights to queues, and
whoever knows a job holds it against these: a node may not know the user, who can stand in the configuration of another
one. If one of them says no, the command is refused. Else it runs as for anybody. With a job that no node knows nothing
can be done; but while some node cannot be reached it may be there, so it is left out then.
"""

from typing import TYPE_CHECKING, Final

from disque.core.auth import access
from disque.core.auth.access import MAY_NOT, NOBODY_KNOWS
from disque.core.base import errors, resp
from disque.core.model.claims import IDS_MOST
from disque.core.model.command import Command
from disque.core.model.jobid import valid
from disque.core.model.session import (
    NOT_WAITING,
    WAIT_ENDS,
    WAIT_HOST,
    WAIT_JOBS,
    WAIT_NODES,
    WAIT_SCAN,
    Session,
)
from disque.core.model.survey import Answers, Asked, Words
from disque.core.model.user import User, of_queues
from disque.core.replication import surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: The kind of question: see `questions`. Its words are the user, his rights to queues, what he wants, and the jobs.
PERMITS: Final = 30
WORDS_BEFORE_IDS: Final = 3

#: No question, but what follows on one: the command runs.
GO_ON: Final = -1


class Request(Answers):
    """A request that has been looked at. At the next settle it runs, or is answered with ``refused``."""

    __slots__ = ("args", "refused", "row")

    def __init__(self, row: Command, args: list[bytes]) -> None:
        super().__init__(GO_ON, ())
        self.row = row
        self.args = args
        self.refused = b""


class Permits(Answers):
    """What the nodes say of the jobs of one request."""

    __slots__ = ("_all", "_args", "_counts", "_found", "_ids", "_row")

    def __init__(self, user: User, row: Command, args: list[bytes], ids: list[bytes], of_ids: int) -> None:
        self._row = row
        self._args = args
        self._ids = ids
        claims = row.claims(args)
        self._all = set(claims.ids)
        self._counts = claims.counts
        self._found = [NOBODY_KNOWS] * len(ids)
        rights = b" ".join(user.words_of_queues())
        super().__init__(PERMITS, (user.name, rights, b"%d" % of_ids, *ids))

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        said = words[0]
        if len(words) != 1 or len(said) != len(self._ids) or said.strip(b"012"):
            return False
        for at, digit in enumerate(said):
            self._found[at] = max(self._found[at], digit - 48)
        return True

    def is_settled(self) -> bool:
        """As in `Answers`."""
        return NOBODY_KNOWS not in self._found or MAY_NOT in self._found

    def following(self) -> Answers | None:
        """As in `Answers`."""
        request = Request(self._row, self._args)
        if MAY_NOT in self._found:
            request.refused = resp.error(errors.NO_QUEUE)
        elif NOBODY_KNOWS in self._found and self.unreachable:
            lost = {job_id for job_id, found in zip(self._ids, self._found, strict=True) if found == NOBODY_KNOWS}
            request.args = [word for word in self._args if word not in lost]
            if not self._counts:
                request.refused = resp.error(errors.NOT_CHECKED)
            elif self._all <= lost:
                request.refused = resp.ZERO
        return request

    def reply(self) -> bytes:
        """As in `Answers`: this node forgets everything meanwhile."""
        return resp.error(errors.NOT_CHECKED)


def ask(node: "Node", session: Session, row: Command, args: list[bytes]) -> Permits:
    """What is to be asked before this request can run."""
    claims = row.claims(args)
    user = session.user
    ids = [one for one in dict.fromkeys(claims.ids) if valid(one) and access.queue_of(node, one) is None]
    return Permits(user, row, args, ids, claims.of_ids)


def say_permits(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer whether that user may do that with these jobs: a digit for each."""
    del now_ms
    words = asked.words
    ids = words[WORDS_BEFORE_IDS:]
    if len(words) <= WORDS_BEFORE_IDS or len(ids) > IDS_MOST or not all(map(valid, ids)):
        surveys.say(node, asked, surveys.CANNOT)
        return
    user = of_queues(words[0], words[1])
    wanted = words[2][0] - 48 if len(words[2]) == 1 else 0
    if user is None or wanted not in access.ACCESSES:
        surveys.say(node, asked, surveys.CANNOT)
        return
    surveys.say(node, asked, (b"".join([b"%d" % access.judge(node, user, job_id, wanted) for job_id in ids]),))


def is_foreign(node: "Node", user: User, request: Request) -> bool:
    """Whether a job of this request is known here by now, and ``user`` may not: it was on its way between two nodes."""
    claims = request.row.claims(request.args)
    return any(access.judge(node, user, job_id, claims.of_ids) == MAY_NOT for job_id in claims.ids)


def go_on(node: "Node", session: Session, request: Request, now_ms: int) -> None:
    """Run a request that was put off, or refuse it."""
    session.waiting = NOT_WAITING
    silent, session.wait_silent = session.wait_silent, False
    replies, handed, written = len(session.out), len(session.handed), node.outbox.count
    if not request.refused and is_foreign(node, session.user, request):
        request.refused = resp.error(errors.NO_QUEUE)
    if request.refused:
        session.out.append(request.refused)
    else:
        request.row.function(node, session, request.args, now_ms)
    if silent:
        del session.out[replies:]
        del session.handed[handed:]
        session.wait_silent = session.waiting in {WAIT_JOBS, WAIT_HOST, WAIT_SCAN, WAIT_NODES, WAIT_ENDS}
    if node.outbox.count != written:
        session.unsettled = True
    node.touch(session)
