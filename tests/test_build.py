"""What is built where the core can be compiled, and where it cannot: whatever fails, what is installed is whole."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT
from tests.test_form import HOT_SERVER, PURE_CLUSTER

#: Stands in for mypyc: no half minute, and what it "makes of the core" is up to the test.
FAKE_MYPYC: Final = """\
from pathlib import Path
from setuptools import Extension

def mypycify(paths, *, group_name, **options):
    Path("asked").write_text(" ".join(paths))
    {body}
"""

#: One module that would hide the plain one, and a group that cannot be made.
HALF: Final = """Path("job.c").write_text(
        "#include <Python.h>\\nstatic PyModuleDef d = {PyModuleDef_HEAD_INIT, \\"job\\"};"
        "PyMODINIT_FUNC PyInit_job(void) { return PyModule_Create(&d); }")
    Path("group.c").write_text("this is no C")
    return [Extension("disque.core.model.job", ["job.c"]), Extension("disque__mypyc", ["group.c"])]"""

#: It compiles, and cannot be imported: there is nothing in it to begin with.
DEAD: Final = """Path("step.c").write_text("int nothing;")
    return [Extension("disque.core.step", ["step.c"])]"""

FAILURES: Final = (
    pytest.param("raise SystemExit(1)", id="mypyc stops as it does when types are wrong", marks=pytest.mark.slow),
    pytest.param("raise RuntimeError('not on this machine')", id="mypyc fails", marks=pytest.mark.slow),
    pytest.param(HALF, id="the compiler fails halfway"),
    pytest.param(DEAD, id="what was compiled cannot be imported", marks=pytest.mark.slow),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that is installed."""
    for name in ("cluster", "disque"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def build(tree: Path, command: str = "bdist_wheel", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of setup.py in the tree."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"CC", "DISQUE_CORE"}}
    return subprocess.run(
        [sys.executable, "setup.py", "-q", *command.split()],
        cwd=tree,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def with_mypyc(tree: Path, body: str) -> str:
    """Put a mypyc in the way that does what ``body`` says; returns the path to it."""
    place = tree / "fake" / "mypyc"
    place.mkdir(parents=True)
    (place / "__init__.py").touch()
    (place / "build.py").write_text(FAKE_MYPYC.replace("{body}", body), encoding="utf-8")
    return str(place.parent)


def is_plain_and_whole(tree: Path) -> None:
    """The one wheel that was built is for any machine, and has every module and no binary."""
    wheels = list((tree / "dist").glob("*.whl"))
    assert [wheel.name.split("-", 2)[2] for wheel in wheels] == ["py3-none-any.whl"]
    names = set(ZipFile(wheels[0]).namelist())
    assert not [name for name in names if name.endswith(".so")]
    sources = {str(path.relative_to(tree)) for place in ("cluster", "disque") for path in (tree / place).rglob("*.py")}
    assert sources <= names


def needs_a_compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is missing: apt-get install gcc libc6-dev python3-dev")


def test_without_a_compiler_the_wheel_is_plain(tree: Path) -> None:
    done = build(tree, CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert "core: plain, since it cannot be compiled here" in done.stderr
    is_plain_and_whole(tree)


@pytest.mark.parametrize("body", FAILURES)
def test_whatever_fails_the_wheel_is_plain_and_whole(tree: Path, body: str) -> None:
    needs_a_compiler()
    done = build(tree, PYTHONPATH=with_mypyc(tree, body))
    assert done.returncode == 0, done.stderr
    assert "core: plain, since it cannot be compiled here" in done.stderr
    is_plain_and_whole(tree)


def test_a_compiled_core_that_is_insisted_on_fails_aloud(tree: Path) -> None:
    done = build(tree, CC="/bin/false", DISQUE_CORE="compiled")
    assert done.returncode != 0
    assert not list(tree.glob("dist/*.whl"))


def test_a_plain_core_that_is_asked_for_needs_neither_compiler_nor_mypyc(tree: Path) -> None:
    fake = with_mypyc(tree, "raise SystemExit(1)")
    done = build(tree, CC="/bin/false", DISQUE_CORE="plain", PYTHONPATH=fake)
    assert done.returncode == 0, done.stderr
    assert not (tree / "asked").exists()
    is_plain_and_whole(tree)


def test_the_group_is_the_core_the_pure_half_of_cluster_and_the_hot_part_of_the_server(tree: Path) -> None:
    needs_a_compiler()
    build(tree, PYTHONPATH=with_mypyc(tree, "raise SystemExit(1)"))
    core = [path for path in (tree / "disque" / "core").rglob("*.py") if path.name != "__init__.py"]
    pure = [f"{name.replace('.', '/')}.py" for name in (*PURE_CLUSTER, *HOT_SERVER)]
    assert set((tree / "asked").read_text(encoding="utf-8").split()) == {
        *pure,
        *(str(path.relative_to(tree)) for path in core),
    }


def test_in_the_tree_itself_nothing_is_compiled(tree: Path) -> None:
    done = build(tree, "build_ext --inplace", PYTHONPATH=with_mypyc(tree, "raise SystemExit(1)"))
    assert done.returncode == 0, done.stderr
    assert not (tree / "asked").exists()
    assert not list(tree.rglob("*.so"))
