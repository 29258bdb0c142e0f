"""I9: what a node keeps twice agrees, and its journal says what it promised."""

from random import Random
from typing import Any

from cluster.member import HANDSHAKE
from disque.core.journal import replay as journal
from disque.core.model.extra import IN_JOURNAL, encode
from disque.core.model.job import ACKED, DEFERRED, SPENT, WAIT_REPL, Job
from disque.core.model.key import TENTATIVE
from disque.core.node import Node
from tests.core.support import all_jobs, assert_counters_are_true
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation
from tests.support.keys import keys as all_keys

#: One in so many flushes is counted again, and one in so many is replayed; of a node with n times MANY jobs, one in n
#: times as many, since each job takes time.
RECOUNT = 60
REPLAY = 900
MANY = 300
#: Stands for the end of a delay that is settled with others.
SHARED = -1
#: What a node is told of a delay may come this much later, in ms.
NEAR_MS = 1000
#: A node whose clock has jumped may keep jobs beyond their end for so long, in ms: no node timeout is longer.
GRACE_MS = 5000


class Counted:
    """After every step the counters equal the jobs in each state, queues hold exactly the queued jobs, once each.

    Accounted memory equals a recount, every waiting session is pointed to by exactly what it waits for, and replaying
    the journal gives the jobs, keys and pauses that the node has, each with what was promised of it.
    """

    promise = "I9"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random: Random = cluster.world.random("counted")

    def flushed(self, process: Process) -> None:
        """A step is over; some of them are looked at."""
        chance = self.random.random()
        if chance * RECOUNT >= 1:
            return
        chance *= max(1, process.node.jobs_registered() / MANY)
        if chance * RECOUNT < 1:
            self.recount(process)
        if chance * REPLAY < 1 and process.journal.settled:
            self.replay(process)

    def end(self) -> None:
        """The run is over: everybody is counted and replayed."""
        for process in self.cluster.processes():
            self.recount(process)
            if process.journal.settled:
                self.replay(process)

    def recount(self, process: Process) -> None:
        """Count one node again."""
        world = self.cluster.world
        if (process.machine.jumped or world.options.jumps) and world.now - process.started_ms < 2 * GRACE_MS:
            return  # its clock may be wrong: what seems to have expired is kept for a while
        try:
            assert_counters_are_true(process.node)
        except AssertionError as wrong:
            frames = wrong.__traceback__
            while frames is not None and frames.tb_next is not None:
                frames = frames.tb_next
            line = frames.tb_lineno if frames is not None else 0
            raise Violation("I9", f"{process.name}: a recount differs (support.py:{line}): {wrong}") from wrong

    def replay(self, process: Process) -> None:
        """Read the journal of one node into a fresh one, and compare."""
        node = process.node
        if node.outbox.records or node.chores:
            return  # to forget a node takes some turns
        fresh = self.read(process)
        delays = not self.cluster.world.options.pause  # a delay that a pause drew out is not written
        there = {job.id: promised(node, job, delays) for job in all_jobs(node) if is_journalled(job)}
        found = {job.id: promised(fresh, job, delays) for job in all_jobs(fresh) if is_journalled(job)}
        now = process.now_ms()
        for job_id in sorted(there.keys() | found.keys()):
            one, other = there.get(job_id), found.get(job_id)
            undecided = node.find(job_id)
            if undecided is not None and undecided.state == WAIT_REPL:
                continue  # one with ASYNC is written before its copies are there
            if one is None and other == (ACKED,):
                continue  # all others have confirmed or were forgotten: a start asks once more, no harm
            if one == (ACKED,) and other is None and waits_for_strangers(node, job_id):
                continue  # a start would wait for nobody
            if not same(one, other, now) and not self.is_over(node, fresh, job_id, now):
                raise Violation("I9", f"{process.name}: {job_id!r} is {one}, but its journal says {other}")
        self.compare_rest(process, node, fresh, now)

    @staticmethod
    def is_over(node: Node, fresh: Node, job_id: bytes, now: int) -> bool:
        """Whether the life of the job has ended: nothing is written of that."""
        job: Any = node.find(job_id) or fresh.find(job_id)
        return bool(job.expires_ms <= now)

    @staticmethod
    def compare_rest(process: Process, node: Node, fresh: Node, now: int) -> None:
        """Keys and pauses."""
        keys = [
            {name: (key.job_id, key.expires_ms) for name, key in all_keys(one).items() if key_counts(one, key, now)}
            for one in (node, fresh)
        ]
        pauses = [{name: queue.paused for name, queue in one.queues.items() if queue.paused} for one in (node, fresh)]
        if keys[0] != keys[1] or pauses[0] != pauses[1]:
            there, found = (keys[0], pauses[0]), (keys[1], pauses[1])
            raise Violation("I9", f"{process.name}: keys and pauses are {there}, but its journal says {found}")

    @staticmethod
    def read(process: Process) -> Node:
        """A fresh node that has read the journal as it is now, under the same boot of the kernel."""
        node = process.bare_node()
        machine = process.machine
        replay = journal.Replay(node, machine.boot_id)
        for segment, payload in machine.disk.payloads():
            replay.apply(payload, segment)
        for _ in replay.finish(process.now_ms()):
            pass
        return node


def key_counts(node: Node, key: Any, now: int) -> bool:
    """Whether a UNIQUE key is decided and not over."""
    del node
    return bool(key.state != TENTATIVE and key.end_ms() > now)


def waits_for_strangers(node: Node, job_id: bytes) -> bool:
    """Whether only nodes that this one does not know may not have heard that the job is done.

    One that is half met is not known yet: nodes.conf does not say it.
    """
    job = node.find(job_id)
    met = {peer_id for peer_id, other in node.membership.nodes.items() if not other.flags & HANDSHAKE}
    return job is not None and met.isdisjoint(holder for holder in job.holders if holder != node.node_id)


def is_journalled(job: Job) -> bool:
    """Whether the journal must know the job."""
    return job.state != WAIT_REPL


def same(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None, now: int) -> bool:
    """Whether two nodes promise the same of a job: the ends of its delay may lie NEAR_MS apart, and an end is over."""
    if one is None or other is None or one == (ACKED,) or other == (ACKED,):
        return one == other
    if SHARED in {one[-1], other[-1]}:
        return one[:-1] == other[:-1]
    ends = [max(end, now) for end in (one[-1], other[-1])]
    return one[:-1] == other[:-1] and abs(ends[0] - ends[1]) <= NEAR_MS


def promised(node: Node, job: Job, delays: bool) -> tuple[Any, ...]:
    """What a crash must not change of a job. When a shared one may be queued is settled with the other holders."""
    if job.state == ACKED:
        return (ACKED,)
    held_ms = job.requeue_ms if job.flags & DEFERRED else 0
    if not delays or len(job.holders) > 1:
        held_ms = SHARED
    extra = node.extra_of(job)
    more = b"" if extra is None else encode(extra, IN_JOURNAL)
    fields = (job.queue, job.body, job.ctime, job.expires_ms, job.retry, job.repl, job.flags & SPENT, job.nacks)
    return (*fields, more, held_ms)
