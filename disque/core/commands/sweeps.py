"""QMOVE, REVIVE, QFLUSH: something is done with the jobs of a queue, at all nodes."""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands import asking
from disque.core.jobs import orders, terms
from disque.core.jobs.orders import Order
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import DANGEROUS, DENYOOM, WRITE, Command
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node


def sweep(node: "Node", session: Session, order: Order, words: list[bytes], now_ms: int) -> None:
    """Do what ``order`` says; ``words`` stand behind the names of the queues: nothing, or COUNT n."""
    count: int | None = 0
    wrong = terms.lacking(node, order.verb)
    if words:
        count = parse_int(words[1]) if len(words) == 2 and words[0].upper() == b"COUNT" else 0
        if len(words) != 2 or words[0].upper() != b"COUNT":
            wrong = errors.SYNTAX
        elif count is None or count <= 0:
            wrong = errors.BAD_COUNT
    if wrong or count is None:
        session.out.append(resp.error(wrong))
    else:
        asking.by_queue(node, session, order, count, now_ms)


def qmove(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QMOVE from to [COUNT n]: how many jobs are in the other queue now, and who did not answer."""
    if args[1] == args[2]:
        session.out.append(resp.error(errors.ONTO_ITSELF))
        return
    sweep(node, session, Order(orders.QMOVE, args[1], args[2], 0), args[3:], now_ms)


def revive(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """REVIVE dead-queue [COUNT n]: how many dead letters went back, and how many jobs are none."""
    sweep(node, session, Order(orders.REVIVE, args[1], orders.rights_of(session.user), 0), args[2:], now_ms)


def qflush(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QFLUSH queue [COUNT n]: how many jobs have ended."""
    sweep(node, session, Order(orders.QFLUSH, args[1], b"", 0), args[2:], now_ms)


def moved(args: list[bytes]) -> Claims:
    """QMOVE takes jobs out of one queue and puts them into another one."""
    claims = may.looks(args)
    claims.queues.append((args[2], may.WRITE))
    return claims


COUNT: Final = "queue [COUNT n]"

COMMANDS: Final = (
    Command(
        "qmove",
        -3,
        WRITE | DENYOOM,
        qmove,
        "queues",
        "from to [COUNT n]",
        "Put the jobs of a queue into another one, at all nodes.",
        touches=moved,
    ),
    Command(
        "revive",
        -2,
        WRITE | DENYOOM,
        revive,
        "queues",
        COUNT,
        "Put the dead letters of a queue back where they died, at all nodes.",
        touches=may.looks,
    ),
    Command(
        "qflush",
        -2,
        WRITE | DANGEROUS,
        qflush,
        "queues",
        COUNT,
        "Delete the jobs of a queue, at all nodes.",
        touches=may.looks,
    ),
)
