"""Every word that a command takes is explained, in a line."""

import pytest

from disque.cli.shell_explain import EXPLAINED
from disque.cli.shell_help import CommandRow, explained
from disque.core.commands import COMMANDS


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name.decode())
def test_no_word_of_a_usage_is_left_out(row: CommandRow) -> None:
    name = row.name.decode()
    for subcommand in ["", *(each.lower() for each, _usage, _summary in row.subcommands if name != "pause")]:
        for word, meaning in explained(row, subcommand):
            assert meaning, f"disque/cli/shell_explain.py does not say what {word!r} of {name} {subcommand} means"


def test_what_is_explained_belongs_to_a_command() -> None:
    known = {row.name.decode() for row in COMMANDS.values()}
    known |= {f"{row.name.decode()} {name.lower()}" for row in COMMANDS.values() for name, *_rest in row.subcommands}
    assert set(EXPLAINED) <= known


def test_meanings_are_clauses_of_a_line() -> None:
    for words in EXPLAINED.values():
        for meaning in words.values():
            assert not meaning.endswith(".")
            assert len(meaning) <= 105
