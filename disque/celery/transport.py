"""The transport: one connection of kombu, with the client that its channels share.

Whatever kombu's transport for Redis can do, this can: direct, topic and fanout exchanges, priorities, prefetch limits,
an event loop, remote control. What it does better is in docs/celery.md.
"""

import os
import sys
import weakref
from collections.abc import Mapping
from typing import Any, Final

from kombu.exceptions import InconsistencyError
from kombu.transport import virtual
from redis import exceptions

from disque import VERSION
from disque.celery import inspection
from disque.celery.bindings import LEAST_S, Bindings, Row
from disque.celery.channel import Channel
from disque.celery.leases import Leases
from disque.celery.options import Options, config_of
from disque.celery.poller import LOOK_S, Poller
from disque.client import Disque, DisqueError, IncompleteError, UnavailableError
from disque.client.url import DEFAULT_PORT

#: Where Celery has the pool whose loop never runs a task itself, and forks: there a timer renews leases, not a thread.
FORKING: Final = "celery.concurrency.prefork"
#: Arguments of a queue, in ms: how long it is kept without consumers, and how long its messages are kept.
EXPIRES: Final = "x-expires"
MESSAGE_TTL: Final = "x-message-ttl"
#: How often bindings of queues that expire are looked at, in seconds.
REFRESH_S: Final = LEAST_S / 6

_TRANSPORTS: Final["weakref.WeakSet[Transport]"] = weakref.WeakSet()


class Transport(virtual.Transport):
    """What kombu knows of a broker."""

    Channel = Channel

    polling_interval = None
    default_port = DEFAULT_PORT
    #: Whether connections are encrypted where nothing else says so.
    is_tls = False
    #: Celery asks by this name what a broker can do, and offers mingle, gossip and fanout events to some names only.
    driver_type = "redis"
    driver_name = "disque"

    implements = virtual.Transport.implements.extend(
        asynchronous=True, batch_publish=True, exchange_type=frozenset(["direct", "topic", "fanout"])
    )
    supports_batch_publish = True

    connection_errors = (
        *virtual.Transport.connection_errors,
        *(InconsistencyError, OSError, UnavailableError, IncompleteError),
        *(exceptions.ConnectionError, exceptions.TimeoutError, exceptions.BusyLoadingError),
        exceptions.AuthenticationError,
    )
    channel_errors = (
        *virtual.Transport.channel_errors,
        *(DisqueError, exceptions.ResponseError, exceptions.InvalidResponse, exceptions.DataError),
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.cycle = Poller()
        self.options = Options.of(client)
        self.disque = Disque(config_of(client, is_tls=self.is_tls))
        self.leases = Leases(self.disque, self.options.lease_s)
        self.bindings = Bindings(self.disque, self.options.prefix, self.options.job.get("replicate"))
        #: Queues that are bound to fanout exchanges, with the routing key for each exchange.
        self.fanouts: dict[str, dict[str, str]] = {}
        self._declared: dict[str, Mapping[str, Any]] = {}
        self._ttls: dict[str, float] = {}
        self._bound: dict[str, set[str]] = {}
        self._timers: list[Any] = []
        _TRANSPORTS.add(self)
        inspection.extend()

    def driver_version(self) -> str:
        """The version of the transport."""
        return VERSION

    # -- waiting ---------------------------------------------------------------------------------------------------

    def drain_events(self, connection: object, timeout: float | None = None, **_: object) -> None:
        """Wait for one message and deliver it. Raises TimeoutError."""
        del connection
        self.cycle.drain(timeout)

    def register_with_event_loop(self, connection: object, loop: Any) -> None:
        """Let an event loop wait, and keep what was taken."""
        del connection
        self.cycle.attach(loop)
        self._stop_timers()
        self._timers = [
            loop.call_repeatedly(LOOK_S, self.cycle.look),
            loop.call_repeatedly(REFRESH_S, self.refresh_bindings),
        ]
        if FORKING in sys.modules:
            self.leases.has_timer = True
            self._timers.append(loop.call_repeatedly(self.leases.interval_s, self.leases.renew))

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def close_connection(self, connection: object) -> None:
        """Close all channels, which give back what they have, and all connections."""
        super().close_connection(connection)
        self._stop_timers()
        self.leases.stop()
        self.bindings.close()
        self.disque.close()

    def after_fork(self) -> None:
        """In a child process: all connections are the parent's."""
        self.cycle.after_fork()
        self.leases.after_fork()
        self._timers = []
        for channel in list(self.channels):
            channel.after_fork()

    # -- what was declared -----------------------------------------------------------------------------------------

    def declare_queue(self, queue: str, arguments: Mapping[str, Any] | None) -> None:
        """A queue was declared on this connection."""
        self._declared[queue] = arguments or {}

    def forget_queue(self, queue: str) -> None:
        """A queue was deleted."""
        self._declared.pop(queue, None)
        self.fanouts.pop(queue, None)
        self._bound.pop(queue, None)
        self._ttls.pop(queue, None)

    def has_declared(self, queue: str) -> bool:
        """Whether a queue was declared on this connection."""
        return queue in self._declared

    def is_consumed(self, queue: str) -> bool:
        """Whether a channel of this connection consumes from a queue."""
        return any(queue in channel._active_queues for channel in self.channels)  # noqa: SLF001 - kombu's name

    def is_fanout_only(self, queue: str) -> bool:
        """Whether all that comes to a queue comes from fanout exchanges."""
        return bool(self.fanouts.get(queue)) and not self._bound.get(queue)

    def queue_ttl_s(self, queue: str) -> float | None:
        """How long a queue lets messages live, in seconds: as declared here, or as its binding says."""
        declared = self._declared.get(queue, {})
        lives = [declared[name] / 1000 for name in (EXPIRES, MESSAGE_TTL) if declared.get(name)]
        return min(lives) if lives else self._ttls.get(queue)

    def bind(self, exchange: str, row: Row) -> None:
        """Bind a queue, for all processes. Raises DisqueError."""
        self._bound.setdefault(row.queue, set()).add(exchange)
        self.bindings.add(exchange, row, self.queue_ttl_s(row.queue))

    def unbind(self, exchange: str, row: Row) -> None:
        """Bind it no more. Raises DisqueError."""
        self._bound.get(row.queue, set()).discard(exchange)
        self.bindings.remove(exchange, [row])

    def table(self, exchange: str) -> set[Row]:
        """The bindings of an exchange, whoever made them. Raises UnavailableError."""
        found = self.bindings.read(exchange)
        self._ttls |= {one.row.queue: one.queue_ttl_s for one in found if one.queue_ttl_s is not None}
        return {one.row for one in found}

    def refresh_bindings(self) -> None:
        """Keep the bindings of queues that expire and are consumed here. What fails is done next time."""
        for channel in list(self.channels):
            for queue in set(channel._active_queues):  # noqa: SLF001 - kombu's name
                if self.queue_ttl_s(queue) is None:
                    continue
                for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
                    kind = channel.typeof(exchange)
                    if kind.type != "fanout":
                        meta = kind.prepare_bind(queue, exchange, routing_key, arguments)
                        self.bind(exchange, Row(*(word or "" for word in meta)))


class TlsTransport(Transport):
    """The same over TLS: for `broker_transport`, where nobody is told whether the URL says `disques://`."""

    is_tls = True


def _after_fork() -> None:
    for transport in list(_TRANSPORTS):
        transport.after_fork()


if hasattr(os, "register_at_fork"):  # where there is no fork, nothing is to be done
    os.register_at_fork(after_in_child=_after_fork)
