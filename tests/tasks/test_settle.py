"""What became of jobs is told together, to the node that has them, until somebody has heard it."""

import asyncio
from typing import Any

import pytest

from disque.client import AsyncDisque
from disque.tasks.held import Held
from disque.tasks.outcome import Back, Done, Gone, Outcome
from disque.tasks.settle import Settler
from tests.client.fake import A, Answer, AsyncFakePool, B, FakeNodes, config, guarding, job_id, lost, refusal


def held(number: int, until_s: float = 100.0, node: Any = A) -> Held:
    return Held(job_id(number), "q", b"", None, node, until_s)


def settle(answer: Answer, *said: tuple[Held, Outcome], now_s: float = 1.0) -> tuple[list[list[bytes]], Settler]:
    """Say all of this: what was sent."""
    nodes = FakeNodes(answer)

    async def scene() -> Settler:
        client = AsyncDisque(config(A, B, attempts=1, cooldown_ms=0))
        client._pool = AsyncFakePool(nodes)  # type: ignore[assignment]  # a fake of it
        settler = Settler(client, lambda: now_s)
        for one, outcome in said:
            settler.put(one, outcome)
        assert await settler.flushed(30)
        return settler

    settler = asyncio.run(scene())
    return [words for _, words in nodes.log], settler


def ids(*numbers: int) -> list[bytes]:
    return [job_id(number).encode() for number in numbers]


def test_acknowledgements_leave_together_and_the_rest_one_by_one() -> None:
    sent, settler = settle(
        lambda _address, _words: 1,
        (held(1), Done()),
        (held(2), Done(b"5")),
        (held(3), Done()),
        (held(4), Back("why", 1.5)),
        (held(5), Back(counts=False)),
        (held(6), Back("x", dead=True)),
        (held(7), Gone()),
        (held(8), Back(None, 2.0, counts=False)),
        (held(9), Back(counts=False)),
    )
    assert sent == [
        [b"ACKJOB", *ids(1, 3)],
        [b"NACK", *ids(5, 9), b"NOCOUNT"],
        [b"ACKJOB", *ids(2), b"RESULT", b"5"],
        [b"NACK", *ids(4), b"DELAY", b"1.5", b"ERROR", b"why"],
        [b"NACK", *ids(6), b"ERROR", b"x", b"DEAD"],
        [b"NACK", *ids(8), b"DELAY", b"2", b"NOCOUNT"],
    ]
    assert len(settler) == 0


def test_each_node_hears_of_its_own_jobs() -> None:
    nodes = FakeNodes(lambda _address, _words: 1)

    async def scene() -> None:
        client = AsyncDisque(config(A, B))
        client._pool = AsyncFakePool(nodes)  # type: ignore[assignment]  # a fake of it
        settler = Settler(client, lambda: 1.0)
        settler.put(held(1, node=A), Done())
        settler.put(held(2, node=B), Done())
        assert await settler.flushed(30)

    asyncio.run(scene())
    assert nodes.log == [(A, [b"ACKJOB", *ids(1)]), (B, [b"ACKJOB", *ids(2)])]


def test_what_no_node_took_is_sent_again_a_failure_while_its_lease_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.tasks.settle.AGAIN_S", 0)
    failures = [5]

    def answer(_address: Any, _words: list[bytes]) -> object:
        if failures[0]:
            failures[0] -= 1
            return lost()
        return 1

    sent, _ = settle(answer, (held(1, until_s=0.5), Done()), (held(2, until_s=0.5), Back("late")), (held(3), Back("x")))
    assert sent[-2:] == [[b"ACKJOB", *ids(1)], [b"NACK", *ids(3), b"ERROR", b"x"]]
    assert not [words for words in sent if ids(2)[0] in words]


def test_a_result_that_is_refused_is_a_dead_letter() -> None:
    def answer(_address: Any, words: list[bytes]) -> object:
        return refusal("ERR a result may have 1048576 bytes") if b"RESULT" in words else 1

    sent, settler = settle(answer, (held(1), Done(b"x" * 10)), (held(2), Done()))
    assert sent[-1][:2] == [b"NACK", *ids(1)]
    assert sent[-1][-1] == b"DEAD"
    assert b"its result was refused: " in sent[-1][3]
    assert settler.refused == 1


def test_a_delay_that_is_refused_is_a_failure() -> None:
    def answer(_address: Any, words: list[bytes]) -> object:
        return refusal("ERR DELAY must be at most 4294967295 seconds") if b"DELAY" in words else 1

    sent, settler = settle(answer, (held(1), Back(delay_s=1e12, counts=False)), (held(2), Back("Retry", 1e12)))
    for words, number in zip(sent[-2:], (1, 2), strict=True):
        assert words[:3] == [b"NACK", *ids(number), b"ERROR"]
        assert words[3].startswith(b"the job cannot be held back for 1e+12 s: ")
        assert len(words) == 4, "the back-off says when"
    assert settler.refused == 2


def test_an_end_that_cannot_be_told() -> None:
    async def scene() -> int:
        client = AsyncDisque(config(A, attempts=1))
        client._pool = AsyncFakePool(FakeNodes(lambda _address, _words: lost()))  # type: ignore[assignment]  # a fake
        settler = Settler(client, lambda: 1.0)
        assert await settler.flushed(30)
        settler.put(held(1), Done())
        assert not await settler.flushed(0.01)
        return len(list(settler.waiting()))

    assert asyncio.run(scene()) == 1


def test_what_is_on_its_way_counts_as_not_told_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        client = AsyncDisque(config(A, attempts=1))
        stays = asyncio.Event()

        async def drive(flow: Any) -> object:
            flow.close()
            await stays.wait()
            return [([], 1)]

        monkeypatch.setattr(client, "drive", drive)  # a node that does not answer yet
        settler = Settler(client, lambda: 1.0)
        one, other = held(1), held(2)
        settler.put(one, Done())
        await asyncio.sleep(0)
        settler.put(other, Done())
        assert list(settler.waiting()) == [one, other]
        assert len(settler) == 2
        stays.set()
        assert await settler.flushed(30)
        assert len(settler) == 0

    asyncio.run(scene())


def test_a_job_that_is_out_of_reach_spoils_nothing_for_those_beside_it() -> None:
    said: list[tuple[Held, Outcome]] = [
        (held(1), Done()),
        (held(2), Done()),
        (held(3), Back(counts=False)),
        (held(4), Back(counts=False)),
    ]
    sent, settler = settle(guarding(job_id(1), job_id(3)), *said)
    assert sent[2:] == [
        [b"ACKJOB", *ids(1)],
        [b"ACKJOB", *ids(2)],
        [b"NACK", *ids(3), b"NOCOUNT"],
        [b"NACK", *ids(4), b"NOCOUNT"],
    ]
    assert (len(settler), settler.refused) == (0, 2)


def test_what_was_said_alone_and_not_heard_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.tasks.settle.AGAIN_S", 0)
    answer, asked = guarding(job_id(1)), []

    def once_lost(address: Any, words: list[bytes]) -> object:
        asked.append(words)
        return lost() if len(asked) in {3, 4} else answer(address, words)

    sent, settler = settle(once_lost, (held(1), Done()), (held(2), Done()), now_s=1.0)
    assert sent[-1] == [b"ACKJOB", *ids(2)]
    assert (len(settler), settler.refused) == (0, 1)
