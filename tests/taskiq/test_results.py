import asyncio
from typing import Any

import pytest
from taskiq.result import TaskiqResult

from disque.client import NoReplError
from disque.taskiq import DisqueResultBackend
from disque.taskiq.results import NoResultError
from tests.end_to_end.node import Node


def result(value: Any, error: BaseException | None = None) -> TaskiqResult[Any]:
    return TaskiqResult(is_err=error is not None, return_value=value, execution_time=0.1, error=error)


def test_a_result_is_kept_and_the_first_one_counts(node: Node, url: str) -> None:
    async def main() -> None:
        backend: DisqueResultBackend[Any] = DisqueResultBackend(url, retain=60)
        assert not await backend.is_result_ready("one")
        with pytest.raises(NoResultError):
            await backend.get_result("one")
        for value in ({"a": [1, None]}, "second"):
            await backend.set_result("one", result(value))
        assert await backend.is_result_ready("one")
        assert (await backend.get_result("one", with_logs=True)).return_value == {"a": [1, None]}
        await backend.set_result("two", result(None, KeyError("no")))
        assert isinstance((await backend.get_result("two")).error, KeyError)
        await backend.shutdown()

    asyncio.run(main())
    assert node.ask("QLEN", "taskiq:results") == 0


def test_one_that_was_begun_is_no_result(node: Node, url: str) -> None:
    async def main() -> None:
        backend: DisqueResultBackend[Any] = DisqueResultBackend(url)
        await backend.client.add(backend.queue, b"", unique="one", window=60)  # and then its worker died
        assert not await backend.is_result_ready("one")
        await backend.set_result("one", result(7))
        await backend.shutdown()

    asyncio.run(main())
    assert node.ask("QLEN", "taskiq:results") == 0


def test_it_is_on_as_many_nodes_as_is_said(node: Node, url: str) -> None:
    del node

    async def main() -> None:
        backend: DisqueResultBackend[Any] = DisqueResultBackend(url, replicate=2)
        with pytest.raises(NoReplError):
            await backend.set_result("one", result(1))
        await backend.shutdown()

    asyncio.run(main())


def test_a_node_that_hangs_costs_no_result(node: Node, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    del node
    begun: list[str] = []

    async def main() -> None:
        backend: DisqueResultBackend[Any] = DisqueResultBackend(url)
        add = backend.client.add

        async def hangs(queue: str, body: bytes, **given: Any) -> str:
            begun.append(given["unique"])
            if len(begun) == 1:
                raise NoReplError("NOREPL Timeout reached")
            return await add(queue, body, **given)

        monkeypatch.setattr(backend.client, "add", hangs)
        await backend.set_result("one", result(1))
        assert (await backend.get_result("one")).return_value == 1
        await backend.shutdown()

    asyncio.run(main())
    assert begun == ["one", "one"]


@pytest.mark.parametrize("retain", [0, -1, 8 * 86_400])
def test_a_time_that_cannot_be_is_refused(retain: float) -> None:
    with pytest.raises(ValueError, match="retain must be above 0"):
        DisqueResultBackend(retain=retain)
