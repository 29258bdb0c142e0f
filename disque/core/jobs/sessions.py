"""What happens to a whole node or to a whole session: they come, they go, everything is flushed."""

from typing import TYPE_CHECKING

from disque.core import pubsub
from disque.core.base import errors, resp
from disque.core.dedup import outcomes
from disque.core.jobs import deliver
from disque.core.journal.schema import FLUSH
from disque.core.model.early_holders import EarlyHolders
from disque.core.model.index import Index
from disque.core.model.memory import JOB_BYTES, KEY_BYTES, PLACE_BYTES, QUEUE_BYTES
from disque.core.model.session import (
    NOT_WAITING,
    WAIT_COPIES,
    WAIT_ENDS,
    WAIT_ENTRIES,
    WAIT_JOBS,
    WAIT_LOGIN,
    WAIT_NODES,
    Session,
)
from disque.core.model.specs import Specs
from disque.core.model.tombstones import Tombstones
from disque.core.replication import coordinator, ends, registry, surveys, waits

if TYPE_CHECKING:
    from disque.core.node import Node


def connect(node: "Node", session_id: int, address: bytes, local_address: bytes, now_ms: int) -> Session:
    """A client has connected. While there is no password it counts as logged in, also when one is set later."""
    session = Session(session_id, address, local_address, now_ms)
    session.log_in(node.users.default, passed=node.users.default.is_open())
    node.sessions[session_id] = session
    node.stats.connections += 1
    return session


def disconnect(node: "Node", session: Session, now_ms: int) -> None:
    """A client is gone. What was handed to it in replies that never began to leave goes back; what waits, ends."""
    node.sessions.pop(session.id, None)
    node.monitors.pop(session.id, None)
    if session.subscriptions is not None:
        pubsub.leave(node, session)
    session.closing = True
    if session.waiting == WAIT_JOBS:
        deliver.disconnect_waiting(node, session)
    elif session.waiting == WAIT_NODES:
        surveys.disconnect(node, session)
    elif session.waiting == WAIT_ENDS:
        waits.disconnect(node, session)
    elif session.waiting == WAIT_LOGIN:
        node.timers.disarm(session)
        del node.users.late[session.id]
    elif session.waiting == WAIT_ENTRIES:
        del node.registry.held[session.id]
    node.users.waited.discard(session.id)
    if session.adds:
        coordinator.disconnect(node, session)
        outcomes.hand_on(node, now_ms)
    session.waiting = NOT_WAITING
    if session.walked:
        walk_taken(node, session)
    if session.handed:
        deliver.give_back(node, session, now_ms)
    session.out.clear()


def flush_all(node: "Node", now_ms: int) -> None:
    """Drop all jobs, queues and keys.

    Waiting GETJOBs get nothing, waiting ADDJOBs are told that their job was removed.
    """
    for session in list(node.sessions.values()):
        if session.waiting == WAIT_JOBS:
            deliver.unblock(node, session, resp.null_array(session.protocol))
        elif session.waiting == WAIT_COPIES:
            fail_adds(node, session)
        session.handed.clear()
    outcomes.hand_on(node, now_ms)
    for peer in node.peers.values():
        peer.waiting.clear()
    forget_everything(node)
    if node.journaling:
        node.outbox.add((FLUSH,))
        registry.file_all(node)


def forget_everything(node: "Node") -> None:
    """Drop all jobs, queues without a line, and keys, without a record.

    Waiting sessions are the caller's business. What was told of pauses at all nodes stays known.
    """
    surveys.break_off(node)
    ends.break_off(node)
    node.trash += [shard for shard in node.shards if shard]
    if node.queues:
        node.trash.append(node.queues)
    node.trash += [line for line in node.evictable.lines() if line]
    for session_id in node.users.late:
        node.timers.disarm(node.sessions[session_id])
    node.trash += [line for line in node.timers.clear() if line]
    for session_id, (_, due_ms) in node.users.late.items():
        node.timers.arm(node.sessions[session_id], due_ms)
    node.shards = [{} for _ in node.shards]
    for part in (*node.parts, *node.jobless):
        part.clear()
    node.tombstones = Tombstones()
    node.early_holders = EarlyHolders()
    node.chores.clear()
    node.retries.clear()
    node.outcomes.clear()
    node.resting.clear()
    registry.begin_anew(node)
    node.reconciling = False
    node.ready.clear()
    node.overflowing.clear()
    node.live.clear()
    registry.forget_segments(node)
    node.queues = {}
    node.specs = Specs(node.queues)
    node.queue_index = Index()
    node.used = node.places * PLACE_BYTES  # of those that wait no more and leave their lines now
    node.used += node.pubsub.size


def walk_taken(node: "Node", session: Session) -> None:
    """The client has read the reply of its walk, or is gone."""
    node.unread -= session.walked
    session.walked = 0


def fail_adds(node: "Node", session: Session) -> None:
    """End all undecided ADDJOBs of a session: their jobs are removed."""
    for pending in list(session.adds):
        if pending.spread is not None:
            coordinator.job_removed(node, pending.spread.job)
        elif not pending.reply:
            coordinator.give_up(node, pending, resp.error(errors.NO_REPL_REMOVED))


def struct_sizes() -> bytes:
    """What DEBUG STRUCTSIZE tells."""
    return b"bits:64 job:%d queue:%d key:%d" % (JOB_BYTES, QUEUE_BYTES, KEY_BYTES)
