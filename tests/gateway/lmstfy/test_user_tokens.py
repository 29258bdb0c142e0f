"""Tokens as users of the cluster."""

from collections.abc import Iterator

import pytest

from disque.client import DisqueError
from disque.gateway.lmstfy.tokens import BrokenError, Known, Limit
from disque.gateway.lmstfy.user_tokens import FRESH_S, HEAD, UserTokens, name_of
from tests.end_to_end.node import Node, ServerError
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Gateway

SECRET = b"what all gateways know"
TOKEN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clean(gateway: Gateway, node: Node) -> Iterator[Gateway]:
    """A gateway to a node that has no such users, before and after."""
    yield gateway
    for name in node.ask("ACL", "USERS"):
        if name.startswith(HEAD.encode()):
            node.ask("ACL", "DELUSER", name)


def tokens_of(gateway: Gateway, secret: bytes = SECRET, now: Now | None = None) -> UserTokens:
    return UserTokens(gateway.hub.clusters.own, secret, now or Now())


def test_a_token_is_known_to_all_gateways_and_can_be_listed(clean: Gateway) -> None:
    first, second = tokens_of(clean), tokens_of(clean)
    assert clean.run(first.find("ns", TOKEN)) is None
    assert clean.run(first.add("ns", TOKEN, "what for \u00e9"))
    assert not clean.run(second.add("ns", TOKEN, "again"))
    assert clean.run(second.find("ns", TOKEN)) == Known("what for \u00e9")
    assert clean.run(second.find("other", TOKEN)) is None
    assert clean.run(second.of("ns")) == {TOKEN: Known("what for \u00e9")}
    clean.run(second.remove("ns", TOKEN))
    assert clean.run(second.of("ns")) == {}


def test_what_another_gateway_changes_is_known_some_seconds_later(clean: Gateway) -> None:
    now = Now()
    first, second = tokens_of(clean, now=now), tokens_of(clean, now=now)
    clean.run(first.add("ns", TOKEN, "x"))
    assert clean.run(second.find("ns", TOKEN)) == Known("x")
    clean.run(first.remove("ns", TOKEN))
    assert clean.run(first.find("ns", TOKEN)) is None
    assert clean.run(second.find("ns", TOKEN)) == Known("x")
    now.seconds += FRESH_S
    assert clean.run(second.find("ns", TOKEN)) is None


def test_limits_belong_to_tokens(clean: Gateway) -> None:
    tokens = tokens_of(clean)
    clean.run(tokens.limit("ns", TOKEN, Limit(1, 2, 3)))
    assert clean.run(tokens.limits()) == [], "there is no such token"
    clean.run(tokens.add("ns", TOKEN, "x"))
    clean.run(tokens.limit("ns", TOKEN, Limit(1, 2, 3)))
    assert clean.run(tokens_of(clean).limits()) == [("ns", TOKEN, Limit(1, 2, 3))]
    assert clean.run(tokens.find("ns", TOKEN)) == Known("x", Limit(1, 2, 3))
    clean.run(tokens.limit("ns", TOKEN, None))
    assert clean.run(tokens_of(clean).find("ns", TOKEN)) == Known("x")


def test_it_is_a_user_with_rights_to_its_namespace_only(clean: Gateway, node: Node) -> None:
    clean.run(tokens_of(clean).add("ns", TOKEN, "x"))
    raw = node.raw()
    assert raw.ask("AUTH", name_of("ns", TOKEN), TOKEN) == b"OK"
    assert not isinstance(raw.ask("ADDJOB", "ns/q", "x", 1000), ServerError)
    assert str(raw.ask("ADDJOB", "other/q", "x", 1000)).startswith("NOPERM")
    assert str(raw.ask("ACL", "USERS")).startswith("NOPERM")


def test_nobody_reads_tokens_in_the_cluster_and_another_secret_finds_them_all_the_same(
    clean: Gateway, node: Node
) -> None:
    clean.run(tokens_of(clean).add("ns", TOKEN, "a secret purpose"))
    shown = repr(node.ask("ACL", "LIST")) + repr(node.ask("ACL", "GETUSER", name_of("ns", TOKEN)))
    assert TOKEN not in shown
    assert "secret purpose" not in shown
    other = tokens_of(clean, b"another secret")
    assert clean.run(other.find("ns", TOKEN)) == Known("")
    assert clean.run(other.of("ns")) == {}


def test_long_descriptions_are_kept_and_too_long_ones_refused(clean: Gateway) -> None:
    tokens = tokens_of(clean)
    assert clean.run(tokens.add("n" * 255, TOKEN, "d" * 3000))
    assert clean.run(tokens_of(clean).of("n" * 255)) == {TOKEN: Known("d" * 3000)}
    with pytest.raises(BrokenError, match="too long"):
        clean.run(tokens.add("ns", TOKEN, "d" * 10_000))


def test_without_a_node_it_is_an_error(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(nodes=(("127.0.0.1", 1),), secret=SECRET)
    assert isinstance(gateway.hub.tokens, UserTokens)

    async def refuses(*_: object) -> None:
        raise DisqueError("no")

    gateway.hub.clusters.own.client.drive = refuses  # type: ignore[method-assign,assignment]  # without its pauses
    assert gateway.ask("GET", "/api/ns/q", x_token=TOKEN).status == 500
