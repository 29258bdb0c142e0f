"""What kombu's transport for Redis can do, on a real node: exchanges, priorities, acknowledgements, batches."""

import logging
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
from kombu import Exchange, Queue
from kombu.exceptions import BatchPublishError, ChannelError
from kombu.simple import SimpleQueue

from disque.celery import fanout
from disque.celery.fanout import PIECE, channel_of
from disque.client import Disque, NoReplError
from tests.celery.support import Got, connect, consume, drain, publish
from tests.client.served import Served
from tests.end_to_end.node import Node, until

DIRECT = Exchange("direct", type="direct")
TOPIC = Exchange("topic", type="topic")
FANOUT = Exchange("fanout", type="fanout")
MAILS = Queue("mails", DIRECT, "mail")


@pytest.fixture
def other(node: Node) -> Any:
    """Give a second connection, as another process would have it."""
    with connect(node) as one:
        yield one


def client(node: Node) -> Disque:
    return Disque.from_url(f"disque://127.0.0.1:{node.port}")


class TestExchanges:
    def test_direct(self, connection: Any) -> None:
        publish(connection, "one", MAILS)
        publish(connection, "two", Queue("news", DIRECT, "news"))
        assert consume(connection, [MAILS]) == ["one"]

    def test_direct_to_two_queues_with_one_key(self, connection: Any) -> None:
        also = Queue("copies", DIRECT, "mail")(connection.default_channel)
        also.declare()
        publish(connection, "one", MAILS)
        assert consume(connection, [MAILS]) == consume(connection, [also]) == ["one"]

    def test_the_nameless_exchange_goes_to_the_queue_of_that_name(self, connection: Any) -> None:
        publish(connection, {"to": "ada"}, "letters")
        assert consume(connection, [Queue("letters")]) == [{"to": "ada"}]

    @pytest.mark.parametrize(
        ("bound", "key", "comes"),
        [
            ("t.*", "t.a", True),
            ("t.*", "t.a.b", False),
            ("t.#", "t.a.b", True),
            ("#", "t", True),
            ("t.a", "t.b", False),
        ],
    )
    def test_topic(self, connection: Any, bound: str, key: str, comes: bool) -> None:
        queue = Queue("words", TOPIC, bound)(connection.default_channel)
        queue.declare()
        kombu.Producer(connection.default_channel).publish("word", exchange=TOPIC, routing_key=key)
        assert (queue.get() is not None) is comes

    def test_what_another_process_has_bound_counts_at_once(self, connection: Any, other: Any) -> None:
        producer = kombu.Producer(connection.default_channel, TOPIC)
        producer.publish("lost", routing_key="t.a")
        Queue("words", TOPIC, "t.*")(other.default_channel).declare()
        producer.publish("found", routing_key="t.a")
        assert consume(other, [Queue("words", TOPIC, "t.*")]) == ["found"]

    def test_replicate_of_the_options_counts_for_bindings(self, node: Node) -> None:
        with connect(node, job_options={"replicate": 2}) as one, pytest.raises(NoReplError):
            MAILS(one.channel()).declare()

    def test_a_binding_is_taken_back_for_all(self, connection: Any, other: Any) -> None:
        queue = Queue("words", TOPIC, "t.*")(other.default_channel)
        queue.declare()
        queue.unbind_from(TOPIC, "t.*")
        producer = kombu.Producer(connection.default_channel, TOPIC)
        producer.publish("lost", routing_key="t.a")
        assert queue.get() is None
        queue.declare()
        producer.publish("found", routing_key="t.a")
        assert queue.get().payload == "found"

    def test_an_exchange_that_is_deleted_leads_nowhere(self, connection: Any) -> None:
        publish(connection, "one", MAILS)
        DIRECT(connection.default_channel).delete()
        connection.default_channel.exchange_declare("direct", "direct")
        kombu.Producer(connection.default_channel).publish("two", exchange=DIRECT, routing_key="mail")
        assert connection.default_channel.get_table("direct") == []
        assert consume(connection, [Queue("mails")]) == ["one"]

    def test_fanout_goes_to_all_who_listen_on_all_connections(self, connection: Any, other: Any) -> None:
        first, second = Got(), Got()
        with (
            kombu.Consumer(connection.channel(), [Queue("a", FANOUT)], callbacks=[first]),
            kombu.Consumer(other.channel(), [Queue("b", FANOUT)], callbacks=[second]),
        ):
            kombu.Producer(other.default_channel).publish("hear", exchange=FANOUT)
            connection.drain_events(timeout=10)
            other.drain_events(timeout=10)
        assert first.bodies == second.bodies == ["hear"]

    @pytest.mark.parametrize("size", [10, 2 * PIECE])
    def test_two_queues_of_one_channel_hear_what_fits_both(self, connection: Any, size: int) -> None:
        first, second = Got(), Got()
        channel = connection.channel()
        with (
            kombu.Consumer(channel, [Queue("all", FANOUT)], callbacks=[first]),
            kombu.Consumer(channel, [Queue("some", FANOUT, "key")], callbacks=[second]),
        ):
            kombu.Producer(channel).publish("x" * size, exchange=FANOUT, routing_key="key")
            for _ in range(2):
                connection.drain_events(timeout=10)
        assert first.bodies == second.bodies == ["x" * size]

    def test_who_listens_no_more_hears_nothing(self, connection: Any) -> None:
        first, second = Got(), Got()
        channel = connection.channel()
        one = kombu.Consumer(channel, [Queue("a", FANOUT)], callbacks=[first])
        two = kombu.Consumer(channel, [Queue("b", FANOUT, "key")], callbacks=[second])
        one.consume()
        two.consume()
        two.cancel()
        for key in ("key", ""):
            kombu.Producer(channel).publish("hear", exchange=FANOUT, routing_key=key)
            connection.drain_events(timeout=10)
        drain(connection)
        assert (first.bodies, second.bodies) == (["hear", "hear"], [])

    def test_bindings_of_an_exchange_are_shown(self, connection: Any) -> None:
        for queue in (MAILS, Queue("a", FANOUT, "key")):
            queue(connection.default_channel).declare()
        assert set(connection.default_channel.list_bindings()) == {("mails", "direct", "mail"), ("a", "fanout", "key")}
        assert len(connection.get_manager().get_bindings()) == 2


class TestQueues:
    def test_a_queue_that_nobody_has_heard_of_is_an_error(self, connection: Any) -> None:
        with pytest.raises(ChannelError, match="NOT_FOUND - no queue 'nothing'"):
            connection.default_channel.queue_declare("nothing", passive=True)
        with pytest.raises(ChannelError, match="NOT_FOUND - no exchange 'nothing'"):
            connection.default_channel.exchange_declare("nothing", passive=True)

    def test_one_with_messages_is_there_for_all(self, connection: Any, other: Any) -> None:
        publish(connection, 1, MAILS)
        publish(connection, 2, MAILS)
        assert other.default_channel.queue_declare("mails", passive=True).message_count == 2

    def test_one_that_was_deleted_is_gone_with_its_messages_and_bindings(self, connection: Any) -> None:
        publish(connection, 1, MAILS)
        MAILS(connection.default_channel).delete()
        with pytest.raises(ChannelError):
            connection.default_channel.queue_declare("mails", passive=True)
        kombu.Producer(connection.default_channel).publish(2, exchange=DIRECT, routing_key="mail")
        assert connection.default_channel.basic_get("mails") is None

    def test_one_without_bindings_is_deleted_too(self, connection: Any) -> None:
        publish(connection, 1, "letters")
        connection.default_channel.queue_delete("letters")
        assert connection.default_channel.queue_declare("letters").message_count == 0

    def test_deletions_with_conditions(self, connection: Any) -> None:
        channel = connection.default_channel
        publish(connection, 1, MAILS)
        channel.queue_delete("mails", if_empty=True)
        with kombu.Consumer(channel, [MAILS], callbacks=[Got()]):
            channel.queue_delete("mails", if_unused=True)
        assert channel.queue_declare("mails").message_count == 1

    def test_purge_counts(self, connection: Any) -> None:
        for number in range(5):
            publish(connection, number, MAILS)
        publish(connection, "later", MAILS, headers={"eta": (datetime.now(UTC) + timedelta(hours=1)).isoformat()})
        assert MAILS(connection.default_channel).purge() == 6
        assert MAILS(connection.default_channel).get() is None

    def test_a_virtual_host_is_a_place_of_its_own(self, node: Node, connection: Any) -> None:
        publish(connection, "outside", MAILS)
        with kombu.Connection(f"disque://127.0.0.1:{node.port}/shop") as inside:
            assert MAILS(inside.default_channel).get() is None
            publish(inside, "inside", MAILS)
            assert consume(inside, [MAILS]) == ["inside"]
            assert node.ask("QLEN", "shop/kombu:bindings:direct") == 1

    def test_what_nobody_takes_from_a_queue_that_expires_goes(self, node: Node, connection: Any) -> None:
        reply = Queue("replies", DIRECT, "reply", expires=20, auto_delete=True)
        reply(connection.default_channel).declare()
        with connect(node) as worker:  # it knows of the queue by its binding only
            kombu.Producer(worker.default_channel).publish("x", exchange=DIRECT, routing_key="reply")
        [[_, job_id, _]] = node.ask("QPEEK", "replies", 1)
        with client(node) as disque:
            shown: Any = disque.show(job_id)
            assert shown["ttl"] <= 20

    def test_replies_that_are_transient_live_for_a_day(self, node: Node, connection: Any) -> None:
        publish(connection, "x", "replies", delivery_mode=1)
        publish(connection, "x", "kept")
        with client(node) as disque:
            shown: list[Any] = [disque.show(disque.peek(queue)[0].id) for queue in ("replies", "kept")]
        assert 86_000 < shown[0]["ttl"] <= 86_400
        assert shown[1]["ttl"] > 2**31


class TestMessages:
    def test_the_highest_priority_first_and_equal_ones_in_order(self, connection: Any) -> None:
        for body, priority in (("a", 0), ("b", 9), ("c", 3), ("d", 9), ("e", 0)):
            publish(connection, body, MAILS, priority=priority)
        assert consume(connection, [MAILS], 5) == ["b", "d", "c", "a", "e"]

    @pytest.mark.parametrize("compression", ["zlib", "bzip2"])
    def test_compression(self, connection: Any, compression: str) -> None:
        publish(connection, {"text": "x" * 10_000}, MAILS, compression=compression)
        assert consume(connection, [MAILS]) == [{"text": "x" * 10_000}]

    def test_a_large_message(self, connection: Any) -> None:
        publish(connection, "x" * 3_000_000, MAILS)
        assert consume(connection, [MAILS]) == ["x" * 3_000_000]

    def test_bytes_and_pickles_and_headers(self, connection: Any) -> None:
        publish(connection, b"\x00\xff", MAILS, content_type="application/data", content_encoding="binary")
        publish(connection, {1, 2}, MAILS, serializer="pickle", headers={"trace": "7"})
        first, second = (MAILS(connection.default_channel).get(accept=["pickle"]) for _ in range(2))
        assert (first.body, second.payload, second.headers["trace"]) == (b"\x00\xff", {1, 2}, "7")

    def test_an_eta_waits_in_the_server(self, node: Node, connection: Any) -> None:
        eta = datetime.now(UTC) + timedelta(hours=1)
        publish(connection, "later", MAILS, headers={"eta": eta.isoformat()})
        assert MAILS(connection.default_channel).get() is None
        with client(node) as disque:
            [[job]] = [disque.scan_job_infos(0, busyloop=True, queue="mails", states=("delayed",))[1]]
            disque.enqueue(str(job["id"]))
        message = MAILS(connection.default_channel).get()
        assert message.headers["eta"] is None, "the server says when, whatever the clock here"

    def test_what_expires_is_gone_by_itself(self, node: Node, connection: Any) -> None:
        publish(connection, "old", MAILS, expiration=1)
        until(lambda: node.ask("QLEN", "mails") == 0, "the message to go")

    def test_what_is_no_message_is_a_dead_letter(self, node: Node, connection: Any, caplog: Any) -> None:
        node.ask("ADDJOB", "mails", "hello", 0)
        node.ask("ADDJOB", "mails", "{}", 0)
        publish(connection, "good", "mails")
        with caplog.at_level(logging.CRITICAL):
            assert consume(connection, [Queue("mails")]) == ["good"]
        assert node.ask("QLEN", "mails:dead") == 2

    @pytest.mark.parametrize("way", ["consume", "get"])
    def test_whatever_cannot_be_read_is_a_dead_letter_and_the_next_one_comes(
        self, node: Node, connection: Any, caplog: Any, way: str
    ) -> None:
        bad = [
            "[" * 100_000,
            '{"properties":{"x":{"__type__":"datetime","__value__":5}}}',
            '{"properties":{"x":{"__type__":"decimal","__value__":"y"}}}',
            '{"properties":{},"body":"x","headers":"x"}',
            '{"properties":{"delivery_info":"x"},"body":"x"}',
            '{"properties":{"body_encoding":"base64"},"body":5}',
            '{"properties":{}}',
            '{"properties":{"body_encoding":"none such"},"body":"x"}',
        ]
        for body in bad:
            node.ask("ADDJOB", "mails", body, 0)
        publish(connection, "good", MAILS)
        with caplog.at_level(logging.CRITICAL):
            if way == "consume":
                assert consume(connection, [MAILS]) == ["good"]
            else:
                message = MAILS(connection.default_channel).get()
                assert message.payload == "good"
                message.ack()
        assert node.ask("QLEN", "mails:dead") == len(bad)

    def test_what_is_published_and_cannot_be_read_is_dropped(self, node: Node, connection: Any, caplog: Any) -> None:
        got = Got()
        producer = kombu.Producer(connection.default_channel)
        bad = b'{"properties":{"delivery_tag":"t","body_encoding":"none such"},"body":"x"}'
        consumer = kombu.Consumer(connection.channel(), [Queue("a", FANOUT)], callbacks=[got])
        with consumer, caplog.at_level(logging.CRITICAL):
            for body in (b"nonsense", b"[" * 100_000, bad):
                node.ask("PUBLISH", channel_of("", FANOUT.name, None), body)
            producer.publish("good", exchange=FANOUT)
            while not got.bodies:
                connection.drain_events(timeout=10)
        assert got.bodies == ["good"]

    def test_of_what_is_published_to_a_busy_consumer_the_newest_is_kept(
        self, connection: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        monkeypatch.setattr(fanout, "WAITING_MOST", 10_000)
        got = Got(keep=True)
        producer = kombu.Producer(connection.default_channel)
        channel = connection.channel()
        heard = channel._heard

        def have_come() -> object:
            channel.receive(channel._listener)
            return len(heard) + heard._dropped == 19

        with kombu.Consumer(channel, [Queue("a", FANOUT)], callbacks=[got], prefetch_count=1):
            producer.publish([0, ""], exchange=FANOUT)
            connection.drain_events(timeout=10)
            for number in range(1, 20):
                producer.publish([number, "x" * 1000], exchange=FANOUT)
            with caplog.at_level(logging.CRITICAL):
                until(have_come, "all of them")
            kept = len(heard)
            got.keep = False
            got.messages[0].ack()
            while len(got.bodies) <= kept:
                connection.drain_events(timeout=10)
        assert 1 < kept < 10
        assert [number for number, _ in got.bodies] == [0, *range(20 - kept, 20)]

    def test_a_batch_goes_at_its_end_or_when_it_is_full(self, node: Node, connection: Any) -> None:
        producer = kombu.Producer(connection.default_channel)
        assert producer.supports_batch_publish
        with producer.batch(max_size=2) as batch:
            producer.publish(1, routing_key="mails")
            assert node.ask("QLEN", "mails") == 0
            producer.publish(2, routing_key="mails")
            assert node.ask("QLEN", "mails") == 2
            producer.publish(3, routing_key="mails")
            batch.flush()
            assert node.ask("QLEN", "mails") == 3
            producer.publish(4, routing_key="mails")
        assert consume(connection, [Queue("mails")], 4) == [1, 2, 3, 4]

    def test_a_batch_that_ends_in_an_error_is_dropped(self, node: Node, connection: Any) -> None:
        producer = kombu.Producer(connection.default_channel)
        with suppress(KeyError), producer.batch():
            producer.publish(1, routing_key="mails")
            raise KeyError
        assert node.ask("QLEN", "mails") == 0

    def test_a_batch_that_fails_says_so_once_and_for_all(self, node: Node, connection: Any) -> None:
        producer = kombu.Producer(connection.default_channel)
        node.ask("PAUSE", "mails", "in")
        with suppress(BatchPublishError), producer.batch() as batch:
            producer.publish(1, routing_key="mails")
            with pytest.raises(BatchPublishError, match="was not published, or only in part"):
                batch.flush()
            with pytest.raises(BatchPublishError, match="has failed before"):
                producer.publish(2, routing_key="mails")
        node.ask("PAUSE", "mails", "none")

    def test_simple_queues(self, connection: Any) -> None:
        with SimpleQueue(connection, "simple") as queue:
            queue.put({"n": 1})
            queue.put({"n": 2})
            assert queue.qsize() == 2
            message = queue.get(block=True, timeout=10)
            message.ack()
            second = queue.get_nowait()
            second.requeue()
            assert queue.get(timeout=10).payload == second.payload == {"n": 2}
            with pytest.raises(queue.Empty):
                queue.get(block=True, timeout=0.01)
            with pytest.raises(queue.Empty):
                queue.get_nowait()
            queue.put(3)
            assert queue.clear() == 1


class TestSettling:
    def keep(self, connection: Any, **consumer: Any) -> Any:
        """One message, taken and not settled."""
        got = Got(keep=True)
        with kombu.Consumer(connection.channel(), [MAILS], callbacks=[got], **consumer):
            connection.drain_events(timeout=10)
        return got.messages[0]

    def test_what_is_acknowledged_is_gone(self, node: Node, connection: Any) -> None:
        publish(connection, 1, MAILS)
        self.keep(connection).ack()
        assert int(node.info("registered_jobs")) == 1, "the binding is left"

    def test_a_consumer_without_acknowledgements(self, node: Node, connection: Any) -> None:
        publish(connection, 1, MAILS)
        self.keep(connection, no_ack=True)
        assert int(node.info("registered_jobs")) == 1

    def test_what_is_rejected_comes_again_and_is_marked(self, connection: Any) -> None:
        publish(connection, 1, MAILS)
        first = self.keep(connection)
        first.requeue()
        again = self.keep(connection)
        assert (first.delivery_info.get("redelivered"), again.delivery_info["redelivered"]) == (None, True)

    def test_what_is_rejected_for_good_is_a_dead_letter_with_its_reason(self, node: Node, connection: Any) -> None:
        publish(connection, 1, MAILS)
        self.keep(connection).reject()
        assert MAILS(connection.default_channel).get() is None
        with client(node) as disque:
            [job] = disque.get("mails:dead", nohang=True, meta=True)
        assert (job.origin, job.error) == ("mails", "rejected by its consumer")

    @pytest.mark.parametrize("where", ["channel", "connection", "recover"])
    def test_what_is_not_settled_goes_back_marked_and_uses_up_no_try(self, node: Node, where: str) -> None:
        with connect(node, job_options={"tries": 2}) as other:
            publish(other, 1, MAILS)
            message = self.keep(other)
            if where == "channel":
                message.channel.close()
            elif where == "connection":
                other.close()
            else:
                message.channel.basic_recover(requeue=True)
            with connect(node) as connection:
                again = MAILS(connection.default_channel).get()
                assert again.delivery_info["redelivered"]
                assert again.headers["redelivered"]
            with client(node) as disque:
                [job] = disque.get("mails", nohang=True, meta=True)
        assert (job.nacks, job.tries, job.additional_deliveries) == (0, 0, 2)

    def test_tries_may_be_bounded(self, node: Node) -> None:
        with connect(node, job_options={"tries": 2}) as connection:
            publish(connection, 1, MAILS)
            for _ in range(2):
                self.keep(connection).requeue()
        assert node.ask("QLEN", "mails:dead") == 1

    def test_no_more_than_the_prefetch_limit_is_taken(self, node: Node, connection: Any) -> None:
        for number in range(5):
            publish(connection, number, MAILS)
        got = Got(keep=True)
        channel = connection.channel()
        with kombu.Consumer(channel, [MAILS], callbacks=[got], prefetch_count=2):
            drain(connection)
            assert got.bodies == [0, 1]
            got.messages[0].ack()
            drain(connection)
            assert got.bodies == [0, 1, 2]
            channel.basic_qos(prefetch_count=10)
            drain(connection)
            assert got.bodies == [0, 1, 2, 3, 4]
        assert node.ask("QLEN", "mails") == 0

    def test_basic_get(self, node: Node, connection: Any) -> None:
        publish(connection, 1, MAILS)
        publish(connection, 2, MAILS)
        queue = MAILS(connection.default_channel)
        queue.get().ack()
        assert queue.get(no_ack=True).payload == 2
        assert queue.get() is None
        assert int(node.info("registered_jobs")) == 1

    def test_who_cancels_gets_nothing_more_and_others_get_it(self, connection: Any, other: Any) -> None:
        got = Got()
        consumer = kombu.Consumer(connection.channel(), [MAILS], callbacks=[got])
        consumer.consume()
        drain(connection)
        consumer.cancel()
        publish(connection, 1, MAILS)
        drain(connection)
        assert got.bodies == []
        assert consume(other, [MAILS]) == [1]

    def test_a_consumer_may_cancel_itself(self, connection: Any) -> None:
        publish(connection, 1, MAILS)
        publish(connection, 2, MAILS)
        got: list[Any] = []
        consumer = kombu.Consumer(connection.channel(), [MAILS], no_ack=True)

        def stop(body: Any, message: Any) -> None:
            del message
            got.append(body)
            consumer.cancel()

        consumer.register_callback(stop)
        consumer.consume()
        drain(connection)
        assert got == [1]
        assert consume(connection, [MAILS]) == [2]


class TestSeveral:
    def test_each_of_many_queues_has_its_turn(self, connection: Any) -> None:
        queues = [Queue(f"q{number}", DIRECT, f"k{number}") for number in range(4)]
        for queue in queues:
            for turn in range(3):
                publish(connection, f"{queue.name}-{turn}", queue)
        bodies = consume(connection, queues, 12)
        assert [sorted(bodies[at : at + 4]) for at in (0, 4, 8)] == [
            [f"q{number}-{turn}" for number in range(4)] for turn in range(3)
        ]

    @pytest.mark.parametrize(("order", "expected"), [("priority", ["b", "b", "a"]), ("sorted", ["a", "b", "b"])])
    def test_another_order_may_be_wanted(self, node: Node, order: str, expected: list[str]) -> None:
        with connect(node, queue_order_strategy=order) as connection:
            for name in ("a", "b", "b"):
                publish(connection, name, name)
            assert consume(connection, [Queue("b"), Queue("a")], 3) == expected

    def test_two_channels_of_one_connection_have_limits_of_their_own(self, connection: Any) -> None:
        for number in range(4):
            publish(connection, number, MAILS)
        one, two = Got(keep=True), Got(keep=True)
        with (
            kombu.Consumer(connection.channel(), [MAILS], callbacks=[one], prefetch_count=1),
            kombu.Consumer(connection.channel(), [MAILS], callbacks=[two], prefetch_count=2),
        ):
            drain(connection)
            assert (len(one.bodies), len(two.bodies)) == (1, 2)
            for message in [*one.messages, *two.messages]:
                message.ack()

    def test_two_consumers_of_one_channel_take_turns(self, connection: Any) -> None:
        channel = connection.channel()
        one, two = Got(), Got()
        with kombu.Consumer(channel, [MAILS], callbacks=[one]), kombu.Consumer(channel, [MAILS], callbacks=[two]):
            for number in range(4):
                publish(connection, number, MAILS)
            drain(connection)
        assert (one.bodies, two.bodies) == ([0, 2], [1, 3])

    def test_a_producer_retries_what_can_be_retried(self, node: Node, connection: Any) -> None:
        node.ask("PAUSE", "mails", "in")
        seen: list[Exception] = []

        def note(error: Exception, interval: float) -> None:
            del interval
            seen.append(error)
            node.ask("PAUSE", "mails", "none")

        policy = {"max_retries": 3, "interval_start": 0, "interval_step": 0, "interval_max": 0, "errback": note}
        publish(connection, 1, "mails", retry=True, retry_policy=policy)
        assert ("PAUSED" in str(seen[0]), node.ask("QLEN", "mails")) == (True, 1)


@pytest.mark.slow
def test_a_message_stays_with_its_consumer_beyond_its_lease(node: Node) -> None:
    with connect(node, lease=0.3) as connection:
        publish(connection, 1, MAILS)
        message = MAILS(connection.default_channel).get()
        began_s = time.monotonic()
        until(lambda: time.monotonic() > began_s + 1, "three leases to pass", poll_s=0.1)
        assert node.ask("QLEN", "mails") == 0
        message.ack()
    assert int(node.info("registered_jobs")) == 1


def test_a_node_that_leaves_is_asked_for_those_that_have_joined(node: Node, connection: Any) -> None:
    said = {b"GETJOB": b"-LEAVING x\r\n", b"PING": b"+PONG\r\n"}
    publish(connection, "one", "letters")
    with (
        Served(lambda words: said.get(words[0], b":0\r\n")) as leaving,
        kombu.Connection("disque://{}:{}".format(*leaving.address)) as consumer,
    ):
        consumer.default_channel.client.look()
        leaving.tells(leaving.address, ("127.0.0.1", node.port))
        assert consume(consumer, [Queue("letters")]) == ["one"]
