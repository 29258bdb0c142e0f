"""MOVE, REVIVEJOB: jobs go to another queue for good, whichever node has them."""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import SECONDS_MAX, parse_ms
from disque.core.commands import asking
from disque.core.jobs import orders, terms
from disque.core.jobs.orders import Order
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import DENYOOM, FAST, LIST, WRITE, Command
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node


def move(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """MOVE queue id [id ...] [DELAY s]: how many jobs are in that queue now, or will be after the delay."""
    ids = args[2:]
    delay_ms: int | None = 0
    if len(ids) >= 2 and ids[-2].upper() == b"DELAY":
        delay_ms = parse_ms(ids[-1])
        ids = ids[:-2]
    wrong = terms.lacking(node, b"MOVE")
    if delay_ms is None or delay_ms < 0:
        wrong = errors.BAD_DELAY
    elif delay_ms > SECONDS_MAX * 1000:
        wrong = errors.TOO_FAR % b"DELAY"
    if wrong or delay_ms is None:
        session.out.append(resp.error(wrong))
        return
    asking.by_ids(node, session, ids, Order(orders.MOVE, b"", args[1], delay_ms), now_ms)


def revivejob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """REVIVEJOB id [id ...]: how many dead letters went back to the queue in which they died."""
    wrong = terms.lacking(node, b"REVIVEJOB")
    if wrong:
        session.out.append(resp.error(wrong))
        return
    asking.by_ids(node, session, args[1:], Order(orders.REVIVEJOB, b"", orders.rights_of(session.user), 0), now_ms)


def moved(args: list[bytes]) -> Claims:
    """MOVE takes jobs out of their queues, and puts them into another one."""
    ids = args[2:]
    claims = may.of_ids(ids[:-2] if len(ids) >= 2 and ids[-2].upper() == b"DELAY" else ids, may.READ, counts=True)
    claims.queues.append((args[1], may.WRITE))
    return claims


COMMANDS: Final = (
    Command(
        "move",
        -3,
        WRITE | FAST | LIST | DENYOOM,
        move,
        "jobs",
        "queue id [id ...] [DELAY s]",
        "Put jobs into another queue for good; the reply is how many.",
        touches=moved,
    ),
    Command(
        "revivejob",
        -2,
        WRITE | FAST | LIST | DENYOOM,
        revivejob,
        "jobs",
        "id [id ...]",
        "Put dead letters back into the queue in which they died, as they were at first.",
        touches=may.ends_ids,
    ),
)
