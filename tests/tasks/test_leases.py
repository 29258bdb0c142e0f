"""Leases are renewed together, and lost by the worker's own clock."""

import asyncio
from collections.abc import Callable
from typing import Any

from disque.client import AsyncDisque
from disque.tasks.held import Held
from disque.tasks.leases import Leases
from tests.client.fake import A, AsyncFakePool, B, FakeNodes, config, job_id, lost, refusal


class Scene:
    """Leases of some jobs, with a clock that is moved by hand."""

    def __init__(self, answer: Callable[[Any, list[bytes]], object], lease_s: float = 30.0) -> None:
        self.now_s = 0.0
        self.nodes = FakeNodes(answer)
        self.jobs: list[Held] = []
        self.lost: list[Held] = []
        self.cancelled: list[Held] = []
        client = AsyncDisque(config(A, B, attempts=1))
        client._pool = AsyncFakePool(self.nodes)  # type: ignore[assignment]  # a fake of it
        self.leases = Leases(
            client, lease_s, lambda: self.jobs, self.lost.append, self.cancelled.append, lambda: self.now_s
        )

    def add(self, number: int, node: Any = A) -> Held:
        self.jobs.append(Held(job_id(number), "q", b"", None, node, self.now_s + 30))
        return self.jobs[-1]

    async def look(self, now_s: float) -> list[tuple[Any, list[bytes]]]:
        """Look at this time: what was sent."""
        self.now_s = now_s
        before = len(self.nodes.log)
        self.leases.look(now_s)
        beating = self.leases._beating
        if beating is not None:
            await asyncio.wait([beating])
        return self.nodes.log[before:]


def ids(*numbers: int) -> list[bytes]:
    return [job_id(number).encode() for number in numbers]


def test_one_working_a_node_three_times_in_a_lease() -> None:
    async def play() -> None:
        scene = Scene(lambda _address, words: [30] * (len(words) - 1) if len(words) > 2 else 30)
        assert await scene.look(0.0) == []
        first = scene.add(1)
        scene.add(2)
        scene.add(3, B)
        assert await scene.look(5.0) == []
        assert await scene.look(10.0) == [(A, [b"WORKING", *ids(1, 2)]), (B, [b"WORKING", *ids(3)])]
        assert first.lease_until_s == 40.0
        assert await scene.look(19.0) == []
        assert len(await scene.look(20.0)) == 2
        assert scene.lost == []

    asyncio.run(play())


def test_a_lease_that_nobody_renews_is_lost_and_is_not_renewed_after_that() -> None:
    async def play() -> None:
        scene = Scene(lambda _address, _words: lost())
        job = scene.add(1)
        assert await scene.look(10.0)
        assert await scene.look(13.1), "sooner again, since nobody answered"
        await scene.look(29.9)
        assert scene.lost == []
        sent = await scene.look(30.0)
        assert scene.lost == [job]
        assert sent == []
        await scene.look(60.0)
        assert scene.lost == [job]

    asyncio.run(play())


def test_cancelled_at_once_unknown_at_the_end_of_the_lease() -> None:
    async def play() -> None:
        def answer(_address: Any, words: list[bytes]) -> object:
            said = {1: refusal("CANCELLED"), 2: refusal("NOJOB no"), 3: refusal("TOOLATE no")}
            answers = {ids(number)[0]: one for number, one in said.items()}
            found = [answers.get(word, 0) for word in words[1:]]
            return found if len(found) > 1 else found[0]

        scene = Scene(answer)
        cancelled, unknown, late, forever = (scene.add(number) for number in (1, 2, 3, 4))
        await scene.look(10.0)
        assert scene.cancelled == [cancelled]
        scene.jobs.remove(cancelled)
        await scene.look(30.0)
        assert scene.lost == [unknown, late]
        assert not forever.lost, "a job that is delivered once has no lease"

    asyncio.run(play())


def test_progress_is_said_once() -> None:
    async def play() -> None:
        scene = Scene(lambda _address, _words: 30)
        job = scene.add(1)
        job.progress = "half"
        scene.leases.say()
        scene.leases.say()
        await asyncio.sleep(0.01)
        assert [words for _, words in scene.nodes.log] == [[b"WORKING", *ids(1), b"PROGRESS", b"half"]]
        await scene.leases.close()

    asyncio.run(play())


def test_what_was_lost_is_not_asked_for() -> None:
    """It may be another worker's: WORKING would renew that one's lease."""

    async def play() -> None:
        scene = Scene(lambda _address, _words: 30)
        lost_one, held = scene.add(1), scene.add(2)
        lost_one.lost = True
        scene.leases.ask(lost_one.id)
        scene.leases.ask(held.id)
        await asyncio.sleep(0.01)
        assert [words for _, words in scene.nodes.log] == [[b"WORKING", *ids(2)]]
        await scene.leases.close()

    asyncio.run(play())
