"""What only a node can do that has a job, at some nodes with copies."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from disque.client import DisqueError, NodeInfo, NoPermError, OomError, UnavailableError
from disque.gateway.cluster import Cluster
from disque.gateway.holders import at_holder, run_now

NAMES = ("one", "two", "three")


class FakeNode:
    """A node with the copies of some jobs, as its own client; each that it has it queues, or gives back, when asked."""

    def __init__(self, *copies: bytes, state: str = "active", refusal: DisqueError | None = None) -> None:
        self.copies = copies
        self.state = state
        self.refusal = refusal
        self.done: list[bytes] = []
        self.requests = 0
        self._answers: list[object] = []

    def pipeline(self) -> "FakeNode":
        return self

    def enqueue(self, job_id: bytes) -> None:
        self._answers.append(self.refusal or self._do(job_id))

    def _do(self, job_id: bytes) -> int:
        is_here = job_id in self.copies and self.state == "active"
        self.done += [job_id] * is_here
        return int(is_here)

    async def execute(self, raise_on_error: bool) -> list[object]:
        assert not raise_on_error
        self.requests += 1
        answers, self._answers = self._answers, []
        return answers

    async def nack(self, job_id: bytes) -> int:
        self.requests += 1
        return self._do(job_id)

    async def show(self, job_id: bytes) -> dict[str, object] | None:
        if self.refusal:
            raise self.refusal
        return {"id": job_id, "state": self.state} if job_id in self.copies else None


class FirstNode(FakeNode):
    """The node that a client asks: it knows what has become of jobs."""

    def __init__(self, *copies: bytes, **status: str) -> None:
        super().__init__(*copies)
        self.status = status
        self.router = SimpleNamespace(count=lambda: len(NAMES))

    def result(self, job_id: bytes) -> None:
        status = self.status.get(job_id.decode())
        self._answers.append(None if status is None else SimpleNamespace(status=status))


class FakeCluster:
    """Some nodes; those that are None do not answer."""

    def __init__(self, client: FirstNode, *others: FakeNode | None, hangs: bool = False) -> None:
        self.client = client
        self.members = dict(zip(NAMES, (client, *others), strict=True))
        self.hangs = hangs

    async def nodes(self) -> list[NodeInfo]:
        return [cast("NodeInfo", SimpleNamespace(id=name)) for name in NAMES]

    async def ask_at(self, node: NodeInfo, ask: Callable[[Any], Awaitable[object]]) -> object:
        member = self.members[node.id]
        if member is None:
            raise UnavailableError
        return await ask(member)

    async def at_each(self, ask: Callable[[Any], Awaitable[object]]) -> list[tuple[NodeInfo, object]]:
        found: list[tuple[NodeInfo, object]] = []
        for node in await self.nodes():
            try:
                found.append((node, await self.ask_at(node, ask)))
            except DisqueError as error:
                found.append((node, error))
        return found

    async def of_all(self, ask: Callable[[], Awaitable[object]], instead: Callable[[], Awaitable[object]]) -> object:
        return await (instead() if self.hangs else ask())


def run(cluster: FakeCluster, *job_ids: bytes) -> int:
    return asyncio.run(run_now(cast("Cluster", cluster), job_ids))


def nack(cluster: FakeCluster, job_id: bytes) -> int:
    return asyncio.run(at_holder(cast("Cluster", cluster), job_id, lambda client, one: client.nack(one)))


class TestRunNow:
    def test_a_job_with_two_copies_is_queued_once(self) -> None:
        first, second, third = FirstNode(b"a", a="delayed"), FakeNode(b"a"), FakeNode()
        assert run(FakeCluster(first, second, third), b"a", b"a") == 1
        assert [node.done for node in (first, second, third)] == [[b"a"], [], []]

    def test_each_node_is_asked_once_for_all_that_is_left(self) -> None:
        first = FirstNode(b"a", a="delayed", b="delayed", c="delayed")
        second, third = FakeNode(b"a", b"b"), FakeNode(b"b", b"c")
        assert run(FakeCluster(first, second, third), b"a", b"b", b"c") == 3
        assert [node.done for node in (first, second, third)] == [[b"a"], [b"b"], [b"c"]]
        assert (second.requests, third.requests) == (1, 1)

    @pytest.mark.parametrize("status", ["in-flight", "queued", "done", None])
    def test_what_is_not_held_back_is_left_alone(self, status: str | None) -> None:
        first, second = FirstNode(b"a", **({} if status is None else {"a": status})), FakeNode(b"a")
        assert run(FakeCluster(first, second, FakeNode()), b"a") == 0
        assert (first.done, second.done) == ([], [])

    def test_nodes_that_do_not_answer_are_passed_over(self) -> None:
        first, third = FirstNode(), FakeNode(b"a")
        assert run(FakeCluster(first, None, third, hangs=True), b"a") == 1
        assert third.done == [b"a"]

    def test_a_refusal_counts_if_no_job_was_queued(self) -> None:
        full = FakeNode(b"a", refusal=OomError("full"))
        assert run(FakeCluster(FirstNode(a="delayed"), full, FakeNode(b"a")), b"a") == 1
        with pytest.raises(OomError):
            run(FakeCluster(FirstNode(a="delayed"), full, FakeNode()), b"a")


class TestAtHolder:
    def test_the_first_node_is_enough_if_it_has_a_copy(self) -> None:
        first, second = FirstNode(b"a"), FakeNode(b"a")
        assert nack(FakeCluster(first, second, FakeNode()), b"a") == 1
        assert (first.done, second.done) == ([b"a"], [])

    def test_of_others_one_is_asked(self) -> None:
        second, third = FakeNode(b"a"), FakeNode(b"a")
        assert nack(FakeCluster(FirstNode(), second, third), b"a") == 1
        assert second.done + third.done == [b"a"]

    def test_what_is_queued_is_not_given_back_by_a_copy_of_it(self) -> None:
        second, third = FakeNode(b"a"), FakeNode(b"a", state="queued")
        assert nack(FakeCluster(FirstNode(), second, third), b"a") == 0
        assert second.done == []

    def test_nobody_is_asked_where_nobody_has_it(self) -> None:
        second = FakeNode()
        assert nack(FakeCluster(FirstNode(), second, None), b"a") == 0
        assert second.requests == 0

    def test_who_may_not_look_asks_one_after_another(self) -> None:
        second, third = FakeNode(b"a"), FakeNode(b"a")
        second.refusal = third.refusal = NoPermError("no")
        first = FirstNode()
        first.refusal = NoPermError("no")
        assert nack(FakeCluster(first, second, third), b"a") == 1
        assert (second.done, third.done) == ([b"a"], [])
        with pytest.raises(UnavailableError):
            nack(FakeCluster(first, None, third), b"b")
