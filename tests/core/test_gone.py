"""Bare IDs that must not come back, and how they age."""

from cluster.messages import DELJOB, REFUSED, REFUSED_GONE, SETACK
from disque.core.gone import Gone
from disque.core.memory import GONE_BYTES
from tests.core.support import UNKNOWN_ID, Bench, foreign_id, repljob


def test_an_id_is_known_for_two_generations() -> None:
    gone = Gone(0)
    assert gone.add(UNKNOWN_ID)
    for known in (True, True, False):
        assert (UNKNOWN_ID in gone) == known
        gone.age(5)
    assert gone.aged_ms == 5


def test_what_is_heard_of_again_is_young_again() -> None:
    gone = Gone(0)
    gone.add(UNKNOWN_ID)
    assert not gone.add(UNKNOWN_ID)
    gone.age(1)
    assert gone.add(UNKNOWN_ID)
    assert gone.age(2) == {UNKNOWN_ID}, "the older memory of it"
    assert UNKNOWN_ID in gone


def test_the_oldest_are_handed_out_to_be_freed() -> None:
    gone = Gone(0)
    gone.add(b"1")
    assert gone.age(1) == set()
    gone.add(b"2")
    assert (len(gone), gone.young) == (2, 1)
    assert gone.age(2) == {b"1"}
    assert len(gone) == 1


def test_a_node_remembers_for_two_to_four_node_timeouts(cluster: Bench) -> None:
    """Rule 5."""
    peer = cluster.peers[0]
    timeout_ms = cluster.membership.timeout_ms
    cluster.hear(peer, (SETACK, (peer.id,), (foreign_id(),)))
    for _ in range(2):
        cluster.live(2 * timeout_ms - 1000)
        cluster.sent()
        cluster.hear(peer, repljob(peer.id))
        assert (REFUSED, REFUSED_GONE, (foreign_id(),)) in cluster.told(peer)
        cluster.hear(peer, (SETACK, (peer.id,), (foreign_id(),)))
    cluster.live(4 * timeout_ms + 100)
    assert len(cluster.node.gone) == 0
    cluster.hear(peer, repljob(peer.id))
    assert cluster.state(foreign_id()) == "active"


def test_it_is_counted_as_memory_until_it_is_forgotten(cluster: Bench) -> None:
    used = cluster.node.used
    cluster.hear(cluster.peers[0], (DELJOB, (foreign_id(1), foreign_id(2), foreign_id(1))))
    assert cluster.node.used == used + 2 * GONE_BYTES
    cluster.live(5 * cluster.membership.timeout_ms)
    assert cluster.node.used == used
    assert not cluster.node.trash
