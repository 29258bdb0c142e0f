"""Cursors, and walks through all nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from disque.client import AsyncDisque, NodeInfo
from disque.gateway.rest.cursors import page, place_of, read, written
from disque.gateway.rest.cursors import walk as whole_steps
from disque.gateway.rest.operation import Problem
from tests.gateway.rest.conftest import Api


def test_there_and_back() -> None:
    for value in ("", "a/b\u00e9", ["node", 5, 0]):
        assert read(written(value)) == value
        assert written(value).isascii()
    assert place_of("") == ("", 0, 0)


MADE_UP = [{}, [1, 2, 3], ["a", -1, 0], ["a", 1, -1], ["a", 1], ["a", 1, True]]


@pytest.mark.parametrize("text", ["x", "\u00e9", "e30", *map(written, MADE_UP), "A" * 5000, "W" * 999])
def test_what_somebody_made_up_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        place_of(text)


@pytest.mark.parametrize("sizes", [(3, 0, 25, 4), (10, 10), (), (1,) * 30])
def test_pages_are_never_longer_and_show_each_thing_once(sizes: tuple[int, ...]) -> None:
    here = NodeInfo("n" * 40, "h", 1, 1)
    things = [[f"{at}.{number}" for number in range(size)] for at, size in enumerate(sizes)]

    class OneNode:
        async def nodes(self) -> list[NodeInfo]:
            return [here]

        async def ask_at(self, _: NodeInfo, ask: Callable[[AsyncDisque], Awaitable[Any]]) -> Any:
            return await ask(AsyncDisque())

    async def step(_: AsyncDisque, at: int) -> tuple[int, list[str]]:
        return (at + 1) % max(1, len(things)), things[at] if things else []

    async def walk(go: Any) -> list[list[str]]:
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            found, cursor = await go(OneNode(), cursor, 10, step)
            pages.append([one for _, one in found])
        return pages

    every = [one for some in things for one in some]
    pages = asyncio.run(walk(page))
    assert max(map(len, pages)) <= 10
    assert [one for some in pages for one in some] == every
    assert [one for some in asyncio.run(walk(whole_steps)) for one in some] == every


def test_a_walk_meets_each_job_once_and_ends(api: Api) -> None:
    added = {api.add(body=str(number)) for number in range(57)}
    met: list[str] = []
    cursor = ""
    while True:
        page = api("GET", f"/queues/mails/jobs?limit=10&cursor={cursor}")
        met += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(met) == sorted(added)
    assert api.refused("GET", "/queues/mails/jobs?cursor=x") == "this is no cursor of this API"
