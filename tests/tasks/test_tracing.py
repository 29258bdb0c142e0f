"""Spans of enqueue and run are of one trace, joined by headers; without a provider there are none."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from disque.tasks import App, current
from disque.tasks.tracing import KEPT, is_active, tracing

sdk = pytest.importorskip("opentelemetry.sdk.trace")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from opentelemetry import trace  # noqa: PLC0415 - it may be missing
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415 - the same
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415 - the same

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, KEPT, provider)  # what set_tracer_provider does, which a process may call once
    yield exporter
    provider.shutdown()


def app_of(seen: list[dict[str, str]]) -> App:
    app = App()

    @app.task(queue="mail")
    async def welcome(number: int) -> None:
        seen.append(dict(current().headers))
        if number < 0:
            raise ValueError("bad")

    return app


def test_one_trace_from_enqueue_to_run(spans: Any) -> None:
    seen: list[dict[str, str]] = []
    app = app_of(seen)
    welcome = app.tasks["welcome"]

    async def scene() -> None:
        async with app.testing() as t:
            job = await welcome.enqueue(1)
            await t.run()
            sent, ran = spans.get_finished_spans()
            assert (sent.name, ran.name) == ("enqueue welcome", "run welcome")
            assert ran.context.trace_id == sent.context.trace_id
            assert ran.parent.span_id == sent.context.span_id
            assert ran.attributes["messaging.message.id"] == sent.attributes["messaging.message.id"] == job.id
            assert ran.attributes["messaging.destination.name"] == "mail"
            assert "traceparent" in seen[0]
            spans.clear()
            await app.enqueue_many(welcome.bind(number) for number in (1, -1))
            await t.run()
            many, first, failed = spans.get_finished_spans()
            assert many.name == "enqueue many"
            assert {one.context.trace_id for one in (first, failed)} == {many.context.trace_id}
            assert failed.status.description == "ValueError: bad"

    asyncio.run(scene())


def test_a_chain_is_one_trace(spans: Any) -> None:
    app = App()

    @app.task
    async def first() -> int:
        return 1

    @app.task
    async def second(number: int) -> None:
        assert number == 1

    async def scene() -> None:
        async with app.testing() as t:
            await first.bind().then(second).enqueue()
            await t.run()

    asyncio.run(scene())
    by_name = {one.name: one for one in spans.get_finished_spans()}
    names = ["enqueue first", "run first", "enqueue second", "run second"]
    assert sorted(by_name) == sorted(names)
    for before, after in pairwise(names):
        assert by_name[after].parent.span_id == by_name[before].context.span_id
    assert len({one.context.trace_id for one in by_name.values()}) == 1


def test_without_a_provider_nothing_happens() -> None:
    assert not is_active()
    app = App()
    assert app.layers() == []
    assert tracing not in app.layers()
