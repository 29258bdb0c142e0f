"""What the checker of acknowledgements lets pass, and what it does not."""

from contextlib import nullcontext

import pytest

from cluster.capabilities import MINE, REPAIR
from tests.simulation.checks.acknowledged import Acknowledged
from tests.simulation.cluster import Cluster
from tests.simulation.history import Ack, Claim, Interval, Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-that-was-acknowledged-before--05a1"
#: A node is forgotten after so long.
FORGET_MS = 5000


def delivered_again(
    down: dict[int, Interval],
    older: int = -1,
    *,
    late: frozenset[int] = frozenset(),
    links_ms: int = 20_000,
    copied: dict[int, int] | None = None,
    sources: dict[int, int] | None = None,
    links: dict[tuple[int, int], list[Interval]] | None = None,
    returned_ms: int = -1,
    back_ms: int = -1,
    deleted: dict[int, int] | None = None,
) -> None:
    """Machine 0 has acknowledged a job of all three, and machine 1 hands it out; these were down meanwhile.

    Machine 1 has links but for the time from then on until ``links_ms``, or until the other one is back. ``late`` got
    their copies while it was away. ``copied``: when each got its copy.
    ``sources``: from where it came to those that have it by a queue, not by ADDJOB. ``links``: other links than these.
    ``returned_ms``, ``back_ms``: when a node put it into `disque:returned`, and when somebody put it back; -1: never.
    ``deleted``: who was told to delete the job, and when.
    """
    cluster = Cluster(World(Options(1, 3, forget_s=FORGET_MS // 1000)))
    checker = Acknowledged(cluster)
    history = checker.history
    history.down = {number: [one] for number, one in down.items()}
    history.versions = {number: [(0, MINE & ~REPAIR if number == older else MINE)] for number in range(3)}
    history.copied[JOB] = copied or {number: 11_500 if number in late else 0 for number in range(3)}
    cluster.network.log.past = links or {
        (0, 1): [(0, down.get(1, (11_000, 0))[0]), (max(links_ms, down.get(0, (0, 0))[1]), 30_000)],
        (1, 2): [(0, down.get(1, (11_000, 0))[0]), (max(links_ms, down.get(2, (0, 0))[1]), 30_000)],
    }
    known = Known(JOB, Plan(JOB, b"q"), 86_400_000)
    known.plan.ttl = 86_400
    known.coordinator = 0
    known.holders = {0, 1, 2} - (sources or {}).keys()
    known.sources = sources or {}
    known.returned_ms = [returned_ms] if returned_ms >= 0 else []
    known.deleted = deleted or {}
    known.put_back_ms = [back_ms] if back_ms >= 0 else []
    ack = Ack(10_000, 0)
    ack.left_ms = 10_000
    known.acks.append(ack)
    checker.delivered(known, Claim(30_000, 1, 1, (1,), working=False))


def test_a_job_that_was_acknowledged_does_not_come_again() -> None:
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({})


def test_nor_by_a_node_that_was_forgotten_and_can_ask() -> None:
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({1: (11_000, 12_000 + FORGET_MS)})


def test_a_node_that_was_forgotten_and_cannot_ask_may_hand_it_out() -> None:
    delivered_again({1: (11_000, 12_000 + FORGET_MS)}, older=1)
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({1: (11_000, 10_000 + FORGET_MS)}, older=1)


def test_and_so_may_one_that_knows_of_no_other_copy_for_sure() -> None:
    down = {1: (11_000, 12_000 + FORGET_MS), 0: (1000, 2000 + FORGET_MS)}
    links = {(0, 1): [(10_000, 11_000), (20_000, 30_000)]}
    delivered_again(down, copied={0: 0, 1: 10_000}, links=links, older=1)


def test_and_so_may_one_whose_others_were_forgotten_in_their_turn() -> None:
    back_ms = 12_000 + FORGET_MS
    down = {1: (11_000, back_ms), 0: (back_ms, back_ms + FORGET_MS), 2: (back_ms, back_ms + FORGET_MS)}
    delivered_again(down)
    del down[2]
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again(down)


def test_a_node_that_got_its_copy_while_another_one_was_away_cannot_be_asked_by_that_one() -> None:
    back_ms = 12_000 + FORGET_MS
    delivered_again({1: (11_000, back_ms), 0: (back_ms, back_ms + FORGET_MS)}, late=frozenset({2}))


def test_a_node_that_was_forgotten_when_a_copy_was_made_is_not_known_to_that_one() -> None:
    back_ms = 12_000 + FORGET_MS
    down = {1: (11_000, back_ms), 0: (back_ms, back_ms + FORGET_MS), 2: (1000, 2000 + FORGET_MS)}
    copied = {0: 0, 1: 8000, 2: 0}
    delivered_again(down, copied=copied)
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again(down | {2: (1000, 2000)}, copied=copied)


def test_who_runs_and_cannot_be_reached_is_forgotten_too() -> None:
    back_ms = 12_000 + FORGET_MS
    delivered_again({1: (11_000, back_ms)}, late=frozenset({2}), links_ms=back_ms + FORGET_MS)
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({1: (11_000, back_ms)}, late=frozenset({2}), links_ms=back_ms + FORGET_MS - 1)


def test_a_node_that_heard_of_it_before_it_went_does_not_hand_it_out() -> None:
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({1: (14_000, 15_000 + FORGET_MS)}, older=1)


@pytest.mark.parametrize(("came_ms", "is_told"), [(15_000, False), (11_000, True)])
def test_nobody_tells_a_node_through_which_it_goes_on_before_it_is_there(came_ms: int, *, is_told: bool) -> None:
    # It goes from 3, which is cut off, to 2, and from there to 1; 2 could talk to 0 until 14,500.
    links = {(0, 2): [(0, 14_500)], (1, 2): [(0, 30_000)], (2, 3): [(0, 30_000)]}
    copied, sources = {0: 0, 2: came_ms, 1: 20_000}, {2: 3, 1: 2}
    with pytest.raises(Violation, match="was delivered by n1") if is_told else nullcontext():
        delivered_again({}, copied=copied, sources=sources, links=links)


def test_what_a_node_put_away_after_that_may_be_put_back_on_purpose() -> None:
    delivered_again({}, returned_ms=20_000, back_ms=25_000)


@pytest.mark.parametrize(
    ("returned_ms", "back_ms"), [(20_000, -1), (-1, 25_000), (9000, 25_000), (20_000, 19_000), (20_000, 31_000)]
)
def test_neither_is_enough_alone_nor_at_another_time(returned_ms: int, back_ms: int) -> None:
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({}, returned_ms=returned_ms, back_ms=back_ms)


def test_who_was_told_to_delete_it_has_forgotten_that_it_was_acknowledged() -> None:
    delivered_again({}, deleted={1: 20_000})
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({}, deleted={1: 9000})
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({}, deleted={2: 20_000})


def test_nor_does_it_tell_others() -> None:
    links = {(0, 2): [(0, 30_000)], (1, 2): [(0, 30_000)]}
    with pytest.raises(Violation, match="was delivered by n1"):
        delivered_again({}, links=links)
    delivered_again({}, links=links, deleted={2: 20_000})
