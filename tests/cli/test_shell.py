"""The interactive shell, typed into through a pipe."""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.output import DummyOutput

from disque.cli.client import Connection
from disque.cli.shell import HintProcessor, prompt_session, run_shell, run_text
from disque.cli.shell_help import Table
from disque.cli.shell_history import ShellHistory
from disque.cli.shell_session import Output, Session

CTRL_C, CTRL_D, TAB, UP, LEFT, RIGHT = "\x03", "\x04", "\t", "\x1b[A", "\x1b[D", "\x1b[C"
REST = 100
PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


class Terminal:
    """A shell on a fake server that answers with the number of arguments."""

    def __init__(self, server: Any, table: Table, keyboard: PipeInput) -> None:
        self.server = server
        self.stream = io.BytesIO()
        self.complaints: list[str] = []
        connection = Connection(server.target(), self.complaints.append, lambda _push: None)
        self.session = Session(connection, Output(self.stream, "pretty"), lambda: table, self.complaints.append)
        self.history = ShellHistory(None)
        self.editor = prompt_session(table, self.history, keyboard, DummyOutput())
        self.editor.app.before_render += self._watch
        self._keyboard = keyboard
        self._pieces: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def type(self, *keys: str) -> list[list[bytes]]:
        """Type into the shell until it ends; give what the server got.

        Each piece waits until the line editor is at rest: completions inserted, history there.
        """
        self._pieces.extend(keys)
        assert run_shell(self.session, self.editor) == 0
        return list(self.server.requests)

    def _watch(self, _app: object) -> None:
        """Begin to look after the event loop of this prompt (each has its own)."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            loop.call_soon(self._type_next, REST)

    def _type_next(self, patience: int) -> None:
        """Type the next piece once the loop has turned often enough for everything that was begun to be done."""
        assert self._loop is not None
        if patience == 0 and self._pieces:
            self._keyboard.send_text(self._pieces.pop(0))
        self._loop.call_soon(self._type_next, patience - 1 if patience else REST)


@pytest.fixture
def terminal(serve: Any, table: Table, keyboard: PipeInput) -> Iterator[Terminal]:
    made = Terminal(serve(lambda args: b":%d\r\n" % len(args)), table, keyboard)
    yield made
    made.session.connection.close()


def test_lines_are_run_until_quit(terminal: Terminal) -> None:
    assert terminal.type("ping\rping x\rquit\rping\r") == [[b"ping"], [b"ping", b"x"]]
    assert terminal.stream.getvalue() == b"(integer) 1\n(integer) 2\n"


def test_ctrl_d_leaves(terminal: Terminal) -> None:
    assert terminal.type("ping\r" + CTRL_D) == [[b"ping"]]


def test_ctrl_c_drops_the_line(terminal: Terminal) -> None:
    assert terminal.type("shutdown" + CTRL_C + "ping\r" + CTRL_D) == [[b"ping"]]


def test_tab_completes(terminal: Terminal) -> None:
    assert terminal.type("ackj" + TAB, " id\r", CTRL_D) == [[b"ackjob", b"id"]]


def test_the_hint_is_never_part_of_the_line(terminal: Terminal) -> None:
    assert terminal.type("ackjob" + RIGHT + "\r" + CTRL_D) == [[b"ackjob"]]


def test_the_arrow_brings_back_the_line_before(terminal: Terminal) -> None:
    assert terminal.type("ping x\r", UP, "\r", CTRL_D) == [[b"ping", b"x"]] * 2


def test_passwords_cannot_be_brought_back(terminal: Terminal) -> None:
    terminal.type("ping\rauth secret\rconfig set requirepass s\r", UP, "\r", CTRL_D)
    assert terminal.server.requests[-1] == [b"ping"]
    assert terminal.history.get_strings() == ["ping"]


def test_a_paste_waits_for_enter_and_runs_line_by_line(terminal: Terminal) -> None:
    assert terminal.type(PASTE.format("ping 1\nping 2") + CTRL_C + CTRL_D) == []
    assert terminal.type(PASTE.format("ping 1\nping 2") + "\r" + CTRL_D) == [[b"ping", b"1"], [b"ping", b"2"]]


def test_a_shell_without_a_server_goes_on(terminal: Terminal) -> None:
    terminal.server.stop()
    assert terminal.type("ping\rhelp\r" + CTRL_D) == []
    assert len(terminal.complaints) == 2
    assert b"the shell of a job queue" in terminal.stream.getvalue()


def test_quit_in_a_paste_ends_it(terminal: Terminal) -> None:
    run_text(terminal.session, "ping\nquit\nping")
    assert terminal.server.requests == [[b"ping"]]


def test_ctrl_c_during_a_command_reconnects(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_args: object) -> object:
        raise KeyboardInterrupt

    terminal.session.connect()
    monkeypatch.setattr(terminal.session.connection, "call", interrupted)
    run_text(terminal.session, "getjob from q\nping")
    monkeypatch.undo()
    assert terminal.session.connection.is_open
    run_text(terminal.session, "ping after")
    assert terminal.server.requests == [[b"ping", b"after"]]


def fragments(table: Table, text: str, left: int = 0) -> list[tuple[str, str]]:
    """Give how the last line of a text is shown, the cursor `left` characters from its end."""
    document = Document(text, len(text) - left)
    last = document.line_count - 1
    line: StyleAndTextTuples = [("", document.lines[last])]
    given = TransformationInput(BufferControl(Buffer()), document, last, lambda at: at, line, 100, 1)
    return [(part[0], part[1]) for part in HintProcessor(table).apply_transformation(given).fragments]


@pytest.mark.parametrize(
    ("text", "left", "line"),
    [
        ("ackjob ", 0, "ackjob id [id ...]"),
        ("ackjob", 0, "ackjob id [id ...]"),
        ("ackjob", 2, "ackjob"),
        ("xyz", 0, "xyz"),
        ("ping 1\nclient reply", 0, "client reply ON|OFF|SKIP"),
    ],
)
def test_the_line_shows_what_may_follow(table: Table, text: str, left: int, line: str) -> None:
    assert "".join(part for _style, part in fragments(table, text, left)) == line


def test_the_hint_has_a_style_of_its_own(table: Table) -> None:
    assert fragments(table, "ackjob ") == [("", "ackjob "), ("class:hint", "id [id ...]")]
