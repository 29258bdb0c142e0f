"""Wrong passwords."""

import base64
from collections.abc import Iterator

import pytest

from disque.gateway import failures as module
from disque.gateway.failures import MOST, WINDOW_S, Failures
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Gateway

PASSWORD = "open sesame"


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def test_who_sends_many_waits_until_the_minute_is_over() -> None:
    now = Now()
    failures = Failures(now)
    for _ in range(MOST):
        assert not failures.must_wait("a")
        failures.note("a")
    assert failures.must_wait("a")
    assert not failures.must_wait("b")
    now.seconds += WINDOW_S
    assert not failures.must_wait("a")
    failures.note("a")
    assert not failures.must_wait("a")


def test_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES_MOST", 3)
    now = Now()
    failures = Failures(now)
    for number in range(10):
        failures.note(str(number))
    assert len(failures._known) == 3
    now.seconds += WINDOW_S
    failures.note("new")
    assert set(failures._known) == {"new"}


@pytest.fixture
def locked(node: Node, make_gateway: MakeGateway) -> Iterator[Gateway]:
    gateway = make_gateway(password=PASSWORD)
    assert node.ask("CONFIG", "SET", "requirepass", PASSWORD) == b"OK"
    yield gateway
    gateway.run(gateway.hub.clusters.own.client.config_set("requirepass", ""))


def test_nodes_do_not_hear_of_what_comes_after_too_many(locked: Gateway) -> None:
    wrong, right = (f"Basic {base64.b64encode(one.encode()).decode()}" for one in ("default:x", f"default:{PASSWORD}"))
    assert {locked.ask("GET", "/api/v1/queues", authorization=wrong).status for _ in range(MOST)} == {401}
    answer = locked.ask("GET", "/api/v1/queues", authorization=right)
    assert (answer.status, answer.json()["title"]) == (429, "Too many wrong passwords")
    form = "application/x-www-form-urlencoded"
    assert locked.ask("POST", "/login", b"user=default&password=x", content_type=form).status == 429
    assert locked.ask("GET", "/api/v1/queues").status == 401, "who sends no password cannot be wrong"
