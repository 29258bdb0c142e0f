"""What the checker of what is left over takes for news."""

from types import SimpleNamespace
from typing import Any

import pytest

from disque.core.model.moves import Move
from tests.core.support import Bench, foreign_id, repljob
from tests.simulation.checks.collected import Collected

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("left_ms", "tries", "is_news"),
    [(3400, 0, True), (1, 0, True), (0, 0, False), (4000, 0, False), (3400, 1, False)],
)
def test_only_a_move_that_was_just_heard_of_may_be_left(left_ms: int, tries: int, is_news: bool) -> None:
    bench = Bench(peers=1)
    bench.hear(bench.peers[0], repljob(bench.peers[0].id, job_id=foreign_id()))
    move = Move(bench.job(foreign_id()))
    process: Any = SimpleNamespace(now_ms=lambda: NOW_MS)
    assert not Collected.is_news(process, move), "it has no timer"
    bench.node.timers.arm(move, NOW_MS + left_ms)
    move.tries = tries
    assert Collected.is_news(process, move) == is_news
