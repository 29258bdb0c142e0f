"""Running commands: send, wait, show, and reconnect when the server was away.

It serves all ways to give a command: as arguments, on standard input, at the prompt. A request is sent once. If the
connection is found dead before that, it is opened again. If it dies afterwards, it is unknown whether the command has
run. Then the user is told so and nothing is sent again (adding a job twice would be worse).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from disque.cli.client import NO_REPLY, ConnectError, Connection, NotSentError
from disque.cli.render import render
from disque.cli.shell_help import SHELL_COMMANDS, TOOLS, Table, advice, groups, help_text, nearest
from disque.cli.shell_reply import Push, ReplyError, is_error
from disque.cli.shell_url import parse_port
from disque.core.base.words import split_words

SLOW_S: Final = 0.5
_CLEAR_SCREEN: Final = b"\x1b[H\x1b[2J"
_LAST_WORDS: Final = frozenset({b"shutdown", b"quit", b"debug"})
"""Commands after which a closed connection is no surprise."""


@dataclass(slots=True)
class Output:
    """Where replies go and how they look: one of MANNERS, and what separates items and replies in the raw one."""

    stream: BinaryIO
    manner: str
    delimiter: bytes = b"\n"
    show_pushes: bool = False
    show_slow: bool = False

    def show(self, reply: object, args: Sequence[bytes] = ()) -> None:
        """Show the reply to the request `args`."""
        self.write(render(reply, self.manner, args, self.delimiter))

    def push(self, reply: Push) -> None:
        """Show a push, if they are wanted."""
        if self.show_pushes:
            self.show(reply)

    def write(self, data: bytes) -> None:
        """Write and flush."""
        self.stream.write(data)
        self.stream.flush()


class Session:
    """A conversation with a server over one connection.

    `table` gives the command table when it is needed; `complain` gets what is for standard error.
    """

    def __init__(
        self,
        connection: Connection,
        output: Output,
        table: Callable[[], Table],
        complain: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.table = table
        self.done = False
        self.output = output
        self._complain = complain
        self._clock = clock

    @property
    def prompt(self) -> str:
        """The prompt of the interactive shell."""
        return f"{self.connection.name}> " if self.connection.is_open else "not connected> "

    def connect(self) -> bool:
        """Connect, or say why not."""
        try:
            self.connection.connect()
        except ConnectError as error:
            self._complain(str(error))
            return False
        return True

    def run_line(self, line: bytes) -> bool:
        """Run a line as typed: words with quotes, a number in front repeats. False if anything went wrong."""
        words = split_words(line, keep_empty=True)
        if words is None:
            self._complain("Invalid argument(s): a quote is not closed")
            return False
        times = 1
        if len(words) > 1 and words[0].isdigit():
            times = int(words.pop(0))
        if not words:
            return True
        local = _LOCAL.get(words[0].lower())
        if local is not None:
            return local(self, words[1:])
        return self._repeat(words, times)

    def _repeat(self, args: Sequence[bytes], times: int) -> bool:
        """Run a command several times, up to a lost connection."""
        good = True
        for _ in range(times):
            good &= self.run(args)
            if not self.connection.is_open:
                break
        return good

    def run(self, args: Sequence[bytes]) -> bool:
        """Run one command and show its reply. False for an error reply or a lost connection."""
        if not self.connection.alive() and not self.connect():
            return False
        started_s = self._clock()
        try:
            reply = self._call(args)
        except ConnectError as error:
            self._complain(str(error))
            return False
        except (OSError, ReplyError) as error:
            return self._lost(args, error)
        if reply is NO_REPLY:
            return True
        self.output.show(reply, args)
        self._show_time(self._clock() - started_s)
        if is_error(reply):
            self._advise(args, reply)
            return False
        self._remember(args)
        return self._monitor() if args[0].lower() == b"monitor" else True

    def _call(self, args: Sequence[bytes]) -> object:
        """Ask; a request that could not even be sent goes out once more over a new connection."""
        try:
            return self.connection.call(args)
        except NotSentError:
            self.connection.connect()
            return self.connection.call(args)

    def _lost(self, args: Sequence[bytes], error: Exception) -> bool:
        self.connection.close()
        if args[0].lower() in _LAST_WORDS:
            return True
        reason = getattr(error, "strerror", None) or str(error)
        self._complain(f"Error: {reason}. It is not known whether the command has run.")
        return False

    def _advise(self, args: Sequence[bytes], reply: object) -> None:
        """Say what may have been meant, where the server did not understand."""
        assert isinstance(reply, bytes)
        if reply.startswith(b"ERR"):
            words = [arg.decode("utf-8", "replace") for arg in args]
            text = advice(self.table(), words, reply.decode("utf-8", "replace"))
            if text:
                self._complain(text)

    def _remember(self, args: Sequence[bytes]) -> None:
        """Keep a password that was accepted, and RESP's version, for the next connection."""
        words = [arg.decode("utf-8", "surrogateescape") for arg in args]
        target, name = self.connection.target, words[0].lower()
        if name == "auth" and len(words) in {2, 3}:
            target.password, target.user = words[-1], words[1] if len(words) == 3 else None
        elif name == "hello" and len(words) > 1 and words[1] in {"2", "3"}:
            target.resp = int(words[1])

    def _monitor(self) -> bool:
        """Show what the server tells until the person or the server ends it."""
        try:
            while True:
                self.output.show(self.connection.receive())
        except (OSError, ReplyError) as error:
            self._complain(f"Error: {error}")
            self.connection.close()
            return False

    def _show_time(self, elapsed_s: float) -> None:
        if self.output.show_slow and elapsed_s >= SLOW_S:
            self.output.write(b"(%.2fs)\n" % elapsed_s)

    def help(self, topics: Sequence[bytes]) -> bool:
        """Explain commands from the table."""
        words = [topic.decode("utf-8", "replace") for topic in topics]
        text = help_text(self.table(), words)
        if text is None:
            self._complain(f"No help for {' '.join(words)!r}; {self._meant(words)}")
            return False
        self.output.write(text.encode() + b"\n")
        return True

    def _meant(self, words: Sequence[str]) -> str:
        """Say what a topic that is unknown may have been."""
        table = self.table()
        row = table.get(words[0].lower().encode())
        if row is not None:
            close = nearest(words[1], [name for name, _usage, _summary in row.subcommands])
            close = f"{words[0].lower()} {close}" if close else ""
        else:
            names = [*(row.name.decode() for row in table.values()), *SHELL_COMMANDS, *TOOLS]
            close = nearest(words[0], [*names, *(f"@{group}" for group in groups(table))])
        return f"did you mean `help {close}`?" if close else "`help` alone tells what there is."

    def move(self, place: Sequence[bytes]) -> bool:
        """Connect to another host and port."""
        words = [word.decode("utf-8", "replace") for word in place]
        try:
            host, port = words
            address = (host, parse_port(port))
        except ValueError as error:
            self._complain(str(error) if len(words) == 2 else "Usage: connect host port")
            return False
        target = self.connection.target
        target.path, target.addresses = None, [address]
        return self.connect()

    def clear(self, _words: Sequence[bytes]) -> bool:
        """Clear the screen."""
        self.output.write(_CLEAR_SCREEN)
        return True

    def leave(self, _words: Sequence[bytes]) -> bool:
        """End the session."""
        self.done = True
        return True


_LOCAL: Final[dict[bytes, Callable[[Session, Sequence[bytes]], bool]]] = {
    b"help": Session.help,
    b"?": Session.help,
    b"connect": Session.move,
    b"clear": Session.clear,
    b"quit": Session.leave,
    b"exit": Session.leave,
}
