import pytest

from cluster.membership import FAIL, HANDSHAKE, LEAVING, MYSELF, NOADDR, PFAIL, Membership, Node, flags_text, is_node_id

A, B, C = b"a" * 40, b"b" * 40, b"c" * 40
NOW_MS = 1_000_000


def cluster(*others: Node) -> Membership:
    membership = Membership(Node(A, b"10.0.0.1", 7711))
    for node in others:
        membership.add(node)
    membership.dirty = False
    return membership


def node(node_id: bytes = B, flags: int = 0, *, linked: bool = True) -> Node:
    other = Node(node_id, b"10.0.0.2", 7712, flags=flags)
    other.linked = linked
    return other


class TestNode:
    def test_the_bus_is_10000_above_the_port_unless_told_otherwise(self) -> None:
        assert Node(A, b"", 7711).bus_port == 17711
        assert Node(A, b"", 7711, 4000).bus_port == 4000

    @pytest.mark.parametrize("text", [b"", b"a" * 39, b"a" * 41, b"A" * 40, b"g" * 40, b" " + b"a" * 39])
    def test_an_id_is_40_lower_hexadecimal_digits(self, text: bytes) -> None:
        assert not is_node_id(text)
        assert is_node_id(b"0123456789abcdef" + b"0" * 24)

    @pytest.mark.parametrize(
        ("flags", "text"),
        [
            (0, b"noflags"),
            (MYSELF, b"myself"),
            (MYSELF | LEAVING, b"myself,leaving"),
            (PFAIL | NOADDR, b"fail?,noaddr"),
            (FAIL | HANDSHAKE, b"fail,handshake"),
        ],
    )
    def test_flags_have_names_in_a_fixed_order(self, flags: int, text: bytes) -> None:
        assert flags_text(flags) == text


class TestAlone:
    def test_a_node_alone_is_a_cluster_of_one(self) -> None:
        membership = cluster()
        assert (membership.size, membership.known, membership.reachable()) == (1, 1, [])
        assert membership.nodes == {A: membership.myself}
        assert membership.myself.flags & MYSELF

    def test_nodes_shows_it_connected(self) -> None:
        assert cluster().nodes_lines(NOW_MS) == A + b" 10.0.0.1:7711 myself 0 0 connected\n"

    def test_hello_gives_it_priority_1(self) -> None:
        assert cluster().hello(NOW_MS) == [(A, b"10.0.0.1", 7711, 1)]

    def test_an_address_not_yet_learnt_is_empty(self) -> None:
        membership = Membership(Node(A, b"", 29002))
        membership.leaving = True
        assert membership.nodes_lines(NOW_MS) == A + b" :29002 myself,leaving 0 0 connected\n"


class TestSeveral:
    def test_reachable_leaves_out_failing_leaving_and_half_met_nodes(self) -> None:
        good = node()
        membership = cluster(good, *[node(b"%040x" % flag, flag) for flag in (PFAIL, FAIL, LEAVING, HANDSHAKE)])
        assert membership.reachable() == [good]

    def test_reachable_does_not_ask_for_a_link(self) -> None:
        good = node(linked=False)
        assert cluster(good).reachable() == [good]

    def test_size_counts_failing_nodes_but_not_those_half_met(self) -> None:
        membership = cluster(node(B, FAIL), node(C, HANDSHAKE))
        assert (membership.size, membership.known) == (2, 3)

    def test_a_change_of_flags_changes_the_answers(self) -> None:
        other = node()
        membership = cluster(other)
        membership.set_flags(other, PFAIL)
        assert membership.reachable() == []
        membership.set_flags(other, 0)
        assert membership.reachable() == [other]

    @pytest.mark.parametrize(
        ("flags", "linked", "priority"),
        [
            (0, True, 1),
            (0, False, 5),
            (PFAIL, True, 10),
            (PFAIL, False, 10),
            (FAIL, True, 100),
            (LEAVING, True, 100),
        ],
    )
    def test_priority_ranks_the_nodes(self, flags: int, linked: bool, priority: int) -> None:
        other = node(flags=flags, linked=linked)
        assert cluster(other).priority(other) == priority

    def test_nodes_shows_a_line_each_with_times_and_link(self) -> None:
        other = node(flags=PFAIL, linked=False)
        other.ping_sent_ms = 5
        other.pong_received_ms = 4
        lines = cluster(other).nodes_lines(NOW_MS).split(b"\n")
        assert lines[1:] == [B + b" 10.0.0.2:7712 fail? 5 4 disconnected", b""]

    def test_nodes_shows_no_time_in_the_future(self) -> None:
        other = node()
        other.pong_received_ms = NOW_MS + 9
        assert b" 0 1000000 connected\n" in cluster(other).nodes_lines(NOW_MS)

    def test_info_counts_nodes_and_messages_in_the_order_of_the_reply(self) -> None:
        membership = cluster(node(), node(C, FAIL))
        membership.messages_sent = 7
        membership.messages_received = 8
        assert membership.info() == [
            (b"cluster_known_nodes", 3),
            (b"cluster_reachable_nodes", 1),
            (b"cluster_size", 3),
            (b"cluster_stats_messages_sent", 7),
            (b"cluster_stats_messages_received", 8),
        ]


class TestLeaving:
    def test_leaving_shows_in_flags_and_priority(self) -> None:
        membership = cluster()
        membership.leaving = True
        assert membership.leaving
        assert membership.hello(NOW_MS)[0][3] == 100
        membership.leaving = False
        assert not membership.leaving
        assert membership.hello(NOW_MS)[0][3] == 1


class TestDirty:
    def test_reading_leaves_nothing_to_write(self) -> None:
        membership = cluster(node())
        membership.reachable()
        membership.nodes_lines(NOW_MS)
        assert not membership.dirty

    def test_a_new_node_is_to_be_written(self) -> None:
        membership = cluster()
        membership.add(node())
        assert membership.dirty

    def test_leaving_is_to_be_written_when_it_changes(self) -> None:
        membership = cluster()
        seen: list[bool] = []
        for leaving in (False, True):
            membership.leaving = leaving
            seen.append(membership.dirty)
        assert seen == [False, True]

    def test_an_address_is_to_be_written_when_it_changes(self) -> None:
        other = node()
        membership = cluster(other)
        seen: list[bool] = []
        for ip in (b"10.0.0.2", b"10.0.0.3"):
            membership.set_address(other, ip, 7712, 17712)
            seen.append(membership.dirty)
        assert seen == [False, True]
        assert other.ip == b"10.0.0.3"


def test_adding_a_node_twice_is_a_fault_of_the_caller() -> None:
    membership = cluster(node())
    with pytest.raises(AssertionError):
        membership.add(node())
