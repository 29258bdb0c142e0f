"""Operations on nodes, and the figures that scale consumers."""

from disque.client import NodeInfo
from disque.gateway.rest.nodes import state_of
from tests.end_to_end.node import Node
from tests.gateway.rest.conftest import Api


def test_nodes_and_their_figures(api: Api, node: Node) -> None:
    [found] = api("GET", "/nodes")["nodes"]
    assert (found["port"], found["state"], found["error"]) == (node.port, "up", None)
    assert found["maxmemory"] > 0
    shown = api("GET", f"/nodes/{found['id']}")
    assert shown["info"]["tcp_port"] == node.port
    assert api.refused("GET", "/nodes/x", status=404) == "there is no node with this ID"


def test_states_in_words() -> None:
    states = [state_of(NodeInfo("", "", 1, priority)) for priority in (1, 5, 10, 100)]
    assert states == ["up", "no link", "may have failed", "failed or leaving"]


def test_backlog_and_latency_of_a_queue(api: Api) -> None:
    nothing = {"queue": "mails", "backlog": 0, "in_flight": 0, "work": 0, "latency_seconds": 0}
    assert api("GET", "/scaling/mails") == nothing
    for _ in range(3):
        api.add()
    found = api("GET", "/scaling/mails")
    assert (found["backlog"], found["work"]) == (3, 3)
    assert found["latency_seconds"] >= 0


def test_the_beginning_tells_where_to_go(api: Api) -> None:
    assert api("GET", "")["openapi"] == "/api/v1/openapi.json"
