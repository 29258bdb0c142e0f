"""Processes that were started with standard streams closed, or with a full disk behind them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from disque.cli import serve as serve_module
from disque.cli import streams
from tests.cli.test_main import ROOT, answer, disque

#: Says which streams lead nowhere, and whether a new file has a number behind theirs.
PROGRAM: Final = """
import os, sys
from disque.cli import streams
streams.open_missing()
print(sys.stdin.closed, file=sys.stdout, flush=True)
print("error", file=sys.stderr, flush=True)
with open(sys.argv[1], "w") as file:
    nowhere = [fd for fd in range(3) if os.readlink(f"/proc/self/fd/{fd}") == os.devnull]
    file.write(f"{nowhere} {file.fileno() > 2}")
"""


def closed(how: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run something with streams as the shell says, such as ``<&- 2>&-``."""
    command = ["sh", "-c", f'exec "$@" {how}', "sh", *words]
    return subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, cwd=ROOT, check=False)


@pytest.mark.parametrize(("how", "missing"), [("<&-", [0]), (">&-", [1]), ("2>&-", [2]), ("<&- >&- 2>&-", [0, 1, 2])])
def test_closed_ones_lead_nowhere(how: str, missing: list[int], tmp_path: Path) -> None:
    done = closed(how, sys.executable, "-c", PROGRAM, str(tmp_path / "said"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == f"{missing} True"


def test_a_server_opens_them_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(streams, "open_missing", lambda: calls.append("open"))
    assert serve_module.main(["-v"]) == 0
    assert calls == ["open"]


@pytest.mark.parametrize("how", ["<&-", ">&- <&-"])
def test_the_shell_without_them_is_no_traceback(how: str, serve: Callable[..., Any]) -> None:
    done = closed(how, *disque("-p", str(serve(answer).port)))
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [("PING",), ("--version",)])
def test_a_full_disk_behind_the_output_is_said_once(words: tuple[str, ...], serve: Callable[..., Any]) -> None:
    done = closed("> /dev/full", *disque("-p", str(serve(answer).port), *words))
    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")
