"""The parts of docs/commands.md that are made from the table of commands.

`python -m tests.support.pages` writes them anew: the usage of each command, and what each word of it means. A command
that the page does not have yet is added at the end of its group. Text beside these parts stays as it is.
"""

import re
import sys
from pathlib import Path
from typing import Final

from disque.cli.shell_explain import EXPLAINED
from disque.core.commands import ROWS
from disque.core.model.command import Command

PAGE: Final = Path(__file__).parents[2] / "docs" / "commands.md"
BEGIN: Final = "<!-- command {} -->\n"
END: Final = "<!-- end -->\n"


def part(row: Command) -> str:
    """What the table says of a command."""
    name = row.name.decode().upper()
    lines = ["```", f"{name} {row.usage}".rstrip(), "```", "", row.summary, ""]
    lines += words_of(name.lower(), "")
    for word, words, summary in row.subcommands:
        lines.append(f"- `{name} {word} {words}".rstrip() + f"`: {summary}")
        lines += words_of(f"{name} {word}".lower(), "    ")
    text = re.sub("\n{3,}", "\n\n", "\n".join([*lines, ""]))
    return BEGIN.format(name) + "\n" + text.rstrip("\n") + "\n\n" + END


def words_of(command: str, indent: str) -> list[str]:
    """A line for each word of a usage."""
    return [f"{indent}- `{word}`: {meaning}" for word, meaning in EXPLAINED.get(command, {}).items()]


def renewed(page: str) -> str:
    """The page with all parts as the table has them."""
    for row in ROWS:
        name = row.name.decode().upper()
        begin = BEGIN.format(name)
        if begin in page:
            old = page[page.index(begin) : page.index(END, page.index(begin)) + len(END)]
            page = page.replace(old, part(row))
        else:
            group = f"\n## {row.group.capitalize()}\n"
            following = page.find("\n## ", page.index(group) + 1)
            at = len(page) if following < 0 else following
            page = f"{page[:at]}\n### {name}\n\n{part(row)}{page[at:]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
