"""Compaction: whatever is alive in old segments is in the newest one afterwards, and nothing else."""

import pytest

from cluster.membership import Member
from disque.core import step
from disque.core.jobs import sessions
from disque.core.jobs.restore import copy_jobs
from disque.core.journal import kinds
from disque.core.journal.codec import encode, head
from disque.core.journal.replay import Replay
from disque.core.journal.schema import DUMMY, ENTRY, JOBS, JOBS_IDS, KEYS, PAUSE
from disque.core.model.job import ACKED
from disque.core.model.jobid import shard_of
from disque.core.node import Node
from tests.core.support import Bench, as_read
from tests.support.formats import pauses_everywhere, repljob
from tests.support.nodes import START_MS, make_node, node_id
from tests.support.state import alive, counted, state

NOW_MS = START_MS
BOOT = "boot 1"
BOTH = (node_id(1), node_id(2))


def job_id(number: int) -> bytes:
    return b"D-11111111-%024d-05a1" % number


def filed(node: Node) -> list[bytes]:
    """The IDs of the jobs that the journal gets whole."""
    return [job_id for record in node.outbox.records if record[0] == JOBS for job_id in as_read(record)[JOBS_IDS]]


def filled() -> Node:
    """A node with 300 jobs, 30 copies, acknowledgements, keys and pauses, all in segment 1."""
    node = make_node()
    node.journaling = True
    node.segment = 1
    node.registry.is_met = True
    session = sessions.connect(node, 1, b"", b"", NOW_MS)
    for number in range(300):
        words = [b"ADDJOB", b"q%d" % (number % 7), b"%d" % number, b"0", b"RETRY", b"%d" % (number % 3)]
        words += [b"REPLICATE", b"1"]
        words += [b"UNIQUE", b"k%d" % number, b"%d" % (number % 2 * 60)] if number % 10 == 0 else []
        step.command(node, session, words, NOW_MS)
    step.command(node, session, b"GETJOB COUNT 40 FROM q0 q1 q2".split(), NOW_MS)
    node.membership.add(Member(node_id(2), b"10.0.0.2", 7711))
    step.link_up(node, node_id(2), 1, NOW_MS)
    for number in range(30):
        delay_ms = number % 2 * 5000
        copy = repljob(job_id(number), queue=b"copies", ttl=60, delay_ms=delay_ms, holders=BOTH, ctimes=(number,))
        step.message(node, node_id(2), copy, NOW_MS)
    step.command(node, session, [b"ACKJOB", *map(job_id, range(5, 15)), *map(job_id, range(100, 110))], NOW_MS)
    step.command(node, session, b"PAUSE q3 in".split(), NOW_MS)
    step.command(node, session, b"PAUSE q4 in bcast".split(), NOW_MS)
    step.command(node, session, b"PAUSE q4 none".split(), NOW_MS)
    return node


def read_back(payloads: list[tuple[bytes, int]]) -> Node:
    node = make_node(others=1)
    reader = Replay(node, BOOT)
    for payload, segment in payloads:
        reader.apply(payload, segment)
    for _ in reader.finish(NOW_MS):
        pass
    return node


class TestCopying:
    @pytest.mark.parametrize("most", [10, 100, 10**6])
    def test_moves_everything_to_the_newest_segment_in_slices(self, most: int) -> None:
        node = filled()
        payloads = [(head(node, BOOT, "no", NOW_MS), 1), (encode(node.outbox.records, NOW_MS)[0], 1)]
        before = state(read_back(payloads))
        node.segment = 2
        copying = kinds.begin_copy(node, 1)
        copies = [(head(node, BOOT, "no", NOW_MS), 2)]
        done = False
        while not done:
            node.outbox.take()
            done = copying.step(most, NOW_MS)
            assert len(node.outbox.records) <= most
            assert alive(node) == counted(node)
            copies += [(payload, 2) for payload in encode(node.outbox.records, NOW_MS)]
            assert state(read_back([*payloads, *copies])) == before
        assert set(alive(node)) == {2}
        assert state(read_back(copies)) == before
        assert read_back(copies).queues[b"q3"].paused == 1
        assert len(read_back(copies).acks.dummies) == 10
        assert pauses_everywhere(read_back(copies))[b"q4"][0] == 1

    def test_leaves_what_was_written_meanwhile(self) -> None:
        node = filled()
        node.segment = 2
        copying = kinds.begin_copy(node, 1)
        node.outbox.take()
        session = node.sessions[1]
        session.out.clear()
        step.command(node, session, b"ADDJOB new body 0 REPLICATE 1".split(), NOW_MS)
        new = session.out[0][1:-2]
        while not copying.step(50, NOW_MS):
            pass
        assert filed(node).count(new) == 1

    def test_takes_along_what_moves_meanwhile(self) -> None:
        """A job that leaves the middle of a line is another object from then on: its file was removed all the same."""
        bench = Bench(journaling=True)
        client = bench.client()
        bench.node.segment = 1
        _, job, _ = [client.add("q") for _ in range(3)]
        bench.node.segment = 2
        walk = copy_jobs(bench.node, kinds.begin_copy(bench.node, 1))
        number = shard_of(job)
        before = bench.node.shards[:number]
        for _ in range(len(before) + sum(map(len, before)) + 1):
            next(walk)  # the last one has seen which jobs are in its shard
        old = bench.job(job)
        client("MOVE", "r", job)
        assert bench.job(job) is not old
        for _ in walk:
            pass
        assert bench.job(job).segment == 2
        assert set(alive(bench.node)) == {2}

    def test_writes_nothing_twice(self) -> None:
        node = filled()
        node.segment = 2
        for expected in (True, False):
            node.outbox.take()
            copying = kinds.begin_copy(node, 1)
            while not copying.step(50, NOW_MS):
                pass
            assert {DUMMY, ENTRY, PAUSE, KEYS, JOBS}.issubset({record[0] for record in node.outbox.records}) is expected
            assert bool(node.outbox.records) is expected

    def test_does_not_bring_back_what_ends_meanwhile(self) -> None:
        node = filled()
        payloads = [(encode(node.outbox.records, NOW_MS)[0], 1)]
        node.segment = 2
        node.outbox.take()
        copying = kinds.begin_copy(node, 1)
        copying.step(50, NOW_MS)
        ids = [job.id for shard in node.shards for job in shard.values()]
        step.command(node, node.sessions[1], [b"ACKJOB", *ids], NOW_MS)
        while not copying.step(50, NOW_MS):
            pass
        copies = [(payload, 2) for payload in encode(node.outbox.records, NOW_MS)]
        for found in (read_back([*payloads, *copies]), read_back(copies)):
            jobs = [job for shard in found.shards for job in shard.values()]
            assert sorted(job.id for job in jobs) == [job_id(number) for number in range(30)], "others must hear of it"
            assert {job.state for job in jobs} == {ACKED}

    def test_leaves_out_what_nobody_was_told_of(self) -> None:
        node = filled()
        node.segment = 2
        step.command(node, node.sessions[1], b"ADDJOB waiting body 0 REPLICATE 2".split(), NOW_MS)
        (waiting,) = node.copies.wanted
        copying = kinds.begin_copy(node, 1)
        node.outbox.take()
        while not copying.step(50, NOW_MS):
            pass
        assert waiting not in filed(node)


class TestForgetSegments:
    def test_nothing_counts_for_a_segment_afterwards(self) -> None:
        node = filled()
        node.journaling = False
        steps = kinds.forget_segments(node)
        assert sum(1 for _ in steps) > 1000, "a step looks at one of the dicts of jobs"
        assert not any(job.segment for shard in node.shards for job in shard.values())
        assert not any(queue.segment for queue in node.queues.values())
        assert not node.live

    def test_meanwhile_jobs_may_go_and_come(self) -> None:
        node = filled()
        node.journaling = False
        session = node.sessions[1]
        for number, _ in enumerate(kinds.forget_segments(node)):
            if number % 100 == 0:
                jobs = [job for shard in node.shards for job in shard.values() if len(job.holders) == 1]
                node.remove(jobs[-1])
                node.remove(jobs[0])
                step.command(node, session, [b"ADDJOB", b"q0", b"body", b"0"], NOW_MS)
        assert not any(job.segment for shard in node.shards for job in shard.values())
        assert not node.live
