"""Requests that travel together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from disque.client import AsyncDisque, BadIdError, Config, UnavailableError
from disque.gateway.lane import PARCELS, Lane
from tests.client.served import SILENCE, Served


def with_lane(served: Served, work: Callable[[Lane], Awaitable[Sequence[object]]]) -> Sequence[object]:
    """Do something with a lane to a server."""

    async def both() -> Sequence[object]:
        async with AsyncDisque(Config(nodes=(served.address,), discover=False, attempts=1)) as client:
            return await work(Lane(client))

    return asyncio.run(both())


def test_what_is_asked_in_one_iteration_shares_a_connection_and_each_gets_its_own_reply() -> None:
    with Served(lambda words: b"+%b\r\n" % words[1] if words[0] == b"ECHO" else b"+OK\r\n") as served:
        replies = with_lane(
            served, lambda lane: asyncio.gather(*[lane.ask([b"ECHO", b"%d" % number]) for number in range(1000)])
        )
    assert replies == [b"%d" % number for number in range(1000)]
    assert served.connections <= PARCELS


def test_an_error_is_that_of_its_request_alone() -> None:
    with Served(lambda words: b"-BADID no\r\n" if words[1:] == [b"bad"] else b"+OK\r\n") as served:
        replies = with_lane(
            served,
            lambda lane: asyncio.gather(lane.ask([b"SHOW", b"bad"]), lane.ask([b"PING"]), return_exceptions=True),
        )
    assert isinstance(replies[0], BadIdError)
    assert replies[1] == b"OK"


def test_without_a_node_all_are_told_so() -> None:
    async def both() -> None:
        async with AsyncDisque(Config(nodes=(("127.0.0.1", 1),), discover=False, attempts=1)) as client:
            lane = Lane(client)
            first, second = lane.ask([b"PING"]), lane.ask([b"PING"])
            with pytest.raises(UnavailableError):
                await first
            with pytest.raises(UnavailableError):
                await second
            with pytest.raises(UnavailableError):
                await lane.ask([b"PING"])

    asyncio.run(both())


def test_parcels_that_wait_for_a_node_that_hangs_hold_up_no_others() -> None:
    async def both(hanging: Served, well: Served) -> None:
        config = Config(
            nodes=(hanging.address, well.address), discover=False, attempts=1, order="given", timeout_ms=60_000
        )
        async with AsyncDisque(config) as client:
            lane = Lane(client)
            stuck = []
            while len(lane._under_way) < PARCELS:  # each leaves in a turn of its own
                stuck.append(lane.ask([b"ECHO"]))
                await asyncio.sleep(0)
            behind = lane.ask([b"ECHO"])
            while len(hanging.named(b"ECHO")) < PARCELS:  # noqa: ASYNC110 - they arrive in a moment
                await asyncio.sleep(0.001)
            client.router.failed(hanging.address)
            lane.step_aside(hanging.address)
            assert await behind == b"well"
            assert not any(one.done() for one in stuck)
            for one in stuck:
                one.cancel()
            for task in lane._aside:
                task.cancel()

    with Served(lambda _words: SILENCE) as hanging, Served(lambda _words: b"+well\r\n") as well:
        asyncio.run(both(hanging, well))


def test_who_has_left_hinders_nobody() -> None:
    async def work(lane: Lane) -> list[object]:
        left, stays = lane.ask([b"PING"]), lane.ask([b"PING"])
        left.cancel()
        return [await stays]

    with Served(lambda _words: b"+OK\r\n") as served:
        assert with_lane(served, work) == [b"OK"]


def test_whoever_waits_for_a_parcel_that_is_given_up_is_told_so() -> None:
    async def both() -> None:
        with Served(lambda _: SILENCE) as served:
            async with AsyncDisque(Config(nodes=(served.address,), discover=False, attempts=1)) as client:
                lane = Lane(client)
                answer = lane.ask([b"PING"])
                while not lane._under_way:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0)
                for task in lane._under_way:
                    asyncio.get_running_loop().call_soon(task.cancel)
                with pytest.raises(UnavailableError, match="given up"):
                    await answer

    asyncio.run(both())
