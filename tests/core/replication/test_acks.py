import pytest

from cluster.membership import Member
from cluster.messages import DELJOB, GOTACK, HAVE, QUEUED, REFUSED, REFUSED_GONE, SETACK, STILL
from disque.core.dedup import keys
from disque.core.dedup.keys import digest_of
from disque.core.journal.recovery import Recovery
from disque.core.journal.schema import DELETE, DUMMY
from disque.core.model.ack_batch import BATCH_LEAST
from disque.core.replication import acks
from tests.core.support import MYSELF, START_MS, UNKNOWN_ID, Bench, Client, foreign_id, repljob
from tests.support.keys import keys_record


@pytest.mark.parametrize("state", ["queued", "active", "delayed", "nacked"])
def test_an_acknowledged_job_is_gone_at_once_whatever_its_state(bench: Bench, client: Client, state: str) -> None:
    job = client.add("q", "b", *(("DELAY", 9) if state == "delayed" else ()))
    if state in {"active", "nacked"}:
        client.get("q")
    if state == "nacked":
        client("NACK", job, "DELAY", 5)
    assert acks.acknowledge(bench.node, job, START_MS)
    assert not acks.acknowledge(bench.node, job, START_MS)
    assert client.raw("SHOW", job) == b"$-1\r\n"
    bench.advance(1_000_000)
    assert client.get("q") == []


def test_unknown_jobs_are_not_remembered(bench: Bench) -> None:
    assert not acks.acknowledge(bench.node, UNKNOWN_ID, START_MS)
    assert not acks.delete(bench.node, UNKNOWN_ID, bench.now_ms)
    assert bench.node.jobs_registered() == 0
    assert bench.node.used == 0


def test_an_acknowledged_job_lets_go_of_its_body(bench: Bench, client: Client) -> None:
    jobs = [client.add("q", "x" * 1000) for _ in range(3)]
    middle = bench.job(jobs[1])
    client("ACKJOB", jobs[1])
    assert middle.body == b"", "its shell may still lie in the queue"
    assert client.get("q", count=3) == [jobs[0], jobs[2]]


@pytest.mark.parametrize(("command", "kind"), [("ACKJOB", 3), ("FASTACK", 4), ("DELJOB", 4)])
def test_the_end_of_a_job_is_filed(command: str, kind: int) -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job = client.add("q")
    bench.records()
    client(command, job, job, UNKNOWN_ID)
    assert bench.records() == [(kind, job)]


def test_expiry_is_not_filed() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    client.add("q", "b", "TTL", 1)
    bench.records()
    bench.advance(1000)
    assert bench.node.jobs_registered() == 0
    assert bench.records() == []


def test_a_spent_job_can_be_acknowledged(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 0)
    client.get("q")
    assert client("ACKJOB", job) == 1
    assert not bench.node.evictable


# -- with other nodes -------------------------------------------------------------------------------------------------


def shared(bench: Bench, copies: int = 2) -> tuple[bytes, list[Member]]:
    """A job with so many copies, and the other nodes that hold it."""
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, "RETRY", 60)
    bench.settle()
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, *bench.peers)
    bench.sent()
    return job_id, [bench.membership.nodes[one] for one in bench.job(job_id).holders if one != MYSELF]


def acknowledged(bench: Bench, copies: int = 2) -> tuple[bytes, list[Member]]:
    job_id, others = shared(bench, copies)
    assert bench.client()("ACKJOB", job_id) == 1
    return job_id, others


@pytest.mark.parametrize("jobs", [1, BATCH_LEAST])
@pytest.mark.parametrize(("is_known", "says"), [(0, [SETACK]), (1, [])])
def test_who_got_a_job_from_a_holder_that_has_forgotten_it_hears_that_it_is_done(
    is_known: int, says: list[int], jobs: int
) -> None:
    bench = Bench(peers=1)
    holder = bench.peers[0]
    ids = tuple([shared(bench)[0] for _ in range(jobs)])
    assert bench.client()("ACKJOB", *ids) == jobs
    bench.hear(holder, (GOTACK, is_known, (), ids))
    assert not bench.node.acks.by_id
    late = bench.meet(1)
    bench.hear(late, (HAVE, ids))
    assert [message[0] for message in bench.told(late, SETACK, GOTACK)] == says
    bench.live(3 * bench.node.membership.timeout_ms)
    assert not len(bench.node.tombstones)


class TestCollection:
    """Rules 1 and 2: collection ends when the holders are a subset of those that have confirmed, as sets."""

    def test_all_other_holders_are_told_and_the_body_is_let_go(self, cluster: Bench) -> None:
        job_id, others = acknowledged(cluster, 3)
        holders = cluster.job(job_id).holders
        assert cluster.sent() == [(one, (SETACK, holders, (job_id,))) for one in holders if one != MYSELF]
        assert cluster.state(job_id) == "acked"
        assert cluster.job(job_id).body == b""
        assert len(others) == 2

    def test_it_counts_once(self, cluster: Bench) -> None:
        job_id, _ = acknowledged(cluster)
        assert cluster.client()("ACKJOB", job_id) == 0

    def test_when_all_have_confirmed_the_rest_is_removed_everywhere(self, cluster: Bench) -> None:
        job_id, (first, second) = acknowledged(cluster, 3)
        cluster.hear(first, (GOTACK, 1, (), (job_id,)), (GOTACK, 1, (), (job_id,)))
        assert cluster.state(job_id) == "acked"
        cluster.sent()
        cluster.hear(second, (GOTACK, 0, (), (job_id,)))
        assert cluster.state(job_id) == "gone"
        assert {peer for peer, message in cluster.sent() if message == (DELJOB, (job_id,))} == {first.id, second.id}

    def test_strangers_that_confirm_make_up_for_nobody(self, cluster: Bench) -> None:
        job_id, holders = acknowledged(cluster)
        for peer in cluster.peers:
            if peer not in holders:
                cluster.hear(peer, (GOTACK, 1, (), (job_id,)))
        assert cluster.state(job_id) == "acked"

    def test_holders_that_were_not_named_are_told_too(self, cluster: Bench) -> None:
        job_id, (first,) = acknowledged(cluster)
        new = next(peer for peer in cluster.peers if peer is not first)
        cluster.sent()
        everybody = tuple(sorted([MYSELF, first.id, new.id]))
        cluster.hear(first, (GOTACK, 1, everybody, (job_id,)))
        assert cluster.told(new) == [(SETACK, everybody, (job_id,))]
        cluster.hear(new, (GOTACK, 1, (), (job_id,)))
        assert cluster.state(job_id) == "gone"

    def test_who_does_not_answer_is_told_again_ever_more_seldom(self, cluster: Bench) -> None:
        job_id, (first,) = acknowledged(cluster)
        cluster.sent()
        waits = []
        for _ in range(4):
            before_ms = cluster.now_ms
            while not cluster.told(first, SETACK):
                cluster.advance(100)
            waits.append(cluster.now_ms - before_ms)
        assert 2000 <= waits[0] <= 3100
        assert waits == sorted(waits)
        assert waits[-1] > 4 * waits[0]
        assert cluster.state(job_id) == "acked"

    def test_when_the_job_would_have_expired_nobody_cares(self, cluster: Bench) -> None:
        job_id, _ = acknowledged(cluster)
        cluster.advance(86_400_000)
        assert cluster.state(job_id) == "gone"

    def test_over_a_new_link_it_is_told_at_once(self, cluster: Bench) -> None:
        """Rule 4."""
        job_id, (first,) = acknowledged(cluster)
        cluster.link_down(first)
        cluster.sent()
        cluster.link_up(first)
        assert cluster.told(first, SETACK) == [(SETACK, cluster.node.acks.by_id[job_id].holders, (job_id,))]
        cluster.called(first)
        assert len(cluster.told(first, SETACK)) == 1

    def test_a_node_that_is_forgotten_is_not_waited_for(self, cluster: Bench) -> None:
        """Rule 6."""
        job_id, (first,) = acknowledged(cluster)
        cluster.membership.forget(first.id, cluster.now_ms)
        cluster.live(200)
        assert cluster.state(job_id) == "gone"

    def test_a_holder_that_is_not_met_yet_is_waited_for_as_another_one_may_know_it(self, cluster: Bench) -> None:
        """A node that came while that one was down; it may be down for long, and have the job when it is back."""
        job_id, (first,) = self.with_a_stranger(cluster)
        cluster.advance(120_000)
        assert cluster.state(job_id) == "acked"
        cluster.hear(first, (DELJOB, (job_id,)))
        assert cluster.state(job_id) == "gone"

    def test_if_no_other_one_knows_it_either_that_takes_minutes(self, cluster: Bench) -> None:
        job_id, _ = self.with_a_stranger(cluster)
        cluster.advance(360_000)
        assert cluster.state(job_id) == "gone"

    def test_a_holder_that_is_not_met_yet_and_that_nobody_else_can_know_is_waited_for_some_seconds(
        self, cluster: Bench
    ) -> None:
        job_id, (first,) = self.with_a_stranger(cluster)
        cluster.membership.forget(first.id, cluster.now_ms)
        cluster.live(2000)
        assert cluster.state(job_id) == "acked"
        cluster.live(8000)
        assert cluster.state(job_id) == "gone"

    @staticmethod
    def with_a_stranger(cluster: Bench) -> tuple[bytes, list[Member]]:
        """A job that is acknowledged, of whose two other holders one was never met."""
        job_id, peers = acknowledged(cluster)
        holders = cluster.node.acks.by_id[job_id].holders
        cluster.hear(peers[0], (GOTACK, 1, tuple(sorted([*holders, b"c" * 40])), (job_id,)))
        return job_id, peers


class TestHearing:
    """SETACK of a job that is known here, or not."""

    @pytest.mark.parametrize("state", ["queued", "active", "backup", "wait-repl"])
    def test_the_job_is_done_whatever_its_state(self, cluster: Bench, state: str) -> None:
        peer = cluster.peers[0]
        if state == "backup":
            job_id = foreign_id()
            cluster.hear(peer, repljob(peer.id))
        elif state == "wait-repl":
            cluster.client().send("ADDJOB", "q", "body", 0, "REPLICATE", 5)
            (job_id,) = cluster.node.copies.wanted
        else:
            job_id, (peer,) = shared(cluster)
        if state == "active":
            cluster.client().get("q")
        cluster.sent()
        cluster.hear(peer, (SETACK, cluster.job(job_id).holders, (job_id,)))
        assert (GOTACK, 1, (), (job_id,)) in cluster.told(peer)
        assert cluster.client().get("q") == []
        assert cluster.state(job_id) == ("acked" if state == "wait-repl" else "gone"), "three others hold it too"

    def test_the_producer_of_a_job_that_waits_for_copies_is_told_its_id(self, cluster: Bench) -> None:
        producer = cluster.client()
        producer.send("ADDJOB", "q", "body", 0, "REPLICATE", 3)
        (job_id,) = cluster.node.copies.wanted
        cluster.hear(cluster.peers[0], (SETACK, (), (job_id,)))
        assert producer.read() == job_id

    def test_an_unknown_job_is_confirmed_and_its_id_remembered(self, cluster: Bench) -> None:
        """Rule 5."""
        peer = cluster.peers[0]
        cluster.hear(peer, (SETACK, (peer.id,), (foreign_id(), b"x" * 40, foreign_id())))
        assert cluster.told(peer) == [(GOTACK, 0, (), (foreign_id(), b"x" * 40, foreign_id()))]
        assert foreign_id() in cluster.node.tombstones

    def test_the_answer_brings_the_holders_that_were_not_named(self, cluster: Bench) -> None:
        job_id, _ = shared(cluster, 3)
        cluster.hear(cluster.peers[0], (SETACK, (cluster.peers[0].id,), (job_id,)))
        (answer,) = cluster.told(cluster.peers[0], GOTACK)
        assert answer == (GOTACK, 1, tuple(sorted({*cluster.job(job_id).holders, cluster.peers[0].id})), (job_id,))

    def test_of_a_job_that_is_known_here_alone_nothing_stays(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id = client.add("q", "b", "REPLICATE", 1)
        cluster.hear(cluster.peers[0], (SETACK, (), (job_id,)))
        assert cluster.told(cluster.peers[0]) == [(GOTACK, 1, (MYSELF,), (job_id,))]
        assert cluster.state(job_id) == "gone"
        assert client.get("q") == []

    def test_a_job_that_was_never_known_to_the_teller_is_told_to_the_holders(self, cluster: Bench) -> None:
        job_id, (first,) = shared(cluster)
        stranger = next(peer for peer in cluster.peers if peer is not first)
        cluster.hear(stranger, (SETACK, (), (job_id,)))
        told = cluster.sent()
        holders = tuple(sorted([MYSELF, first.id]))
        assert (stranger.id, (GOTACK, 1, holders, (job_id,))) in told
        assert (first.id, (SETACK, holders, (job_id,))) in told
        assert stranger.id not in cluster.node.acks.by_id[job_id].holders


class TestWhoCounts:
    """An acknowledgement at a node that does not know the job counts at the node where a consumer has it."""

    def acked(self, bench: Bench) -> int:
        return bench.node.specs.find(b"q", 0, 0, 0).figures.acked

    def test_whichever_holder_hears_of_it_first(self, cluster: Bench) -> None:
        job_id, (first,) = shared(cluster)
        assert cluster.client().get("q") == [job_id]
        holders = cluster.job(job_id).holders
        cluster.hear(first, (SETACK, (), (job_id,)), (SETACK, holders, (job_id,)))
        assert self.acked(cluster) == 1
        cluster.hear(cluster.peers[-1], (SETACK, (), (job_id,)))
        assert self.acked(cluster) == 1

    def test_where_it_is_not_out_that_is_passed_on(self, cluster: Bench) -> None:
        job_id, (first,) = shared(cluster)
        stranger = next(peer for peer in cluster.peers if peer is not first)
        cluster.sent()
        cluster.hear(stranger, (SETACK, (), (job_id,)))
        told = cluster.told(first, SETACK)
        assert [message[1] for message in told] == [(), tuple(sorted([MYSELF, first.id]))]
        assert self.acked(cluster) == 0

    def test_but_not_what_a_node_that_knew_it_was_told(self, cluster: Bench) -> None:
        job_id, (first,) = shared(cluster)
        cluster.client().get("q")
        cluster.hear(first, (SETACK, cluster.job(job_id).holders, (job_id,)))
        assert self.acked(cluster) == 0


class TestDummies:
    """An ID that this node never saw may be acknowledged here, too."""

    def test_all_nodes_are_told(self, cluster: Bench) -> None:
        assert cluster.client()("ACKJOB", UNKNOWN_ID) == 0
        assert cluster.sent() == [(peer.id, (SETACK, (), (UNKNOWN_ID,))) for peer in cluster.peers]
        assert cluster.client()("ACKJOB", UNKNOWN_ID) == 0, "it was never known here"

    def test_one_that_knows_the_job_goes_on_with_it(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID)
        cluster.hear(cluster.peers[0], (GOTACK, 1, (), (UNKNOWN_ID,)))
        assert not cluster.node.acks.by_id

    def test_when_nobody_knows_the_job_it_is_forgotten(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID)
        for number, peer in enumerate(cluster.peers, 1):
            cluster.hear(peer, (GOTACK, 0, (), (UNKNOWN_ID,)))
            assert (UNKNOWN_ID in cluster.node.acks.by_id) == (number < 4)

    def test_two_that_do_not_know_it_agree(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID)
        cluster.sent()
        cluster.hear(cluster.peers[0], (SETACK, (), (UNKNOWN_ID,)))
        assert cluster.sent() == [(cluster.peers[0].id, (GOTACK, 0, (), (UNKNOWN_ID,)))]
        assert UNKNOWN_ID in cluster.node.acks.by_id

    def test_it_goes_when_a_holder_says_that_the_job_is_done(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID)
        cluster.hear(cluster.peers[0], (SETACK, (cluster.peers[0].id,), (UNKNOWN_ID,)))
        assert not cluster.node.acks.by_id
        assert UNKNOWN_ID in cluster.node.tombstones

    def test_of_a_job_that_is_delivered_at_most_once_there_is_none(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID[:-1] + b"0")
        assert not cluster.node.acks.by_id

    @pytest.mark.parametrize("suffix", [b"zzzz", b"+1_1", b"    ", b"0x01"])
    def test_nor_of_an_id_that_does_not_tell_its_life(self, cluster: Bench, suffix: bytes) -> None:
        assert cluster.client()("ACKJOB", UNKNOWN_ID[:-4] + suffix) == 0
        assert not cluster.node.acks.by_id

    def test_nor_on_a_node_that_is_alone_or_leaves(self, bench: Bench, cluster: Bench) -> None:
        bench.client()("ACKJOB", UNKNOWN_ID)
        cluster.membership.leaving = True
        cluster.client()("ACKJOB", UNKNOWN_ID)
        assert not bench.node.acks.by_id
        assert not cluster.node.acks.by_id

    def test_it_lives_as_long_as_the_id_says(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", UNKNOWN_ID)
        cluster.advance(0x05A1 * 60_000 - 1)
        assert cluster.node.acks.by_id
        cluster.advance(1)
        assert not cluster.node.acks.by_id

    def test_they_are_bounded_and_the_oldest_goes_first(self, cluster: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acks, "DUMMIES_MOST", 2)
        cluster.client()("ACKJOB", *[foreign_id(number) for number in range(3)])
        assert list(cluster.node.acks.dummies) == [foreign_id(1), foreign_id(2)]
        assert cluster.node.evicted == 1

    def test_it_is_in_the_journal_and_leaves_it(self) -> None:
        bench = Bench(peers=1, journaling=True)
        bench.client()("ACKJOB", UNKNOWN_ID)
        assert [record[:2] for record in bench.records()] == [(DUMMY, UNKNOWN_ID)]
        bench.hear(bench.peers[0], (GOTACK, 0, (), (UNKNOWN_ID,)))
        assert bench.records() == [(DELETE, UNKNOWN_ID)]

    def test_with_it_goes_the_key_of_the_job_that_nobody_knows(self) -> None:
        """As in the journal, where its DELETE frees the key: this node kept that for a job of another one."""
        bench = Bench(peers=1)
        digest = digest_of(b"q", b"k")
        keys.apply_keys(Recovery(bench.node, ""), keys_record(digest, UNKNOWN_ID, 0, bench.now_ms + 60_000, 2), 1)
        bench.client()("ACKJOB", UNKNOWN_ID)
        bench.hear(bench.peers[0], (GOTACK, 0, (), (UNKNOWN_ID,)))
        assert not bench.node.unique.table

    def test_it_counts_for_the_segment_of_its_record_until_it_is_gone(self) -> None:
        bench = Bench(peers=1, journaling=True)
        bench.client()("ACKJOB", UNKNOWN_ID)
        assert bench.node.live == {1: 1}
        bench.hear(bench.peers[0], (GOTACK, 0, (), (UNKNOWN_ID,)))
        assert bench.node.live == {1: 0}

    def test_a_copy_that_comes_later_is_refused_while_it_is_known(self, cluster: Bench) -> None:
        cluster.client()("ACKJOB", foreign_id())
        cluster.sent()
        cluster.hear(cluster.peers[0], repljob())
        assert cluster.told(cluster.peers[0]) == [(REFUSED, REFUSED_GONE, (foreign_id(),))]

    def test_for_want_of_memory_it_is_evicted(self, cluster: Bench) -> None:
        client = cluster.client()
        client("ACKJOB", UNKNOWN_ID)
        client.add("q", "x" * 5000, "REPLICATE", 1)
        cluster.set("maxmemory", cluster.node.used)
        client("ADDJOB", "q", "b", 0, "REPLICATE", 1)
        assert not cluster.node.acks.by_id
        assert cluster.node.evicted == 1


class TestDeletion:
    def test_fastack_tells_the_other_holders_only(self, cluster: Bench) -> None:
        job_id, (first,) = shared(cluster)
        assert acks.fast_ack(cluster.node, job_id, cluster.now_ms)
        assert cluster.sent() == [(first.id, (DELJOB, (job_id,)))]
        assert job_id in cluster.node.tombstones

    def test_fastack_of_an_unknown_job_tells_all(self, cluster: Bench) -> None:
        assert not acks.fast_ack(cluster.node, UNKNOWN_ID, cluster.now_ms)
        assert cluster.sent() == [(peer.id, (DELJOB, (UNKNOWN_ID,))) for peer in cluster.peers]

    @pytest.mark.parametrize("kind", ["queued", "out", "acked", "dummy", "unknown"])
    def test_deljob_removes_whatever_there_is(self, cluster: Bench, kind: str) -> None:
        job_id, (first,) = (UNKNOWN_ID, cluster.peers[:1]) if kind in {"dummy", "unknown"} else shared(cluster)
        client = cluster.client()
        if kind == "out":
            client.get("q")
        elif kind in {"acked", "dummy"}:
            client("ACKJOB", job_id)
        cluster.hear(first, (DELJOB, (job_id, job_id)))
        assert cluster.state(job_id) == "gone"
        assert not cluster.node.acks.by_id
        assert job_id in cluster.node.tombstones

    def test_the_command_deletes_here_only(self, cluster: Bench) -> None:
        job_id, _ = shared(cluster)
        assert cluster.client()("DELJOB", job_id) == 1
        assert cluster.sent() == []


def test_a_holder_that_the_collector_does_not_know_is_told_all_the_same() -> None:
    """Nodes may disagree who is of the cluster: the word that all is over counts for those that were named only."""
    bench = Bench(peers=2)
    job_id, others = shared(bench, 3)
    collector, unknown = others
    named = tuple(sorted([MYSELF, collector.id]))
    bench.hear(collector, (SETACK, named, (job_id,)))
    bench.sent(SETACK)
    bench.hear(collector, (DELJOB, (job_id,)))
    assert [peer for peer, _ in bench.sent(SETACK)] == [unknown.id]
    bench.hear(unknown, (GOTACK, 1, (), (job_id,)))
    assert bench.state(job_id) == "gone"
    assert bench.node.acks.by_id == {}


def test_who_collects_goes_on_for_a_holder_that_the_answer_leaves_out() -> None:
    """The same, when the node that does not know one of them hears of the end, and has nobody else to tell."""
    bench = Bench(peers=2)
    job_id, others = shared(bench, 3)
    other, down = others
    assert bench.client()("ACKJOB", job_id) == 1
    bench.sent(SETACK)
    bench.hear(other, (GOTACK, 1, tuple(sorted([MYSELF, other.id])), (job_id,)))
    bench.hear(other, (DELJOB, (job_id,)))
    assert [peer for peer, _ in bench.sent(SETACK)] == [down.id]
    bench.hear(down, (GOTACK, 1, (), (job_id,)))
    assert bench.node.acks.by_id == {}


def test_holders_that_one_node_leaves_out_are_told_though_another_one_leaves_out_others() -> None:
    bench = Bench(peers=4)
    job_id, (one, two, here, down) = shared(bench, 5)
    assert bench.client()("ACKJOB", job_id) == 1
    bench.hear(one, (GOTACK, 1, tuple(sorted([MYSELF, one.id, two.id, here.id])), (job_id,)))
    bench.hear(two, (GOTACK, 1, tuple(sorted([MYSELF, one.id, two.id, down.id])), (job_id,)))
    bench.hear(here, (GOTACK, 1, (), (job_id,)))
    bench.sent(SETACK)
    bench.hear(one, (DELJOB, (job_id,)))
    assert [peer for peer, _ in bench.sent(SETACK)] == [down.id], "the first one does not know it"
    bench.hear(down, (GOTACK, 1, (), (job_id,)))
    assert bench.node.acks.by_id == {}


def test_who_names_more_holders_hears_first_that_they_are_nobody_here(cluster: Bench) -> None:
    job_id, (collector,) = shared(cluster)
    gone = b"f" * 40
    cluster.node.membership.departed[gone] = None
    for _ in range(2):
        cluster.hear(collector, (SETACK, tuple(sorted([MYSELF, collector.id, gone])), (job_id,)))
        told = cluster.told(collector)
        assert told == [(GOTACK, 1, tuple(sorted([MYSELF, collector.id])), (job_id,))], "no DELJOB"
    cluster.live(10_000)
    assert cluster.told(collector) == [(DELJOB, (job_id,))]
    assert cluster.node.acks.by_id == {}


@pytest.mark.parametrize("verb", ["ACKJOB", "CANCEL"])
def test_who_may_have_taken_a_job_over_before_power_failed_hears_that_it_is_done(
    bench: Bench, client: Client, verb: str
) -> None:
    other = bench.meet(1)
    old, sure = (client.add("q", "b", "REPLICATE", 1) for _ in range(2))
    bench.node.acks.doubted = bench.job(old).ctime
    assert client(verb, old, sure) == 2
    bench.sent()
    bench.hear(other, (QUEUED, STILL, (old,)), (QUEUED, STILL, (sure,)))
    assert bench.sent(SETACK, GOTACK) == [(other.id, (SETACK, (), (old,)))]
