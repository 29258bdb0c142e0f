"""Completion and the grey hint of the interactive shell, on top of `shell_help`."""

from collections.abc import Iterable
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from disque.cli.shell_help import Table, hint, next_words
from disque.core.base.words import split_words


class Typed(NamedTuple):
    """What stands before the cursor: the finished words and the one that is being typed ("" after a space)."""

    words: list[str]
    partial: str


def typed(text: str) -> Typed | None:
    """Split what stands before the cursor, without a number in front (it repeats); None while a quote is open."""
    line = text.rpartition("\n")[2]
    split = split_words(line.encode("utf-8", "surrogateescape"), keep_empty=True)
    if split is None:
        return None
    words = [word.decode("utf-8", "surrogateescape") for word in split]
    partial = words.pop() if words and not line[-1].isspace() else ""
    if words and words[0].isdecimal():
        del words[0]
    return Typed(words, partial)


class TableCompleter(Completer):
    """Completes commands, subcommands and options, in the case in which the person types."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Give what may stand where the cursor is. The event makes no difference."""
        del complete_event
        before = typed(document.text_before_cursor)
        if before is None or not document.text_before_cursor.endswith(before.partial):
            return
        words, partial = before
        for word, summary in sorted(next_words(self._table, words).items()):
            if word.upper().startswith(partial.upper()):
                text = word.lower() if partial.islower() or (not partial and words and words[0].islower()) else word
                yield Completion(text, -len(partial), display_meta=summary)


def hint_after(table: Table, document: Document) -> str:
    """Give the grey text behind the cursor: the arguments that are still to come, when the cursor is at the end."""
    before = typed(document.text_before_cursor) if document.is_cursor_at_the_end else None
    if before is None:
        return ""
    words = [*before.words, before.partial] if before.partial else before.words
    text = hint(table, words)
    return f" {text}" if text and before.partial else text
