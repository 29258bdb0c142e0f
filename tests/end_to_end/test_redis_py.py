"""redis-py as it comes from the shelf, in both protocols, blocking and with asyncio."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import LOOPBACK, Node

both = pytest.mark.parametrize("protocol", [2, 3])


@both
def test_the_everyday_commands(shared: Node, protocol: int) -> None:
    client = shared.client(protocol=protocol)
    assert client.ping() is True
    assert client.echo("hi") == b"hi"
    assert client.info()["tcp_port"] == shared.port
    assert client.info("server")["process_id"] == shared.pid
    assert client.client_id() > 0
    assert client.client_setname("me")
    assert client.client_getname() in {"me", b"me"}
    [me] = [one for one in client.client_list() if one["name"] == "me"]
    assert me["lib-name"] == "redis-py"
    assert me["resp"] == str(protocol)
    assert client.config_get("port") == {"port": str(shared.port)}
    assert client.config_set("maxclients", 5000)
    assert client.config_get("maxclients*") == {"maxclients": "5000"}
    assert len(client.time()) == 2
    assert client.command_count() > 30
    assert "addjob" in client.command()
    assert client.slowlog_get() is not None
    assert client.config_resetstat()


@both
def test_a_client_with_text_instead_of_bytes(shared: Node, protocol: int) -> None:
    client = shared.client(protocol=protocol, decode_responses=True)
    job_id = client.execute_command("ADDJOB", "q", "grüße", 0)
    assert client.execute_command("GETJOB", "FROM", "q") == [["q", job_id, "grüße"]]
    assert client.info()["registered_jobs"] == 1


@both
def test_the_life_of_a_job(shared: Node, protocol: int) -> None:
    run = shared.client(protocol=protocol).execute_command
    job_id = run("ADDJOB", "q", b"\x00body\xff", 0, "RETRY", 10)
    assert run("QLEN", "q") == 1
    assert run("QPEEK", "q", 5) == [[b"q", job_id, b"\x00body\xff"]]
    assert run("GETJOB", "WITHCOUNTERS", "FROM", "q") == [
        [b"q", job_id, b"\x00body\xff", b"nacks", 0, b"additional-deliveries", 0]
    ]
    assert run("WORKING", job_id) == 10
    assert run("NACK", job_id) == 1
    assert run("DEQUEUE", job_id) == 1
    assert run("ENQUEUE", job_id) == 1
    assert run("SHOW", job_id)[:2] == [b"id", job_id]
    assert run("QSTAT", "q")[:4] == [b"name", b"q", b"len", 1]
    assert run("QSCAN") == [b"0", [b"q"]]
    assert run("JSCAN") == [b"0", [job_id]]
    assert run("PAUSE", "q", "out") in {b"out", "out"}
    assert run("GETJOB", "NOHANG", "FROM", "q") is None
    assert run("PAUSE", "q", "none") in {b"none", "none"}
    assert run("ACKJOB", job_id) == 1
    assert run("SHOW", job_id) is None
    assert run("FASTACK", job_id) == 0
    assert run("DELJOB", run("ADDJOB", "q", "b", 0)) == 1
    assert run("HELLO")[0] == 1
    assert run("GETJOB", "TIMEOUT", 1, "FROM", "q") is None


@both
def test_errors_are_response_errors(shared: Node, protocol: int) -> None:
    client = shared.client(protocol=protocol)
    with pytest.raises(redis.ResponseError, match="unknown command 'NOSUCH'"):
        client.execute_command("NOSUCH")
    with pytest.raises(redis.ResponseError, match="BADID"):
        client.execute_command("ACKJOB", "x")
    assert client.ping() is True


@both
def test_a_pipeline(shared: Node, protocol: int) -> None:
    pipeline = shared.client(protocol=protocol).pipeline(transaction=False)
    for number in range(500):
        pipeline.execute_command("ADDJOB", "q", number, 0)
    ids = pipeline.execute()
    assert len(set(ids)) == 500
    pipeline.execute_command("GETJOB", "COUNT", 500, "FROM", "q")
    pipeline.execute_command("ACKJOB", *ids)
    jobs, acked = pipeline.execute()
    assert [job_id for _, job_id, _ in jobs] == ids
    assert acked == 500


@both
def test_connections_of_a_pool_work_side_by_side(shared: Node, protocol: int) -> None:
    pool = redis.ConnectionPool(host=LOOPBACK, port=shared.port, protocol=protocol, max_connections=5)
    with redis.Redis(connection_pool=pool) as one, redis.Redis(connection_pool=pool) as two:
        assert one.execute_command("ADDJOB", "q", "body", 0)
        assert len(two.execute_command("GETJOB", "FROM", "q")) == 1
    pool.disconnect()


@both
def test_a_client_comes_back_after_a_restart(start_node: StartNode, protocol: int) -> None:
    node = start_node("--appendonly", "yes")
    client = redis.Redis(host=LOOPBACK, port=node.port, protocol=protocol, retry=Retry(NoBackoff(), 1))
    with client:
        job_id = client.execute_command("ADDJOB", "q", "body", 0)
        node.stop()
        node.start()
        assert client.execute_command("QPEEK", "q", 1) == [[b"q", job_id, b"body"]]


@both
def test_a_password(start_node: StartNode, protocol: int) -> None:
    node = start_node("--requirepass", "secret")
    assert node.client(protocol=protocol, password="secret").ping() is True
    assert node.client(protocol=protocol, username="default", password="secret").ping() is True
    once = Retry(NoBackoff(), 0)
    with pytest.raises(redis.AuthenticationError):
        node.client(protocol=protocol, password="wrong", retry=once).ping()
    with pytest.raises(redis.AuthenticationError):
        node.client(protocol=protocol, retry=once).ping()


def run_async(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(work)


@both
def test_asyncio_waits_for_jobs_with_many_clients_at_once(shared: Node, protocol: int) -> None:
    async def scene() -> None:
        async with redis.asyncio.Redis(host=LOOPBACK, port=shared.port, protocol=protocol) as client:
            waiting = [asyncio.create_task(get(client)) for _ in range(20)]
            ids = {await client.execute_command("ADDJOB", "q", number, 0) for number in range(20)}
            taken = [await task for task in waiting]
            assert {jobs[0][1] for jobs in taken} == ids
            assert await client.execute_command("ACKJOB", *ids) == 20
            assert (await client.info())["tcp_port"] == shared.port

    async def get(client: Any) -> Any:
        return await client.execute_command("GETJOB", "TIMEOUT", 30_000, "FROM", "q")

    run_async(scene())


@both
def test_asyncio_pipelines(shared: Node, protocol: int) -> None:
    async def scene() -> None:
        async with redis.asyncio.Redis(host=LOOPBACK, port=shared.port, protocol=protocol) as client:
            pipeline = client.pipeline(transaction=False)
            for number in range(200):
                pipeline.execute_command("ADDJOB", "q", number, 0)
            assert len(set(await pipeline.execute())) == 200

    run_async(scene())


def test_monitor(shared: Node) -> None:
    with shared.client(protocol=3).monitor() as monitor:
        shared.ask("QLEN", "seen")
        assert monitor.next_command()["command"] == "QLEN seen"
