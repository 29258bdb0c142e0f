"""The interactive shell: a prompt with history, completion and hints around a `Session`.

Ctrl-C at the prompt drops the line. During a command it gives the command up. The server can be told so only by closing
the connection, so a new one is opened. Ctrl-D leaves. A paste of several lines stays in the line editor until Enter,
and then runs line by line.
"""

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from disque.cli.shell_complete import TableCompleter, hint_after
from disque.cli.shell_help import Table
from disque.cli.shell_history import ShellHistory, history_path
from disque.cli.shell_session import Session

_STYLE = Style.from_dict({"hint": "ansibrightblack"})


class HintProcessor(Processor):
    """Shows behind the cursor what may still be typed; it cannot be accepted, and is gone once Enter is pressed."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Add the hint to the last line."""
        shown: StyleAndTextTuples = list(transformation_input.fragments)
        document: Document = transformation_input.document
        if transformation_input.lineno == document.line_count - 1 and self._wanted(transformation_input):
            shown.append(("class:hint", hint_after(self._table, document)))
        return Transformation(shown)

    @staticmethod
    def _wanted(transformation_input: TransformationInput) -> bool:
        """Tell whether there is still something to be typed, and no menu in the way."""
        return not (get_app().is_done or transformation_input.buffer_control.buffer.complete_state)


def prompt_session(
    table: Table, history: History, stdin: Input | None = None, stdout: Output | None = None
) -> PromptSession[str]:
    """Build the line editor; `stdin` and `stdout` replace the terminal."""
    return PromptSession(
        history=history,
        completer=TableCompleter(table),
        complete_while_typing=False,
        input_processors=[HintProcessor(table)],
        enable_history_search=True,
        style=_STYLE,
        reserve_space_for_menu=6,
        input=stdin,
        output=stdout,
    )


def run_shell(session: Session, prompts: PromptSession[str] | None = None) -> int:
    """Serve the person at the terminal until they leave; give the exit code, 0."""
    editor = prompts or prompt_session(session.table(), ShellHistory(history_path()))
    session.connect()
    while not session.done:
        try:
            run_text(session, editor.prompt(session.prompt))
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
    return 0


def run_text(session: Session, text: str) -> None:
    """Run what was entered, line by line. Ctrl-C gives all of it up and reconnects."""
    try:
        for line in text.splitlines():
            if not session.done:
                session.run_line(line.encode("utf-8", "surrogateescape"))
    except KeyboardInterrupt:
        session.connect()
