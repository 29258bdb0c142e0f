from pathlib import Path

import pytest

from disque.client import Config
from disque.spark.connection import alone, check_files, config_of, connect, warn_of_password
from disque.spark.options import OptionError
from tests.end_to_end.node import Node
from tests.spark.support import client_of, options


def test_options_become_settings(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    config = config_of(options(hosts="a:1,b", user="ada", password="secret", tls="on", ca=ca, timeoutMs="70"))
    assert config.nodes == (("a", 1), ("b", 7711))
    assert (config.user, config.password, config.tls, config.ca, config.timeout_ms) == (
        "ada", "secret", True, str(ca), 70,
    )  # fmt: skip


def test_a_certificate_of_the_client(tmp_path: Path) -> None:
    cert, key = tmp_path / "me.crt", tmp_path / "me.key"
    cert.touch()
    key.touch()
    config = config_of(options(tls="on", cert=cert, key=key))
    assert (config.cert, config.key) == (str(cert), str(key))


def test_a_file_that_is_not_there_is_named_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=f"option 'ca': there is no file {tmp_path}/ca.pem on "):
        check_files(options(tls="on", ca="ca.pem"))


def test_a_password_that_no_node_wants_is_warned_of(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with client_of(node) as client:
        warn_of_password(client.config)
    assert not caplog.messages
    with client_of(node, password="x") as client:
        warn_of_password(client.config)
    assert "the nodes ask for none" in caplog.text
    caplog.clear()
    node.ask("CONFIG", "SET", "requirepass", "x")
    with client_of(node, password="x") as client:
        warn_of_password(client.config)
        client.execute_command("CONFIG", "SET", "requirepass", "")
    assert not caplog.messages


def test_hosts_and_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISQUE_PASSWORD", "secret")
    assert config_of(options()).password == "secret"
    assert config_of(options(password="own")).password == "own"


def test_wrong_hosts_are_an_error_of_the_option() -> None:
    with pytest.raises(OptionError, match="'hosts'"):
        config_of(options(hosts="a:b"))


def test_one_node_alone() -> None:
    config = alone(Config(nodes=(("a", 1), ("b", 2)), password="secret"), ("b", 2))
    assert (config.nodes, config.discover, config.password) == ((("b", 2),), False, "secret")


def test_a_client(node: Node) -> None:
    with connect(options(hosts=f"127.0.0.1:{node.port}")) as client:
        assert client.execute_command("QLEN", "mails") == 0
