"""Copies kept for other nodes: when they are taken, when they are refused, when they are queued."""

from typing import Any

import pytest

from cluster.messages import (
    ABORT,
    ANSWER,
    ANSWER_NO,
    ENQUEUE,
    GOTJOB,
    HAVE,
    QUEUE_IT,
    REFUSED,
    REFUSED_GONE,
    REFUSED_JOURNAL,
    REFUSED_LEAVING,
    REFUSED_MEMORY,
    REFUSED_PAUSED,
    REPLJOB_IDS,
    SETACK,
    WILLQUEUE,
)
from disque.core.journal.schema import DELETE, HOLDERS, JOBS, JOBS_HOLDERS, JOBS_IDS
from disque.core.model.job import BACKUP, CTIME_MOST, DEFERRED, LEASE_OWNER
from disque.core.replication import announcements, replica
from tests.core.support import MYSELF, Bench, all_jobs, foreign_id, repljob
from tests.support.formats import repljob_with

JOB_ID = foreign_id()


def holding(cluster: Bench, **given: Any) -> bytes:
    """A copy for the first peer, which has one itself: the ID."""
    message = repljob(cluster.peers[0].id, **given)
    cluster.hear(cluster.peers[0], message)
    cluster.sent()
    (job_id,) = message[REPLJOB_IDS]
    assert isinstance(job_id, bytes)
    return job_id


def say_no(cluster: Bench) -> None:
    """Every node that was asked has nothing against it."""
    for peer_id, (_, number, _, ids) in cluster.sent(WILLQUEUE):
        cluster.hear(cluster.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))


class TestTaking:
    def test_a_copy_is_confirmed(self, cluster: Bench) -> None:
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id))
        assert cluster.sent() == [(cluster.peers[0].id, (GOTJOB, (JOB_ID,)))]

    def test_it_has_all_that_was_sent(self, cluster: Bench) -> None:
        holders = (cluster.peers[0].id, cluster.peers[1].id)
        holding(cluster)
        cluster.hear(cluster.peers[0], repljob(*holders, job_id=foreign_id(2), queue=b"\r\n", body=b"\0", ttl=50))
        job = cluster.job(foreign_id(2))
        assert (job.queue, job.body, job.retry, job.ttl, job.repl) == (b"\r\n", b"\0", 60, 50, 2)
        assert (job.expires_ms, job.ctime) == (cluster.now_ms + 50_000, cluster.now_ms * 1_000_000)
        assert job.holders == tuple(sorted([MYSELF, *holders]))

    def test_it_is_no_job_of_any_queue_yet(self, cluster: Bench) -> None:
        holding(cluster)
        assert cluster.state(JOB_ID) == "active"
        assert cluster.job(JOB_ID).flags == BACKUP
        assert cluster.client().get("q") == []

    def test_many_are_confirmed_together(self, cluster: Bench) -> None:
        messages = [repljob(cluster.peers[0].id, job_id=foreign_id(number)) for number in range(3)]
        cluster.hear(cluster.peers[0], *messages)
        ids = tuple([foreign_id(number) for number in range(3)])
        assert cluster.sent() == [(cluster.peers[0].id, (GOTJOB, ids))]

    def test_jobs_of_one_message_differ_in_id_body_and_place(self, cluster: Bench) -> None:
        ids = tuple([foreign_id(number) for number in range(3)])
        kind = repljob(cluster.peers[0].id, ttl=50)
        cluster.hear(cluster.peers[0], repljob_with(kind, ids=ids, bodies=(b"a", b"", b"c"), ctimes=(30, 10, 20)))
        assert cluster.sent() == [(cluster.peers[0].id, (GOTJOB, ids))]
        jobs = [cluster.job(job_id) for job_id in ids]
        assert [(job.body, job.ctime) for job in jobs] == [(b"a", 30), (b"", 10), (b"c", 20)]
        assert {job.expires_ms for job in jobs} == {cluster.now_ms + 50_000}
        assert len({id(job.holders) for job in jobs}) == 1

    def test_each_job_of_a_message_is_judged_by_itself(self, cluster: Bench) -> None:
        one = cluster.peers[0]
        cluster.hear(one, repljob(one.id), (ABORT, (foreign_id(2),)))
        cluster.sent()
        ids = (JOB_ID, foreign_id(2), b"x" * 40, foreign_id(3), foreign_id(3))
        cluster.hear(one, repljob_with(repljob(one.id), ids=ids, bodies=(b"other",) * 5, ctimes=(1, 2, 3, 4, 5)))
        said = cluster.told(one)
        assert (GOTJOB, (JOB_ID, foreign_id(3), foreign_id(3))) in said
        assert (REFUSED, REFUSED_GONE, (foreign_id(2),)) in said
        assert len(said) == 2
        assert cluster.node.messages_skipped == 1
        assert cluster.job(JOB_ID).body == b"body"
        assert cluster.job(foreign_id(3)).ctime == 4

    def test_memory_may_end_in_the_middle_of_a_message(self, cluster: Bench) -> None:
        one = cluster.peers[0]
        cluster.node.limits.warn = cluster.node.used + 1
        ids = (foreign_id(1), foreign_id(2))
        cluster.hear(one, repljob_with(repljob(one.id), ids=ids, bodies=(b"a", b"b"), ctimes=(1, 2)))
        assert sorted(cluster.told(one)) == [(GOTJOB, ids[:1]), (REFUSED, REFUSED_MEMORY, ids[1:])]

    def test_the_same_copy_again_is_confirmed_again_and_may_bring_holders(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id, cluster.peers[1].id, body=b"other"))
        assert cluster.told(cluster.peers[0]) == [(GOTJOB, (JOB_ID,))]
        job = cluster.job(JOB_ID)
        assert job.body == b"body"
        assert job.holders == tuple(sorted([MYSELF, cluster.peers[0].id, cluster.peers[1].id]))

    def test_it_is_in_the_journal_before_it_is_confirmed(self) -> None:
        bench = Bench(peers=2, journaling=True)
        bench.hear(bench.peers[0], repljob(bench.peers[0].id))
        (record,) = bench.records()
        assert (record[0], record[JOBS_IDS]) == (JOBS, (JOB_ID,))
        assert record[JOBS_HOLDERS] == tuple(sorted([MYSELF, bench.peers[0].id]))
        bench.hear(bench.peers[0], repljob(bench.peers[0].id, bench.peers[1].id))
        assert [record[0] for record in bench.records()] == [HOLDERS]

    def test_a_holder_that_was_heard_of_before_the_copy_came_counts(self) -> None:
        bench = Bench(peers=2, journaling=True)
        sender, holder = bench.peers
        bench.hear(holder, (HAVE, (JOB_ID,)))
        bench.hear(sender, repljob(sender.id))
        everybody = tuple(sorted([MYSELF, sender.id, holder.id]))
        assert bench.job(JOB_ID).holders == everybody
        assert bench.records()[-1] == (HOLDERS, JOB_ID, everybody)

    def test_what_was_heard_long_before_is_forgotten(self, cluster: Bench) -> None:
        sender, holder = cluster.peers[:2]
        cluster.hear(holder, (HAVE, (JOB_ID,)))
        cluster.live(3 * cluster.node.membership.timeout_ms)
        cluster.hear(sender, repljob(sender.id))
        assert holder.id not in cluster.job(JOB_ID).holders

    def test_of_a_job_that_is_gone_nothing_is_remembered(self, cluster: Bench) -> None:
        cluster.node.remember_gone(JOB_ID)
        cluster.hear(cluster.peers[1], (HAVE, (JOB_ID,)))
        assert not len(cluster.node.early_holders)
        assert cluster.sent(SETACK) == [(cluster.peers[1].id, (SETACK, (), (JOB_ID,)))], (
            "but who has it hears that it is done"
        )

    def test_holders_that_were_forgotten_are_left_out(self, cluster: Bench) -> None:
        gone = cluster.peers[1].id
        cluster.membership.forget(gone, cluster.now_ms)
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id, gone))
        assert cluster.job(JOB_ID).holders == tuple(sorted([MYSELF, cluster.peers[0].id]))

    def test_also_when_other_jobs_had_the_same_ones_before(self, cluster: Bench) -> None:
        gone = cluster.peers[1].id
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id, gone, MYSELF, job_id=foreign_id(2)))
        assert gone in cluster.job(foreign_id(2)).holders
        cluster.membership.forget(gone, cluster.now_ms)
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id, gone, MYSELF))
        assert cluster.job(JOB_ID).holders == tuple(sorted([MYSELF, cluster.peers[0].id]))

    def test_holders_that_are_not_met_yet_stay(self, cluster: Bench) -> None:
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id, b"c" * 40))
        assert cluster.job(JOB_ID).holders == tuple(sorted([MYSELF, cluster.peers[0].id, b"c" * 40]))

    def test_holders_are_a_sorted_set_whatever_was_sent(self, cluster: Bench) -> None:
        one, two = cluster.peers[0].id, cluster.peers[1].id
        mixed = (two, one, two, one)
        cluster.hear(cluster.peers[0], repljob_with(repljob(), holders=mixed))
        cluster.hear(cluster.peers[0], repljob_with(repljob(job_id=foreign_id(2)), holders=()))
        cluster.hear(cluster.peers[0], repljob_with(repljob(job_id=foreign_id(2)), holders=mixed))
        for job in all_jobs(cluster.node):
            assert job.holders == tuple(sorted({MYSELF, one, two}))

    @pytest.mark.parametrize("job_id", [b"x" * 40, b"D_" + JOB_ID[2:], JOB_ID[:35] + b"_05a1", JOB_ID[1:] + b"D"])
    def test_an_id_that_is_none_is_skipped_and_counted(self, cluster: Bench, job_id: bytes) -> None:
        cluster.hear(cluster.peers[0], repljob(job_id=job_id))
        assert cluster.sent() == []
        assert cluster.node.messages_skipped == 1
        assert cluster.node.jobs_registered() == 0

    @pytest.mark.parametrize("retry", [0, 60])
    def test_an_id_says_itself_whether_its_job_has_a_retry(self, cluster: Bench, retry: int) -> None:
        cluster.hear(cluster.peers[0], repljob(job_id=foreign_id(retry=60 - retry), retry=retry))
        assert cluster.sent() == []
        assert cluster.node.messages_skipped == 1
        assert cluster.node.jobs_registered() == 0

    def test_nothing_may_be_the_last_of_all_jobs(self, cluster: Bench) -> None:
        """This node numbers its own jobs behind those that bear its name: there must be room."""
        last = repljob_with(repljob(), ctimes=(2**62 - 1,))
        cluster.hear(cluster.peers[0], last)
        assert cluster.sent() == []
        assert cluster.node.messages_skipped == 1
        cluster.hear(cluster.peers[0], repljob_with(last, ctimes=(CTIME_MOST,)))
        assert cluster.node.jobs_registered() == 1

    @pytest.mark.parametrize("wrong", [{"retry": 2**32}, {"ttl": 2**32}])
    def test_times_that_no_client_can_ask_for_are_skipped_and_counted(self, cluster: Bench, wrong: Any) -> None:
        cluster.hear(cluster.peers[0], repljob(**wrong))
        assert cluster.sent() == []
        assert cluster.node.messages_skipped == 1

    def test_at_most_once_has_one_holder_whatever_was_sent(self, cluster: Bench) -> None:
        job_id = holding(cluster, retry=0)
        assert cluster.job(job_id).holders == (MYSELF,)


class TestRefusing:
    """Rule 25: REFUSED says why, so that another node can be asked at once."""

    def refused(self, cluster: Bench) -> int:
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id))
        ((kind, reason, ids),) = cluster.told(cluster.peers[0])
        assert (kind, ids) == (REFUSED, (JOB_ID,))
        return int(reason)

    def test_for_want_of_memory(self, cluster: Bench) -> None:
        cluster.client().add("other", "x" * 10_000, "REPLICATE", 1)
        cluster.set("maxmemory", cluster.node.used * 100 // 80)
        assert self.refused(cluster) == REFUSED_MEMORY

    def test_before_leaving(self, cluster: Bench) -> None:
        cluster.membership.leaving = True
        assert self.refused(cluster) == REFUSED_LEAVING

    def test_while_the_queue_takes_nothing_in(self, cluster: Bench) -> None:
        cluster.client()("PAUSE", "q", "in")
        cluster.sent()
        assert self.refused(cluster) == REFUSED_PAUSED

    def test_while_the_journal_cannot_be_written(self, cluster: Bench) -> None:
        cluster.node.misconf = b"MISCONF"
        assert self.refused(cluster) == REFUSED_JOURNAL

    def test_of_a_job_that_was_acknowledged_elsewhere(self, cluster: Bench) -> None:
        """Rule 5: who said that it does not know a job takes no copy of it afterwards."""
        cluster.hear(cluster.peers[1], (SETACK, (cluster.peers[1].id, cluster.peers[0].id), (JOB_ID,)))
        cluster.sent()
        assert self.refused(cluster) == REFUSED_GONE

    def test_of_a_job_that_is_acknowledged_here(self, cluster: Bench) -> None:
        assert cluster.client()("ACKJOB", JOB_ID) == 0
        cluster.sent()
        assert self.refused(cluster) == REFUSED_GONE

    def test_but_not_of_one_that_is_here(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.membership.leaving = True
        cluster.hear(cluster.peers[0], repljob(cluster.peers[0].id))
        assert cluster.told(cluster.peers[0]) == [(GOTJOB, (JOB_ID,))]


class TestTurn:
    """Rules 11 and 12, and section 2 of the life of a copy: it is queued when it is told to be, or long after."""

    def test_a_backup_asks_when_its_retry_has_passed_since_the_first_delivery_was_due(self, cluster: Bench) -> None:
        holding(cluster, delay_ms=5000)
        cluster.advance(64_400)
        assert cluster.sent(WILLQUEUE) == []
        cluster.advance(announcements.JITTER_MS + 100)
        assert cluster.told(cluster.peers[0], WILLQUEUE)[0][3] == (JOB_ID,)

    def test_jitter_only_adds(self, cluster: Bench) -> None:
        """Rule 13."""
        messages = [repljob(job_id=foreign_id(number)) for number in range(200)]
        cluster.hear(cluster.peers[0], *messages)
        waits = [job.requeue_ms - cluster.now_ms - 60_000 for job in all_jobs(cluster.node)]
        assert 0 <= min(waits) < 100
        assert 400 < max(waits) < announcements.JITTER_MS

    def test_one_that_is_to_be_queued_here_is_queued_at_once(self, cluster: Bench) -> None:
        holding(cluster, flags=QUEUE_IT)
        assert cluster.client().get("q") == [JOB_ID]

    def test_at_most_once_is_always_to_be_queued(self, cluster: Bench) -> None:
        job_id = holding(cluster, retry=0)
        assert cluster.client().get("q") == [job_id]

    def test_one_that_is_to_be_queued_later_waits_and_is_spoken_for(self, cluster: Bench) -> None:
        job_id = holding(cluster, retry=0, delay_ms=3000)
        assert cluster.job(job_id).flags == DEFERRED | LEASE_OWNER
        cluster.advance(2999)
        assert cluster.state(job_id) == "active"
        cluster.advance(1)
        assert cluster.state(job_id) == "queued"

    def test_a_spent_job_is_left_alone_by_whatever_comes_late(self, cluster: Bench) -> None:
        """Rule 12."""
        job_id = holding(cluster, retry=0)
        client = cluster.client()
        assert client.get("q") == [job_id]
        cluster.hear(cluster.peers[0], repljob(retry=0), (ENQUEUE, job_id, 0), (ABORT, (job_id,)))
        assert client.get("q") == []
        cluster.advance(3_599_999)
        assert client.get("q") == []
        assert cluster.state(job_id) == "active"


class TestEnqueue:
    """ENQUEUE: a coordinator that keeps no copy says whose turn it is."""

    def test_queues_a_backup(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.hear(cluster.peers[0], (ENQUEUE, JOB_ID, 0))
        assert cluster.client().get("q") == [JOB_ID]

    def test_or_delays_it(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.hear(cluster.peers[0], (ENQUEUE, JOB_ID, 2000))
        cluster.advance(1600)
        say_no(cluster)
        assert cluster.state(JOB_ID) == "active"
        cluster.advance(400)
        assert cluster.state(JOB_ID) == "queued"

    def test_comes_twice_and_counts_once(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.hear(cluster.peers[0], (ENQUEUE, JOB_ID, 0), (ENQUEUE, JOB_ID, 0))
        client = cluster.client()
        assert client.get("q", count=2) == [JOB_ID]
        cluster.hear(cluster.peers[0], (ENQUEUE, JOB_ID, 0))
        assert client.get("q") == [], "it is out with a consumer"

    @pytest.mark.parametrize("job_id", [foreign_id(9), b"x" * 40])
    def test_of_an_unknown_job_changes_nothing(self, cluster: Bench, job_id: bytes) -> None:
        cluster.hear(cluster.peers[0], (ENQUEUE, job_id, 0))
        assert cluster.node.jobs_registered() == 0
        assert cluster.sent() == []

    def test_waits_while_the_queue_takes_nothing_in(self, cluster: Bench) -> None:
        holding(cluster)
        cluster.client()("PAUSE", "q", "in")
        cluster.hear(cluster.peers[0], (ENQUEUE, JOB_ID, 0))
        assert cluster.state(JOB_ID) == "active"


class TestAbort:
    """Rule 7: ABORT takes back what was never queued, vouched for or acknowledged."""

    def test_takes_back_a_backup(self) -> None:
        bench = Bench(peers=2, journaling=True)
        holding(bench)
        bench.records()
        bench.hear(bench.peers[0], (ABORT, (JOB_ID, JOB_ID)))
        assert bench.state(JOB_ID) == "gone"
        assert bench.records() == [(DELETE, JOB_ID)]

    def test_leaves_alone_what_was_queued(self, cluster: Bench) -> None:
        holding(cluster, flags=QUEUE_IT)
        cluster.hear(cluster.peers[0], (ABORT, (JOB_ID,)))
        assert cluster.client().get("q") == [JOB_ID]
        cluster.hear(cluster.peers[0], (ABORT, (JOB_ID,)))
        assert cluster.state(JOB_ID) == "active"

    def test_a_copy_that_comes_behind_it_is_refused(self, cluster: Bench) -> None:
        cluster.hear(cluster.peers[0], (ABORT, (JOB_ID,)), repljob(cluster.peers[0].id))
        assert cluster.told(cluster.peers[0]) == [(REFUSED, REFUSED_GONE, (JOB_ID,))]
        assert cluster.state(JOB_ID) == "gone"


class TestHolders:
    def test_a_node_is_added_once(self, cluster: Bench) -> None:
        holding(cluster)
        job = cluster.job(JOB_ID)
        other = cluster.peers[1].id
        assert replica.add_holders(cluster.node, job, (other, other, MYSELF))
        assert not replica.add_holders(cluster.node, job, (other,))
        assert job.holders == tuple(sorted([MYSELF, cluster.peers[0].id, other]))

    def test_equal_sets_are_one_object(self, cluster: Bench) -> None:
        messages = [repljob(cluster.peers[0].id, job_id=foreign_id(number)) for number in range(2)]
        cluster.hear(cluster.peers[0], *messages)
        first, second = all_jobs(cluster.node)
        assert first.holders is second.holders

    def test_one_that_refused_is_no_holder(self, cluster: Bench) -> None:
        holding(cluster)
        job = cluster.job(JOB_ID)
        replica.drop_holder(cluster.node, job, cluster.peers[0].id)
        assert job.holders == (MYSELF,)
