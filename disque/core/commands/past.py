"""QHISTORY: what happened to the jobs of a queue."""

from typing import TYPE_CHECKING, Final

from disque.core import questions
from disque.core.base import errors, resp
from disque.core.jobs import history
from disque.core.model import claims as may
from disque.core.model.command import READONLY, Command
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node


def qhistory(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QHISTORY: counts of the last minutes, hours or days, of this node or of all nodes together."""
    unit = args[2].lower()
    is_whole = len(args) == 4 and args[3].upper() == b"CLUSTER"
    if unit not in history.UNITS or (len(args) > 3 and not is_whole):
        session.out.append(resp.error(errors.SYNTAX))
        return
    past = history.Past(args[1], unit, session.protocol, now_ms, is_whole=is_whole)
    questions.ask(node, session, past, now_ms, everywhere=is_whole)


COMMANDS: Final = (
    Command(
        "qhistory",
        -3,
        READONLY,
        qhistory,
        "queues",
        "queue minute|hour|day [CLUSTER]",
        "What happened to jobs of a queue in the last 60 minutes, 168 hours or 90 days.",
        touches=may.looks,
    ),
)
