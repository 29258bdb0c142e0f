"""`disque completion`: what bash offers is asked of bash itself; zsh and fish are asked where they are installed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from disque.cli.completion import SCRIPTS, bash, fish, main, zsh
from disque.cli.shell_options import FLAGS
from disque.core.commands import ROWS
from disque.core.config.settings import SETTINGS


def bash_offers(line: str, command: str = "_disque") -> list[str]:
    """What bash would complete at the end of the line."""
    words = line.split(" ")
    program = (
        f"{bash()}\nCOMP_WORDS=({' '.join(f'{word!r}' for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        f'{command} && printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "--norc", "-u", "-c", program], capture_output=True, check=False)
    assert done.stderr == b""
    return done.stdout.decode().split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("disque addj", ["addjob"]),
        ("disque ADDJ", ["ADDJOB"]),
        ("disque -p 7711 addj", ["addjob"]),
        ("disque --tls -3 -h somewhere be", ["bench"]),
        ("disque -p ", []),
        ("disque --lat", ["--latency", "--latency-history"]),
        ("disque -p 7711 --cacert", ["--cacert", "--cacertdir"]),
        ("disque addjob q b 0 RE", ["REPLICATE", "RETRY", "RETAIN"]),
        ("disque ADDJOB q b 0 re", ["replicate", "retry", "retain"]),
        ("disque addjob getjob N", []),
        ("disque client re", ["reply"]),
        ("disque client reply ", ["ON", "OFF", "SKIP"]),
        ("disque -p 1 CLIENT KILL x SK", ["SKIPME"]),
        ("disque pause q i", ["in"]),
        ("disque hello 3 ", ["2", "3", "AUTH", "SETNAME"]),
        ("disque bench mi", ["mixed"]),
        ("disque bench add -P", ["-P"]),
        ("disque bench --secon", ["--seconds"]),
        ("disque check-aof --f", ["--fix"]),
        ("disque completion ", ["bash", "zsh", "fish"]),
        ("disque help addj", ["addjob"]),
        ("disque help @jo", ["@jobs"]),
        ("disque nonsense x", []),
    ],
)
def test_bash_completes_commands_subcommands_and_flags(line: str, words: list[str]) -> None:
    assert bash_offers(line) == words


def test_bash_completes_the_options_of_the_server() -> None:
    assert bash_offers("disque-server x.conf --maxm", "_disque_server") == [
        *("--maxmemory", "--maxmemory-samples", "--maxmemory-policy", "--maxmemory-clients"),
    ]
    assert bash_offers("disque-server ", "_disque_server") == []


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_each_script_knows_every_command_flag_and_setting(script: Callable[[], str]) -> None:
    words = set(script().replace(":", " ").replace("'", " ").replace('"', " ").split())
    assert words >= {row.name.decode() for row in ROWS}
    if script is not fish:
        assert words >= {name for flag in FLAGS for name in flag.names}
        assert words >= {f"--{setting.name}" for setting in SETTINGS}
    else:
        assert words >= {name.lstrip("-") for flag in FLAGS for name in flag.names}
        assert words >= {setting.name for setting in SETTINGS}


def test_zsh_and_fish_can_read_theirs(tmp_path: Path) -> None:
    (tmp_path / "zsh").write_text(zsh())
    (tmp_path / "fish").write_text(fish())
    assert "_describe" in zsh()
    assert "complete -c disque" in fish()
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-f", "-n", str(tmp_path / "zsh")], check=True)
    if shutil.which("fish"):
        asked = "complete -C 'disque -p 7711 client ki'; complete -C 'disque addjob q b 0 RE'"
        program = f"source {tmp_path / 'fish'}; {asked}"
        done = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, check=True)
        assert [line.split("\t")[0] for line in done.stdout.decode().splitlines()] == ["KILL", "REPLICATE", "RETRY"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0
    assert capsys.readouterr().out == SCRIPTS[name]()


def test_help_says_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "~/.bashrc" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "said"), [([], "for which shell?"), (["csh"], "there is no script for 'csh'")])
def test_another_shell_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err
