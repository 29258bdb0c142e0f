import pytest

from disque.client import Config
from disque.spark.connection import alone, config_of, connect
from disque.spark.options import OptionError
from tests.end_to_end.node import Node
from tests.spark.support import options


def test_options_become_settings() -> None:
    config = config_of(options(hosts="a:1,b", user="ada", password="secret", tls="on", ca="/ca.pem", timeoutMs="70"))
    assert config.nodes == (("a", 1), ("b", 7711))
    assert (config.user, config.password, config.tls, config.ca, config.timeout_ms) == (
        "ada", "secret", True, "/ca.pem", 70,
    )  # fmt: skip


def test_a_certificate_of_the_client() -> None:
    config = config_of(options(tls="on", cert="/me.crt", key="/me.key"))
    assert (config.cert, config.key) == ("/me.crt", "/me.key")


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
