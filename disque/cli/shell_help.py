"""Help from the command table: help texts, the hint after the cursor, and what may come next.

The usage of a command is a small language: `queue body ms-timeout [REPLICATE n] [ASYNC]` or `FROM queue [queue ...]`.
`parse_usage` turns it into parts. `walk` consumes the arguments that are typed already and returns what is left. A part
that begins with a word in capitals, or with alternatives (`yes|no`), is recognised by that word, and optional ones in
any order. Any other part takes any argument. A required part closes the optional ones before it (only queues come after
FROM). A part before a lone `|` is not required, since the alternative may come instead. Where a usage says `option`,
the row lists the options as its subcommands.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple, Protocol

from disque.cli.shell_explain import EXPLAINED

SHELL_COMMANDS: Final = {
    "help": ("[command|@group]", "Explain a command, or list a group of them"),
    "connect": ("host port", "Connect to another server"),
    "clear": ("", "Clear the screen"),
    "quit": ("", "Leave the shell"),
    "exit": ("", "Leave the shell"),
}
"""What the shell does by itself: usage and summary by name."""

TOOLS: Final = {
    "bench": "Measure a server",
    "check-aof": "Check or repair a journal",
    "completion": "Print a script that lets bash, zsh or fish complete `disque`",
    "gateway": "Serve a cluster over HTTP",
    "dead": "Dead letters with their errors",
    "jobs": "Jobs of a queue, or one job",
    "queues": "Figures of queues, of all nodes together",
    "top": "Queues and workers, live",
    "worker": "Run the tasks of a Python app",
    "workers": "Processes that take jobs",
}
"""Words of the command line that are no commands of the server: what they do."""

MAX_WORD: Final = 64
"""Longer words are not compared with any name."""


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
    help_of_row = _row_help(row) + _lines(explained(row))
    if _has_options(row):
        return help_of_row
    return help_of_row + "".join(_subcommand_entry(row, *subcommand) for subcommand in row.subcommands)


def explained(row: CommandRow, subcommand: str = "") -> list[tuple[str, str]]:
    """Give each word of a command, or of a subcommand, as the usage writes it, with what it means ("" if unknown)."""
    usages = {name.lower(): usage for name, usage, _summary in row.subcommands}
    if row.subcommands and not subcommand and not _has_options(row):
        return []  # its subcommands are explained one by one
    name = f"{row.name.decode()} {subcommand}".rstrip()
    meanings = EXPLAINED.get(name, {})
    found: dict[str, tuple[str, str]] = {}
    for part in _all_parts(parse_usage(usages.get(subcommand, row.usage) if subcommand else row.usage)):
        word = part.words[0] if part.words else ""
        if word and not (word == "option" and row.subcommands):
            found.setdefault(word, (_label(part), meanings.get(word, "")))
    if not subcommand:
        found.update({name: (name, _as_clause(summary)) for name, _usage, summary in row.subcommands})
    return list(found.values())


def _all_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """Give parts and those within them."""
    for part in parts:
        yield part
        yield from _all_parts(part.inner)


def _label(part: Part) -> str:
    """Give the words of a part without brackets and dots; of values that repeat, the first is enough."""
    words = [word for word in part.words if word not in {"...", "|"}]
    return " ".join(words if part.keywords else words[:1])


def _as_clause(summary: str) -> str:
    return summary[:1].lower() + summary[1:].removesuffix(".")


def _lines(rows: Sequence[tuple[str, str]]) -> str:
    """Show words and their meanings below each other."""
    width = max((len(word) for word, _meaning in rows), default=0)
    return "".join(f"    {word:{width}}  {meaning}".rstrip() + "\n" for word, meaning in rows)


def _row_help(row: CommandRow) -> str:
    return _entry(row.name.decode().upper(), row.usage, row.summary) + f"  group: {row.group}\n"


def _entry(name: str, usage: str, summary: str) -> str:
    return f"\n  {name} {usage}".rstrip() + f"\n  summary: {summary}\n"


def _subcommand_entry(row: CommandRow, name: str, usage: str, summary: str) -> str:
    entry = _entry(f"{row.name.decode().upper()} {name.upper()}", usage, summary)
    return entry + _lines(explained(row, name.lower()))


def _local_help(topic: str) -> str | None:
    if topic in TOOLS:
        return f"\n  disque {topic}\n  summary: {TOOLS[topic]}; on the command line: disque {topic} --help\n"
    local = SHELL_COMMANDS.get(topic)
    return _entry(topic, *local) if local else None


def _subcommand_help(row: CommandRow, wanted: str) -> str | None:
    for name, usage, summary in row.subcommands:
        if name.lower() == wanted:
            return _subcommand_entry(row, name, usage, summary)
    return None


def nearest(word: str, names: Iterable[str]) -> str:
    """Give the name that a mistyped word is most like, "" if it is like none."""
    close = get_close_matches(word.lower(), {name.lower(): None for name in names}, 1) if len(word) <= MAX_WORD else []
    return close[0] if close else ""


def advice(table: Table, words: Sequence[str], error: str) -> str:
    """Say what may have been meant by a command that the server did not understand; "" if nobody can tell."""
    error = error.lower()
    row = table.get(words[0].lower().encode())
    if row is None:
        return _unknown_command(table, words[0]) if error.startswith("err unknown command") else ""
    usage, name = row.usage, row.name.decode().upper()
    if len(words) > 1 and row.subcommands and not _has_options(row):
        known = {name.lower(): (name.upper(), usage) for name, usage, _summary in row.subcommands}
        if words[1].lower() not in known:
            meant = nearest(words[1], known)
            return f"Did you mean {name} {meant.upper()}? `help {name.lower()}` lists all." if meant else ""
        subcommand, usage = known[words[1].lower()]
        name = f"{name} {subcommand}"
    if "syntax error" in error or "wrong number of arguments" in error:
        return f"Usage: {name} {usage}".rstrip()
    return ""


def _unknown_command(table: Table, word: str) -> str:
    if word.lower() in TOOLS:
        return f"{word.lower()} is a tool of the command line: disque {word.lower()} --help"
    meant = nearest(word, [*(row.name.decode() for row in table.values()), *SHELL_COMMANDS, *TOOLS])
    if meant in TOOLS:
        return f"Did you mean {meant}, a tool of the command line? disque {meant} --help"
    return f"Did you mean {meant.upper() if meant.encode() in table else meant}?" if meant else ""
