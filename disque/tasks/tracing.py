"""OpenTelemetry: a span for each enqueue and each run, joined by the headers of the job.

It is used where the program has set a tracer provider; otherwise nothing of it costs anything. The names are those of
the semantic conventions for messaging.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from disque.tasks.middleware import Event, Go

#: What a program has imported that has set a provider, and where that keeps it; another way is to name one outside.
TRACE: Final = "opentelemetry.trace"
KEPT: Final = "_TRACER_PROVIDER"
IS_NAMED: Final = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ


def is_active() -> bool:
    """Whether somebody listens: a provider was set."""
    trace: Any = sys.modules.get(TRACE)
    if trace is None or (getattr(trace, KEPT, trace) is None and not IS_NAMED):
        return False  # each call asks: the whole question costs more than all else
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


async def tracing(event: Event, go: Go) -> Any:  # noqa: ANN401 - a middleware
    """A span around an enqueue or a run."""
    from opentelemetry import propagate, trace  # noqa: PLC0415 - it may be missing

    tracer = trace.get_tracer("disque.tasks")
    told = attributes(event.queue, event.task, event.phase)
    if event.phase == "enqueue":
        kind = trace.SpanKind.PRODUCER
        with tracer.start_as_current_span(f"enqueue {event.task}", kind=kind, attributes=told) as span:
            propagate.inject(event.headers)
            job_id = await go()
            span.set_attribute("messaging.message.id", str(job_id))
            return job_id
    told["messaging.message.id"] = event.job_id
    told["disque.tries"] = str(event.tries)
    parent = propagate.extract(event.headers)
    kind = trace.SpanKind.CONSUMER
    with tracer.start_as_current_span(f"run {event.task}", context=parent, kind=kind, attributes=told):
        return await go()


@contextmanager
def many(count: int) -> Iterator[dict[str, str]]:
    """One span around the enqueue of many jobs: the headers for all of them."""
    from opentelemetry import propagate, trace  # noqa: PLC0415 - it may be missing

    headers: dict[str, str] = {}
    tracer = trace.get_tracer("disque.tasks")
    told: dict[str, str | int] = {"messaging.system": "disque", "messaging.batch.message_count": count}
    with tracer.start_as_current_span("enqueue many", kind=trace.SpanKind.PRODUCER, attributes=told):
        propagate.inject(headers)
        yield headers


def attributes(queue: str, task: str, phase: str) -> dict[str, str]:
    """What each span says."""
    operation = "send" if phase == "enqueue" else "process"
    return {
        "messaging.system": "disque",
        "messaging.destination.name": queue,
        "messaging.operation.type": operation,
        "messaging.operation.name": phase,
        "disque.task": task,
    }
