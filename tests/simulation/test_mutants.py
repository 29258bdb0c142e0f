"""Code that is broken on purpose must be noticed, by the checker of the promise that it breaks."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.simulation.mutants import MUTANTS


@pytest.mark.slow
@pytest.mark.plain_only("it replaces functions of the core, which its compiled modules call past their names")
def test_each_breakage_is_noticed() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--mutants", "-j", "2"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_each_breakage_says_what_is_broken_and_who_must_notice() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.says.endswith("."), mutant.name
        assert mutant.promises <= {f"I{number}" for number in range(1, 25)}
