"""Arguments that the worker provides."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest

from disque.tasks.depends import Depends, Plan

LOG: list[str] = []


async def settings() -> str:
    LOG.append("settings")
    return "s"


def plain(config: str = Depends(settings)) -> str:
    return f"plain({config})"


async def asynchronous(config: str = Depends(settings)) -> AsyncIterator[str]:
    LOG.append("open")
    yield f"async({config})"
    LOG.append("close")


def generator(inner: str = Depends(asynchronous)) -> Iterator[str]:
    LOG.append("begin")
    yield f"gen({inner})"
    LOG.append("end")


@asynccontextmanager
async def managed() -> AsyncIterator[str]:
    LOG.append("enter")
    yield "managed"
    LOG.append("leave")


@contextmanager
def managed_plainly() -> Iterator[str]:
    yield "plainly"


def test_each_is_made_once_and_closed_in_the_opposite_order() -> None:
    def task(
        a: str = Depends(plain),
        b: str = Depends(generator),
        c: str = Depends(managed),
        d: str = Depends(managed_plainly),
    ) -> None: ...

    async def scene() -> dict[str, object]:
        async with AsyncExitStack() as stack:
            return await Plan(task).fill(stack, {})

    LOG.clear()
    given = asyncio.run(scene())
    assert given == {"a": "plain(s)", "b": "gen(async(s))", "c": "managed", "d": "plainly"}
    assert LOG == ["settings", "open", "begin", "enter", "leave", "end", "close"]


def test_a_circle_is_refused() -> None:
    def one(x: int = 0) -> int:
        return x

    def two(x: int = Depends(one)) -> int:
        return x

    one.__defaults__ = (Depends(two),)
    with pytest.raises(TypeError, match="depends on itself"):
        Plan(one)


def test_what_cannot_be_provided() -> None:
    def positional(x: int = Depends(settings), /) -> None: ...  # type: ignore[assignment]  # no matter

    with pytest.raises(TypeError, match="positional only"):
        Plan(positional)
    with pytest.raises(TypeError, match="takes a function"):
        Depends(5)  # type: ignore[call-overload]  # that is what is refused
    assert repr(plain.__defaults__) == "(Depends(settings),)"
