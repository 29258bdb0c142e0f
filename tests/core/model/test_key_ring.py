from hypothesis import given
from hypothesis import strategies as st

from cluster.membership import FAIL, HANDSHAKE, LEAVING, PFAIL, Member, Membership
from disque.core.dedup.keys import digest_of
from disque.core.model.key_ring import KNOWN_MOST, SLOTS, KeyRing, ranked, slot_of
from tests.support.keys import K
from tests.support.nodes import node_id

NODES = tuple(node_id(number) for number in range(1, 8))


def ring(count: int) -> tuple[KeyRing, Membership]:
    membership = Membership(Member(node_id(1), b"10.0.0.1", 7711))
    for number in range(2, count + 1):
        membership.add(Member(node_id(number), b"10.0.0.1", 7710 + number))
    return KeyRing(membership), membership


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=20), st.integers(1, 9))
def test_the_keepers_for_fewer_copies_are_the_first_of_those_for_more(queue: bytes, name: bytes, count: int) -> None:
    keepers = ranked(NODES, digest_of(queue, name), count)
    assert len(set(keepers)) == min(count, 7)
    assert ranked(NODES, digest_of(queue, name), 3)[:count] == keepers[:3]


@given(st.binary(min_size=1, max_size=20), st.sampled_from(NODES))
def test_only_keys_of_a_node_that_goes_move(name: bytes, gone: bytes) -> None:
    before = ranked(NODES, digest_of(b"q", name), 2)
    after = ranked(tuple(node for node in NODES if node != gone), digest_of(b"q", name), 2)
    assert [node for node in before if node != gone] == [node for node in after if node in before]
    assert gone in before or after == before


def test_keys_are_spread_evenly() -> None:
    first = [ranked(NODES, digest_of(b"q", b"%d" % number), 1)[0] for number in range(700)]
    assert all(60 < first.count(node) < 145 for node in NODES)


def test_a_queue_and_a_key_are_kept_apart() -> None:
    assert all(digest_of(b"a", b"b%d" % n) != digest_of(b"ab", b"%d" % n) for n in range(9))


def test_who_fails_or_is_half_met_keeps_nothing_and_who_leaves_does() -> None:
    nodes, membership = ring(5)
    for number, flag in ((2, PFAIL), (3, FAIL), (4, LEAVING), (5, HANDSHAKE)):
        membership.set_flags(membership.nodes[node_id(number)], flag)
    assert nodes.refresh(membership)
    assert nodes.nodes == (node_id(1), node_id(4))
    assert not nodes.refresh(membership)


def test_a_node_that_is_alone_keeps_all() -> None:
    nodes, _ = ring(1)
    assert nodes.keepers(K, 3) == (node_id(1),)


def test_what_is_remembered_of_keepers_is_what_they_are() -> None:
    nodes, membership = ring(7)
    digests = [digest_of(b"q", b"%d" % number) for number in range(50)]
    for turn in range(3):
        for copies in (*range(1, KNOWN_MOST + 3), 2, 65535, 2):
            assert [nodes.keepers(digest, copies) for digest in digests] == [
                ranked(nodes.nodes, digest, copies) for digest in digests
            ]
        membership.set_flags(membership.nodes[node_id(2 + turn)], FAIL)
        assert nodes.refresh(membership)
        assert len(nodes.keepers(K, 7)) == 6 - turn


def test_keys_of_a_slot_have_the_same_keepers_and_slots_are_spread_evenly() -> None:
    slots = [b"%c%c" % (slot >> 4, (slot & 15) << 4) for slot in range(SLOTS)]
    assert len({slot_of(slot) for slot in slots}) == SLOTS
    pairs = [frozenset(ranked(NODES[:3], slot, 2)) for slot in slots]
    assert all(0.9 < pairs.count(pair) / (SLOTS / 3) < 1.1 for pair in set(pairs))
    assert all(ranked(NODES, slot + b"\x00" * 13, 2) == ranked(NODES, slot + b"\xff" * 13, 2) for slot in slots[::97])
