import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from disque.cli import children
from disque.cli.children import Child, how_it_ended

OBEDIENT = "import signal; print('up', flush=True); signal.sigwait([signal.SIGTERM]); print('bye')"
# SIGTERM has to be blocked before anybody is told that the node is up, or it could end it.
READY = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"


async def started(script: str) -> Child:
    return await children.start(1, [sys.executable, "-c", READY + script])


async def written(child: Child) -> list[str]:
    found = [line async for line in child.lines()]
    await child.process.wait()
    return found


def run(act: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(act)


class TestLines:
    def test_lines_come_without_their_ends_and_the_last_one_needs_none(self) -> None:
        async def act() -> list[str]:
            return await written(await started("print('one\\n\\ntwo', end='')"))

        assert run(act()) == ["one", "", "two"]

    def test_a_line_may_be_of_any_length_and_hold_any_bytes(self) -> None:
        async def act() -> list[str]:
            return await written(
                await started("import os; [os.write(1, b'x' * 50000) for _ in range(8)]; print('\\x00')")
            )

        (line,) = run(act())
        assert line.rstrip("\0") == "x" * 400_000

    def test_errors_come_the_same_way(self) -> None:
        async def act() -> list[str]:
            return await written(await started("raise SystemExit('no port')"))

        assert run(act()) == ["no port"]


class TestSignals:
    def test_children_stop_in_turn(self) -> None:
        async def act() -> list[str]:
            crew = [await started(OBEDIENT) for _ in range(2)]
            for child in crew:
                assert child.process.stdout is not None
                assert await child.process.stdout.readline() == b"up\n"
            readers = [asyncio.create_task(written(child)) for child in crew]
            await children.stop_in_turn(crew)
            assert [child.process.returncode for child in crew] == [0, 0]
            return [line for reader in readers for line in await reader]

        assert run(act()) == ["bye", "bye"]

    def test_who_has_ended_gets_no_signals(self) -> None:
        async def act() -> list[str]:
            child = await started("pass")
            await written(child)
            assert await child.process.wait() == 0
            assert not child.alive
            child.signal(signal.SIGKILL)
            await children.stop_in_turn([child])
            return []

        run(act())


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "has stopped cleanly"),
        (1, "has ended with exit code 1"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
    ],
)
def test_how_a_process_ended(code: int, text: str) -> None:
    assert how_it_ended(code) == text
