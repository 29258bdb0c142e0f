"""METRICS: figures of this node and of its queues in Prometheus' text format (0.0.4).

All lines of a metric stand together, so the queues are chosen and looked at first. Those that were used most are
shown, as many as COUNT says; how many are left out is a metric, too. Many queues and jobs are done in slices, as walks
of QSCAN are (see `scan`), one reply at a time.

How long jobs wait and run are histograms of samples: of each queue a hundred jobs a second at most are looked at.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from disque import VERSION
from disque.core.base import errors, resp
from disque.core.base.glob import Glob
from disque.core.base.numbers import parse_int
from disque.core.commands import scan
from disque.core.jobs import census
from disque.core.jobs.deliver import LARGE_REPLY
from disque.core.jobs.figures import figures_of, oldest_ms
from disque.core.model import claims as may
from disque.core.model.command import DANGEROUS, READONLY, Command
from disque.core.model.figures import Figures, Histogram, place
from disque.core.model.job import is_in_flight
from disque.core.model.queue import PAUSED_IN, PAUSED_OUT, Queue
from disque.core.model.session import NOT_WAITING, Session

if TYPE_CHECKING:
    from disque.core.node import Node

Facts = dict[str, int | float | str]

#: Queues that are shown where COUNT says nothing, and at most.
COUNT: Final = 1000
COUNT_MOST: Final = 10_000
#: Bytes of all labels together, and of the name of a queue that is shown: each stands in some fifty lines.
LABELS_MOST = 1 << 20  # not Final: tests want less, compiled too
NAME_MOST: Final = 512
#: Queues without a queue yet (all their jobs are delayed) that are looked for.
OTHERS_MOST: Final = 10_000
#: What is done at once, in jobs that are looked at; to look at a queue takes as long as so many of them.
LOOK_MOST: Final = 2000
QUEUE_LOOKS: Final = 8
#: Bytes of names that are compared with a pattern in the time of one look.
COMPARED_A_LOOK: Final = 16

COUNTER: Final = b"counter"
GAUGE: Final = b"gauge"
HISTOGRAM: Final = b"histogram"

#: Bounds of the histograms: powers of four from one to 4,194,304 ms. What counts for each: `bound`.
BOUNDS: Final = tuple(1 << power for power in range(0, 23, 2))


class Family:
    """A metric: its name without `disque_`, its kind, what it means, and its samples: labels and values."""

    __slots__ = ("kind", "meaning", "name", "samples")

    def __init__(self, kind: bytes, name: bytes, meaning: bytes, samples: list[tuple[bytes, float]]) -> None:
        self.kind = kind
        self.name = name
        self.meaning = meaning
        self.samples = samples

    def lines(self) -> bytes:
        """The whole metric."""
        shown = [b"disque_%b%b %b\n" % (self.name, labels, number(value)) for labels, value in self.samples]
        return heading(self.kind, self.name, self.meaning) + b"".join(shown)


def heading(kind: bytes, name: bytes, meaning: bytes) -> bytes:
    """What stands before the samples of a metric."""
    return b"# HELP disque_%b %b\n# TYPE disque_%b %b\n" % (name, meaning, name, kind)


def gauge(name: bytes, meaning: bytes, value: float) -> Family:
    """A number that goes up and down."""
    return Family(GAUGE, name, meaning, [(b"", value)])


def counter(name: bytes, meaning: bytes, value: float) -> Family:
    """A number that only grows, until the node starts again or CONFIG RESETSTAT."""
    return Family(COUNTER, name, meaning, [(b"", value)])


def number(value: float) -> bytes:
    """A value as it is written."""
    return b"%d" % value if isinstance(value, int) else repr(value).encode()


def seconds(ms: int) -> bytes:
    """Milliseconds as it is written in seconds."""
    return b"%d.%03d" % divmod(ms, 1000)


def label(name: bytes, value: bytes) -> bytes:
    r"""Labels with one value of any bytes: those that are no UTF-8 are written as ``\xff``."""
    text = value.decode("utf-8", "backslashreplace")
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return b'{%b="%b"}' % (name, escaped.encode())


# -- the node ----------------------------------------------------------------------------------------------------------


def process(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """Who this is, what it takes, who is connected."""
    stats, sessions = node.stats, node.sessions.values()
    version = b'{version="%b",core="%b"}' % (VERSION.encode(), str(facts["core"]).encode())
    cpu = [
        (b'{mode="%b"}' % mode.encode(), float(facts[f"cpu_{key}_s"]))
        for mode, key in (("user", "user"), ("system", "sys"))
    ]
    return [
        Family(GAUGE, b"build_info", b"Version and form of this node.", [(version, 1)]),
        gauge(b"uptime_seconds", b"Since this node started.", max(0, now_ms - stats.started_ms) // 1000),
        Family(COUNTER, b"cpu_seconds_total", b"Processor time of the process.", cpu),
        gauge(b"longest_turn_seconds", b"The longest event loop iteration.", round(stats.longest_turn_s, 6)),
        gauge(b"connected_clients", b"Connections of clients.", len(node.sessions)),
        gauge(
            b"blocked_clients", b"Clients that wait for a reply.", sum(one.waiting != NOT_WAITING for one in sessions)
        ),
        gauge(b"pubsub_clients", b"Clients that listen.", sum(one.subscriptions is not None for one in sessions)),
        counter(b"connections_total", b"Clients that have connected.", stats.connections),
        counter(b"connections_rejected_total", b"Clients that were turned away.", stats.rejected),
        counter(b"authentications_failed_total", b"Wrong passwords.", stats.auths_denied),
        counter(b"requests_not_permitted_total", b"Refused to the user of a client.", stats.acl_denied),
        counter(b"network_received_bytes_total", b"Bytes from clients.", stats.net_in),
        counter(b"network_sent_bytes_total", b"Bytes to clients.", stats.net_out),
    ]


def memory(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """What it is counted for."""
    del now_ms
    return [
        gauge(b"memory_used_bytes", b"What jobs, queues and keys count for.", node.used),
        gauge(b"memory_max_bytes", b"maxmemory; 0 is no limit.", node.limits.max_bytes),
        gauge(b"memory_resident_bytes", b"What the system counts for the process.", int(facts["rss_bytes"])),
        counter(b"evicted_jobs_total", b"Jobs that were forgotten since memory was short.", node.evicted),
        counter(b"evicted_ends_total", b"Kept ends that were forgotten for that.", node.stats.ends_evicted),
    ]


def jobs(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """Jobs of all queues, those that are left out among them."""
    del facts, now_ms
    stats = node.stats
    return [
        gauge(b"node_jobs", b"Jobs that this node knows, in any state.", node.jobs_registered()),
        gauge(b"node_queues", b"Queues of this node.", len(node.queues)),
        gauge(b"jobs_waiting_for_copies", b"Jobs of which copies are still wanted.", len(node.copies.wanted)),
        gauge(b"unique_keys", b"UNIQUE keys that this node keeps.", len(node.unique.table) + node.unique.store.count),
        gauge(b"kept_ends", b"Ended jobs that are kept for RETAIN.", len(node.ends.by_id)),
        counter(b"node_jobs_added_total", b"Jobs that clients of this node added.", stats.jobs_added),
        counter(b"node_jobs_delivered_total", b"Jobs that clients of this node got.", stats.jobs_delivered),
        counter(b"node_jobs_acked_total", b"Jobs that they acknowledged.", stats.jobs_acknowledged),
        counter(b"node_jobs_nacked_total", b"Jobs that they gave back.", stats.jobs_nacked),
        counter(b"node_jobs_retried_total", b"Jobs that came back after their RETRY.", stats.jobs_requeued),
        counter(b"node_jobs_died_total", b"Jobs whose tries were used up.", stats.jobs_died),
        counter(b"node_jobs_expired_total", b"Jobs whose TTL ended.", stats.jobs_expired),
        counter(b"node_jobs_dropped_total", b"Jobs whose queue was too long.", stats.jobs_dropped),
    ]


def cluster(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """The other nodes, and what they must still be told."""
    del now_ms
    membership = node.membership
    up = [(label(b"peer", peer.id), int(peer.linked)) for peer in node.peers.values()]
    return [
        gauge(b"cluster_known_nodes", b"Nodes of the cluster, this one among them.", membership.known),
        gauge(b"cluster_reachable_nodes", b"Other nodes that answer.", len(membership.reachable())),
        gauge(b"cluster_leaving", b"Whether this node leaves.", int(membership.leaving)),
        Family(GAUGE, b"cluster_link_up", b"Whether there is a link to another node.", [*up]),
        gauge(b"acknowledgements_to_tell", b"Done jobs of which others must hear.", len(node.acks.by_id)),
        gauge(b"moves_to_tell", b"Moved jobs of which others must hear.", len(node.moves.by_id)),
        gauge(b"questions_before_requeue", b"Jobs about which the others are asked.", len(node.votes.by_id)),
        gauge(b"registry_bytes", b"What all nodes agree on.", node.registry.size),
        *of_bus(facts),
    ]


def of_bus(facts: Facts) -> list[Family]:
    """Bytes from and to other nodes; nothing where there is no bus."""
    if "bus:net_input_bytes" not in facts:
        return []
    return [
        counter(b"bus_received_bytes_total", b"Bytes from other nodes.", int(facts["bus:net_input_bytes"])),
        counter(b"bus_sent_bytes_total", b"Bytes to other nodes.", int(facts["bus:net_output_bytes"])),
    ]


def journal(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """How the journal does."""
    del now_ms
    failing = facts.get("persist:aof_last_write_status", "ok") != "ok"
    shown = [
        gauge(b"journal_enabled", b"Whether there is a journal.", int(facts["persist:aof_enabled"])),
        gauge(b"journal_failing", b"Whether it cannot be written.", int(failing or bool(node.misconf))),
    ]
    if "persist:aof_current_size" in facts:
        shown += [
            gauge(b"journal_bytes", b"Its size.", int(facts["persist:aof_current_size"])),
            gauge(b"journal_segments", b"Its files.", int(facts["persist:aof_segments"])),
            gauge(b"journal_buffer_bytes", b"What waits to be written.", int(facts["persist:aof_buffer_length"])),
        ]
    return shown


def commands(node: "Node", facts: Facts, now_ms: int) -> list[Family]:
    """Calls of each command, and their time."""
    del facts, now_ms
    rows = [row for row in node.table if node.calls[row.index]]
    return [
        Family(
            *(COUNTER, b"commands_total", b"Requests that were executed."),
            [(label(b"command", row.name), node.calls[row.index]) for row in rows],
        ),
        Family(
            *(COUNTER, b"command_seconds_total", b"Time that took."),
            [(label(b"command", row.name), round(node.calls_us[row.index] / 1e6, 6)) for row in rows],
        ),
    ]


SECTIONS: Final[tuple[Callable[["Node", Facts, int], list[Family]], ...]] = (
    *(process, memory, jobs, cluster, journal, commands),
)


# -- queues ------------------------------------------------------------------------------------------------------------

#: Of each queue: kind, name, meaning. The numbers are those of `numbers_of`, in its order.
OF_QUEUES: Final = (
    (GAUGE, b"queue_length", b"Jobs that are queued at this node."),
    (GAUGE, b"queue_delayed", b"Jobs that this node holds back."),
    (GAUGE, b"queue_in_flight", b"Jobs that consumers of this node have."),
    (GAUGE, b"queue_consumers_waiting", b"Clients that wait for jobs of it."),
    (GAUGE, b"queue_paused_in", b"Whether it takes no jobs."),
    (GAUGE, b"queue_paused_out", b"Whether it gives no jobs."),
    (COUNTER, b"jobs_added_total", b"Jobs that were added at this node."),
    (COUNTER, b"jobs_delivered_total", b"Deliveries to consumers of this node."),
    (COUNTER, b"jobs_acked_total", b"Jobs that were acknowledged at this node."),
    (COUNTER, b"jobs_nacked_total", b"Jobs that failed: NACK."),
    (COUNTER, b"jobs_retried_total", b"Jobs that came back after their RETRY."),
    (COUNTER, b"jobs_died_total", b"Jobs whose tries were used up."),
    (COUNTER, b"jobs_expired_total", b"Jobs whose TTL ended."),
    (COUNTER, b"jobs_cancelled_total", b"Jobs that were cancelled."),
    (COUNTER, b"jobs_dropped_total", b"Jobs that were dropped since the queue was too long."),
)


class Row:
    """What is shown of one queue. ``labels`` stand in each of its lines."""

    __slots__ = ("labels", "numbers", "oldest_ms", "runs", "waits")

    def __init__(self, labels: bytes, numbers: list[int], queue: Queue | None, figures: Figures, now_ms: int) -> None:
        self.labels = labels
        self.numbers = numbers
        self.oldest_ms = 0 if queue is None else oldest_ms(queue, now_ms)
        self.waits = bounded(figures.waits)
        self.runs = bounded(figures.runs)

    def times(self, name: bytes, counts: list[int] | None) -> bytes:
        """The lines of a histogram; none where nothing was seen."""
        if counts is None:
            return b""
        head = b"disque_%b_bucket%b," % (name, self.labels[:-1])
        lines = [
            b'%ble="%b"} %d\n' % (head, seconds(bound), count) for bound, count in zip(BOUNDS, counts, strict=False)
        ]
        total, sum_ms = counts[-2:]
        lines.append(b'%ble="+Inf"} %d\n' % (head, total))
        lines.append(b"disque_%b_sum%b %b\n" % (name, self.labels, seconds(sum_ms)))
        lines.append(b"disque_%b_count%b %d\n" % (name, self.labels, total))
        return b"".join(lines)


def bounded(times: Histogram | None) -> list[int] | None:
    """How many times are below each of the bounds, how many there are, and their sum in ms."""
    if times is None:
        return None
    shown: list[int] = []
    seen = at = 0
    for upto, count in enumerate(times.ever()):
        while at < len(BOUNDS) and place(BOUNDS[at]) <= upto:
            shown.append(seen)
            at += 1
        seen += count
    return [*shown, *[seen] * (len(BOUNDS) + 1 - at), times.sum_ms]


def numbers_of(queue: Queue | None, figures: Figures, delayed: int, in_flight: int) -> list[int]:
    """The numbers of a queue, or of one that is not there, in the order of `OF_QUEUES`."""
    if queue is None:
        numbers = [0, delayed, in_flight, 0, 0, 0]
    else:
        paused_in, paused_out = queue.paused & PAUSED_IN, (queue.paused & PAUSED_OUT) >> 1
        numbers = [queue.length, delayed, in_flight, len(queue.waiters or ()), paused_in, paused_out]
    given = 0 if queue is None else queue.jobs_out - queue.given
    numbers += [figures.added, given, figures.acked, figures.nacked, figures.retried]
    return [*numbers, figures.died, figures.expired, figures.cancelled, figures.dropped]


#: Metrics that are more than one number of `OF_QUEUES`.
OLDEST: Final = len(OF_QUEUES)
WAITS: Final = OLDEST + 1
RUNS: Final = OLDEST + 2
#: What a METRICS does, one after the other.
CHOOSE: Final = 0
TALLY: Final = 1
LOOK: Final = 2
WRITE: Final = 3
END: Final = 4


class Metrics(scan.Walk):
    """A METRICS under way: it chooses queues, counts their jobs that are out, looks at them, and writes the lines."""

    __slots__ = ("_chosen", "_delayed", "_family", "_glob", "_in_flight", "_labels", "_left_out", "_left_out_jobs",
                 "_line", "_most", "_names", "_phase", "_rows", "_seen")  # fmt: skip

    def __init__(self, session: Session, pattern: bytes, most: int) -> None:
        super().__init__(session, scan.ScanOptions(), of_jobs=False)
        self._glob = Glob(pattern)
        self._most = most
        self._phase = CHOOSE
        #: Those that were used most so far: how much, in which order they were made, which one.
        self._chosen: list[tuple[int, int, Queue]] = []
        self._left_out = 0
        self._left_out_jobs = 0
        self._delayed: dict[bytes, int] = {}
        self._in_flight: dict[bytes, int] = {}
        #: Those that are still to be looked at, the last one first.
        self._names: list[bytes] = []
        self._rows: list[Row] = []
        #: Labels of these, and their bytes: two names may look alike.
        self._seen: set[bytes] = set()
        self._labels = 0
        self._family = 0
        self._line = 0

    def go_on(self, node: "Node", look_most: int, now_ms: int) -> bool:
        """As in `Walk`."""
        looked = 0
        look_most = min(look_most, LOOK_MOST)
        while looked < look_most and self._phase != END:
            if self._phase == CHOOSE:
                looked += self._choose(node)
            elif self._phase == TALLY:
                looked += self._tally(node)
            elif self._phase == LOOK:
                looked += self._look(node, now_ms)
            else:
                looked += self._write()
        return self._phase == END

    def _choose(self, node: "Node") -> int:
        """Look which queues are used most."""
        self.cursor, some = node.queue_index.look(self.cursor, 100)
        for queue in some:
            if self._is_meant(queue.name):
                self._chosen.append((queue.jobs_in + queue.jobs_out + queue.length, -queue.number, queue))
        chosen = self._chosen
        if not self.cursor or len(chosen) > 2 * self._most:
            chosen.sort(reverse=True)
            for _, _, queue in chosen[self._most :]:
                self._leave_out(queue.length)
            del chosen[self._most :]
        if not self.cursor:
            self._phase = TALLY
        compared = 0 if self._glob.is_beginning() else sum([min(len(queue.name), NAME_MOST) for queue in some])
        return 100 * self.session.user.looks() + compared // COMPARED_A_LOOK

    def _leave_out(self, length: int) -> None:
        self._left_out += 1
        self._left_out_jobs += length

    def _tally(self, node: "Node") -> int:
        """Count the jobs in one of the dicts that are delayed or in flight."""
        shard = node.shards[self.cursor]
        delayed, in_flight = self._delayed, self._in_flight
        for job in shard.values():
            if census.is_out(job):
                table = in_flight if is_in_flight(job) else delayed
                name = job.spec.queue
                known = table.get(name)
                if known is not None:
                    table[name] = known + 1
                elif len(table) < OTHERS_MOST or name in node.queues:
                    table[name] = 1
        self.cursor += 1
        if self.cursor == len(node.shards):
            self.cursor = 0
            self._phase = LOOK
        return len(shard) + 1

    def _look(self, node: "Node", now_ms: int) -> int:
        """Note what is to be shown of some queues; behind the last ones, write what there is to say of the node."""
        if not self._names:
            self._names = [queue.name for _, _, queue in self._chosen]
            others = {**self._delayed, **self._in_flight, **self._counted(node)}
            self._names += [name for name in others if self._is_other(node, name)]
            self._names.reverse()
            self._chosen.clear()
        for _ in range(min(100, len(self._names))):
            self._look_at(node, self._names.pop(), now_ms)
        if not self._names:
            self._write_node(node, now_ms)
            self._phase = WRITE
        return 100 * QUEUE_LOOKS

    def _look_at(self, node: "Node", name: bytes, now_ms: int) -> None:
        queue = node.queues.get(name)
        labels = label(b"queue", name) if len(name) <= NAME_MOST else b""
        if (
            not labels
            or labels in self._seen
            or self._labels + len(labels) > LABELS_MOST
            or len(self._rows) >= self._most
        ):
            self._leave_out(0 if queue is None else queue.length)
            return
        self._seen.add(labels)
        self._labels += len(labels)
        figures = figures_of(node, name)
        numbers = numbers_of(queue, figures, self._delayed.get(name, 0), self._in_flight.get(name, 0))
        self._rows.append(Row(labels, numbers, queue, figures, now_ms))

    @staticmethod
    def _counted(node: "Node") -> dict[bytes, int]:
        """Queues of whose jobs this node has copies only, and has counted some."""
        absent = {name: specs.last.figures for name, specs in node.specs.absent.items()}
        return {name: 0 for name, one in absent.items() if one.acked or one.died or one.expired or one.cancelled}

    def _is_other(self, node: "Node", name: bytes) -> bool:
        """Whether all jobs of a queue that is meant are out, so that there is no queue."""
        return name not in node.queues and self._is_meant(name)

    def _is_meant(self, name: bytes) -> bool:
        """Whether a queue fits the pattern, and the client may know it. Long names are not shown, and not compared."""
        if len(name) > NAME_MOST and not self._glob.is_beginning():
            return False
        return self._glob.matches(name) and self.session.user.sees(name)

    def _write_node(self, node: "Node", now_ms: int) -> None:
        facts = node.host.facts()
        families = [family for section in SECTIONS for family in section(node, facts, now_ms)]
        families.append(gauge(b"queues_shown", b"Queues of which there are metrics here.", len(self._rows)))
        families.append(gauge(b"queues_left_out", b"Queues that METRICS had no room for.", self._left_out))
        families.append(gauge(b"queues_left_out_jobs", b"Jobs that are queued in these.", self._left_out_jobs))
        for family in families:
            self._add(family.lines())

    def _add(self, text: bytes) -> None:
        self.parts.append(text)
        self.size += len(text)

    def _write(self) -> int:
        """Write some lines of a metric."""
        at = self._family
        if not self._line:
            self._add(heading(*NAMES[at]))
        name = NAMES[at][1]
        rows = self._rows[self._line : self._line + 100]
        if at < OLDEST:
            self._add(b"".join([b"disque_%b%b %d\n" % (name, row.labels, row.numbers[at]) for row in rows]))
        elif at == OLDEST:
            self._add(b"".join([b"disque_%b%b %b\n" % (name, row.labels, seconds(row.oldest_ms)) for row in rows]))
        else:
            self._add(b"".join([row.times(name, row.waits if at == WAITS else row.runs) for row in rows]))
        self._line += 100
        if self._line >= len(self._rows):
            self._line = 0
            self._family += 1
            if self._family == len(NAMES):
                self._phase = END
        return len(rows) * (len(BOUNDS) if at > OLDEST else 1) + 1

    def reply(self) -> list[bytes]:
        """As in `Walk`."""
        pieces = [resp.text_head(self.size, self.session.protocol), *self.parts, b"\r\n"]
        return pieces if self.size >= LARGE_REPLY else [b"".join(pieces)]


#: All metrics of queues.
NAMES: Final = (
    *OF_QUEUES,
    (GAUGE, b"queue_oldest_seconds", b"For how long the oldest queued job could have been delivered."),
    (HISTOGRAM, b"job_wait_seconds", b"From due to the first delivery: samples, a hundred a second at most."),
    (HISTOGRAM, b"job_run_seconds", b"From a delivery to its acknowledgement: samples, a hundred a second at most."),
)


def metrics(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """METRICS [pattern] [COUNT n]."""
    most = COUNT
    words = args[1:]
    if len(words) >= 2 and words[-2].upper() == b"COUNT":
        given = parse_int(words[-1])
        if given is None or not 0 <= given <= COUNT_MOST:
            session.out.append(resp.error(errors.BAD_METRICS_COUNT))
            return
        most = given
        words = words[:-2]
    if len(words) > 1:
        session.out.append(resp.error(errors.SYNTAX))
    else:
        scan.begin(node, Metrics(session, words[0] if words else b"*", most), now_ms)


COMMANDS: Final = (
    Command(
        "metrics",
        -1,
        READONLY | DANGEROUS,
        metrics,
        "server",
        "[pattern] [COUNT n]",
        "Figures of this node and of its queues, as Prometheus reads them.",
        touches=may.nothing,  # it leaves out what its client may not know
    ),
)
