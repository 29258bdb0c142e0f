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
    for value in ("", "a/b\u00e9", ["node", 5, "D-1"]):
        assert read(written(value)) == value
        assert written(value).isascii()
    assert place_of("") == ("", 0, "")


MADE_UP = [{}, [1, 2, "x"], ["a", -1, ""], ["a", 1, 2], ["a", 1], ["a", True, ""]]


@pytest.mark.parametrize("text", ["x", "\u00e9", "e30", *map(written, MADE_UP), "A" * 5000, "W" * 999])
def test_what_somebody_made_up_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        place_of(text)


class OneNode:
    """A cluster of one node, each step of which meets the jobs of one list."""

    def __init__(self, steps: list[list[str]]) -> None:
        self.steps = steps

    async def nodes(self) -> list[NodeInfo]:
        return [NodeInfo("n" * 40, "h", 1, 1)]

    async def ask_at(self, _: NodeInfo, ask: Callable[[AsyncDisque], Awaitable[Any]]) -> Any:
        return await ask(AsyncDisque())

    async def step(self, _: AsyncDisque, at: int) -> tuple[int, list[dict[str, str]]]:
        ids = self.steps[at] if self.steps else []
        return (at + 1) % max(1, len(self.steps)), [{"id": one} for one in ids]

    def next(self, go: Any, cursor: str) -> tuple[list[str], str | None]:
        found, more = asyncio.run(go(self, cursor, 10, self.step))
        return [str(one["id"]) for _, one in found], more

    def all(self, go: Any) -> list[list[str]]:
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            found, cursor = self.next(go, cursor)
            pages.append(found)
        return pages


@pytest.mark.parametrize("sizes", [(3, 0, 25, 4), (10, 10), (), (1,) * 30])
def test_pages_are_never_longer_and_show_each_thing_once(sizes: tuple[int, ...]) -> None:
    node = OneNode([[f"{at}.{number}" for number in range(size)] for at, size in enumerate(sizes)])
    every = [one for some in node.steps for one in some]
    pages = node.all(page)
    assert max(map(len, pages)) <= 10
    assert [one for some in pages for one in some] == every
    assert [one for some in node.all(whole_steps) for one in some] == every


@pytest.mark.parametrize("gone", [range(10), range(9), range(9, 10), range(3, 7)])
def test_jobs_that_are_gone_by_the_next_page_hide_no_others(gone: range) -> None:
    node = OneNode([[str(number) for number in range(25)]])
    first, cursor = node.next(page, "")
    assert (first, cursor is None) == (node.steps[0][:10], False)
    node.steps = [[one for one in node.steps[0] if int(one) not in gone]]
    shown = set(first)
    while cursor is not None:
        found, cursor = node.next(page, cursor)
        shown.update(found)
    assert shown == {str(number) for number in range(25)}


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


@pytest.mark.parametrize("sizes", [(3, 0, 25, 4), (1,) * 9])
def test_pages_have_a_bound_of_bytes_too(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.gateway.rest.cursors.VALUES_MOST", 10)
    node = OneNode([[f"{at}.{number:02}" for number in range(size)] for at, size in enumerate(sizes)])
    every = [one for some in node.steps for one in some]
    pages = node.all(page)
    assert max(map(len, pages)) == 3
    assert [one for some in pages for one in some] == every
    assert [one for some in node.all(whole_steps) for one in some] == every


def test_long_results_make_a_page_shorter(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {api.add(retain=60) for _ in range(3)}
    for job_id in ended:
        api("POST", f"/jobs/{job_id}/ack", {"result": "r" * 5000})
    monkeypatch.setattr("disque.gateway.rest.cursors.VALUES_MOST", 4000)
    met: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api("GET", f"/queues/mails/jobs?state=done&cursor={cursor}")
        met += [job["id"] for job in page["jobs"]]
        assert len(page["jobs"]) <= 1
        cursor = page["next"]
    assert sorted(met) == sorted(ended)
