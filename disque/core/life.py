"""What happens to a whole node or to a whole session: they come, they go, everything is flushed."""

from typing import TYPE_CHECKING

from disque.core import delivery, errors, queues, replication, resp
from disque.core.early import Early
from disque.core.gone import Gone
from disque.core.memory import JOB_BYTES, KEY_BYTES, QUEUE_BYTES
from disque.core.records import FLUSH
from disque.core.roll import Roll
from disque.core.session import NOT_WAITING, WAIT_COPIES, WAIT_JOBS, Session
from disque.core.shelf import Shelf
from disque.core.spent import Spent
from disque.core.timers import Timers

if TYPE_CHECKING:
    from collections import deque

    from sortedcontainers import SortedKeyList

    from disque.core.job import Job
    from disque.core.node import Node
    from disque.core.queue import Queue
    from disque.core.timers import Timed

    Returned = SortedKeyList[Job, tuple[int, bytes]]
    #: Something that holds many things, which nobody else looks at.
    Trash = dict[bytes, Job] | dict[bytes, Queue] | list[Timed] | list[tuple[int, int, Timed]] | deque[Job] | Returned


def connect(node: "Node", session_id: int, address: bytes, local_address: bytes, now_ms: int) -> Session:
    """A client has connected."""
    session = Session(session_id, address, local_address, now_ms)
    node.sessions[session_id] = session
    node.stats.connections += 1
    return session


def disconnect(node: "Node", session: Session, now_ms: int) -> None:
    """A client is gone. What was handed to it in replies that never began to leave goes back; what waits, ends."""
    node.sessions.pop(session.id, None)
    node.monitors.pop(session.id, None)
    session.closing = True
    if session.waiting == WAIT_JOBS:
        delivery.disconnect_waiting(node, session)
    if session.adds:
        replication.disconnect(node, session)
    session.waiting = NOT_WAITING
    if session.handed:
        delivery.give_back(node, session, now_ms)
    session.out.clear()


def flush_all(node: "Node", now_ms: int) -> None:
    """Drop all jobs, queues and keys.

    Waiting GETJOBs get nothing, waiting ADDJOBs are told that their job was removed.
    """
    del now_ms
    for session in list(node.sessions.values()):
        if session.waiting == WAIT_JOBS:
            delivery.unblock(node, session, resp.null_array(session.protocol))
        elif session.waiting == WAIT_COPIES:
            fail_adds(node, session)
        session.handed.clear()
    for peer in node.peers.values():
        peer.waiting.clear()
    forget_everything(node)
    if node.journaling:
        node.journal.append((FLUSH,))
        for broadcast in node.federation.pauses.values():
            if broadcast.name not in node.federation.waiting:
                queues.file_broadcast(node, broadcast)


def forget_everything(node: "Node") -> None:
    """Drop all jobs, queues without a line, and keys, without a record.

    Waiting sessions are the caller's business. What was told of pauses at all nodes stays known.
    """
    node.trash += [shard for shard in node.shards if shard]
    if node.queues:
        node.trash.append(node.queues)
    node.trash += [line for line in node.spent.lines() if line]
    node.trash += [line for line in node.timers.lists() if line]
    node.shards = [{} for _ in node.shards]
    node.timers = Timers()
    node.keys.clear()
    node.shelf = Shelf()
    node.keyed.clear()
    node.bids.clear()
    node.bidding.clear()
    node.over.clear()
    node.ring.moving = False
    node.spent = Spent()
    node.claims.clear()
    node.acking.clear()
    node.dummies.clear()
    node.telling.clear()
    node.gone = Gone()
    node.early = Early()
    node.chores.clear()
    node.resting.clear()
    node.frozen = False
    node.short.clear()
    node.short_walk = 0
    node.pending.clear()
    node.coming.clear()
    node.ready.clear()
    node.live.clear()
    for broadcast in node.federation.pauses.values():
        broadcast.segment = 0
    node.queues = {}
    node.roll = Roll()
    node.used = 0


def fail_adds(node: "Node", session: Session) -> None:
    """End all undecided ADDJOBs of a session: their jobs are removed."""
    for pending in list(session.adds):
        if pending.spread is not None:
            replication.job_removed(node, pending.spread.job)
        elif not pending.reply:
            replication.give_up(node, pending, resp.error(errors.NO_REPL_REMOVED))


def struct_sizes() -> bytes:
    """What DEBUG STRUCTSIZE tells."""
    return b"bits:64 job:%d queue:%d key:%d" % (JOB_BYTES, QUEUE_BYTES, KEY_BYTES)
