"""The examples of docs/http.md and docs/monitoring.md: what stands behind `$` is run, and what follows compared."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.conftest import ROOT
from tests.end_to_end.node import Node, free_port, until

PAGE: Final = ROOT / "docs" / "http.md"
PAGES: Final = (PAGE, ROOT / "docs" / "monitoring.md")


class Ports(NamedTuple):
    """Where a gateway listens."""

    public: int
    admin: int


@pytest.fixture(scope="module")
def ports(one_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """A gateway as a process, with tokens in a file."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    found = Ports(free_port(), free_port())
    words = ["--nodes", f"127.0.0.1:{one_node.port}", "--listen", f"127.0.0.1:{found.public}"]
    words += ["--admin-listen", f"127.0.0.1:{found.admin}", "--tokens-file", str(folder / "tokens")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "disque.gateway.main", *words],
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        until(lambda: "administration" in (folder / "log").read_text(), "the gateway")
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def examples(text: str) -> list[tuple[str, str]]:
    """Commands and what they show, in their order."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [
        (command, shown)
        for block in blocks
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def fits(wanted: str, shown: str) -> bool:
    """Whether something was shown as it is written, with `...` for anything."""
    pattern = ".*?".join(map(re.escape, wanted.strip().split("...")))
    return re.fullmatch(pattern, shown.strip(), re.DOTALL) is not None


def test_examples_are_what_they_show(ports: Ports) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is missing: apt-get install curl")
    found = [one for page in PAGES for one in examples(page.read_text())]
    assert len(found) > 5
    for command, shown in found:
        here = command.replace(":7780", f":{ports.public}").replace(":7781", f":{ports.admin}")
        done = subprocess.run(shlex.split(here), capture_output=True, text=True, check=True)
        assert fits(shown, done.stdout), f"{command}\n{done.stdout}"


def test_python_does_what_it_says(ports: Ports) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    here = program.replace(":7780", f":{ports.public}")
    done = subprocess.run([sys.executable, "-c", here], capture_output=True, text=True, check=True)
    assert done.stdout == 'done {"width":640}\n'
