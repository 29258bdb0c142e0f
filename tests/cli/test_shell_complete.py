"""Completion and hints at the cursor."""

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from disque.cli.shell_complete import TableCompleter, hint_after, typed
from disque.cli.shell_help import Table


def completions(table: Table, text: str) -> list[str]:
    """Give the lines that the completions would make of `text`."""
    found = TableCompleter(table).get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


CASES = [
    ("ADD", ["ADDJOB"]),
    ("add", ["addjob"]),
    ("Add", ["ADDJOB"]),
    ("he", ["hello", "help"]),
    ("addjob q b 0 r", ["addjob q b 0 replicate"]),
    ("addjob q b 0 R", ["addjob q b 0 REPLICATE"]),
    ("addjob q b 0 ", ["addjob q b 0 async", "addjob q b 0 replicate", "addjob q b 0 unique"]),
    ("client re", ["client reply"]),
    ("CLIENT REPLY O", ["CLIENT REPLY OFF", "CLIENT REPLY ON"]),
    ("help @q", ["help @queues"]),
    ("help add", ["help addjob"]),
    ("3 pin", ["3 ping"]),
    ('addjob "q 1" b 0 as', ['addjob "q 1" b 0 async']),
    ('addjob "q 1', []),
    ("addjob q", []),
    ("xyz", []),
    ("PING\nADDJ", ["PING\nADDJOB"]),
]


@pytest.mark.parametrize(("text", "lines"), CASES)
def test_completion_follows_the_table_and_the_case_of_the_person(table: Table, text: str, lines: list[str]) -> None:
    assert completions(table, text) == lines


def test_completions_show_their_summary(table: Table) -> None:
    (completion,) = TableCompleter(table).get_completions(Document("addj"), CompleteEvent())
    assert completion.display_meta_text == "Add a job."


def test_words_before_the_cursor() -> None:
    assert typed("addjob q") == (["addjob"], "q")
    assert typed("addjob q ") == (["addjob", "q"], "")
    assert typed("5 ping ") == (["ping"], "")
    assert typed('a "b') is None


HINTS = [
    ("ackjob", " id [id ...]"),
    ("ackjob ", "id [id ...]"),
    ("ackjob D-1", " [id ...]"),
    ("ackj", ""),
    ("ping x", ""),
    ('ackjob "D', ""),
    ("", ""),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_the_hint_stands_behind_what_is_typed(table: Table, text: str, hint: str) -> None:
    assert hint_after(table, Document(text)) == hint


def test_there_is_no_hint_in_the_middle_of_a_line(table: Table) -> None:
    assert hint_after(table, Document("ackjob", cursor_position=3)) == ""
