"""Pub/sub with real sockets and clients: the same bytes as from redis-server, redis-py, redis-cli, slow subscribers."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis
import redis.asyncio

from disque.client import AsyncDisque, Config, Disque
from tests.end_to_end.conftest import MakeCluster, StartNode
from tests.end_to_end.node import LOOPBACK, Node, Raw, free_port, request, until

both = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a redis-server."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is missing: apt-get install redis-server")
    port = free_port()
    words = [program, "--port", str(port), "--save", "", "--dir", str(tmp_path_factory.mktemp("redis"))]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        until(lambda: answers(port), "redis-server answers")
        yield port
        server.terminate()


def answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


#: Which connection says what. The first one only publishes.
SCRIPT = """
1 PUBSUB CHANNELS
1 PUBSUB NUMSUB a b
1 PUBSUB NUMPAT
2 UNSUBSCRIBE
2 PUNSUBSCRIBE
2 UNSUBSCRIBE a b
2 SUBSCRIBE a b a
1 PUBLISH a hello
1 PUBLISH nobody hello
2 PSUBSCRIBE [ab]
1 PUBLISH a twice
1 PUBLISH b x
1 PUBSUB CHANNELS
1 PUBSUB CHANNELS a*
1 PUBSUB CHANNELS nothing*
1 PUBSUB NUMSUB
1 PUBSUB NUMSUB a b c
1 PUBSUB NUMPAT
1 PUBSUB NUMPAT x
1 PUBSUB NONSENSE
1 PUBSUB
1 PUBLISH a
1 SUBSCRIBE
1 PSUBSCRIBE
2 PING
2 PING x
2 PING x y
2 UNSUBSCRIBE b nothing
2 PSUBSCRIBE a* ?
2 PUNSUBSCRIBE a*
2 UNSUBSCRIBE
2 PING
2 PUNSUBSCRIBE
2 PING
2 ECHO x
2 SUBSCRIBE a
2 CLIENT REPLY SKIP ; PING ; RESET ; ECHO x
2 CLIENT REPLY OFF ; SUBSCRIBE c ; PING ; UNSUBSCRIBE ; PING ; CLIENT REPLY ON
2 CLIENT REPLY SKIP ; SUBSCRIBE d ; UNSUBSCRIBE d ; PING
2 SUBSCRIBE e
1 PUBLISH e 1
2 HELLO 2
1 PUBLISH e 2
2 ECHO x
2 PSUBSCRIBE e?
2 RESET
2 ECHO x
1 PUBLISH e 3
2 SUBSCRIBE f
2 QUIT
1 PUBSUB CHANNELS
"""
#: Only RESP2: other commands while it has subscribed. Redis names sharded pub/sub too, which is not here.
SHARDED = (b"(P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE", b"(P)SUBSCRIBE / (P)UNSUBSCRIBE")


def played(port: int, protocol: int) -> list[tuple[str, bytes, bytes]]:
    """What both connections get after each line of the script."""
    raws = {number: Raw((LOOPBACK, port)) for number in "12"}
    if protocol == 3:
        for raw in raws.values():
            raw.send(request("HELLO", 3))
            drained(raw)
    found = []
    for line in SCRIPT.strip().splitlines():
        number, turn = line.split(" ", 1)
        raws[number].send(b"".join(request(*words.split()) for words in turn.split(" ; ")))
        said = drained(raws[number])  # before the other one is asked
        found.append((line, said, drained(raws["1" if number == "2" else "2"])))
    for raw in raws.values():
        raw.close()
    return found


def drained(raw: Raw) -> bytes:
    """What has come until now: all before the reply to one PING more."""
    token = b"$8\r\n~token~~\r\n"
    with suppress(ConnectionError):
        raw.send(request("PING", "~token~~"))
    found = b""
    while not found.endswith(token):
        piece = raw.receive()
        if not piece:
            return found + b"<closed>"
        found += piece
    return found.removesuffix(token).removesuffix(b"*2\r\n$4\r\npong\r\n")


#: How many subscriptions are left.
COUNTS = re.compile(rb"\r\n:\d+")


def plain(reply: bytes) -> bytes:
    """A reply without what must differ: the text of errors beyond its code, and what HELLO says."""
    reply = reply.replace(*SHARDED)
    if b"Can't execute" in reply:
        return reply
    if reply.startswith(b"-"):
        return reply.split(b" ")[0]
    if reply.startswith((b"*2\r\n$1\r\n", b"*3\r\n$12\r\npunsubscribe", b">3\r\n$12\r\npunsubscribe")):
        return b"".join(sorted(COUNTS.sub(b"", reply).split(b"\r\n")))  # Redis has no order there
    return b"HELLO" if b"$5\r\nproto\r\n" in reply or b"server\r\n" in reply else reply


@both
def test_every_byte_is_as_from_redis(shared: Node, redis_port: int, protocol: int) -> None:
    theirs, ours = played(redis_port, protocol), played(shared.port, protocol)
    for (line, *expected), (_, *found) in zip(theirs, ours, strict=True):
        assert list(map(plain, found)) == list(map(plain, expected)), line


@both
def test_redis_py_listens_at_one_node_and_publishes_at_another(make_cluster: MakeCluster, protocol: int) -> None:
    first, second = make_cluster(2).members
    client, worker = first.client(protocol=protocol), first.client(protocol=protocol)
    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe(**{"job:*": None})
    assert [listener.get_message(timeout=5)["data"] for _ in range(2)] == [1, 2]
    assert second.client(protocol=protocol).publish("news", b"\x00hi") == 0
    assert listener.get_message(timeout=5) == {
        "type": "message",
        "pattern": None,
        "channel": b"news",
        "data": b"\x00hi",
    }
    job_id = worker.execute_command("ADDJOB", "q", "body", 5000, "REPLICATE", 2)
    worker.execute_command("GETJOB", "FROM", "q")
    worker.execute_command("ACKJOB", job_id)
    heard = [listener.get_message(timeout=5) for _ in range(4)]
    assert [(one["type"], one["pattern"], one["channel"], one["data"]) for one in heard] == [
        ("pmessage", b"job:*", b"job:%b:q" % name, job_id) for name in (b"added", b"ready", b"delivered", b"acked")
    ]
    assert client.pubsub_channels() == [b"news"]
    assert client.pubsub_numsub("news", "x") == [(b"news", 1), (b"x", 0)]
    assert client.pubsub_numpat() == 1
    listener.ping()
    assert listener.get_message(timeout=5)["type"] == "pong"
    listener.unsubscribe()
    listener.punsubscribe()
    assert [listener.get_message(timeout=5)["type"] for _ in range(2)] == ["unsubscribe", "punsubscribe"]
    assert not listener.subscribed
    listener.close()


@both
def test_asyncio_redis_py_listens_too(shared: Node, protocol: int) -> None:
    async def listen() -> None:
        client = redis.asyncio.Redis(host=LOOPBACK, port=shared.port, protocol=protocol)
        async with client, client.pubsub() as listener:
            await listener.subscribe("a")
            await listener.psubscribe("job:added:*")
            for _ in range(2):
                await listener.get_message(timeout=5)
            job_id = await client.execute_command("ADDJOB", "q", "body", 0)
            assert await client.publish("a", "b") == 1
            heard = [await listener.get_message(timeout=5) for _ in range(2)]
            assert [(one["channel"], one["data"]) for one in heard if one] == [(b"job:added:q", job_id), (b"a", b"b")]

    asyncio.run(listen())


def test_redis_cli_shows_what_it_hears(shared: Node, redis_cli: str) -> None:
    words = [redis_cli, "-h", LOOPBACK, "-p", str(shared.port), "--csv", "PSUBSCRIBE", "n*"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as shown:
        try:
            assert shown.stdout is not None
            assert shown.stdout.readline().startswith("Reading messages")
            assert shown.stdout.readline().strip() == '"psubscribe","n*",1'
            assert shared.ask("PUBLISH", "news", "hi") == 1
            assert shown.stdout.readline().strip() == '"pmessage","n*","news","hi"'
        finally:
            shown.terminate()


def test_who_does_not_read_is_cut_and_others_hear_all(node: Node) -> None:
    node.ask("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0")
    slow, fast = node.raw(), node.raw()
    for raw in (slow, fast):
        assert raw.ask("SUBSCRIBE", "c")[0] == b"subscribe"
    text = b"x" * 100_000
    speaker = node.client()
    count = 0
    while speaker.publish("c", text) == 2:
        count += 1
        assert fast.reply() == [b"message", b"c", text]
        assert count < 10_000
    node.await_log("scheduled to be closed ASAP for overcoming of output buffer limits")
    assert fast.reply() == [b"message", b"c", text]
    assert speaker.publish("c", "on") == 1
    assert fast.reply() == [b"message", b"c", b"on"]
    assert "omem" in node.log()


def test_events_wait_for_the_journal_as_replies_do(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "always")
    listener, client = node.raw(), node.client()
    listener.ask("PSUBSCRIBE", "job:*")
    ids = [client.execute_command("ADDJOB", "q", str(number), 0) for number in range(20)]
    pipe = client.pipeline(transaction=False)
    for job_id in ids:
        pipe.execute_command("DELJOB", job_id)
    pipe.execute()
    heard = [listener.reply()[2:] for _ in range(40)]
    assert [job_id for channel, job_id in heard if channel == b"job:added:q"] == ids
    assert [job_id for channel, job_id in heard if channel == b"job:ready:q"] == ids


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_our_client_hears_of_all_nodes_and_comes_back(make_cluster: MakeCluster, kind: str) -> None:
    cluster = make_cluster(2)
    first, second = cluster.members
    config = Config(nodes=((first.host, first.port),), backoff_ms=20)

    def add(node: Node) -> str:
        return str(node.client().execute_command("ADDJOB", "q", "body", 5000, "REPLICATE", 1).decode())

    def blocking() -> None:
        with Disque(config) as client, client.events("added", timeout=20) as events:
            assert events.ready(20)
            assert {add(first), add(second)} == {next(events).id, next(events).id}
            cluster.kill(second)
            cluster.start(second)
            until(lambda: events.lost > 0 and events.ready(0.1), "it listens at both nodes again")
            assert add(second) == next(events).id

    async def with_asyncio() -> None:
        async with AsyncDisque(config) as client, client.events("added", timeout=20) as events:
            assert await events.ready(20)
            assert {add(first), add(second)} == {(await anext(events)).id for _ in range(2)}
            await asyncio.to_thread(cluster.kill, second)
            await asyncio.to_thread(cluster.start, second)
            while not (events.lost and await events.ready(0.1)):
                await asyncio.to_thread(second.info, "tcp_port")
            assert add(second) == (await anext(events)).id

    if kind == "blocking":
        blocking()
    else:
        asyncio.run(with_asyncio())
