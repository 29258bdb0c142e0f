"""ACKJOB and other commands with many IDs: some of them in each tick, so that others are served meanwhile.

All IDs are checked before anything is done, since one that is none means that nothing is. Of several such commands each
has its turn, so a thousand IDs do not wait for a million. The client is answered at the end, and is handed no further
command until then. What a client has asked for is done although it is gone, as with few IDs; but clients that come, ask
and go could fill memory with that, so it has a bound.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.model.jobid import valid
from disque.core.model.session import NOT_WAITING, WAIT_SCAN, Session
from disque.core.model.sliced import Sliced

if TYPE_CHECKING:
    from disque.core.node import Node

#: Commands with more IDs are done in slices of so many.
MOST = 1000  # not Final: tests want less, compiled too
SLICE = 250  # not Final: tests want less, compiled too
#: So many IDs are checked in the time in which something is done with one of them.
CHECKS: Final = 8
#: IDs that wait for clients that are gone: what a further one has asked for is dropped.
ORPHANS_MOST = 2_000_000  # not Final: tests want less, compiled too


class Bulk(Sliced):
    """One command with many IDs. Those of ``ids`` that are left are in order once all are checked, the next one last.

    A kind of command says what it does with each, and what it answers.
    """

    __slots__ = ("_checked", "ids", "is_orphan")

    def __init__(self, session: Session, ids: list[bytes]) -> None:
        super().__init__(session)
        self.ids = ids
        self.is_orphan = False
        self._checked = 0

    def do(self, node: "Node", job_id: bytes, now_ms: int) -> None:
        """Do what the command does with one job."""
        raise NotImplementedError

    def goes_on(self, node: "Node", now_ms: int) -> bool:
        """All is done here: whether the client waits for something else now, that answers it."""
        del node, now_ms
        return False

    def end_slice(self) -> None:
        """A slice is done: make its part of the reply."""

    def reply(self) -> bytes:
        """All is done: the reply."""
        raise NotImplementedError

    def go_on(self, node: "Node", now_ms: int) -> bytes:
        """Check or do some; the reply when it is known, else nothing."""
        ids = self.ids
        if self._checked >= 0:
            some = ids[self._checked : self._checked + SLICE * CHECKS]
            for job_id in some:
                if not valid(job_id):
                    return resp.error(errors.BAD_ID)
            self._checked += len(some)
            if self._checked == len(ids):
                self._checked = -1
                ids.reverse()
            return b""
        for _ in range(min(SLICE, len(ids))):
            self.do(node, ids.pop(), now_ms)
        self.end_slice()
        return b"" if ids else self.reply()


def begin(node: "Node", bulk: Bulk) -> None:
    """A client has sent a command with many IDs."""
    bulk.session.waiting = WAIT_SCAN
    node.bulks.line.append(bulk)


def go_on(node: "Node", now_ms: int) -> None:
    """Do a slice of the command whose turn it is."""
    bulks = node.bulks
    bulk = bulks.line.popleft()
    assert isinstance(bulk, Bulk)
    if bulk.session.closing and not bulk.is_orphan:
        if bulks.orphans + len(bulk.ids) > ORPHANS_MOST:
            node.trash.append(bulk.ids)
            return
        bulk.is_orphan = True
        bulks.orphans += len(bulk.ids)
    before = len(bulk.ids)
    try:
        reply = bulk.go_on(node, now_ms)
    except Exception:
        finish(node, bulk, resp.error(errors.INTERNAL))
        bulk.session.closing = True
        raise
    if bulk.is_orphan:
        bulks.orphans -= before - len(bulk.ids)
    if not reply:
        bulks.line.append(bulk)
    elif bulk.ids or bulk.session.closing or not bulk.goes_on(node, now_ms):
        finish(node, bulk, reply)


def finish(node: "Node", bulk: Bulk, reply: bytes) -> None:
    """The reply of a command is known."""
    if bulk.is_orphan:
        node.bulks.orphans -= len(bulk.ids)
    if len(bulk.ids):
        node.trash.append(bulk.ids)
    session = bulk.session
    if session.closing:
        return
    session.waiting = NOT_WAITING
    if node.journaling:
        session.unsettled = True
    if session.wait_silent:
        session.wait_silent = False
    else:
        session.out.append(reply)
    node.touch(session)
