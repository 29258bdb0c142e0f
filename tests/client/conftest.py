"""Clients of either kind on fake nodes: a test that takes `make` runs with both."""

from collections.abc import Iterator

import pytest

from tests.client.fake import MakeHands, making


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def make(kind: str) -> Iterator[MakeHands]:
    with making(kind) as make:
        yield make
