import io
from pathlib import Path

import pytest

from disque import VERSION
from disque.cli.serve import check_option, main, make_log, read_config, version_line, wants_pid_file
from disque.core.config.conffile import ConfigError
from disque.core.config.settings import Config, SettingError


def written(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "disque.conf"
    path.write_text("\n".join([*lines, ""]))
    return str(path)


def test_without_words_everything_is_as_by_default() -> None:
    config, path = read_config([])
    assert path == ""
    assert config.number("port") == 7711


def test_options_count_after_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "port 1000", "timeout 5")
    config, path = read_config([file, "--port", "2000", "--bind", "127.0.0.1", "::1"])
    assert path == file
    assert (config.number("port"), config.number("timeout")) == (2000, 5)
    assert config.words("bind") == ("127.0.0.1", "::1")


def test_a_dash_reads_the_file_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("timeout 7\n"))
    config, path = read_config(["-", "--port", "2000"])
    assert path == ""
    assert (config.number("port"), config.number("timeout")) == (2000, 7)


def test_the_path_of_the_file_is_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "port 1000")
    monkeypatch.chdir(tmp_path)
    assert read_config(["disque.conf"])[1] == file


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    path = tmp_path / "disque.conf"
    path.write_bytes(b"requirepass \xff\xfe\n")
    config, _ = read_config([str(path)])
    assert config.text("requirepass").encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_what_some_editors_put_before_the_first_line_is_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "disque.conf"
    path.write_bytes(b"\xef\xbb\xbftimeout 5\n")
    assert read_config([str(path)])[0].number("timeout") == 5


def test_a_wrong_line_is_an_error_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as wrong:
        read_config([written(tmp_path, "", "port 1000", "port x")])
    assert wrong.value.number == 3


def test_only_commands_can_be_renamed(tmp_path: Path) -> None:
    check_option("rename-command", ("DEBUG", ""))
    check_option("timeout", ("nosuch",))
    with pytest.raises(SettingError, match="No such command"):
        check_option("rename-command", ("nosuch", "x"))
    with pytest.raises(ConfigError) as wrong:
        read_config([written(tmp_path, "", 'rename-command nosuch ""')])
    assert wrong.value.number == 2
    with pytest.raises(ConfigError):
        read_config(["--rename-command", "nosuch", "x"])


def test_a_command_does_not_take_the_name_of_another_one(tmp_path: Path) -> None:
    read_config(["--rename-command", "getjob", "", "--rename-command", "addjob", "GETJOB"])
    with pytest.raises(ConfigError, match="already"):
        read_config([written(tmp_path, "rename-command addjob GetJob")])


def test_a_command_has_one_new_name(tmp_path: Path) -> None:
    read_config(["--rename-command", "debug", "", "--rename-command", "DEBUG", ""])
    with pytest.raises(ConfigError, match="two lines for command DEBUG, with different names"):
        read_config([written(tmp_path, "rename-command debug one", "rename-command DEBUG other")])


@pytest.mark.parametrize("name", ["port", "tls-port"])
def test_clients_and_other_nodes_do_not_come_to_the_same_port(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"both come to port 7799, which is the {name}"):
        read_config([written(tmp_path, f"{name} 7799", "cluster-bus-port 7799")])
    config, _ = read_config(["--port", "0"])
    assert config.number("port") == 0


def test_users_of_the_configuration_have_rules_that_make_sense(tmp_path: Path) -> None:
    config, _ = read_config([written(tmp_path, 'user alice on ">a b" ~mails* +@consume', "user bob off")])
    assert config.words("user") == ("alice\0on\0>a b\0~mails*\0+@consume", "bob\0off")
    with pytest.raises(ConfigError, match=r"modifier '\+nope': Unknown command or category"):
        read_config([written(tmp_path, "", "user alice +nope")])
    with pytest.raises(ConfigError, match="Usernames can't contain spaces"):
        read_config([written(tmp_path, 'user "a b" on')])
    with pytest.raises(ConfigError, match="two lines for user alice"):
        read_config([written(tmp_path, "user alice on", "user bob on", "user alice off")])
    config, _ = read_config(["--user", "rescue", "on", ">p", "~*", "&*", "+@all"])
    assert config.words("user")[0].startswith("rescue")


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out == version_line() + "\n"
    assert f"v={VERSION} " in version_line()


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_usage(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 1
    assert capsys.readouterr().err.startswith("Usage: disque-server ")


def test_errors_before_the_start_end_it_with_their_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing")]) == 1
    assert f"can't open config file '{tmp_path / 'missing'}': No such file or directory" in capsys.readouterr().err
    assert main([written(tmp_path, "nosuch 1")]) == 1
    assert "at line 1" in capsys.readouterr().err
    assert main(["--dir", str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err


def test_a_file_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/dev/zero"]) == 1
    assert "can't open config file '/dev/zero': It has more than 16 MB" in capsys.readouterr().err
    assert main(["--include", "/dev/zero"]) == 1
    assert "Can't open the included file '/dev/zero': It has more than 16 MB" in capsys.readouterr().err


def test_a_log_file_that_cannot_be_opened_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--logfile", str(tmp_path / "missing" / "log")]) == 1
    assert "Can't open the log file: No such file or directory" in capsys.readouterr().err


def test_paths_in_errors_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["missing"], ["--dir", "missing"], ["--logfile", "missing/log"]):
        assert main(words) == 1
        assert f"{tmp_path}/missing" in capsys.readouterr().err


def test_the_log_is_where_the_settings_say(tmp_path: Path) -> None:
    config = Config()
    config.put("logfile", (str(tmp_path / "log"),))
    config.put("loglevel", ("warning",))
    log = make_log(config)
    log.notice("small")
    log.warning("big")
    log.close()
    text = (tmp_path / "log").read_text()
    assert "big" in text
    assert "small" not in text


def test_a_pid_file_is_for_daemons_and_for_those_who_name_it() -> None:
    config = Config()
    assert not wants_pid_file(config)
    config.put("pidfile", ("/tmp/x.pid",))
    assert wants_pid_file(config)
    config = Config()
    config.put("daemonize", ("yes",))
    assert wants_pid_file(config)
    config.put("pidfile", ("",))
    assert not wants_pid_file(config)


@pytest.mark.parametrize("words", [["--port", "55536"], ["--port", "65535"]])
def test_a_port_that_leaves_no_room_for_the_bus_is_an_error(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="bus port would be port \\+ 10000"):
        read_config(words)
    with pytest.raises(ConfigError, match="bus port would be tls-port \\+ 10000"):
        read_config(["--port", "0", "--tls-port", words[1]])
    config, _ = read_config([*words, "--cluster-bus-port", "17711"])
    assert config.number("cluster-bus-port") == 17711


def test_the_last_port_with_room_for_the_bus() -> None:
    assert read_config(["--port", "55535"])[0].number("port") == 55535


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--foo", "1"], "unknown option '--foo'. Options are those of disque.conf"),
        (["--port", "1000", "--prot", "7711"], "unknown option '--prot'. Did you mean '--port'?"),
        (["--" + "x" * 1000], "unknown option '--xxx"),
        (["--port", "seventy"], "'--port seventy': "),
        (["--port"], "'--port': Bad directive or wrong number of arguments\nExpected: port <"),
        (["disque.conf", "stray"], "'stray' is no option"),
        (["--"], "'--' is no option"),
        (["--port", "60000"], "'port 60000': The bus port would be port + 10000"),
    ],
)
def test_an_error_of_the_command_line_names_the_wrong_word(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "timeout 5")
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"disque-server: {said}")
    assert "FATAL" not in error
