"""A node for the tests of a file, since some give it users and schedules, and gateways to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import serving
from tests.end_to_end.node import Node
from tests.gateway.support import Gateway

MakeGateway = Callable[..., Gateway]


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with serving(tmp_path_factory) as one:
        yield one


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is slow: no node hangs but where a test says so."""
    from disque.gateway import circuit  # noqa: PLC0415 - the extra may be missing

    monkeypatch.setattr(circuit, "PING_S", 60.0)


@pytest.fixture
def make_gateway(one_node: Node) -> Iterator[MakeGateway]:
    """Gives a function that makes a gateway to the node; its arguments are settings."""
    made: list[Gateway] = []

    def make(wall_s: Callable[[], float] | None = None, **settings: Any) -> Gateway:
        from disque.gateway.settings import Settings  # noqa: PLC0415 - the extra may be missing

        given = {"nodes": (("127.0.0.1", one_node.port),), **settings}
        made.append(Gateway(Settings(**given), wall_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def gateway(node: Node, make_gateway: MakeGateway) -> Gateway:
    """A gateway to an empty node."""
    del node
    return make_gateway()
