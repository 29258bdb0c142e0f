from typing import Any

import pytest

from cluster.membership import PFAIL
from cluster.messages import (
    ASKKEY,
    BIND,
    BOUND,
    GOTJOB,
    IS_SETTLED,
    KEEPKEY,
    KEYFREE,
    KEYHELD,
    KEYKEPT,
    REPLJOB,
    UNBIND,
    YOURJOBS,
)
from disque.core import links, step
from disque.core.dedup.keys import digest_of
from disque.core.model.key import COMMITTED, SETTLED
from tests.core.support import NOTHING, Bench, repljob
from tests.support.formats import yourjobs_row
from tests.support.keys import K, keys
from tests.support.net import Net, added, ask, keepers, others, who_has

ID, SMALLER, LARGER = (b"D-%b-" % (b"%d" % digit * 8) + b"A" * 24 + b"-05a1" for digit in (5, 1, 9))
OTHER = digest_of(b"q", b"other")
HOUR_MS = 3_600_000
#: So long after the last change every node has the keys that it must keep.
SURE_MS = 20_000


# -- nodes come and go ------------------------------------------------------------------------------------------------


def test_keys_move_to_the_next_keeper_when_one_fails() -> None:
    net = Net(5)
    added(net, 1)
    gone = next(one for one in keepers(net) if one != 1)
    net.crash(gone)
    for place in net.up():
        net.fail(place.number, gone)
    net.advance(100, calm=True)
    assert len(keepers(net)) == 2
    assert gone not in keepers(net)
    assert set(keepers(net)) <= who_has(net)


def test_a_keeper_that_fails_is_not_waited_for() -> None:
    net = Net(5)
    net.advance(SURE_MS)
    gone = next(one for one in keepers(net) if one != 1)
    net.crash(gone)
    asker = ask(net, 1)
    net.calm()
    assert asker.reply is None
    net.fail(1, gone)
    net.calm()
    assert isinstance(asker.reply, bytes)


# -- what other nodes say ---------------------------------------------------------------------------------------------


@pytest.fixture
def lonely() -> Bench:
    """A node whose peers answer nothing about keys by themselves."""
    bench = Bench(peers=2, journaling=True)
    bench.agreeable = False
    bench.advance(SURE_MS)
    return bench


@pytest.fixture
def unsure(lonely: Bench) -> Bench:
    """The same, but a third node was met a moment ago: there may be keys that this one must keep and does not know."""
    lonely.meet(2)
    lonely.sent()
    return lonely


def bind(job_id: bytes, key: bytes = K, window_ms: int = HOUR_MS) -> tuple[Any, ...]:
    return (BIND, 2, window_ms, (job_id,), (key,))


@pytest.mark.parametrize(
    "message",
    [
        bind(b"x" * 40),
        (BIND, 2, HOUR_MS, (ID,), (K[:14],)),
        (BIND, 65536, HOUR_MS, (ID,), (K,)),
        (BIND, 2, HOUR_MS, (ID,), (K + b"x",)),
        bind(ID, window_ms=604_800_001),
        (KEEPKEY, 0, 2, 5, (ID,), (K[:14],)),
        (KEEPKEY, 0, 65536, 5, (ID,), (K,)),
        (KEEPKEY, 0, 2, 604_800_001, (ID,), (K,)),
    ],
)
def test_what_no_node_can_mean_is_skipped_and_counted(lonely: Bench, message: tuple[Any, ...]) -> None:
    lonely.hear(lonely.peers[0], message)
    assert (lonely.node.messages_skipped, keys(lonely.node)) == (1, {})


@pytest.mark.parametrize("digest", [b"", K[:14], K + b"x"])
def test_who_asks_for_what_is_no_key_hears_that_it_is_free(lonely: Bench, digest: bytes) -> None:
    lonely.hear(lonely.peers[0], bind(ID), (KEEPKEY, 0, 2, HOUR_MS, (ID,), (K,)))
    lonely.hear(lonely.peers[0], (ASKKEY, digest, ID))
    assert lonely.sent(KEYFREE) == [(lonely.peers[0].id, (KEYFREE, (ID,)))]


@pytest.mark.parametrize("window_ms", [0, HOUR_MS])
@pytest.mark.parametrize(
    "message", [bind(ID, OTHER), (KEEPKEY, 0, 2, 5, (ID,), (OTHER,)), (KEEPKEY, 1, 2, 5, (ID,), (OTHER,))]
)
def test_a_job_that_has_a_key_gets_no_other_one(lonely: Bench, window_ms: int, message: tuple[Any, ...]) -> None:
    lonely.hear(lonely.peers[0], bind(ID, window_ms=window_ms))
    lonely.hear(lonely.peers[1], message)
    assert list(keys(lonely.node)) == [K]
    assert lonely.node.messages_skipped == 1


@pytest.mark.parametrize("key", [K, OTHER])
def test_nobody_else_decides_for_what_this_node_asks(lonely: Bench, key: bytes) -> None:
    lonely.client().send("ADDJOB", "q", "b", 0, "REPLICATE", 1, "UNIQUE", not_kept(lonely), 60)
    lonely.settle()
    ((job_id, acquisition),) = lonely.node.unique.attempts.items()
    for message in (bind(job_id, key), (KEEPKEY, 0, 2, 5, (job_id,), (key,))):
        lonely.hear(lonely.peers[0], message)
    assert keys(lonely.node) == {}
    assert lonely.node.messages_skipped == 2
    lonely.hear(lonely.peers[0], (BOUND, (job_id,)))
    lonely.hear(lonely.peers[1], (BOUND, (job_id,)))
    assert lonely.state(job_id) == "queued"
    assert list(keys(lonely.node)) == [acquisition.digest]


@pytest.mark.parametrize("how", ["copy", "hand-over", "acknowledgement"])
def test_an_id_that_somebody_else_uses_meanwhile_is_given_up(lonely: Bench, how: str) -> None:
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 1, "UNIQUE", not_kept(lonely), 60)
    lonely.settle()
    (job_id,) = lonely.node.unique.attempts
    if how == "copy":
        lonely.hear(lonely.peers[0], repljob(job_id=job_id, queue=b"elsewhere"))
    elif how == "hand-over":
        row = yourjobs_row(job_id, body=b"lie", ttl=60, retry=5, holders=(lonely.peers[0].id,))
        lonely.hear(lonely.peers[0], (YOURJOBS, b"elsewhere", (row,)))
    else:
        lonely.client()("ACKJOB", job_id)
    for peer in lonely.peers:
        lonely.hear(peer, (BOUND, (job_id,)))
    lonely.agreeable = True
    lonely.advance(2000)
    answer = client.read()
    assert answer not in {NOTHING, job_id}
    assert lonely.job(answer).body == b"b"


def not_kept(bench: Bench) -> bytes:
    """A UNIQUE key of which another node is the only keeper."""
    names = [b"key %d" % number for number in range(100)]
    ring = bench.node.unique.ring
    return next(name for name in names if bench.node.node_id not in ring.keepers(digest_of(b"q", name), 1))


@pytest.mark.parametrize("kind", [KEYKEPT, UNBIND, KEYFREE])
def test_answers_about_keys_that_are_not_known_change_nothing(lonely: Bench, kind: int) -> None:
    lonely.hear(lonely.peers[0], (kind, (ID,)), (KEYHELD, 2, ID, LARGER), (KEYHELD, 1, ID, ID))
    assert lonely.sent() == []


def test_a_note_is_taken_back_by_its_owner_only(lonely: Bench) -> None:
    one, two = lonely.peers
    lonely.hear(one, bind(ID), bind(ID))
    lonely.hear(two, (UNBIND, (ID,)), (KEYFREE, (ID,)))
    assert keys(lonely.node)[K].job_id == ID
    lonely.hear(one, (UNBIND, (ID,)), (UNBIND, (ID,)))
    assert keys(lonely.node) == {}


def test_what_is_certain_replaces_a_note_and_nothing_else(lonely: Bench) -> None:
    one, two = lonely.peers
    lonely.hear(one, bind(SMALLER))
    lonely.sent()
    lonely.hear(two, (KEEPKEY, 0, 2, 5000, (ID,), (K,)))
    assert set(lonely.sent(KEYHELD, KEYKEPT)) == {
        (one.id, (KEYHELD, COMMITTED, SMALLER, ID)),
        (two.id, (KEYKEPT, (ID,))),
    }
    lonely.hear(one, (KEEPKEY, 0, 2, 5000, (SMALLER,), (K,)))
    assert lonely.sent(KEYHELD) == [(one.id, (KEYHELD, COMMITTED, SMALLER, ID))]
    lonely.hear(one, (KEEPKEY, 2, 2, 5000, (LARGER,), (K,)))
    assert keys(lonely.node)[K].job_id == LARGER
    lonely.hear(two, (KEEPKEY, 2, 2, 5000, (ID,), (K,)))
    assert keys(lonely.node)[K].job_id == ID, "of two that are settled the smaller stays"


def test_a_note_is_asked_about_first_at_its_owner_then_at_the_other_keepers(lonely: Bench) -> None:
    one, two = lonely.peers
    lonely.hear(one, (*bind(ID)[:1], 3, *bind(ID)[2:]))
    lonely.sent()
    lonely.advance(2000)
    assert lonely.sent(ASKKEY) == [(one.id, (ASKKEY, K, ID))]
    lonely.advance(2000)
    assert [peer for peer, _ in lonely.sent(ASKKEY)] == [one.id], "an owner that is silent still asks"
    lonely.hear(one, (KEYFREE, (ID,)))
    assert {peer for peer, _ in lonely.sent(ASKKEY)} == {one.id, two.id}
    lonely.hear(one, (KEYFREE, (ID,)))
    assert keys(lonely.node)
    lonely.hear(two, (KEYFREE, (ID,)))
    assert keys(lonely.node) == {}


def test_a_key_that_was_taken_back_does_not_come_back_after_a_crash(lonely: Bench) -> None:
    one, _ = lonely.peers
    lonely.hear(one, (KEEPKEY, 0, 2, 5000, (ID,), (K,)), (UNBIND, (ID,)))
    assert [(record[5], record[1]) for record in lonely.records()] == [((ID,), lonely.now_ms + 5000), ((ID,), 1)]


def test_a_note_costs_memory_while_it_is_there(lonely: Bench) -> None:
    lonely.hear(lonely.peers[0], bind(ID))
    assert lonely.node.used > 400
    lonely.hear(lonely.peers[0], (UNBIND, (ID,)))
    assert lonely.node.used == 0


def test_an_owner_that_bids_is_silent_and_one_that_does_not_says_so(lonely: Bench) -> None:
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", "k", 60)
    (job_id,) = lonely.node.unique.attempts
    lonely.hear(lonely.peers[0], (ASKKEY, K, job_id))
    assert lonely.sent(KEYFREE, KEEPKEY) == []
    lonely.hear(lonely.peers[0], (ASKKEY, K, ID))
    assert lonely.sent(KEYFREE) == [(lonely.peers[0].id, (KEYFREE, (ID,)))]


def test_a_job_that_could_not_get_its_key_after_all_is_taken_back(lonely: Bench) -> None:
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", "k", 60)
    (job_id,) = lonely.node.unique.attempts
    lonely.hear(lonely.peers[0], (BOUND, (job_id,)))
    lonely.hear(lonely.peers[1], (BOUND, (job_id,)))
    lonely.confirm(job_id, *lonely.peers)
    assert lonely.state(job_id) == "queued"
    step.message(lonely.node, lonely.peers[0].id, (KEYHELD, SETTLED, job_id, SMALLER), lonely.now_ms)
    lonely.settle()
    assert lonely.state(job_id) == "gone"
    assert client.waiting
    lonely.sent()
    lonely.advance(1000)
    (again,) = lonely.node.unique.attempts
    assert again != job_id
    asked = lonely.sent(BIND, REPLJOB)
    assert sorted(peer for peer, _ in asked) == sorted(peer.id for peer in lonely.peers), "nobody has noted that ID"
    assert {message[0] for _, message in asked} == {BIND}
    step.message(lonely.node, lonely.peers[0].id, (KEYHELD, SETTLED, again, SMALLER), lonely.now_ms)
    lonely.settle()
    assert client.read() == SMALLER


def test_keys_of_a_turn_are_asked_for_and_told_in_one_message(lonely: Bench) -> None:
    client = lonely.client()
    for name in ("j", "k", "l"):
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", name, 60)
    lonely.settle()
    asked = lonely.sent(BIND)
    ids = tuple(lonely.node.unique.attempts)
    digests = tuple(digest_of(b"q", name) for name in (b"j", b"k", b"l"))
    assert sorted(asked) == sorted((peer.id, (BIND, 3, 60_000, ids, digests)) for peer in lonely.peers)
    for peer in lonely.peers:
        lonely.hear(peer, (BOUND, ids))
    for peer in lonely.peers:
        step.message(lonely.node, peer.id, (GOTJOB, ids), lonely.now_ms)
    lonely.settle()
    told = lonely.sent(KEEPKEY)
    assert sorted(told) == sorted((peer.id, (KEEPKEY, 0, 3, 60_000, ids, digests)) for peer in lonely.peers)


def test_what_is_taken_back_in_the_turn_in_which_it_was_asked_for_is_asked_for_first(lonely: Bench) -> None:
    """Else the other side would keep a note of it."""
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", "k", 60)
    ((job_id, _),) = lonely.node.unique.attempts.items()
    client.disconnect()
    said = lonely.sent(BIND, UNBIND)
    asked = (BIND, 3, 60_000, (job_id,), (digest_of(b"q", b"k"),))
    for peer in lonely.peers:
        assert [message for peer_id, message in said if peer_id == peer.id] == [asked, (UNBIND, (job_id,), 0)]


def test_a_key_that_is_lost_in_the_turn_that_settles_it_is_no_answer(lonely: Bench) -> None:
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", "k", 60)
    (job_id,) = lonely.node.unique.attempts
    for peer in lonely.peers:
        lonely.hear(peer, (BOUND, (job_id,)))
    lonely.confirm(job_id, *lonely.peers)
    for peer in lonely.peers:
        step.message(lonely.node, peer.id, (KEYKEPT, (job_id,)), lonely.now_ms)
    keep = (KEEPKEY, IS_SETTLED, 3, 50_000, (SMALLER,), (digest_of(b"q", b"k"),))
    step.message(lonely.node, lonely.peers[1].id, keep, lonely.now_ms)
    lonely.settle()
    assert client.waiting
    lonely.advance(1000)
    assert client.read() == SMALLER
    assert lonely.state(job_id) == "gone"


def test_a_keeper_that_could_not_be_reached_is_asked_again(lonely: Bench) -> None:
    """It may have taken this node for failed and have given the key to somebody else."""
    one, two = lonely.peers
    client = lonely.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "UNIQUE", "k", 60)
    (job_id,) = lonely.node.unique.attempts
    lonely.hear(one, (BOUND, (job_id,)))
    lonely.hear(two, (BOUND, (job_id,)))
    lonely.fail(one)
    lonely.hear(one, (BOUND, (job_id,)))  # it was on its way
    lonely.sent()
    lonely.fail(one, 0)
    assert [message[3] for message in lonely.told(one, BIND)] == [(job_id,)]
    lonely.confirm(job_id, one, two)
    assert lonely.state(job_id) == "wait-repl"
    lonely.hear(one, (KEYHELD, SETTLED, job_id, SMALLER))
    assert client.read() == SMALLER
    assert lonely.state(job_id) == "gone"


# -- keys that a keeper may not know yet ------------------------------------------------------------------------------


def asked_about(bench: Bench) -> list[bytes]:
    return sorted(peer for peer, message in bench.sent(ASKKEY) if message == (ASKKEY, K, ID))


def test_a_keeper_that_may_miss_keys_asks_all_others_before_it_is_bound(unsure: Bench) -> None:
    one, two, three = unsure.peers
    unsure.hear(one, bind(ID))
    assert asked_about(unsure) == [two.id, three.id]
    unsure.hear(two, (KEYFREE, (ID,)), (KEYFREE, (ID,)))
    assert unsure.sent(BOUND) == []
    unsure.hear(three, (KEYFREE, (ID,)))
    assert unsure.sent(BOUND) == [(one.id, (BOUND, (ID,)))]


def test_a_keeper_that_nobody_answers_asks_again(unsure: Bench) -> None:
    one, two, three = unsure.peers
    unsure.hear(one, bind(ID))
    unsure.hear(two, (KEYFREE, (ID,)))
    unsure.sent()
    unsure.advance(250)
    assert asked_about(unsure) == [three.id]
    unsure.membership.set_flags(three, PFAIL)
    links.review(unsure.node, unsure.now_ms)
    unsure.advance(250)
    assert unsure.sent(ASKKEY, BOUND) == [(one.id, (BOUND, (ID,)))], "who fails is not waited for"


def test_an_id_that_another_node_knows_is_told_to_who_asks_for_the_key(unsure: Bench) -> None:
    one, two, _ = unsure.peers
    unsure.hear(one, bind(ID))
    unsure.sent()
    unsure.hear(two, (KEYHELD, SETTLED, ID, LARGER))
    assert unsure.sent() == [(one.id, (KEYHELD, SETTLED, ID, LARGER))]
    assert keys(unsure.node) == {}


def test_a_keeper_is_sure_when_nothing_has_changed_for_long_enough(unsure: Bench) -> None:
    unsure.advance(SURE_MS)
    unsure.hear(unsure.peers[0], bind(ID))
    assert unsure.sent() == [(unsure.peers[0].id, (BOUND, (ID,)))]


def test_an_owner_that_was_taken_for_failed_is_bound_when_it_asks_again(lonely: Bench) -> None:
    one, two = lonely.peers
    lonely.hear(one, bind(ID))
    lonely.membership.set_flags(one, PFAIL)
    lonely.advance(1000)
    lonely.membership.set_flags(one, 0)
    lonely.sent()
    lonely.hear(one, bind(ID))
    lonely.hear(two, (KEYFREE, (ID,)))
    assert keys(lonely.node)[K].owner == one.id


def test_a_keeper_that_lost_its_disk_gives_no_second_id_to_whom_a_single_copy_is_enough() -> None:
    net = Net(3)
    net.advance(SURE_MS)
    lost, other = keepers(net)
    first = added(net, other, 3600, 2)
    net.crash(lost)
    net.start(lost, empty=True)
    late = ask(net, lost, 3600, 1)
    net.heal()
    net.advance(2000, calm=True)
    assert late.reply == first


def test_a_single_keeper_that_fails_is_followed_by_one_that_asks_the_owner() -> None:
    net = Net(3)
    net.advance(SURE_MS)
    keeper, asker = keepers(net)
    (owner,) = others(net)
    first = added(net, owner, 3600, 1)
    net.crash(keeper)
    late = ask(net, asker, 3600, 1)
    for number in (asker, owner):
        net.fail(number, keeper)
    net.advance(2000, calm=True)
    assert late.reply == first
