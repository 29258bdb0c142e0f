from random import Random

import pytest

from cluster import messages
from cluster.gossip import ROWS_MOST
from cluster.member import DELETED, MEET, MYSELF
from cluster.membership import (
    BLACKLIST_MS,
    CALLERS_MOST,
    FAIL,
    FAILING,
    HANDSHAKE,
    HANDSHAKES_MOST,
    LEAVING,
    NOADDR,
    NODES_MOST,
    PFAIL,
    STOPPED,
    Member,
    Membership,
)
from tests.cluster.world import START_MS, TIMEOUT_MS, Machine, World, node_id

A, B, C = b"a" * 40, b"b" * 40, b"c" * 40
NOWHERE = b"10.9.9.9"


def world(count: int) -> World:
    """A cluster in which all know each other, and the last news have been told."""
    made = World(count)
    made.meet_all()
    made.advance(TIMEOUT_MS)
    return made


def alone() -> Membership:
    return Membership(Member(A, b"10.0.0.1", 7711), Random(1), TIMEOUT_MS)


def pair() -> Membership:
    """`alone` with a linked node B beside it, both ways proven."""
    membership = alone()
    membership.add(Member(B, b"10.0.0.2", 7711))
    membership.link_up(B, START_MS)
    membership.receive(B, greeting(messages.PONG), START_MS)
    membership.messages.clear()
    return membership


def greeting(
    kind: int = messages.PING, flags: int = 0, ip: bytes = b"", rows: tuple[object, ...] = ()
) -> messages.Message:
    return (kind, flags, ip, 7711, 17711, rows)


def row(node: bytes = C, flags: int = 0, ip: bytes = b"10.0.0.3", bus_port: int = 17711) -> tuple[object, ...]:
    return (node, ip, 7711, bus_port, flags)


def kinds(membership: Membership) -> list[tuple[bytes, object]]:
    """(node, kind) of what is to be sent; taken from the outbox."""
    sent, membership.messages = membership.messages, []
    return [(peer, message[0]) for peer, message in sent]


def half_met(membership: Membership) -> list[Member]:
    return [node for node in membership.nodes.values() if node.flags & HANDSHAKE]


class TestMeeting:
    @pytest.mark.parametrize("count", [2, 3, 7])
    def test_meeting_one_node_is_enough_to_know_all(self, count: int) -> None:
        made = World(count)
        for machine in made.machines[1:]:
            made.meet(machine, made.machines[0])
        made.advance(2000)
        assert made.is_mesh()
        for machine in made.machines:
            assert machine.membership.size == count
            assert len(machine.membership.reachable()) == count - 1
            assert len(machine.links) == count - 1

    def test_two_clusters_become_one_when_one_node_meets_another(self) -> None:
        made = World(6)
        for one, other in ((1, 0), (2, 0), (4, 3), (5, 3)):
            made.meet(made.machines[one], made.machines[other])
        made.advance(2000)
        assert [machine.membership.size for machine in made.machines] == [3] * 6
        made.meet(made.machines[2], made.machines[5])
        made.advance(3000)
        assert made.is_mesh()

    def test_both_meeting_each_other_at_once_is_no_harm(self) -> None:
        made = World(2)
        one, other = made.machines
        made.meet(one, other)
        made.meet(other, one)
        made.advance(1000)
        assert made.is_mesh()

    def test_a_half_met_node_is_in_the_table_but_not_reachable(self) -> None:
        membership = alone()
        assert membership.meet(NOWHERE, 7711, 0, START_MS)
        (node,) = half_met(membership)
        assert (node.ip, node.port, node.bus_port) == (NOWHERE, 7711, 17711)
        assert (membership.known, membership.size, membership.reachable()) == (2, 1, [])
        assert membership.wanted() == [node]

    def test_meeting_the_same_address_again_adds_nothing(self) -> None:
        membership = alone()
        for _ in range(2):
            assert membership.meet(NOWHERE, 7711, 0, START_MS)
        assert membership.known == 2

    def test_a_meet_to_nowhere_is_given_up_after_the_node_timeout(self) -> None:
        made = World(1)
        membership = made.machines[0].membership
        membership.meet(NOWHERE, 7711, 0, made.now_ms)
        made.advance(TIMEOUT_MS)
        assert membership.known == 2
        made.advance(200)
        assert membership.known == 1
        assert membership.forgotten == [], "nobody ever heard of it"

    def test_a_meet_to_itself_is_dropped_when_the_link_proves_it(self) -> None:
        made = World(1)
        made.meet(made.machines[0], made.machines[0])
        made.advance(100)
        assert made.machines[0].membership.known == 1

    def test_a_node_that_cannot_be_called_back_is_given_up_by_both(self) -> None:
        made = World(2)
        one, other = made.machines
        made.cut.add((other, one))
        made.meet(one, other)
        made.advance(1000)
        assert one.flags(other) & HANDSHAKE
        assert other.flags(one) & HANDSHAKE
        assert one.membership.reachable() == other.membership.reachable() == []
        made.advance(TIMEOUT_MS)
        assert one.full() == set(one.membership.nodes) == {one.id}
        made.advance(TIMEOUT_MS)
        assert other.full() == set(other.membership.nodes) == {other.id}

    def test_a_node_is_greeted_with_meet_until_it_answers(self) -> None:
        membership = alone()
        membership.meet(b"10.0.0.2", 7711, 0, START_MS)
        (node,) = half_met(membership)
        assert membership.identify(node.id, B, b"10.0.0.2", 7711, 17711, START_MS)
        membership.link_up(B, START_MS)
        assert kinds(membership) == [(B, messages.MEET)]
        membership.tick(START_MS + 1000)
        assert kinds(membership) == [(B, messages.MEET)]
        membership.receive(B, greeting(messages.PONG), START_MS + 1000)
        membership.link_up(B, START_MS + 1000)
        assert kinds(membership) == [(B, messages.PING)]

    def test_a_node_that_was_forgotten_lacks_nothing_any_more(self) -> None:
        made = world(2)
        one, other = made.machines
        other.membership.set_capabilities(one.id, 0)
        assert list(other.membership.lacking) == [one.id]
        other.membership.forget(one.id, made.now_ms)
        said: list[tuple[bytes, messages.Message]] = [(one.id, (messages.UPSINCE, 0))]
        assert other.membership.understood(said) == [], "it was said a moment before, and the link still stands"
        other.membership.link_down(one.id, made.now_ms, refused=False)
        assert other.membership.lacking == {}

    def test_a_known_node_that_is_met_again_is_told_meet_as_it_may_have_forgotten(self) -> None:
        made = world(2)
        one, other = made.machines
        other.membership.forget(one.id, made.now_ms)
        made.advance(200)
        made.meet(one, other)
        made.advance(1000)
        assert made.is_mesh()

    def test_a_meet_of_a_stranger_takes_it_in_at_the_address_it_called_from(self) -> None:
        membership = alone()
        assert not membership.incoming(B, b"10.0.0.2", 7711, 17711, START_MS)
        membership.receive(B, greeting(messages.MEET), START_MS)
        node = membership.nodes[B]
        assert (node.ip, node.port, node.bus_port, node.flags) == (b"10.0.0.2", 7711, 17711, HANDSHAKE)
        assert kinds(membership) == [], "there is no link for an answer"
        membership.link_up(B, START_MS)
        assert kinds(membership) == [(B, messages.PING), (B, messages.PONG)]
        assert membership.reachable() == [node]

    def test_what_the_stranger_announces_counts_more_than_where_it_called_from(self) -> None:
        membership = alone()
        membership.incoming(B, b"10.0.0.2", 7711, 17711, START_MS)
        membership.receive(B, greeting(messages.MEET, ip=b"b.example"), START_MS)
        assert membership.nodes[B].ip == b"b.example"

    def test_without_any_address_a_stranger_is_not_taken_in(self) -> None:
        membership = alone()
        membership.receive(B, greeting(messages.MEET), START_MS)
        assert membership.known == 1
        membership.receive(B, greeting(messages.MEET), START_MS, b"10.0.0.2")
        assert membership.known == 2

    @pytest.mark.parametrize("kind", [messages.PING, messages.PONG])
    def test_other_words_of_a_stranger_are_ignored(self, kind: int) -> None:
        membership = alone()
        membership.incoming(B, b"10.0.0.2", 7711, 17711, START_MS)
        membership.receive(B, greeting(kind, rows=(row(),)), START_MS)
        membership.receive(B, (messages.FAIL, C), START_MS)
        assert (membership.known, membership.messages) == (1, [])


class TestSending:
    """What a node says is behind a long frame of its own, which comes for longer than the node timeout."""

    @staticmethod
    def silence(membership: Membership, ms: int, now_ms: int, *, sending: bool) -> int:
        """Let time pass in which no PING or PONG comes; gives the end."""
        for at_ms in range(now_ms, now_ms + ms, 100):
            if sending:
                membership.is_sending(B, at_ms)
            membership.tick(at_ms)
            assert membership.stale() == [] or not sending
        return now_ms + ms

    def test_it_is_alive_while_bytes_come_and_hears_that_this_node_is(self) -> None:
        membership = pair()
        membership.link_up(B, START_MS)
        membership.messages.clear()
        self.silence(membership, 5 * membership.timeout_ms, START_MS, sending=True)
        assert membership.nodes[B].flags == 0
        pongs = [message for _, message in membership.messages if message[0] == messages.PONG]
        assert len(pongs) >= 15, "so it does not take this node for failed, which cannot hear its PING"

    def test_it_fails_when_no_more_bytes_come(self) -> None:
        membership = pair()
        membership.link_up(B, START_MS)
        end_ms = self.silence(membership, 5 * membership.timeout_ms, START_MS, sending=True)
        self.silence(membership, 2 * membership.timeout_ms, end_ms, sending=False)
        assert membership.nodes[B].flags & FAILING

    def test_without_a_link_to_it_and_from_strangers_bytes_say_nothing(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        self.silence(membership, 3 * membership.timeout_ms, START_MS, sending=True)
        assert membership.nodes[B].flags & FAILING
        membership.is_sending(C, START_MS)
        membership.is_sending(A, START_MS)
        assert membership.nodes[A].pong_received_ms == 0


class TestIdentify:
    def test_the_node_expected_is_the_node_found(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        assert membership.identify(B, B, b"10.0.0.2", 7711, 17711, START_MS)

    def test_a_node_that_is_not_where_it_should_be_loses_its_address(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        assert not membership.identify(B, C, b"10.0.0.2", 7711, 17711, START_MS)
        assert membership.nodes[B].flags == NOADDR
        assert membership.nodes[B].ip == b""
        assert membership.wanted() == []
        assert C not in membership.nodes, "nobody asked it to join"

    def test_and_gets_a_new_one_when_it_calls(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        membership.identify(B, C, b"10.0.0.2", 7711, 17711, START_MS)
        assert membership.incoming(B, b"10.0.0.8", 7711, 17711, START_MS)
        assert membership.nodes[B].flags == 0
        assert membership.wanted() == [membership.nodes[B]]

    def test_if_another_known_node_is_there_the_link_is_a_link_to_that(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        membership.add(Member(C, b"10.0.0.3", 7711))
        assert membership.identify(B, C, b"10.0.0.2", 7711, 17711, START_MS)
        assert membership.nodes[C].ip == b"10.0.0.2"
        assert membership.nodes[B].flags == NOADDR

    def test_unless_it_has_one(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        assert not membership.identify(C, B, b"10.0.0.3", 7711, 17711, START_MS)
        assert membership.nodes[B].ip == b"10.0.0.2"

    def test_this_node_itself_at_the_address_of_another_is_a_wrong_address(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        assert not membership.identify(B, A, b"10.0.0.2", 7711, 17711, START_MS)
        assert membership.nodes[B].flags == NOADDR

    def test_a_node_that_is_not_known_any_more_is_not_linked(self) -> None:
        assert not alone().identify(B, B, b"10.0.0.2", 7711, 17711, START_MS)
        assert not alone().identify(B, C, b"10.0.0.2", 7711, 17711, START_MS)


class TestAnswers:
    @pytest.mark.parametrize("kind", [messages.PING, messages.MEET])
    def test_ping_and_meet_are_answered_with_pong(self, kind: int) -> None:
        membership = pair()
        membership.receive(B, greeting(kind), START_MS)
        assert kinds(membership) == [(B, messages.PONG)]

    def test_pong_and_fail_are_not(self) -> None:
        membership = pair()
        membership.receive(B, greeting(messages.PONG), START_MS)
        membership.receive(B, (messages.FAIL, C), START_MS)
        assert kinds(membership) == []

    def test_without_a_link_the_answer_waits_for_one(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        membership.receive(B, greeting(), START_MS)
        assert kinds(membership) == []
        membership.link_up(B, START_MS)
        assert kinds(membership) == [(B, messages.PING), (B, messages.PONG)]

    def test_thousands_of_pings_get_one_answer_a_millisecond(self) -> None:
        membership = pair()
        for _ in range(1000):
            membership.receive(B, greeting(), START_MS)
        assert kinds(membership) == [(B, messages.PONG)]
        membership.receive(B, greeting(), START_MS + 1)
        assert kinds(membership) == [(B, messages.PONG)]

    def test_a_greeting_tells_the_announced_address_only(self) -> None:
        membership = pair()
        membership.learn_own_ip(b"10.0.0.1")
        membership.receive(B, greeting(), START_MS)
        membership.announce(b"a.example", 1, 2)
        membership.receive(B, greeting(), START_MS + 1)
        assert [message[2:5] for _, message in membership.messages] == [(b"", 7711, 17711), (b"a.example", 1, 2)]


class TestAddresses:
    def test_a_new_address_of_a_known_node_is_taken_over_from_its_link(self) -> None:
        membership = pair()
        membership.dirty = False
        assert membership.incoming(B, b"10.0.0.8", 80, 81, START_MS)
        node = membership.nodes[B]
        assert (node.ip, node.port, node.bus_port) == (b"10.0.0.8", 80, 81)
        assert membership.dirty

    def test_and_from_its_greeting_if_it_announces_one(self) -> None:
        membership = pair()
        membership.receive(B, greeting(ip=b"b.example"), START_MS)
        assert membership.nodes[B].ip == b"b.example"
        membership.receive(B, greeting(), START_MS)
        assert membership.nodes[B].ip == b"b.example"

    @pytest.mark.parametrize(
        ("ip", "port", "bus_port"), [(b"a b", 1, 1), (b"x" * 256, 1, 1), (b"x", 1, 0), (b"x", 65536, 1)]
    )
    def test_what_can_be_no_address_is_ignored(self, ip: bytes, port: int, bus_port: int) -> None:
        membership = pair()
        membership.incoming(B, ip, port, bus_port, START_MS)
        membership.receive(B, (messages.PING, 0, ip, port, bus_port, ()), START_MS)
        membership.receive(B, (messages.PING, 0, b"", 7711, 17711, ((C, ip, port, bus_port, 0),)), START_MS)
        assert membership.nodes[B].ip == b"10.0.0.2"
        assert membership.known == 2
        assert not membership.meet(ip, port, bus_port or 65536, START_MS)

    def test_a_node_that_moved_while_it_was_down_is_found_again_by_its_call(self) -> None:
        made = world(3)
        moved = made.machines[2]
        made.kill(moved)
        made.advance(2 * TIMEOUT_MS)
        made.start(moved, b"10.0.0.77")
        made.advance(1000)
        for machine in made.machines[:2]:
            assert (machine.knows(moved).ip, machine.flags(moved)) == (b"10.0.0.77", 0)

    def test_a_node_that_moved_and_is_known_to_one_only_is_found_by_gossip(self) -> None:
        made = world(3)
        one, other, moved = made.machines
        made.kill(moved)
        made.advance(2 * TIMEOUT_MS)
        made.start(moved, b"10.0.0.77")
        made.cut.add((moved, one))
        made.advance(5000)
        assert one.knows(moved).ip == b"10.0.0.77"
        assert other.flags(moved) == 0


class TestFailing:
    def test_a_node_that_hangs_is_suspected_after_the_timeout_and_failed_by_the_majority(self) -> None:
        made = world(3)
        one, other, hung = made.machines
        hung.frozen = True
        made.advance(TIMEOUT_MS - 500)
        assert one.flags(hung) == other.flags(hung) == 0
        made.advance(TIMEOUT_MS)
        assert one.flags(hung) == other.flags(hung) == FAIL
        assert one.membership.reachable() == [one.knows(other)]
        assert one.membership.size == 3

    def test_its_pong_clears_both(self) -> None:
        made = world(3)
        hung = made.machines[2]
        hung.frozen = True
        made.advance(3 * TIMEOUT_MS)
        hung.frozen = False
        made.advance(200)
        assert [machine.flags(hung) for machine in made.machines[:2]] == [0, 0]
        assert [hung.flags(machine) for machine in made.machines[:2]] == [0, 0], (
            "its own standing still is nobody's fault"
        )

    def test_of_two_nodes_none_is_a_majority(self) -> None:
        made = world(2)
        one, hung = made.machines
        hung.frozen = True
        made.advance(3 * TIMEOUT_MS)
        assert one.flags(hung) == PFAIL

    def test_a_minority_does_not_call_the_majority_failed(self) -> None:
        made = world(5)
        for one in made.machines[:2]:
            for other in made.machines[2:]:
                made.separate(one, other)
        made.advance(3 * TIMEOUT_MS)
        one, _, other, *_ = made.machines
        assert one.flags(other) == PFAIL
        assert other.flags(one) == FAIL
        made.cut.clear()
        made.advance(2 * TIMEOUT_MS)
        assert all(not node.flags & FAILING for machine in made.machines for node in machine.membership.nodes.values())

    @pytest.mark.parametrize("back", [False, True])
    def test_a_way_that_is_cut_in_one_direction_fails_in_both(self, back: bool) -> None:
        made = world(2)
        one, other = made.machines
        made.cut.add((other, one) if back else (one, other))
        made.advance(3 * TIMEOUT_MS)
        assert (one.flags(other), other.flags(one)) == (PFAIL, PFAIL)

    def test_who_refuses_the_connection_is_suspected_at_once(self) -> None:
        made = world(3)
        one, other, dead = made.machines
        made.kill(dead)
        made.advance(200)
        assert one.flags(dead) == other.flags(dead) == FAIL

    def test_a_link_that_only_ends_gives_the_node_its_timeout(self) -> None:
        membership = pair()
        membership.tick(START_MS)
        membership.link_down(B, START_MS, refused=False)
        for late_ms in range(100, TIMEOUT_MS + 200, 100):
            membership.tick(START_MS + late_ms)
            assert membership.nodes[B].flags == (PFAIL if late_ms > TIMEOUT_MS else 0)

    def test_the_time_before_the_first_look_counts_against_nobody(self) -> None:
        membership = pair()
        membership.link_down(B, START_MS, refused=False)
        membership.tick(START_MS + 10 * TIMEOUT_MS)  # until then it read its journal
        assert membership.nodes[B].flags == 0

    def test_a_node_that_was_never_linked_has_its_timeout_too(self) -> None:
        made = World(1)
        membership = made.machines[0].membership
        membership.add(Member(C, b"", 7711))
        made.advance(TIMEOUT_MS)
        assert membership.nodes[C].flags == 0
        made.advance(200)
        assert membership.nodes[C].flags == PFAIL

    def test_a_report_counts_for_twice_the_timeout(self) -> None:
        for age_ms, flags in ((2 * TIMEOUT_MS, FAIL), (2 * TIMEOUT_MS + 1, PFAIL)):
            membership = pair()
            membership.add(Member(C, b"10.0.0.3", 7711))
            membership.receive(B, greeting(rows=(row(flags=PFAIL),)), START_MS)
            assert membership.nodes[C].flags == 0, "one report alone is hearsay"
            membership.link_down(C, START_MS + age_ms, refused=True)
            assert membership.nodes[C].flags == flags

    def test_who_says_that_a_node_is_well_takes_the_report_back(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        for flags in (FAIL, 0):
            membership.receive(B, greeting(rows=(row(flags=flags),)), START_MS)
        membership.link_down(C, START_MS, refused=True)
        assert membership.nodes[C].flags == PFAIL

    def test_a_verdict_is_told_to_all_who_are_linked(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        membership.link_down(C, START_MS, refused=True)
        membership.receive(B, greeting(messages.PONG, rows=(row(flags=PFAIL),)), START_MS)
        assert membership.messages == [(B, (messages.FAIL, C))]

    def test_the_verdict_of_others_is_taken_over_but_never_about_oneself(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        for node in (C, A, b"d" * 40):
            membership.receive(B, (messages.FAIL, node), START_MS)
        assert membership.nodes[C].flags == FAIL
        assert membership.myself.flags == MYSELF

    def test_gossip_about_oneself_changes_nothing(self) -> None:
        membership = pair()
        before = membership.version
        membership.receive(B, greeting(messages.PONG, rows=(row(A, FAIL), row(B, FAIL))), START_MS)
        assert membership.version == before

    def test_words_of_a_half_met_node_count_for_nothing(self) -> None:
        membership = alone()
        membership.add(Member(C, b"10.0.0.3", 7711))
        membership.incoming(B, b"10.0.0.2", 7711, 17711, START_MS)
        membership.receive(B, greeting(messages.MEET), START_MS)
        membership.receive(B, greeting(rows=(row(flags=FAIL), row(b"d" * 40))), START_MS)
        membership.receive(B, (messages.FAIL, C), START_MS)
        assert (membership.nodes[C].flags, membership.nodes[C].reports, membership.known) == (0, {}, 3)


class TestPinging:
    def test_an_idle_pair_pings_about_once_a_second_each(self) -> None:
        made = world(2)
        made.machines[0].sent = 0
        made.advance(10_000)
        assert 15 <= made.machines[0].sent <= 30

    def test_a_silent_node_is_pinged_again_and_again_and_the_first_ping_counts(self) -> None:
        made = world(2)
        one, hung = made.machines
        hung.frozen = True
        made.advance(1500)
        asked_ms = one.knows(hung).ping_sent_ms
        before = one.sent
        made.advance(1000)
        assert one.knows(hung).ping_sent_ms == asked_ms
        assert one.sent > before

    def test_a_link_that_carries_nothing_is_to_be_made_anew(self) -> None:
        membership = pair()
        for now_ms in range(START_MS, START_MS + 4 * TIMEOUT_MS, 100):
            membership.tick(now_ms)
            if membership.stale():
                break
        assert membership.stale() == [B]
        membership.link_down(B, now_ms, refused=False)
        membership.link_up(B, now_ms)
        membership.tick(now_ms + 100)
        assert membership.stale() == []

    def test_who_stood_still_blames_nobody(self) -> None:
        membership = pair()
        for now_ms in range(START_MS, START_MS + TIMEOUT_MS, 100):
            membership.tick(now_ms)
        assert membership.nodes[B].ping_sent_ms
        membership.tick(START_MS + 100 * TIMEOUT_MS)
        assert membership.nodes[B].flags == 0

    def test_what_came_after_it_stood_still_is_no_older_than_it_is(self) -> None:
        membership = pair()
        late_ms = START_MS + 100 * TIMEOUT_MS
        membership.tick(START_MS)
        membership.meet(NOWHERE, 7711, 0, late_ms)
        membership.tick(late_ms)
        for now_ms in range(late_ms, late_ms + TIMEOUT_MS + 200, 100):
            membership.tick(now_ms)
        assert half_met(membership) == []

    def test_a_node_alone_says_nothing(self) -> None:
        made = World(1)
        made.advance(10_000)
        assert made.machines[0].sent == 0


class TestLeaving:
    def test_it_shows_in_flags_and_priority_and_is_to_be_written(self) -> None:
        membership = alone()
        seen: list[tuple[bool, int, bool]] = []
        for leaving in (False, True, False):
            membership.dirty = False
            membership.leaving = leaving
            seen.append((membership.leaving, membership.hello(START_MS)[0][3], membership.dirty))
        assert seen == [(False, 1, False), (True, 100, True), (False, 1, True)]

    def test_all_others_know_with_the_next_tick(self) -> None:
        made = world(3)
        leaver, *others = made.machines
        for leaving, flags in ((True, LEAVING), (False, 0)):
            leaver.membership.leaving = leaving
            made.advance(100)
            assert [other.flags(leaver) for other in others] == [flags, flags]
            made.advance(1000)

    def test_one_that_stops_says_so_to_all_and_gets_nothing_new_until_it_is_heard_again(self) -> None:
        made = world(3)
        leaver, *others = made.machines
        leaver.membership.stop()
        made.advance(100)
        for other in others:
            assert other.flags(leaver) == STOPPED
            assert leaver.id not in [node.id for node in other.membership.reachable()]
            assert leaver.id in other.membership.expected(made.now_ms, 0)
        membership = others[0].membership
        membership.receive(leaver.id, greeting(), made.now_ms)
        assert others[0].flags(leaver) == 0

    def test_a_peer_sets_no_other_flag_of_its_own(self) -> None:
        membership = pair()
        membership.receive(B, greeting(flags=2**40 - 1), START_MS)
        assert membership.nodes[B].flags == LEAVING | STOPPED
        membership.receive(B, greeting(rows=(row(flags=2**40 - 1 - FAILING),)), START_MS)
        assert half_met(membership)[0].flags == HANDSHAKE


class TestForget:
    def test_what_others_say_of_it_counts_no_more_until_it_is_met_again(self) -> None:
        made = world(3)
        one, _, other = made.machines
        assert one.membership.expects(C)  # nobody knows; it may have joined elsewhere
        one.membership.forget(other.id, made.now_ms)
        assert not one.membership.expects(other.id)
        made.advance(BLACKLIST_MS + 10_000)
        assert one.membership.expects(other.id)

    def test_a_stranger_that_is_not_met_in_time_counts_as_forgotten(self) -> None:
        made = world(2)
        one = made.machines[0].membership
        one.forgotten.clear()
        assert one.expects(C)
        made.advance(TIMEOUT_MS + 4000)
        assert one.expects(C)
        made.advance(4000)
        assert not one.expects(C)
        assert one.forgotten == [C]

    def test_strangers_are_bounded(self) -> None:
        one = world(1).machines[0].membership
        assert all(one.expects(b"%040d" % number) for number in range(100))
        assert not one.expects(C)
        assert one.expects(b"%040d" % 7)

    def test_a_forgotten_node_stays_away_for_a_minute_and_comes_back_by_gossip(self) -> None:
        made = world(3)
        one, _, other = made.machines
        one.membership.forget(other.id, made.now_ms)
        assert one.membership.forgotten == [other.id]
        made.advance(BLACKLIST_MS - 1000)
        assert other.id not in one.membership.nodes
        assert other.flags(one) & FAILING, "who is not known gets no answer"
        made.advance(20_000)
        assert made.is_mesh()

    def test_forgotten_by_all_it_does_not_come_back(self) -> None:
        made = world(3)
        *others, gone = made.machines
        for machine in others:
            machine.membership.forget(gone.id, made.now_ms)
        made.advance(2 * BLACKLIST_MS)
        assert [machine.membership.known for machine in others] == [2, 2]

    def test_meet_brings_it_back_at_once_from_either_side(self) -> None:
        for teller in (0, 1):
            made = world(2)
            one, other = made.machines
            one.membership.forget(other.id, made.now_ms)
            made.advance(200)
            made.meet(made.machines[teller], made.machines[1 - teller])
            made.advance(1000)
            assert made.is_mesh()

    def test_the_link_to_it_is_not_wanted_any_more(self) -> None:
        membership = pair()
        node = membership.nodes[B]
        membership.forget(B, START_MS)
        assert membership.wanted() == []
        assert node.flags & DELETED
        assert not node.linked

    def test_its_reports_are_gone_with_it(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        membership.receive(B, greeting(rows=(row(flags=FAIL),)), START_MS)
        membership.forget(B, START_MS)
        assert membership.nodes[C].reports == {}

    def test_strangers_and_oneself_cannot_be_forgotten(self) -> None:
        membership = alone()
        for node in (A, B):
            membership.forget(node, START_MS)
        assert (membership.known, membership.forgotten) == (1, [])

    def test_who_fails_for_long_is_forgotten_by_itself(self) -> None:
        made = world(3)
        one, other, dead = made.machines
        for machine in (one, other):
            machine.membership.forget_after_ms = 20_000
        made.kill(dead)
        made.advance(19_000)
        assert one.membership.known == 3
        made.advance(2000)
        assert one.membership.known == other.membership.known == 2
        assert one.membership.forgotten == [dead.id]
        assert one.membership.size == 2

    def test_never_with_a_limit_of_0_nor_when_it_was_well_in_between(self) -> None:
        made = world(2)
        one, dead = made.machines
        one.membership.forget_after_ms = 20_000
        for _ in range(3):
            dead.frozen = True
            made.advance(15_000)
            dead.frozen = False
            made.advance(TIMEOUT_MS)
        assert one.membership.known == 2
        one.membership.forget_after_ms = 0
        made.kill(dead)
        made.advance(60_000)
        assert one.membership.known == 2


class TestReset:
    def test_soft_forgets_all_and_keeps_what_is_its_own(self) -> None:
        membership = pair()
        membership.leaving = True
        membership.dirty = False
        membership.reset(START_MS, None)
        assert list(membership.nodes) == [A]
        assert (membership.size, membership.reachable(), membership.wanted()) == (1, [], [])
        assert membership.forgotten == [B]
        assert (membership.myself.ip, membership.leaving, membership.dirty) == (b"10.0.0.1", True, True)
        assert membership.messages == []

    def test_hard_takes_a_new_id(self) -> None:
        membership = pair()
        membership.reset(START_MS, C)
        assert membership.nodes == {C: membership.myself}
        assert membership.myself.id == C

    def test_after_soft_the_others_see_it_fail_and_after_meet_all_is_well(self) -> None:
        made = world(3)
        one, other, _ = made.machines
        one.membership.reset(made.now_ms, None)
        made.advance(3 * TIMEOUT_MS)
        assert other.flags(one) == FAIL
        assert one.membership.known == 1
        made.meet(one, other)
        made.advance(2000)
        assert made.is_mesh()

    def test_after_hard_the_old_id_has_no_address(self) -> None:
        made = world(2)
        one, other = made.machines
        old = one.id
        one.membership.reset(made.now_ms, node_id(9))
        made.end_link(other, old, refused=False)
        made.advance(1000)
        assert other.membership.nodes[old].flags & NOADDR
        made.meet(one, other)
        made.advance(1000)
        assert one.full() == {one.id, other.id}, "a node without an address is not told of"
        assert other.full() == {one.id, other.id, old}


class TestBounds:
    def test_half_met_nodes_are_bounded(self) -> None:
        membership = pair()
        rows = tuple([row(b"%040x" % number, ip=b"10.1.0.%d" % number) for number in range(ROWS_MOST)])
        membership.receive(B, greeting(rows=rows), START_MS)
        assert len(half_met(membership)) == HANDSHAKES_MOST
        assert not membership.meet(NOWHERE, 7711, 0, START_MS)
        membership.receive(C, greeting(messages.MEET), START_MS, b"10.0.0.3")
        assert C not in membership.nodes

    def test_the_table_is_bounded(self) -> None:
        membership = pair()
        for number in range(NODES_MOST - 2):
            membership.add(Member(b"%040x" % number, b"10.1.0.1", 7711))
        membership.receive(B, greeting(rows=(row(),)), START_MS)
        membership.receive(C, greeting(messages.MEET), START_MS, b"10.0.0.3")
        assert not membership.meet(NOWHERE, 7711, 0, START_MS)
        assert membership.known == NODES_MOST

    def test_of_a_long_list_only_so_many_are_looked_at(self) -> None:
        membership = pair()
        rows = (row(A),) * ROWS_MOST + (row(C),)
        membership.receive(B, greeting(rows=rows), START_MS)
        assert membership.known == 2

    def test_strangers_who_called_are_remembered_up_to_a_number(self) -> None:
        membership = alone()
        for number in range(CALLERS_MOST + 1):
            membership.incoming(b"%040x" % number, b"10.1.0.1", 7711, 17711, START_MS)
        for number in (0, CALLERS_MOST):
            membership.receive(b"%040x" % number, greeting(messages.MEET), START_MS)
        assert list(membership.nodes) == [A, b"%040x" % CALLERS_MOST]

    def test_the_blacklist_is_bounded(self) -> None:
        membership = alone()
        for number in range(NODES_MOST + 5):
            membership.add(Member(b"%040x" % number, b"10.1.0.1", 7711))
            membership.forget(b"%040x" % number, START_MS)
        assert len(membership._blacklist) == NODES_MOST


class TestGossip:
    def test_of_a_failing_stranger_nobody_wants_to_hear(self) -> None:
        membership = pair()
        membership.receive(B, greeting(rows=(row(flags=PFAIL),)), START_MS)
        assert membership.known == 2

    def test_a_known_node_that_is_well_keeps_its_address(self) -> None:
        membership = pair()
        membership.add(Member(C, b"10.0.0.3", 7711))
        membership.receive(B, greeting(rows=(row(ip=b"10.0.0.99"),)), START_MS)
        assert half_met(membership) == []
        assert membership.nodes[C].ip == b"10.0.0.3"

    def test_no_meet_is_said_to_whom_one_knows_by_gossip(self) -> None:
        membership = pair()
        membership.receive(B, greeting(rows=(row(),)), START_MS)
        assert not half_met(membership)[0].flags & MEET


def test_talk_is_the_same_for_the_same_seed() -> None:
    def heard() -> list[list[messages.Message]]:
        made = World(20)
        for machine in made.machines[1:]:
            made.meet(machine, made.machines[0])
        made.advance(2000)
        return [machine.heard for machine in made.machines]

    assert heard() == heard()


def test_messages_to_nodes_that_are_unknown_or_this_one_do_nothing() -> None:
    membership = pair()
    before = membership.version
    for node in (A, C):
        membership.link_up(node, START_MS)
        membership.link_down(node, START_MS, refused=True)
        membership.receive(node, greeting(), START_MS)
    assert membership.version == before
    assert membership.messages == []


def test_machines_of_the_world_have_ids_of_their_own() -> None:
    assert Machine(1).id != Machine(2).id


def shake(made: World, random: Random) -> None:
    """Something bad happens, or something good."""
    one, other = random.sample(made.machines, 2)
    deed = random.randrange(7)
    if deed == 0 and one.up:
        made.kill(one)
    elif deed == 1 and not one.up:
        made.start(one, b"10.0.%d.%d" % (random.randrange(1, 250), int(one.id[:2], 16)))
    elif deed == 2:
        one.frozen = not one.frozen and one.up
    elif deed == 3:
        made.cut.add((one, other))
    elif deed == 4:
        made.cut.clear()
    elif deed == 5 and one.up:
        made.meet(one, other)
    elif one.up:
        one.membership.leaving = not one.membership.leaving


@pytest.mark.parametrize("seed", range(20))
def test_whatever_has_happened_once_it_is_over_one_meet_each_brings_all_together(seed: int) -> None:
    random = Random(seed)
    made = world(5)
    for _ in range(40):
        shake(made, random)
        made.advance(random.choice([100, 500, 4000]))
    made.cut.clear()
    for machine in made.machines:
        machine.frozen = False
        if not machine.up:
            made.start(machine, machine.ip)
    for machine in made.machines[1:]:
        made.meet(machine, made.machines[0])  # if all have moved, nobody could find anybody
    made.advance(4 * TIMEOUT_MS)
    assert made.is_mesh()
    for machine in made.machines:
        leaving = {other.id for other in made.machines if other.membership.leaving}
        seen = {node.id: node.flags & ~MYSELF for node in machine.membership.nodes.values()}
        assert seen == {other.id: LEAVING * (other.id in leaving) for other in made.machines}
