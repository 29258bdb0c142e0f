"""Kept ends: lost copies are made again, and those of a node that leaves go elsewhere."""

from typing import Any

import pytest

from cluster.capabilities import ENDS, MINE
from cluster.membership import LEAVING, Member
from cluster.messages import (
    ASKEND,
    COPYIS,
    DELJOB,
    END_KEPT,
    END_REFUSED,
    END_UNKNOWN,
    ENDED,
    GOTACK,
    GOTJOB,
    IS_SURE,
    KEEPEND,
    REPLJOB,
    REPLJOB_IDS,
    TELL_ME,
    WAS_SURE,
    WATCH,
)
from disque.core.journal.schema import ENDED as ENDED_RECORD
from disque.core.journal.schema import KEPTBY
from disque.core.model.ends import CANCELLED, DONE
from disque.core.replication.rank import rank
from tests.core.support import MYSELF, Bench, foreign_id, repljob

AFTER_MS = 10_000
ID = foreign_id()
HOUR_MS = 3_600_000


@pytest.fixture
def four() -> Bench:
    """A node among four others that repair, all reachable."""
    bench = Bench(peers=4, journaling=True)
    bench.set("cluster-repair-after", AFTER_MS // 1000)
    bench.live(AFTER_MS + 2000)  # nobody doubts this one any more
    bench.sent()
    return bench


def ended(bench: Bench, copies: int, retain: int = 3600) -> tuple[bytes, list[Member]]:
    """A job that has ended here, and the other nodes that keep how."""
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, "RETRY", 60, "RETAIN", retain)
    holders = []
    job_id = b""
    for peer_id, message in bench.sent(REPLJOB):
        job_id = message[REPLJOB_IDS][0]
        holders.append(node_of(bench, peer_id))
        bench.hear(holders[-1], (GOTJOB, (job_id,)))
    job_id = client.read()
    assert client("ACKJOB", job_id, "RESULT", "value") == 1
    for peer in holders:
        bench.hear(peer, (GOTACK, 1, (), (job_id,)))
    bench.sent()
    bench.records()
    assert bench.node.find(job_id) is None
    return job_id, sorted(holders, key=lambda peer: -rank(peer.id, job_id))


def node_of(bench: Bench, node_id: bytes) -> Member:
    return next(peer for peer in bench.peers if peer.id == node_id)


def without(bench: Bench, job_id: bytes) -> list[Member]:
    """The other nodes that do not keep the end of a job, in its order."""
    free = [peer for peer in bench.peers if peer.id not in bench.node.ends.by_id[job_id].holders]
    return sorted(free, key=lambda peer: -rank(peer.id, job_id))


def lose(bench: Bench, peer: Member) -> None:
    """This node is gone for good."""
    bench.fail(peer)
    bench.live(AFTER_MS + 2000)


def keep(*, status: int = DONE, repl: int = 2, left_ms: int = HOUR_MS, **more: Any) -> tuple[Any, ...]:
    """KEEPEND."""
    fields = {"queue": b"q", "holders": (b"b" * 40,), "error": b"", "text": b"value", "body": b"body", "id": ID, **more}
    numbers = (fields.get("age_ms", 5000), left_ms, repl, fields.get("tries", 1))
    texts = (fields["error"], fields["text"], fields["body"])
    return (KEEPEND, fields["queue"], status, b"b" * 40, *numbers, fields["holders"], *texts, fields["id"])


def said(bench: Bench, peer: Member) -> list[int]:
    """What this node has said of ends to ``peer``."""
    return [message[1] for message in bench.told(peer, COPYIS)]


class TestRepair:
    def test_a_node_that_counted_since_it_could_not_be_asked_is_asked_later(self, four: Bench) -> None:
        job_id, (away,) = ended(four, 2)
        (gone, *_) = without(four, job_id)
        four.link_down(away)
        four.membership.forget(gone.id, four.now_ms)
        four.peers.remove(gone)
        four.live(3000)  # all is looked at
        assert not four.sent(ASKEND)
        four.link_up(away)
        four.live(AFTER_MS)
        assert [(peer_id, message[2]) for peer_id, message in four.sent(ASKEND)] == [(away.id, (job_id,))]
        four.hear(away, (COPYIS, END_UNKNOWN, (), (job_id,)))
        assert len(four.sent(KEEPEND)) == 1

    def test_a_node_that_has_not_answered_when_all_was_looked_at_is_asked_again(self, four: Bench) -> None:
        job_id, (other,) = ended(four, 2)
        (gone, *_) = without(four, job_id)
        four.membership.forget(gone.id, four.now_ms)
        four.peers.remove(gone)
        four.live(3000)
        assert [peer_id for peer_id, _ in four.sent(ASKEND)] == [other.id]
        four.live(20_000)
        assert [peer_id for peer_id, _ in four.sent(ASKEND)] == [other.id]

    def test_a_copy_is_made_again_when_its_node_is_gone(self, four: Bench) -> None:
        job_id, (gone,) = ended(four, 2)
        first, *_ = without(four, job_id)
        before = four.node.used
        lose(four, gone)
        ((peer_id, message),) = four.sent(KEEPEND)
        _, queue, status, node_id, age_ms, left_ms, repl, tries, holders, error, text, body, about = message
        assert (peer_id, queue, status, node_id, about) == (first.id, b"q", DONE, MYSELF, job_id)
        assert (repl, tries, error, text, body) == (2, 0, b"", b"value", b"body")
        assert age_ms + left_ms == HOUR_MS
        assert holders == tuple(sorted([MYSELF, gone.id, first.id]))
        repairs = four.node.repairs
        assert (repairs.short, repairs.alone) == (1, 1)
        four.hear(first, (COPYIS, END_KEPT, (), (job_id,)))
        four.live(2000)
        assert (repairs.short, repairs.alone, repairs.made, repairs.walk) == (0, 0, 1, None)
        assert four.node.used == before
        assert (KEPTBY, job_id, 2, 0, holders) in four.records()
        four.live(2 * AFTER_MS)
        assert not four.sent(KEEPEND, ASKEND)

    def test_nobody_is_asked_as_long_as_all_nodes_are_well(self, four: Bench) -> None:
        ended(four, 3)
        four.live(3 * AFTER_MS)
        assert not four.sent(ASKEND, KEEPEND)

    def test_the_first_of_those_that_keep_it_sends_it(self, four: Bench) -> None:
        job_id, (one, two) = ended(four, 3)
        holders = four.node.ends.by_id[job_id].holders
        lose(four, two)
        assert four.sent(ASKEND) == [(one.id, (ASKEND, holders, (job_id,)))]
        four.hear(one, (COPYIS, END_KEPT, (), (job_id,)))
        assert len(four.sent(KEEPEND)) == (rank(MYSELF, job_id) > rank(one.id, job_id))

    def test_who_does_not_know_it_is_no_copy(self, four: Bench) -> None:
        job_id, (one, two) = ended(four, 3)
        lose(four, two)
        four.hear(one, (COPYIS, END_UNKNOWN, (), (job_id,)))
        assert {peer_id for peer_id, _ in four.sent(KEEPEND)} <= {peer.id for peer in four.peers} - {two.id}
        walk = four.node.repairs.walk
        assert walk is not None
        assert (walk.short, walk.alone) == (1, 1)
        assert four.node.repairs.keeping[job_id].missing == 2

    def test_who_refuses_is_passed_over_and_asked_again_later(self, four: Bench) -> None:
        job_id, (gone,) = ended(four, 2)
        free = without(four, job_id)
        lose(four, gone)
        for peer in free:
            assert [peer_id for peer_id, _ in four.sent(KEEPEND)] == [peer.id]
            four.hear(peer, (COPYIS, END_REFUSED, (), (job_id,)))
        assert not four.sent(KEEPEND)
        four.live(2000)
        assert four.node.repairs.news[-1].endswith("nodes refuse to take more for now")
        four.live(6000)
        assert [peer_id for peer_id, _ in four.sent(KEEPEND)] == [free[0].id]

    def test_what_is_not_answered_is_left_to_the_next_walk(self, four: Bench) -> None:
        _, (gone,) = ended(four, 2)
        lose(four, gone)
        assert len(four.sent(KEEPEND)) == 1
        four.live(10_500)
        assert not four.node.repairs.keeping
        four.live(8000)
        assert len(four.sent(KEEPEND)) == 1

    def test_an_end_that_is_over_in_a_moment_is_let_go(self, four: Bench) -> None:
        ended(four, 2, retain=13)
        job_id, (gone,) = ended(four, 2, retain=14)
        four.advance(2000)
        lose(four, gone)
        assert all(message[-1] == job_id for _, message in four.sent(KEEPEND))
        four.live(2000)
        assert not four.node.ends.by_id
        assert not four.node.repairs.keeping
        assert (four.node.repairs.short, four.node.repairs.walk) == (0, None)

    def test_an_older_node_counts_as_one_that_keeps_it_and_gets_nothing(self, four: Bench) -> None:
        job_id, (one, two) = ended(four, 3)
        older, *newer = without(four, job_id)
        for peer in (one, older):
            member = four.membership.nodes[peer.id]
            member.capabilities = MINE & ~ENDS
        four.membership.version += 1
        lose(four, two)
        ((peer_id, message),) = four.sent(ASKEND, KEEPEND)
        assert (peer_id, message[0]) == (newer[0].id, KEEPEND)

    def test_an_end_without_retain_is_not_repaired(self, four: Bench) -> None:
        client = four.client()
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETRY", 600)
        ((peer_id, message),) = four.sent(REPLJOB)
        gone = node_of(four, peer_id)
        four.hear(gone, (GOTJOB, message[REPLJOB_IDS]))
        job_id = client.read()
        assert client.get("q") == [job_id]
        assert client("CANCEL", job_id) == 1
        four.hear(gone, (GOTACK, 1, (), (job_id,)))
        assert four.node.ends.by_id[job_id].lasts
        lose(four, gone)
        assert not four.sent(KEEPEND)

    def test_a_node_that_is_forgotten_keeps_nothing_any_more(self, four: Bench) -> None:
        job_id, (gone,) = ended(four, 2)
        assert four.client()("CLUSTER", "FORGET", gone.id) == b"OK"
        four.peers.remove(gone)
        four.live(3000)
        ((_, message),) = four.sent(KEEPEND)
        assert gone.id not in message[8]
        assert gone.id not in four.node.ends.by_id[job_id].holders

    def test_flushall_ends_it(self, four: Bench) -> None:
        job_id, (gone,) = ended(four, 2)
        lose(four, gone)
        ((peer_id, _),) = four.sent(KEEPEND)
        assert four.client()("DEBUG", "FLUSHALL") == b"OK"
        four.hear(node_of(four, peer_id), (COPYIS, END_KEPT, (), (job_id,)))
        four.live(2000)
        assert not four.node.repairs.keeping
        assert not four.node.ends.by_id


class TestLeaving:
    def test_a_node_that_leaves_copies_its_ends_away(self, four: Bench) -> None:
        job_id, _ = ended(four, 1)
        client = four.client()
        assert client("CLUSTER", "LEAVING", "yes") == b"OK"
        assert b"leaving_jobs:1\r\n" in client("CLUSTER", "INFO")
        four.live(2500)
        ((peer_id, _),) = four.sent(KEEPEND)
        four.live(2000)
        assert four.node.repairs.left != 0
        four.hear(node_of(four, peer_id), (COPYIS, END_KEPT, (), (job_id,)))
        four.live(1000)
        assert b"leaving_jobs:1\r\n" in client("CLUSTER", "INFO")
        four.live(3000)
        assert four.sent(ASKEND)
        four.hear(node_of(four, peer_id), (COPYIS, END_KEPT, (), (job_id,)))
        four.live(1000)
        assert b"leaving_jobs:0\r\n" in client("CLUSTER", "INFO")
        assert four.node.repairs.news[-1].endswith("it can be stopped")

    def test_another_node_that_leaves_is_no_target_and_no_copy(self, four: Bench) -> None:
        job_id, (one,) = ended(four, 2)
        leaver, *rest = without(four, job_id)
        for peer in (one, leaver):
            four.membership.nodes[peer.id].flags |= LEAVING
        four.membership.version += 1
        four.live(2500)
        assert [peer_id for peer_id, _ in four.sent(ASKEND)] == [one.id]
        four.hear(one, (COPYIS, END_KEPT, (), (job_id,)))
        assert [peer_id for peer_id, _ in four.sent(KEEPEND)] == [rest[0].id]


class TestTaking:
    def test_it_is_written_confirmed_and_told_to_the_others(self, four: Bench) -> None:
        one, two, *_ = four.peers
        four.hear(one, keep(holders=tuple(sorted([one.id, two.id]))))
        end = four.node.ends.by_id[ID]
        holders = tuple(sorted([MYSELF, one.id, two.id]))
        assert (end.queue, end.status, end.node_id, end.text, end.body) == (b"q", DONE, b"b" * 40, b"value", b"body")
        assert (end.repl, end.tries, end.holders, end.copied, end.lasts) == (2, 1, holders, True, True)
        assert (end.ended_ms, end.until_ms) == (four.now_ms - 5000, four.now_ms + HOUR_MS)
        assert [record[0] for record in four.records()] == [ENDED_RECORD, KEPTBY]
        told = [(peer_id, message[1]) for peer_id, message in four.sent(COPYIS)]
        assert sorted(told) == [(one.id, END_KEPT), (two.id, END_KEPT)]
        four.advance(HOUR_MS)
        assert not four.node.ends.by_id

    def test_one_that_is_there_stays_what_it_is(self, four: Bench) -> None:
        one, two, *_ = four.peers
        four.hear(one, keep())
        four.records()
        four.hear(two, keep(text=b"other", left_ms=1000))
        end = four.node.ends.by_id[ID]
        assert (end.text, end.until_ms) == (b"value", four.now_ms + HOUR_MS)
        assert two.id in end.holders
        assert [record[0] for record in four.records()] == [KEPTBY]
        assert said(four, two) == [END_KEPT]

    def test_who_waits_for_it_hears_of_it(self, four: Bench) -> None:
        one, two, *_ = four.peers
        four.hear(two, (WATCH, TELL_ME, (ID,)))
        four.sent()
        four.hear(one, keep())
        assert four.told(two, ENDED) == [(ENDED, IS_SURE, DONE, MYSELF, 0, 0, b"value", (ID,), 0, b"", b"")]

    @pytest.mark.parametrize("why", ["memory", "leaves", "journal", "size", "job", "waits"])
    def test_it_is_refused(self, four: Bench, why: str) -> None:
        one, *_ = four.peers
        if why == "memory":
            four.set("maxmemory", four.node.used * 100 // 75 + 100)
        elif why == "leaves":
            four.client()("CLUSTER", "LEAVING", "yes")
        elif why == "journal":
            four.node.misconf = b"MISCONF no"
        elif why == "size":
            four.membership.myself.body_most = 8
        elif why == "job":
            four.hear(one, repljob(one.id, job_id=ID))
        else:
            four.hear(one, repljob(one.id, job_id=ID))
            four.hear(one, (WATCH, TELL_ME, (ID,)))
            four.client()("ACKJOB", ID, "RESULT", "mine")
            four.sent()
        four.hear(one, keep())
        assert said(four, one) == [END_REFUSED]
        assert ID not in four.node.ends.by_id or four.node.ends.by_id[ID].text == b"mine"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": b"x" * 40},
            {"status": 0},
            {"status": 5},
            {"status": 2**43 - 1},
            {"repl": 0},
            {"repl": 65_536},
            {"left_ms": 0},
            {"tries": 65_536},
            {"queue": b"q" * (256 * 1024 + 1)},
            {"error": b"e" * 4097},
        ],
        ids=str,
    )
    def test_nonsense_is_skipped(self, four: Bench, wrong: dict[str, Any]) -> None:
        skipped = four.node.messages_skipped
        four.hear(four.peers[0], keep(**wrong))
        assert not four.node.ends.by_id
        assert four.node.messages_skipped == skipped + 1
        assert not four.sent(COPYIS)

    def test_a_life_that_is_too_long_is_cut(self, four: Bench) -> None:
        four.hear(four.peers[0], keep(left_ms=2**43 - 1, age_ms=2**43 - 1))
        end = four.node.ends.by_id[ID]
        assert (end.ended_ms, end.until_ms) == (0, four.now_ms + 31_536_000_000)

    def test_a_result_that_no_holder_took_gives_way(self, four: Bench) -> None:
        four.client()("ACKJOB", ID, "RESULT", "late")
        assert four.node.ends.by_id[ID].is_strange
        four.hear(four.peers[0], keep())
        assert four.node.ends.by_id[ID].text == b"value"
        assert said(four, four.peers[0]) == [END_KEPT]

    def test_a_copy_follows_the_nodes_that_knew_the_job(self, four: Bench) -> None:
        one, two, *_ = four.peers
        four.hear(one, keep(status=CANCELLED))
        four.sent()
        four.hear(one, (ENDED, 0, DONE, two.id, 0, HOUR_MS, b"better", (ID,), 0, b"", b""))
        end = four.node.ends.by_id[ID]
        assert (end.status, end.text, end.copied, end.repl) == (DONE, b"better", True, 2)
        assert not [message for message in four.told(one, ENDED) if message[1] == WAS_SURE]

    def test_who_is_asked_says_whether_it_keeps_it(self, four: Bench) -> None:
        one, two, *_ = four.peers
        four.hear(one, (ASKEND, (one.id,), (ID,)))
        assert said(four, one) == [END_UNKNOWN]
        four.hear(one, keep(holders=(one.id,)))
        four.sent()
        four.hear(two, (ASKEND, (two.id,), (ID,)))
        holders = tuple(sorted([MYSELF, one.id, two.id]))
        assert four.told(two, COPYIS) == [(COPYIS, END_KEPT, holders, (ID,))]
        assert four.node.ends.by_id[ID].holders == holders


def test_an_end_without_a_record_gets_one_before_it_counts_as_kept(four: Bench) -> None:
    job_id, (one,) = ended(four, 2)
    end = four.node.ends.by_id[job_id]
    four.node.live[end.segment] -= 1
    end.segment = 0  # as if its job had expired before this node started
    four.hear(one, (ASKEND, tuple(sorted([MYSELF, one.id])), (job_id,)))
    assert four.sent(COPYIS) == [(one.id, (COPYIS, END_KEPT, (), (job_id,)))]
    assert [record[:2] for record in four.records() if record[0] == ENDED_RECORD] == [(ENDED_RECORD, job_id)]


def test_a_copy_outlives_the_collection_of_the_job(four: Bench) -> None:
    one, *_ = four.peers
    four.hear(one, keep())
    four.hear(one, (DELJOB, (ID,)))
    assert ID in four.node.ends.by_id
