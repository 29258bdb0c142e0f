"""What the command table knows, put to use: help texts, the hint behind the cursor, and what may come next.

The usage of a command is a small language: `queue body ms-timeout [REPLICATE n] [ASYNC]` or `FROM queue [queue ...]`.
`parse_usage` turns it into parts; `walk` consumes the arguments that are typed already and tells what is left. A part
that begins with a word in capitals, or with alternatives (`yes|no`), is recognised by that word, and optional ones in
any order; any other part takes whatever comes. A required part closes the optional ones before it (nothing but queues
after FROM); one before a lone `|` is not required, for something else may come in its stead. Where a usage says
`option`, the row lists them as its subcommands.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

SHELL_COMMANDS: Final = {
    "help": ("[command|@group]", "Explain a command, or list a group of them"),
    "connect": ("host port", "Connect to another server"),
    "clear": ("", "Clear the screen"),
    "quit": ("", "Leave the shell"),
    "exit": ("", "Leave the shell"),
}
"""What the shell does by itself: usage and summary by name."""


class CommandRow(Protocol):
    """What the shell wants to know of a row of the command table."""

    @property
    def name(self) -> bytes:
        """The name in lower case."""

    @property
    def usage(self) -> str:
        """The arguments, in the language of this module."""

    @property
    def summary(self) -> str:
        """One sentence."""

    @property
    def group(self) -> str:
        """The group that `help @group` lists."""

    @property
    def subcommands(self) -> Sequence[tuple[str, str, str]]:
        """Name, usage and summary of each subcommand."""


Table = Mapping[bytes, CommandRow]


class Part(NamedTuple):
    """A piece of a usage: its words, the parts nested in it, and how it is written."""

    words: tuple[str, ...]
    inner: tuple["Part", ...]
    text: str
    optional: bool
    repeats: bool

    @property
    def keywords(self) -> list[str]:
        """The words by which this part is recognised; none for a part that takes anything."""
        return choices(self.words[0]) if self.words else []


class Progress(NamedTuple):
    """Where the typed words have led: values owed to the last option, parts still possible; `lost` if astray."""

    owed: list[str]
    parts: list[Part]
    lost: bool = False


def choices(word: str) -> list[str]:
    """Give the literal words that a word of a usage stands for: itself if in capitals, or its alternatives."""
    if "|" in word:
        return [choice for choice in word.split("|") if choice]
    return [word] if word == word.upper() and any(map(str.isalpha, word)) else []


def parse_usage(usage: str) -> list[Part]:
    """Parse the usage of a command."""
    tokens = re.findall(r"\[|\]|[^\s\[\]]+", usage)
    tokens.reverse()
    return _parts(tokens)


def _parts(tokens: list[str]) -> list[Part]:
    """Read parts up to the end or the bracket that closes them; `tokens` is a stack."""
    parts: list[Part] = []
    while tokens and (word := tokens.pop()) != "]":
        if word == "[":
            parts.append(_group(_parts(tokens)))
        elif word in {"...", "|"}:
            parts[-1:] = [_marked(part, word) for part in parts[-1:]]
        else:
            parts.append(Part((word,), (), word, optional=False, repeats=False))
    return parts


def _marked(part: Part, mark: str) -> Part:
    """Add what a mark behind a part says: `...` that it repeats, `|` that something else may come instead."""
    repeats, optional = part.repeats or mark == "...", part.optional or mark == "|"
    return part._replace(repeats=repeats, optional=optional, text=f"{part.text} {mark}")


def _group(content: list[Part]) -> Part:
    words = tuple(word for part in content if not part.optional for word in part.words)
    inner = tuple(part for part in content if part.optional)
    repeats = any(part.repeats for part in content)
    return Part(words, inner, "[" + " ".join(part.text for part in content) + "]", optional=True, repeats=repeats)


def walk(parts: Sequence[Part], args: Iterable[str]) -> Progress:
    """Consume the typed arguments, and tell what may follow them."""
    pending, owed = list(parts), list[str]()
    for arg in args:
        if owed:
            del owed[0]
            continue
        index = _taker(pending, arg)
        if index is None:
            return Progress([], [], lost=True)
        part = pending[index]
        owed = list(part.words[1:])
        rest = pending[index + 1 :]
        before = pending[:index] if part.optional else []
        pending = [*before, *part.inner, *((part,) if part.repeats else ()), *rest]
    return Progress(owed, pending)


def reachable(parts: Sequence[Part]) -> list[Part]:
    """Give the parts that may come next: all up to the first that is required."""
    required = [index for index, part in enumerate(parts) if not part.optional]
    return list(parts[: required[0] + 1] if required else parts)


def _taker(pending: Sequence[Part], arg: str) -> int | None:
    """Find the part that takes `arg`: one that has it for a keyword, else the first that takes anything."""
    window = reachable(pending)
    for index, part in enumerate(window):
        if arg.upper() in map(str.upper, part.keywords):
            return index
    for index, part in enumerate(window):
        if len(part.keywords) != 1 and not (part.optional and part.keywords):
            return index
    return None


def usage_of(table: Table, words: Sequence[str]) -> tuple[str, int] | None:
    """Find the usage that applies to the typed words, and how many of them are names: 1, or 2 with a subcommand."""
    row = table.get(words[0].lower().encode()) if words else None
    if row is None:
        local = SHELL_COMMANDS.get(words[0].lower()) if words else None
        return (local[0], 1) if local else None
    if _has_options(row):
        options = "|".join(name for name, _usage, _summary in row.subcommands)
        return re.sub(r"\boption\b", options, row.usage), 1
    for name, usage, _summary in row.subcommands:
        if len(words) > 1 and words[1].lower() == name.lower():
            return usage, 2
    return row.usage, 1


def _has_options(row: CommandRow) -> bool:
    """Tell whether what the row lists are options, which follow other arguments, rather than subcommands."""
    return bool(row.subcommands) and re.search(r"\boption\b", row.usage) is not None


def hint(table: Table, words: Sequence[str]) -> str:
    """Give what may still be typed after these words, "" if that is unknown or nothing."""
    found = usage_of(table, words)
    if found is None:
        return ""
    usage, names = found
    progress = walk(parse_usage(usage), words[names:])
    return " ".join([*progress.owed, *(part.text for part in progress.parts)])


def next_words(table: Table, words: Sequence[str]) -> dict[str, str]:
    """Give the literal words that may follow the typed ones, with a summary each ("" where there is none)."""
    if not words:
        return _first_words(table)
    if words[0].lower() == "help" and len(words) == 1:
        return {**{f"@{group}": "" for group in groups(table)}, **_first_words(table)}
    row = table.get(words[0].lower().encode())
    if row is not None and row.subcommands and len(words) == 1 and not _has_options(row):
        return {name.upper(): summary for name, _usage, summary in row.subcommands}
    summaries = {name: summary for name, _usage, summary in row.subcommands} if row is not None else {}
    return {word: summaries.get(word, "") for word in _option_words(table, words)}


def _first_words(table: Table) -> dict[str, str]:
    names = {row.name.decode().upper(): row.summary for row in table.values()}
    return {**names, **{name: summary for name, (_usage, summary) in SHELL_COMMANDS.items()}}


def _option_words(table: Table, words: Sequence[str]) -> list[str]:
    found = usage_of(table, words)
    if found is None:
        return []
    usage, names = found
    owed, parts, _lost = walk(parse_usage(usage), words[names:])
    if owed:
        return choices(owed[0]) if "|" in owed[0] else []
    return [keyword for part in reachable(parts) for keyword in part.keywords]


def groups(table: Table) -> list[str]:
    """Give the groups of the table in alphabetical order."""
    return sorted({row.group for row in table.values()})


INTRODUCTION: Final = """\
disque, the shell of a job queue.
  help <command>    explains a command, its subcommands and arguments
  help @<group>     lists a group: {groups}
  <Tab>             completes commands, subcommands and options
  <number> command  runs the command that many times
  connect host port, clear, quit
A line with AUTH or a password is not kept in the history.
"""


def help_text(table: Table, words: Sequence[str]) -> str | None:
    """Answer `help words...`; None if there is no such command or group."""
    if not words:
        return INTRODUCTION.format(groups=" ".join(f"@{group}" for group in groups(table)))
    topic = words[0].lower()
    if topic.startswith("@"):
        rows = [row for row in table.values() if row.group == topic[1:]]
        return "\n".join(_row_help(row) for row in rows) or None
    row = table.get(topic.encode())
    if row is None:
        return _local_help(topic)
    if len(words) > 1:
        return _subcommand_help(row, words[1].lower())
    return _row_help(row) + "".join(_entry(f"{topic.upper()} {name.upper()}", *rest) for name, *rest in row.subcommands)


def _row_help(row: CommandRow) -> str:
    return _entry(row.name.decode().upper(), row.usage, row.summary) + f"  group: {row.group}\n"


def _entry(name: str, usage: str, summary: str) -> str:
    return f"\n  {name} {usage}".rstrip() + f"\n  summary: {summary}\n"


def _local_help(topic: str) -> str | None:
    local = SHELL_COMMANDS.get(topic)
    return _entry(topic, *local) if local else None


def _subcommand_help(row: CommandRow, wanted: str) -> str | None:
    for name, usage, summary in row.subcommands:
        if name.lower() == wanted:
            return _entry(f"{row.name.decode().upper()} {name.upper()}", usage, summary)
    return None
