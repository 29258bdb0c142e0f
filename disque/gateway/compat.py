"""Metrics of nodes under the names of asynq's exporter, for dashboards that know these.

What the jobs of a queue take of memory is asked elsewhere (`sizes`). A state `retry` is not told apart from
`scheduled`, and `completed` not counted.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from disque.gateway.families import Family

SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: asynq's states, and the metric of nodes that has their number.
STATES: Final = {
    "pending": "disque_queue_length",
    "active": "disque_queue_in_flight",
    "scheduled": "disque_queue_delayed",
}


class Sample(NamedTuple):
    """One line of the text format."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> list[Sample]:
    """The samples of a text."""
    found = []
    for line in text.splitlines():
        match = None if line.startswith("#") else SAMPLE.match(line)
        if match is not None:
            labels = {name: unescaped(value) for name, value in LABEL.findall(match[2] or "")}
            found.append(Sample(match[1], labels, float(match[3])))
    return found


def unescaped(value: str) -> str:
    """The value of a label as it was before it was written."""
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def totals(told: Iterable[Sample], name: str) -> dict[str, float]:
    """The sum over all nodes, by queue; "" for what is of no queue."""
    found: dict[str, float] = {}
    for sample in told:
        if sample.name == name:
            queue = sample.labels.get("queue", "")
            found[queue] = found.get(queue, 0.0) + sample.value
    return found


def asynq(told: list[Sample], sizes: Mapping[str, float]) -> str:
    """The metrics of asynq's exporter; ``sizes`` are the bytes of queues."""
    memory = Family("asynq_queue_memory_usage_approx_bytes", "gauge", ("queue",))
    for queue, size in sizes.items():
        memory.set((queue,), float(round(size)))
    families = (*lengths(told), memory, *events(told))
    return "\n".join([line for family in families for line in family.lines()]) + "\n"


def lengths(told: list[Sample]) -> list[Family]:
    """How many tasks there are, by state."""
    counts = Family("asynq_tasks_enqueued_total", "gauge", ("queue", "state"))
    size = Family("asynq_queue_size", "gauge", ("queue",))
    for state, source in STATES.items():
        for queue, value in totals(told, source).items():
            counts.set((queue, state), value)
            size.add((queue,), value)
    for queue, value in totals(told, "disque_queue_length").items():
        if queue.endswith(":dead"):
            counts.set((queue.removesuffix(":dead"), "archived"), value)
    return [counts, size]


def events(told: list[Sample]) -> list[Family]:
    """How long tasks wait, and what has become of them."""
    latency = Family("asynq_queue_latency_seconds", "gauge", ("queue",))
    for sample in told:
        if sample.name == "disque_queue_oldest_seconds":
            latency.set((sample.labels["queue"],), sample.value)
    processed, failed = (Family(f"asynq_tasks_{name}_total", "counter", ("queue",)) for name in ("processed", "failed"))
    for source, families in (
        ("disque_jobs_acked_total", (processed,)),
        ("disque_jobs_nacked_total", (processed, failed)),
        ("disque_jobs_retried_total", (processed, failed)),
    ):
        for queue, value in totals(told, source).items():
            for family in families:
                family.add((queue,), value)
    paused = Family("asynq_queue_paused_total", "gauge", ("queue",))
    for queue, value in totals(told, "disque_queue_paused_out").items():
        paused.set((queue,), min(value, 1.0))
    return [latency, processed, failed, paused]
