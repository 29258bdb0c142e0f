"""Jobs that a node was adding when it died: nobody was told their IDs, so their copies go when it is back."""

from typing import Any

import pytest

from cluster.messages import ASKKEY, BIND, DELJOB, KEEPKEY, KEYFREE, KEYHELD
from disque.core.dedup import orphans
from disque.core.model.key import SETTLED
from disque.core.model.unique import Orphan
from tests.core.support import PROCESS, Bench, foreign_id, repljob
from tests.support.keys import K, keys

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
