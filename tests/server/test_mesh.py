from typing import Any, Final, cast

import pytest

from cluster.capabilities import MINE, SIZES
from cluster.handshake import Identity
from cluster.member import MEET
from cluster.membership import FAILING, HANDSHAKE, Member, Membership
from cluster.messages import ENQUEUE, LIMIT, PING, Message
from disque.core import step
from disque.core.base.timers import NEVER
from disque.core.config.settings import Config
from disque.server.mesh import CATCH_UP_LEAST, Mesh, bus_port_of, client_port_of
from tests.server.shell import Shell

PEER: Final = Identity(b"b" * 40, 22, 7712, 17712)
JOB: Final = b"j" * 40
PING_MESSAGE: Final = (PING, 0, b"", 7712, 17712, ())


class FakeBus:
    """A bus that notes what it is told; `deaf` nodes have no link."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Message]] = []
        self.wanted: list[list[bytes]] = []
        self.renewed: list[bytes] = []
        self.deaf: set[bytes] = set()
        self.restarts = 0
        self.busy = False
        self.queue_most = 1
        self.bytes_received = 0
        self.settings: tuple[Any, ...] = ()
        self.long_ones: list[bytes] = []

    def sending(self) -> list[bytes]:
        return self.long_ones

    def configure(self, *settings: Any) -> None:
        self.settings = settings

    def send(self, outbox: list[tuple[bytes, Message]]) -> list[tuple[bytes, list[Message]]]:
        self.sent += [one for one in outbox if one[0] not in self.deaf]
        return [(peer, [message]) for peer, message in outbox if peer in self.deaf]

    def reconcile(self, wanted: list[Member]) -> None:
        self.wanted.append([node.id for node in wanted])

    def renew(self, peer_id: bytes) -> None:
        self.renewed.append(peer_id)

    def restart(self) -> None:
        self.restarts += 1


class Meshed(Shell):
    """A shell among other nodes."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.mesh = Mesh(self.pump, 7711, 17711)
        self.bus = FakeBus()
        self.mesh.bus = cast("Any", self.bus)
        self.mesh.configure()
        self.mesh.started = True
        self.pump.mesh = self.mesh

    @property
    def membership(self) -> Membership:
        return self.node.membership

    def meet(self) -> None:
        """Know another node and be linked to it, both ways."""
        self.membership.add(Member(PEER.id, b"127.0.0.1", PEER.port, PEER.bus_port, HANDSHAKE))
        self.mesh.link_up(PEER.id, PEER.start)
        self.mesh.heard(PEER, b"127.0.0.1", b"127.0.0.1")
        self.mesh.received(PEER.id, [PING_MESSAGE])
        self.loop.settle()
        self.beats(1)

    def beats(self, count: int) -> None:
        for _ in range(count):
            self.clock.ms += 100
            self.mesh.beat(self.clock.ms)
            self.loop.settle()


def test_a_node_that_stops_gives_up_no_link_because_of_all_that_it_has_to_say() -> None:
    shell = Meshed()
    shell.meet()
    shell.mesh.take_leave()
    assert shell.bus.queue_most == NEVER


class TestBeat:
    def test_a_node_that_is_alone_is_quiet(self) -> None:
        shell = Meshed()
        shell.beats(50)
        assert shell.bus.sent == []
        assert shell.pump.gap_ms == NEVER

    def test_before_the_journal_is_read_nothing_happens(self) -> None:
        shell = Meshed(cluster_seeds="10.0.0.1:7711")
        shell.mesh.started = False
        shell.beats(20)
        assert shell.bus.wanted == []
        assert shell.membership.known == 1

    def test_links_follow_the_table_of_nodes_and_only_its_changes(self) -> None:
        shell = Meshed()
        shell.meet()
        shell.bus.wanted.clear()
        shell.membership.add(Member(b"c" * 40, b"10.0.0.3", 1))
        shell.pump.flush()
        assert shell.bus.wanted == [[PEER.id, b"c" * 40]]
        shell.pump.flush()
        assert len(shell.bus.wanted) == 1

    def test_a_node_that_is_told_to_meet_another_does_so_in_the_same_turn(self) -> None:
        shell = Meshed()
        shell.membership.meet(b"127.0.0.1", 7712, 17712, shell.clock.ms)
        shell.pump.flush()
        assert len(shell.bus.wanted[-1]) == 1

    def test_a_link_that_carries_nothing_is_made_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        monkeypatch.setattr(Membership, "stale", lambda _: [PEER.id])
        shell.beats(1)
        assert shell.bus.renewed == [PEER.id]

    def test_a_node_of_which_something_long_comes_is_alive(self) -> None:
        shell = Meshed()
        shell.meet()
        shell.bus.long_ones = [PEER.id]
        shell.beats(400)
        assert shell.membership.nodes[PEER.id].flags == 0
        shell.bus.long_ones = []
        shell.beats(400)
        assert shell.membership.nodes[PEER.id].flags & FAILING

    def test_a_node_that_becomes_another_one_ends_all_links(self) -> None:
        shell = Meshed()
        shell.meet()
        shell.membership.reset(shell.clock.ms, b"d" * 40)
        shell.pump.flush()
        assert shell.bus.restarts == 1
        assert shell.mesh.identity().id == b"d" * 40

    def test_the_log_tells_who_came_and_who_fails(self) -> None:
        shell = Meshed()
        shell.meet()
        assert "Node bbbbbbbb at 127.0.0.1:7712 has joined" in shell.log.lines
        shell.mesh.link_down(PEER.id, refused=True)
        shell.beats(3)
        assert sum("bbbbbbbb" in line and "fail?" in line for line in shell.log.lines) == 1

    def test_the_log_tells_where_nobody_was_reached(self) -> None:
        shell = Meshed()
        shell.mesh.unreached("disque-9:17711", "timed out")
        assert shell.log.lines == ["No node can be reached at disque-9:17711: timed out. Trying again"]

    def test_a_fault_in_the_core_does_not_end_the_beat(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        monkeypatch.setattr(step, "beat", lambda *_: 1 / 0)
        shell.beats(2)
        assert any("ZeroDivisionError" in line for line in shell.log.lines)


class TestMessages:
    def test_each_message_goes_through_the_door_and_is_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        taken: list[object] = []
        monkeypatch.setattr(step, "message", lambda _node, peer, message, _ms: taken.append((peer, message)))
        shell.mesh.received(PEER.id, [(ENQUEUE, JOB, 1), (ENQUEUE, JOB, 2)])
        assert taken == [(PEER.id, (ENQUEUE, JOB, 1)), (PEER.id, (ENQUEUE, JOB, 2))]
        assert shell.membership.messages_received == 2
        assert len(shell.loop.calls) == 1, "one flush for all"

    def test_a_message_that_fails_harms_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        taken: list[object] = []

        def take(_node: object, _peer: bytes, message: Message, _ms: int) -> None:
            if message[2] == 1:
                raise KeyError(message)
            taken.append(message)

        monkeypatch.setattr(step, "message", take)
        shell.mesh.received(PEER.id, [(ENQUEUE, JOB, 1), (ENQUEUE, JOB, 2)])
        assert taken == [(ENQUEUE, JOB, 2)]
        assert any("kind 6" in line and "KeyError" in line for line in shell.log.lines)

    def test_what_a_flush_leaves_goes_at_once_without_a_journal(self) -> None:
        shell = Meshed()
        shell.node.messages.append((PEER.id, (ENQUEUE, JOB, 1)))
        shell.node.early.append((PEER.id, (ENQUEUE, JOB, 2)))
        shell.pump.flush()
        assert sorted(message[2] for _, message in shell.bus.sent) == [1, 2]  # type: ignore[type-var]  # numbers
        assert shell.membership.messages_sent == 2
        assert shell.node.messages == shell.node.early == []

    def test_what_has_no_link_comes_back_in_another_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        back: list[object] = []
        monkeypatch.setattr(step, "undelivered", lambda _node, peer, messages, _ms: back.append((peer, messages)))
        shell.bus.deaf.add(PEER.id)
        shell.node.messages.append((PEER.id, (ENQUEUE, JOB, 1)))
        shell.pump.flush()
        assert back == []
        shell.loop.settle()
        assert back == [(PEER.id, [(ENQUEUE, JOB, 1)])]
        assert shell.membership.messages_sent == 0

    def test_faults_do_not_flood_the_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = Meshed()
        monkeypatch.setattr(step, "message", lambda *_: 1 / 0)
        shell.mesh.received(PEER.id, [(ENQUEUE, JOB, 1)] * 1000)
        assert len(shell.log.lines) == 1
        shell.clock.ms += 1000
        shell.mesh.received(PEER.id, [(ENQUEUE, JOB, 1)] * 1000)
        assert len(shell.log.lines) == 2


class TestLinks:
    def test_two_nodes_that_hear_each_other_are_a_cluster(self) -> None:
        shell = Meshed()
        shell.meet()
        assert [node.id for node in shell.membership.reachable()] == [PEER.id]
        assert PING in {message[0] for peer, message in shell.bus.sent if peer == PEER.id}
        assert shell.pump.gap_ms < NEVER

    def test_the_address_of_this_node_is_where_others_reach_it(self) -> None:
        shell = Meshed()
        shell.mesh.heard(PEER, b"10.0.0.2", b"10.0.0.1")
        assert shell.membership.myself.ip == b"10.0.0.1"

    def test_what_is_announced_counts_for_more(self) -> None:
        shell = Meshed(cluster_announce_ip="1.2.3.4", cluster_announce_port="80", cluster_announce_bus_port="90")
        shell.mesh.heard(PEER, b"10.0.0.2", b"10.0.0.1")
        myself = shell.membership.myself
        assert (myself.ip, myself.port, myself.bus_port) == (b"1.2.3.4", 80, 90)
        assert shell.mesh.identity() == Identity(myself.id, shell.node.start, 80, 90, b"1.2.3.4")

    def test_the_zone_of_this_node_is_told_and_that_of_others_learnt_at_either_end(self) -> None:
        shell = Meshed(cluster_zone="rack-1")
        assert shell.mesh.identity().zone == b"rack-1"
        shell.meet()
        peer = shell.membership.nodes[PEER.id]
        shell.mesh.heard(PEER._replace(zone=b"rack-2"), b"127.0.0.1", b"127.0.0.1")
        assert peer.zone == b"rack-2"
        shell.mesh.identified(PEER.id, PEER._replace(zone=b"rack-1"), b"127.0.0.1")
        assert peer.zone == b"rack-1"
        shell.beats(1)
        assert shell.node.peers[PEER.id].zone == b"rack-1"

    def test_what_others_understand_is_learnt_at_either_end_and_bounds_what_they_are_sent(self) -> None:
        shell = Meshed()
        assert shell.mesh.identity().capabilities == MINE
        shell.meet()
        peer = shell.node.peers[PEER.id]
        assert peer.understands(SIZES)
        for told in (
            lambda: shell.mesh.heard(PEER._replace(capabilities=0), b"127.0.0.1", b"127.0.0.1"),
            lambda: shell.mesh.identified(PEER.id, PEER._replace(capabilities=0), b"127.0.0.1"),
        ):
            shell.mesh.heard(PEER, b"127.0.0.1", b"127.0.0.1")
            shell.mesh.send([(PEER.id, (LIMIT, 7))])
            assert shell.bus.sent[-1] == (PEER.id, (LIMIT, 7))
            told()
            shell.beats(1)
            assert not peer.understands(SIZES)
            before, shell.bus.sent = shell.membership.messages_sent, []
            shell.mesh.send([(PEER.id, (LIMIT, 8)), (PEER.id, (ENQUEUE, JOB, 0))])
            assert shell.bus.sent == [(PEER.id, (ENQUEUE, JOB, 0))]
            assert shell.membership.messages_sent == before + 1

    def test_a_node_that_knows_only_its_own_zone_goes_on_looking_for_its_seeds(self) -> None:
        shell = Meshed(cluster_zone="host-1", cluster_seeds="127.0.0.1:9001")
        shell.meet()
        peer = shell.membership.nodes[PEER.id]
        for zone, tries in ((b"host-1", 1), (b"host-2", 0), (b"", 0)):
            for node in [node for node in shell.membership.nodes.values() if node.flags & HANDSHAKE]:
                shell.membership.forget(node.id, shell.clock.ms)
            shell.membership.set_zone(peer.id, zone)
            shell.beats(101)
            met = [node for node in shell.membership.nodes.values() if node.bus_port == 19001]
            assert len(met) == tries, zone

    def test_a_link_that_is_refused_makes_the_node_suspect_at_once(self) -> None:
        shell = Meshed()
        shell.meet()
        shell.mesh.link_down(PEER.id, refused=True)
        assert shell.membership.reachable() == []

    def test_whoever_answers_at_a_half_known_address_is_taken_in_by_his_real_name(self) -> None:
        shell = Meshed()
        shell.membership.meet(b"127.0.0.1", 7712, 17712, shell.clock.ms)
        [half_met] = shell.membership.wanted()
        assert shell.mesh.identified(half_met.id, PEER, b"127.0.0.1")
        assert [node.id for node in shell.membership.wanted()] == [PEER.id]


class TestSettings:
    def test_settings_are_taken_over_when_they_change(self) -> None:
        shell = Meshed()
        for name, value in (
            ("cluster-node-timeout", "700"),
            ("cluster-forget-after", "60"),
            ("cluster-secret", "s\u00e9"),
            ("proto-max-bulk-len", "1mb"),
        ):
            shell.node.config.put(name, (value,))
        shell.mesh.configure()
        assert (shell.membership.timeout_ms, shell.membership.forget_after_ms) == (700, 60_000)
        assert shell.bus.settings == ("s\u00e9".encode(), 700, 1 << 20, 1 << 30)

    @pytest.mark.parametrize(
        ("options", "port"),
        [
            ({}, 17711),
            ({"port": "9000"}, 19000),
            ({"cluster-bus-port": "5"}, 5),
            ({"port": "0"}, 0),
            ({"port": "0", "cluster-bus-port": "5"}, 5),
            ({"tls-port": "9001"}, 17711),
            ({"port": "0", "tls-port": "9001"}, 19001),
        ],
    )
    def test_the_bus_port(self, options: dict[str, str], port: int) -> None:
        config = Config()
        for name, value in options.items():
            config.put(name, (value,))
        assert bus_port_of(config) == port

    @pytest.mark.parametrize(("port", "tls_port", "told"), [(1, 0, 1), (1, 2, 1), (0, 2, 2), (0, 0, 0)])
    def test_clients_are_told_the_plain_port_while_there_is_one(self, port: int, tls_port: int, told: int) -> None:
        config = Config()
        config.put("port", (str(port),))
        config.put("tls-port", (str(tls_port),))
        assert client_port_of(config) == told


class TestSeeds:
    SEEDS = "10.0.0.1:7711 10.0.0.2:7711@9000"

    def met(self, shell: Meshed) -> set[tuple[bytes, int]]:
        return {(node.ip, node.bus_port) for node in shell.membership.wanted()}

    def test_a_node_that_is_alone_introduces_itself_to_its_seeds(self) -> None:
        shell = Meshed(cluster_seeds=self.SEEDS)
        shell.beats(1)
        assert self.met(shell) == {(b"10.0.0.1", 17711), (b"10.0.0.2", 9000)}
        shell.beats(30)
        assert shell.membership.known == 3, "each once at a time"

    def test_it_tries_again_when_they_did_not_answer(self) -> None:
        shell = Meshed(cluster_seeds=self.SEEDS, cluster_node_timeout="1000")
        shell.beats(11)
        before = set(shell.membership.nodes)
        shell.beats(30)
        assert len(self.met(shell)) == 2
        assert set(shell.membership.nodes) != before

    def test_it_stops_when_it_knows_another_node(self) -> None:
        shell = Meshed(cluster_seeds=self.SEEDS, cluster_node_timeout="1000")
        shell.meet()
        shell.beats(30)
        assert self.met(shell) == {(b"127.0.0.1", 17712)}

    def test_one_that_was_forgotten_introduces_itself_to_those_that_it_knows(self) -> None:
        shell = Meshed()
        shell.meet()
        shell.mesh.link_down(PEER.id, refused=False)
        shell.beats(20)
        assert not any(node.flags & HANDSHAKE for node in shell.membership.nodes.values())
        shell.node.repairs.is_forgotten = True
        shell.beats(1)
        [half_met] = [node for node in shell.membership.nodes.values() if node.flags & HANDSHAKE]
        assert (half_met.ip, half_met.bus_port, half_met.flags & MEET) == (b"127.0.0.1", PEER.bus_port, MEET)
        shell.mesh.link_up(PEER.id, PEER.start)
        shell.mesh.heard(PEER, b"127.0.0.1", b"127.0.0.1")
        shell.mesh.received(PEER.id, [PING_MESSAGE])
        shell.beats(101)
        assert not shell.node.repairs.is_forgotten

    def lost(self, **options: str) -> Meshed:
        """A node whose only peer cannot be reached any more, a moment ago."""
        shell = Meshed(cluster_seeds="10.0.0.2:7711", cluster_node_timeout="1000", **options)
        shell.meet()
        shell.mesh.link_down(PEER.id, refused=True)
        return shell

    def half_met(self, shell: Meshed) -> list[Member]:
        return [node for node in shell.membership.nodes.values() if node.flags & HANDSHAKE]

    def test_nodes_that_are_lost_for_a_node_timeout_are_looked_for_at_the_seeds(self) -> None:
        shell = self.lost()
        shell.beats(10)
        assert self.half_met(shell) == []
        shell.beats(1)
        [sought] = self.half_met(shell)
        assert (sought.ip, sought.bus_port, sought.flags & MEET) == (b"10.0.0.2", 17711, 0)
        assert shell.mesh.identified(sought.id, PEER, b"10.0.0.2")
        [peer] = shell.membership.wanted()
        assert (peer.id, peer.ip, peer.port, peer.bus_port) == (PEER.id, b"10.0.0.2", PEER.port, PEER.bus_port)
        assert not peer.flags & MEET, "one that has forgotten this node does not get it back by this"

    def test_they_are_not_looked_for_while_one_is_linked(self) -> None:
        shell = self.lost()
        shell.membership.add(Member(b"c" * 40, b"10.0.0.3", 1))
        shell.mesh.link_up(b"c" * 40, 1)
        shell.beats(30)
        assert self.half_met(shell) == []

    def test_a_link_within_the_zone_does_not_find_the_others(self) -> None:
        shell = self.lost(cluster_zone="host-1")
        shell.membership.add(Member(b"c" * 40, b"10.0.0.3", 1))
        shell.membership.set_zone(b"c" * 40, b"host-1")
        shell.mesh.link_up(b"c" * 40, 1)
        shell.beats(11)
        assert [node.ip for node in self.half_met(shell)] == [b"10.0.0.2"]

    def test_they_are_looked_for_again_but_not_all_the_time(self) -> None:
        shell = self.lost()
        shell.beats(11)
        before = self.half_met(shell)
        shell.beats(99)
        assert self.half_met(shell) == [], "given up"
        shell.beats(1)
        [sought] = self.half_met(shell)
        assert sought not in before
        assert not sought.flags & MEET

    def test_another_node_that_is_found_there_is_not_taken_in(self) -> None:
        shell = self.lost()
        shell.beats(11)
        [sought] = self.half_met(shell)
        other = Identity(b"d" * 40, 1, 7711, 17711)
        assert not shell.mesh.identified(sought.id, other, b"10.0.0.2")
        assert self.half_met(shell) == []

    def test_but_it_is_when_somebody_says_meet(self) -> None:
        shell = self.lost()
        shell.beats(11)
        [sought] = self.half_met(shell)
        shell.membership.meet(b"10.0.0.2", 7711, 17711, shell.clock.ms)
        other = Identity(b"d" * 40, 1, 7711, 17711)
        assert shell.mesh.identified(sought.id, other, b"10.0.0.2")
        assert other.id in shell.membership.nodes

    def test_one_that_was_away_for_too_long_introduces_itself_there_as_well(self) -> None:
        shell = self.lost()
        shell.node.repairs.is_forgotten = True
        shell.beats(11)
        assert {node.ip: node.flags & MEET for node in self.half_met(shell)} == {b"127.0.0.1": MEET, b"10.0.0.2": MEET}

    def test_it_leaves_itself_out(self) -> None:
        shell = Meshed(cluster_seeds="10.0.0.1:7711 127.0.0.1:7711")
        shell.beats(1)
        assert self.met(shell) == {(b"10.0.0.1", 17711)}

    def test_a_name_that_turned_out_to_be_this_node_is_left_out_for_a_while(self) -> None:
        shell = Meshed(cluster_seeds="me:7711")
        shell.beats(1)
        [half_met] = shell.membership.wanted()
        assert not shell.mesh.identified(half_met.id, shell.mesh.identity(), b"10.9.9.9")
        shell.beats(100)
        assert self.met(shell) == set()
        shell.beats(300)
        assert self.met(shell) == {(b"me", 17711)}


class TestStandingStill:
    def shell(self) -> Meshed:
        shell = Meshed(cluster_node_timeout="1000")
        shell.meet()
        return shell

    def test_after_a_stop_peers_are_heard_before_clients(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shell = self.shell()
        client, transport = shell.connect()
        order: list[str] = []
        monkeypatch.setattr(step, "beat", lambda *_: order.append("beat"))
        monkeypatch.setattr(step, "message", lambda *_: order.append("message"))
        shell.clock.ms += 501 + 100
        client.data_received(b"PING\r\n")
        assert order == ["beat"]
        for _ in range(CATCH_UP_LEAST - 1):
            shell.loop.turn()
            assert transport.written == b""
        shell.bus.bytes_received += 10
        shell.mesh.received(PEER.id, [PING_MESSAGE])
        shell.loop.turn()
        assert transport.written == b"", "as long as peers have more to say"
        shell.loop.settle()
        assert transport.take() == b"+PONG\r\n"
        assert order == ["beat", "message"]

    def test_what_a_peer_has_said_is_handed_on_first(self) -> None:
        shell = self.shell()
        client, transport = shell.connect()
        shell.bus.busy = True
        shell.clock.ms += 700
        client.data_received(b"PING\r\n")
        for _ in range(20):
            shell.loop.turn()
        assert transport.written == b""
        shell.bus.busy = False
        shell.loop.settle()
        assert transport.take() == b"+PONG\r\n"

    def test_no_peer_can_hold_up_clients_for_ever(self) -> None:
        shell = self.shell()
        client, transport = shell.connect()
        shell.bus.busy = True
        shell.clock.ms += 700
        client.data_received(b"PING\r\n")
        shell.loop.settle()
        assert transport.take() == b"+PONG\r\n"

    @pytest.mark.parametrize("gap_ms", [100, 500])
    def test_a_short_pause_delays_nobody(self, gap_ms: int) -> None:
        shell = self.shell()
        client, transport = shell.connect()
        shell.clock.ms += gap_ms
        client.data_received(b"PING\r\n")
        shell.loop.turn()
        assert transport.take() == b"+PONG\r\n"

    def test_a_timer_or_a_peer_that_comes_first_makes_a_beat_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for come in ("timer", "peer"):
            shell = self.shell()
            order: list[str] = []
            with monkeypatch.context() as patch:
                patch.setattr(step, "beat", lambda *_, order=order: order.append("beat"))
                patch.setattr(step, "message", lambda *_, order=order: order.append("peer"))
                shell.node.chores.appendleft(map(order.append, ["timer"]))
                shell.clock.ms += 700
                if come == "timer":
                    shell.pump.on_timer()
                else:
                    shell.mesh.received(PEER.id, [PING_MESSAGE])
            assert order == ["beat", come]

    def test_a_node_that_is_alone_has_nobody_to_hear(self) -> None:
        shell = Meshed(cluster_node_timeout="1000")
        shell.beats(1)
        client, transport = shell.connect()
        shell.clock.ms += 100_000
        client.data_received(b"PING\r\n")
        shell.loop.turn()
        assert transport.take() == b"+PONG\r\n"
