"""Jobs that a node was adding when it died: nobody was told their IDs, so their copies go when it is back."""

from typing import Any

import pytest

from cluster.messages import ASKKEY, BIND, DELJOB, IS_SETTLED, KEEPKEY, KEYFREE, KEYHELD, KEYKEPT, UNBIND
from disque.core.dedup import orphans
from disque.core.dedup.keys import copy_keys, digest_of
from disque.core.journal.codec import encode
from disque.core.journal.compaction import Copying
from disque.core.journal.replay import Replay
from disque.core.journal.schema import CLEAN, END, FLUSH, FORMAT, HEAD, OFF
from disque.core.model.key import COMMITTED, PENDING, SETTLED
from disque.core.model.unique import Orphan
from tests.core.support import MYSELF, PROCESS, Bench, foreign_id, repljob
from tests.support.formats import jobs_record
from tests.support.keys import K, keys, keys_record

HOUR_MS = 3_600_000
#: So long after the last change every node has the keys that it must keep.
SURE_MS = 20_000


@pytest.fixture
def bench() -> Bench:
    """A node whose peers answer nothing about keys by themselves."""
    bench = Bench(peers=3, journaling=True)
    bench.agreeable = False
    bench.advance(SURE_MS)
    bench.sent()
    return bench


def id_of(bench: Bench) -> bytes:
    """A job of the first peer."""
    return b"D-%b-%b" % (bench.peers[0].id[:8], foreign_id()[11:])


def orphan(bench: Bench, *, window_ms: int = HOUR_MS, dies: bool = True) -> bytes:
    """The first peer asks for a key, sends copies of the job, and dies, or stops to ask. Nobody has the key."""
    one, *rest = bench.peers
    job_id = id_of(bench)
    bench.hear(one, (BIND, 3, window_ms, (job_id,), (K,)), repljob(one.id, *[peer.id for peer in rest], job_id=job_id))
    if dies:
        bench.link_down(one)
        bench.fail(one)
        bench.advance(2500)
    else:
        bench.advance(2500)
        bench.hear(one, (KEYFREE, (job_id,)))
    for peer in rest if dies else bench.peers:
        bench.hear(peer, (KEYFREE, (job_id,)))
    bench.sent()
    assert keys(bench.node) == {}
    assert bench.state(job_id) == "active"
    return job_id


def come_back(bench: Bench, start: int = PROCESS + 1) -> list[tuple[bytes, Any]]:
    """The first peer is there again; who is asked."""
    one, *_ = bench.peers
    bench.fail(one, 0)
    bench.link_up(one, start)
    return bench.sent(ASKKEY)


def say_free(bench: Bench, job_id: bytes, *peers: Any) -> list[tuple[bytes, Any]]:
    """These nodes do not have the key; who is told to delete copies."""
    for peer in peers:
        bench.hear(peer, (KEYFREE, (job_id,)))
    return [(peer_id, message) for peer_id, message in bench.sent(DELJOB) if job_id in message[1]]


def test_when_nobody_knows_the_key_all_copies_are_deleted(bench: Bench) -> None:
    job_id = orphan(bench)
    asked = come_back(bench)
    assert sorted(asked) == sorted([(peer.id, (ASKKEY, K, job_id)) for peer in bench.peers])
    assert say_free(bench, job_id, *bench.peers[:2]) == []
    assert bench.state(job_id) == "active"
    told = say_free(bench, job_id, bench.peers[2])
    assert sorted(told) == sorted([(peer.id, (DELJOB, (job_id,))) for peer in bench.peers])
    assert bench.state(job_id) == "gone"
    assert not bench.node.unique.orphans


def test_another_job_that_has_the_key_meanwhile_says_the_same(bench: Bench) -> None:
    job_id = orphan(bench)
    bench.hear(bench.peers[1], (KEEPKEY, 2, 3, HOUR_MS, (foreign_id(2),), (K,)))
    come_back(bench)
    for peer in bench.peers:
        bench.hear(peer, (KEYHELD, SETTLED, job_id, foreign_id(2)))
    assert bench.state(job_id) == "gone"
    assert keys(bench.node)[K].job_id == foreign_id(2)


def test_not_when_one_knows_it(bench: Bench) -> None:
    """A client was told the ID."""
    job_id = orphan(bench)
    come_back(bench)
    bench.hear(bench.peers[0], (KEEPKEY, 2, 3, HOUR_MS, (job_id,), (K,)))
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) == "active"


def test_not_when_the_same_process_is_back(bench: Bench) -> None:
    """It was cut off: it may have answered its client, and it deletes what it takes back."""
    job_id = orphan(bench)
    assert come_back(bench, PROCESS) == []
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) == "active"


def test_nor_when_it_never_was_away(bench: Bench) -> None:
    job_id = orphan(bench, dies=False)
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) == "active"


def test_not_while_a_node_cannot_be_asked(bench: Bench) -> None:
    job_id = orphan(bench)
    two, three = bench.peers[1:]
    bench.link_down(three)
    come_back(bench)
    assert say_free(bench, job_id, bench.peers[0], two) == []
    assert bench.state(job_id) == "active"


def test_but_as_soon_as_it_can(bench: Bench) -> None:
    job_id = orphan(bench)
    two, three = bench.peers[1:]
    bench.link_down(three)
    come_back(bench)
    bench.link_up(three)
    assert [message for _, message in bench.sent(ASKKEY)] == [(ASKKEY, K, job_id)] * 3
    say_free(bench, job_id, bench.peers[0], two, three)
    assert bench.state(job_id) == "gone"


def test_not_after_the_window(bench: Bench) -> None:
    """Each node has forgotten the key then."""
    job_id = orphan(bench, window_ms=10_000)
    bench.advance(10_000)
    assert come_back(bench) == []
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) == "active"
    assert not bench.node.unique.orphans


def test_not_without_a_window(bench: Bench) -> None:
    """The key is free as soon as the job moves to another queue, and a client may have been told its ID."""
    job_id = orphan(bench, window_ms=0)
    assert come_back(bench) == []
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) == "active"


def test_they_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "ORPHANS_MOST", 0)
    bench.node.unique.orphans[b"x"] = Orphan(K, b"", 1, 0)
    job_id = orphan(bench)
    assert list(bench.node.unique.orphans) == [job_id]


def test_of_what_this_node_has_answered_it_says_nothing_to_the_node_that_made_it(bench: Bench) -> None:
    """Two parts of the cluster had each given the key, and one has lost it. The maker must not delete the job."""
    one, two, _ = bench.peers
    job_id, other = id_of(bench), b"D-%b-%b" % (two.id[:8], foreign_id(1)[11:])
    first, second = sorted([job_id, other])
    bench.hear(one, (KEEPKEY, IS_SETTLED, 3, HOUR_MS, (second,), (K,)))
    bench.hear(two, (KEEPKEY, IS_SETTLED, 3, HOUR_MS, (first,), (K,)))
    assert keys(bench.node)[K].job_id == first
    bench.sent()
    maker, stranger = (one, two) if second == job_id else (two, one)
    bench.hear(maker, (ASKKEY, K, second), (KEEPKEY, 0, 3, HOUR_MS, (second,), (K,)))
    assert bench.sent(KEYHELD, KEYFREE) == []
    bench.hear(stranger, (ASKKEY, K, second))
    assert bench.sent(KEYHELD) == [(stranger.id, (KEYHELD, SETTLED, second, first))]
    bench.hear(maker, (KEEPKEY, IS_SETTLED, 3, HOUR_MS, (second,), (K,)))
    assert bench.sent(KEYHELD) == [(maker.id, (KEYHELD, SETTLED, second, first))], "it gives up a key, and no job"


# -- what the node itself was adding -----------------------------------------------------------------------------------


def own_id(bench: Bench) -> bytes:
    """A job of this node."""
    return b"D-%b-%b" % (bench.node.node_id[:8], foreign_id()[11:])


def read_journal(
    bench: Bench,
    *,
    digest: bytes = K,
    life_ms: int = PENDING,
    boot: str = "boot 1",
    window_ms: int = HOUR_MS,
    behind: tuple[Any, ...] = (),
) -> bytes:
    """The node starts with a journal that has a job and its key, three of whose keepers are to know it."""
    job_id = own_id(bench)
    replay = Replay(bench.node, boot)
    records = [
        another_head(b"boot 1"),
        jobs_record(job_id, holders=(bench.node.node_id, *[peer.id for peer in bench.peers])),
        keys_record(digest, job_id, bench.now_ms + window_ms, life_ms, 3),
        *behind,
    ]
    for payload in encode(records, bench.now_ms):
        replay.apply(payload, 1)
    for _ in replay.finish(bench.now_ms):
        pass
    return job_id


def start_again(bench: Bench, **values: Any) -> tuple[bytes, list[Any]]:
    """The node starts, and reaches all others; which of them keep the key."""
    one, two, three = bench.peers
    bench.link_down(three)
    job_id = read_journal(bench, **values)
    assert bench.sent(KEEPKEY) == []
    bench.link_up(three)
    told = {peer_id for peer_id, message in bench.sent(KEEPKEY) if job_id in message[4]}
    return job_id, [peer for peer in (one, two, three) if peer.id in told]


def test_what_it_told_nobody_of_is_offered_to_the_keepers_when_it_reaches_all(bench: Bench) -> None:
    job_id, keepers = start_again(bench)
    assert len(keepers) in {2, 3}
    for peer in keepers:
        bench.hear(peer, (KEYKEPT, (job_id,)))
    assert (keys(bench.node)[K].job_id, keys(bench.node)[K].state) == (job_id, SETTLED)
    assert bench.records()[-1] == keys_record(K, job_id, keys(bench.node)[K].expires_ms, 0, 3)
    assert bench.state(job_id) != "gone"
    assert not bench.node.unique.orphans


def test_when_they_have_another_job_by_now_this_one_goes(bench: Bench) -> None:
    job_id, keepers = start_again(bench)
    bench.records()
    bench.hear(keepers[0], (KEYHELD, SETTLED, job_id, foreign_id(2)))
    sent = bench.sent(UNBIND, ASKKEY)
    unbound = {peer_id for peer_id, message in sent if message[:2] == (UNBIND, (job_id,))}
    assert unbound == {peer.id for peer in keepers}
    assert [message for _, message in sent if message[0] == ASKKEY] == [(ASKKEY, K, job_id)] * 3
    assert say_free(bench, job_id, *bench.peers[:2]) == []
    assert bench.state(job_id) != "gone"
    told = say_free(bench, job_id, bench.peers[2])
    assert sorted(told) == sorted([(peer.id, (DELJOB, (job_id,))) for peer in bench.peers])
    assert bench.state(job_id) == "gone"
    assert keys(bench.node, bench.now_ms) == {}


def test_it_asks_again_when_a_node_was_away(bench: Bench) -> None:
    job_id, keepers = start_again(bench)
    bench.link_down(bench.peers[0])
    bench.hear(keepers[-1], (KEYHELD, SETTLED, job_id, foreign_id(2)))
    assert bench.sent(ASKKEY) == []
    bench.link_up(bench.peers[0])
    assert [message for _, message in bench.sent(ASKKEY)] == [(ASKKEY, K, job_id)] * 3
    say_free(bench, job_id, *bench.peers)
    assert bench.state(job_id) == "gone"


def test_it_stays_when_a_node_has_it_for_certain(bench: Bench) -> None:
    job_id, keepers = start_again(bench)
    bench.hear(keepers[0], (KEYHELD, SETTLED, job_id, foreign_id(2)))
    bench.hear(keepers[1], (KEEPKEY, 0, 3, HOUR_MS, (job_id,), (K,)))
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) != "gone"


def test_the_answer_that_another_job_has_it_does_not_count_while_the_key_is_here(bench: Bench) -> None:
    job_id, keepers = start_again(bench)
    for peer in bench.peers:
        if peer not in keepers:
            bench.hear(peer, (KEYHELD, SETTLED, job_id, foreign_id(2)))
    assert say_free(bench, job_id, *keepers) == []
    assert bench.state(job_id) != "gone"


def another_head(boot: bytes) -> tuple[Any, ...]:
    return (HEAD, FORMAT, MYSELF, boot, b"everysec")


@pytest.mark.parametrize(
    "values",
    [
        {"life_ms": 0},
        {"boot": "boot 2"},
        {"behind": (another_head(b"boot 2"),), "boot": "boot 2"},
        {"behind": (another_head(b"boot 2"), (CLEAN, ()), (END,)), "boot": "boot 3"},
        {"behind": ((OFF,),)},
    ],
    ids=["settled", "another boot", "the second start in it", "a clean stop in it", "switched off"],
)
def test_what_a_client_may_have_been_told_stays_until_somebody_wants_it(bench: Bench, values: dict[str, Any]) -> None:
    job_id, keepers = start_again(bench, **values)
    assert keepers == []
    assert (keys(bench.node)[K].job_id, keys(bench.node)[K].state) == (job_id, COMMITTED)
    assert bench.node.unique.store.count == 1
    assert not bench.node.unique.orphans


def test_a_keeper_that_offers_it_first_does_not_keep_it_from_being_offered(bench: Bench) -> None:
    bench.link_down(bench.peers[2])
    job_id = read_journal(bench)
    bench.hear(bench.peers[0], (KEEPKEY, 0, 3, HOUR_MS, (job_id,), (K,)))
    bench.sent()
    bench.link_up(bench.peers[2])
    assert [message for _, message in bench.sent(KEEPKEY) if job_id in message[4]]
    assert job_id in bench.node.unique.orphans


def test_a_node_alone_settles_it_when_it_is_wanted_and_files_that() -> None:
    bench = Bench(journaling=True)
    job_id = read_journal(bench)
    assert keys(bench.node)[K].is_pending
    bench.records()
    assert bench.client()("ADDJOB", "q", "body", 0, "UNIQUE", "k", 3600) == job_id
    assert bench.records() == [keys_record(K, job_id, keys(bench.node)[K].expires_ms, 0, 3)]


def test_nobody_hears_that_a_job_is_not_known_which_this_node_made_and_may_have_told_of(bench: Bench) -> None:
    job_id = read_journal(bench, life_ms=0)
    one, two, _ = bench.peers
    bench.hear(two, (KEEPKEY, IS_SETTLED, 3, HOUR_MS, (foreign_id(2),), (K,)))
    bench.sent()
    bench.hear(one, (ASKKEY, K, job_id))
    assert bench.sent(KEYHELD, KEYFREE) == []


def test_it_is_pending_in_the_journal_until_it_is_settled(bench: Bench) -> None:
    """Whoever copies old segments must not make more of it."""
    job_id, _ = start_again(bench)
    copying = Copying(bench.node, 1, [copy_keys])
    bench.node.segment = 2
    bench.records()
    copying.step(100, bench.now_ms)
    assert bench.records() == [keys_record(K, job_id, keys(bench.node)[K].expires_ms, PENDING, 3)]


def test_it_ends_with_its_window(bench: Bench) -> None:
    job_id, _ = start_again(bench, window_ms=1500)
    bench.advance(1500)
    assert keys(bench.node) == {}
    assert say_free(bench, job_id, *bench.peers) == []
    assert bench.state(job_id) != "gone"
    bench.link_down(bench.peers[0])
    bench.link_up(bench.peers[0])
    assert bench.sent(ASKKEY) == []
    assert not bench.node.unique.orphans


def test_what_the_journal_has_dropped_later_is_none(bench: Bench) -> None:
    assert not bench.node.unique.orphans
    read_journal(bench, behind=((FLUSH,),))
    assert keys(bench.node) == {}
    assert not bench.node.unique.orphans


def test_a_node_that_starts_again_meanwhile_does_not_stand_for_the_other_keepers(bench: Bench) -> None:
    """Keys move to it, from the first of those that had them; of this one nobody knows that the others have it."""
    one, two, three = bench.peers
    ring = bench.node.unique.ring
    digests = (digest_of(b"q", b"%d" % number) for number in range(1000))
    mine = next(key for key in digests if ring.keepers(key, 3) in {(MYSELF, one.id, two.id), (MYSELF, two.id, one.id)})
    bench.link_down(three)
    job_id = read_journal(bench, digest=mine)
    bench.link_up(one, PROCESS + 1)
    bench.advance(1)
    told = {peer_id for peer_id, message in bench.sent(KEEPKEY) if job_id in message[4]}
    assert told == {one.id, two.id}
