import pickle
from typing import Any

import pytest

from disque.client import Config


def test_defaults() -> None:
    assert Config().nodes == (("127.0.0.1", 7711),)
    assert not Config().tls


def test_from_a_url() -> None:
    config = Config.from_url("disque://me:hush@a:1,b:2?timeout_ms=50&affinity=yes&also_retry=NOREPL,OOM&protocol=2")
    assert config == Config(
        nodes=(("a", 1), ("b", 2)),
        user="me",
        password="hush",
        timeout_ms=50,
        affinity=True,
        also_retry=("NOREPL", "OOM"),
        protocol=2,
    )
    assert Config.from_url("disques://a?ca=/ca.pem&verify=no") == Config(
        nodes=(("a", 7711),), tls=True, ca="/ca.pem", verify=False
    )


def test_it_travels_and_can_be_a_key() -> None:
    config = Config.from_url("disque://me:hush@a:1")
    assert pickle.loads(pickle.dumps(config)) == config
    assert {config: 1}[Config.from_url("disque://me:hush@a:1")] == 1


def test_nobody_sees_the_password() -> None:
    assert "hush" not in repr(Config(password="hush"))


def test_lists_will_do() -> None:
    nodes: Any = [["a", 1]]
    assert hash(Config(nodes=nodes)) == hash(Config(nodes=(("a", 1),)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"nodes": ()}, "no node"),
        ({"nodes": (("", 1),)}, "host is empty"),
        ({"nodes": (("a", 0),)}, "port 0 of host a"),
        ({"timeout_ms": 0}, "timeout_ms must be above 0"),
        ({"attempts": -1}, "attempts must be above 0"),
        ({"backoff_ms": -1}, "backoff_ms must not be negative"),
        ({"protocol": 4}, "protocol must be 2 or 3"),
        ({"order": "alphabetical"}, "order must be one of random, given"),
        ({"ca": "x"}, "need TLS"),
        ({"client_name": "größe"}, "client_name must be up to 1024 characters of ASCII without spaces, not 'größe'"),
        ({"client_name": "my shop"}, "client_name must be"),
        ({"client_name": "x" * 1025}, "client_name must be"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(**options)


def test_nonsense_in_a_url_is_refused() -> None:
    for query, says in (("attempts=0", "attempts"), ("protocol=9", "protocol"), ("nodes=x", "unknown option 'nodes'"),
                        ("client_name=gr%C3%B6%C3%9Fe", "client_name")):  # fmt: skip
        with pytest.raises(ValueError, match=f"Invalid URL: .*{says}"):
            Config.from_url(f"disque://a?{query}")
