"""A network that is cut between nodes, one way or both, while clients reach all of them; and healed again.

Each node in a network namespace of its own. What was promised on any side is kept, and at-most-once jobs come once.
"""

import pytest

from tests.end_to_end.cluster_load import cluster_load
from tests.end_to_end.namespaces import Divided, both_ways
from tests.end_to_end.node import SLOW_POLL_S, Node, until


def load_while_cut(cluster: Divided, ways: list[tuple[Node, Node]], failed: list[tuple[Node, Node]]) -> None:
    """Cut these ways under load until those see these fail; go on, heal, and judge."""
    with cluster_load(cluster, 2, "NOREPL") as load:
        load.more()
        cluster.cut(ways)
        for observer, victim in failed:
            until(lambda: cluster.sees_failing(observer, victim), cluster.describe, SLOW_POLL_S)  # noqa: B023 - now
        load.more()
        cluster.heal()
        cluster.await_whole()
        load.more()


@pytest.mark.slow
def test_a_node_that_is_cut_off_from_the_others(divided: Divided) -> None:
    alone, *others = divided.members
    load_while_cut(divided, both_ways([alone], others), [(other, alone) for other in others])


@pytest.mark.slow
def test_a_node_that_hears_the_others_and_is_not_heard(divided: Divided) -> None:
    mute, *others = divided.members
    load_while_cut(divided, [(mute, other) for other in others], [(other, mute) for other in others])


@pytest.mark.slow
def test_a_node_that_is_heard_and_does_not_hear_the_others(divided: Divided) -> None:
    deaf, *others = divided.members
    load_while_cut(divided, [(other, deaf) for other in others], [(deaf, other) for other in others])


@pytest.mark.slow
def test_two_nodes_that_reach_each_other_only_through_a_third(divided: Divided) -> None:
    one, other, _ = divided.members
    load_while_cut(divided, both_ways([one], [other]), [(one, other), (other, one)])


@pytest.mark.slow
def test_all_nodes_alone(divided: Divided) -> None:
    one, two, three = divided.members
    with cluster_load(divided, 2, "NOREPL") as load:
        load.more()
        divided.cut(both_ways([one], [two, three]) + both_ways([two], [three]))
        divided.await_failed(one)
        divided.await_failed(two)
        divided.heal()
        divided.await_whole()
        load.more()


@pytest.mark.slow
def test_a_cut_that_is_shorter_than_the_node_timeout(divided: Divided) -> None:
    alone, *others = divided.members
    with cluster_load(divided, 2, "NOREPL") as load:
        for _ in range(3):
            divided.cut(both_ways([alone], others))
            load.more(30)
            divided.heal()
            load.more(30)
        divided.await_whole()
