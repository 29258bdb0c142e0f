"""Questions to all nodes: one node asks (SURVEY), all answer (SURVEYED), and the answers make one reply.

What can be asked is in `disque.core.questions`. A question goes once over each link that stands, behind all that was
said there before, and is never said again: a question may also tell a node to do something, which it does once. The
asker answers it as well, in the same way.

*Who is unreachable.* The asker waits 5 s (`WAIT_MS` of the model) for each node that is linked, understands the
question and does not fail. All others are unreachable at once, and so is a node that fails meanwhile, whose link ends,
that cannot answer, or whose answer makes no sense. A node that was too late may have done what it was asked to do. The
asker itself cannot be late. When everybody has answered or is unreachable, the client is answered. If it has gone
before, nobody waits for the answers any more.

*Who answers* does so at once, or later, when it has looked at many jobs or changed them, some at a time. An answer
waits for the records before it, as a reply does. A question with a number up to one that came before from the same
process is a lie, and is skipped. An answer that comes late or twice belongs to no open question, and is skipped too.
If it is lost with its link the asker waits in vain, up to `WAIT_MS`. If no link to the asker stands yet, since one of
the two has just started, the answer is kept for it: a few small ones.

*Several questions* can make one reply: when the answers to one are there, the next one follows (`Answers.following`),
to some of the nodes or all. The client waits until the last one is over.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import JOBS
from cluster.messages import SURVEY, SURVEYED
from disque.core.model.session import NOT_WAITING, WAIT_NODES, Session
from disque.core.model.survey import Answers, Asked, Survey, Words, size_of

if TYPE_CHECKING:
    from disque.core.node import Node

#: Questions of one node that are not answered yet: further ones are not.
ASKED_MOST = 1000  # not Final: tests want less, compiled too
#: Bytes of what is asked.
QUESTION_MOST: Final = 1 << 20
#: So many answers are kept for a node to which no link stands yet, of so many bytes each.
KEPT_MOST: Final = 100
KEPT_BYTES: Final = 4096

CANNOT: Final[Words] = ()


# -- asking ------------------------------------------------------------------------------------------------------------


def begin(node: "Node", session: Session, answers: Answers, *, everywhere: bool) -> Survey:
    """A new question of a client, which nobody was asked yet. ``everywhere``: not only this node is to answer."""
    survey = node.surveys.add(session, answers)
    node.used += survey.size
    only = answers.only
    if only is None or node.node_id in only:
        survey.open.add(node.node_id)
    if everywhere:
        for peer_id in node.peers:
            if only is not None and peer_id not in only:
                continue
            if is_able(node, peer_id):
                survey.open.add(peer_id)
            else:
                survey.unreachable.add(peer_id)
    return survey


def is_able(node: "Node", peer_id: bytes) -> bool:
    """Whether this node may answer: it is linked, does not fail, and understands questions."""
    peer = node.peers.get(peer_id)
    return peer is not None and peer.linked and peer.understands(JOBS) and not node.failed(peer_id)


def tell(node: "Node", survey: Survey, now_ms: int) -> None:
    """Ask the others; the client waits."""
    answers = survey.answers
    others = False
    for peer_id in node.peers:  # in their order: that of a set is chance
        if peer_id in survey.open:
            others = True
            node.send(peer_id, (SURVEY, survey.number, answers.what, answers.words_for(peer_id)))
    survey.session.waiting = WAIT_NODES
    if others or not answers.awaits_own:
        node.timers.arm(survey, now_ms + answers.wait_ms)


def surveyed(node: "Node", peer: bytes, message: tuple[int, int, Words], now_ms: int) -> None:
    """SURVEYED: the answer of a node."""
    del now_ms
    _, number, words = message
    take(node, peer, number, words)


def take(node: "Node", node_id: bytes, number: int, words: Words) -> None:
    """Take an answer, if somebody waits for it."""
    survey = node.surveys.by_number.get(number)
    if survey is None or node_id not in survey.open:
        return
    survey.open.discard(node_id)
    size = size_of(words)
    if words and size <= survey.answers.most and survey.answers.take(node_id, words):
        survey.size += size
        node.used += size
    else:
        survey.unreachable.add(node_id)
    end_if_over(node, survey)


def end_if_over(node: "Node", survey: Survey) -> None:
    """Answer the client if nothing that may still come changes the reply."""
    if survey.open and not survey.answers.is_settled():
        return
    node.used -= node.surveys.drop(survey)
    answers = survey.answers
    answers.unreachable = sorted(survey.unreachable)
    session = survey.session
    following = answers.following() if answers.may_go_on else None
    if following is not None:
        session.waiting = WAIT_NODES
        node.surveys.following[session.id] = (session, following)
        return
    reply = answers.reply()
    if node.journaling and answers.promises:
        session.unsettled = True
    if session.waiting != WAIT_NODES:  # at once: nobody else was asked
        session.out.append(reply)
        return
    session.waiting = NOT_WAITING
    if session.wait_silent:
        session.wait_silent = False
    else:
        session.out.append(reply)
    node.touch(session)


def due(node: "Node", survey: Survey, now_ms: int) -> None:
    """The others were waited for long enough. The last answer may have come in the same moment."""
    del now_ms
    if node.surveys.by_number.get(survey.number) is survey:
        own = node.node_id if survey.answers.awaits_own else b""
        give_up(node, survey, [peer_id for peer_id in survey.open if peer_id != own])


def give_up(node: "Node", survey: Survey, ids: list[bytes]) -> None:
    """These nodes are unreachable."""
    survey.open.difference_update(ids)
    survey.unreachable.update(ids)
    end_if_over(node, survey)


def review(node: "Node") -> None:
    """Links or nodes have changed: who cannot answer any more is not waited for."""
    for survey in list(node.surveys.by_number.values()):
        lost = [peer_id for peer_id in survey.open if peer_id != node.node_id and not is_able(node, peer_id)]
        if lost:
            give_up(node, survey, lost)
    heard = node.surveys.heard
    for peer_id in [peer_id for peer_id in heard if peer_id not in node.peers]:
        del heard[peer_id]
        node.surveys.kept.pop(peer_id, None)


def disconnect(node: "Node", session: Session) -> None:
    """A client is gone that waits: nobody wants the answers."""
    if node.surveys.following.pop(session.id, None) is None:
        node.used -= node.surveys.drop(node.surveys.by_session[session.id])


# -- answering ---------------------------------------------------------------------------------------------------------


def is_new(node: "Node", peer: bytes, number: int) -> bool:
    """Whether this question of another node was not heard before."""
    start = node.peers[peer].start
    known = node.surveys.heard.get(peer)
    if known is not None and known[0] == start and number <= known[1]:
        return False
    node.surveys.heard[peer] = (start, number)
    return True


def note(node: "Node", peer: bytes, number: int, words: Words) -> Asked | None:
    """Note a question of ``peer``, which may be this node itself. None if it is too much: then it was answered."""
    asked = Asked(peer, number, words)
    surveys = node.surveys
    if peer != node.node_id and (asked.size > QUESTION_MOST or surveys.owed.get(peer, 0) >= ASKED_MOST):
        node.send(peer, (SURVEYED, number, CANNOT))
        return None
    surveys.add_asked(asked)
    node.used += asked.size
    return asked


def say(node: "Node", asked: Asked, words: Words) -> None:
    """Answer a question. No words: it cannot be answered."""
    if not is_wanted(node, asked):
        return
    node.surveys.drop_asked(asked)
    node.used -= asked.size
    if asked.peer == node.node_id:
        take(node, asked.peer, asked.number, words)
        return
    peer = node.peers.get(asked.peer)
    if peer is None:
        return
    if peer.linked:
        node.send(asked.peer, (SURVEYED, asked.number, words))
    elif size_of(words) <= KEPT_BYTES:
        kept = node.surveys.kept.setdefault(asked.peer, [])
        kept.append((asked.number, words))
        del kept[:-KEPT_MOST]


def say_kept(node: "Node", peer: bytes) -> None:
    """The link to a node stands that may have asked before it did."""
    for number, words in node.surveys.kept.pop(peer, ()):
        node.send(peer, (SURVEYED, number, words))


def is_wanted(node: "Node", asked: Asked) -> bool:
    """Whether a question is still to be answered: what only looks need not go on else."""
    return (asked.peer, asked.number) in node.surveys.asked


def break_off(node: "Node") -> None:
    """This node forgets everything: questions that it was about to answer cannot be, and its own are over."""
    for asked in list(node.surveys.asked.values()):
        say(node, asked, CANNOT)
    for survey in list(node.surveys.by_number.values()):
        survey.answers.may_go_on = False
        give_up(node, survey, list(survey.open))
