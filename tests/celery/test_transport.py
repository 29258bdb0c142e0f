"""A connection of kombu as a whole: in an event loop, with nodes that fail, over TLS, after a fork."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

from disque import VERSION
from disque.celery import inspection
from disque.celery.poller import Poller
from disque.celery.transport import FORKING
from tests.celery.support import Got, connect, consume, drain, looping, publish, url_of
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import ROOT, Node, free_port, until
from tests.support import certificates

MAILS = Queue("mails", Exchange("direct", type="direct"), "mail")
NEWS = Queue("news", Exchange("news", type="fanout"))


class TestDrainEvents:
    def test_the_time_that_was_given_is_over(self, connection: Any) -> None:
        with kombu.Consumer(connection.channel(), [MAILS, NEWS], callbacks=[Got()]):
            for timeout_s in (0, 0.01):
                with pytest.raises(socket.timeout):
                    connection.drain_events(timeout=timeout_s)

    def test_without_consumers_too(self, connection: Any) -> None:
        connection.connect()
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.01)

    def test_a_message_that_is_there_comes_even_with_no_time(self, connection: Any) -> None:
        publish(connection, 1, MAILS)
        assert consume(connection, [MAILS], timeout_s=0) == [1]

    def test_one_message_a_call(self, connection: Any) -> None:
        for number in range(3):
            publish(connection, number, MAILS)
        got = Got()
        with kombu.Consumer(connection.channel(), [MAILS], callbacks=[got]):
            connection.drain_events(timeout=10)
            assert got.bodies == [0]
            assert connection.default_channel.queue_declare("mails").message_count == 2

    def test_nothing_is_asked_for_when_the_time_is_over(self, node: Node, connection: Any) -> None:
        with kombu.Consumer(connection.channel(), [MAILS], callbacks=[Got()]):
            drain(connection)
            publish(connection, 1, MAILS)
            assert node.ask("QLEN", "mails") == 1

    def test_an_acknowledgement_of_another_thread_lets_more_come(self, connection: Any) -> None:
        publish(connection, 1, MAILS)
        publish(connection, 2, MAILS)
        got = Got(keep=True)
        with kombu.Consumer(connection.channel(), [MAILS], callbacks=[got], prefetch_count=1):
            connection.drain_events(timeout=10)
            poller: Poller = connection.transport.cycle
            thread = threading.Thread(
                target=lambda: (until(lambda: poller._draining, "the wait to begin"), got.messages[0].ack())
            )
            thread.start()
            connection.drain_events(timeout=60)
            thread.join()
            assert got.bodies == [1, 2]


class TestEventLoop:
    def test_all_that_the_limit_allows_is_taken_at_once(self, node: Node) -> None:
        connection = connect(node)
        for number in range(10):
            publish(connection, number, MAILS)
        got = Got(keep=True)
        with looping(connection) as step_until:
            kombu.Consumer(connection.channel(), [MAILS], callbacks=[got], prefetch_count=4).consume()
            step_until(lambda: len(got.bodies) == 4, "four messages")
            assert node.ask("QLEN", "mails") == 6
            got.messages[0].ack()
            step_until(lambda: len(got.bodies) == 5, "one more")
            got.keep = False
            for message in got.messages[1:5]:
                message.ack()
            step_until(lambda: len(got.bodies) == 10, "all")
        assert int(node.info("registered_jobs")) == 1, "the binding"

    def test_fanout_and_queues_together_and_a_consumer_that_comes_later(self, node: Node) -> None:
        connection = connect(node)
        got, later = Got(), Got()
        with looping(connection) as step_until:
            channel = connection.channel()
            kombu.Consumer(channel, [MAILS, NEWS], callbacks=[got]).consume()
            step_until(lambda: node.ask("QSTAT", "mails"), "a wait to begin")
            kombu.Producer(connection.default_channel).publish("news", exchange=NEWS.exchange)
            publish(connection, "mail", MAILS)
            step_until(lambda: len(got.bodies) == 2, "both")
            consumer = kombu.Consumer(channel, [Queue("late")], callbacks=[later])
            consumer.consume()
            publish(connection, 1, "late")
            step_until(lambda: later.bodies, "it")
            consumer.cancel()
            publish(connection, 2, "late")
            publish(connection, "last", MAILS)
            step_until(lambda: "last" in got.bodies, "the last one")
        assert (sorted(got.bodies), later.bodies, node.ask("QLEN", "late")) == (["last", "mail", "news"], [1], 1)

    def test_what_comes_beyond_a_limit_that_has_shrunk_waits_here(self, node: Node) -> None:
        connection = connect(node)
        got = Got(keep=True)
        with looping(connection) as step_until:
            channel = connection.channel()
            consumer = kombu.Consumer(channel, [MAILS], callbacks=[got], prefetch_count=3)
            consumer.consume()
            step_until(lambda: node.ask("QSTAT", "mails"), "a wait to begin")
            channel.basic_qos(prefetch_count=1)
            with connect(node) as other:
                producer = kombu.Producer(other.default_channel)
                with producer.batch():
                    for number in range(3):
                        producer.publish(number, routing_key="mails")
            step_until(lambda: got.bodies, "one")
            got.messages[0].ack()
            step_until(lambda: len(got.bodies) == 2, "the next")
        until(lambda: node.ask("QLEN", "mails") == 2, "what was not settled to go back")
        again = Got()
        with connect(node) as other, kombu.Consumer(other.channel(), [MAILS], callbacks=[again]):
            while len(again.bodies) < 2:
                other.drain_events(timeout=10)
        marks = {one.payload: one.delivery_info.get("redelivered") for one in again.messages}
        assert marks == {1: True, 2: None}, "only one of them had a consumer seen"

    def test_a_rule_of_celery_for_each_message_takes_them_one_by_one(self, node: Node) -> None:
        connection = connect(node)
        for number in range(3):
            publish(connection, number, MAILS)
        got = Got(keep=True)
        with looping(connection) as step_until:
            channel = connection.channel()
            channel.qos.can_consume = lambda: not got.bodies  # as worker_disable_prefetch does
            kombu.Consumer(channel, [MAILS], callbacks=[got]).consume()
            step_until(lambda: got.bodies, "one")
            assert node.ask("QLEN", "mails") == 2

    @pytest.mark.parametrize("forks", [False, True])
    def test_a_thread_renews_leases_unless_the_process_forks(self, node: Node, monkeypatch: Any, forks: bool) -> None:
        monkeypatch.delitem(sys.modules, FORKING, raising=False)
        if forks:
            monkeypatch.setitem(sys.modules, FORKING, sys)
        connection = connect(node, lease=0.3)
        publish(connection, 1, MAILS)
        got = Got(keep=True)
        with looping(connection) as step_until:
            kombu.Consumer(connection.channel(), [MAILS], callbacks=[got]).consume()
            step_until(lambda: got.bodies, "one")
            leases = connection.transport.leases
            assert (leases._thread is None) is forks
            renewed: list[Any] = []
            monkeypatch.setattr(leases, "_judge", lambda *answers: renewed.append(answers))
            step_until(lambda: renewed, "a renewal")


class TestFaults:
    def test_without_a_node_the_error_names_it(self) -> None:
        port = free_port()
        with (
            kombu.Connection(f"disque://127.0.0.1:{port}") as connection,
            pytest.raises(OperationalError, match=f"127.0.0.1:{port}"),
        ):
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)

    def test_a_consumer_goes_on_when_its_connections_are_cut(self, node: Node, connection: Any) -> None:
        got = Got()
        with kombu.Consumer(connection.channel(), [MAILS, NEWS], callbacks=[got]):
            drain(connection)
            node.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            node.ask("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
            publish(connection, 1, MAILS)
            connection.drain_events(timeout=10)
            drain(connection)
            kombu.Producer(connection.default_channel).publish(2, exchange=NEWS.exchange)
            connection.drain_events(timeout=10)
        assert got.bodies == [1, 2]

    def test_connections_that_hang_are_given_up(self, connection: Any) -> None:
        got = Got()
        channel = connection.channel()
        with kombu.Consumer(channel, [MAILS, NEWS], callbacks=[got]):
            channel.ask(10_000, 1)
            getter, listener = channel._getter, channel._listener
            channel.look()
            assert (channel._getter, channel._listener) == (getter, listener)
            channel._answer_by_s -= 3600
            channel._heard_s -= 3600
            channel.look()
            assert channel._getter is None
            until(lambda: (channel.receive(listener), channel._pinged_s == 0)[1], "an answer to PING")
            channel._heard_s -= 3600
            channel.look()
            channel._pinged_s -= 3600
            channel.look()
            assert channel._listener is None
            publish(connection, 1, MAILS)
            connection.drain_events(timeout=10)
        assert got.bodies == [1]


@pytest.fixture(scope="class")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give three nodes that the tests of a class share, in their order."""
    cluster = Cluster(tmp_path_factory.mktemp("three"), 3)
    cluster.start_whole()
    yield cluster
    cluster.discard()


class TestCluster:
    def test_messages_come_from_whatever_node_they_are_at(self, three: Cluster) -> None:
        first, second, third = three.members
        with connect(first) as one, connect(second) as two, connect(third) as last:
            publish(one, 1, MAILS)
            publish(two, 2, MAILS)
            assert last.default_channel.queue_declare("mails", passive=True).message_count == 2
            bound = MAILS(last.default_channel)
            came = [until(bound.get, "a message from another node") for _ in range(2)]
            assert sorted(message.payload for message in came if message) == [1, 2]
            publish(one, 3, MAILS)
            publish(two, 4, MAILS)
            assert bound.purge() == 2
            got = Got()
            with kombu.Consumer(last.channel(), [NEWS], callbacks=[got]):
                kombu.Producer(one.default_channel).publish("news", exchange=NEWS.exchange, declare=[NEWS])
                last.drain_events(timeout=10)
            assert got.bodies == ["news"]

    @pytest.mark.parametrize("copies", [1, 3])
    def test_what_a_consumer_had_is_marked_when_it_comes_from_another_node(self, three: Cluster, copies: int) -> None:
        first, _, third = three.members
        queue, got = Queue(f"marks-{copies}"), Got(keep=True)
        with connect(first, job_options={"replicate": copies}) as one:
            publish(one, 1, queue.name)
            with kombu.Consumer(one.channel(), [queue], callbacks=[got]):
                one.drain_events(timeout=10)
        with connect(third) as last:
            again = until(queue(last.default_channel).get, "it from another node")
            assert again is not None
            again.ack()
        assert ("redelivered" in got.messages[0].delivery_info, again.delivery_info["redelivered"]) == (False, True)

    def test_the_next_node_is_used_when_one_is_gone(self, three: Cluster) -> None:
        first, second, third = three.members
        with connect(first, second, third, job_options={"replicate": 2}) as connection:
            MAILS(connection.default_channel).purge()
            publish(connection, 1, MAILS)
            got = Got(keep=True)
            with kombu.Consumer(connection.channel(), [MAILS, NEWS], callbacks=[got]):
                connection.drain_events(timeout=10)
                three.kill(first)
                got.messages[0].ack()  # what was taken stays taken, and is settled at another node
                publish(connection, 2, MAILS)
                connection.drain_events(timeout=30)
                drain(connection)
                kombu.Producer(connection.default_channel).publish(3, exchange=NEWS.exchange)
                connection.drain_events(timeout=10)
            assert got.bodies == [1, 2, 3]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[Node, int]]:
    """Give a node that wants certificates of its clients, and its port for TLS."""
    port = free_port()
    words = [word for name, value in certificates.options().items() for word in (f"--{name}", value)]
    node = Node(tmp_path, "--tls-port", str(port), "--requirepass", "secret", *words).start()
    yield node, port
    node.discard()


def test_tls(secured: tuple[Node, int]) -> None:
    _, port = secured
    certificate, key = certificates.pair("client")
    files = {"ca_certs": certificates.AUTHORITY, "certfile": certificate, "keyfile": key}
    connection = kombu.Connection(f"disques://:secret@127.0.0.1:{port}", ssl=files)
    got = Got()
    publish(connection, "x" * 500_000, MAILS)
    with looping(connection) as step_until:
        kombu.Consumer(connection.channel(), [MAILS, NEWS], callbacks=[got]).consume()
        step_until(lambda: got.bodies, "a message")
        kombu.Producer(connection.default_channel).publish("y" * 500_000, exchange=NEWS.exchange)
        step_until(lambda: len(got.bodies) == 2, "news")
    for url, words in ((f"disques://:secret@127.0.0.1:{port}", {}), (f"disques://:wrong@127.0.0.1:{port}", files)):
        with kombu.Connection(url, ssl=words) as stranger, pytest.raises(stranger.connection_errors):
            stranger.transport.establish_connection()


def limited(node: Node, *rules: str, host: str = "") -> Any:
    """A connection of a user with these rights."""
    node.ask("ACL", "SETUSER", "celery", "on", ">secret", *rules)
    return kombu.Connection(f"disque://celery:secret@127.0.0.1:{node.port}/{host}")


def test_the_rights_that_an_application_needs(node: Node) -> None:
    got, heard = Got(keep=True), Got()
    [line] = [line for line in (ROOT / "docs" / "celery.md").read_text().splitlines() if "ACL SETUSER" in line]
    rights = line.partition(">secret ")[2].split()
    with limited(node, *rights, host="shop") as connection:
        publish(connection, 1, MAILS)
        publish(connection, 2, MAILS)
        with (
            kombu.Consumer(connection.channel(), [MAILS], callbacks=[got], prefetch_count=1),
            kombu.Consumer(connection.channel(), [NEWS], callbacks=[heard]),
        ):
            kombu.Producer(connection.default_channel).publish("news", exchange=NEWS.exchange)
            while not (got.bodies and heard.bodies):
                connection.drain_events(timeout=10)
            assert list(inspection.delayed(connection.transport, "mails")) == []
        bound = MAILS(connection.default_channel)
        assert bound.purge() == 1
        publish(connection, 3, MAILS)
        bound.delete()
    assert node.ask("ACL", "LOG") == []


def test_a_user_who_may_not_enqueue_hands_back_without_a_mark(node: Node, connection: Any) -> None:
    publish(connection, 1, MAILS)
    got = Got(keep=True)
    with (
        limited(node, "~*", "&*", "+@all", "-enqueue") as other,
        kombu.Consumer(other.channel(), [MAILS], callbacks=[got]),
    ):
        other.drain_events(timeout=10)
    message = MAILS(connection.default_channel).get()
    assert "redelivered" not in message.delivery_info


def test_a_child_process_leaves_the_connections_of_its_parent_alone(node: Node) -> None:
    program = f"""
import os, sys
import kombu, disque.celery
from kombu import Queue
connection = kombu.Connection({url_of(node)!r})
got = []
queue = Queue("mails")
with kombu.Consumer(connection.channel(), [queue], callbacks=[lambda body, message: got.append(message)]):
    producer = kombu.Producer(connection.default_channel)
    producer.publish(1, routing_key="mails")
    connection.drain_events(timeout=10)
    child = os.fork()
    if child == 0:
        producer.publish(2, routing_key="mails")
        connection.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    connection.drain_events(timeout=10)
    assert [message.payload for message in got] == [1, 2]
    assert [message.delivery_info.get("redelivered") for message in got] == [None, None]
    for message in got:
        message.ack()
print("good")
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout, done.returncode) == ("good\n", 0), done.stderr
    assert int(node.info("registered_jobs")) == 0


def test_what_the_transport_says_of_itself(connection: Any) -> None:
    transport = connection.transport
    assert (transport.driver_name, transport.driver_version()) == ("disque", VERSION)
    assert transport.implements.asynchronous
    assert connection.as_uri().startswith("disque://")
    assert connection.heartbeat_check() is None
    assert not connection.supports_heartbeats
