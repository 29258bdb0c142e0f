from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.membership import HANDSHAKE, LEAVING, MYSELF, NOADDR, NODES_MOST, Member, Membership
from cluster.nodesfile import NodesFileError, parse, render

A, B, C = b"a" * 40, b"b" * 40, b"c" * 40
NOW_MS = 1_000_000
OWN_LINE = A + b" 10.0.0.1:7711 myself 0 0 connected\n"
SAVED = b"vars saved %d\n" % NOW_MS


def fault(text: bytes) -> NodesFileError:
    with pytest.raises(NodesFileError) as caught:
        parse(text, NOW_MS)
    return caught.value


class TestRead:
    def test_one_line_is_a_cluster_of_one(self) -> None:
        membership = parse(OWN_LINE, NOW_MS)
        assert (membership.myself.id, membership.myself.ip, membership.myself.port) == (A, b"10.0.0.1", 7711)
        assert membership.size == 1
        assert not membership.dirty

    def test_vars_and_blank_lines_are_skipped_and_the_last_line_may_lack_its_end(self) -> None:
        text = b"\n\nvars currentEpoch 0 lastVoteEpoch 0\n" + OWN_LINE.rstrip() + b"\n\n\n"
        assert parse(text, NOW_MS).myself.id == A
        assert parse(OWN_LINE.rstrip(), NOW_MS).myself.id == A

    def test_this_node_comes_first_wherever_its_line_stands(self) -> None:
        membership = parse(B + b" 10.0.0.2:7712 noflags 0 0 connected\n" + OWN_LINE, NOW_MS)
        assert list(membership.nodes) == [A, B]

    def test_who_failed_before_the_restart_is_asked_anew(self) -> None:
        text = OWN_LINE + B + b" 10.0.0.2:7711 fail?,fail 0 0 disconnected"
        assert parse(text, NOW_MS).nodes[B].flags == 0

    def test_flags_come_back(self) -> None:
        text = OWN_LINE.replace(b"myself", b"myself,leaving") + B + b" :0 noaddr,leaving 0 0 disconnected"
        membership = parse(text, NOW_MS)
        assert membership.leaving
        assert membership.nodes[B].flags == NOADDR | LEAVING

    def test_this_node_never_fails_in_its_own_eyes(self) -> None:
        assert parse(OWN_LINE.replace(b"myself", b"myself,fail,noaddr"), NOW_MS).myself.flags == MYSELF

    def test_times_of_an_earlier_life_become_now_and_never_stays_never(self) -> None:
        text = (
            OWN_LINE + B + b" 10.0.0.2:7712 noflags 17 0 connected\n" + C + b" 10.0.0.3:7713 noflags 0 99 connected\n"
        )
        nodes = parse(text, NOW_MS).nodes
        assert (nodes[B].ping_sent_ms, nodes[B].pong_received_ms) == (NOW_MS, 0)
        assert (nodes[C].ping_sent_ms, nodes[C].pong_received_ms) == (0, NOW_MS)

    def test_no_link_survives_a_restart(self) -> None:
        assert not parse(OWN_LINE + B + b" 10.0.0.2:7712 noflags 0 0 connected\n", NOW_MS).nodes[B].linked

    @pytest.mark.parametrize(
        ("address", "ip", "port", "bus_port"),
        [
            (b":7711", b"", 7711, 17711),
            (b"::1:7711", b"::1", 7711, 17711),
            (b"1.2.3.4:7711@4000", b"1.2.3.4", 7711, 4000),
            (b"fe80::1:7711@17711", b"fe80::1", 7711, 17711),
        ],
    )
    def test_addresses(self, address: bytes, ip: bytes, port: int, bus_port: int) -> None:
        myself = parse(A + b" " + address + b" myself 0 0 connected", NOW_MS).myself
        assert (myself.ip, myself.port, myself.bus_port) == (ip, port, bus_port)

    def test_half_met_nodes_are_dropped(self) -> None:
        assert list(parse(OWN_LINE + B + b" 10.0.0.2:7712 handshake 0 0 connected\n", NOW_MS).nodes) == [A]


class TestDamage:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"x", "expected 6 words, got 1"),
            (B + b" 1.2.3.4:1 noflags 0 0 connected more", "expected 6 words, got 7"),
            (B[1:] + b" 1.2.3.4:1 noflags 0 0 connected", "is not a node ID"),
            (B + b" 1.2.3.4 noflags 0 0 connected", "'1.2.3.4' is not an address"),
            (B + b" 1.2.3.4:x noflags 0 0 connected", "'x' is not a number"),
            (B + b" 1.2.3.4:65536 noflags 0 0 connected", "65536 is not a port"),
            (B + b" 1.2.3.4:1@x noflags 0 0 connected", "'x' is not a number"),
            (B + b" 1.2.3.4:1 master 0 0 connected", "unknown flag 'master'"),
            (B + b" 1.2.3.4:1 noflags -1 0 connected", "'-1' is not a number"),
            (B + b" 1.2.3.4:1 noflags 0 \xb2 connected", "is not a number"),
            (B + b" 1.2.3.4:1 noflags 0 0 perhaps", "neither connected nor disconnected"),
            (OWN_LINE.rstrip(), "is listed twice"),
            (B + b" 1.2.3.4:55536 noflags 0 0 connected", "no node can be at '1.2.3.4:55536', bus port 65536"),
            (B + b" 1.2,3.4:1 noflags 0 0 connected", "no node can be at '1.2,3.4:1', bus port 10001"),
            (B + b" " + b"x" * 256 + b":1 noflags 0 0 connected", "no node can be at"),
        ],
    )
    def test_a_bad_line_is_told_with_its_number(self, line: bytes, reason: str) -> None:
        error = fault(OWN_LINE + b"\n" + line + b"\n")
        assert error.line == 3
        assert reason in error.reason
        assert str(error).startswith("line 3: ")

    def test_one_line_must_be_this_node(self) -> None:
        assert str(fault(b"vars\n")) == "expected one line with the flag myself, got 0"
        assert fault(OWN_LINE + OWN_LINE.replace(A, B)).line == 0

    def test_there_are_as_many_nodes_as_a_table_may_have(self) -> None:
        lines = [b"%040x 1.2.3.4:1 noflags 0 0 connected\n" % number for number in range(NODES_MOST)]
        assert parse(OWN_LINE + b"".join(lines[1:]), NOW_MS).known == NODES_MOST
        assert str(fault(OWN_LINE + b"".join(lines))) == f"expected at most {NODES_MOST} nodes, got {NODES_MOST + 1}"

    @given(st.binary(max_size=200))
    def test_any_other_bytes_are_refused(self, text: bytes) -> None:
        fault(text)

    @given(st.integers(0, len(OWN_LINE) - len(b"connected\n")))
    def test_a_torn_line_is_refused(self, length: int) -> None:
        fault(OWN_LINE[:length])


def test_the_table_draws_from_the_source_that_it_is_given() -> None:
    random = Random(7)
    assert parse(OWN_LINE, NOW_MS, random).random is random


def test_a_lost_address_is_kept_lost() -> None:
    membership = parse(OWN_LINE + B + b" :7712@4000 noaddr 0 0 disconnected\n", NOW_MS)
    assert membership.wanted() == []
    assert render(membership, NOW_MS).endswith(b" :7712@4000 noaddr 0 0 disconnected\n" + SAVED)


def test_what_is_written_is_what_cluster_nodes_shows() -> None:
    membership = parse(OWN_LINE + B + b" 10.0.0.2:7712 fail? 3 4 disconnected\n", NOW_MS)
    assert render(membership, NOW_MS) == membership.nodes_lines(NOW_MS) + SAVED


def test_an_unusual_bus_port_rides_behind_the_address() -> None:
    text = render(Membership(Member(A, b"::1", 7711, 4000)), NOW_MS)
    assert text == A + b" ::1:7711@4000 myself 0 0 connected\n" + SAVED


def test_half_met_nodes_are_not_written() -> None:
    membership = Membership(Member(A, b"10.0.0.1", 7711))
    membership.add(Member(B, b"10.0.0.2", 7712, flags=HANDSHAKE))
    assert render(membership, NOW_MS) == OWN_LINE + SAVED


nodes = st.builds(
    Member,
    st.text("0123456789abcdef", min_size=40, max_size=40).map(str.encode),
    st.ip_addresses().map(lambda ip: str(ip).encode()),
    st.integers(0, 55535),
    st.integers(0, 65535),
    st.sampled_from([0, NOADDR, LEAVING, NOADDR | LEAVING]),
)


@given(st.lists(nodes, min_size=1, max_size=6, unique_by=lambda node: node.id))
def test_what_was_written_is_read_back(table: list[Member]) -> None:
    membership = Membership(table[0])
    membership.set_flags(membership.myself, MYSELF | membership.myself.flags & LEAVING)
    for node in table[1:]:
        membership.add(node)
    text = render(membership, NOW_MS)
    assert render(parse(text, NOW_MS), NOW_MS) == text


class TestWhenItWasWritten:
    def test_it_comes_back(self) -> None:
        assert parse(OWN_LINE + SAVED, NOW_MS + 1).saved_ms == NOW_MS

    @pytest.mark.parametrize("said", [b"", b"x", b"-1", b"1 2", b"9" * 30, "\u0661".encode()])
    def test_what_makes_no_sense_or_is_not_there_is_not_known(self, said: bytes) -> None:
        assert parse(OWN_LINE, NOW_MS).saved_ms == 0
        assert parse(OWN_LINE + b"vars saved " + said + b"\n", NOW_MS).saved_ms == 0


class TestCapabilities:
    def test_what_other_nodes_understand_comes_back(self) -> None:
        membership = Membership(Member(A, b"10.0.0.1", 7711))
        for node_id, mask in ((B, 7), (C, 0)):
            membership.add(Member(node_id, b"10.0.0.2", 7711))
            membership.set_capabilities(node_id, mask)
        again = parse(render(membership, NOW_MS), NOW_MS)
        assert [node.capabilities for node in again.nodes.values()] == [again.myself.capabilities, 7, 0]
        assert again.lacking == {}
        assert not again.dirty

    def test_it_is_written_when_it_has_changed(self) -> None:
        membership = Membership(Member(A, b"10.0.0.1", 7711))
        membership.add(Member(B, b"10.0.0.2", 7711))
        for mask, dirty in ((7, True), (7, False), (8, True)):
            membership.dirty = False
            membership.set_capabilities(B, mask)
            assert membership.dirty == dirty

    @pytest.mark.parametrize("said", [b"x", b"7", b":7", B, B + b":", B + b":x", B + b":-1", B + b":" + b"9" * 30])
    def test_what_makes_no_sense_is_skipped(self, said: bytes) -> None:
        text = OWN_LINE + B + b" 10.0.0.2:7711 noflags 0 0 connected\nvars capabilities " + said + b"\n"
        assert parse(text, NOW_MS).nodes[B].capabilities == 0
