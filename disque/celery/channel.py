"""A channel: what kombu asks of a broker, as commands of the server.

A message for a queue is a job. A channel that consumes has a connection of its own on which a GETJOB waits, and a
second one where it listens to fanout exchanges. All other commands go through the client of the transport, which knows
all nodes. When a node is lost, the channel goes on at the next one: what was taken stays taken.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.log import get_logger
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.scheduling import cycle_by_name
from kombu.utils.uuid import uuid

from disque.celery import fanout, terms
from disque.celery.batch import PublishBatch
from disque.celery.bindings import Row
from disque.celery.qos import QoS
from disque.celery.wire import Wire, opened
from disque.client import DisqueError, NewJob, NoPermError
from disque.client.config import Address
from disque.client.delivery import LEAVES, MOVE_ON
from disque.client.errors import typed
from disque.client.replies import Delivered, delivered
from disque.client.values import duration_word, name_word

if TYPE_CHECKING:
    from disque.celery.transport import Transport

LOG: Final = get_logger(__name__)
NOT_FOUND: Final = 404
#: A node that was told that nobody waits any more answers within so many seconds. If not, its jobs come after a lease.
FINISH_S: Final = 2.0
#: A job that is known to be at another node comes here within so many seconds.
TRAVEL_S: Final = 1.0
#: A connection that listens is asked whether it lives when it was silent for so long, and answers in so long.
SILENT_S: Final = 25.0
ANSWER_S: Final = 10.0


class Consumer(NamedTuple):
    """Who wants the messages of a queue."""

    tag: str
    no_ack: bool
    callback: Callable[[Any], object]


class Channel(virtual.Channel):
    """One channel of a `Transport`."""

    QoS = QoS
    supports_fanout = True
    supports_batch_publish = True

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        self.options = connection.options
        self.client = connection.disque
        self.leases = connection.leases
        self._consumers_of: dict[str, list[Consumer]] = {}
        self._order = cycle_by_name(self.options.order)()
        self._inbox: deque[Delivered] = deque()
        self._heard = fanout.Backlog()
        self._getter: Wire | None = None
        self._answer_by_s: float | None = None
        self._listener: Wire | None = None
        self._topics: dict[fanout.Topic, list[str]] = {}
        self._joiner = fanout.Joiner()
        self._heard_s = self._pinged_s = 0.0
        super().__init__(connection, **kwargs)
        self.client.ping()
        connection.cycle.add(self)

    # -- publishing ------------------------------------------------------------------------------------------------

    def _put(self, queue: str, message: terms.Raw, _publish_batch: PublishBatch | None = None, **_: object) -> None:
        """Add a job. Raises DisqueError."""
        words = terms.job_options(message, self.options, self.connection.queue_ttl_s(queue))
        job = NewJob(self._name(queue), terms.packed(message), **words)
        if _publish_batch is None:
            self.client.add(job.queue, job.body, **words)
        else:
            _publish_batch.add(job)

    def _put_fanout(self, exchange: str, message: terms.Raw, routing_key: str | None, **_: object) -> None:
        """Publish to whoever listens, at all nodes. Raises DisqueError."""
        channel = fanout.channel_of(self.options.prefix, exchange, routing_key)
        for piece in fanout.cut(terms.packed(message)):
            self.client.execute_command("PUBLISH", channel, piece)

    def create_publish_batch(self, max_size: int) -> PublishBatch:
        """What kombu gathers messages in."""
        return PublishBatch(self, max_size)

    def _name(self, queue: str) -> str:
        return self.options.prefix + queue

    # -- queues and exchanges --------------------------------------------------------------------------------------

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """Declare a queue; with ``passive`` only ask for it. Raises ChannelError where nobody has heard of it."""
        queue = queue or f"amq.gen-{uuid()}"
        if not passive:
            self.connection.declare_queue(queue, kwargs.get("arguments"))
        size = self._size(queue)
        if passive and not size and not self._has_queue(queue):
            self._not_found("queue", queue, "Channel.queue_declare")
        return queue_declare_ok_t(queue, size, len(self._consumers_of.get(queue, ())))

    def _not_found(self, kind: str, name: str, method: str) -> None:
        host = self.connection.client.virtual_host or "/"
        raise ChannelError(f"NOT_FOUND - no {kind} {name!r} in vhost {host!r}", (50, 10), method, str(NOT_FOUND))

    def _has_queue(self, queue: str, **_: object) -> bool:
        """Whether a queue was declared on this connection, or the cluster has jobs of it."""
        if self.connection.has_declared(queue):
            return True
        stat: Any = self.client.queue_stat(self._name(queue), cluster=True)
        return stat is not None and bool(stat["delayed"] or stat["in_flight"])

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: object) -> None:
        """Delete what waits in a queue, and its bindings. ``if_unused``: unless this connection consumes from it."""
        if (if_empty and self._size(queue)) or (if_unused and self.connection.is_consumed(queue)):
            return
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
            self._unbind(exchange, Row(*(word or "" for word in meta)))
        self.state.queue_bindings_delete(queue)
        self.connection.forget_queue(queue)
        self._purge(queue)

    def _queue_bind(self, exchange: str, routing_key: str | None, pattern: str | None, queue: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self.connection.fanouts.setdefault(queue, {})[exchange] = routing_key or ""
        else:
            row = Row(routing_key or "", pattern or "", queue)
            self.connection.bind(exchange, row)

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: object,
    ) -> None:
        """Take a binding back, for all processes."""
        exchange = exchange or "amq.direct"
        self.state.binding_delete(queue, exchange, routing_key)
        meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self._unbind(exchange, Row(*(word or "" for word in meta)))

    def _unbind(self, exchange: str, row: Row) -> None:
        if self.typeof(exchange).type == "fanout":
            self.connection.fanouts.get(row.queue, {}).pop(exchange, None)
        else:
            self.connection.unbind(exchange, row)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        """Delete an exchange with its bindings, and those of its queues that are empty and that nobody uses."""
        del nowait
        rows = self.get_table(exchange)
        if rows and if_unused:
            return
        for row in rows:
            self.queue_delete(row[2], if_unused=True, if_empty=True)
            self.state.binding_delete(row[2], exchange, row[0])
            self._unbind(exchange, Row(*row))
        self.state.exchanges.pop(exchange, None)

    def get_table(self, exchange: str) -> list[tuple[str, str, str]]:
        """The bindings of an exchange, whoever made them. Raises UnavailableError."""
        if self.typeof(exchange).type == "fanout":
            bound = self.connection.fanouts.items()
            return [(keys[exchange], "", queue) for queue, keys in bound if exchange in keys]
        return list(self.connection.table(exchange))

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> Any:
        """Arguments of a queue by the names that RabbitMQ has for them: `x-expires`, `x-message-ttl`."""
        return to_rabbitmq_queue_arguments(arguments, **kwargs)

    def _size(self, queue: str) -> int:
        return self.client.queue_length(self._name(queue), cluster=True)

    def _purge(self, queue: str) -> int:
        return self.client.flush_queue(self._name(queue)).jobs

    # -- consuming -------------------------------------------------------------------------------------------------

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], object], consumer_tag: str, **_: object
    ) -> None:
        """Want the messages of a queue."""
        self._stop_asking()  # what is asked for does not name the queue
        self._tag_to_queue[consumer_tag] = queue
        self._active_queues.append(queue)
        self._consumers.add(consumer_tag)
        self._consumers_of.setdefault(queue, []).append(Consumer(consumer_tag, no_ack, callback))
        self._update()
        self.listen()

    def basic_cancel(self, consumer_tag: str) -> None:
        """Want them no more. What was taken for this consumer and not delivered goes back."""
        queue = self._tag_to_queue.pop(consumer_tag, None)
        if queue is None:
            return
        self._consumers.discard(consumer_tag)
        self._active_queues.remove(queue)
        left = [one for one in self._consumers_of[queue] if one.tag != consumer_tag]
        if left:
            self._consumers_of[queue] = left
            return
        del self._consumers_of[queue]
        self._stop_asking()
        self._update()

    def _update(self) -> None:
        """Note from which queues jobs are wanted, and what is listened to."""
        consumed = list(dict.fromkeys(self._active_queues))
        fanouts = self.connection.fanouts
        self._order.update([queue for queue in consumed if not self.connection.is_fanout_only(queue)])
        before, self._topics = self._topics, {}
        for queue in consumed:
            for exchange, key in fanouts.get(queue, {}).items():
                for topic in fanout.topics_of(self.options.prefix, exchange, key):
                    self._topics.setdefault(topic, []).append(queue)
        if self._listener is not None:
            self._say(b"UNSUBSCRIBE", [topic for topic in before if topic not in self._topics])
            self._say(b"SUBSCRIBE", [topic for topic in self._topics if topic not in before])

    def basic_get(self, queue: str, no_ack: bool = False, **_: object) -> Any:
        """The next message of a queue, or None."""
        message = None
        while message is None:
            try:
                raw = self._get(queue)
            except Empty:
                return None
            message = self._message(raw, no_ack=no_ack)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> terms.Raw:
        """Take one message. Raises Empty, DisqueError."""
        name = self._name(queue)
        lease_s = self.options.lease_s
        while True:  # what is no message is passed over
            jobs = self.client.get(name, nohang=timeout is None, timeout=timeout, lease=lease_s)
            if not jobs and timeout is None and self.client.router.count() > 1 and self._size(queue):
                jobs = self.client.get(name, timeout=TRAVEL_S, lease=lease_s)
            if not jobs:
                raise Empty
            self.leases.take(jobs[0].id, jobs[0].node)
            raw = self._read(jobs[0].delivered())
            if raw is not None:
                return raw

    def _read(self, job: Delivered) -> terms.Raw | None:
        """The message that is in a job. What is none becomes a dead letter."""
        try:
            return terms.message_of(job)
        except ValueError as error:
            self._refuse(job.id, error)
            return None

    def _refuse(self, tag: str, error: Exception) -> None:
        """What is no message becomes a dead letter, or is dropped if it came from a fanout exchange."""
        LOG.error("%s is no message of kombu: %s", tag, error)
        self.give_back([tag], error=f"this is no message of kombu: {error}", dead=True)

    def _message(self, raw: terms.Raw, *, no_ack: bool) -> Any:
        """A message for its consumer; settled already if that wants no acknowledgements. None if it cannot be read."""
        try:
            message = self.Message(raw, channel=self)
        except Exception as error:  # noqa: BLE001 - such as a body in an unknown encoding
            self._refuse(str(raw["properties"].get("delivery_tag")), error)
            return None
        if no_ack:
            self.settle(message.delivery_tag)
        else:
            self.qos.append(message, message.delivery_tag)
        return message

    # -- what came -------------------------------------------------------------------------------------------------

    def deliver_all(self) -> None:
        """Deliver what came, as far as the prefetch limit lets it."""
        while self.deliver_one():
            pass

    def deliver_one(self) -> bool:
        """Deliver one message. False: there is none that may be delivered."""
        while (self._heard or self._inbox) and not self.closed and self.qos.can_consume():
            queue, raw = self._next_heard() if self._heard else self._next_job()
            consumers = self._consumers_of.get(queue)
            if raw is not None and consumers:
                consumer = consumers[0]
                consumers.append(consumers.pop(0))
                message = self._message(raw, no_ack=consumer.no_ack)
                if message is None:
                    continue
                consumer.callback(message)
                return True
        return False

    def _next_heard(self) -> tuple[str, terms.Raw | None]:
        """The oldest message from a fanout exchange, and its queue. None if it is no message: it is dropped."""
        queue, payload = self._heard.take()
        try:
            return queue, terms.unpacked(payload)
        except ValueError as error:
            LOG.warning("what was published for %r is dropped: %s", queue, error)
            return queue, None

    def _next_job(self) -> tuple[str, terms.Raw | None]:
        """The message that was taken first, and its queue. None if it is none, or nobody wants it any more."""
        job = self._inbox.popleft()
        queue = job.queue.removeprefix(self.options.prefix)
        if queue in self._consumers_of:
            return queue, self._read(job)
        self.give_back([job.id], count=False)
        return queue, None

    def settle(self, tag: str) -> None:
        """A message is done. Raises DisqueError: then it comes again."""
        if tag in self.leases:
            self.client.settle(tag, self.leases.drop(tag))

    def give_back(
        self, tags: Sequence[str], *, count: bool = True, error: str | None = None, dead: bool = False
    ) -> None:
        """Messages are not done. Raises DisqueError: then they come again when their lease is over."""
        for node, ids in self._dropped(tags).items():
            self.client.give_back(ids, node, count=count, error=error, dead=dead)

    def hand_back(self, tags: Sequence[str], *, seen: bool = False) -> None:
        """Messages go back that this consumer does not finish. That uses up no try. Raises nothing.

        Of those that were ``seen``, which means delivered, work may be done: they are marked when they come again.
        """
        for node, ids in self._dropped(tags).items():
            try:
                self._put_back(node, ids, seen=seen)
            except DisqueError as error:
                LOG.warning("%d messages come to others when their lease is over: %s", len(ids), error)

    def _put_back(self, node: Address | None, ids: list[str], *, seen: bool) -> None:
        if seen:
            with suppress(NoPermError):  # a user who may NACK and not ENQUEUE: then nothing marks them
                self.client.enqueue_at(node, ids)
                return
        self.client.give_back(ids, node, count=False)

    def _dropped(self, tags: Sequence[str]) -> dict[Address | None, list[str]]:
        """What is held of these and will be settled, by the node that gave it."""
        by_node: dict[Address | None, list[str]] = {}
        for tag in tags:
            if tag in self.leases:
                by_node.setdefault(self.leases.drop(tag), []).append(tag)
        return by_node

    def credit(self) -> None:
        """Something was settled: more may be taken."""
        if self.connection is not None:
            self.connection.cycle.wake()

    # -- the connections -------------------------------------------------------------------------------------------

    def ask(self, wait_ms: int, most: int) -> None:
        """Have a GETJOB outstanding, if messages are wanted and may be taken. Raises UnavailableError."""
        if self._answer_by_s is not None or self._inbox or self.closed or not self.qos.can_consume():
            return
        queues: list[str] = self._order.consume(len(self._active_queues))
        if not queues:
            return
        free = self.qos.free()
        count = most if free is None else min(most, free)
        strict = [] if self.options.order == "round_robin" else [b"STRICT"]
        words = [b"GETJOB", b"TIMEOUT", b"%d" % wait_ms, b"COUNT", b"%d" % count]
        words += [b"LEASE", duration_word(self.options.lease_s, "lease"), *strict, b"WITHCOUNTERS", b"FROM"]
        words += [name_word(self._name(queue)) for queue in queues]
        for _ in range(2):  # a connection that was idle may be closed
            wire = self._getter = self._getter or self._open()
            try:
                wire.send(words)
            except OSError:
                self._lose(wire)
            else:
                self._answer_by_s = monotonic() + wait_ms / 1000
                return

    def is_owed(self, until_s: float) -> bool:
        """Whether an answer is outstanding that is due until then."""
        return self._answer_by_s is not None and self._answer_by_s <= until_s

    def listen(self) -> None:
        """Listen to the fanout exchanges of the queues that are consumed. Raises UnavailableError."""
        if self._topics and self._listener is None and not self.closed:
            self._listener = self._open()
            self._heard_s = monotonic()
            self._say(b"SUBSCRIBE", list(self._topics))

    def _say(self, verb: bytes, topics: list[fanout.Topic]) -> None:
        """Listen to topics, or no more."""
        for is_pattern in (False, True):
            names = [name_word(topic.name) for topic in topics if topic.is_pattern == is_pattern]
            if names and self._listener is not None:
                try:
                    self._listener.send([b"P" * is_pattern + verb, *names])
                except OSError:
                    self._lose(self._listener)

    def _open(self) -> Wire:
        wire = opened(self.client.config, self.client.router, self.connection.cycle.forget)
        self.connection.cycle.watch(self, wire)
        return wire

    def receive(self, wire: Wire) -> None:
        """Read what a connection has. Raises DisqueError for what no other node would answer."""
        replies = wire.replies()
        if wire is self._getter:
            for reply in replies:
                self._take(wire, reply)
        elif wire is self._listener:
            self._heard_s, self._pinged_s = monotonic(), 0.0
            for reply in replies:
                self._hear(reply)
        if wire.ended:
            self._lose(wire)

    def _take(self, wire: Wire, reply: Any) -> None:
        """The answer to a GETJOB."""
        self._answer_by_s = None
        if isinstance(reply, Exception):
            error = typed(reply)
            if error is None or error.code not in MOVE_ON:
                raise error or reply
            if error.code == LEAVES:  # it knows the nodes that stay, which may have joined since
                with suppress(DisqueError):
                    self.client.look()
            wire.ended = True
            return
        for job in delivered(reply):
            self.leases.take(job.id, wire.address)
            self._inbox.append(job)
            self._order.rotate(job.queue.removeprefix(self.options.prefix))

    def _hear(self, reply: Any) -> None:
        """A message of pub/sub, or what else that connection says."""
        if isinstance(reply, Exception):
            raise typed(reply) or reply
        if not isinstance(reply, list) or reply[0] not in {b"message", b"pmessage"}:
            return
        topic = fanout.Topic(reply[1].decode(), is_pattern=reply[0] == b"pmessage")
        try:
            payload = self._joiner.join(topic, reply[-1])
        except ValueError as error:
            LOG.warning("what was published on %r is dropped: %s", topic.name, error)
            return
        if payload is not None:
            for queue in self._topics.get(topic, ()):
                self._heard.add(queue, payload)

    def _lose(self, wire: Wire) -> None:
        """A connection has ended: the next one is at another node, if there is one."""
        self.client.router.failed(wire.address)
        wire.close()
        if wire is self._getter:
            self._getter = self._answer_by_s = None
        elif wire is self._listener:
            self._listener = None

    def look(self) -> None:
        """Whether the connections live: one that owes an answer, or says nothing to a PING, is given up."""
        now_s = monotonic()
        wait_s: float = self.client.config.timeout_ms / 1000
        if self._getter is not None and self._answer_by_s is not None and now_s > self._answer_by_s + wait_s:
            self._lose(self._getter)
        listener = self._listener
        if listener is None:
            return
        if self._pinged_s and now_s > self._pinged_s + ANSWER_S:
            self._lose(listener)
        elif not self._pinged_s and now_s > self._heard_s + SILENT_S:
            self._pinged_s = now_s
            try:
                listener.send([b"PING"])
            except OSError:
                self._lose(listener)

    def _stop_asking(self) -> None:
        """Have no GETJOB outstanding. What it had brought already stays in the inbox."""
        wire = self._getter
        if wire is None or self._answer_by_s is None:
            return
        for reply in wire.finish(FINISH_S):
            self._take(wire, reply)
        wire.close()
        self._getter = self._answer_by_s = None

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel all consumers, and give back what is not settled: that uses up no try."""
        if not self.closed:
            connection = self.connection
            self._stop_asking()
            connection.cycle.discard(self)
            self.hand_back([job.id for job in self._inbox])
            self._inbox.clear()
            self._heard.clear()
            for wire in (self._getter, self._listener):
                if wire is not None:
                    wire.close()
            self._getter = self._listener = None
        super().close()

    def after_fork(self) -> None:
        """In a child process: the connections, and what was taken, are the parent's."""
        for wire in (self._getter, self._listener):
            if wire is not None:
                wire.abandon()
        self._getter = self._listener = self._answer_by_s = None
        self._inbox.clear()
        self._heard.clear()
