"""CANCEL, RESULT, WAITJOB: how jobs end, and who wants to know."""

from typing import TYPE_CHECKING, Final

from disque.core import questions
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands import asking
from disque.core.jobs import orders, results, terms, waiting
from disque.core.jobs.orders import Order
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import BLOCKING, FAST, LIST, PRODUCE, READONLY, WRITE, Command
from disque.core.model.ends import WATCHES_MOST
from disque.core.model.jobid import valid
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node


def cancel(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CANCEL id [id ...] [WAITING]: how many jobs this ended."""
    ids = args[1:]
    to = b""
    if len(ids) > 1 and ids[-1].upper() == orders.WAITING:
        to = orders.WAITING
        ids = ids[:-1]
    wrong = terms.lacking(node, b"CANCEL")
    if wrong:
        session.out.append(resp.error(wrong))
        return
    asking.by_ids(node, session, ids, Order(orders.CANCEL, b"", to, 0), now_ms)


def result(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """RESULT id: what has become of a job, or nothing."""
    if not valid(args[1]) or node.misconf:
        session.out.append(resp.error(node.misconf or errors.BAD_ID))
        return
    most = max(node.config.number("max-result-bytes"), results.RESULT_MOST)
    questions.ask(node, session, results.Result(node, session.user, args[1], session.protocol, most), now_ms)


def waitjob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """WAITJOB ms-timeout id [id ...] [ANY]: for each job how it has ended, and its result; nothing if it has not."""
    ids = args[2:]
    is_any = len(ids) > 1 and ids[-1].upper() == b"ANY"
    if is_any:
        ids = ids[:-1]
    timeout_ms = parse_int(args[1])
    wrong = terms.lacking(node, b"WAITJOB")
    if timeout_ms is None:
        wrong = errors.BAD_TIMEOUT
    elif timeout_ms < 0:
        wrong = errors.NEGATIVE_TIMEOUT
    elif len(ids) > waiting.IDS_MOST:
        wrong = errors.MANY_IDS % waiting.IDS_MOST
    elif not all(map(valid, ids)):
        wrong = errors.BAD_ID
    elif len(node.ends.wanted) + len(ids) > WATCHES_MOST:
        wrong = errors.MANY_WAITS % WATCHES_MOST
    elif node.used > node.limits.most:
        wrong = errors.OUT_OF_MEMORY
    elif node.misconf:
        wrong = node.misconf
    if wrong or timeout_ms is None:
        session.out.append(resp.error(wrong))
        return
    waiting.begin(node, session, ids, timeout_ms, is_any=is_any, now_ms=now_ms)


def cancelled(args: list[bytes]) -> Claims:
    """CANCEL is for who may take the jobs, and for who may add such jobs."""
    ids = args[1:]
    return may.of_ids(ids[:-1] if len(ids) > 1 and ids[-1].upper() == orders.WAITING else ids, may.EITHER, counts=True)


def followed(args: list[bytes]) -> Claims:
    """RESULT, too."""
    return may.of_ids(args[1:], may.EITHER, counts=False)


def waited_for(args: list[bytes]) -> Claims:
    """And so is WAITJOB."""
    ids = args[2:]
    return may.of_ids(ids[:-1] if len(ids) > 1 and ids[-1].upper() == b"ANY" else ids, may.EITHER, counts=False)


COMMANDS: Final = (
    Command(
        "cancel",
        -2,
        WRITE | FAST | LIST | PRODUCE,
        cancel,
        "jobs",
        "id [id ...] [WAITING]",
        "End jobs at all nodes, whatever their state; the reply is how many.",
        touches=cancelled,
    ),
    Command(
        "result",
        2,
        READONLY | PRODUCE,
        result,
        "jobs",
        "id",
        "What has become of a job, at whichever nodes it is known.",
        touches=followed,
    ),
    Command(
        "waitjob",
        -3,
        READONLY | LIST | PRODUCE | BLOCKING,
        waitjob,
        "jobs",
        "ms-timeout id [id ...] [ANY]",
        "Wait until jobs have ended; the reply is how, and their results.",
        touches=waited_for,
    ),
)
