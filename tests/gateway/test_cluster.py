"""The cluster with the rights of whoever asks."""

import asyncio

import pytest

from disque.client import Config, DisqueError, NodeInfo, WrongPassError
from disque.gateway import cluster as module
from disque.gateway.cluster import Clusters
from tests.client.served import Served
from tests.end_to_end.node import Node

PASSWORD = "open sesame"


@pytest.fixture
def locked(node: Node) -> Node:
    """The node with a password, which it loses again."""
    assert node.ask("CONFIG", "SET", "requirepass", PASSWORD) == b"OK"
    return node


def config_of(node: Node) -> Config:
    return Config(nodes=(("127.0.0.1", node.port),), discover=False, password=PASSWORD, attempts=1)


def test_who_has_no_password_is_not_let_in_and_pushes_nobody_out(locked: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USERS", 1)

    async def both() -> None:
        clusters = Clusters(config_of(locked))
        mine = await clusters.of("default", PASSWORD)
        for wrong in ((None, None), ("default", "wrong"), ("nobody", PASSWORD)):
            with pytest.raises(DisqueError) as refused:
                await clusters.of(*wrong)
            assert refused.value.code in {"NOAUTH", "WRONGPASS"}
        assert await clusters.of("default", PASSWORD) is mine
        other = await clusters.of(None, PASSWORD)
        assert other is not mine
        assert await clusters.of("default", PASSWORD) is not mine, "it was forgotten"
        await clusters.own.client.config_set("requirepass", "")
        await clusters.close()

    asyncio.run(both())


def test_who_comes_while_the_first_node_is_down_is_served_by_one_that_others_know() -> None:
    async def both(other: Served) -> None:
        clusters = Clusters(Config(nodes=(("127.0.0.1", 1),), attempts=1))
        clusters.own.client.router.hear_of([other.address])
        assert await clusters.of(None, None)
        await clusters.close()

    with Served(lambda _words: b"+PONG\r\n") as other:
        asyncio.run(both(other))


def test_jobs_are_taken_at_once_or_when_they_come(node: Node) -> None:
    async def both() -> None:
        clusters = Clusters(config_of(node))
        cluster = clusters.own
        assert await cluster.take((b"mails",), 2, (), 0) == []
        for body in ("one", "two", "three"):
            await cluster.client.add("mails", body)
        jobs = await cluster.take((b"mails",), 2, (), 60)
        assert [job.body for job in jobs] == [b"one", b"two"]
        await cluster.take((b"mails",), 2, (), 60)
        later = asyncio.create_task(cluster.take((b"mails",), 2, (), 60))
        await asyncio.sleep(0)
        await cluster.client.add("mails", "four")
        assert [job.body for job in await later] == [b"four"]
        await clusters.close()

    assert node.ask("CONFIG", "SET", "requirepass", "") == b"OK"
    asyncio.run(both())


def test_each_node_is_asked_and_one_that_is_gone_is_told_of(node: Node) -> None:
    async def both() -> None:
        clusters = Clusters(config_of(node))
        gone = NodeInfo("x" * 40, "127.0.0.1", 1, 100)
        cluster = clusters.own
        [here] = await cluster.nodes()

        async def nodes() -> list[NodeInfo]:
            return [here, gone]

        cluster.nodes = nodes  # type: ignore[method-assign]  # one more node, which is down
        answers = await cluster.at_each(lambda client: client.ping())
        assert answers[0] == (here, "PONG")
        assert isinstance(answers[1][1], DisqueError)
        del cluster.nodes  # type: ignore[method-assign]  # now it is gone for all others, too
        assert set(cluster._single) == {(node.host, node.port) for node in (here, gone)}
        assert await cluster.nodes() == [here]
        assert set(cluster._single) == {(here.host, here.port)}
        await clusters.close()

    asyncio.run(both())


def test_the_only_node_is_known_as_such() -> None:
    async def both() -> None:
        clusters = Clusters(Config(nodes=(("127.0.0.1", 1),)))
        assert clusters.circuit.is_alone()
        clusters.own.client.router.hear_of([("127.0.0.1", 2)])
        assert not clusters.circuit.is_alone()
        await clusters.close()

    asyncio.run(both())


def test_a_wrong_password_is_an_error_of_its_own(locked: Node) -> None:
    async def both() -> None:
        clusters = Clusters(config_of(locked))
        with pytest.raises(WrongPassError):
            await clusters.of("default", "wrong")
        await clusters.own.client.config_set("requirepass", "")
        await clusters.close()

    asyncio.run(both())
