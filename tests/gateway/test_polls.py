"""Long polls that share a connection."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from disque.client import AsyncDisque, Config, UnavailableError
from disque.gateway import polls as module
from disque.gateway.polls import CrowdedError, Polls, Terms
from tests.end_to_end.node import Node

MAILS: Terms = ((b"mails",), (b"LEASE", b"30"))


def play(node: Node, act: Callable[[Polls], Awaitable[None]]) -> None:
    """Do something with polls at a node."""

    async def both() -> None:
        async with AsyncDisque(Config(nodes=(("127.0.0.1", node.port),), discover=False)) as client:
            polls = Polls(client)
            await act(polls)
            await polls.close()

    asyncio.run(both())


async def waiting(polls: Polls, number: int) -> None:
    """Wait until so many polls wait, and a GETJOB of theirs does."""
    await until(lambda: nothing(polls.waiting >= number))
    await until(lambda: blocked(polls))


async def nothing(value: bool) -> bool:
    return value


async def blocked(polls: Polls) -> bool:
    """Whether a client waits for jobs at the node."""
    return bool((await polls.client.info("clients"))["blocked_clients"])


async def until(ask: Callable[[], Awaitable[bool]], *, said: bool = True) -> None:
    """Ask until the answer is this."""
    while await ask() != said:  # noqa: ASYNC110 - it is the node that is waited for
        await asyncio.sleep(0.001)


def test_a_thousand_polls_are_one_client_of_the_node_and_are_served_in_order(node: Node) -> None:
    async def act(polls: Polls) -> None:
        tasks = [asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(1000)]
        await waiting(polls, 1000)
        assert (await polls.client.info("clients"))["blocked_clients"] == 1
        ids = [await polls.client.add("mails", str(number)) for number in range(5)]
        rows = await asyncio.gather(*tasks[:5])
        assert [row.job_id for row in rows if row] == [job_id.encode() for job_id in ids]
        assert not any(task.done() for task in tasks[5:])

    play(node, act)


def test_a_poll_ends_when_its_time_is_over_and_leaves_nothing_behind(node: Node) -> None:
    async def act(polls: Polls) -> None:
        assert await polls.wait(MAILS, 0.01) is None
        assert polls.waiting == 0
        await until(lambda: blocked(polls), said=False)
        await polls.client.add("mails", "later")
        assert await polls.client.queue_length("mails") == 1

    play(node, act)


def test_a_job_for_which_nobody_is_left_goes_back_and_no_try_is_used(node: Node) -> None:
    async def act(polls: Polls) -> None:
        task = asyncio.create_task(polls.wait(MAILS, 60))
        await waiting(polls, 1)
        job_id = await polls.client.add("mails", "one", tries=1)
        await polls.give_back([job_id.encode()])  # as the line does with what is spare
        row = await task
        assert row is not None
        await polls.give_back([row.job_id])
        assert (await polls.client.show(job_id) or {})["state"] == "queued"

    play(node, act)


def test_polls_that_leave_one_by_one_leave_the_others_alone(node: Node) -> None:
    async def act(polls: Polls) -> None:
        gone, stays = (asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(2))
        await waiting(polls, 2)
        gone.cancel()
        await asyncio.wait([gone])
        await polls.client.add("mails", "one")
        job = await stays
        assert job is not None
        assert job.body == b"one"

    play(node, act)


def test_closing_ends_all_of_them_without_a_job(node: Node) -> None:
    async def act(polls: Polls) -> None:
        tasks = [asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(10)]
        await waiting(polls, 10)
        await polls.close()
        assert await asyncio.gather(*tasks) == [None] * 10
        assert await polls.wait(MAILS, 60) is None

    play(node, act)


def test_there_are_only_so_many_lines(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINES", 1)

    async def act(polls: Polls) -> None:
        task = asyncio.create_task(polls.wait(MAILS, 60))
        await waiting(polls, 1)
        with pytest.raises(CrowdedError):
            await polls.wait(((b"other",), ()), 60)
        task.cancel()

    play(node, act)


def test_without_a_node_polls_are_told_so() -> None:
    async def both() -> None:
        async with AsyncDisque(Config(nodes=(("127.0.0.1", 1),), discover=False, attempts=1)) as client:
            polls = Polls(client)
            tasks = [asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(2)]
            for task in tasks:
                with pytest.raises(UnavailableError):
                    await task
            await polls.close()

    asyncio.run(both())
