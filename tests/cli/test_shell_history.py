"""The history: private, without passwords."""

from pathlib import Path

import pytest

from disque.cli.shell_history import ShellHistory, history_path, is_secret, without_secrets

SECRET = [
    "AUTH x",
    "auth user x",
    "  auth x",
    "3 AUTH x",
    '"auth" x',
    "HELLO 3 AUTH u p",
    "hello 2 setname n auth u p",
    "CONFIG SET requirepass x",
    "acl setuser u on >x",
    'config set maxmemory 1 "requirepass" x',
    "config set cluster-secret x",
]


@pytest.mark.parametrize("line", SECRET)
def test_lines_with_a_password_are_secret(line: str) -> None:
    assert is_secret(line)


@pytest.mark.parametrize("line", ["", "PING", "ADDJOB auth x 0", "HELLO 3", "config get requirepass", "help auth", "3"])
def test_other_lines_are_not(line: str) -> None:
    assert not is_secret(line)


def test_of_a_paste_only_secret_lines_are_dropped() -> None:
    assert without_secrets("PING\nAUTH x\n\nQLEN q") == "PING\nQLEN q"


def test_what_is_entered_comes_back_newest_first(tmp_path: Path) -> None:
    history = ShellHistory(tmp_path / "h")
    for line in ["PING", "AUTH x", "QLEN q", "QLEN q", "PING\nAUTH y\nPING 2"]:
        history.append_string(line)
    assert history.get_strings() == ["PING", "QLEN q", "PING\nPING 2"]
    assert list(ShellHistory(tmp_path / "h").load_history_strings()) == ["PING 2", "PING", "QLEN q", "PING"]


def test_the_file_is_private(tmp_path: Path) -> None:
    ShellHistory(tmp_path / "h").append_string("PING")
    assert (tmp_path / "h").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_used_is_no_obstacle(tmp_path: Path) -> None:
    history = ShellHistory(tmp_path / "missing" / "h")
    history.append_string("PING")
    assert history.get_strings() == ["PING"]
    assert list(history.load_history_strings()) == []
    assert list(ShellHistory(None).load_history_strings()) == []


def test_the_file_is_in_the_home_or_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("DISQUE_HISTFILE", raising=False)
    assert history_path() == Path("/home/me/.disque_history")
    monkeypatch.setenv("DISQUE_HISTFILE", "/tmp/h")
    assert history_path() == Path("/tmp/h")
    monkeypatch.setenv("DISQUE_HISTFILE", "/dev/null")
    assert history_path() is None
