"""A broker on a real node, with taskiq's own receiver."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from taskiq.receiver import Receiver

from disque.client import Disque, DisqueError, TooLateError, UnavailableError
from disque.client.requests import how_words
from disque.taskiq import DisqueBroker, DisqueResultBackend, broker
from disque.taskiq.broker import addressed
from tests.client.fake import cancel_at_each_await
from tests.end_to_end.node import ROOT, Node, until


async def soon(what: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until the answer is true."""
    async with asyncio.timeout(60):
        while not (answer := await what()):  # noqa: ASYNC110 - what is asked is elsewhere
            await asyncio.sleep(0.005)
    return answer


@asynccontextmanager
async def working(one: DisqueBroker) -> AsyncGenerator[None, None]:
    """Let a worker work while the block runs."""
    one.is_worker_process = True
    await one.startup()
    finish = asyncio.Event()
    receiver = Receiver(one, max_async_tasks=5, run_startup=False)
    task = asyncio.create_task(receiver.listen(finish))
    try:
        yield
    finally:
        finish.set()
        await asyncio.wait_for(task, 60)
        await one.shutdown()


def test_tasks_are_run_and_their_results_come_back(node: Node, url: str) -> None:
    async def main() -> list[Any]:
        one = DisqueBroker(url).with_result_backend(DisqueResultBackend(url))

        @one.task("double")
        async def double(number: int) -> int:
            return 2 * number

        @one.task("fail")
        def fail() -> None:
            raise ValueError("bad")

        async with working(one):
            tasks = [await double.kiq(number) for number in range(20)]
            values = [(await task.wait_result(0.01, timeout=60)).return_value for task in tasks]
            failed = await (await fail.kiq()).wait_result(0.01, timeout=60)
            with pytest.raises(ValueError, match="bad"):
                failed.raise_for_error()
            later = await double.kicker().with_labels(delay=0.05).kiq(100)
            return [*values, (await later.wait_result(0.01, timeout=60)).return_value]

    assert asyncio.run(main()) == [*range(0, 40, 2), 200]
    assert node.ask("QLEN", "taskiq") == 0
    assert int(node.info("registered_jobs")) == 0


def test_what_was_taken_and_not_run_goes_back_and_uses_up_no_try(node: Node, url: str) -> None:
    async def main() -> list[bytes]:
        one = DisqueBroker(url, tries=3)
        for number in range(4):
            await one.client.add("taskiq", f"message {number}", tries=3)
        listening = one.listen()
        first = await anext(listening)
        assert node.ask("QLEN", "taskiq") == 0
        await listening.aclose()
        assert node.ask("QLEN", "taskiq") == 3
        await one.shutdown()
        return [first.data]

    assert asyncio.run(main()) == [b"message 0"]
    jobs = node.ask("GETJOB", "COUNT", 10, "WITHCOUNTERS", "FROM", "taskiq")
    assert sorted(job[2] for job in jobs) == [b"message %d" % number for number in range(4)]
    assert {(job[4], job[6]) for job in jobs} == {(0, 0)}


def test_none_is_lost_when_a_wait_is_cancelled(node: Node, url: str) -> None:
    async def main() -> None:
        one = DisqueBroker(url)
        waiting = asyncio.create_task(anext(one.listen()))
        await soon(lambda: asyncio.to_thread(node.ask, "QSTAT", "taskiq"))
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        node.ask("ADDJOB", "taskiq", "message", 0)
        assert node.ask("QLEN", "taskiq") == 1
        await one.shutdown()

    asyncio.run(main())


def test_what_was_taken_goes_back_when_all_is_cancelled_at_each_await(node: Node, url: str) -> None:
    async def main() -> None:
        one = DisqueBroker(url)
        for _ in range(3):
            node.ask("ADDJOB", "taskiq", "message", 0)
        listening = one.listen()
        await anext(listening)
        await cancel_at_each_await(asyncio.ensure_future(listening.aclose()))
        await cancel_at_each_await(asyncio.ensure_future(one.shutdown()))
        await one.client.aclose()
        assert node.ask("QLEN", "taskiq") == 3
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()

    asyncio.run(main())


def test_a_message_is_kept_while_its_task_runs(node: Node, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        one = DisqueBroker(url, lease=0.003)
        said: list[list[str]] = []

        async def working_at(where: Any, ids: list[str]) -> list[int]:
            del where
            said.append(ids)
            if len(said) == 1:
                raise UnavailableError("UNAVAILABLE for a moment")
            return [1] * len(ids)

        monkeypatch.setattr(one.client, "working_at", working_at)
        one._how = how_words(lease=60)
        node.ask("ADDJOB", "taskiq", "message", 0)
        listening = one.listen()
        message: Any = await anext(listening)

        async def renewed() -> bool:
            return len(said) >= 3

        await soon(renewed)
        await message.ack()
        await listening.aclose()
        await one.shutdown()

    asyncio.run(main())
    assert int(node.info("registered_jobs")) == 0


def test_what_cannot_be_kept_is_said_once(
    node: Node, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        one = DisqueBroker(url, lease=0.003)
        one._how = how_words(lease=60)
        said: list[list[str]] = []

        async def working_at(where: Any, ids: list[str]) -> list[int | DisqueError]:
            del where
            said.append(ids)
            return [TooLateError("TOOLATE half of the TTL is over"), 60]

        async def renewed() -> bool:
            return len(said) >= 3

        monkeypatch.setattr(one.client, "working_at", working_at)
        for _ in range(2):
            node.ask("ADDJOB", "taskiq", "message", 0)
        listening = one.listen()
        messages: list[Any] = [await anext(listening) for _ in range(2)]
        await soon(renewed)
        assert [one.getMessage() for one in caplog.records] == [
            f"message {said[0][0]} can be kept for this worker no longer: TOOLATE half of the TTL is over"
        ]
        for message in messages:
            await message.ack()
        await listening.aclose()
        await one.shutdown()

    with caplog.at_level(logging.WARNING, "disque.taskiq"):
        asyncio.run(main())


def test_after_an_error_of_all_nodes_it_goes_on(node: Node, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> bytes:
        one = DisqueBroker(url)
        take = one.client.take
        failures = [UnavailableError("UNAVAILABLE no node")]

        async def flaky(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return await take(*args)

        monkeypatch.setattr(broker, "PAUSE_S", 0.001)
        monkeypatch.setattr(one.client, "take", flaky)
        node.ask("ADDJOB", "taskiq", "message", 0)
        listening = one.listen()
        message = await anext(listening)
        await listening.aclose()
        await one.shutdown()
        return bytes(message.data)

    assert asyncio.run(main()) == b"message"


def test_the_time_for_which_a_message_is_put_off_is_no_part_of_its_life(node: Node, url: str) -> None:
    del node

    async def main() -> None:
        one = DisqueBroker(url, ttl=20)
        task = one.register_task(lambda: None, "nothing")
        for labels in ({}, {"delay": 11}, {"delay": 40 * 86_400}):
            await task.kicker().with_labels(**labels).kiq()
        await one.shutdown()
        with Disque.from_url(url) as client:
            jobs = client.scan_job_infos(0, busyloop=True)[1]
        assert {job["ttl"] for job in jobs} == {20, 20 + 2 * 11, 20 + 2 * 40 * 86_400}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        ({}, ("taskiq", {})),
        ({"queue_name": "mails"}, ("mails", {})),
        ({"delay": "1.5", "priority": "9"}, ("taskiq", {"delay": 1.5, "priority": 9})),
        ({"delay": None, "other": 1}, ("taskiq", {})),
    ],
)
def test_labels_say_where_and_how(labels: dict[str, Any], meant: Any) -> None:
    assert addressed(labels, "taskiq") == meant


def test_the_example(node: Node, url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "DISQUE": url, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "log").open("wb") as log:
        words = [sys.executable, "-m", "taskiq", "worker", "examples.taskiq_shop:broker", "--workers", "1"]
        worker = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        words = [sys.executable, "-m", "examples.taskiq_shop"]
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stdout == "800\n400\n", done.stderr
        until(lambda: node.ask("CRON", "LIST")[1], "the schedule")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        names = [row[row.index(b"name") + 1].decode() for row in node.ask("CRON", "LIST")[1]]
        for name in names:
            node.ask("CRON", "DEL", name)
