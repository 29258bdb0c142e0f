"""The other nodes as the core sees them."""

import pytest

from cluster.capabilities import MINE
from cluster.membership import FAIL, LEAVING, PFAIL
from cluster.messages import GOTJOB
from disque.core import links
from tests.core.support import MYSELF, Bench


@pytest.mark.parametrize(("flags", "expected"), [(0, False), (PFAIL, True), (FAIL, True), (LEAVING, False)])
def test_nothing_is_expected_of_a_node_that_fails(cluster: Bench, flags: int, expected: bool) -> None:
    cluster.fail(cluster.peers[0], flags)
    assert cluster.node.failed(cluster.peers[0].id) == expected


def test_nothing_is_expected_of_a_node_that_is_not_of_the_cluster(cluster: Bench) -> None:
    assert cluster.node.failed(b"c" * 40)
    cluster.membership.forget(cluster.peers[0].id, cluster.now_ms)
    assert cluster.node.failed(cluster.peers[0].id)


def test_a_node_understands_what_both_it_and_this_one_do(cluster: Bench) -> None:
    peer = cluster.node.peers[cluster.peers[0].id]
    assert peer.understands(MINE)
    assert not peer.understands(MINE | 1 << 40)
    for mine, its, common in ((1 | 1 << 40, 1 << 40, 1 << 40), (1, 1 << 40, 0), (3, 7, 3)):
        cluster.membership.set_capabilities(MYSELF, mine)
        cluster.membership.set_capabilities(peer.id, its)
        links.review(cluster.node, cluster.now_ms)
        assert [bit for bit in (1, 2, 4, 1 << 40) if peer.understands(bit)] == [
            bit for bit in (1, 2, 4, 1 << 40) if common & bit
        ]


def test_a_broadcast_goes_to_all_to_which_there_is_a_link(cluster: Bench) -> None:
    cluster.link_down(cluster.peers[2])
    cluster.sent()
    cluster.node.tell_all((GOTJOB, ()))
    told = [peer for peer, _ in cluster.sent(GOTJOB)]
    assert told == [cluster.peers[at].id for at in (0, 1, 3)]
    assert MYSELF not in cluster.node.peers
