"""URLs that name servers."""

import pytest

from disque.cli.client import Target
from disque.cli.client_tls import Trust
from disque.cli.shell_url import apply_url, parse_address, parse_port

TARGETS = [
    ("disque://h", [("h", 7711)], None, None),
    ("redis://h:1", [("h", 1)], None, None),
    ("disque://", [("127.0.0.1", 7711)], None, None),
    ("disque://h1:1,h2,[::1]:3", [("h1", 1), ("h2", 7711), ("::1", 3)], None, None),
    ("disque://[::1]", [("::1", 7711)], None, None),
    ("disque://user:pass@h:1", [("h", 1)], "user", "pass"),
    ("disque://:pass@h", [("h", 7711)], None, "pass"),
    ("disque://pass@h", [("h", 7711)], None, "pass"),
    ("disque://u:p%40%3A%2F@h", [("h", 7711)], "u", "p@:/"),
    ("disque://h?x=1", [("h", 7711)], None, None),
]


@pytest.mark.parametrize(("url", "addresses", "user", "password"), TARGETS)
def test_where_a_url_points(url: str, addresses: list[tuple[str, int]], user: str | None, password: str | None) -> None:
    target = Target(path="/before")
    assert apply_url(url, target) == ""
    assert target == Target(addresses=addresses, user=user, password=password)


@pytest.mark.parametrize(
    ("url", "trust"),
    [("disques://h", Trust()), ("rediss://h", Trust()), ("disque://h", None), ("redis://h", None), ("unix:///s", None)],
)
def test_an_s_behind_the_scheme_is_tls(url: str, trust: Trust | None) -> None:
    target = Target()
    apply_url(url, target)
    assert target.trust == trust


def test_a_url_takes_nothing_from_what_flags_have_said_of_tls() -> None:
    target = Target(trust=Trust(sni="n"))
    apply_url("disques://h", target)
    assert target.trust == Trust(sni="n")
    apply_url("disque://h", target)
    assert target.trust == Trust(sni="n")


def test_a_database_number_is_told() -> None:
    assert apply_url("redis://h/3", Target()) == "3"


def test_unix_sockets() -> None:
    target = Target()
    apply_url("unix://u:p@/tmp/a%20b", target)
    assert (target.path, target.user, target.password) == ("/tmp/a b", "u", "p")


@pytest.mark.parametrize("url", ["h:1", "http://h", "unix://", "disque://h:x", "disque://h:70000", "disque://h:0"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="Invalid"):
        apply_url(url, Target())


def test_a_url_without_credentials_keeps_those_of_before() -> None:
    target = Target(user="u", password="p")
    apply_url("disque://h", target)
    assert (target.user, target.password) == ("u", "p")


def test_addresses_and_ports() -> None:
    assert parse_address("h:1") == ("h", 1)
    assert parse_port("7711") == 7711
    with pytest.raises(ValueError, match="1 to 65535"):
        parse_port("-1")
