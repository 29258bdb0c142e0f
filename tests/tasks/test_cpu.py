"""Functions that compute, in processes of their own."""

import asyncio
import signal
from typing import Any

import pytest

from disque.tasks.cpu import CpuPool, frame, outcome_of, unframe, words_of
from disque.tasks.execute import begin, read
from disque.tasks.held import Held, Run
from disque.tasks.message import Message
from disque.tasks.outcome import Back, Done, Told
from tests.tasks.shop_app import app

PLACE = "tests.tasks.shop_app:app"


def run_of(task: str, *args: object) -> Run:
    held = Held("D-1", "q", Message(task, list(args), {}).encode("json"), None, None, 1e9)
    read(app, held)
    return begin(held, 0.0, 0.0)


async def call(pool: CpuPool, number: object) -> Any:
    run = run_of("square", 5)
    body = Message("square", [number], {}).encode("json")
    try:
        return await pool.run(body, run), run.jobs[0].progress
    except Told as told:
        return told.outcome


def test_a_process_is_used_again_and_one_that_dies_is_replaced() -> None:
    async def scene() -> None:
        pool = CpuPool(PLACE, 1)
        assert await call(pool, 7) == (49, "squaring 7")
        [child] = pool._idle
        assert await call(pool, -2) == Back("Dead: two", dead=True)
        assert await call(pool, -3) == Back(None, 0.01, counts=False)
        wrong = await call(pool, "x")
        assert wrong.dead
        assert "number: int is expected" in wrong.error
        assert pool._idle == [child]
        with pytest.raises(RuntimeError, match="has ended with exit code 7"):
            await call(pool, -1)
        hangs = asyncio.create_task(call(pool, -4))
        await asyncio.sleep(0.05)
        hangs.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hangs
        assert await call(pool, 3) == (9, "squaring 3")
        await pool.close()
        assert child.process.returncode is not None

    asyncio.run(scene())


def test_programs_children_and_event_loops_in_a_process() -> None:
    async def scene() -> None:
        pool = CpuPool(PLACE, 1)
        run = run_of("surroundings")
        found = await pool.run(run.jobs[0].body, run)
        by_signal = -signal.SIGTERM
        assert found == {"stdin": "", "program": by_signal, "child": by_signal, "asyncio.run": "run"}
        await pool.close()

    asyncio.run(scene())


def test_frames_and_outcomes() -> None:
    assert unframe(frame({"a": b"\0"})[4:]) == {"a": b"\0"}
    for outcome in (Done(), Back("x", 1.0), Back(None, None, counts=False)):
        assert outcome_of(words_of(outcome)) == outcome
