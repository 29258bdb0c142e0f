"""The command `disque`: ways of running, output, exit codes."""

import importlib
import io
import json
import math
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from disque import VERSION
from disque.cli import main as main_module
from disque.cli import watch
from disque.cli.main import INTERRUPTED, SUBCOMMANDS, command_table, main
from disque.cli.shell_help import Table
from disque.cli.shell_session import Session
from disque.core.commands import COMMANDS

ROOT = Path(__file__).parents[2]


UNKNOWN = b"-ERR unknown command 'ADDJBO'\r\n"


def answer(args: list[bytes]) -> bytes | None:
    """Stand for a server: PING, ECHO, LIST, FAIL, DIE."""
    fixed = {b"LIST": b"*2\r\n:1\r\n$1\r\na\r\n", b"FAIL": b"-ERR no\r\n", b"DIE": None, b"PING": b"+PONG\r\n"}
    fixed[b"ADDJBO"] = UNKNOWN
    if args[0] == b"PING" and len(args) == 2:
        return b"$%d\r\n%s\r\n" % (len(args[1]), args[1])
    return fixed.get(args[0], b"$%d\r\n%s\r\n" % (len(args[-1]), args[-1]))


class Run:
    """Runs `disque` against a fake server."""

    def __init__(self, server: Any, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.out = self.err = b""
        self._capture = capture
        self._patch = patch

    def __call__(self, *words: str, stdin: bytes = b"", tty: bool = False) -> int:
        source = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))
        source.isatty = lambda: tty  # type: ignore[method-assign]  # a terminal, as far as anyone can tell
        self._patch.setattr(sys, "stdin", source)
        code = main(["-p", str(self.server.port), *words])
        self.out, self.err = self._capture.readouterr()
        return code


@pytest.fixture
def run(serve: Any, table: Table, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(main_module, "command_table", lambda: table)
    monkeypatch.delenv("DISQUE_AUTH", raising=False)
    monkeypatch.delenv("FAKETTY", raising=False)
    return Run(serve(answer), capsysbinary, monkeypatch)


def test_a_command_is_run_and_shown_raw_where_nobody_looks(run: Run) -> None:
    assert run("LIST") == 0
    assert (run.out, run.err) == (b"1\na\n", b"")


def test_faketty_makes_it_pretty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKETTY", "1")
    assert run("LIST") == 0
    assert run.out == b'1) (integer) 1\n2) "a"\n'


MANNERS = [
    (("--no-raw",), b'1) (integer) 1\n2) "a"\n'),
    (("--raw",), b"1\na\n"),
    (("-d", ";"), b"1;a\n"),
    (("--csv",), b'1,"a"\n'),
    (("--json", "-2"), b'[1,"a"]\n'),
]


@pytest.mark.parametrize(("flags", "shown"), MANNERS)
def test_flags_choose_the_manner(run: Run, flags: tuple[str, ...], shown: bytes) -> None:
    assert run(*flags, "LIST") == 0
    assert run.out == shown


def test_an_error_reply_is_exit_code_1(run: Run) -> None:
    assert run("FAIL") == 1
    assert (run.out, run.err) == (b"ERR no\n", b"")


def test_a_lost_connection_is_exit_code_1(run: Run) -> None:
    assert run("DIE") == 1
    assert run.err.startswith(b"Error: Server closed the connection.")


def test_no_server_is_exit_code_1(run: Run) -> None:
    assert run("-p", "1", "PING") == 1
    assert (run.out, run.err) == (b"", b"Could not connect to Disque at 127.0.0.1:1: Connection refused\n")


@pytest.mark.parametrize("flags", [("--stat",), ("--latency",), ("--pipe",), ()])
def test_every_way_of_running_needs_a_server(run: Run, flags: tuple[str, ...]) -> None:
    assert run("-p", "1", *flags) == 1
    assert b"Connection refused" in run.err


def test_an_unknown_flag_is_exit_code_1(run: Run) -> None:
    assert run("--nonsense") == 1
    assert run.err == b"Unrecognized option '--nonsense'. See `disque --help`.\n"


def test_a_flag_that_is_nearly_one_is_named(run: Run) -> None:
    assert run("--latency-histoyr") == 1
    assert run.err == b"Unrecognized option '--latency-histoyr'. Did you mean --latency-history?\n"


def test_a_command_that_the_server_does_not_know_is_nearly_another(run: Run) -> None:
    assert run("ADDJBO", "q") == 1
    assert (run.out, run.err) == (UNKNOWN[1:-2] + b"\n", b"Did you mean ADDJOB?\n")


def test_no_help_for_a_word_names_the_nearest(run: Run) -> None:
    assert run("help", "adjob") == 1
    assert run.err == b"No help for 'adjob'; did you mean `help addjob`?\n"
    assert run("help", "client", "lits") == 1
    assert run.err == b"No help for 'client lits'; did you mean `help client list`?\n"
    assert run("help", "xyzzy") == 1
    assert run.err == b"No help for 'xyzzy'; `help` alone tells what there is.\n"


def test_flags_of_redis_are_explained(run: Run) -> None:
    assert run("--scan") == 1
    assert run.err == b"--scan is for Redis: there are no keys here; use QSCAN for queues and JSCAN for jobs.\n"


def test_notes_go_to_standard_error(run: Run) -> None:
    assert run("-n", "3", "-a", "secret", "PING") == 0
    assert run.out == b"PONG\n"
    assert len(run.err.splitlines()) == 2
    assert run.server.requests[0] == [b"AUTH", b"secret"]


def test_the_password_may_come_from_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISQUE_AUTH", "secret")
    assert run("--user", "u", "PING") == 0
    assert run.server.requests == [[b"AUTH", b"u", b"secret"], [b"PING"]]
    assert run.err == b""


def test_the_password_may_be_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda _prompt: "typed")
    run("--askpass", "PING")
    assert run.server.requests[0] == [b"AUTH", b"typed"]


def test_json_wishes_for_resp3(run: Run) -> None:
    assert run("--json", "PING") == 0
    assert run.server.requests[0] == [b"HELLO", b"3"]
    assert json.loads(run.out) == "PONG"


def test_a_url_says_where_and_who(run: Run) -> None:
    assert run("-p", "1", "-u", f"disque://u:p@127.0.0.1:{run.server.port}", "PING") == 0
    assert run.server.requests[0] == [b"AUTH", b"u", b"p"]


def test_r_repeats_and_one_error_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s: list[float] = []
    monkeypatch.setattr("time.sleep", slept_s.append)
    assert run("-r", "3", "-i", "0.5", "PING") == 0
    assert (run.out, slept_s) == (b"PONG\n" * 3, [0.5, 0.5])
    assert run("-r", "2", "FAIL") == 1


def test_r_for_ever_ends_with_the_connection(run: Run) -> None:
    assert run("-r", "-1", "DIE") == 1


def test_x_takes_the_last_argument_from_standard_input(run: Run) -> None:
    assert run("-x", "ADDJOB", "q", stdin=b"a\r\n\0b") == 0
    assert run.server.requests == [[b"ADDJOB", b"q", b"a\r\n\0b"]]


def test_capital_x_takes_a_named_argument_from_standard_input(run: Run) -> None:
    assert run("-X", "BODY", "ADDJOB", "q", "BODY", "0", stdin=b"a\n") == 0
    assert run.server.requests == [[b"ADDJOB", b"q", b"a\n", b"0"]]


def test_commands_come_from_standard_input_line_by_line(run: Run) -> None:
    assert run(stdin=b'PING\r\n\nPING "a b"\n2 PING') == 0
    assert run.out == b"PONG\na b\nPONG\nPONG\n"


@pytest.mark.parametrize("line", [b"FAIL", b'PING "x', b"DIE", b"help nonsense"])
def test_a_bad_line_is_exit_code_1(run: Run, line: bytes) -> None:
    assert run(stdin=b"PING\n" + line + b"\n") == 1
    assert run.out.startswith(b"PONG\n")


def test_lines_after_an_error_are_run(run: Run) -> None:
    assert run(stdin=b"FAIL\nPING\n") == 1
    assert run.out == b"ERR no\nPONG\n"


def test_lines_after_a_lost_connection_are_not(run: Run) -> None:
    assert run(stdin=b"DIE\nPING\n") == 1
    assert run.server.requests == [[b"DIE"]]


def test_quit_ends_standard_input(run: Run) -> None:
    assert run(stdin=b"PING\nquit\nPING\n") == 0
    assert run.out == b"PONG\n"


def test_a_terminal_gets_the_interactive_shell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []

    def run_shell(session: Session) -> int:
        prompts.append(session.prompt)
        return 0

    monkeypatch.setattr("disque.cli.shell.run_shell", run_shell)
    monkeypatch.setenv("FAKETTY", "1")
    assert run(tty=True) == 0
    assert prompts == ["not connected> "]


def test_help_for_a_command_needs_no_server(run: Run) -> None:
    assert run("-p", "1", "help", "ackjob") == 0
    assert b"ACKJOB id [id ...]" in run.out


def test_the_table_is_the_one_of_the_server() -> None:
    assert command_table() is COMMANDS


def test_version_and_help(run: Run) -> None:
    assert run("--version") == 0
    assert run.out == f"disque {VERSION}\n".encode()
    assert run("--help") == 0
    assert run.out.startswith(b"Usage: disque [flags]")


def test_pipe_reports_and_counts_errors(run: Run) -> None:
    assert run("--pipe", stdin=b"*1\r\n$4\r\nLIST\r\n") == 0
    assert run.out == b"errors: 0, replies: 1\n"
    assert run("--pipe", stdin=b"*1\r\n$4\r\nFAIL\r\n") == 1
    assert run.out == b"errors: 1, replies: 1\n"


def test_latency_away_from_a_terminal_is_one_line(run: Run) -> None:
    assert run("--latency", "-i", "0.001", "--csv") == 0
    assert len(run.out.split(b",")) == 5


def test_ctrl_c_is_the_normal_end_of_watching(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "stat", interrupted)
    assert run("--stat") == 0


WATCHES = [
    (("--latency",), "latency_lines", (1.0, "")),
    (("--latency", "--raw", "-i", "3"), "latency_lines", (3.0, "raw")),
    (("--latency-history",), "latency_lines", (15.0, "")),
    (("--latency-history", "--json"), "latency_lines", (15.0, "json")),
]


@pytest.mark.parametrize(("flags", "name", "given"), WATCHES)
def test_latency_prints_lines_for_programs(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], name: str, given: tuple[float, str]
) -> None:
    calls: list[tuple[float, str]] = []
    monkeypatch.setattr(
        watch, name, lambda _connection, interval_s, _outside, form, **_rounds: calls.append((interval_s, form))
    )
    assert run(*flags) == 0
    assert calls == [given]


@pytest.mark.parametrize(("flag", "interval_s"), [("--latency", math.inf), ("--latency-history", 15.0)])
def test_latency_is_live_at_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, flag: str, interval_s: float) -> None:
    calls: list[float] = []
    monkeypatch.setattr(watch, "latency_live", lambda _connection, interval, _outside: calls.append(interval))
    monkeypatch.setenv("FAKETTY", "1")
    assert run(flag) == 0
    assert calls == [interval_s]


def test_watching_shows_an_error_reply(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: object) -> None:
        raise watch.WatchError("NOAUTH Authentication required.")

    monkeypatch.setattr(watch, "stat", refused)
    assert run("--stat") == 1
    assert run.err == b"NOAUTH Authentication required.\n"


def test_ctrl_c_breaks_off_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(main_module._ACTIONS, "command", interrupted)
    assert run("PING") == INTERRUPTED


@pytest.mark.parametrize("tool", SUBCOMMANDS)
def test_tools_get_the_rest_of_the_line(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    module: Any = types.ModuleType(SUBCOMMANDS[tool])

    def tool_main(argv: list[str]) -> int:
        calls.append(argv)
        return 7

    module.main = tool_main
    monkeypatch.setitem(sys.modules, SUBCOMMANDS[tool], module)
    assert main([tool, "-p", "1", "x"]) == 7
    assert calls == [["-p", "1", "x"]]


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["queues"], True),
        (["-p", "7712", "jobs", "mail", "--json"], True),
        (["cron"], True),
        (["cron", "-p", "1"], True),
        (["-p", "1", "cron", "--json"], True),
        (["cron", "pause", "x"], False),
        (["qlen", "queues"], False),
    ],
)
def test_listings_get_the_whole_line(words: list[str], is_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def listing(given: list[str]) -> int:
        calls.append(given)
        return 0

    monkeypatch.setattr(main_module, "_listing", listing)
    monkeypatch.setitem(main_module._ACTIONS, "command", lambda _options: 0)
    assert main(words) == 0
    assert calls == [words] * is_one


def test_a_tool_whose_packages_are_missing_says_which_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_name: str) -> types.ModuleType:
        raise ImportError("tasks need redis-py: pip install 'disque-server[tasks]'", name="redis")

    monkeypatch.setattr(importlib, "import_module", missing)
    assert main(["worker", "x"]) == 1
    assert "disque-server[tasks]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "tool", "given"),
    [
        (["-p", "7712", "--tls", "bench", "add", "-n", "5"], "bench", ["-p", "7712", "--tls", "add", "-n", "5"]),
        (["-p", "7712", "check-aof", "--fix", "d"], "check-aof", ["--fix", "d"]),
        (["-h", "host", "completion", "bash"], "completion", ["bash"]),
    ],
)
def test_flags_may_stand_before_a_tool(
    words: list[str], tool: str, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    module: Any = types.ModuleType(SUBCOMMANDS[tool])
    module.main = calls.append
    monkeypatch.setitem(sys.modules, SUBCOMMANDS[tool], module)
    main(words)
    assert calls == [given]


def disque(*words: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from disque.cli.main import main; sys.exit(main())", *words]


def test_a_reader_that_goes_away_is_no_traceback(serve: Callable[..., Any]) -> None:
    server = serve(answer)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        command = disque("-p", str(server.port), "-r", "9", "PING")
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
