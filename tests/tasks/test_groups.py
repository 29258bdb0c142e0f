"""Groups: something when all are done, or a dead letter that says who is not."""

import asyncio
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from disque.client import Config, Disque, Ended
from disque.tasks import App, Dead, JobFailedError, MessageError, NotDoneError, Snooze
from disque.tasks.door import BlockingDoor, ServerDoor
from disque.tasks.groups import NAME, ends
from disque.tasks.memory import Memory
from disque.tasks.message import Format
from disque.tasks.options import TTL_S, Options
from disque.tasks.task import Bound
from tests.client.fake import both, making, refusal
from tests.tasks.support import Shop


def test_all_results_in_order_then_the_next_task() -> None:
    app = App()
    got: list[list[int]] = []

    @app.task
    async def square(number: int) -> int:
        return number * number

    @app.task(queue="sums", retain=60)
    def total(numbers: list[int], more: int) -> int:
        got.append(numbers)
        return sum(numbers) + more

    async def scene() -> None:
        async with app.testing() as t:
            job = await app.group(square.bind(n) for n in range(5)).then(total, 100).enqueue()
            assert len(t.jobs("default")) == 5
            assert len(t.jobs("sums")) == 1
            with pytest.raises(NotDoneError):
                await job.result()
            await t.run()
            assert got == [[0, 1, 4, 9, 16]]
            assert await job.result() == 130
            plain = await app.group([square.bind(2), square.bind(3)]).enqueue()
            await t.run()
            assert await plain.result() == [4, 9]

    asyncio.run(scene())


@dataclass
class Birth:
    name: str
    day: dt.date


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_results_are_what_the_members_say_that_they_give(form: Format) -> None:
    app = App(format=form)
    ada = Birth("Ada", dt.date(1815, 12, 10))

    @app.task
    async def birth(name: str) -> Birth | None:
        return ada if name == "Ada" else None

    @app.task
    async def body() -> bytes:
        return b"\xff"

    @app.task
    async def odd() -> int:
        return "one"  # type: ignore[return-value]  # that is the point

    @app.task(retain=60)
    def days(births: list[Birth | None]) -> list[dt.date]:
        return [one.day for one in births if one]

    async def scene() -> None:
        async with app.testing() as t:
            births = await app.group([birth.bind("Ada"), birth.bind("nobody")]).enqueue()
            mixed = await app.group([birth.bind("Ada"), body.bind()]).enqueue()
            chain = await app.group([birth.bind("Ada")]).then(days).enqueue()
            wrong = await app.group([odd.bind()]).enqueue()
            await t.run()
            assert await births.result() == [ada, None]
            assert await mixed.result() == [ada, b"\xff"]
            assert await chain.result() == [ada.day]
            with pytest.raises(MessageError, match=r"does not fit: \[0\]: int is expected, not str 'one'"):
                await wrong.result()

    asyncio.run(scene())


def test_the_collector_snoozes_longer_and_longer_and_uses_up_no_try() -> None:
    app = App()

    @app.task
    async def late() -> str:
        return "done"

    async def scene() -> None:
        async with app.testing() as t:
            began = t.memory.now_s
            job = await app.group([late.using(delay=1000).bind(), late.bind()]).enqueue()
            await t.run()
            await t.advance(900)
            looks = t.runs - 1
            assert 30 < looks < 60, "at most half a minute apart"
            [entry] = [one for one in t.jobs() if one.id == job.id]
            assert entry.tries == 0
            await t.advance(131)
            assert await job.result() == ["done", "done"]
            assert t.memory.now_s == began + 1031

    asyncio.run(scene())


def test_a_member_that_fails_is_named_and_both_can_be_revived() -> None:
    app = App(tries=1)
    works = [False]

    @app.task
    async def fragile(number: int) -> int:
        if not works[0] and number == 1:
            raise ValueError("not yet")
        return number

    async def scene() -> None:
        async with app.testing() as t:
            job = await app.group(fragile.bind(n) for n in range(3)).enqueue()
            await t.run()
            await t.advance(1)
            with pytest.raises(JobFailedError, match=r"1 of 3 jobs of the group .* is dead-letter: ValueError"):
                await job.result()
            works[0] = True
            for entry in t.dead():
                t.revive(entry)
            await t.run()
            assert await job.result() == [0, 1, 2]

    asyncio.run(scene())


def test_limits_of_the_app_are_not_those_of_the_collector() -> None:
    app = App(tries=1, timeout=1, ttl=60)

    @app.task(ttl=3600)
    async def slow() -> str:
        return "done"

    @app.task
    async def brief() -> None:
        raise Snooze(100)

    async def scene() -> None:
        async with app.testing() as t:
            collecting = app.builtins[NAME]
            assert (collecting.options.tries, collecting.timeout_s) == (10, 1800)
            job = await app.group([slow.using(delay=1000).bind(), slow.bind()]).enqueue()
            await t.advance(1300)
            assert await job.result() == ["done", "done"]
            long = await app.group([slow.using(ttl=TTL_S + 5).bind(), slow.bind()]).enqueue()
            assert (t.memory.entries[long.id].job.tries, t.memory.entries[long.id].job.ttl) == (10, TTL_S + 5)
            expiring = await app.group([brief.bind()]).enqueue()
            await t.advance(200)
            with pytest.raises(JobFailedError, match=r"1 of 1 jobs of the group .* is expired"):
                await expiring.result()

    asyncio.run(scene())


def test_the_list_is_not_kept_beside_what_comes_next() -> None:
    app = App(retain=60)

    @app.task
    async def one() -> int:
        return 1

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    async def scene() -> None:
        async with app.testing() as t:
            job = await app.group([one.bind(), one.bind()]).then(total).enqueue()
            await t.run()
            status = await job.status()
            assert status is not None
            assert (status.status, status.result, await job.result()) == ("done", None, 2)

    asyncio.run(scene())


def test_an_end_that_was_forgotten_is_told_by_memory_and_by_a_node(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def quick() -> None: ...

    async def scene() -> None:
        async with app.testing() as t:
            job = await app.group([quick.using(retain=2).bind(), quick.using(delay=60).bind()]).enqueue()
            await t.run()
            await t.advance(90)
            with pytest.raises(JobFailedError, match=r"1 of 2 jobs .* is gone: no node remembers how it ended"):
                await job.result()
        async with app, shop.working():
            [lost] = await app.enqueue_many([quick.using(delay=60).bind()])
            await app.client.delete(lost.id)
            long_ago = app.now_s() - 3600
            options = Options(queue=shop.queue, retain=60)
            collecting: Bound[object] = Bound(app.builtins[NAME], options, ([lost.id], long_ago), {})
            with pytest.raises(JobFailedError, match=r"1 of 1 jobs .* is unknown: no node remembers how it ended"):
                await (await collecting.enqueue()).result(30)

    asyncio.run(scene())


def test_what_is_no_group() -> None:
    app = App()

    @app.task
    async def one() -> int:
        return 1

    @app.task
    async def two(before: int) -> int:
        return before

    with pytest.raises(ValueError, match="needs members"):
        app.group([])
    with pytest.raises(ValueError, match="cannot be a chain"):
        app.group([one.bind().then(two)])


def test_over_a_node(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def square(number: int) -> int:
        await asyncio.sleep(number / 100)
        return number * number

    @app.task(retain=60)
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    async def scene() -> None:
        async with app, shop.working():
            job = await app.group(square.bind(n) for n in range(20)).then(total).enqueue()
            assert await job.result(30) == sum(n * n for n in range(20))

    asyncio.run(scene())


class Kept(Memory):
    """Members that are done, with results of so many bytes each, and how a node is asked after them."""

    def __init__(self, size: int, most: int | None) -> None:
        super().__init__()
        self.body = b"x" * size
        self.most = most
        self.asked: list[int] = []

    async def wait(self, ids: Sequence[str], timeout: object) -> list[Ended | None]:  # noqa: ARG002, ASYNC109 - see `Door`
        self.asked.append(len(ids))
        return [Ended(one, "done", self.body, None) for one in ids]

    async def longest(self) -> int | None:
        return self.most


@pytest.mark.parametrize(
    ("size", "most", "asked"), [(0, 1, [64, 128, 384, 1000, 424]), (1 << 18, None, [64, *[63] * 30, 46])]
)
def test_short_results_come_many_at_a_time_and_long_ones_few(size: int, most: int | None, asked: list[int]) -> None:
    kept = Kept(size, most)
    found = asyncio.run(ends(kept, ["D-1"] * 2000, 1.0))
    assert found is not None
    assert (len(found), kept.asked) == (2000, asked)


def test_results_that_no_job_could_have_are_not_gathered() -> None:
    kept = Kept(50_000, 4_000_000)
    with pytest.raises(Dead, match=r"first 64 of 100 .* 3200000 bytes, and the nodes take 3000000 at most in one job"):
        asyncio.run(ends(Kept(50_000, 3_000_000), ["D-1"] * 100, 1.0))
    with pytest.raises(Dead, match=r"first 100 of 100 .* 5000000 bytes, .* 4000000 .* \(proto-max-bulk-len\)"):
        asyncio.run(ends(kept, ["D-1"] * 100, 1.0))


def test_a_chain_and_a_group_whose_next_job_is_too_long_for_a_node_end(shop: Shop, config: Config) -> None:
    app = shop.app

    @app.task
    async def large(size: int) -> str:
        return "x" * size

    @app.task(retain=60)
    async def length(body: object) -> int:
        return len(str(body))

    async def scene() -> None:
        async with app, shop.working():
            chain = await large.bind(8 << 20).then(length).enqueue()
            with pytest.raises(JobFailedError, match=r"next job was refused: too long: .*takes 2097152 at most"):
                await chain.result(30)
            group = await app.group(large.bind(900_000) for _ in range(4)).then(length).enqueue()
            with pytest.raises(JobFailedError, match=r"3600008 bytes, and the nodes take 2097152 at most"):
                await group.result(30)

    with Disque(config) as client:
        usual = client.config_get("proto-max-bulk-len")["proto-max-bulk-len"]
        client.config_set("proto-max-bulk-len", 2 << 20)
        try:
            asyncio.run(scene())
        finally:
            client.config_set("proto-max-bulk-len", usual)


@both
@pytest.mark.parametrize(
    ("told", "most"),
    [({b"proto-max-bulk-len": b"5000"}, 5000), ({}, None), (refusal("NOPERM no"), None), (refusal("ERR no"), None)],
)
def test_a_node_is_asked_how_long_a_job_may_be(kind: str, told: object, most: int | None) -> None:
    with making(kind) as make:
        hands = make(lambda _address, _words: told)
        door = BlockingDoor(hands.client) if kind == "blocking" else ServerDoor(hands.client)
        assert hands.wait(door.longest()) == most
