"""What all nodes can be asked, and by whom it is answered: a row for each kind of question.

How a question gets to the others, and its answers back, is in `replication.surveys`. A kind has a number for ever, a
function that answers at each node, by `surveys.say`, at once or later, and a subclass of `Answers` that makes one reply
of what comes. A number that has no row comes from a newer node, which hears that this one cannot answer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from disque.core.auth import permits
from disque.core.dedup import finding
from disque.core.jobs import figures, history, orders, results
from disque.core.model.session import Session
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import repair_by_hand, surveys

if TYPE_CHECKING:
    from disque.core.node import Node

    #: What a node does that is asked: it checks the words, which another node may have made up, and answers.
    Answerer = Callable[[Node, Asked, int], None]

TABLE: "Final[dict[int, Answerer]]" = {
    figures.LENGTH: figures.say_length,
    figures.FIGURES: figures.say_figures,
    finding.KEY: finding.say_key,
    history.PAST: history.say_past,
    orders.WHERE: orders.say_where,
    orders.THESE: orders.do_these,
    orders.OLDEST: orders.say_oldest,
    orders.ALL: orders.do_all,
    results.RESULT: results.say_result,
    permits.PERMITS: permits.say_permits,
    repair_by_hand.LOST: repair_by_hand.say_lost,
}


def ask(node: "Node", session: Session, answers: Answers, now_ms: int, *, everywhere: bool = True) -> None:
    """Have a client wait for the answers of all nodes, or of this one, which may come later too.

    This node is the first to answer. If that settles it, nobody else is asked.
    """
    survey = surveys.begin(node, session, answers, everywhere=everywhere)
    if node.node_id in survey.open:
        asked = surveys.note(node, node.node_id, survey.number, answers.words_for(node.node_id))
        assert asked is not None
        TABLE[answers.what](node, asked, now_ms)
    if survey.number not in node.surveys.by_number:
        return
    if survey.open:
        surveys.tell(node, survey, now_ms)
    else:
        surveys.end_if_over(node, survey)


def go_on(node: "Node", now_ms: int) -> None:
    """Ask what follows on questions that are over, or do it."""
    following = node.surveys.following
    while following:
        session, answers = following.pop(next(iter(following)))
        if isinstance(answers, permits.Request):
            permits.go_on(node, session, answers, now_ms)
        else:
            ask(node, session, answers, now_ms)


def asked(node: "Node", peer: bytes, message: tuple[int, int, int, Words], now_ms: int) -> None:
    """SURVEY: another node asks."""
    _, number, what, words = message
    if not surveys.is_new(node, peer, number):
        node.messages_skipped += 1
        return
    question = surveys.note(node, peer, number, words)
    if question is None:
        return
    answer = TABLE.get(what)
    if answer is None:
        surveys.say(node, question, surveys.CANNOT)
    else:
        answer(node, question, now_ms)
