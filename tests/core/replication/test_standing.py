"""Which nodes may still have a copy, and which one repairs."""

import pytest

from cluster.capabilities import ENDS, MINE, REPAIR
from disque.core.model.repair import Walk
from disque.core.replication import standing
from disque.core.replication.rank import rank
from tests.core.support import MYSELF, Bench, foreign_id

STRANGER = b"c" * 40
ID = foreign_id()


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=3)


def walk_of(bench: Bench, *doubted: bytes, everything: bool = False) -> Walk:
    return Walk(frozenset(doubted), "", bench.now_ms, everything=everything)


def test_nodes_that_are_gone_or_leave_or_that_nobody_knows_do_not_count(bench: Bench) -> None:
    one, two, three = [peer.id for peer in bench.peers]
    holders = (MYSELF, one, two)
    assert standing.standing(bench.node, walk_of(bench), holders) == (3, False)
    assert standing.standing(bench.node, walk_of(bench), (*holders, STRANGER)) == (3, True)
    bench.node.repairs.gone.add(one)
    bench.node.repairs.leaving.add(three)
    assert standing.standing(bench.node, walk_of(bench), (*holders, three)) == (2, True)


def test_a_node_that_is_doubted_counts_and_is_looked_at(bench: Bench) -> None:
    one, two, _ = [peer.id for peer in bench.peers]
    assert standing.standing(bench.node, walk_of(bench, two), (MYSELF, one)) == (2, False)
    assert standing.standing(bench.node, walk_of(bench, one), (MYSELF, one)) == (2, True)
    assert standing.standing(bench.node, walk_of(bench, everything=True), (MYSELF, one)) == (2, True)
    assert standing.standing(bench.node, walk_of(bench, everything=True), (MYSELF,)) == (1, False)


def test_what_is_missing_is_counted_at_the_first_that_is_left(bench: Bench) -> None:
    one = bench.peers[0].id
    is_first = rank(MYSELF, ID) > rank(one, ID)
    standing.estimate(bench.node, ID, (MYSELF, one), 3, 2)
    assert (bench.node.repairs.short, bench.node.repairs.alone) == (is_first, 0)
    bench.node.repairs.gone.add(one)
    standing.estimate(bench.node, ID, (MYSELF, one), 2, 1)
    assert (bench.node.repairs.short, bench.node.repairs.alone) == (is_first + 1, 1)
    assert standing.first([MYSELF, one], ID) == (MYSELF if is_first else one)


def test_who_cannot_be_asked_most_likely_has_a_copy(bench: Bench) -> None:
    one, two, three = bench.peers
    holders = (MYSELF, one.id, two.id, three.id, STRANGER)
    assert standing.away(bench.node, holders) == ()
    bench.fail(one)
    assert standing.away(bench.node, holders) == (one.id,)
    bench.node.peers[two.id].capabilities = MINE & ~ENDS
    assert standing.is_able(bench.node, two.id, REPAIR)
    assert not standing.is_able(bench.node, two.id, ENDS)
    assert standing.away(bench.node, holders, ENDS) == (one.id, two.id)
    bench.node.repairs.gone.add(one.id)
    assert standing.away(bench.node, holders, ENDS) == (two.id,)


@pytest.mark.parametrize("count", [2, standing.FEW + 2])
def test_what_is_new_of_holders_that_somebody_names(bench: Bench, count: int) -> None:
    known = tuple([b"%040x" % number for number in range(count)])
    one, two, _ = [peer.id for peer in bench.peers]
    bench.membership.departed[STRANGER] = None
    assert standing.fresh(bench.node, (*known, one), (*known, one, two, two, STRANGER)) == {two}
    assert standing.fresh(bench.node, known, known) == set()
    assert standing.is_wider((*known, one), known)
    assert not standing.is_wider(known, (*known, one))
