"""What a client has asked all nodes, and what other nodes ask this one: see `disque.core.questions`."""

from typing import TYPE_CHECKING, Final

from disque.core.base.timers import IDLE, Timed
from disque.core.model.memory import ASKED_BYTES, SURVEY_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.base.timers import Timers
    from disque.core.model.session import Session

#: A question or an answer: byte strings whose meaning the kind of question gives.
Words = tuple[bytes, ...]

#: So long the answers of others are waited for, unless the kind of question says otherwise, in ms.
WAIT_MS: Final = 5000
#: Bytes of one answer, unless its kind says otherwise.
ANSWER_MOST: Final = 65_536
#: Bytes of a word beside its own.
WORD_BYTES: Final = 40


class Answers:
    """The answers to one question, as they come. A class for each kind of question.

    ``what`` is the number of the kind, ``words`` what is asked, ``most`` how many bytes an answer may have, ``wait_ms``
    how long others may take. With ``only``, no more than these nodes are asked, each with words of its own. Once it is
    over, ``unreachable`` are the IDs of the nodes that did not answer, sorted. ``may_go_on``: another question may
    follow (`following`). ``awaits_own``: what this node itself answers is waited for, however long that takes, since it
    may be at work. ``promises``: the reply says what must still be true after a crash, so it waits for the journal.
    """

    __slots__ = ("awaits_own", "may_go_on", "most", "only", "promises", "unreachable", "wait_ms", "what", "words")

    def __init__(self, what: int, words: Words) -> None:
        self.what = what
        self.words = words
        self.most = ANSWER_MOST
        self.wait_ms = WAIT_MS
        self.only: dict[bytes, Words] | None = None
        self.unreachable: list[bytes] = []
        self.may_go_on = True
        self.awaits_own = True
        self.promises = True

    def words_for(self, node_id: bytes) -> Words:
        """What this node is asked."""
        return self.words if self.only is None else self.only[node_id]

    def take(self, node_id: bytes, words: Words) -> bool:
        """Take the answer of a node; False if no node means that. ``words`` are one at least."""
        raise NotImplementedError

    def is_settled(self) -> bool:
        """Whether the reply is known already, whatever the others say: of some questions the first answer wins."""
        return False

    def following(self) -> "Answers | None":
        """The question that follows when this one is over; None if the reply is known."""
        return None

    def reply(self) -> bytes:
        """The reply to the client."""
        raise NotImplementedError


class Survey(Timed):
    """A question of this node whose client waits.

    ``open`` are the nodes that have not answered, this one among them. ``size`` is what it counts for.
    """

    __slots__ = ("answers", "number", "open", "session", "size", "unreachable")

    def __init__(self, number: int, session: "Session", answers: Answers) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.number = number
        self.session = session
        self.answers = answers
        self.open: set[bytes] = set()
        self.unreachable: set[bytes] = set()
        self.size = SURVEY_BYTES + size_of(answers.words)
        if answers.only is not None:
            self.size += sum([size_of(words) for words in answers.only.values()])


class Asked:
    """A question that this node has to answer: it was asked by the node ``peer``, which may be itself."""

    __slots__ = ("number", "peer", "size", "words")

    def __init__(self, peer: bytes, number: int, words: Words) -> None:
        self.peer = peer
        self.number = number
        self.words = words
        self.size = ASKED_BYTES + size_of(words)


class Surveys(Part):
    """Those of a node.

    ``by_number`` are its own questions, ``by_session`` the same by the number of the client. ``asked`` are those that
    it has not answered yet, by who asks and the number, ``owed`` how many of each node. ``heard`` is the last number of
    each node, with the number of the process that asked. ``kept`` are answers to nodes to which no link stands yet:
    the number of the question, and the answer. Questions are
    numbered from ``base`` on: those of another process of this node are others. ``following`` are questions that are
    asked at the next settle, since those before are over, by the number of the client.
    """

    __slots__ = ("asked", "base", "by_number", "by_session", "count", "following", "heard", "kept", "owed", "timers")

    def __init__(self, timers: "Timers", start: int) -> None:
        self.timers = timers
        self.base = start >> 17 << 16
        self.count = 0
        self.following: dict[int, tuple[Session, Answers]] = {}
        self.by_number: dict[int, Survey] = {}
        self.by_session: dict[int, Survey] = {}
        self.asked: dict[tuple[bytes, int], Asked] = {}
        self.owed: dict[bytes, int] = {}
        self.heard: dict[bytes, tuple[int, int]] = {}
        self.kept: dict[bytes, list[tuple[int, Words]]] = {}

    def add(self, session: "Session", answers: Answers) -> Survey:
        """A new question. Its `size` is to be counted."""
        self.count += 1
        survey = Survey(self.base + self.count, session, answers)
        self.by_number[survey.number] = survey
        self.by_session[session.id] = survey
        return survey

    def drop(self, survey: Survey) -> int:
        """A question is over. Returns the bytes that this frees."""
        del self.by_number[survey.number]
        del self.by_session[survey.session.id]
        self.timers.disarm(survey)
        return survey.size

    def add_asked(self, asked: Asked) -> None:
        """There is a question to answer. Its `size` is to be counted."""
        self.asked[(asked.peer, asked.number)] = asked
        self.owed[asked.peer] = self.owed.get(asked.peer, 0) + 1

    def drop_asked(self, asked: Asked) -> None:
        """It is answered. Its `size` is not to be counted any more."""
        del self.asked[(asked.peer, asked.number)]
        left = self.owed.pop(asked.peer) - 1
        if left:
            self.owed[asked.peer] = left

    def clear(self) -> None:
        """Whoever waits for an answer was told before: see `surveys.break_off`."""
        assert not self.by_number
        assert not self.asked
        self.kept.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return sum([survey.size for survey in self.by_number.values()]) + sum([it.size for it in self.asked.values()])


def size_of(words: Words) -> int:
    """Bytes that the words of a question or an answer take."""
    size = 0
    for word in words:
        size += WORD_BYTES + len(word)
    return size
