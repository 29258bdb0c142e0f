"""What does not belong to a cluster, and tries: it is refused, the log says so, and nothing else happens."""

import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.cluster import NODE_TIMEOUT_MS, SECRET, Cluster, id_of, rows
from tests.end_to_end.cluster_load import cluster_load
from tests.end_to_end.conftest import MakeCluster, StartNode
from tests.end_to_end.node import LOOPBACK, SLOW_POLL_S, Node, Raw, free_port, request, until

BUS: Final = 10_000  # the bus port is so far from the other one

#: What somebody may send who takes the bus port for something else, or means harm.
GARBAGE: Final = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "RESP": request("PING") * 100,
    "TLS": bytes.fromhex("16030100c8010000c4030300") + bytes(200),
    "zeros": bytes(100_000),
    "ones": b"\xff" * 100_000,
    "an empty frame": (0).to_bytes(4, "big"),
    "a frame that is never sent": (1 << 20).to_bytes(4, "big") + b"x",
    "a frame without end": (0xFFFFFFFF).to_bytes(4, "big") + b"x" * 1000,
}


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("shared"), 2)
    cluster.start_whole()
    yield cluster
    cluster.discard()


@pytest.fixture
def cluster(module_cluster: Cluster) -> Iterator[Cluster]:
    """Give two nodes that stay well, whatever a test does to them."""
    yield module_cluster
    module_cluster.await_whole()
    first, second = module_cluster.members
    job_id = first.ask("ADDJOB", "afterwards", "body", 5000, "REPLICATE", 2)
    assert [job[1] for job in second.ask("GETJOB", "TIMEOUT", 30_000, "FROM", "afterwards")] == [job_id]
    assert second.ask("ACKJOB", job_id) == 1


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_on_the_bus_port_ends_its_connection(cluster: Cluster, data: bytes) -> None:
    node = cluster.members[0]
    with closing(Raw((node.host, node.port + BUS))) as stranger:
        stranger.send(data)
        stranger.all()  # until it is closed


def test_garbage_is_logged_once_a_minute_at_most(cluster: Cluster) -> None:
    node = cluster.members[0]
    for _ in range(20):
        with closing(Raw((node.host, node.port + BUS))) as stranger:
            stranger.send(GARBAGE["HTTP"])
            stranger.all()
    node.await_log("Refused a link")
    assert node.log().count("Refused a link") < 5, "more than a line a minute, however long the tests before took"


@pytest.mark.slow
def test_who_says_nothing_on_the_bus_port_is_closed_after_a_while(cluster: Cluster) -> None:
    node = cluster.members[0]
    with closing(Raw((node.host, node.port + BUS))) as stranger:
        assert stranger.all() == b"", "who does not introduce itself is told nothing"


def test_frames_on_the_port_of_clients_are_no_requests(cluster: Cluster) -> None:
    node = cluster.members[0]
    with closing(Raw((node.host, node.port))) as stranger:
        stranger.send(b"\x00\x00\x00\x05" + b"hello\r\n" + b"*-5\r\n$x\r\n")
        stranger.end()
        assert stranger.all().startswith(b"-ERR")


def test_a_node_with_another_secret_stays_outside(cluster: Cluster, start_node: StartNode) -> None:
    member = cluster.members[0]
    stranger = start_node("--cluster-secret", "another", "--cluster-node-timeout", str(NODE_TIMEOUT_MS))
    assert member.ask("CLUSTER", "MEET", LOOPBACK, stranger.port) == b"OK"
    assert stranger.ask("CLUSTER", "MEET", LOOPBACK, member.port) == b"OK"
    until(lambda: "Refused a link" in stranger.log() + member.log(), "a line in a log")
    await_alone(stranger)
    cluster.await_whole()


def test_a_node_without_a_secret_stays_outside(cluster: Cluster, start_node: StartNode) -> None:
    stranger = start_node("--cluster-node-timeout", str(NODE_TIMEOUT_MS))
    assert stranger.ask("CLUSTER", "MEET", LOOPBACK, cluster.members[0].port) == b"OK"
    await_alone(stranger)
    cluster.await_whole()


def test_a_meeting_with_nobody_is_given_up(cluster: Cluster) -> None:
    node = cluster.members[0]
    assert node.ask("CLUSTER", "MEET", LOOPBACK, free_port()) == b"OK"
    assert node.ask("CLUSTER", "MEET", "no.such.host.invalid", 7711) == b"OK"
    cluster.await_whole()


def test_a_meeting_with_oneself_is_given_up(cluster: Cluster) -> None:
    node = cluster.members[0]
    assert node.ask("CLUSTER", "MEET", LOOPBACK, node.port) == b"OK"
    assert node.ask("CLUSTER", "MEET", "localhost", node.port) == b"OK"
    cluster.await_whole()


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR unknown command\r\n"])
def test_a_meeting_with_somebody_who_is_no_node_is_given_up(cluster: Cluster, greeting: bytes) -> None:
    node = cluster.members[0]
    with closing(socket.create_server((LOOPBACK, 0))) as other:
        other.settimeout(30)
        port = other.getsockname()[1]
        assert node.ask("CLUSTER", "MEET", LOOPBACK, port, port) == b"OK"
        connection, _ = other.accept()
        with closing(connection):
            connection.sendall(greeting)
            cluster.await_whole()


def test_a_meeting_with_the_port_of_clients_is_given_up(cluster: Cluster, start_node: StartNode) -> None:
    node = cluster.members[0]
    other = start_node("--cluster-secret", SECRET)
    assert node.ask("CLUSTER", "MEET", LOOPBACK, other.port, other.port) == b"OK"
    cluster.await_whole()
    assert other.ask("PING") == b"PONG"
    assert len(rows(other)) == 1


@pytest.mark.slow
def test_a_copied_directory_is_noticed_and_the_first_node_goes_on(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    original = cluster.members[0]
    cluster.stop(original)
    copy = cluster.make()
    shutil.copytree(original.directory, copy.directory, dirs_exist_ok=True)
    copy.log_path.unlink()
    cluster.start_whole()
    with cluster_load(cluster, 2) as load:
        load.more()
        copy.start()
        assert id_of(copy) == id_of(original)
        until(lambda: any(twin_is_named(node) for node in [*cluster.members, copy]), "a line in a log", SLOW_POLL_S)
        load.more()
        copy.signal(signal.SIGKILL)
        copy.ended()
        cluster.await_whole()
    assert not load.account.errors


def twin_is_named(node: Node) -> bool:
    return "same node ID" in node.log() or "another process at" in node.log()


def await_alone(node: Node) -> None:
    until(lambda: len(rows(node)) == 1, lambda: f"a node alone:\n{node.ask('CLUSTER', 'NODES').decode()}", SLOW_POLL_S)


# -- nodes.conf ----------------------------------------------------------------------------------------------------


def torn(text: str) -> str:
    return text[: len(text) // 2].rsplit(" ", 1)[0] + "\n"


EDITS: Final = {
    "torn": torn,
    "a word too many": lambda text: text.replace("connected\n", "connected indeed\n"),
    "an ID that is none": lambda text: "x" + text[1:],
    "two nodes that are this one": lambda text: text.replace(" noflags ", " myself "),
    "a flag that is none": lambda text: text.replace("noflags", "nonsense"),
    "a port that is none": lambda text: text.replace(":", ":9"),
    "the same node twice": lambda text: text + text.splitlines(keepends=True)[0],
    "another file": lambda _: "port 7711\nappendonly yes\n",
    "binary": lambda _: "\x00\x01\x02" * 100,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_damaged_nodes_conf_stops_the_start_and_says_where(
    cluster: Cluster, make_node: StartNode, tmp_path: Path, edit: Callable[[str], str]
) -> None:
    good = (cluster.members[0].directory / "nodes.conf").read_text()
    directory = tmp_path / "copy"
    directory.mkdir()
    (directory / "nodes.conf").write_text(edit(good))
    node = make_node(directory=directory).launch()
    assert node.ended() == 1
    assert "Unrecoverable error: corrupted cluster config file" in node.log()
    assert (directory / "nodes.conf").read_text() == edit(good), "it stays for whoever repairs it"


def test_an_empty_nodes_conf_is_a_new_node(make_node: StartNode, tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").touch()
    node = make_node(directory=tmp_path).start()
    assert len(rows(node)) == 1
