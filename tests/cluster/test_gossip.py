from random import Random

from cluster.gossip import ROWS_MOST, choose
from cluster.member import FAIL, HANDSHAKE, LEAVING, MYSELF, NOADDR, PFAIL, Member


def node(number: int, flags: int = 0, *, linked: bool = True) -> Member:
    made = Member(b"%040x" % number, b"10.0.0.1", 7711, flags=flags)
    made.linked = linked
    return made


def told(*nodes: Member, listener: Member | None = None) -> list[int]:
    return [int(row[0], 16) for row in choose(nodes, listener or node(99), Random(1))]


def test_a_row_says_who_where_and_whether_it_fails() -> None:
    rows = choose([node(1, PFAIL | LEAVING)], node(2), Random(1))
    assert rows == ((b"%040x" % 1, b"10.0.0.1", 7711, 17711, PFAIL),)


def test_nobody_is_told_of_itself_nor_of_the_teller() -> None:
    listener = node(2)
    assert told(node(1, MYSELF), listener, node(3), listener=listener) == [3]


def test_half_met_and_lost_nodes_are_not_told_of() -> None:
    assert told(node(1, HANDSHAKE), node(2, NOADDR), node(3)) == [3]


def test_a_node_without_a_link_is_told_of_only_when_it_fails() -> None:
    assert told(node(1, linked=False), node(2, PFAIL, linked=False), node(3, FAIL, linked=False)) == [2, 3]


def test_in_a_small_cluster_everybody_is_told_of() -> None:
    assert told(*[node(number) for number in range(10)]) == list(range(10))


def test_in_a_large_cluster_a_tenth_is_drawn_and_failing_nodes_have_places_of_their_own() -> None:
    well = [node(number) for number in range(280)]
    failing = [node(1000 + number, FAIL) for number in range(20)]
    numbers = told(*well, *failing)
    assert len(set(numbers)) == len(numbers) == 50
    assert set(range(1000, 1020)) <= set(numbers)


def test_rows_are_bounded() -> None:
    assert len(told(*[node(number) for number in range(3000)])) <= ROWS_MOST
