"""All the state of a node, the verbs that change it, and its outboxes.

A node is changed through the doors of `step` only. A verb never returns effects: replies go to a session's ``out``,
frames for other nodes to ``messages``, records to ``outbox``; the shell takes them at the flush. Time is handed in
as ``now_ms``, randomness as a seeded generator, and for IDs as bytes of the system.
"""

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final, cast

from cluster.member import FAIL, PFAIL
from cluster.membership import Membership
from cluster.messages import EARLY, KINDS
from disque.core.base.timers import Timers
from disque.core.config.settings import Config
from disque.core.host import Host
from disque.core.journal.outbox import Outbox
from disque.core.journal.schema import MORE, SPEND
from disque.core.model import memory
from disque.core.model.acks import Acks
from disque.core.model.acl_log import AclLog
from disque.core.model.catalog import Catalog
from disque.core.model.census import Census
from disque.core.model.command import Command, renamed
from disque.core.model.copies import Copies
from disque.core.model.demand import Federation
from disque.core.model.early_holders import EarlyHolders
from disque.core.model.ends import Ends
from disque.core.model.evictable import Evictable
from disque.core.model.extra import IN_JOURNAL, Extra, Extras, encode
from disque.core.model.history import Histories
from disque.core.model.index import Index
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    DEFERRED,
    DELIVERED,
    EXTRA,
    LEASE_OWNER,
    LEASE_RELAYED,
    OUT_ELSEWHERE,
    OUT_HERE,
    QUEUED,
    SPENT,
    STAYS_IN_QUEUE,
    Job,
    is_out_elsewhere,
)
from disque.core.model.jobid import SHARDS, IdMaker, shard_of
from disque.core.model.latency import LatencyMonitor
from disque.core.model.leases import Leases
from disque.core.model.memory import GONE_BYTES, JOB_BYTES, QUEUE_BYTES, Limits
from disque.core.model.moves import Moves
from disque.core.model.outcome import Outcome
from disque.core.model.part import Part
from disque.core.model.peers import Peer
from disque.core.model.pubsub import DELIVERED as EVENT_DELIVERED
from disque.core.model.pubsub import READY, Pubsub
from disque.core.model.queue import PAUSED_OUT, QUEUE_IDLE_MS, Queue
from disque.core.model.registry import Registry
from disque.core.model.repair import Repairs
from disque.core.model.schedules import Schedules
from disque.core.model.session import PendingAdd, Session
from disque.core.model.sliced import Bulks, Sliced
from disque.core.model.slowlog import SlowLog
from disque.core.model.spec import SpecCache
from disque.core.model.specs import Specs
from disque.core.model.stats import Stats
from disque.core.model.survey import Surveys
from disque.core.model.tombstones import Tombstones
from disque.core.model.unique import Unique
from disque.core.model.user import Users
from disque.core.model.votes import Votes
from disque.core.model.zones import Zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.trash import Trash

    #: Work in steps. After one that says True it goes on at the next beat only.
    Chore = Iterator[bool | None]

Message = tuple[object, ...]

#: How long before the end of a RETRY the other holders of a job are asked whether they have it, in ms.
VOTE_MS: Final = 500

#: Different sets of holders that are remembered, so that equal ones are one object.
SHARING_MOST: Final = 4096
#: Job IDs in one message.
IDS_MOST: Final = 1000


class Node:
    """One node. ``used`` is the accounted memory in bytes; ``journaling`` says whether records are wanted at all."""

    __slots__ = (
        "acks",
        "acl_log",
        "batches",
        "beat_ms",
        "body_least",
        "bulks",
        "calls",
        "calls_us",
        "catalog",
        "census",
        "chores",
        "clients_paused_until_ms",
        "config",
        "copies",
        "default_replicate",
        "early",
        "early_holders",
        "ends",
        "evict_acks",
        "evictable",
        "evicted",
        "extras",
        "federation",
        "grace_ms",
        "histories",
        "host",
        "ids",
        "jobless",
        "journaling",
        "last_ctime",
        "latency",
        "leases",
        "leavers",
        "limits",
        "linked",
        "live",
        "loading",
        "lookup",
        "membership",
        "messages",
        "messages_skipped",
        "misconf",
        "monitors",
        "moves",
        "node_id",
        "outbox",
        "outcomes",
        "overflowing",
        "parts",
        "peak",
        "peers",
        "places",
        "pubsub",
        "queue_index",
        "queues",
        "random",
        "ready",
        "reconciling",
        "registry",
        "registry_most",
        "repairs",
        "resets",
        "resting",
        "retries",
        "schedules",
        "seen_version",
        "segment",
        "selves",
        "sessions",
        "shards",
        "sharing",
        "slowlog",
        "specs",
        "start",
        "starts",
        "stats",
        "stopping",
        "surveys",
        "table",
        "timers",
        "tombstones",
        "touched",
        "trash",
        "unique",
        "unread",
        "used",
        "users",
        "votes",
        "walks",
        "zones",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - the whole state of a node, each part once
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
        self.ids = IdMaker(self.node_id, host.entropy)
        self.shards: list[dict[bytes, Job]] = [{} for _ in range(SHARDS)]
        self.queues: dict[bytes, Queue] = {}
        self.specs = Specs(self.queues)
        self.queue_index: Index[Queue] = Index()
        self.timers = Timers()
        #: How many records of each segment of the journal are the newest of something.
        self.live: dict[int, int] = {}
        self.sessions: dict[int, Session] = {}
        self.monitors: dict[int, Session] = {}
        #: Who listens to what.
        self.pubsub = Pubsub()
        #: UNIQUE keys, and what ADDJOBs do to get one.
        self.unique = Unique(membership, self.timers, self.live)
        #: Jobs that memory is taken from when it is short.
        self.evictable = Evictable()
        self.evicted = 0
        self.grace_ms = 0
        #: Other nodes by ID, and those that a job may be sent to at once.
        self.peers: dict[bytes, Peer] = {}
        self.linked: list[Peer] = []
        #: Jobs of which copies are still wanted.
        self.copies = Copies(self.peers)
        #: It is about to stop, and the others were told: see `handover`.
        self.stopping = False
        #: The longest body that each of them takes: see `sizes`.
        self.body_least = 1 << 60
        self.zones = Zones()
        self.seen_version = -1
        #: This process among all that ever were this node, and those of nodes that are linked but only half met.
        self.start = random.getrandbits(62) + 1
        self.starts: dict[bytes, int] = {}
        self.beat_ms = now_ms
        self.sharing: dict[tuple[bytes, ...], tuple[bytes, ...]] = {self.selves: self.selves}  # see `shared`
        #: Jobs that this node asks about before it queues them again; acknowledgements that others must still hear of.
        self.votes = Votes(self.timers)
        self.acks = Acks(self.timers, self.live)
        #: Deliveries that do not last for RETRY.
        self.leases = Leases()
        #: What few jobs have beyond their fields, and moves that other nodes must still hear of.
        self.extras = Extras()
        self.moves = Moves(self.timers)
        self.parts: tuple[Part, ...] = (
            *(self.unique, self.copies, self.votes, self.acks, self.evictable, self.leases, self.moves, self.extras),
        )
        #: Questions to all nodes; how many jobs are delayed and in flight. These parts have nothing of single jobs.
        self.surveys = Surveys(self.timers, self.start)
        self.census = Census()
        #: How jobs have ended that somebody wants to know of, and who waits for that; what happened in queues.
        self.ends = Ends(self.timers, self.node_id)
        self.histories = Histories()
        #: Jobs that are added at certain times; copies that were lost, and are made again.
        self.schedules = Schedules(now_ms)
        self.repairs = Repairs(self.node_id, now_ms)
        jobless: list[Part] = [self.surveys, self.census, self.ends, self.histories, self.schedules, self.repairs]
        self.jobless: tuple[Part, ...] = tuple(jobless)
        #: IDs of jobs that were acknowledged or deleted everywhere lately.
        self.tombstones = Tombstones()
        self.early_holders = EarlyHolders()
        self.federation = Federation()
        #: What all nodes agree on, and how many bytes of it somebody may set here.
        self.registry = Registry()
        self.registry_most = 0
        #: Who may log in, what rules about them can name, and what they tried and might not.
        self.users = Users()
        self.catalog = Catalog(table)
        self.acl_log = AclLog()
        #: No shared job may leave its queue: see `arbitration.doubt`.
        self.reconciling = False
        #: Work on many jobs, done some at a time by the ticks; what rests goes on at the next beat.
        self.chores: deque[Chore] = deque()
        #: Places in the lines of all queues, and sessions that wait no more and still have some of them.
        self.places = 0
        self.leavers: deque[Session] = deque()
        #: Walks through all jobs or queues that clients wait for.
        self.walks: deque[Sliced] = deque()
        #: Bytes of the replies of such walks that clients have not taken.
        self.unread = 0
        #: Commands with many IDs.
        self.bulks = Bulks()
        #: How often this process was emptied by CLUSTER RESET.
        self.resets = 0
        self.resting: list[Chore] = []
        #: Queues that have jobs and a line, to be served at the next settle.
        self.ready: deque[Queue] = deque()
        #: ADDJOBs to be tried again at the next settle, since the holder of their UNIQUE key failed.
        self.retries: deque[PendingAdd] = deque()
        #: What replication leaves to the features above it: see `dedup.outcomes`.
        self.outcomes: list[Outcome] = []
        #: Queues that may be too long, and whose oldest jobs are dropped then: see `jobs.overflow`.
        self.overflowing: dict[bytes, None] = {}
        self.touched: list[Session] = []
        #: Messages by peer, with what stands before the job IDs: sent together at the next settle.
        self.batches: dict[tuple[bytes, Message], list[bytes]] = {}
        self.messages: list[tuple[bytes, Message]] = []
        #: Those that need not wait for the journal: see `cluster.messages.EARLY`.
        self.early: list[tuple[bytes, Message]] = []
        self.messages_skipped = 0
        self.outbox = Outbox()
        self.journaling = False
        self.segment = 0
        self.loading = False
        self.misconf = b""
        #: What was forgotten all at once: freed a few at a time by the ticks, the last container first.
        self.trash: list[Trash] = []
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

    def may_make_queues(self, names: list[bytes]) -> bool:
        """Whether there may be queues of these names, for somebody who waits in them or pauses them.

        The room between 95 % and the limit, into which no job comes, is for those that do not exist yet.
        """
        return self.used <= self.limits.most or all(name in self.queues for name in names)

    def failed(self, peer_id: bytes) -> bool:
        """Whether nothing can be expected of this node: it fails, or is not (or no more) of the cluster."""
        known = self.membership.nodes.get(peer_id)
        return known is None or known.flags & (PFAIL | FAIL) != 0

    def tell_all(self, message: Message) -> None:
        """Send ``message`` to every node to which there is a link."""
        for peer in self.peers.values():
            if peer.linked:
                self.send(peer.id, message)

    def send(self, peer_id: bytes, message: Message) -> None:
        """Have a message leave at the flush: at once, or as soon as the journal is as durable as promised."""
        (self.early if message[0] in EARLY else self.messages).append((peer_id, message))

    def apply_settings(self) -> None:
        """Copy the settings that the hot path needs out of the config; called after each change."""
        config = self.config
        self.limits.set(config.number("maxmemory"))
        self.require(config.text("requirepass").encode("utf-8", "surrogateescape"))
        self.evict_acks = config.text("maxmemory-policy") == "acks"
        self.slowlog.max_len = config.number("slowlog-max-len")
        self.acl_log.most = config.number("acllog-max-len")
        self.acl_log.trim()
        self.grace_ms = config.number("restart-grace") * 1000
        self.registry_most = config.number("registry-max-bytes")
        self.count_nodes()

    def require(self, password: bytes) -> None:
        """Give the default user the password of `requirepass`. Clients that are logged in stay so."""
        before = self.users.default
        user = self.users.require(password)
        for session in self.sessions.values():
            if session.user is before:
                session.log_in(user, passed=session.passed)

    def name_commands(self) -> None:
        """Make the table of names, with what `rename-command` changed."""
        self.table, self.lookup = renamed(self.table, self.config.renames())

    def count_nodes(self) -> None:
        """Copy what follows from the node table; called after each change of it.

        While the nodes of `cluster-seeds` were never met, two copies are wanted that cannot be: a node that should be
        one of several does not take jobs alone. `default-replicate` says otherwise, whatever the nodes are.
        """
        wanted = self.config.number("default-replicate")
        size = self.membership.size
        usual = 2 if size == 1 and self.config.words("cluster-seeds") else min(3, size)
        self.default_replicate = wanted or usual

    def shard(self, job_id: bytes) -> dict[bytes, Job]:
        """The dict in which a job with this ID lies, or would."""
        return self.shards[shard_of(job_id)]

    def find(self, job_id: bytes) -> Job | None:
        """The job with this ID."""
        return self.shards[shard_of(job_id)].get(job_id)

    def next_ctime(self, now_ms: int) -> int:
        """The place of a new job in the order of all jobs: later than every one this node gave before."""
        ctime = now_ms * 1_000_000
        if ctime <= self.last_ctime:
            ctime = self.last_ctime + 1
        self.last_ctime = ctime
        return ctime

    def register(self, job: Job) -> None:
        """Take ``job`` into the table of jobs. It must be new."""
        self.shards[shard_of(job.id)][job.id] = job
        self.used += JOB_BYTES + len(job.body)

    def remove(self, job: Job) -> None:
        """Forget ``job`` at once, body, timer, place and all.

        The caller writes the record, if there is one to write.
        """
        del self.shards[shard_of(job.id)][job.id]
        self.used -= JOB_BYTES + len(job.body)
        if job.state == QUEUED:
            self.queues[job.queue].remove(job)
        self.timers.disarm(job)
        if job.segment:
            self.live[job.segment] -= 1
        self._part_with(job)
        job.body = b""

    def _part_with(self, job: Job) -> None:
        """Have all features forget ``job``: each of ``parts``, by name.

        Most jobs are plain, and a walk through ``parts`` would take five times as long to learn that none knows them.
        """
        flags = job.flags
        if flags & EXTRA:
            self.used -= self.moves.drop_job(job) + self.extras.drop_job(job)
        if flags & SPENT:
            self.used -= self.evictable.drop_job(job)
        if job.state == ACKED:
            self.used -= self.acks.drop_job(job)
        if self.unique.by_job:
            self.used -= self.unique.drop_job(job)
        if self.copies.wanted:
            self.used -= self.copies.drop_job(job)
        if self.votes.by_id:
            self.used -= self.votes.drop_job(job)
        if self.leases.by_id:
            self.used -= self.leases.drop_job(job)

    def drop_copies(self, job_id: bytes) -> None:
        """No copies of this job are wanted any more."""
        self.used -= self.copies.drop(job_id)

    def drop_vote(self, job_id: bytes) -> None:
        """Ask no more about this job."""
        self.used -= self.votes.drop(job_id)

    def drop_lease(self, job_id: bytes) -> None:
        """What this delivery was to last does not matter any more."""
        self.used -= self.leases.drop(job_id)

    def drop_ack(self, job_id: bytes) -> None:
        """Nobody must hear of this acknowledgement any more."""
        self.used -= self.acks.drop(job_id)

    def let_go(self, job: Job) -> None:
        """``job`` is done and only its ID matters: free what it holds. It is in no queue any more."""
        self._part_with(job)
        self.timers.disarm(job)
        self.used -= len(job.body)
        job.body = b""
        job.flags = 0
        job.requeue_ms = 0

    def remember_gone(self, job_id: bytes) -> None:
        """Let no copy that is still on its way bring this job back."""
        if self.tombstones.add(job_id):
            self.used += GONE_BYTES

    def wake(self, queue: Queue) -> None:
        """Have the line of ``queue`` served at the next settle, if there is something to give."""
        wanted = queue.waiters is not None or queue.wants is not None or bool(self.federation.crowded)
        if wanted and queue.length and not queue.ready and not queue.paused & PAUSED_OUT:
            queue.ready = True
            self.ready.append(queue)

    def begin_chore(self, chore: "Chore") -> None:
        """Do the first step of a chore at once; the ticks do the others, if there are any."""
        for is_enough in chore:
            if is_enough:
                self.resting.append(chore)
            else:
                self.chores.append(chore)
            break

    def batch(self, peer: bytes, head: Message, job_id: bytes) -> None:
        """Send ``head`` with this job ID to ``peer`` at the next settle, together with others of the same head."""
        key = (peer, head)
        ids = self.batches.get(key)
        if ids is None:
            self.batches[key] = [job_id]
        else:
            ids.append(job_id)

    def batch_all(self, peer: bytes, head: Message, ids: list[bytes]) -> None:
        """The same for many jobs."""
        self.batches.setdefault((peer, head), []).extend(ids)

    def send_ids(self, peer: bytes, head: Message, ids: list[bytes]) -> None:
        """Send ``head`` with these job IDs to ``peer``: in one message, or in several where there are many."""
        shape = KINDS[cast("int", head[0])][1]
        most = shape.beside(head, IDS_MOST)
        for at in range(0, len(ids), most):
            self.send(peer, (*head, tuple(ids[at : at + most]), *shape.added))

    def shared(self, holders: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The one object for this sorted set of holders."""
        known = self.sharing.get(holders)
        if known is None:
            if len(self.sharing) >= SHARING_MOST:
                self.sharing = {self.selves: self.selves}
            known = self.sharing.setdefault(holders, holders)
        return known

    def free_key(self, job_id: bytes) -> None:
        """The job of a UNIQUE key that lasts as long as its job is gone."""
        self.used -= self.unique.free(job_id)

    def extra_of(self, job: Job) -> Extra | None:
        """What is to be known of a job beyond its fields; None for most."""
        return self.extras.by_id.get(job.id) if job.flags & EXTRA else None

    def put_extra(self, job: Job, extra: Extra) -> None:
        """Let this be the extra of ``job``, which may have one."""
        old = self.extras.by_id.get(job.id)
        if old is not None:
            self.used -= old.size()
        self.extras.by_id[job.id] = extra
        self.used += extra.size()
        job.flags |= EXTRA

    def more_of(self, job: Job, now_ms: int) -> bytes:
        """The extra of a job as other nodes are told it; nothing for most."""
        extra = self.extra_of(job)
        return b"" if extra is None else encode(extra, now_ms)

    def file(self, job: Job) -> None:
        """Write the job as it is now to the journal; it counts for the newest segment from here on."""
        if job.flags & EXTRA:
            self.file_extra(job)
        self.outbox.file(job)
        segment = self.segment
        if job.segment != segment:
            if job.segment:
                self.live[job.segment] -= 1
            job.segment = segment
            self.live[segment] = self.live.get(segment, 0) + 1

    def file_extra(self, job: Job) -> None:
        """Write what is to be known of a job beyond its fields. Node time stands in it as it is."""
        extra = self.extra_of(job)
        if extra is not None:
            self.outbox.add((MORE, job.id, encode(extra, IN_JOURNAL)))

    def queue(self, name: bytes, now_ms: int) -> Queue:
        """The queue of this name, made when there is none."""
        queue = self.queues.get(name)
        if queue is None:
            queue = Queue(name, now_ms)
            queue.specs = self.specs.absent.get(name)
            self.queues[name] = queue
            queue.number = self.queue_index.add(queue)
            self.federation.adopt(queue)
            self.used += QUEUE_BYTES + len(name)
            self.timers.arm(queue, now_ms + QUEUE_IDLE_MS[0])
        return queue

    def drop_queue(self, queue: Queue) -> None:
        """Forget a queue that holds nothing."""
        assert not queue.length
        assert queue.waiters is None
        del self.queues[queue.name]
        self.queue_index.drop(queue.number)
        self.used -= QUEUE_BYTES + len(queue.name)
        self.timers.disarm(queue)

    def enqueue(self, job: Job, now_ms: int) -> None:
        """Put ``job`` into its queue, where it stays until somebody gets it or it expires."""
        assert job.state != QUEUED
        assert not job.flags & SPENT
        spec = job.spec
        queue = self.queues.get(spec.queue)
        if queue is None:
            queue = self.queue(spec.queue, now_ms)
            if queue.specs is None:
                queue.specs = SpecCache(spec)
        if spec.rows is not None:
            job.flags &= ~DELIVERED  # the delivery before is over: see `tries`
        job.state = QUEUED
        job.flags &= STAYS_IN_QUEUE
        job.requeue_ms = 0
        if self.votes.by_id:
            self.drop_vote(job.id)
        if self.leases.by_id:
            self.drop_lease(job.id)
        if job.due_ms != job.expires_ms:
            self.timers.arm(job, job.expires_ms)
        queue.used_ms = now_ms
        queue.jobs_in += 1
        queue.push(job)
        if self.pubsub.heard & READY:
            self.pubsub.happened(READY, spec.queue, job.id)
        if (
            (queue.waiters is not None or queue.wants is not None or self.federation.crowded)
            and not queue.ready
            and not queue.paused & PAUSED_OUT
        ):
            queue.ready = True
            self.ready.append(queue)

    def queue_when_sure(self, job: Job, now_ms: int) -> None:
        """Put ``job`` into its queue, as somebody wants; one that may be done since long waits as after a delay.

        It comes into the queue when the other nodes have said that they know it: see `returned`.
        """
        if self.repairs.returned and job.id in self.repairs.returned:
            self.hold(job, now_ms, DEFERRED | LEASE_OWNER)
        else:
            self.enqueue(job, now_ms)

    def hold(self, job: Job, until_ms: int, flags: int) -> None:
        """Let ``job`` wait outside its queue until ``until_ms``.

        ``flags`` DEFERRED means that a crash must not shorten it, LEASE_OWNER that this node speaks for it. Other
        holders are asked VOTE_MS before. LEASE_OWNER alone may be a delivery from here; all else ends one.
        """
        if flags != LEASE_OWNER and self.leases.by_id:
            self.drop_lease(job.id)
        job.state = ACTIVE
        if is_out_elsewhere(job) and (flags | DELIVERED) & OUT_ELSEWHERE != OUT_ELSEWHERE:
            job.flags &= ~DELIVERED  # that was no delivery from here, and is no try
        job.flags = job.flags & ~(DEFERRED | LEASE_OWNER | LEASE_RELAYED) | flags
        job.requeue_ms = until_ms
        if len(job.holders) > 1:
            until_ms -= VOTE_MS
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
        job.flags |= OUT_HERE
        self.stats.jobs_delivered += 1
        if self.pubsub.heard & EVENT_DELIVERED:
            self.pubsub.happened(EVENT_DELIVERED, job.queue, job.id)
        retry = job.spec.retry
        if retry:
            due_ms = now_ms + retry * 1000
            job.requeue_ms = due_ms
            if len(job.holders) > 1:
                due_ms -= VOTE_MS
            at_most_ms = job.expires_ms
            self.timers.arm(job, due_ms if due_ms < at_most_ms else at_most_ms)  # noqa: FURB136 - `min` is 5 % here
            return
        job.flags |= SPENT
        self.evictable.add(job)
        if self.journaling:
            self.outbox.add((SPEND, job.id))

    def touch(self, session: Session) -> None:
        """Tell the shell that ``session`` has replies it did not ask for itself just now."""
        if not session.touched:
            session.touched = True
            self.touched.append(session)

    def jobs_registered(self) -> int:
        """How many jobs this node knows, in any state."""
        return sum(map(len, self.shards))

    @property
    def next_due_ms(self) -> int:
        """When the next tick is due: NEVER while nothing waits for time, 0 while there is work left over."""
        if (
            self.ready
            or self.retries
            or self.unique.ended
            or self.trash
            or self.chores
            or self.leavers
            or self.bulks.line
            or self.ends.over
            or self.schedules.has_work()
            or (self.registry.schedules and not self.loading)
        ):
            return 0
        if self.walks and self.unread <= memory.UNREAD_MOST:
            return 0
        if (self.federation.marked or self.overflowing) and not self.reconciling and not self.misconf:
            return 0
        return self.timers.next_due_ms()
