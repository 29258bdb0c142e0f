from disque.core.base.timers import Timers
from disque.core.model.memory import ASKED_BYTES, SURVEY_BYTES
from disque.core.model.session import Session
from disque.core.model.survey import WORD_BYTES, Answers, Asked, Surveys, size_of

ONE, OTHER = b"a" * 40, b"b" * 40


def surveys() -> Surveys:
    return Surveys(Timers(), 2**61 + 12345)


def test_numbers_rise_and_those_of_another_process_are_others() -> None:
    mine, other = surveys(), Surveys(Timers(), 2**61 + 2**20)
    session = Session(1, b"", b"", 0)
    first = mine.add(session, Answers(1, (b"q",)))
    mine.drop(first)
    assert mine.add(session, Answers(1, (b"q",))).number == first.number + 1
    assert first.number < 2**62
    assert other.add(session, Answers(1, ())).number > first.number + 2**10


def test_what_they_count_for() -> None:
    those = surveys()
    survey = those.add(Session(1, b"", b"", 0), Answers(1, (b"queue", b"")))
    assert survey.size == those.cost() == SURVEY_BYTES + 5 + 2 * WORD_BYTES
    asked = Asked(ONE, 7, (b"queue",))
    those.add_asked(asked)
    assert those.cost() == survey.size + ASKED_BYTES + 5 + WORD_BYTES
    assert those.drop(survey) == survey.size
    those.drop_asked(asked)
    assert those.cost() == 0
    those.clear()


def test_it_is_known_how_many_answers_each_node_is_owed() -> None:
    those = surveys()
    asked = [Asked(peer, number, ()) for number in (1, 2) for peer in (ONE, OTHER)]
    for one in asked:
        those.add_asked(one)
    assert those.owed == {ONE: 2, OTHER: 2}
    for one in asked[:3]:
        those.drop_asked(one)
    assert those.owed == {OTHER: 1}


def test_the_size_of_words() -> None:
    assert size_of(()) == 0
    assert size_of((b"", b"abc")) == 3 + 2 * WORD_BYTES
