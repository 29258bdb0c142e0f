"""The core that runs is of the form that is to be tested, all of it, and says so."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import cluster
import disque.core
from disque.core import step
from disque.core.model import job
from tests.conftest import FORM, ROOT

PURE_CLUSTER = tuple(
    f"cluster.{name}"
    for name in ("capabilities", "gossip", "large", "member", "membership", "messages", "nodesfile", "table")
)
HOT_SERVER = tuple(f"disque.server.{name}" for name in ("connection", "facts", "pump", "requests", "walker"))


def group() -> dict[str, Path]:
    """The modules that are compiled together, and the files that they run from."""
    found = [name for _, name, is_package in walk_packages(disque.core.__path__, "disque.core.") if not is_package]
    return {name: Path(str(import_module(name).__file__)) for name in (*found, *PURE_CLUSTER, *HOT_SERVER)}


def test_all_modules_of_the_core_run_in_the_form_that_is_tested() -> None:
    ends = {path.suffix for path in group().values()}
    assert ends == {".py" if FORM == "plain" else ".so"}, "all or nothing"
    assert len(group()) > 50


def test_plain_modules_come_from_the_tree_and_compiled_ones_from_an_installation() -> None:
    homes = [Path(str(package.__file__)).parents[1] for package in (disque, cluster)]
    assert (homes == [ROOT, ROOT]) == (FORM == "plain")


def test_functions_and_classes_are_what_the_form_makes_of_them() -> None:
    plain = hasattr(step.command, "__code__"), hasattr(job.Job.order, "__code__")
    assert plain == ((True, True) if FORM == "plain" else (False, False))


def test_the_server_says_in_which_form_it_runs() -> None:
    command = [sys.executable, "-m", "disque.cli.serve", "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f" core={FORM} " in said
