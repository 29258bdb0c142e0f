"""`celery inspect scheduled` shows what waits in the server, too: tasks with an eta are not in the worker."""

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from kombu.log import get_logger

from disque.celery import terms
from disque.client import DisqueError

LOG: Final = get_logger(__name__)
#: So many are shown of each queue. At each node so many jobs are looked at in a step, and so many steps are made.
SHOWN_MOST: Final = 1000
STEP: Final = 2000
STEPS_MOST: Final = 50
#: Where Celery keeps what a worker can be asked.
CONTROL: Final = "celery.worker.control"
NAMES: Final = ("scheduled", "schedule", "dump_schedule")
#: What Celery says of a task that waits for its time.
PRIORITY: Final = 6


def extend() -> None:
    """In a Celery worker, let `inspect scheduled` look at the server. Does nothing elsewhere."""
    control = sys.modules.get(CONTROL)
    commands: dict[str, Callable[..., Any]] = {} if control is None else control.Panel.data
    before = commands.get("scheduled")
    if before is None or hasattr(before, "before"):
        return

    def scheduled(state: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """List of currently scheduled ETA/countdown tasks."""
        return [*before(state, **kwargs), *waiting(state)]

    scheduled.before = before  # type: ignore[attr-defined]  # so that it is extended once
    for name in NAMES:
        if name in commands:
            commands[name] = scheduled


def waiting(state: Any) -> list[dict[str, Any]]:
    """What waits in the server for the queues that a worker consumes from, as Celery shows it."""
    consumer = state.consumer
    transport = consumer.connection.transport
    found: list[dict[str, Any]] = []
    if transport.driver_name != "disque":
        return found
    try:
        for queue in consumer.task_consumer.queues:
            for body in islice(delayed(transport, queue.name), SHOWN_MOST):
                shown = described(state.app, state.hostname, consumer.task_consumer, body)
                if shown is not None:
                    found.append(shown)
    except DisqueError as error:
        LOG.warning("what waits in the server is not shown: %s", error)
    return found


def delayed(transport: Any, queue: str) -> Iterator[bytes]:
    """The bodies of the jobs of a queue that wait for their time, of all nodes. Raises DisqueError."""
    name = transport.options.prefix + queue
    for host, port in transport.disque.router.addresses():
        with transport.disque.at(host, port) as node:
            cursor = 0
            for _ in range(STEPS_MOST):
                cursor, jobs = node.scan_job_infos(cursor, count=STEP, queue=name, states=("delayed",))
                for job in jobs:
                    yield job["body"]
                if cursor == 0:
                    break


def described(app: Any, hostname: str, consumer: Any, body: bytes) -> dict[str, Any] | None:
    """One task as Celery shows it; None for what is no task."""
    from celery.worker.request import Request  # noqa: PLC0415 - only a worker needs Celery

    try:
        raw = terms.unpacked(body)
        raw["properties"].setdefault("delivery_tag", "")
        message = consumer.channel.Message(raw, channel=consumer.channel, accept=consumer.accept)
        request = Request(message, app=app, hostname=hostname)
    except Exception:
        LOG.debug("a delayed message is not shown", exc_info=True)
        return None
    eta = request.eta.isoformat() if request.eta else None
    return {"eta": eta, "priority": PRIORITY, "request": request.info()}
