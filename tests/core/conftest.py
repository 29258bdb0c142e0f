from collections.abc import Callable

import pytest

from tests.core.support import Bench, Client


@pytest.fixture
def bench() -> Bench:
    """One node, alone."""
    return Bench()


@pytest.fixture
def cluster() -> Bench:
    """One node with four reachable nodes beside it."""
    return Bench(peers=4)


@pytest.fixture
def client(bench: Bench) -> Client:
    """A client of the node that is alone."""
    return bench.client()


@pytest.fixture
def new_bench() -> Callable[..., Bench]:
    """Make a node as the arguments of Bench say."""
    return Bench
