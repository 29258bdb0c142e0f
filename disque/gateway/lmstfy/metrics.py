"""lmstfy's metrics, under its names: what passes through this gateway, and the sizes of queues at all nodes.

Those of Redis' inside that mean nothing here are there and stay 0: `consume_jobs`, which lmstfy never counts either,
`timer_due_jobs` and `timer_full_batches`. `qps` and `latency` are of the commands that this gateway sends to nodes,
several of which travel together. How old a job was when it was acknowledged is known of those that were consumed here:
IDs of the cluster do not tell their time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from disque.gateway.compat import Sample, totals
from disque.gateway.families import Family
from disque.gateway.lmstfy import names
from disque.gateway.lmstfy.call import DEFAULT_POOL

REDIS: Final = "infra_lmstfy_redis_"
HTTP: Final = "infra_lmstfy_http_"
OF_POOL: Final = (
    *("publish_jobs", "consume_jobs", "consume_multi_jobs", "pool_add_jobs", "pool_get_jobs", "pool_delete_jobs"),
    *("timer_add_jobs", "timer_due_jobs", "timer_full_batches", "queue_direct_push_jobs", "queue_pop_jobs"),
    "deadletter_respawn_jobs",
)
QUEUE: Final = ("pool", "namespace", "queue")
ELAPSED_MS: Final = tuple(15 * 3.5**power for power in range(7))
LATENCY_MS: Final = tuple(15 * 2.5**power for power in range(9))
COMMAND_MS: Final = tuple(2.0**power for power in range(16))
COMMAND: Final = ("node", "command", "status")
#: Jobs that were consumed, of which it is remembered when they were added.
CONSUMED_MOST = 20_000  # not Final: tests want less
#: Gauges of one pool, and the metric of nodes that each is the sum of.
OF_NODES: Final = {
    "max_mem_bytes": "disque_memory_max_bytes",
    "used_mem_bytes": "disque_memory_used_bytes",
    "connections": "disque_connected_clients",
    "blocking_connections": "disque_blocked_clients",
    "total_keys": "disque_node_jobs",
    "total_ttl_keys": "disque_node_jobs",  # each has a TTL
}


class LmstfyMetrics:
    """All of them. One for a gateway."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        self._wall_s = wall_s
        #: By the ID of a job that was consumed, when it was added, in seconds since 1970; the oldest first.
        self._born_s: OrderedDict[bytes, float] = OrderedDict()
        self._pool = {name: Family(REDIS + name, "counter", ("pool",)) for name in OF_POOL}
        self._published = Family(f"{REDIS}publish_queue_jobs", "counter", QUEUE)
        self._consumed = Family(f"{REDIS}consume_queue_jobs", "counter", QUEUE)
        self._elapsed = Family(f"{REDIS}job_elapsed_ms", "histogram", QUEUE, ELAPSED_MS)
        self._acked = Family(f"{REDIS}job_ack_elapsed_ms", "histogram", QUEUE, ELAPSED_MS)
        self._qps = Family(f"{REDIS}qps", "counter", COMMAND)
        self._commands = Family(f"{REDIS}latency", "histogram", COMMAND, COMMAND_MS)
        self._codes = Family(f"{HTTP}http_codes", "counter", ("pool", "namespace", "api", "method", "code"))
        self._limited = Family(f"{HTTP}rate_limit", "counter", ("pool", "namespace", "token", "action"))
        self._latency = Family(
            f"{HTTP}latency_milliseconds", "histogram", ("pool", "namespace", "api", "method"), LATENCY_MS
        )
        for family in self._pool.values():
            family.add((DEFAULT_POOL,), 0)

    def count(self, name: str, jobs: int = 1) -> None:
        """Count something of the pool."""
        self._pool[name].add((DEFAULT_POOL,), jobs)

    def published(self, namespace: str, queue: str, jobs: int, *, delayed: bool) -> None:
        """Jobs were published."""
        for name in ("publish_jobs", "pool_add_jobs", "timer_add_jobs" if delayed else "queue_direct_push_jobs"):
            self.count(name, jobs)
        self._published.add((DEFAULT_POOL, namespace, queue), jobs)

    def consumed(self, namespace: str, queue: str, job_id: bytes, elapsed_ms: int) -> None:
        """A job was consumed."""
        self._born_s[job_id] = self._wall_s() - elapsed_ms / 1000
        if len(self._born_s) > CONSUMED_MOST:
            self._born_s.popitem(last=False)
        for name in ("pool_get_jobs", "queue_pop_jobs", "timer_add_jobs"):
            self.count(name)
        self._consumed.add((DEFAULT_POOL, namespace, queue))
        self._elapsed.observe((DEFAULT_POOL, namespace, queue), elapsed_ms)

    def acknowledged(self, namespace: str, queue: str, job_id: bytes | None) -> None:
        """A job was deleted."""
        self.count("pool_delete_jobs")
        born_s = None if job_id is None else self._born_s.pop(job_id, None)
        if born_s is not None:
            self._acked.observe((DEFAULT_POOL, namespace, queue), max(0.0, self._wall_s() - born_s) * 1000)

    def asked(self, node: str, command: str, is_well: bool, seconds: float) -> None:
        """A node has answered a command."""
        labels = (node, command, "ok" if is_well else "error")
        self._qps.add(labels)
        self._commands.observe(labels, seconds * 1000)

    def answered(self, namespace: str, api: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._codes.add((DEFAULT_POOL, namespace, api, method, str(status)))
        if status < 300:
            self._latency.observe((DEFAULT_POOL, namespace, api, method), seconds * 1000)

    def limited(self, namespace: str, token: str, action: str) -> None:
        """A request was one too many. The token is hidden but for its end: metrics are read by many."""
        self._limited.add((DEFAULT_POOL, namespace, f"...{token[-4:]}", action))

    def text(self, told: Iterable[Sample] = ()) -> str:
        """All of it, with what nodes tell."""
        families = [*self._pool.values(), self._published, self._consumed, self._elapsed, self._acked]
        families += [self._qps, self._commands, self._codes, self._limited, self._latency, *of_nodes(list(told))]
        return "\n".join([line for family in families for line in family.lines()]) + "\n"


def of_nodes(told: list[Sample]) -> list[Family]:
    """Sizes of queues, and what nodes need."""
    gauges = []
    for name, source in OF_NODES.items():
        family = Family(REDIS + name, "gauge", ("pool",))
        family.set((DEFAULT_POOL,), sum(totals(told, source).values()))
        gauges.append(family)
    sizes, dead = (Family(REDIS + name, "gauge", QUEUE) for name in ("queue_sizes", "deadletter_sizes"))
    for full, length in totals(told, "disque_queue_length").items():
        namespace, _, queue = full.partition("/")
        alive = queue.removesuffix(":dead")
        if not names.wrong_for_consuming(namespace, alive):
            (sizes if alive == queue else dead).set((DEFAULT_POOL, namespace, alive), length)
    timers = Family(f"{REDIS}timer_sizes", "gauge", ("pool",))
    waiting = [sum(totals(told, name).values()) for name in ("disque_queue_delayed", "disque_queue_in_flight")]
    timers.set((DEFAULT_POOL,), sum(waiting))
    return [*gauges, sizes, dead, timers]
