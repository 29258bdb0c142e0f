from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.membership import Member
from cluster.messages import ANSWER, ANSWER_NO, GOTACK, HOLD, SETACK, STILL, WILLQUEUE
from cluster.messages import QUEUED as SAY_QUEUED
from disque.core import entries, step
from disque.core.journal import codec
from disque.core.journal import replay as journal
from disque.core.journal.checks import FLAGS_MAX, ReplayError
from disque.core.journal.codec import encode, head, unpack
from disque.core.journal.replay import Replay, clean_list
from disque.core.journal.schema import (
    ACK,
    CLEAN,
    CTIME_A_MS,
    DELETE,
    DUMMY,
    END,
    ENTRY,
    FLUSH,
    FORMAT,
    HEAD,
    HISTORY,
    HOLDERS,
    JOBS,
    JOBS_BODIES,
    KEYS,
    MORE,
    OFF,
    PAUSE,
    PURGED,
    REQUEUE,
    RETURNED,
    SPEND,
    Record,
)
from disque.core.model.extra import IN_JOURNAL, Extra
from disque.core.model.extra import encode as encode_extra
from disque.core.model.history import COUNT_MOST, ROW
from disque.core.model.job import ACKED, ACTIVE, DEFERRED, DELIVERED, LEASE_OWNER, LEASE_RELAYED, QUEUED, SPENT, Job
from disque.core.model.memory import JOB_BYTES
from disque.core.model.registry import PAUSED_QUEUE
from disque.core.model.spec import PRIORITY
from disque.core.node import Node
from tests.core.support import Bench
from tests.support.formats import encoded, jobs_record, jobs_with, pause_entry, pause_everywhere, pauses_everywhere
from tests.support.keys import K, keys, keys_record
from tests.support.nodes import START_MS, make_node, node_id
from tests.support.state import alive, counted, queued

NOW_MS = START_MS
HOUR_MS = 3_600_000
BOOT = "boot 1"
SELF = (node_id(1),)


def job_id(number: int, retry: int = 5) -> bytes:
    return b"D-11111111-%024d-%04x" % (number, 60 | (retry > 0))


def job_record(
    number: int = 1,
    *,
    queue: Any = b"q",
    body: Any = b"body",
    flags: Any = 0,
    ctime: Any = NOW_MS * 1_000_000,
    expires_ms: Any = NOW_MS + HOUR_MS,
    delay: Any = 0,
    retry: Any = 5,
    nacks: Any = 0,
    deliveries: Any = 0,
    held_ms: Any = 0,
    state: Any = QUEUED,
    ttl: Any = 3600,
    holders: Any = SELF,
    priority: int = 0,
) -> Record:
    return jobs_record(
        job_id(number, retry),
        queue=queue,
        spec=encoded(ttl, retry, rows={PRIORITY.number: priority} if priority else None),
        state=state,
        flags=flags,
        left_ms=expires_ms - ctime // CTIME_A_MS,
        delay=delay,
        nacks=nacks,
        deliveries=deliveries,
        held_ms=held_ms,
        holders=holders,
        bodies=(body,),
        ctimes=(ctime + number,),
    )


def head_record(boot: str = BOOT, policy: str = "everysec", version: int = FORMAT) -> Record:
    return (HEAD, version, node_id(1), boot.encode(), policy.encode())


def replay(*records: Record, boot: str = BOOT, now_ms: int = NOW_MS, opened: str = BOOT) -> Node:
    """A node that has read a segment opened under ``opened``, on a machine that now has ``boot``."""
    return replayed([head_record(opened), *records], boot, now_ms)[0]


def replayed(
    records: list[Record], boot: str = BOOT, now_ms: int = NOW_MS, others: int = 0, saved_ms: int = 0
) -> tuple[Node, Replay]:
    node = make_node(now_ms, others=others)
    node.membership.saved_ms = saved_ms
    reader = Replay(node, boot)
    for payload in encode(records, NOW_MS):
        reader.apply(payload, 1)
    for _ in reader.finish(now_ms):
        pass
    return node, reader


def make_used(job: Job) -> int:
    """The memory that a node with this job alone counts, which is in no queue."""
    return JOB_BYTES + len(job.body)


class TestJob:
    def test_comes_back_with_all_its_fields(self) -> None:
        node = replay(job_record(queue=b"mail", body=b"\0\xff", retry=7, nacks=2, deliveries=3))
        job = node.find(job_id(1))
        assert job is not None
        assert (job.queue, job.body, job.retry, job.nacks, job.deliveries) == (b"mail", b"\0\xff", 7, 2, 3)
        assert (job.state, job.ctime, job.expires_ms) == (QUEUED, NOW_MS * 1_000_000 + 1, NOW_MS + HOUR_MS)
        assert queued(node, b"mail") == [job.id]

    def test_one_that_was_done_and_has_come_again_has_what_was_written_before_it(self) -> None:
        extra = Extra()
        extra.error, extra.tries = b"no disk", 2
        more = (MORE, job_id(1), encode_extra(extra, IN_JOURNAL))
        first = job_record(holders=(node_id(1), node_id(2)))
        node = replay(first, (ACK, job_id(1)), more, job_record(queue=b"again"))
        job = node.find(job_id(1))
        assert job is not None
        found = node.extra_of(job)
        assert found is not None
        assert (job.queue, found.error, found.tries) == (b"again", b"no disk", 2)

    @pytest.mark.parametrize("gone", [(ACK, job_id(1)), (DELETE, job_id(1)), (FLUSH,)])
    def test_what_was_known_of_one_that_was_gone_before_it_came_again_is_not_known_of_it(
        self, gone: tuple[Any, ...]
    ) -> None:
        extra = Extra()
        extra.tries = 1
        more = (MORE, job_id(1), encode_extra(extra, IN_JOURNAL))  # the record of its job is in a segment that is gone
        node = replay(more, gone, job_record(queue=b"again"))
        job = node.find(job_id(1))
        assert job is not None
        assert node.extra_of(job) is None

    def test_jobs_of_a_queue_share_what_they_have_in_common(self) -> None:
        node = replay(*[job_record(number, retry=5 + number % 2, queue=b"mail") for number in range(6)])
        specs = [job.spec for job in map(node.find, map(job_id, range(6))) if job is not None]
        assert [one.retry for one in specs] == [5, 6] * 3
        assert len({id(one) for one in specs}) == 2
        assert len({id(one.queue) for one in specs}) == 1

    def test_jobs_of_one_record_come_back_each_with_its_own(self) -> None:
        ids = tuple(map(job_id, (1, 2, 3)))
        ctimes = (NOW_MS * CTIME_A_MS, NOW_MS * CTIME_A_MS + 1, (NOW_MS + 7) * CTIME_A_MS)
        node = replay(jobs_with(job_record(), ids=ids, bodies=(b"a", b"b", b"c"), ctimes=ctimes))
        found = [node.find(one) for one in ids]
        assert [(job.body, job.ctime, job.expires_ms) for job in found if job is not None] == [
            (b"a", ctimes[0], NOW_MS + HOUR_MS),
            (b"b", ctimes[1], NOW_MS + HOUR_MS),
            (b"c", ctimes[2], NOW_MS + 7 + HOUR_MS),
        ]
        assert queued(node) == list(ids)

    def test_jobs_are_queued_by_ctime_whatever_the_order_of_their_records(self) -> None:
        node = replay(*[job_record(number) for number in (3, 1, 2)])
        assert queued(node) == [job_id(1), job_id(2), job_id(3)]

    def test_jobs_are_queued_by_priority(self) -> None:
        node = replay(*[job_record(number, priority=number % 3) for number in (3, 1, 2, 5, 4)])
        assert queued(node) == [job_id(number) for number in (2, 5, 1, 4, 3)]
        assert node.queues[b"q"].length == 5

    def test_new_jobs_come_behind_those_of_the_journal_even_if_the_clock_was_ahead(self) -> None:
        node = replay(job_record(ctime=(NOW_MS + HOUR_MS) * 1_000_000))
        assert node.next_ctime(NOW_MS) > (NOW_MS + HOUR_MS) * 1_000_000

    def test_a_delay_goes_on_where_it_was(self) -> None:
        node = replay(job_record(flags=DEFERRED, held_ms=NOW_MS + 2000), now_ms=NOW_MS + 1500)
        assert not queued(node)
        assert node.next_due_ms <= NOW_MS + 2000
        step.tick(node, NOW_MS + 1999)
        assert not queued(node)
        step.tick(node, NOW_MS + 2000)
        assert queued(node) == [job_id(1)]

    def test_a_delay_that_ended_meanwhile_is_over(self) -> None:
        assert queued(replay(job_record(flags=DEFERRED, held_ms=NOW_MS + 2000), now_ms=NOW_MS + 2000)) == [job_id(1)]

    def test_an_expired_job_does_not_come_back(self) -> None:
        node = replay(job_record(), now_ms=NOW_MS + HOUR_MS)
        assert not node.jobs_registered()
        assert not alive(node)

    def test_a_later_record_replaces_an_earlier_one(self) -> None:
        node = replay(job_record(nacks=1), job_record(nacks=2))
        assert node.jobs_registered() == 1
        assert alive(node) == {1: 1}
        job = node.find(job_id(1))
        assert job is not None
        assert job.nacks == 2

    @pytest.mark.parametrize("kind", [ACK, DELETE])
    def test_an_acknowledged_or_deleted_job_is_gone(self, kind: int) -> None:
        node = replay(job_record(1), job_record(2), (kind, job_id(1)))
        assert queued(node) == [job_id(2)]
        assert alive(node) == {1: 1}

    @pytest.mark.parametrize("record", [(ACK, job_id(9)), (DELETE, job_id(9)), (REQUEUE, job_id(9), 1, 0, 0)])
    def test_a_record_of_a_job_that_is_gone_changes_nothing(self, record: Record) -> None:
        assert queued(replay(job_record(1), record)) == [job_id(1)]


class TestRequeue:
    def test_a_nack_with_a_delay_holds_the_job(self) -> None:
        node = replay(job_record(), (REQUEUE, job_id(1), 1, 0, NOW_MS + 3000))
        job = node.find(job_id(1))
        assert job is not None
        assert (job.state, job.nacks, job.requeue_ms) == (ACTIVE, 1, NOW_MS + 3000)
        assert job.flags == DEFERRED | LEASE_RELAYED, "it says so to those who ask"

    def test_enqueue_ends_a_delay(self) -> None:
        record = job_record(flags=DEFERRED, held_ms=NOW_MS + 3000)
        assert queued(replay(record, (REQUEUE, job_id(1), 0, 1, 0))) == [job_id(1)]


class TestSharedJob:
    """A job that other nodes hold too: they may have delivered it meanwhile, or know that it is done."""

    BOTH = (node_id(1), node_id(2))

    def read(self, *records: Record, now_ms: int = NOW_MS, others: int = 1) -> Node:
        node, _ = replayed([head_record(), *records], now_ms=now_ms, others=others)
        step.link_up(node, node_id(2), 1, now_ms)
        step.tick(node, now_ms)
        step.settle(node, now_ms)
        return node

    def told(self, node: Node, kind: int) -> list[Any]:
        return [message for peer, message in [*node.early, *node.messages] if message[0] == kind]

    def test_is_not_queued_before_the_others_were_asked(self) -> None:
        node = self.read(job_record(holders=self.BOTH))
        assert not queued(node)
        assert self.told(node, WILLQUEUE) == [(WILLQUEUE, NOW_MS, self.BOTH, (job_id(1),))]
        step.message(node, node_id(2), (ANSWER, NOW_MS, ANSWER_NO, (), (job_id(1),)), NOW_MS)
        assert queued(node) == [job_id(1)]

    def test_comes_back_at_once_when_the_others_are_not_of_the_cluster_any_more(self) -> None:
        node = self.read(job_record(holders=self.BOTH), others=0)
        assert queued(node) == [job_id(1)]

    @pytest.mark.parametrize(
        ("saved_ms", "is_kept"), [(0, False), (NOW_MS - 1, True), (NOW_MS, True), (NOW_MS + 1, False)]
    )
    def test_has_holders_that_nodes_conf_does_not_know_yet(self, saved_ms: int, *, is_kept: bool) -> None:
        """As if the process had died between its meeting with a node and the next writing of nodes.conf."""
        for records in ([job_record(holders=self.BOTH)], [job_record(), (HOLDERS, job_id(1), self.BOTH)]):
            node, _ = replayed([head_record(), *records], saved_ms=saved_ms)
            job = node.find(job_id(1))
            assert job is not None
            assert job.holders == (self.BOTH if is_kept else SELF)

    def test_is_asked_about_when_its_holders_came_later(self) -> None:
        node = self.read(job_record(), (HOLDERS, job_id(1), self.BOTH))
        assert self.told(node, WILLQUEUE)

    def test_speaks_for_a_delivery_after_a_clean_stop_only(self) -> None:
        out = (job_id(1), ACTIVE, DELIVERED | LEASE_OWNER, NOW_MS + 4000, 0, 0)
        for end, kept in (((END,), True), ((REQUEUE, job_id(9), 0, 0, 0), False)):
            node = self.read(job_record(holders=self.BOTH), (CLEAN, [out]), end)
            job = node.find(job_id(1))
            assert job is not None
            assert bool(job.flags & LEASE_RELAYED) == kept
            assert job.requeue_ms == (NOW_MS + 4000 if kept else NOW_MS)

    @pytest.mark.parametrize("heard", [0, LEASE_RELAYED])
    def test_but_believes_who_was_given_it_back_meanwhile(self, heard: int) -> None:
        out = (job_id(1), ACTIVE, DELIVERED | LEASE_OWNER | heard, NOW_MS + 50_000, 0, 0)
        node = self.read(job_record(holders=self.BOTH), (CLEAN, [out]), (END,))
        job = node.find(job_id(1))
        assert job is not None
        assert job.flags == DELIVERED | LEASE_RELAYED
        step.message(node, node_id(2), (WILLQUEUE, NOW_MS, self.BOTH, (job_id(1),)), NOW_MS)
        assert self.told(node, HOLD) == [(HOLD, NOW_MS, (), (job_id(1),), (50_000,))]
        node.early.clear()
        node.messages.clear()
        step.message(node, node_id(2), (SAY_QUEUED, STILL, (job_id(1),)), NOW_MS)
        step.message(node, node_id(2), (WILLQUEUE, NOW_MS, self.BOTH, (job_id(1),)), NOW_MS)
        step.settle(node, NOW_MS)
        assert self.told(node, HOLD) == []

    def test_one_that_is_done_is_told_to_the_others(self) -> None:
        node = self.read(job_record(holders=self.BOTH), (ACK, job_id(1)))
        assert list(node.acks.by_id) == [job_id(1)]
        assert self.told(node, SETACK) == [(SETACK, self.BOTH, (job_id(1),))]
        step.message(node, node_id(2), (GOTACK, 1, (), (job_id(1),)), NOW_MS)
        assert not node.jobs_registered()

    def test_one_that_is_done_and_known_by_all_is_gone(self) -> None:
        node = self.read(job_record(holders=self.BOTH), (ACK, job_id(1)), (DELETE, job_id(1)))
        assert not node.jobs_registered()
        assert not node.acks.by_id

    def test_an_acknowledgement_of_an_unknown_job_is_told_to_all(self) -> None:
        node = self.read((DUMMY, job_id(1), NOW_MS + 5000))
        assert self.told(node, SETACK) == [(SETACK, (), (job_id(1),))]
        assert not self.read((DUMMY, job_id(1), NOW_MS + 5000), (DELETE, job_id(1))).acks.by_id


class TestBroadcasts:
    """The newest PAUSE for all nodes wins, before and after a restart."""

    def told(self, node: Node, flags: int, counter: int, origin: bytes) -> int:
        """How the queue stands when another node has told of a PAUSE."""
        node.membership.add(Member(node_id(2), b"10.0.0.2", 7711))
        step.link_up(node, node_id(2), 1, NOW_MS)
        step.message(node, node_id(2), pause_everywhere(b"q", flags, counter, origin), NOW_MS)
        return node.queues[b"q"].paused

    def test_an_older_one_does_not_win_after_a_restart(self) -> None:
        records = [pause_entry(b"q", 1, 50, node_id(3)), (PAUSE, b"q", 1)]
        assert self.told(replay(*records), 2, 49, node_id(9)) == 1
        assert self.told(replay(*records), 2, 50, node_id(2)) == 1
        assert self.told(replay(*records), 2, 50, node_id(4)) == 2

    def test_what_this_node_did_alone_since_then_stays(self) -> None:
        node = replay(pause_entry(b"q", 1, 50, node_id(3)), (PAUSE, b"q", 1), (PAUSE, b"q", 2))
        assert self.told(node, 1, 50, node_id(3)) == 2

    def test_the_greatest_counts_whatever_the_order_of_records_and_for_its_segment(self) -> None:
        node = make_node()
        reader = Replay(node, BOOT)
        for segment, counter in enumerate((5, 7, 6, 7), 1):
            reader.apply(encode([pause_entry(b"q", 1, counter, node_id(3))], NOW_MS)[0], segment)
            assert alive(node) == counted(node)
        assert alive(node) == {4: 1}
        assert pauses_everywhere(node)[b"q"][1] == 7

    def test_the_next_one_of_this_node_goes_above_it(self) -> None:
        node = replay(pause_entry(b"q", 0, NOW_MS * 2, node_id(3)))
        entries.set_value(node, (PAUSED_QUEUE, b"q", b""), b"1", NOW_MS)
        assert pauses_everywhere(node)[b"q"][1] == NOW_MS * 2 + 1

    def test_a_flush_of_everything_leaves_it_known(self) -> None:
        bench = Bench(peers=1, journaling=True)
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, node_id(2)))
        bench.client()("DEBUG", "FLUSHALL")
        assert bench.node.live == {1: 1}
        assert pauses_everywhere(replay(*bench.records()))[b"q"][1] == 5

    def test_a_reset_forgets_it(self) -> None:
        bench = Bench(peers=1, journaling=True)
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, node_id(2)))
        bench.client()("CLUSTER", "RESET")
        assert not bench.node.registry.count
        assert not replay(*bench.records()).registry.count


class TestAtMostOnce:
    """A job with RETRY 0 is delivered once or never, whatever happens to the machine."""

    def test_comes_back_if_it_was_not_delivered_and_the_machine_ran_on(self) -> None:
        assert queued(replay(job_record(retry=0))) == [job_id(1, 0)]

    def test_never_comes_back_once_spent(self) -> None:
        node = replay(job_record(retry=0), (SPEND, job_id(1, 0)))
        job = node.find(job_id(1, 0))
        assert job is not None
        assert job.flags & SPENT
        assert list(node.evictable) == [job.id]
        assert not queued(node)
        assert node.next_due_ms <= job.expires_ms

    def test_a_delayed_one_that_was_spent_does_not_come_back_either(self) -> None:
        delayed = job_record(retry=0, flags=DEFERRED, held_ms=NOW_MS + 100)
        for now_ms in (NOW_MS, NOW_MS + 100, NOW_MS + 5000):
            node = replay(delayed, (SPEND, job_id(1, 0)), now_ms=now_ms)
            step.tick(node, now_ms + 10_000)
            assert not queued(node)

    def test_a_late_requeue_leaves_a_spent_job_alone(self) -> None:
        node = replay(job_record(retry=0), (SPEND, job_id(1, 0)), (REQUEUE, job_id(1, 0), 1, 0, NOW_MS - 1))
        assert not queued(node)

    def test_one_with_the_id_of_a_job_that_has_ended_takes_its_place(self) -> None:
        """The end by a TTL is written nowhere, and other nodes may say anything of an ID."""
        node = replay(
            job_record(expires_ms=NOW_MS + 1, body=b"first"),
            jobs_with(job_record(queue=b"r", body=b"later", retry=0), ids=(job_id(1),), ctimes=(NOW_MS * CTIME_A_MS,)),
            (SPEND, job_id(1)),
        )
        job = node.find(job_id(1))
        assert job is not None
        assert (job.queue, job.body, job.retry, job.expires_ms) == (b"r", b"later", 0, NOW_MS + HOUR_MS)
        assert job.flags & SPENT
        assert (queued(node), queued(node, b"r")) == ([], [])
        assert node.used == make_used(job)

    def test_spent_counts_for_no_job_with_a_retry(self) -> None:
        assert queued(replay(job_record(), (SPEND, job_id(1)))) == [job_id(1)]

    def test_a_fresh_record_brings_back_one_whose_reply_never_left(self) -> None:
        node = replay(job_record(retry=0), (SPEND, job_id(1, 0)), job_record(retry=0, flags=DELIVERED))
        assert queued(node) == [job_id(1, 0)]
        assert not node.evictable

    def test_is_dropped_and_counted_if_the_machine_failed_under_everysec(self) -> None:
        node, reader = replayed([head_record(), job_record(1, retry=0), job_record(2)], boot="boot 2")
        assert queued(node) == [job_id(2)]
        assert reader.dropped == 1

    def test_comes_back_after_the_machine_failed_under_always(self) -> None:
        node, reader = replayed([head_record(policy="always"), job_record(retry=0)], boot="boot 2")
        assert queued(node) == [job_id(1, 0)]
        assert reader.dropped == 0

    def test_one_that_an_earlier_start_dropped_stays_dropped(self) -> None:
        """It may have been delivered before the machine failed, and the record of that may be lost."""
        records = [head_record(), job_record(retry=0), head_record("boot 2")]
        assert not queued(replayed(records, "boot 2")[0])
        assert not queued(replayed([*records, (CLEAN, []), (END,)], "boot 3")[0])
        assert replayed(records, "boot 2")[1].dropped == 0

    def test_the_next_process_writes_that_a_dropped_one_is_deleted_if_it_had_a_key(self) -> None:
        """Its record may be gone before that of the key."""
        key = keys_record(K, job_id(1, 0), 0, NOW_MS + 60_000, 1)
        records = [head_record(), job_record(retry=0), job_record(2, retry=0), key]
        node, reader = replayed(records, boot="boot 2")
        assert reader.dropped == 2
        assert list(reader.ends()) == [(DELETE, job_id(1, 0))]
        assert list(replayed([*records, head_record("boot 2")], "boot 2")[1].ends()) == [(DELETE, job_id(1, 0))]
        assert not keys(node)
        assert not keys(replay(key, *reader.ends()))

    def test_what_a_start_has_said_of_its_key_is_not_said_again_by_the_next_one(self) -> None:
        """Another node may have told of the key meanwhile."""
        key = keys_record(K, job_id(1, 0), 0, NOW_MS + 60_000, 1)
        before = [head_record("boot 1"), job_record(retry=0), key, head_record("boot 2"), (DELETE, job_id(1, 0)), key]
        node, reader = replayed(before, "boot 3")
        assert list(reader.ends()) == []
        assert K in keys(node)

    def test_one_that_survived_a_restart_of_the_process_survives_the_next(self) -> None:
        assert queued(replayed([head_record(), job_record(retry=0), head_record()])[0]) == [job_id(1, 0)]

    def test_one_that_survived_a_clean_stop_survives_the_next_crash(self) -> None:
        records = [head_record(), job_record(retry=0), (CLEAN, []), (END,), head_record("boot 2")]
        assert queued(replayed(records, "boot 2")[0]) == [job_id(1, 0)]

    def test_is_dropped_where_the_journal_was_switched_off(self) -> None:
        node, reader = replayed([head_record(), job_record(1, retry=0), job_record(2), (OFF,)])
        assert queued(node) == [job_id(2)]
        assert reader.dropped == 1

    def test_what_is_added_after_the_journal_was_switched_on_again_comes_back(self) -> None:
        records = [head_record(), job_record(1, retry=0), (OFF,), head_record(), job_record(2, retry=0)]
        assert queued(replayed(records)[0]) == [job_id(2, 0)]

    def test_a_boot_id_that_is_not_known_proves_nothing(self) -> None:
        assert not queued(replayed([head_record(""), job_record(retry=0)], boot="")[0])


class TestPauseAndKeys:
    def test_a_pause_comes_back_and_its_end_too(self) -> None:
        node = replay((PAUSE, b"q", 3), (PAUSE, b"r", 1), (PAUSE, b"q", 0))
        assert {name: queue.paused for name, queue in node.queues.items()} == {b"q": 0, b"r": 1}
        assert alive(node) == counted(node) == {1: 1}

    def test_a_key_with_a_window_outlives_its_job(self) -> None:
        node = replay(job_record(), keys_record(K, job_id(1), NOW_MS + 500, 0, 2), (ACK, job_id(1)))
        assert keys(node)[K].job_id == job_id(1)
        step.tick(node, NOW_MS + 500)
        assert not keys(node, NOW_MS + 500)
        step.tick(node, NOW_MS + 1500)
        assert not keys(node)

    def test_a_key_without_a_window_goes_with_its_job(self) -> None:
        key = keys_record(K, job_id(1), 0, NOW_MS + 60_000, 2)
        assert K in replay(job_record(), key).unique.table
        assert not replay(job_record(), key, (ACK, job_id(1))).unique.table
        assert replay(key).unique.table, "the job is on another node"
        assert not replay(key, (DELETE, job_id(1))).unique.table
        assert not replay(key, (ACK, job_id(1))).unique.table, "the segment with the job was dropped before"
        assert not replay(job_record(), key, now_ms=NOW_MS + HOUR_MS).unique.table

    def test_a_later_record_of_a_key_replaces_an_earlier_one(self) -> None:
        first = keys_record(K, job_id(1), 0, NOW_MS + 60_000, 2)
        second = keys_record(K, job_id(2), NOW_MS + 9, 0, 2)
        node = replay(job_record(1), job_record(2), first, second)
        assert keys(node)[K].job_id == job_id(2)
        assert not node.unique.by_job
        assert alive(node) == counted(node) == {1: 3}


def test_the_first_payload_of_a_segment_says_which_node_wrote_it() -> None:
    node = make_node(START_MS)
    assert journal.writer_of(head(node, "boot", "always", 5)) == node.node_id
    for other in (b"", b"\xc1", encode([(FLUSH,)], 5)[0], msgpack.packb([5]), msgpack.packb([5, 6])):
        assert journal.writer_of(other) == b""


def test_flush_forgets_everything_before_it() -> None:
    records = [job_record(1), (PAUSE, b"q", 1), keys_record(K, job_id(1), NOW_MS + 9, 0, 2), (FLUSH,), job_record(2)]
    node = replay(*records)
    assert queued(node) == [job_id(2)]
    assert not keys(node)
    assert not node.queues[b"q"].paused
    assert alive(node) == counted(node) == {1: 1}


class TestCleanStop:
    OUT = (job_id(1), ACTIVE, DELIVERED, NOW_MS + 4000, 0, 2)

    def test_a_job_that_was_out_has_the_rest_of_its_retry(self) -> None:
        node = replay(job_record(), (CLEAN, [self.OUT]), (END,), now_ms=NOW_MS + 3999)
        assert not queued(node)
        step.tick(node, NOW_MS + 4000)
        assert queued(node) == [job_id(1)]

    def test_a_retry_that_ended_meanwhile_counts_as_a_delivery_more(self) -> None:
        node = replay(job_record(), (CLEAN, [self.OUT]), (END,), now_ms=NOW_MS + 4000)
        job = node.find(job_id(1))
        assert job is not None
        assert (job.state, job.deliveries) == (QUEUED, 3)

    def test_a_job_that_was_dequeued_stays_out(self) -> None:
        node = replay(job_record(retry=0), (CLEAN, [(job_id(1, 0), ACTIVE, 0, 0, 0, 0)]), (END,), boot="boot 2")
        assert not queued(node)
        assert node.find(job_id(1, 0)) is not None

    @pytest.mark.parametrize(
        "after", [head_record(), job_record(2), (ACK, job_id(2)), (PAUSE, b"q", 0), (CLEAN, []), (OFF,)], ids=repr
    )
    def test_a_list_that_is_followed_by_anything_does_not_count(self, after: Record) -> None:
        assert job_id(1) in queued(replay(job_record(), (CLEAN, [self.OUT]), (END,), after))

    def test_a_list_without_its_end_does_not_count(self) -> None:
        assert queued(replay(job_record(), (CLEAN, [self.OUT]))) == [job_id(1)]

    def test_the_second_of_two_lists_counts(self) -> None:
        node = replay(job_record(), (CLEAN, [self.OUT]), head_record(), (CLEAN, []), (END,))
        assert queued(node) == [job_id(1)]

    def test_the_list_is_written_in_records_of_bounded_size(self) -> None:
        node = replay(*[job_record(number) for number in range(1, 3001)])
        for number in range(1, 3001):
            job = node.find(job_id(number))
            assert job is not None
            node.take_out(job, NOW_MS)
        records = list(clean_list(node))
        lists = [record[1] for record in records if record[0] == CLEAN]
        assert records[-1] == (END,)
        assert sum(map(len, lists)) == 3000  # type: ignore[arg-type]  # they are lists
        assert max(map(len, lists)) <= journal.CLEAN_BATCH  # type: ignore[arg-type]  # they are lists


def bodies_of(record: Record) -> list[bytes]:
    return list(cast("tuple[bytes, ...]", record[JOBS_BODIES])) if record[0] == JOBS else []


class TestPayloads:
    def test_one_flush_is_one_payload_that_begins_with_the_time(self) -> None:
        payloads = encode([(ACK, job_id(1)), (FLUSH,)], NOW_MS)
        assert [unpack(payload) for payload in payloads] == [[NOW_MS, (ACK, job_id(1)), (FLUSH,)]]

    def test_large_bodies_are_split_in_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(codec, "PAYLOAD_BYTES", 100)
        records: list[Record] = []
        for number in range(1, 20):
            records += [job_record(number, body=b"x" * (number * 13)), (PAUSE, b"q", number % 4)]
        payloads = encode(records, NOW_MS)
        assert len(payloads) > 5
        assert [record for payload in payloads for record in unpack(payload)[1:]] == records
        assert {unpack(payload)[0] for payload in payloads} == {NOW_MS}

    def test_large_bodies_are_parts_and_are_not_copied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(codec, "PAYLOAD_BYTES", 100)
        monkeypatch.setattr(codec, "PART_BYTES", 60)
        records: list[Record] = []
        for number in range(1, 30):
            records += [job_record(number, body=b"x" * (number * 7)), (PAUSE, b"q" * number, number % 4)]
        payloads = codec.encode_parts(records, NOW_MS)
        parts = [payload for payload in payloads if not isinstance(payload, bytes)]
        assert len(parts) > 5
        for part in parts:
            assert part.size == sum(map(len, part.pieces))
            assert any(piece is body for piece in part.pieces for record in records for body in bodies_of(record))
        joined = encode(records, NOW_MS)
        assert [record for payload in joined for record in unpack(payload)[1:]] == records
        assert {unpack(payload)[0] for payload in joined} == {NOW_MS}

    def test_large_names_of_queues_are_split_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(codec, "PAYLOAD_BYTES", 100)
        records: list[Record] = [job_record(n, queue=b"q" * 90) for n in range(4)] + [(PAUSE, b"q" * 90, 1)] * 4
        assert [len(unpack(payload)) - 1 for payload in encode(records, NOW_MS)] == [2, 2, 2, 2]

    def test_node_time_is_the_greatest_seen(self) -> None:
        reader = Replay(make_node(), BOOT)
        for time_ms in (5, 9, 7):
            reader.apply(encode([(FLUSH,)], time_ms)[0], 1)
        assert reader.time_ms == 9

    def test_the_head_tells_where_and_how_a_segment_was_written(self) -> None:
        reader = Replay(make_node(), BOOT)
        reader.apply(head(make_node(), "boot 7", "always", NOW_MS), 1)
        assert (reader.journal_boot_id, reader.journal_policy) == (b"boot 7", b"always")

    def test_a_newer_format_is_refused_by_name_whatever_else_stands_there(self) -> None:
        for record in [head_record(version=FORMAT + 1), (HEAD, FORMAT + 1), (HEAD, FORMAT + 9, "x", None)]:
            with pytest.raises(ReplayError, match="newer program"):
                Replay(make_node(), BOOT).apply(encode([record], NOW_MS)[0], 1)

    def test_an_older_format_is_refused_and_the_way_out_is_said(self) -> None:
        for version in (1, FORMAT - 1):
            with pytest.raises(ReplayError, match=f"format {version}.* let consumers empty its queues"):
                Replay(make_node(), BOOT).apply(encode([head_record(version=version)], NOW_MS)[0], 1)

    def test_what_is_yielded_while_it_finishes_lets_others_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "FINISH_SLICE", 10)
        reader = Replay(make_node(), BOOT)
        reader.apply(encode([head_record(), *[job_record(number) for number in range(1, 101)]], NOW_MS)[0], 1)
        assert len(list(reader.finish(NOW_MS))) >= 10


GOOD = [
    head_record(),
    job_record(1),
    job_record(2, retry=0),
    (ACK, job_id(3)),
    (DELETE, job_id(3)),
    (SPEND, job_id(2, 0)),
    (REQUEUE, job_id(1), 1, 2, NOW_MS + 5),
    (PAUSE, b"q", 2),
    keys_record(K, job_id(1), NOW_MS + 5, 0, 2),
    (KEYS, NOW_MS + 5, 0, 2, (K, K[1:] + b"x"), (job_id(1), job_id(2))),
    (FLUSH,),
    (OFF,),
    (CLEAN, ((job_id(1), ACTIVE, DELIVERED, NOW_MS + 5, 0, 0),)),
    (END,),
    (HOLDERS, job_id(1), (node_id(1), node_id(2))),
    (DUMMY, job_id(4), NOW_MS + 9),
    pause_entry(b"q", 2, NOW_MS, node_id(2)),
    (PURGED, 7),
    (RETURNED, 1),
    (HISTORY, b"q", 1, ROW.pack(1, 1, 2, 3, 4, 5), ROW.pack(1, 0, 0, 0, 0, 0)),
    job_record(5, holders=(node_id(1), node_id(2))),
    job_record(6, holders=(node_id(1), node_id(2)), state=ACKED, body=b""),
]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([job_id(1), job_id(2, 0), b"q", *range(18), NOW_MS]),
    lambda inner: st.lists(inner, max_size=15) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=30,
)


def assert_sane(node: Node) -> None:
    """Whatever was read, every value has its type and every count is right."""
    for shard in node.shards:
        for job in shard.values():
            assert [type(value) for value in (job.id, job.queue, job.body)] == [bytes] * 3
            numbers = (job.ctime, job.expires_ms, job.retry, job.nacks, job.deliveries, job.requeue_ms, job.flags)
            assert all(type(number) is int and 0 <= number < 2**62 for number in numbers)
    assert alive(node) == counted(node)


@pytest.mark.parametrize(
    ("boot", "policy", "others", "is_doubted"),
    [
        ("another boot", "everysec", 1, True),
        (BOOT, "everysec", 1, False),
        ("another boot", "always", 1, False),
        ("another boot", "everysec", 0, False),
    ],
)
def test_jobs_may_have_gone_elsewhere_where_the_end_of_the_journal_may_be_lost(
    boot: str, policy: str, others: int, is_doubted: bool
) -> None:
    node, _ = replayed([head_record(policy=policy), job_record(1)], boot, others=others)
    job = node.find(job_id(1))
    assert job is not None
    assert (job.ctime <= node.acks.doubted) == is_doubted
    assert node.next_ctime(NOW_MS) > node.acks.doubted


def packed(record: Any) -> bytes:
    payload: bytes = msgpack.packb([NOW_MS, record], use_bin_type=True)
    return payload


def believe(payload: bytes) -> Node | None:
    """The node after this payload, or None if it was refused. Nothing but ReplayError may come out."""
    node = make_node()
    reader = Replay(node, BOOT)
    reader.apply(encode([head_record(), job_record(1), job_record(2, retry=0)], NOW_MS)[0], 1)
    try:
        reader.apply(payload, 2)
    except ReplayError:
        return None
    for _ in reader.finish(NOW_MS):
        pass
    step.tick(node, NOW_MS + 10)
    assert_sane(node)
    return node


class TestNonsense:
    """The journal is believed or refused, never half of it and never with another exception."""

    @given(st.binary(max_size=60))
    def test_any_bytes(self, payload: bytes) -> None:
        believe(payload)

    @given(VALUES)
    def test_any_value(self, value: Any) -> None:
        believe(msgpack.packb(value, use_bin_type=True))

    @given(st.lists(st.lists(VALUES, max_size=18).map(tuple), max_size=3))
    def test_any_records(self, records: list[Any]) -> None:
        believe(msgpack.packb([NOW_MS, *records], use_bin_type=True))

    @given(st.sampled_from(GOOD), st.integers(0, 15), VALUES)
    def test_any_value_in_any_place_of_a_good_record(self, record: Record, at: int, value: Any) -> None:
        at %= len(record)
        believe(msgpack.packb([NOW_MS, (*record[:at], value, *record[at + 1 :])], use_bin_type=True))

    @given(st.sampled_from(GOOD), st.integers(0, 15))
    def test_a_record_with_a_value_too_few_or_too_many_is_refused(self, record: Record, at: int) -> None:
        for wrong in ((*record[:at], *record[at + 1 :]), (*record, 0)):
            if wrong != record:
                assert believe(packed(wrong)) is None

    @pytest.mark.parametrize(
        "record",
        [
            job_record(body="text"),
            job_record(queue="text"),
            job_record(body=None),
            job_record(expires_ms=-1),
            job_record(expires_ms=2**62),
            job_record(expires_ms=1.5),
            job_record(nacks=True),
            job_record(nacks=65536),
            job_record(flags=FLAGS_MAX + 1),
            job_record(flags=SPENT),
            job_record(held_ms=NOW_MS + 1),
            job_record(flags=DEFERRED),
            jobs_with(job_record(), ids=(b"short",)),
            jobs_with(job_record(), ids=(job_id(1).decode(),)),
            jobs_with(job_record(), ids=(), bodies=(), ctimes=()),
            jobs_with(job_record(), bodies=(b"body", b"of nobody"), ctimes=(1,)),
            jobs_with(job_record(), ctimes=(-1,)),
            jobs_with(job_record(), ctimes=(1.5,)),
            jobs_with(job_record(), ctimes=(2**62,)),
            (PAUSE, b"q", 4),
            (PAUSE, b"q", -1),
            keys_record(K[:14], job_id(1), 0, 9, 2),
            keys_record(K, job_id(1), 0, 0, 2),
            keys_record(K, job_id(1), 0, 9, 65536),
            keys_record(K + b"x", job_id(1), 0, 9, 2),
            (KEYS, 0, 0, 2, (K,), (job_id(1),)),
            (KEYS, 0, 9, 65536, (K,), (job_id(1),)),
            (KEYS, 0, 9, 2, (), ()),
            (KEYS, 0, 9, 2, (K, K), (job_id(1),)),
            (KEYS, 0, 9, 2, (K, K[:14]), (job_id(1), job_id(2))),
            (KEYS, 0, 9, 2, (K,), (b"D-",)),
            (KEYS, 0, 9, 2, (1,), (job_id(1),)),
            (REQUEUE, job_id(1), -1, 0, 0),
            (CLEAN, ((job_id(1), QUEUED, SPENT, NOW_MS, 0, 0),)),
            (CLEAN, ((job_id(1), ACTIVE, 0, 0, 0),)),
            (CLEAN, (5,)),
            (HOLDERS, job_id(1), ()),
            (HOLDERS, job_id(1), (node_id(2), node_id(1))),
            (HOLDERS, job_id(1), (node_id(1), node_id(1))),
            (HOLDERS, job_id(1), (b"short",)),
            (HOLDERS, job_id(1), (5,)),
            (DUMMY, b"x" * 40, NOW_MS),
            (DUMMY, job_id(1), -1),
            (ENTRY, b"q", b"", b"1", 1, 1, node_id(2), 4),
            pause_entry(b"q", 1, -1, node_id(2)),
            (ENTRY, b"q", b"", b"1", 1, 1, b"short", 0),
            (ENTRY, b"q", b"", b"1", 1, 1, node_id(2), 1),
            (PURGED, -1),
            (RETURNED, 2),
            (HISTORY, b"q", 2, b"", b""),
            (HISTORY, b"q", 1, b"x", b""),
            (HISTORY, b"q", 1, b"", ROW.pack(1, 0, 0, 0, 0, COUNT_MOST + 1)),
            (HISTORY, b"q", 1, ROW.pack(1, 0, 0, 0, 0, 0) * 2, b""),
            (HISTORY, b"q", 1, ROW.pack(1, 0, 0, 0, 0, 0) + ROW.pack(169, 0, 0, 0, 0, 0), b""),
            (HISTORY, b"q", 1, b"".join(ROW.pack(at, 0, 0, 0, 0, 0) for at in range(169)), b""),
            (HISTORY, b"q", 1, "", b""),
            job_record(holders=()),
            job_record(holders=(node_id(2), node_id(1))),
            job_record(ttl=-1),
            jobs_with(job_record(), spec=b""),
            jobs_with(job_record(), spec=b"\xc1"),
            jobs_with(job_record(), spec=None),
            job_record(state=4),
            (99, job_id(1)),
            (),
            ("JOB",),
            5,
            {},
        ],
        ids=repr,
    )
    def test_values_that_no_node_writes_are_refused(self, record: Any) -> None:
        assert believe(packed(record)) is None

    @pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", b"\x91\xc3", b"\x91\xff", b"\x80", b"\x93\x01"])
    def test_a_payload_that_is_no_list_with_a_time_is_refused(self, payload: bytes) -> None:
        assert believe(payload) is None

    @pytest.mark.parametrize("record", GOOD, ids=repr)
    def test_what_a_node_writes_is_believed(self, record: Record) -> None:
        assert believe(encode([record], NOW_MS)[0]) is not None
