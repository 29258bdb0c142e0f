"""`disque gateway` as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from disque.cli import main as cli
from disque.gateway import main
from tests.conftest import ROOT
from tests.end_to_end.node import Node, free_port, until
from tests.end_to_end.test_tls import OnlyTls
from tests.support import certificates

COMMAND: Final = [sys.executable, "-m", "disque.cli.main", "gateway"]


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    return tmp_path / "shown.txt"


@pytest.fixture
def process(node: Node, shown: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway to the node, at a port that the system chooses."""
    words = ["--nodes", f"127.0.0.1:{node.port}", "--listen", f"127.0.0.1:{free_port()}"]
    with shown.open("wb") as log:
        one = subprocess.Popen(
            [*COMMAND, *words],
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    yield one
    if one.poll() is None:
        one.kill()
        one.wait()


def test_it_serves_until_it_is_told_to_stop(process: subprocess.Popen[bytes], shown: Path) -> None:
    found = until(lambda: re.search(r"listening at (http://\S+)", shown.read_text()), "the address")
    assert found is not None
    with urlopen(f"{found[1]}/readyz") as answer:
        assert answer.read() == b"ok\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert "stopping" in shown.read_text()


def is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", context=certificates.trusting(None)) as answer:
            return bool(answer.read() == b"ok\n")
    except HTTPError:
        return False


def test_it_serves_with_tls_and_reaches_nodes_that_want_a_certificate(
    tmp_path: Path, shown: Path, new_port: Callable[[], int]
) -> None:
    (tmp_path / "node").mkdir()
    node = OnlyTls(tmp_path / "node", new_port())
    node.start()
    certificate, key = certificates.pair("server")
    mine, my_key = certificates.pair("client")
    words = ["--nodes", f"localhost:{node.tls_port}", "--listen", f"127.0.0.1:{new_port()}"]
    words += ["--cluster-ca", certificates.AUTHORITY, "--cluster-cert", mine, "--cluster-key", my_key]
    with shown.open("wb") as log:
        one = subprocess.Popen(
            [*COMMAND, *words, "--tls-cert", certificate, "--tls-key", key],
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        found = until(lambda: re.search(r"listening at (https://\S+)", shown.read_text()), "the address")
        assert found is not None
        until(lambda: is_ready(found[1]), "the gateway to reach the node")
    finally:
        one.kill()
        one.wait()
        node.discard()


def test_a_command_line_that_makes_no_sense_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--listen", "x:y"]) == 1
    assert "--listen: port 'y'" in capsys.readouterr().err


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main, "NEEDED", ("json", "there_is_no_such_library"))
    assert main.main([]) == 1
    error = capsys.readouterr().err
    assert "there_is_no_such_library" in error
    assert "pip install 'disque-server[gateway]'" in error
    assert main.main(["--help"]) == 0


def test_it_is_a_tool_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gateway", "--tls-cert", "x"]) == 1
    assert "belong together" in capsys.readouterr().err
