import pytest

from tests.core.support import MYSELF, Bench, Client

WRONG = b"-ERR Wrong CLUSTER subcommand or number of arguments\r\n"


@pytest.mark.parametrize(
    "words", [("x",), ("MYID", "x"), ("NODES", "x"), ("INFO", "x"), ("SAVECONFIG", "x"), ("LEAVING", "a", "b")]
)
def test_other_words_are_wrong(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("CLUSTER", *words) == WRONG


def test_myid(client: Client) -> None:
    assert client.raw("CLUSTER", "myid") == b"$40\r\n%b\r\n" % MYSELF


def test_nodes(client: Client) -> None:
    line = b"%b 127.0.0.1:7711 myself 0 0 connected\n" % MYSELF
    assert client.raw("CLUSTER", "NODES") == b"$%d\r\n%b\r\n" % (len(line), line)
    client("HELLO", 3)
    assert client.raw("CLUSTER", "NODES") == b"=%d\r\ntxt:%b\r\n" % (len(line) + 4, line)


def test_info(cluster: Bench) -> None:
    client = cluster.client()
    assert client("CLUSTER", "INFO") == (
        b"cluster_state:ok\r\ncluster_known_nodes:5\r\ncluster_reachable_nodes:4\r\ncluster_size:5\r\n"
        b"cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n"
    )


def test_saveconfig(bench: Bench, client: Client) -> None:
    assert client.raw("CLUSTER", "SAVECONFIG") == b"+OK\r\n"
    assert bench.host.asked == [("save_cluster",)]
    bench.host.refusal = "No space left\non device"
    assert (
        client.raw("CLUSTER", "SAVECONFIG") == b"-ERR error saving the cluster node config: No space left on device\r\n"
    )


def test_leaving(bench: Bench, client: Client) -> None:
    assert client.raw("CLUSTER", "LEAVING") == b"+no\r\n"
    assert client.raw("CLUSTER", "LEAVING", "YES") == b"+OK\r\n"
    assert client.raw("CLUSTER", "LEAVING") == b"+yes\r\n"
    assert b" myself,leaving " in client("CLUSTER", "NODES")
    assert client.raw("CLUSTER", "LEAVING", "no") == b"+OK\r\n"
    assert client.raw("CLUSTER", "LEAVING") == b"+no\r\n"
    assert bench.host.asked == [("save_cluster",)] * 2
    assert client.raw("CLUSTER", "LEAVING", "x") == b"-ERR Wrong argument for CLUSTER LEAVING. Use 'yes' or 'no'\r\n"
