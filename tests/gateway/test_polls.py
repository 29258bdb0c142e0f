"""Long polls that share a connection."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import pytest

from disque.client import AsyncDisque, Config, UnavailableError
from disque.client.config import Address
from disque.client.delivery import Parcel
from disque.gateway import polls as module
from disque.gateway.polls import CrowdedError, Line, Polls, Terms
from disque.gateway.taken import Taken
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
        await polls.give_back([job_id.encode()], None)  # as the line does with what is spare
        row = await task
        assert row is not None
        await polls.give_back([row.job_id], None)
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


# -- what has ended leaves the line, and nothing is asked for without somebody who takes it ---------------------------


def test_polls_that_have_ended_or_were_cancelled_leave_the_line(node: Node) -> None:
    async def act(polls: Polls) -> None:
        stays = asyncio.create_task(polls.wait(MAILS, 60))
        await waiting(polls, 1)
        for _ in range(3):
            assert not any(await asyncio.gather(*[polls.wait(MAILS, 0.001) for _ in range(50)]))
        gone = [asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(50)]
        await waiting(polls, 51)
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        assert len(polls._lines[MAILS].polls) == polls.waiting == 1
        await polls.client.add("mails", "one")
        assert await stays

    play(node, act)


def test_polls_that_end_while_a_getjob_waits_take_no_at_most_once_jobs_with_them(node: Node) -> None:
    async def act(polls: Polls) -> None:
        gone = [asyncio.create_task(polls.wait(MAILS, 60)) for _ in range(49)]
        stays = asyncio.create_task(polls.wait(MAILS, 60))
        await waiting(polls, 50)
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        await polls.client.pause("mails", "out")
        for number in range(50):
            await polls.client.add("mails", str(number), retry=0, replicate=1)
        await polls.client.pause("mails", "none")
        assert await stays
        await polls.close()
        assert await polls.client.queue_length("mails") == 49

    play(node, act)


GIVER: Address = ("10.0.0.7", 7711)


def job_of(name: bytes) -> Taken:
    return Taken(b"mails", name, b"", 0, None, 0, 0, 0, 0, None, None, {})


class Asked(NamedTuple):
    """A GETJOB, as a line asks."""

    wanted: int
    waits: bool
    answer: "asyncio.Future[list[Taken]]"


class ByHand(Polls):
    """Polls whose GETJOBs the test answers."""

    def __init__(self, client: AsyncDisque) -> None:
        super().__init__(client)
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()
        self.back: list[tuple[bytes, Address | None]] = []

    async def _fetch(self, terms: Terms, line: Line, *, waits: bool) -> tuple[list[Taken], Address | None]:
        assert terms == MAILS
        one = Asked(line.asked, waits, asyncio.get_running_loop().create_future())
        self.asked.put_nowait(one)
        return await one.answer, GIVER

    async def give_back(self, ids: list[bytes], node: Address | None) -> None:
        self.back += [(job_id, node) for job_id in ids]

    def over(self, at: int) -> None:
        """The time of the poll at this place is over."""
        [line] = self._lines.values()
        self._over(MAILS, line, list(line.polls)[at])

    def begin(self, number: int) -> "list[asyncio.Task[Taken | None]]":
        """So many polls."""
        return [asyncio.create_task(self.wait(MAILS, 60)) for _ in range(number)]

    async def answer(self, *names: bytes) -> tuple[int, bool]:
        """Answer the next GETJOB with these jobs; how many it wanted, and whether it waits."""
        one = await self.asked.get()
        one.answer.set_result([job_of(name) for name in names])
        return one.wanted, one.waits


def by_hand(act: Callable[[ByHand], Coroutine[Any, Any, None]], *, tls: bool = False) -> None:
    async def both() -> None:
        async with AsyncDisque(Config(nodes=(("127.0.0.1", 1),), discover=False, tls=tls)) as client:
            await asyncio.wait_for(act(ByHand(client)), 30)

    asyncio.run(both())


async def names_of(tasks: "list[asyncio.Task[Taken | None]]") -> list[bytes | None]:
    return [None if job is None else job.job_id for job in await asyncio.gather(*tasks)]


def cancel_when_served(polls: Polls, task: "asyncio.Task[Taken | None]", monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a task when its poll has a job, and before it goes on."""
    hand_out = polls._hand_out

    def and_cancel(terms: Terms, line: Line, jobs: list[Taken], node: Address | None) -> None:
        hand_out(terms, line, jobs, node)
        task.cancel()

    monkeypatch.setattr(polls, "_hand_out", and_cancel)


def test_who_waits_asks_for_one_job_and_fetches_the_others_for_those_who_are_there() -> None:
    async def act(polls: ByHand) -> None:
        tasks = polls.begin(5)
        assert await polls.answer(b"a") == (1, True)
        assert await polls.answer(b"b", b"c", b"d") == (4, False)  # fewer than wanted: there are no more
        assert await polls.answer(b"e") == (1, True)
        assert await names_of(tasks) == [b"a", b"b", b"c", b"d", b"e"]
        assert (polls.asked.empty(), polls._lines, polls.back) == (True, {}, [])

    by_hand(act)


def test_a_poll_whose_time_is_over_stays_while_a_job_may_come_that_no_other_would_take() -> None:
    async def act(polls: ByHand) -> None:
        tasks = polls.begin(4)
        await polls.answer(b"a")
        asked = await polls.asked.get()
        assert (asked.wanted, asked.waits) == (3, False)
        tasks += polls.begin(1)
        await asyncio.sleep(0)
        polls.over(0)  # another one has come, and can take what was asked for
        assert await tasks[1] is None
        for at in (0, 1):
            polls.over(at)
        asked.answer.set_result([job_of(b"b")])
        assert await names_of(tasks[:4]) == [b"a", None, b"b", None]
        assert not tasks[4].done()
        await polls.answer(b"c")
        assert (await names_of(tasks[4:]), polls.back) == ([b"c"], [])

    by_hand(act)


def test_the_last_poll_whose_time_is_over_takes_what_is_on_its_way() -> None:
    async def act(polls: ByHand) -> None:
        tasks = polls.begin(1)
        asked = await polls.asked.get()
        polls.over(0)
        assert polls._lines == {}  # who comes now stands in a new line
        later = polls.begin(1)
        asked.answer.set_result([job_of(b"a")])
        assert await names_of(tasks) == [b"a"]
        await polls.answer(b"b")
        assert (await names_of(later), polls.back) == ([b"b"], [])

    by_hand(act)


def test_a_poll_is_not_held_for_ever() -> None:
    async def act(polls: ByHand) -> None:
        tasks = polls.begin(1)
        asked = await polls.asked.get()
        [line] = polls._lines.values()
        polls.over(0)
        polls._let_go(line)
        assert await names_of(tasks) == [None]
        asked.answer.set_result([job_of(b"late")])
        await polls.close()
        assert polls.back == [(b"late", GIVER)]

    by_hand(act)


def test_a_wait_for_nobody_is_given_up_over_tls_where_nothing_else_ends_it() -> None:
    async def act(polls: ByHand) -> None:
        [task] = polls.begin(1)
        asked = await polls.asked.get()
        task.cancel()
        await polls.close()
        assert asked.answer.cancelled()

    by_hand(act, tls=True)


def test_what_was_on_its_way_to_a_client_that_left_goes_to_the_next_poll_or_back_to_its_node() -> None:
    async def act(polls: ByHand) -> None:
        [gone] = polls.begin(1)
        asked = await polls.asked.get()
        gone.cancel()
        await asyncio.wait([gone])
        tasks = polls.begin(1)  # in a new line
        await polls.asked.get()
        asked.answer.set_result([job_of(b"a"), job_of(b"b")])
        assert await names_of(tasks) == [b"a"]
        assert polls.back == [(b"b", GIVER)]

    by_hand(act)


def test_a_job_for_a_poll_that_is_cancelled_with_it_in_its_hands_goes_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(polls: ByHand) -> None:
        gone, stays = polls.begin(2)
        asked = await polls.asked.get()
        cancel_when_served(polls, gone, monkeypatch)
        asked.answer.set_result([job_of(b"a")])
        assert await names_of([stays]) == [b"a"]
        assert (gone.cancelled(), polls.back) == (True, [])

    by_hand(act)


def test_a_getjob_waits_no_longer_than_the_polls(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    waits_ms: list[int] = []

    def parcel(requests: list[bytes], wait_ms: int) -> Parcel:
        waits_ms.append(wait_ms)
        return Parcel(requests, wait_ms)

    monkeypatch.setattr(module, "Parcel", parcel)

    async def act(polls: Polls) -> None:
        short = polls.wait(MAILS, 0.05)
        assert await short is None
        assert waits_ms
        assert all(0 < wait_ms <= 50 for wait_ms in waits_ms)
        tasks = [asyncio.create_task(polls.wait(MAILS, 60))]
        await waiting(polls, 1)
        assert waits_ms[-1] == module.WAIT_MS
        tasks[0].cancel()

    play(node, act)


def test_jobs_go_back_to_the_node_that_gave_them(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[list[bytes], Address | None, bool]] = []

    async def act(polls: Polls) -> None:
        async def give_back(ids: list[bytes], at: Address | None, *, count: bool) -> None:
            told.append((ids, at, count))

        monkeypatch.setattr(polls.client, "give_back_quietly", give_back)
        task = asyncio.create_task(polls.wait(MAILS, 60))
        await waiting(polls, 1)
        cancel_when_served(polls, task, monkeypatch)
        job_id = await polls.client.add("mails", "one")
        await asyncio.wait([task])
        await polls.close()
        assert told == [([job_id.encode()], ("127.0.0.1", node.port), False)]

    play(node, act)
