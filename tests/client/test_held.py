"""Letting jobs that are held back run now, at some nodes with copies."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from disque.client import AsyncDisque, DisqueError, OomError, UnavailableError
from disque.client.held import enqueue, held_back, run_now

States = dict[str, str | DisqueError]


class FakeNode:
    """A node with copies of some jobs: it queues each that it has when it is asked. ``states``: what RESULT says."""

    def __init__(self, *copies: str, refusal: DisqueError | None = None, states: States | None = None) -> None:
        self.copies = copies
        self.refusal = refusal
        self.states = states or {}
        self.asked: list[list[str]] = []
        self._replies: list[object] = []

    def pipeline(self) -> "FakeNode":
        return self

    def result(self, job_id: str) -> None:
        state = self.states.get(job_id)
        self._replies.append(SimpleNamespace(status=state) if isinstance(state, str) else state)

    def enqueue(self, job_id: str) -> None:
        self._replies.append(self.refusal or int(job_id in self.copies))

    async def execute(self, raise_on_error: bool) -> list[object]:
        assert not raise_on_error
        replies, self._replies = self._replies, []
        return replies


def client(node: FakeNode) -> AsyncDisque:
    fake: Any = node
    return cast("AsyncDisque", fake)


async def ask(node: FakeNode | None, ids: list[str]) -> list[object]:
    if node is None:
        raise UnavailableError("down")
    node.asked.append(list(ids))
    return await enqueue(client(node), ids)


def run(ids: list[str], *nodes: FakeNode | None) -> int:
    return asyncio.run(run_now(ids, nodes, ask))


def test_only_what_is_held_back_may_run_or_what_no_node_tells() -> None:
    states: States = {
        "late": "delayed",
        "runs": "in-flight",
        "waits": "queued",
        "over": "done",
        "secret": DisqueError("NOPERM"),
    }
    node = FakeNode(states=states)
    asked = ["late", "runs", "waits", "over", "strange", "secret", "late"]
    assert asyncio.run(held_back(client(node), asked)) == ["late", "secret"]


def test_each_node_is_asked_once_for_what_is_left() -> None:
    nodes = FakeNode("a"), FakeNode("a", "b"), FakeNode("b", "c"), FakeNode("c")
    assert run(["a", "b", "c"], *nodes) == 3
    assert [node.asked for node in nodes] == [[["a", "b", "c"]], [["b", "c"]], [["c"]], []]


def test_a_node_that_is_down_is_passed_over() -> None:
    assert run(["a"], None, FakeNode("a")) == 1


def test_why_nothing_was_queued_is_told() -> None:
    full = FakeNode("a", refusal=OomError("full"))
    assert run(["a"], full, FakeNode("a")) == 1
    with pytest.raises(OomError):
        run(["a"], full, None, FakeNode())
    with pytest.raises(UnavailableError):
        run(["a"], None, FakeNode())
    assert run(["a"], FakeNode(), FakeNode()) == 0
