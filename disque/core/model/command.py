"""What a command is: one row with its name, its arity, its flags, its function, and how to explain it.

COMMAND, the shell's help and completion, and docs/commands.md all come from these rows.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from disque.core.model.claims import Claims, Touches, everything, nothing
from disque.core.model.session import Session

WRITE: Final = 1
READONLY: Final = 2
DENYOOM: Final = 4
ADMIN: Final = 8
RANDOM: Final = 16
LOADING: Final = 32
SKIP_MONITOR: Final = 64
FAST: Final = 128
#: Takes a list of any length, which it does in slices.
LIST: Final = 512
#: Allowed to a RESP2 connection that has subscribed to something; not shown by COMMAND, since Disque had no pub/sub.
LISTENING: Final = 1024
#: For categories of commands only (`model.catalog`): what producers and consumers need, what may wait, what shows more
#: than one's own, what changes something although its flags of Disque say READONLY.
PRODUCE: Final = 2048
CONSUME: Final = 4096
BLOCKING: Final = 8192
DANGEROUS: Final = 16384
CHANGES: Final = 32768
#: Allowed before AUTH; not shown by COMMAND as a flag of Disque, since it had no such commands but AUTH.
NO_AUTH: Final = 256

FLAG_NAMES: Final = (
    (WRITE, b"write"),
    (READONLY, b"readonly"),
    (DENYOOM, b"denyoom"),
    (ADMIN, b"admin"),
    (RANDOM, b"random"),
    (LOADING, b"loading"),
    (SKIP_MONITOR, b"skip_monitor"),
    (FAST, b"fast"),
    (NO_AUTH, b"no_auth"),
)

#: Words of a request of any other command: what it does with them takes no time that others would notice.
WORDS_MOST: Final = 1024
#: Words that the protocol allows.
WORDS_OF_LIST: Final = 1 << 20

#: What executes a command at a node (the first argument, of which nothing is known here): it appends the reply to
#: ``session.out``. The words include the name of the command.
Handler = Callable[[Any, Session, list[bytes], int], None]

#: Subcommand: its name, its further words, what it does.
Subcommand = tuple[str, str, str]

#: What every command with subcommands has, too: see `helped`.
HELP: Final[Subcommand] = ("HELP", "", "Print this help.")

#: Groups of commands that have to do with no queue, unless their rows say otherwise. Of others, a row that does not say
#: what it touches is only for users who may touch everything.
FREE_GROUPS: Final = frozenset({"connection", "server", "cluster"})
NONE_TAME: Final[frozenset[str]] = frozenset()


class Command:
    """One command. A positive ``arity`` is the exact number of words, a negative one the least, 0 any number.

    ``least`` and ``most`` are what follows for the number of words. ``index`` is the row's place in the table; a node
    counts calls by it. ``touches`` says what a request claims, for users who may not do everything; ``tame`` are
    subcommands that are for anybody and change nothing, although the command is not, or does.
    """

    __slots__ = ("arity", "flags", "function", "group", "index", "least", "most", "name", "subcommands", "summary",
                 "tame", "touches", "usage")  # fmt: skip

    def __init__(
        self,
        name: str,
        arity: int,
        flags: int,
        function: Handler,
        group: str,
        usage: str,
        summary: str,
        subcommands: tuple[Subcommand, ...] = (),
        *,
        touches: Touches | None = None,
        tame: frozenset[str] = NONE_TAME,
    ) -> None:
        self.name = name.encode()
        self.arity = arity
        self.least = abs(arity)
        self.most = arity if arity > 0 else WORDS_OF_LIST if flags & LIST else WORDS_MOST
        self.flags = flags
        self.function = function
        self.group = group
        self.usage = usage
        self.summary = summary
        self.subcommands = subcommands
        self.touches = touches
        self.tame = tame
        self.index = -1

    def run(self, node: Any, session: Session, args: list[bytes], now_ms: int) -> None:  # noqa: ANN401 - see Handler
        """Execute the command.

        Those that are executed most have classes of their own: compiled, a method is called as a function of C, and
        ``function`` as an object of Python.
        """
        self.function(node, session, args, now_ms)

    def full_name(self, args: list[bytes]) -> bytes:
        """Its name as Redis tells it of a request: with the subcommand, ``client|list``."""
        known = len(args) > 1 and any(one[0].encode() == args[1].upper() for one in self.subcommands)
        return b"%b|%b" % (self.name, args[1].lower()) if known else self.name

    def claims(self, args: list[bytes]) -> Claims:
        """What this request claims. Its number of words is right."""
        if self.touches is not None:
            return self.touches(args)
        return nothing(args) if self.group in FREE_GROUPS else everything(args)

    def writes(self, args: list[bytes]) -> bool:
        """Whether this request is for something that must be journalled."""
        if not self.flags & WRITE:
            return False
        return len(args) < 2 or not any(word.encode() == args[1].upper() for word in self.tame)

    def accepts(self, words: int) -> bool:
        """Whether a request may have this many words."""
        return self.least <= words <= self.most


def renamed(
    table: tuple[Command, ...], renames: Iterable[tuple[str, str]]
) -> tuple[tuple[Command, ...], dict[bytes, Command]]:
    """The rows that are left after `rename-command`, and each by its name in lower and in upper case."""
    named = {row.name: row for row in table}
    for old, new in renames:
        row = named.pop(old.encode().lower(), None)
        if row is not None and new:
            named[new.encode("utf-8", "surrogateescape").lower()] = row
    rows = tuple(row for row in table if row in named.values())
    return rows, {**{name.upper(): row for name, row in named.items()}, **named}
