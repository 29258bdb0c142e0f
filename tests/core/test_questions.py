from disque.core import questions
from disque.core.dedup import finding
from disque.core.jobs import figures, history


def test_numbers_are_for_ever() -> None:
    assert {number: answer.__name__ for number, answer in questions.TABLE.items()} == {
        1: "say_length",
        2: "say_figures",
        3: "say_key",
        4: "say_past",
        10: "say_where",
        11: "do_these",
        12: "say_oldest",
        13: "do_all",
        20: "say_result",
        30: "say_permits",
        40: "say_lost",
    }
    assert (figures.LENGTH, figures.FIGURES, finding.KEY, history.PAST) == (1, 2, 3, 4)
