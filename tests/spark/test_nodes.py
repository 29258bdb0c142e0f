from collections.abc import Sequence
from typing import Any

import pytest

from disque.client import Config, Disque, DisqueError, UnavailableError
from disque.client.delivery import Reply
from disque.spark.nodes import COOLDOWN_S, NodeError, Nodes, greet, grouped, nobody, patiently, send
from tests.end_to_end.node import Node
from tests.spark.support import client_of

A, B, C = ("a", 1), ("b", 2), ("c", 3)


class Known(Nodes):
    """Nodes that are not there: those that ``know`` jobs answer 1 for these and 0 for others; others do not answer."""

    def __init__(self, know: dict[tuple[str, int], str]) -> None:
        self.now_s = 0.0
        super().__init__(Disque(), lambda: self.now_s)
        self.know = know
        self.asked: list[tuple[str, str]] = []

    def addresses(self) -> list[tuple[str, int]]:
        return [A, B, C]

    def ask(self, client: Disque, ids: Sequence[str]) -> list[Reply]:
        [address] = client.config.nodes
        if address not in self.know:
            raise DisqueError("gone")
        self.asked.append((address[0], "".join(ids)))
        return [int(one in self.know[address]) for one in ids]


def is_one(reply: Reply) -> bool:
    return reply == 1


def test_the_probable_node_is_asked_first_and_the_others_only_about_the_rest() -> None:
    nodes = Known({A: "xy", B: "z", C: ""})
    answers = nodes.about("xyz", nodes.ask, is_one, {"x": A, "y": C}.get)
    assert answers == ({"x": 1, "y": 1, "z": 1}, [])
    assert sorted(nodes.asked) == [("a", "xz"), ("a", "y"), ("b", "z"), ("c", "y")]


def test_what_nobody_knows_is_left_out() -> None:
    nodes = Known({A: "", B: "", C: ""})
    assert nodes.about("x", nodes.ask, is_one, nobody) == ({}, [])


def test_nodes_that_do_not_answer_are_told_and_left_alone_for_a_while() -> None:
    nodes = Known({A: "x", C: ""})
    assert nodes.about("xy", nodes.ask, is_one, nobody) == ({"x": 1}, [B])
    assert [address for address, _ in nodes.answering()] == [A, C]
    assert nodes.about("xy", nodes.ask, is_one, nobody) == ({"x": 1}, [B])
    nodes.now_s += COOLDOWN_S
    assert [address for address, _ in nodes.answering()] == [A, B, C]


def test_one_that_does_not_answer_is_not_waited_for_again_in_the_same_round() -> None:
    nodes = Known({A: "x"})
    waited: list[tuple[str, int]] = []

    def ask(client: Disque, ids: Sequence[str]) -> list[Reply]:
        waited.extend(client.config.nodes)
        return nodes.ask(client, ids)

    assert nodes.about("xy", ask, is_one, {"x": B, "y": C}.get) == ({"x": 1}, [B, C])
    assert sorted(waited) == [A, A, B, C]


def test_each_is_waited_for_as_the_client_says_or_less() -> None:
    client = Disque(Config(nodes=(A, B), timeout_ms=5000, connect_timeout_ms=700))
    assert Nodes(client).one(A).config == Config(
        nodes=(A,), timeout_ms=5000, connect_timeout_ms=700, discover=False, attempts=2
    )
    assert Nodes(client, patience_ms=1000).one(B).config == Config(
        nodes=(B,), timeout_ms=1000, connect_timeout_ms=700, discover=False, attempts=1
    )


def test_when_all_have_failed_all_are_asked() -> None:
    nodes = Known({})
    for address in (A, B, C):
        nodes.failed(address)
    assert len(nodes.answering()) == 3


def test_each_turn_goes_to_another_node() -> None:
    turns = [grouped("x", [A, B, C], {"x": B}.get, turn) for turn in range(3)]
    assert turns == [{B: ["x"]}, {C: ["x"]}, {A: ["x"]}]


def test_a_real_node(node: Node) -> None:
    nodes = Nodes(client_of(node))
    assert nodes.ask_each(b"QLEN", b"mails") == {("127.0.0.1", node.port): 0}
    job_id = node.ask("ADDJOB", "mails", "a", 0).decode()
    assert nodes.maker()(job_id) == ("127.0.0.1", node.port)
    assert nodes.maker()("D-00000000-") is None
    assert send(nodes.client, [(b"PING",), (b"QLEN", b"mails")]) == [b"PONG", 1]
    assert send(nodes.client, []) == []
    nodes.close()


def test_nodes_are_learnt_from_those_that_are_given(node: Node) -> None:
    nodes = Nodes(Disque(Config(nodes=(("127.0.0.1", node.port),))))
    assert nodes.addresses() == [("127.0.0.1", node.port)]
    nodes.close()


class Answering(Disque):
    """A client whose nodes answer everything with one reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(Config(nodes=(A,)))
        self.reply = reply

    def drive(self, flow: Any, interrupt: Any = None) -> Any:
        del interrupt
        flow.send(None)
        return [self.reply]


@pytest.mark.parametrize("reply", [{b"server": b"redis"}, [b"server", b"redis"], DisqueError("ERR unknown command")])
def test_what_is_no_node_is_named(reply: Reply) -> None:
    with pytest.raises(NodeError, match="the server at a:1 is not a Disque node; is it a Redis"):
        greet(Answering(reply))


def test_other_errors_of_a_node_stay_what_they_are(node: Node) -> None:
    with pytest.raises(DisqueError, match="NOAUTH"):
        greet(Answering(DisqueError("NOAUTH x")))
    with client_of(node) as client:
        greet(client)


class Away:
    """A cluster of which no node can be reached so many times. Time goes on when somebody pauses."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.now_s = 0.0

    def work(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise UnavailableError("no node could be used")
        return "done"

    def clock(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_time_without_any_node_is_waited_for() -> None:
    away = Away(3)
    assert patiently(away.work, 10, away.clock, away.pause) == "done"
    assert away.now_s > 0


def test_but_not_for_ever() -> None:
    away = Away(1000)
    with pytest.raises(UnavailableError):
        patiently(away.work, 10, away.clock, away.pause)
    assert 10 <= away.now_s < 11
