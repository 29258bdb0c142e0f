import pytest

from cluster.member import MEET
from cluster.membership import HANDSHAKE, Member
from tests.core.support import MYSELF, Bench, Client, assert_counters_are_true

WRONG = b"-ERR Wrong CLUSTER subcommand or number of arguments\r\n"


@pytest.mark.parametrize(
    "words",
    [
        *(("x",), ("MYID", "x"), ("NODES", "x"), ("INFO", "x"), ("SAVECONFIG", "x"), ("LEAVING", "a", "b")),
        *(("MEET", "127.0.0.1"), ("MEET", "127.0.0.1", "1", "2", "3"), ("FORGET",), ("FORGET", "a", "b")),
        ("RESET", "SOFT", "x"),
    ],
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
        b"under_replicated_jobs:0\r\none_copy_jobs:0\r\nrepaired_jobs:0\r\n"
    )


class TestState:
    def state(self, bench: Bench) -> bytes:
        line: bytes = bench.client()("CLUSTER", "INFO").split(b"\r\n")[0]
        return line

    def test_it_is_ok_as_long_as_the_default_can_be_met(self, cluster: Bench) -> None:
        cluster.fail(cluster.peers[0])
        cluster.fail(cluster.peers[1])
        assert self.state(cluster) == b"cluster_state:ok"

    def test_it_is_degraded_when_only_fewer_copies_can_be_made(self, cluster: Bench) -> None:
        for peer in cluster.peers[:3]:
            cluster.fail(peer)
        assert self.state(cluster) == b"cluster_state:degraded"
        cluster.set("default-replicate", 2)
        assert self.state(cluster) == b"cluster_state:ok"

    def test_it_is_fail_when_no_job_can_be_added(self, bench: Bench) -> None:
        assert self.state(bench) == b"cluster_state:ok"
        bench.membership.leaving = True
        assert self.state(bench) == b"cluster_state:fail"
        bench.membership.leaving = False
        bench.node.misconf = b"MISCONF no"
        assert self.state(bench) == b"cluster_state:fail"

    def test_memory_counts_as_adding_sees_it(self, cluster: Bench) -> None:
        client = cluster.client()
        client.add("q", "x" * 8000, "REPLICATE", 1)
        cluster.set("maxmemory", cluster.node.used * 100 // 80)
        assert self.state(cluster) == b"cluster_state:ok", "copies go to the four others"
        for peer in cluster.peers[:2]:
            cluster.fail(peer)
        assert self.state(cluster) == b"cluster_state:degraded"
        cluster.set("maxmemory", cluster.node.used)
        assert self.state(cluster) == b"cluster_state:fail"


def test_info_shows_zones_that_have_a_label(cluster: Bench) -> None:
    first, second = [peer.id for peer in cluster.peers[:2]]
    cluster.membership.set_zone(first, b"rack-1")
    cluster.membership.set_zone(second, b"rack-1")
    assert cluster.client()("CLUSTER", "INFO").split(b"\r\n")[9:] == [
        b"cluster_zone:",
        b"cluster_zone_rack-1:%b,%b" % (first, second),
        b"",
    ]


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


# -- MEET -------------------------------------------------------------------------------------------------------------


def half_met(bench: Bench) -> list[Member]:
    return [member for member in bench.membership.nodes.values() if member.flags & HANDSHAKE]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0", "node-2.example.org", "localhost"])
def test_meet_begins_to_join_whoever_is_at_an_address_or_a_host_name(bench: Bench, client: Client, host: str) -> None:
    assert client.raw("CLUSTER", "MEET", host, 7712) == b"+OK\r\n"
    (member,) = half_met(bench)
    assert (member.ip, member.port, member.bus_port) == (host.encode(), 7712, 17712)
    assert member.flags & MEET
    assert b" handshake " in client("CLUSTER", "NODES")


def test_meet_with_a_bus_port_of_its_own(bench: Bench, client: Client) -> None:
    assert client.raw("CLUSTER", "MEET", "127.0.0.1", 60000, 4000) == b"+OK\r\n"
    assert (half_met(bench)[0].port, half_met(bench)[0].bus_port) == (60000, 4000)


def test_meet_while_it_is_going_on_adds_nothing(bench: Bench, client: Client) -> None:
    for _ in range(2):
        assert client.raw("CLUSTER", "MEET", "127.0.0.1", 7712) == b"+OK\r\n"
    assert len(half_met(bench)) == 1


@pytest.mark.parametrize(
    ("ports", "shown"), [(("x",), b"x"), (("7711", "1.5"), b"1.5"), (("",), b""), (("7\r\n",), b"7  ")]
)
def test_meet_needs_ports_that_are_numbers(bench: Bench, client: Client, ports: tuple[str, ...], shown: bytes) -> None:
    assert client.raw("CLUSTER", "MEET", "127.0.0.1", *ports) == b"-ERR Invalid TCP port specified: %b\r\n" % shown
    assert half_met(bench) == []


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("256.1.1.1", "1"), b"256.1.1.1:1"),
        (("a b", "1"), b"a b:1"),
        (("", "1"), b":1"),
        (("a\r\n", "1"), b"a  :1"),
        (("127.0.0.1", "0"), b"127.0.0.1:0"),
        (("127.0.0.1", "-1"), b"127.0.0.1:-1"),
        (("127.0.0.1", "55536"), b"127.0.0.1:55536"),
        (("127.0.0.1", "65536", "1"), b"127.0.0.1:65536:1"),
        (("127.0.0.1", "1", "0"), b"127.0.0.1:1:0"),
        (("127.0.0.1", "1", "65536"), b"127.0.0.1:1:65536"),
    ],
)
def test_meet_needs_an_address(bench: Bench, client: Client, words: tuple[str, ...], shown: bytes) -> None:
    assert client.raw("CLUSTER", "MEET", *words) == b"-ERR Invalid node address specified: %b\r\n" % shown
    assert half_met(bench) == []


def test_meet_is_refused_while_too_many_are_being_met(client: Client) -> None:
    replies = {client.raw("CLUSTER", "MEET", "127.0.0.1", port) for port in range(1000, 1100)}
    assert replies == {b"+OK\r\n"}
    assert client.error("CLUSTER", "MEET", "127.0.0.1", 2000).startswith("ERR Too many nodes are being met")


# -- FORGET -----------------------------------------------------------------------------------------------------------


def test_forget_takes_a_node_out_of_the_cluster(cluster: Bench) -> None:
    client = cluster.client()
    gone = cluster.peers[0].id
    assert client.raw("CLUSTER", "FORGET", gone) == b"+OK\r\n"
    assert gone not in cluster.membership.nodes
    assert gone not in cluster.node.peers
    assert b"cluster_size:4\r\n" in client("CLUSTER", "INFO")
    assert client.raw("CLUSTER", "FORGET", gone) == b"-ERR Unknown node %b\r\n" % gone


def test_forget_takes_the_node_out_of_all_holders(cluster: Bench) -> None:
    client = cluster.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 5)
    ((job_id, job),) = [(job.id, job) for shard in cluster.node.shards for job in shard.values()]
    cluster.confirm(job_id, *cluster.peers)
    assert cluster.peers[0].id in job.holders
    client = cluster.client()
    client("CLUSTER", "FORGET", cluster.peers[0].id)
    cluster.advance(1000)
    assert cluster.peers[0].id not in job.holders
    assert len(job.holders) == 4


@pytest.mark.parametrize(
    ("word", "reply"),
    [
        ("x", "ERR Invalid node identifier"),
        ("a" * 41, "ERR Invalid node identifier"),
        ("c" * 40, "ERR Unknown node " + "c" * 40),
        ("\r\n" + "c" * 38, "ERR Unknown node   " + "c" * 38),
        (MYSELF, "ERR I tried hard but I can't forget myself..."),
    ],
)
def test_forget_needs_another_known_node(client: Client, word: str | bytes, reply: str) -> None:
    assert client.error("CLUSTER", "FORGET", word) == reply


# -- RESET ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("soft",), ("HARD",)])
def test_reset_drops_jobs_and_nodes_and_ends_all_waits(cluster: Bench, words: tuple[str, ...]) -> None:
    adder, getter, admin = cluster.client(), cluster.client(), cluster.client()
    admin("ADDJOB", "q", "body", 0, "REPLICATE", 1)
    adder.send("ADDJOB", "q", "body", 0, "REPLICATE", 3)
    getter.send("GETJOB", "FROM", "other")
    assert admin.raw("CLUSTER", "RESET", *words) == b"+OK\r\n"
    assert getter.read() is None
    assert str(adder.read()).startswith("NOREPL job removed")
    assert cluster.node.jobs_registered() == 0
    assert cluster.node.queues == {}
    assert (cluster.membership.known, cluster.node.peers, cluster.node.linked) == (1, {}, [])
    assert cluster.host.asked == [("save_cluster",)]
    assert_counters_are_true(cluster.node)


def test_reset_soft_keeps_the_id_and_hard_takes_a_new_one(bench: Bench, client: Client) -> None:
    client("CLUSTER", "RESET", "SOFT")
    assert client("CLUSTER", "MYID") == MYSELF
    client("CLUSTER", "RESET", "HARD")
    new = client("CLUSTER", "MYID")
    assert new != MYSELF
    assert list(bench.membership.nodes) == [new]
    job_id = client("ADDJOB", "q", "body", 0)
    assert job_id[2:10] == new[:8], "IDs of jobs begin with their node"
    assert bench.job(job_id).holders == (new,)


def test_after_a_reset_the_node_is_another_process_to_the_others(bench: Bench, client: Client) -> None:
    before = bench.node.start
    client("CLUSTER", "RESET")
    assert bench.node.start != before


def test_reset_keeps_that_the_node_is_leaving(bench: Bench, client: Client) -> None:
    client("CLUSTER", "LEAVING", "yes")
    client("CLUSTER", "RESET")
    assert bench.membership.leaving


def test_reset_knows_two_words(bench: Bench, client: Client) -> None:
    client("ADDJOB", "q", "body", 0)
    assert client.raw("CLUSTER", "RESET", "x") == b"-ERR syntax error\r\n"
    assert bench.node.jobs_registered() == 1


def test_reset_says_when_nodes_conf_cannot_be_written(bench: Bench, client: Client) -> None:
    bench.host.refusal = "No space left on device"
    assert client.error("CLUSTER", "RESET").startswith("ERR error saving the cluster node config")
