"""Text of others on a terminal."""

from disque.tasks.terminal import printable


def test_escape_sequences_are_shown() -> None:
    assert printable("\x1b[31mé 猫\x07\u202e\udcff") == r"\x1b[31mé 猫\x07\u202e\udcff"
