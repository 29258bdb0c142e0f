"""The configuration file is written in one step, in whatever thread."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from disque.core.config.settings import Config
from disque.core.host import HostRefusedError
from disque.server.config_file import ConfigFile, keep_rights


def test_what_is_written_is_what_the_settings_were_when_it_was_prepared(tmp_path: Path) -> None:
    path = tmp_path / "disque.conf"
    path.write_text("# notes\ntimeout 5\n")
    config = Config()
    config.put("timeout", ("7",))
    write = ConfigFile(str(path), config).prepare()
    config.put("timeout", ("9",))
    assert path.read_text() == "# notes\ntimeout 5\n", "nothing is written yet"
    write()
    assert path.read_text().startswith("# notes\ntimeout 7\n")
    assert [one.name for one in tmp_path.iterdir()] == ["disque.conf"]


def test_what_some_editors_put_before_the_first_line_goes(tmp_path: Path) -> None:
    path = tmp_path / "disque.conf"
    path.write_bytes(b"\xef\xbb\xbftimeout 5\n")
    config = Config()
    config.put("timeout", ("7",))
    ConfigFile(str(path), config).prepare()()
    assert path.read_text().startswith("timeout 7\n")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_its_mode_stays_and_a_new_one_is_for_the_server_alone(tmp_path: Path, mode: int) -> None:
    """There are passwords in it."""
    path = tmp_path / "disque.conf"
    ConfigFile(str(path), Config()).prepare()()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    ConfigFile(str(path), Config()).prepare()()
    assert path.stat().st_mode & 0o777 == mode


def test_its_owner_stays_or_those_of_another_group_do_not_get_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "disque.conf"
    path.write_text("")
    path.chmod(0o640)
    there = path.stat()
    asked: list[tuple[int, int]] = []

    def fchown(_: int, user: int, group: int) -> None:
        asked.append((user, group))
        raise PermissionError

    monkeypatch.setattr("os.fchown", fchown)
    with path.open() as file:
        keep_rights(path, file.fileno())
        assert asked == [(there.st_uid, there.st_gid)]
        assert path.stat().st_mode & 0o777 == 0o640
        with monkeypatch.context() as patch:
            patch.setattr("os.fstat", lambda _: SimpleNamespace(st_gid=there.st_gid + 1))
            keep_rights(path, file.fileno())
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_is_that_of_the_directory_it_was_named_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    write = ConfigFile("disque.conf", Config()).prepare()
    monkeypatch.chdir(tmp_path / "there")
    write()
    assert (tmp_path / "disque.conf").exists()


def test_what_cannot_be_done_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(HostRefusedError, match="without a config file"):
        ConfigFile("", Config()).prepare()
    with pytest.raises(HostRefusedError, match="ERR Rewriting config file: Is a directory"):
        ConfigFile(str(tmp_path), Config()).prepare()
    write = ConfigFile(str(tmp_path / "missing" / "disque.conf"), Config()).prepare()
    with pytest.raises(HostRefusedError, match="ERR Rewriting config file: No such file or directory"):
        write()
