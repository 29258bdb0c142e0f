"""One job, wherever it is."""

import asyncio
from itertools import pairwise

import pytest

from disque.client.replies import JobInfo
from disque.gateway import circuit, lookup
from disque.gateway.circuit import SilentError
from tests.end_to_end.node import Node
from tests.gateway.support import Gateway

#: As nodes show one job, by how much they know of it.
BY_KNOWLEDGE: list[JobInfo] = [
    {"state": "active", "nacks": 0, "additional_deliveries": 0, "next_requeue_within": 9000},
    {"state": "active", "nacks": 0, "additional_deliveries": 0, "next_requeue_within": 5000},
    {"state": "active", "nacks": 1, "additional_deliveries": 0, "next_requeue_within": 9000},
    {"state": "wait-repl", "nacks": 0, "additional_deliveries": 0},
    {"state": "queued", "nacks": 0, "additional_deliveries": 0, "next_requeue_within": 9000},
    {"state": "acked"},
]


def test_the_node_that_serves_a_job_knows_more_of_it_than_one_with_a_copy() -> None:
    marks = [lookup.knowledge(info) for info in BY_KNOWLEDGE]
    assert all(less < more for less, more in pairwise(marks))


def test_a_job_is_found_and_what_has_become_of_it(gateway: Gateway, node: Node) -> None:
    job_id = node.ask("ADDJOB", "q", "x", 0, "RETAIN", 60)
    assert isinstance(job_id, bytes)
    own = gateway.hub.clusters.own
    assert (gateway.run(lookup.find(own, job_id)) or {})["state"] == "queued"
    assert node.ask("GETJOB", "FROM", "q")
    assert node.ask("ACKJOB", job_id) == 1
    fate = gateway.run(lookup.fate(own, job_id))
    assert fate is not None
    assert fate.done
    assert gateway.run(lookup.find(own, job_id[:-6] + b"x-05a1")) is None


def test_what_only_a_node_that_hangs_may_know_is_not_waited_for(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = gateway.hub.clusters.own

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(circuit, "PATIENCE_S", 0.001)
    monkeypatch.setattr(own.client, "result", never)
    monkeypatch.setattr(own.circuit, "quiet", lambda: [("127.0.0.1", 1)])
    with pytest.raises(SilentError):
        gateway.run(lookup.fate(own, b"D-b74f6fa1-2OszQKFx7ZBCnO8eLUAZ4dWd-05a1"))
