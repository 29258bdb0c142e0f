"""What the checker of moves lets pass, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.capabilities import MINE, REPAIR
from disque.core.model.job import ACTIVE, QUEUED
from tests.simulation.checks.moved import Moved
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import World

JOB = b"D-11111111-that-has-moved-somewhere-else-05a1"
NOW_MS = 20_000
#: A node is forgotten after so long.
FORGET_MS = 5000


class Place:
    """Machine 0 has moved a job, and does not know that machine 1 has a copy, since it was told to forget that one."""

    def __init__(self) -> None:
        self.cluster = Cluster(World(Options(1, 3, forget_s=FORGET_MS // 1000)))
        self.cluster.world.now = NOW_MS
        self.history = self.cluster.watch.history
        self.history.copied[JOB] = {0: 1000, 1: 1000}
        self.history.forgets = {0: [(2000, 3000)]}
        self.history.versions = {number: [(0, MINE)] for number in range(3)}
        self.holders = (b"0",)
        self.known = (b"0", b"1")
        self.state = ACTIVE
        self.requeue_ms = NOW_MS + 1000
        self.generation = 0

    def is_excused(self) -> bool:
        """Whether machine 1 need not know where the job is."""
        ahead: Any = SimpleNamespace(id=JOB, holders=self.holders, state=QUEUED, requeue_ms=0)
        behind: Any = SimpleNamespace(id=JOB, holders=self.known, state=self.state, requeue_ms=self.requeue_ms)
        copies = [(self.process(0), 1, ahead), (self.process(1), self.generation, behind)]
        checker = Moved(self.cluster)
        assert not checker.waits_unknown(*copies[0], copies)
        return checker.waits_unknown(*copies[1], copies)

    def process(self, number: int) -> Any:
        """What runs on a machine."""
        machine, node = SimpleNamespace(number=number), SimpleNamespace(node_id=b"%d" % number)
        return SimpleNamespace(machine=machine, node=node, now_ms=lambda: NOW_MS)


def test_a_copy_of_which_nobody_knows_after_forget_hears_of_the_move_when_it_asks() -> None:
    assert Place().is_excused()


@pytest.mark.parametrize(
    "changed",
    [
        {"holders": (b"0", b"1")},
        {"state": QUEUED},
        {"requeue_ms": NOW_MS},
        {"generation": 1},
    ],
)
def test_what_is_known_or_queued_or_due_or_has_moved_itself_must_agree(changed: dict[str, Any]) -> None:
    place = Place()
    vars(place).update(changed)
    assert not place.is_excused()


@pytest.mark.parametrize("forgets", [{}, {0: [(200, 300)]}, {1: [(2000, 3000)]}, {2: [(2000, 3000)]}])
def test_only_who_had_a_copy_and_forgot_the_other_since_is_excused(forgets: dict[int, list[tuple[int, int]]]) -> None:
    place = Place()
    place.history.forgets = forgets
    assert not place.is_excused()


class Away(Place):
    """Machine 1 was off until it was forgotten, and lacks the capability to ask about its copies when it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.history.forgets = {}
        self.history.down = {1: [(3000, 3000 + FORGET_MS)]}
        self.lacks(1)

    def lacks(self, number: int, since_ms: int = 3000 + FORGET_MS) -> None:
        """A process without the capability starts."""
        self.history.versions[number].append((since_ms, MINE & ~REPAIR))

    def has_again(self, number: int) -> None:
        """No process without it has started."""
        del self.history.versions[number][1:]


def test_who_was_forgotten_while_it_was_away_and_cannot_ask_hears_of_the_move_later() -> None:
    place = Away()
    assert place.is_excused()
    place.has_again(1)
    assert not place.is_excused(), "it asks when it is back"
    place.lacks(0)
    assert place.is_excused(), "nobody whom it may ask understands it"


@pytest.mark.parametrize(("holders", "excused"), [((b"0", b"2"), True), ((b"2",), False)])
def test_who_can_only_ask_one_of_a_version_without_moves_hears_of_them_from_those_it_names(
    monkeypatch: pytest.MonkeyPatch, holders: tuple[bytes, ...], excused: bool
) -> None:
    place = Away()
    place.has_again(1)
    place.known = (b"1", b"2")
    place.lacks(2)
    older = place.process(2)
    older.node.find = {JOB: SimpleNamespace(holders=holders)}.get
    older.node.membership = SimpleNamespace(myself=SimpleNamespace(capabilities=0))
    monkeypatch.setattr(place.cluster, "processes", lambda: [older])
    assert place.is_excused() == excused


@pytest.mark.parametrize("down", [[], [(3000, 2999 + FORGET_MS)], [(0, 999 + FORGET_MS)]])
def test_only_who_was_off_for_long_since_it_got_its_copy_was_forgotten(down: list[tuple[int, int]]) -> None:
    place = Away()
    place.history.down = {1: down}
    assert not place.is_excused()


def test_who_has_come_back_once_more_and_can_ask_then_must_agree() -> None:
    place = Away()
    place.history.down[1].append((9000, 9000 + FORGET_MS))
    assert place.is_excused()
    place.history.versions[1].append((9000 + FORGET_MS, MINE))
    assert not place.is_excused()


@pytest.mark.parametrize(
    "changed",
    [
        {"holders": (b"0", b"1")},
        {"known": (b"1", b"2")},
        {"state": QUEUED},
        {"requeue_ms": NOW_MS},
        {"generation": 1},
    ],
)
def test_who_is_known_or_asks_nobody_or_has_queued_the_job_must_agree(changed: dict[str, Any]) -> None:
    place = Away()
    vars(place).update(changed)
    assert not place.is_excused()


@pytest.mark.parametrize(
    ("returned_ms", "older_ms", "is_excused"),
    [(9000, 500, True), (9000, 9500, False), (9000, -1, False), (900, 500, False), (-1, 500, False)],
)
def test_who_could_not_be_asked_by_one_that_put_the_job_away_hears_of_that_later(
    returned_ms: int, older_ms: int, is_excused: bool
) -> None:
    place = Place()
    place.history.forgets = {}
    known = place.history.jobs[JOB] = Known(JOB, Plan(JOB, b"q"), 86_400_000)
    known.returned_ms = [returned_ms] if returned_ms >= 0 else []
    if older_ms >= 0:
        place.history.versions[1].append((older_ms, MINE & ~REPAIR))
    assert place.is_excused() == is_excused
