"""WAITJOB: a client waits until jobs have ended."""

from typing import TYPE_CHECKING, Final

from disque.core.model.ends import Wanted
from disque.core.model.session import Session
from disque.core.replication import ends, waits

if TYPE_CHECKING:
    from disque.core.node import Node

#: IDs that one client can wait for at once.
IDS_MOST: Final = 1000


def begin(node: "Node", session: Session, ids: list[bytes], timeout_ms: int, *, is_any: bool, now_ms: int) -> None:
    """Answer when all of these jobs have ended, or one of them; 0 ms: however long that takes."""
    new = waits.begin(node, session, ids, is_any=is_any)
    ask_here(node, new, now_ms)
    if session.id in node.ends.by_session:
        waits.stand(node, session, timeout_ms, now_ms)
        waits.ask(node, new)


def ask_here(node: "Node", ids: list[bytes], now_ms: int) -> None:
    """Ask this node."""
    for job_id in ids:
        if job_id in node.ends.wanted:
            ends.watch(node, node.node_id, job_id, now_ms)


def again(node: "Node", wanted: Wanted, now_ms: int) -> None:
    """All nodes have said that they do not know a job: ask once more."""
    if node.ends.wanted.get(wanted.id) is not wanted:
        return
    wanted.again = True
    wanted.without.clear()
    ask_here(node, [wanted.id], now_ms)
    waits.ask(node, [wanted.id])
