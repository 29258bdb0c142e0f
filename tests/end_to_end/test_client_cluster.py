"""The Python client on three real nodes: what it does when they die, leave and come back."""

import asyncio
import threading
from typing import Any

import pytest

from disque.client import AsyncDisque, Config, Disque, Job, UnavailableError
from tests.client.fake import Hands
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import PATIENCE_S, Node, until

JOBS = 300


def config(*nodes: Node, **options: Any) -> Config:
    words: dict[str, Any] = {"nodes": tuple((node.host, node.port) for node in nodes), "order": "given"}
    return Config(**(words | {"attempts": 12} | options))


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Cluster:
    return make_cluster(3)


def consume(disque: Disque, seen: list[str], enough: threading.Event) -> None:
    """Work on jobs until all were seen once."""
    with disque.jobs("q", prefetch=8) as jobs:
        for job in jobs:
            seen.append(job.text())
            job.ack()
            if len(set(seen)) >= JOBS:
                break
    enough.set()


def at(disque: Disque | AsyncDisque, node: Node) -> bool:
    """Whether this is the node in use."""
    return disque.router.current == (node.host, node.port)


def test_one_address_is_enough_to_survive_its_node(cluster: Cluster) -> None:
    one, two, three = cluster.members
    with Disque(config(one)) as disque:
        disque.add("q", "before", replicate=3)
        assert set(disque.router.addresses()) == {(node.host, node.port) for node in (one, two, three)}
        cluster.kill(one)
        job_id = disque.add("q", "after", replicate=2)
        assert not at(disque, one)
        assert disque.show(job_id) is not None
        cluster.kill(two)
        cluster.kill(three)
        with pytest.raises(UnavailableError) as caught:
            disque.ping()
        assert all(f":{node.port}" in str(caught.value) for node in cluster.members)
        cluster.start()
        assert disque.ping() == "PONG"


def test_a_batch_survives_the_death_of_a_node_in_the_middle_of_it(cluster: Cluster) -> None:
    one, two, three = cluster.members

    def jobs() -> Any:
        for number in range(5000):
            if number == 2500:
                cluster.kill(one)
            yield "q", str(number)

    with Disque(config(one, two, three)) as disque:
        ids = disque.add_many(jobs(), replicate=2, pipeline=100)
        assert len(set(ids)) == 5000
        held = {job_id for node in (two, three) for job_id in node.ask("JSCAN", "BUSYLOOP")[1]}
        assert {job_id.encode() for job_id in ids} <= held


def test_a_node_that_leaves_is_left(cluster: Cluster) -> None:
    one, two, _ = cluster.members
    with Disque(config(one, two)) as disque:
        assert disque.get("q", nohang=True) == []
        assert at(disque, one)
        waiting: list[list[Job]] = []
        thread = threading.Thread(target=lambda: waiting.append(disque.get("q", timeout=PATIENCE_S)))
        thread.start()
        until(lambda: one.info("blocked_clients") == "1", "a GETJOB that waits")
        assert disque.at(one.host, one.port).cluster_leaving(leaving=True) == "OK"
        until(lambda: two.info("blocked_clients") == "1", "the GETJOB at another node")
        two.ask("ADDJOB", "q", "here", 1000, "REPLICATE", 1)
        thread.join()
        assert [job.body for job in waiting[0]] == [b"here"]
        assert at(disque, two)


def test_jobs_are_consumed_on_while_nodes_die_and_come_back(cluster: Cluster) -> None:
    one, two, three = cluster.members
    seen: list[str] = []
    enough = threading.Event()
    with Disque(config(one, two, three)) as producer, Disque(config(two, three, one)) as consumer:
        thread = threading.Thread(target=consume, args=(consumer, seen, enough))
        thread.start()
        for number in range(JOBS):
            if number == JOBS // 3:
                cluster.kill(two)
            if number == JOBS // 2:
                cluster.start()
            if number == JOBS * 2 // 3:
                cluster.kill(one)
            producer.add("q", str(number), replicate=2, retry=2)
        assert enough.wait(PATIENCE_S)
        thread.join()
        assert set(seen) == {str(number) for number in range(JOBS)}


def test_asyncio_survives_the_same(cluster: Cluster) -> None:
    one, two, three = cluster.members

    async def produce(disque: AsyncDisque) -> None:
        for number in range(JOBS):
            if number == JOBS // 2:
                cluster.kill(one)
            await disque.add("q", str(number), replicate=2, retry=2)

    async def work(disque: AsyncDisque, seen: set[bytes]) -> None:
        async with disque.jobs("q", prefetch=8) as jobs:
            async for job in jobs:
                async with job:
                    seen.add(job.body)
                if len(seen) == JOBS:
                    break

    async def scene() -> None:
        seen: set[bytes] = set()
        async with AsyncDisque(config(one, two, three)) as producer, AsyncDisque(config(one, two, three)) as consumer:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(produce(producer), work(consumer, seen))

    asyncio.run(scene())


def test_a_node_that_hangs_is_left(cluster: Cluster) -> None:
    one, two, _ = cluster.members
    with Disque(config(one, two, timeout_ms=300, connect_timeout_ms=300)) as disque:
        assert disque.ping() == "PONG"
        cluster.hang(one)
        try:
            assert disque.ping() == "PONG"
            assert not at(disque, one)
        finally:
            cluster.wake(one)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_consumer_follows_the_producers(cluster: Cluster, kind: str) -> None:
    one, two, _ = cluster.members
    settings = config(one, affinity=True)
    client: Any = Disque(settings) if kind == "blocking" else AsyncDisque(settings)
    with asyncio.Runner() as runner:
        hands = Hands(client, runner)
        with Disque(config(two)) as producer:
            producer.add_many([("q", "b")] * 300, replicate=1)
        got = 0
        while not at(client, two):
            jobs = hands.get("q", count=50, timeout=PATIENCE_S)
            assert jobs
            got += len(jobs)
            hands.ack_many([job.id for job in jobs])
        assert 100 <= got <= 300
        hands.wait(client.close() if kind == "blocking" else client.aclose())


def test_work_is_kept_at_the_node_that_gave_the_job(cluster: Cluster) -> None:
    one, two, _ = cluster.members
    with Disque(config(one, two)) as disque:
        disque.add("q", "b", replicate=1, retry=1)
        [job] = disque.get("q", timeout=PATIENCE_S)
        disque.router.current = (two.host, two.port)
        with job.keep_working() as kept:
            assert disque.get("q", timeout=2.2) == []
            kept.check()
        job.ack()
