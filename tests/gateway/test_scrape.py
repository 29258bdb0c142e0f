"""Metrics of all nodes as one text."""

from prometheus_client.parser import text_string_to_metric_families

from disque.gateway.scrape import labelled, merged
from tests.end_to_end.node import Node
from tests.gateway.support import Gateway

ONE = '# HELP a_total Some.\n# TYPE a_total counter\na_total 1\n# TYPE b gauge\nb{queue="x{ y"} 2\n'
TWO = "# HELP a_total Some.\n# TYPE a_total counter\na_total 5\n# TYPE c gauge\nc 7\n"


def test_each_family_is_there_once_and_each_sample_has_its_node() -> None:
    lines = merged([("one:1", ONE), ("two:2", TWO)])
    assert len([line for line in lines if line.startswith("# TYPE a_total")]) == 1
    families = {family.name: family for family in text_string_to_metric_families("\n".join(lines) + "\n")}
    assert [(one.labels["node"], one.value) for one in families["a"].samples] == [("one:1", 1.0), ("two:2", 5.0)]
    assert families["b"].samples[0].labels == {"node": "one:1", "queue": "x{ y"}
    assert families["c"].samples[0].labels == {"node": "two:2"}


def test_labels_stand_in_front() -> None:
    assert labelled("a 1", "n") == 'a{node="n"} 1'
    assert labelled('a{b="c d"} 1', "n") == 'a{node="n",b="c d"} 1'


def test_a_gateway_tells_of_itself_and_of_all_nodes(gateway: Gateway, node: Node) -> None:
    node.ask("ADDJOB", "mails", "x", 1000)
    text = gateway.ask("GET", "/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    address = f"127.0.0.1:{node.port}"
    [up] = families["disque_node_up"].samples
    assert (up.labels, up.value) == ({"node": address}, 1.0)
    [length] = [one for one in families["disque_queue_length"].samples if one.labels["queue"] == "mails"]
    assert (length.labels["node"], length.value) == (address, 1.0)
    assert "disque_gateway_requests" in families
    own = gateway.ask("GET", "/metrics/gateway").text
    assert "disque_queue_length" not in own
    assert "disque_gateway_polls" in own


def test_where_nodes_want_a_password_so_do_their_metrics(gateway: Gateway, node: Node) -> None:
    node.ask("CONFIG", "SET", "requirepass", "open sesame")
    raw = node.raw()
    try:
        answer = gateway.ask("GET", "/metrics")
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert gateway.ask("GET", "/metrics/gateway").status == 200
    finally:
        assert raw.ask("AUTH", "open sesame") == b"OK"
        assert raw.ask("CONFIG", "SET", "requirepass", "") == b"OK"
