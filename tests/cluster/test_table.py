import pytest

from cluster.capabilities import MINE
from cluster.member import FAIL, HANDSHAKE, LEAVING, MYSELF, NOADDR, PFAIL, STOPPED, Member
from cluster.messages import GOTJOB, NEEDS, Message
from cluster.table import Table

A, B, C = b"a" * 40, b"b" * 40, b"c" * 40
NOW_MS = 1_000_000
#: A kind of a later version, and what it needs.
LATER, NEWEST = 1000, 1 << 40


def cluster(*others: Member) -> Table:
    table = Table(Member(A, b"10.0.0.1", 7711))
    for node in others:
        table.add(node)
    table.dirty = False
    return table


def node(node_id: bytes = B, flags: int = 0, *, linked: bool = True) -> Member:
    other = Member(node_id, b"10.0.0.2", 7712, flags=flags)
    other.linked = linked
    return other


class TestAlone:
    def test_a_node_alone_is_a_cluster_of_one(self) -> None:
        table = cluster()
        assert (table.size, table.known, table.reachable()) == (1, 1, [])
        assert table.nodes == {A: table.myself}
        assert table.myself.flags & MYSELF

    def test_nodes_shows_it_connected(self) -> None:
        assert cluster().nodes_lines(NOW_MS) == A + b" 10.0.0.1:7711 myself 0 0 connected\n"

    def test_hello_gives_it_priority_1(self) -> None:
        assert cluster().hello(NOW_MS) == [(A, b"10.0.0.1", 7711, 1)]

    def test_an_address_not_yet_learnt_is_empty(self) -> None:
        table = Table(Member(A, b"", 29002))
        table.set_flags(table.myself, MYSELF | LEAVING)
        assert table.nodes_lines(NOW_MS) == A + b" :29002 myself,leaving 0 0 connected\n"


class TestSeveral:
    def test_reachable_leaves_out_failing_leaving_and_half_met_nodes(self) -> None:
        good = node()
        table = cluster(good, *[node(b"%040x" % flag, flag) for flag in (PFAIL, FAIL, LEAVING, HANDSHAKE)])
        assert table.reachable() == [good]

    def test_expected_are_those_too_that_fail_for_no_other_reason_and_since_lately(self) -> None:
        good = node()
        lately = [node(b"%040x" % flag, flag) for flag in (PFAIL, FAIL, STOPPED, STOPPED | PFAIL)]
        never = [node(b"%040x" % flags, flags) for flags in (LEAVING, HANDSHAKE, LEAVING | PFAIL, LEAVING | STOPPED)]
        long_ago = node(b"f" * 40, PFAIL)
        table = cluster(good, *lately, *never, long_ago)
        for other in (*lately, *never):
            other.ping_sent_ms = NOW_MS - 5000
        long_ago.ping_sent_ms = NOW_MS - 6000
        assert table.expected(NOW_MS, 6000) == (good.id, *[other.id for other in lately])
        assert table.expected(NOW_MS, 0) == (good.id, b"%040x" % STOPPED)

    def test_reachable_does_not_ask_for_a_link(self) -> None:
        good = node(linked=False)
        assert cluster(good).reachable() == [good]

    def test_size_counts_failing_nodes_but_not_those_half_met(self) -> None:
        table = cluster(node(B, FAIL), node(C, HANDSHAKE))
        assert (table.size, table.known) == (2, 3)

    def test_a_change_of_flags_changes_the_answers(self) -> None:
        other = node()
        table = cluster(other)
        table.set_flags(other, PFAIL)
        assert table.reachable() == []
        table.set_flags(other, 0)
        assert table.reachable() == [other]

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
        table = cluster(node(), node(C, FAIL))
        table.messages_sent = 7
        table.messages_received = 8
        assert table.info() == [
            (b"cluster_known_nodes", 3),
            (b"cluster_reachable_nodes", 1),
            (b"cluster_size", 3),
            (b"cluster_stats_messages_sent", 7),
            (b"cluster_stats_messages_received", 8),
        ]


class TestDirty:
    def test_reading_leaves_nothing_to_write(self) -> None:
        table = cluster(node())
        table.reachable()
        table.nodes_lines(NOW_MS)
        assert not table.dirty

    def test_a_new_node_is_to_be_written(self) -> None:
        table = cluster()
        table.add(node())
        assert table.dirty

    def test_an_address_is_to_be_written_when_it_changes(self) -> None:
        other = node()
        table = cluster(other)
        seen: list[bool] = []
        for ip in (b"10.0.0.2", b"10.0.0.3"):
            table.set_address(other, ip, 7712, 17712)
            seen.append(table.dirty)
        assert seen == [False, True]
        assert other.ip == b"10.0.0.3"


def test_adding_a_node_twice_is_a_fault_of_the_caller() -> None:
    table = cluster(node())
    with pytest.raises(AssertionError):
        table.add(node())


class TestWanted:
    def test_links_are_wanted_to_all_who_have_an_address(self) -> None:
        good, half_met, failing = node(), node(C, HANDSHAKE), node(b"d" * 40, FAIL)
        lost, unknown = node(b"e" * 40, NOADDR), Member(b"f" * 40, b"", 7711)
        assert cluster(good, half_met, failing, lost, unknown).wanted() == [good, half_met, failing]


class TestVersion:
    def test_it_grows_with_flags_addresses_and_nodes(self) -> None:
        table = cluster()
        other = node()
        versions = [table.version]
        table.add(other)
        versions.append(table.version)
        table.set_flags(other, PFAIL)
        versions.append(table.version)
        table.set_address(other, b"::1", 1, 2)
        versions.append(table.version)
        assert versions == sorted(set(versions))

    def test_it_stays_when_nothing_changes(self) -> None:
        other = node()
        table = cluster(other)
        before = table.version
        table.set_flags(other, other.flags)
        table.set_address(other, other.ip, other.port, other.bus_port)
        assert table.version == before


class TestOwnAddress:
    def learn(self, table: Table, *ips: bytes) -> bytes:
        for ip in ips:
            table.learn_own_ip(ip)
        return table.myself.ip

    def test_it_is_learnt_from_the_first_who_calls(self) -> None:
        assert self.learn(cluster(), b"10.0.0.7", b"10.9.9.9") == b"10.0.0.7"

    def test_what_an_earlier_life_left_behind_gives_way(self) -> None:
        table = cluster()
        assert table.myself.ip == b"10.0.0.1"
        assert self.learn(table, b"10.0.0.7") == b"10.0.0.7"

    @pytest.mark.parametrize("loopback", [b"127.0.0.1", b"127.1.2.3", b"::1"])
    def test_loopback_gives_way_to_anything_else_but_not_the_other_way_round(self, loopback: bytes) -> None:
        assert self.learn(cluster(), loopback) == loopback
        assert self.learn(cluster(), loopback, b"10.0.0.7", loopback) == b"10.0.0.7"

    def test_what_is_announced_counts_more_than_what_is_learnt(self) -> None:
        table = cluster()
        table.announce(b"node-1.example", 80, 81)
        assert self.learn(table, b"10.0.0.7") == b"node-1.example"
        assert (table.myself.port, table.myself.bus_port) == (80, 81)

    def test_without_an_announced_ip_the_known_one_stays(self) -> None:
        table = cluster()
        table.announce(b"", 80, 81)
        assert (table.myself.ip, table.myself.port, table.myself.bus_port) == (b"10.0.0.1", 80, 81)


class TestZones:
    def test_zones_are_those_of_the_nodes_that_have_a_label(self) -> None:
        table = cluster(node(B), node(C))
        table.set_zone(A, b"rack")
        table.set_zone(B, b"rack")
        assert table.zones() == {b"rack": [A, B]}

    def test_who_is_half_met_is_in_none_yet(self) -> None:
        table = cluster(node(B, HANDSHAKE))
        table.set_zone(B, b"rack")
        assert table.zones() == {}

    def test_a_change_is_seen_and_not_kept_over_a_restart(self) -> None:
        table = cluster(node(B))
        version = table.version
        table.set_zone(B, b"rack")
        table.set_zone(B, b"rack")
        table.set_zone(C, b"rack")
        assert (table.version, table.dirty) == (version + 1, False)


class TestCapabilities:
    @pytest.fixture(autouse=True)
    def later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A kind of a later version, which needs something."""
        monkeypatch.setitem(NEEDS, LATER, NEWEST)

    OUTBOX: tuple[tuple[bytes, Message], ...] = ((B, (LATER, 1)), (B, (GOTJOB, ())), (C, (LATER, 2)), (A, (99, 3)))

    def test_this_node_understands_what_this_version_does(self) -> None:
        assert cluster().myself.capabilities == MINE

    def test_while_all_nodes_understand_the_same_nothing_is_looked_at(self) -> None:
        table = cluster(node(B), node(C))
        outbox = list(self.OUTBOX)
        assert table.understood(outbox) is outbox
        table.set_capabilities(table.myself.id, MINE | NEWEST)
        for node_id in (B, C):
            table.set_capabilities(node_id, MINE | NEWEST | 1 << 50)
        assert table.understood(outbox) is outbox

    def test_a_message_goes_to_those_who_understand_it_and_all_else_goes_as_before(self) -> None:
        table = cluster(node(B), node(C))
        table.set_capabilities(table.myself.id, MINE | NEWEST)
        table.set_capabilities(B, MINE)
        table.set_capabilities(C, MINE | NEWEST)
        assert table.understood(list(self.OUTBOX)) == [self.OUTBOX[1], self.OUTBOX[2], self.OUTBOX[3]]
        assert table.lacking == {B: NEWEST}

    def test_a_node_that_lacks_something_itself_says_nothing_of_it(self) -> None:
        table = cluster(node(B), node(C))
        for node_id in (B, C):
            table.set_capabilities(node_id, MINE | NEWEST)
        assert table.understood(list(self.OUTBOX)) == [self.OUTBOX[1], self.OUTBOX[3]]

    def test_a_node_that_comes_back_as_a_later_version_is_told_everything(self) -> None:
        table = cluster(node(B), node(C))
        table.set_capabilities(table.myself.id, MINE | NEWEST)
        table.set_capabilities(B, 0)
        table.set_capabilities(B, MINE | NEWEST)
        outbox = list(self.OUTBOX)
        assert table.understood(outbox) is outbox

    def test_a_change_is_seen_and_strangers_change_nothing(self) -> None:
        table = cluster(node(B))
        version = table.version
        table.set_capabilities(B, 0)
        assert table.version == version
        for _ in range(2):
            table.set_capabilities(B, MINE)
            table.set_capabilities(C, MINE)
        assert (table.version, table.dirty) == (version + 1, True)
