"""All the state of a node, the verbs that change it, and its outboxes.

A node is changed through the doors of `step` only. A verb never returns effects: replies go to a session's ``out``,
frames for other nodes to ``messages``, records to ``journal``; the shell takes them at the flush. Time is handed in
as ``now_ms``, randomness as a seeded generator.
"""

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final

from cluster.membership import Membership
from disque.core.host import Host
from disque.core.job import ACTIVE, DELIVERED, HELD, QUEUED, SPENT, Job
from disque.core.jobid import IdMaker
from disque.core.latency import LatencyMonitor
from disque.core.memory import JOB_BYTES, QUEUE_BYTES, Limits
from disque.core.queue import PAUSED_OUT, Queue
from disque.core.records import JOB, SPEND, Record
from disque.core.roll import Roll
from disque.core.session import PendingAdd, Session
from disque.core.settings import Config
from disque.core.slowlog import SlowLog
from disque.core.table import Command
from disque.core.timers import Timers

if TYPE_CHECKING:
    from disque.core.unique import Key

#: The jobs are spread over this many dicts by hash of the ID: one dict stalls everybody when it grows. The number is
#: a power of two.
SHARDS: Final = 1024

Message = tuple[object, ...]

#: How long a queue that nobody uses is kept, by memory level, in ms.
QUEUE_IDLE_MS: Final = (300_000, 10_000, 2_000)


class Stats:
    """Counters for INFO, from the start or the last CONFIG RESETSTAT."""

    __slots__ = ("commands", "connections", "net_in", "net_out", "rejected", "started_ms")

    def __init__(self, now_ms: int) -> None:
        self.started_ms = now_ms
        self.reset()

    def reset(self) -> None:
        """All counters to zero."""
        self.commands = 0
        self.connections = 0
        self.rejected = 0
        self.net_in = 0
        self.net_out = 0


class Node:
    """One node. ``used`` is the accounted memory in bytes; ``journaling`` says whether records are wanted at all."""

    __slots__ = (
        "calls",
        "calls_us",
        "clients_paused_until_ms",
        "config",
        "default_replicate",
        "evict_acks",
        "evictable",
        "evicted",
        "host",
        "ids",
        "journal",
        "journaling",
        "keyed",
        "keys",
        "last_ctime",
        "latency",
        "limits",
        "live",
        "loading",
        "lookup",
        "membership",
        "messages",
        "messages_skipped",
        "misconf",
        "monitors",
        "node_id",
        "password",
        "peak",
        "pending",
        "queues",
        "random",
        "ready",
        "retries",
        "roll",
        "segment",
        "selves",
        "sessions",
        "shards",
        "slowlog",
        "stats",
        "table",
        "timers",
        "touched",
        "trash",
        "used",
    )

    def __init__(
        self,
        membership: Membership,
        config: Config,
        random: Random,
        host: Host,
        table: tuple[Command, ...],
        now_ms: int,
    ) -> None:
        self.membership = membership
        self.config = config
        self.random = random
        self.host = host
        self.node_id = membership.myself.id
        self.selves: tuple[bytes, ...] = (self.node_id,)
        self.ids = IdMaker(self.node_id, random)
        self.shards: list[dict[bytes, Job]] = [{} for _ in range(SHARDS)]
        self.queues: dict[bytes, Queue] = {}
        self.roll = Roll()
        self.timers = Timers()
        self.sessions: dict[int, Session] = {}
        self.monitors: dict[int, Session] = {}
        self.keys: dict[tuple[bytes, bytes], Key] = {}
        self.keyed: dict[bytes, Key] = {}
        self.evictable: dict[bytes, Job] = {}
        self.evicted = 0
        #: Jobs that wait for copies, and the ADDJOB that each belongs to: see `replication`.
        self.pending: dict[bytes, PendingAdd] = {}
        #: Queues that have jobs and a line, to be served at the next settle.
        self.ready: deque[Queue] = deque()
        #: ADDJOBs to be tried again at the next settle, since the holder of their UNIQUE key failed.
        self.retries: deque[PendingAdd] = deque()
        self.touched: list[Session] = []
        self.messages: list[tuple[bytes, Message]] = []
        self.messages_skipped = 0
        self.journal: list[Record] = []
        self.journaling = False
        self.segment = 0
        self.live: dict[int, int] = {}
        self.loading = False
        self.misconf = b""
        #: Jobs forgotten all at once: freed a few at a time by the ticks.
        self.trash: list[dict[bytes, Job] | dict[bytes, Queue]] = []
        self.used = 0
        self.peak = 0
        self.last_ctime = 0
        self.clients_paused_until_ms = 0
        self.stats = Stats(now_ms)
        #: Calls and microseconds by index of the command, for INFO commandstats.
        self.calls: list[int] = [0] * len(table)
        self.calls_us: list[float] = [0.0] * len(table)
        self.table = table
        #: Commands by every spelling that is common; others are put into lower case first.
        self.lookup: dict[bytes, Command] = {}
        self.name_commands()
        self.limits = Limits(0)
        self.slowlog = SlowLog()
        self.latency = LatencyMonitor()
        self.apply_settings()
        self.count_nodes()

    def apply_settings(self) -> None:
        """Copy the settings that the hot path needs out of the config; called after each change."""
        config = self.config
        self.limits.set(config.number("maxmemory"))
        self.password = config.text("requirepass").encode("utf-8", "surrogateescape")
        self.evict_acks = config.text("maxmemory-policy") == "acks"
        self.slowlog.max_len = config.number("slowlog-max-len")

    def name_commands(self) -> None:
        """Make the table of names, with what `rename-command` changed: a new name, or none at all."""
        named = {row.name: row for row in self.table}
        for old, new in self.config.renames():
            row = named.pop(old.encode().lower(), None)
            if row is not None and new:
                named[new.encode("utf-8", "surrogateescape").lower()] = row
        self.table = tuple(row for row in self.table if row in named.values())
        self.lookup = {**{name.upper(): row for name, row in named.items()}, **named}

    def count_nodes(self) -> None:
        """Copy what follows from the node table; called after each change of it."""
        self.default_replicate = min(3, self.membership.size)

    def shard(self, job_id: bytes) -> dict[bytes, Job]:
        """The dict in which a job with this ID lies, or would."""
        return self.shards[hash(job_id) & 1023]

    def find(self, job_id: bytes) -> Job | None:
        """The job with this ID."""
        return self.shards[hash(job_id) & 1023].get(job_id)

    def next_ctime(self, now_ms: int) -> int:
        """The place of a new job in the order of all jobs: later than every one this node gave before."""
        ctime = now_ms * 1_000_000
        if ctime <= self.last_ctime:
            ctime = self.last_ctime + 1
        self.last_ctime = ctime
        return ctime

    def register(self, job: Job) -> None:
        """Take ``job`` into the table of jobs. It must be new."""
        self.shards[hash(job.id) & 1023][job.id] = job
        self.used += JOB_BYTES + len(job.body)

    def remove(self, job: Job) -> None:
        """Forget ``job`` at once, body, timer, place and all.

        The caller writes the record, if there is one to write.
        """
        del self.shards[hash(job.id) & 1023][job.id]
        self.used -= JOB_BYTES + len(job.body)
        if job.state == QUEUED:
            self.queues[job.queue].remove(job)
        self.timers.disarm(job)
        if job.segment:
            self.live[job.segment] -= 1
        if self.keyed:
            self.free_key(job.id)
        if job.flags & SPENT:
            self.evictable.pop(job.id, None)
        job.body = b""

    def free_key(self, job_id: bytes) -> None:
        """The job of a UNIQUE key that lasts as long as its job is gone."""
        key = self.keyed.pop(job_id, None)
        if key is not None:
            self.drop_key(key)

    def drop_key(self, key: "Key") -> None:
        """Forget a UNIQUE key, unless its window has ended and the name belongs to another one now."""
        name = (key.queue, key.name)
        if self.keys.get(name) is not key:
            return
        del self.keys[name]
        self.timers.disarm(key)
        self.used -= key.cost()
        if key.segment:
            self.live[key.segment] -= 1

    def file(self, job: Job) -> None:
        """Write the job as it is now to the journal; it counts for the newest segment from here on."""
        self.journal.append(
            (
                JOB,
                job.id,
                job.queue,
                job.body,
                job.state,
                job.flags,
                job.repl,
                job.ctime,
                job.expires_ms,
                job.delay,
                job.retry,
                job.nacks,
                job.deliveries,
                job.requeue_ms if job.flags & HELD else 0,
            )
        )
        segment = self.segment
        if job.segment != segment:
            if job.segment:
                self.live[job.segment] -= 1
            job.segment = segment
            self.live[segment] = self.live.get(segment, 0) + 1

    def queue(self, name: bytes, now_ms: int) -> Queue:
        """The queue of this name, made when there is none."""
        queue = self.queues.get(name)
        if queue is None:
            queue = Queue(name, now_ms)
            self.queues[name] = queue
            queue.number = self.roll.add(queue)
            self.used += QUEUE_BYTES + len(name)
            self.timers.arm(queue, now_ms + QUEUE_IDLE_MS[0])
        return queue

    def drop_queue(self, queue: Queue) -> None:
        """Forget a queue that holds nothing."""
        assert not queue.length
        assert queue.waiters is None
        del self.queues[queue.name]
        self.roll.drop(queue.number)
        self.used -= QUEUE_BYTES + len(queue.name)
        self.timers.disarm(queue)

    def enqueue(self, job: Job, now_ms: int) -> None:
        """Put ``job`` into its queue, where it stays until somebody gets it or it expires."""
        assert job.state != QUEUED
        assert not job.flags & SPENT
        queue = self.queues.get(job.queue)
        if queue is None:
            queue = self.queue(job.queue, now_ms)
        job.state = QUEUED
        job.flags &= ~HELD
        job.requeue_ms = 0
        if job.due_ms != job.expires_ms:
            self.timers.arm(job, job.expires_ms)
        queue.used_ms = now_ms
        queue.jobs_in += 1
        queue.push(job)
        if queue.waiters is not None and not queue.ready and not queue.paused & PAUSED_OUT:
            queue.ready = True
            self.ready.append(queue)

    def hold(self, job: Job, until_ms: int, flags: int) -> None:
        """Let ``job`` wait outside its queue until ``until_ms``.

        ``flags`` HELD means that a crash must not shorten it.
        """
        job.state = ACTIVE
        job.flags = job.flags & ~HELD | flags
        job.requeue_ms = until_ms
        self.timers.arm(job, min(until_ms, job.expires_ms))

    def take_out(self, job: Job, now_ms: int) -> None:
        """Take a queued job out of its queue; what becomes of it is up to the caller."""
        queue = self.queues[job.queue]
        queue.remove(job)
        queue.used_ms = now_ms
        job.state = ACTIVE

    def delivered(self, job: Job, now_ms: int) -> None:
        """``job`` was popped for a consumer: start its RETRY, or spend it when it has none."""
        job.state = ACTIVE
        job.flags |= DELIVERED
        if job.retry:
            due_ms = now_ms + job.retry * 1000
            job.requeue_ms = due_ms
            self.timers.arm(job, min(job.expires_ms, due_ms))
            return
        job.flags |= SPENT
        self.evictable[job.id] = job
        if self.journaling:
            self.journal.append((SPEND, job.id))

    def touch(self, session: Session) -> None:
        """Tell the shell that ``session`` has replies it did not ask for itself just now."""
        if not session.touched:
            session.touched = True
            self.touched.append(session)

    def jobs_registered(self) -> int:
        """How many jobs this node knows, in any state."""
        return sum(map(len, self.shards))

    def forget_everything(self) -> None:
        """Drop all jobs, queues without a line, and keys, without a record.

        Waiting sessions are the caller's business.
        """
        self.trash += [shard for shard in self.shards if shard]
        if self.queues:
            self.trash.append(self.queues)
        self.shards = [{} for _ in range(SHARDS)]
        self.timers = Timers()
        self.keys.clear()
        self.keyed.clear()
        self.evictable.clear()
        self.pending.clear()
        self.ready.clear()
        self.live.clear()
        self.queues = {}
        self.roll = Roll()
        self.used = 0

    @property
    def next_due_ms(self) -> int:
        """When the next tick is due: NEVER while nothing waits for time, 0 while there is work left over."""
        if self.ready or self.retries or self.trash:
            return 0
        return self.timers.next_due_ms()
