"""What the system says of itself is read right."""

from pathlib import Path

from tests.speed.machine import (
    Work,
    core_of,
    cpu_model,
    doubt,
    meanwhile,
    pretty_name,
    program_version,
    rival_versions,
    shares,
    version_in,
)
from tests.speed.server import PLAIN


def test_the_model_of_the_processor() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 7763  \nmodel name\t: other\n") == "AMD EPYC 7763"
    assert cpu_model("Hardware: something else") == ""


def test_the_name_of_the_system() -> None:
    assert (
        pretty_name('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n') == "Debian GNU/Linux 12 (bookworm)"
    )
    assert pretty_name("") == ""


def test_versions() -> None:
    assert version_in("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0") == "7.0.15"
    assert version_in("beanstalkd 1.12\n") == "1.12"
    assert version_in("none") == ""
    assert program_version("no-such-program-as-this", "-v") == ""
    assert rival_versions(Path("/no/such/python")) == ""


def test_who_else_was_busy() -> None:
    found = shares(elapsed_s=100, busy_s=150, own_s=120, stolen_s=5)
    assert found == (0.3, 0.05)
    assert meanwhile(*found) == "other programs had 0.30 processors on average, other virtual machines 0.05"
    assert shares(elapsed_s=100, busy_s=10, own_s=12, stolen_s=0) == (0.0, 0.0)
    assert min(Work().shares()) >= 0


def test_figures_of_a_busy_machine_are_doubted() -> None:
    assert doubt(0.1, 0.05) == ""
    assert doubt(0.3, 0.05).startswith("The machine was busy: other programs had 0.30 processors")


def test_this_interpreter_has_a_form(tmp_path: Path) -> None:
    assert core_of(PLAIN, tmp_path) in {"", "plain", "compiled"}
