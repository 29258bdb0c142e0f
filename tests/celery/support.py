"""Short words for what tests of the transport do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import kombu
from celery import Celery
from kombu import pools

import disque.celery  # noqa: F401 - registers the transport
from tests.end_to_end.node import Node, until


def url_of(*nodes: Node) -> str:
    return ";".join(f"disque://127.0.0.1:{node.port}" for node in nodes)


def connect(*nodes: Node, **options: Any) -> Any:
    """A connection of kombu; options are those of the transport."""
    return kombu.Connection(url_of(*nodes), transport_options=options)


@contextmanager
def application(broker: str, backend: str | None = None) -> Iterator[Celery]:
    """An application of Celery as its producers have it. At the end all its connections are closed.

    Celery leaves them to the garbage collector. A result that is collected after its backend then opens one more.
    """
    app = Celery("tests", broker=broker, backend=backend, set_as_current=False)
    try:
        yield app
    finally:
        consumer: Any = getattr(app.backend, "result_consumer", None)
        if consumer is not None:
            with suppress(AttributeError):  # `rpc://` whose results nobody has waited for
                consumer.stop()
        if hasattr(consumer, "subscribed_to"):  # Redis
            consumer.subscribed_to.clear()  # results that are collected later have nothing to unsubscribe from
            app.backend.client.close()
            app.backend.client.connection_pool.disconnect()
        pools.reset()
        app.close()


class Got:
    """The messages that a consumer got, as bodies. They are acknowledged unless `keep` is said."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.bodies: list[Any] = []
        self.messages: list[Any] = []

    def __call__(self, body: Any, message: Any) -> None:
        self.bodies.append(body)
        self.messages.append(message)
        if not self.keep:
            message.ack()


def consume(connection: Any, queues: Sequence[Any], count: int = 1, timeout_s: float = 10) -> list[Any]:
    """Consume so many messages from queues, and give their bodies."""
    got = Got()
    with kombu.Consumer(connection.channel(), queues, callbacks=[got]):
        while len(got.bodies) < count:
            connection.drain_events(timeout=timeout_s)
    return got.bodies


def drain(connection: Any, timeout_s: float = 0.05) -> None:
    """Deliver until nothing comes any more."""
    with suppress(TimeoutError):
        while True:
            connection.drain_events(timeout=timeout_s)


def publish(connection: Any, body: Any, queue: Any, **options: Any) -> None:
    """Publish to a queue that is declared, or to a name."""
    producer = kombu.Producer(connection.default_channel)
    if isinstance(queue, str):
        producer.publish(body, routing_key=queue, **options)
    else:
        producer.publish(body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **options)


@contextmanager
def looping(connection: Any) -> Iterator[Callable[[Callable[[], object], str], None]]:
    """Let an event loop of kombu wait for the connection; gives what runs it until something is so."""
    from kombu.asynchronous import Hub  # noqa: PLC0415 - kombu's

    hub = Hub()
    connection.register_with_event_loop(hub)
    hub.call_repeatedly(0.01, lambda: None)  # so that it does not wait for long
    loop = hub.create_loop()

    def step_until(what: Callable[[], object], words: str) -> None:
        def step() -> object:
            next(loop)
            return what()

        until(step, words, poll_s=0)

    yield step_until
    connection.close()
    hub.close()
