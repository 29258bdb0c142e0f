"""What the log says of other nodes."""

from typing import Any, Final, cast

import pytest

from cluster.capabilities import SIZES
from cluster.membership import FAIL, HANDSHAKE, LEAVING, PFAIL, STOPPED, Member, Membership
from disque.server.roster import Roster, others
from tests.server.shell import Log

B: Final = b"b" * 40
NAME: Final = "Node bbbbbbbb at 10.0.0.2:7711"


class Scene:
    """A table of nodes, and what is logged of it."""

    def __init__(self, *nodes: Member) -> None:
        self.membership = Membership(Member(b"a" * 40, b"10.0.0.1", 7711))
        for node in nodes:
            self.membership.add(node)
        self.log = Log()
        self.roster = Roster(self.membership, cast("Any", self.log))

    def said(self) -> list[str]:
        """Look, and give the lines."""
        self.log.lines.clear()
        self.roster.look()
        return list(self.log.lines)


def node(flags: int = 0) -> Member:
    return Member(B, b"10.0.0.2", 7711, flags=flags)


def test_nodes_that_are_known_from_the_start_are_not_announced() -> None:
    assert Scene(node()).said() == []


def test_a_node_that_fails_and_comes_back_is_told_of_once_each_time() -> None:
    peer = node()
    scene = Scene(peer)
    story = []
    for flags in (PFAIL, PFAIL, FAIL, FAIL, 0, 0):
        scene.membership.set_flags(peer, flags)
        story.append(scene.said())
    assert story == [
        [f"{NAME} does not answer: suspected to have failed (fail?)"],
        [],
        [f"{NAME} has failed: the majority of the nodes does not reach it (fail)"],
        [],
        [f"{NAME} is back"],
        [],
    ]


@pytest.mark.parametrize(
    "flags", [(STOPPED, STOPPED | PFAIL, STOPPED | FAIL, FAIL, PFAIL), (STOPPED,), (STOPPED, STOPPED | PFAIL, PFAIL)]
)
def test_a_node_that_stops_as_planned_is_not_suspected(flags: tuple[int, ...]) -> None:
    peer = node()
    scene = Scene(peer)
    story = []
    for each in (*flags, 0):
        scene.membership.set_flags(peer, each)
        story += scene.said()
    assert story == [f"{NAME} has stopped", f"{NAME} is back"]


def test_a_node_that_fails_already_at_the_start_is_told_of() -> None:
    assert "has failed" in Scene(node(FAIL)).said()[0]


def test_a_node_that_leaves_and_one_that_does_not_any_more() -> None:
    peer = node()
    scene = Scene(peer)
    scene.membership.set_flags(peer, LEAVING)
    assert scene.said() == [f"{NAME} is leaving: it takes no new jobs"]
    scene.membership.set_flags(peer, 0)
    assert scene.said() == [f"{NAME} is not leaving any more"]


def test_a_node_joins_when_it_is_met_and_not_before() -> None:
    scene = Scene()
    peer = node(HANDSHAKE)
    scene.membership.add(peer)
    assert scene.said() == []
    scene.membership.set_flags(peer, 0)
    assert scene.said() == [f"{NAME} has joined"]


def test_a_node_that_is_forgotten_is_named_with_the_address_that_it_had() -> None:
    scene = Scene(node())
    scene.membership.forget(B, 1000)
    assert scene.said() == [f"{NAME} was forgotten"]


def test_a_node_without_an_address_is_named_all_the_same() -> None:
    peer = node(PFAIL)
    peer.ip = b""
    assert Scene(peer).said()[0].startswith("Node bbbbbbbb at (no address):7711 ")


def test_a_node_that_does_not_understand_all_that_this_one_says_is_named_once() -> None:
    scene = Scene(node())
    scene.membership.set_capabilities(b"a" * 40, SIZES)
    story = []
    for mask in (SIZES | 1 << 40, 0, 0, 1 << 40, SIZES, 0):
        scene.membership.set_capabilities(B, mask)
        story.append(scene.said())
    line = f"{NAME} runs another version: it does not understand sizes"
    assert story == [[], [line], [], [], [], [line]]


def test_as_long_as_nothing_changes_no_node_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(node())
    scene.said()
    looks: list[Membership] = []

    def looked(table: Membership) -> list[Member]:
        looks.append(table)
        return others(table)

    monkeypatch.setattr("disque.server.roster.others", looked)
    scene.said()
    assert looks == []
    scene.membership.set_flags(scene.membership.nodes[B], PFAIL)
    scene.said()
    assert len(looks) == 1
