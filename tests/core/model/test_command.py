"""The rows of the table of commands."""

import pytest

from disque.core.commands import COMMANDS, ROWS
from disque.core.model.command import ADMIN, FLAG_NAMES, READONLY, WRITE, Command
from tests.core.support import Bench


def row(arity: int) -> Command:
    return Command("x", arity, READONLY, lambda *_: None, "server", "", "")


@pytest.mark.parametrize(
    ("arity", "words", "fits"),
    [(2, 2, True), (2, 1, False), (2, 3, False), (-2, 2, True), (-2, 9, True), (-2, 1, False), (0, 1, True)],
)
def test_arity_is_exact_or_a_least_number(arity: int, words: int, fits: bool) -> None:
    assert row(arity).accepts(words) is fits


def test_each_row_knows_its_place(bench: Bench) -> None:
    assert [one.index for one in ROWS] == list(range(len(ROWS)))
    assert len(bench.node.calls) == len(ROWS)


def test_names_are_lower_case_and_unique() -> None:
    assert len(COMMANDS) == len(ROWS)
    assert all(name == name.lower() for name in COMMANDS)


@pytest.mark.parametrize("command", ROWS, ids=lambda one: one.name.decode())
def test_every_command_can_be_explained(command: Command) -> None:
    assert command.summary.endswith(".")
    assert command.group in {"jobs", "queues", "pubsub", "connection", "server", "cluster"}
    assert all(summary.endswith(".") for _, _, summary in command.subcommands)


@pytest.mark.parametrize("command", ROWS, ids=lambda one: one.name.decode())
def test_every_command_reads_or_writes_but_not_both(command: Command) -> None:
    assert bool(command.flags & READONLY) != bool(command.flags & WRITE) or command.flags & ADMIN


def test_every_flag_has_one_name() -> None:
    flags = [flag for flag, _ in FLAG_NAMES]
    assert len({name for _, name in FLAG_NAMES}) == len(set(flags)) == len(flags)
