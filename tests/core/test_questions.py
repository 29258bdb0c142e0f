from disque.core import questions
from disque.core.jobs import figures


def test_numbers_are_for_ever() -> None:
    assert {number: answer.__name__ for number, answer in questions.TABLE.items()} == {1: "say_length"}
    assert figures.LENGTH == 1
