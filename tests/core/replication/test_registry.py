"""Entries of the registry between nodes, and in the journal."""

from itertools import pairwise
from sys import getrefcount

import pytest

from cluster.capabilities import MINE
from cluster.member import HANDSHAKE, LEAVING, PFAIL, Member
from cluster.messages import DIGEST, ENTRIES
from disque.core import entries, step
from disque.core.journal.codec import encode
from disque.core.journal.replay import Replay
from disque.core.journal.schema import ENTRY, FLUSH
from disque.core.model.registry import PAUSED_QUEUE, QUEUE_OPTION, Key
from disque.core.replication import registry
from tests.core.support import PROCESS, Bench
from tests.support.formats import pause_everywhere, pauses_everywhere

B0 = b"b0" * 20
UNKNOWN = 99


def key(number: int = 0, kind: int = UNKNOWN) -> Key:
    return (kind, b"name%d" % number, b"field")


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=2, journaling=True)


def told(bench: Bench, at: int = 0) -> list[tuple[bytes, bytes]]:
    """Names and values of the entries that a peer was told."""
    return [(row[1], row[3]) for message in bench.told(bench.peers[at], ENTRIES) for row in message[1]]


def test_over_a_new_link_only_what_differs_is_told(bench: Bench) -> None:
    for number in range(100):
        entries.set_value(bench.node, key(number), b"v", bench.now_ms)
    bench.sent()
    known = bench.node.registry.digest()
    entries.set_value(bench.node, key(7), b"new", bench.now_ms)
    bench.sent()
    bench.link_up(bench.peers[0], 77)
    assert bench.told(bench.peers[0], DIGEST) == [digest(bench, 1)]
    bench.hear(bench.peers[0], (DIGEST, 1, known))
    found = told(bench)
    assert (b"name7", b"new") in found
    assert len(found) < 10
    bench.hear(bench.peers[0], (DIGEST, 1, bench.node.registry.digest()))
    assert told(bench) == []


def digest(bench: Bench, what: int) -> tuple[int, int, bytes, int]:
    """What this node says of its entries."""
    return (DIGEST, what, bench.node.registry.digest(), bench.node.registry.greatest)


def test_who_knows_nothing_says_nothing_until_somebody_knows_something(bench: Bench) -> None:
    bench.sent()
    bench.link_up(bench.peers[0], 77)
    assert bench.sent(DIGEST) == []
    bench.hear(bench.peers[0], (DIGEST, 1, bytes(2048)))
    assert bench.sent(DIGEST) == [(B0, digest(bench, 0))]
    bench.hear(bench.peers[0], (DIGEST, 0, b""))
    assert bench.sent() == []


def test_who_has_just_started_says_so_and_is_answered_also_by_those_who_know_nothing(bench: Bench) -> None:
    bench.node.registry.is_met = False
    bench.sent()
    bench.link_up(bench.peers[0], 77)
    assert bench.sent(DIGEST) == [(B0, (DIGEST, 2, b"", 0))]
    bench.hear(bench.peers[0], (DIGEST, 2, b"", 0))
    assert bench.sent(DIGEST) == [(B0, (DIGEST, 0, b"", 0))]
    assert bench.node.registry.is_met
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    bench.sent()
    bench.hear(bench.peers[0], (DIGEST, 2, b"", 0))
    assert bench.sent() == [], "it has asked over the new link by itself, and tells all then"


def test_how_new_the_entries_of_others_are_is_known_before_the_entries(bench: Bench) -> None:
    ahead_ms = bench.now_ms + 500_000
    bench.hear(bench.peers[0], (DIGEST, 0, bytes(2048), ahead_ms))
    assert registry.make(bench.node, key(), b"v", bench.now_ms, deleted=False).counter == ahead_ms + 1
    bench.hear(bench.peers[0], (DIGEST, 0, bytes(2048), 2**62 - 1))
    assert bench.node.registry.greatest == ahead_ms, "a century ahead is a lie"


def test_when_a_node_fails_the_others_compare_what_it_has_told_them(bench: Bench) -> None:
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    one, two = bench.peers
    bench.sent()
    bench.fail(one)
    assert bench.sent(DIGEST) == [(two.id, digest(bench, 1))]
    bench.fail(one, 0)
    bench.live(100)
    assert not bench.told(two, DIGEST)


def test_who_has_just_started_is_answered_when_there_is_a_link_to_it(bench: Bench) -> None:
    """It has called first. What is said before arrives nowhere, and it waits for that before it sets something."""
    one = bench.peers[0]
    bench.link_down(one)
    bench.sent()
    bench.hear(one, (DIGEST, 2, b"", 0))
    bench.sent()
    bench.link_up(one, 77)
    assert bench.sent(DIGEST) == [(one.id, digest(bench, 1))]


@pytest.mark.parametrize("fails", [False, True])
def test_so_they_do_when_it_was_leaving_before_which_stops_nobody_from_setting_something_there(
    bench: Bench, *, fails: bool
) -> None:
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    one, two = bench.peers
    bench.sent()
    bench.fail(one, LEAVING)
    assert bench.sent(DIGEST) == []
    if fails:
        bench.fail(one, LEAVING | PFAIL)
    else:
        bench.client()("CLUSTER", "FORGET", one.id)
        bench.live(1)
    assert [peer_id for peer_id, _ in bench.sent(DIGEST)] == [two.id]


@pytest.mark.parametrize("has_failed", [False, True])
def test_so_they_do_when_it_is_forgotten_before_anybody_knows_that_it_has_failed(
    bench: Bench, *, has_failed: bool
) -> None:
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    one, two = bench.peers
    if has_failed:
        bench.fail(one)
    bench.sent()
    bench.client()("CLUSTER", "FORGET", one.id)
    bench.live(1)
    assert [peer_id for peer_id, _ in bench.sent(DIGEST)] == ([] if has_failed else [two.id])


@pytest.mark.parametrize("calls", [False, True])
def test_so_they_do_when_it_has_started_again_and_may_have_forgotten_what_it_has_told_to_some(
    bench: Bench, *, calls: bool
) -> None:
    one, two = bench.peers
    bench.hear(one, (ENTRIES, ((*key(), b"v", bench.now_ms, one.id, 0),)))
    bench.sent()
    start_link = bench.called if calls else bench.link_up
    start_link(one, PROCESS + 1)
    assert bench.told(two, DIGEST) == [digest(bench, 1)]
    start_link(one, PROCESS + 1)
    assert bench.told(two, DIGEST) == [], "it is the same process still"


def test_each_side_tells_what_the_other_lacks_and_that_is_the_end_of_it(bench: Bench) -> None:
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    bench.sent()
    bench.hear(bench.peers[0], (DIGEST, 1, bytes(2048)))
    assert bench.sent(DIGEST) == [(B0, digest(bench, 0))]
    bench.hear(bench.peers[0], (DIGEST, 0, bytes(2048)))
    assert [message[0] for _, message in bench.sent()] == [ENTRIES]
    bench.link_down(bench.peers[0])
    bench.sent()
    bench.hear(bench.peers[0], (DIGEST, 1, b""))
    assert bench.sent() == [], "it begins itself when there is a link"


def test_who_could_not_answer_asks_when_it_can_also_when_it_knows_nothing() -> None:
    bench = Bench(peers=2)
    bench.link_down(bench.peers[0])
    bench.hear(bench.peers[0], (DIGEST, 1, bytes(2048)))
    bench.sent()
    bench.link_up(bench.peers[0])
    assert bench.told(bench.peers[0], DIGEST) == [(DIGEST, 1, b"", 0)]


@pytest.mark.parametrize("is_met", [False, True])
@pytest.mark.parametrize("says", [DIGEST, ENTRIES])
@pytest.mark.parametrize("half_met", [False, True])
def test_so_does_who_was_told_before_it_knew_the_node_which_does_not_say_it_again(
    bench: Bench, *, half_met: bool, says: int, is_met: bool
) -> None:
    bench.node.registry.is_met = is_met
    stranger = Member(b"c3" * 20, b"127.0.0.1", 7799, 0, HANDSHAKE)
    if half_met:
        bench.membership.add(stranger)
    entry = (*key(), b"v", bench.now_ms, stranger.id, 0)
    bench.called(stranger)
    bench.hear(stranger, (DIGEST, 1, bytes(2048)) if says == DIGEST else (ENTRIES, (entry,)))
    assert bench.node.registry.count == 0
    assert bench.sent() == []
    if not half_met:
        bench.membership.add(stranger)
    bench.membership.set_capabilities(stranger.id, MINE)
    bench.link_up(stranger)
    bench.sent()
    bench.membership.set_flags(stranger, 0)
    bench.live(100)
    assert bench.told(stranger, DIGEST) == [(DIGEST, 1, b"", 0)]
    bench.hear(stranger, (ENTRIES, (entry,)))
    assert bench.node.registry.count == 1


def test_many_entries_go_in_several_messages_of_moderate_length(bench: Bench) -> None:
    for number in range(1000):
        bench.node.registry.put(registry.make(bench.node, key(number), b"v" * 1000, bench.now_ms, deleted=False))
    rows = list(registry.portions(bench.node.registry.entries()))
    assert sum(map(len, rows)) == 1000
    assert max(map(len, rows)) <= registry.TOLD_BYTES // 1000 + 1


def test_a_deletion_is_purged_when_it_is_old_and_what_was_deleted_does_not_come_back(bench: Bench) -> None:
    bench.membership.forget_after_ms = 10_000
    old = (UNKNOWN, b"name0", b"field", b"v", bench.now_ms - 5, B0, 0)
    entries.set_value(bench.node, key(), b"", bench.now_ms, deleted=True)
    bench.live(9_000)
    assert bench.node.registry.count == 1
    bench.live(40_000)
    assert bench.node.registry.count == 0
    bench.sent()
    bench.hear(bench.peers[0], (ENTRIES, (old,)))
    assert bench.node.registry.count == 0
    (deletion,) = bench.told(bench.peers[0], ENTRIES)
    other = Bench(peers=2)
    other.hear(other.peers[0], (ENTRIES, (old,)))
    assert other.node.registry.get(key()) is not None
    other.hear(other.peers[0], deletion)
    found = other.node.registry.get(key())
    assert found is not None
    assert found.deleted
    fresh = (UNKNOWN, b"name0", b"field", b"v", bench.now_ms, B0, 0)
    bench.hear(bench.peers[0], (ENTRIES, (fresh,)))
    assert bench.node.registry.count == 1, "it was set later"


@pytest.mark.parametrize(("off_ms", "is_purged"), [(-86_400_000, True), (86_400_000, False)])
def test_a_deletion_is_old_since_it_was_made_and_came_here(off_ms: int, is_purged: bool) -> None:
    """The clock of the node that made it may be wrong, and so may be the time of this one."""
    bench = Bench(peers=2, journaling=True)
    bench.membership.forget_after_ms = 10_000
    deletion = (UNKNOWN, b"name0", b"field", b"", bench.now_ms + off_ms, B0, 1)
    bench.hear(bench.peers[0], (ENTRIES, (deletion,)))
    bench.live(9_000)
    assert bench.node.registry.count == 1
    bench.live(40_000)
    assert bench.node.registry.count == (not is_purged)
    bench.hear(bench.peers[0], (ENTRIES, (deletion,)))
    assert bench.node.registry.count == (not is_purged), "what was purged is not kept once more"
    again = Bench(peers=2)
    reader = Replay(again.node, "boot")
    for payload in encode(bench.node.outbox.take(), bench.now_ms):
        reader.apply(payload, 1)
    (kept,) = again.node.registry.entries()
    assert kept.taken_ms == min(bench.now_ms, kept.counter), "its record may have been written again since"
    entries.set_value(again.node, key(1), b"v", again.now_ms)
    (entry,) = [one for one in again.node.registry.entries() if one.key == key(1)]
    assert not registry.may_be_deleted(bench.node, entry), "it is newer than all that was purged"


def test_a_reset_forgets_everything(bench: Bench) -> None:
    entries.set_value(bench.node, key(), b"v", bench.now_ms)
    bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, B0))
    assert pauses_everywhere(bench.node)[b"q"] == (1, 5, B0)
    bench.client()("CLUSTER", "RESET")
    assert (bench.node.registry.count, bench.node.registry.size) == (0, 0)
    assert bench.node.registry.get((PAUSED_QUEUE, b"q", b"")) is None
    bench.sent()
    bench.meet(0)
    bench.link_up(bench.peers[-1])
    (said,) = bench.told(bench.peers[-1], DIGEST)
    assert said[:3] == (DIGEST, 1, b""), "for the others it is no new link"


def test_a_reset_leaves_the_freeing_of_many_entries_to_the_ticks() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    for number in range(3000):
        entries.set_value(bench.node, (QUEUE_OPTION, b"q%d" % number, b"maxlen"), b"5", bench.now_ms)
    client("QCONFIG", "SET", "q*", "overflow", "drop-oldest", "retry", 7)
    client("CRON", "SET", "often", "* * * * *", "q", "body")
    names = [entry.key[1] for entry in bench.node.registry.entries() if entry.value == b"5"]
    bench.records()
    unused = getrefcount(b"".join([b"D-", b"nobody"])) + 1  # one more for the list
    client.send("CLUSTER", "RESET")
    alive = [sum(getrefcount(names[at]) > unused for at in range(len(names)))]
    assert alive[0] == 3000
    while bench.node.trash:
        step.free_some(bench.node)
        alive.append(sum(getrefcount(names[at]) > unused for at in range(len(names))))
    assert alive[-1] == 0
    assert max(before - after for before, after in pairwise(alive)) <= step.FREE_MOST
    client.read_all()
    known = bench.node.registry
    assert (known.count, known.size, known.digest(), known.defaults.dropping) == (0, 0, b"", 0)
    assert client("QCONFIG", "GET", "q1") == Bench().client()("QCONFIG", "GET", "q1")
    assert client("QCONFIG", "LIST", 0) == [b"0", []]
    assert client("CRON", "LIST", 0) == [b"0", []]
    client("QCONFIG", "SET", "q1", "maxlen", 6)
    assert client("QCONFIG", "LIST", 0)[0] == b"0"
    assert known.count == 1
    assert sum(bench.node.live.values()) == 1


def test_after_a_flush_an_entry_of_a_kind_not_known_is_in_the_journal_again_also_after_a_start() -> None:
    bench = Bench(journaling=True)
    assert not entries.set_value(bench.node, key(), b"value", bench.now_ms)
    entry = bench.node.registry.get(key())
    assert entry is not None
    entry.is_strange = True
    bench.node.registry.waiting[key()] = None  # as a start leaves it until it is looked at again
    bench.records()
    bench.client()("DEBUG", "FLUSHALL")
    kinds = [record[0] for record in bench.records()]
    assert kinds[:2] == [FLUSH, ENTRY]


def test_who_is_being_told_what_it_lacks_is_not_told_it_again_for_each_question(bench: Bench) -> None:
    """5,000 DIGESTs in 30 KB were 240 MB of answers, and two seconds in which nobody was served."""
    for number in range(12):
        entries.set_value(bench.node, key(number), b"v" * 1_000_000, bench.now_ms)
    bench.sent()
    one = bench.peers[0]
    for _ in range(50):
        bench.hear(one, (DIGEST, 1, bytes(2048)))
    bench.live(3000)
    kinds = [message[0] for message in bench.told(one, DIGEST, ENTRIES)]
    assert (kinds.count(DIGEST), kinds.count(ENTRIES)) == (2, 2 * 12)
    bench.hear(one, (DIGEST, 1, bytes(2048)))
    assert len(bench.told(one, DIGEST)) == 1, "then it is answered again"


def test_after_flushall_it_is_asked_anew_what_it_lacks(bench: Bench) -> None:
    for number in range(12):
        entries.set_value(bench.node, key(number), b"v" * 1_000_000, bench.now_ms)
    one = bench.peers[0]
    bench.hear(one, (DIGEST, 0, bytes(2048)))
    bench.sent()
    bench.client()("DEBUG", "FLUSHALL")
    assert bench.told(one, DIGEST) == [digest(bench, 1)]
    bench.hear(one, (DIGEST, 0, bytes(2048)))
    bench.live(3000)
    assert len(told(bench)) == 12


def test_a_peer_that_asks_without_end_is_answered_some_times_a_beat(bench: Bench) -> None:
    for number in range(12):
        entries.set_value(bench.node, key(number), b"v", bench.now_ms)
    bench.sent()
    for _ in range(100):
        bench.hear(bench.peers[0], (DIGEST, 1, bytes(2048)))
    assert len(bench.told(bench.peers[0], DIGEST)) == 10
