import asyncio
import gc
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, cast

import msgpack
import pytest

from cluster.bus import FRAME_BYTES, FRAME_MESSAGES, STRANGERS_MOST, Bus, loopback, pack_all
from cluster.frames import enclosed
from cluster.handshake import HELLO, MAGIC, MISMATCH, TWIN, Acceptor, Dialer, Identity
from cluster.link import Incoming, Link, Outgoing, connected
from cluster.membership import HANDSHAKE, Member
from cluster.messages import DELJOB, ENQUEUE, GOTJOB, WORKING, Message, encode_message, frame
from cluster.peer import Peer
from disque.core.config.settings import Config
from disque.server.tls import contexts
from tests.cluster.buses import LOOPBACK, Impostor, Notes, Station, Stranger, end, in_loop, join, stations
from tests.support import certificates
from tests.support.formats import yourjobs, yourjobs_row

JOB = b"D-" + b"j" * 38
ZED = Identity(b"f" * 40, 99, 7711, 17711)


def got(number: int) -> Message:
    return (ENQUEUE, JOB, number)


class Hasty:
    """A loop in which something else happens just before the first connection is told that it stands."""

    def __init__(self, loop: asyncio.AbstractEventLoop, happen: Callable[[], None]) -> None:
        self._loop = loop
        self._happen: Callable[[], None] | None = happen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, *words: Any, **named: Any) -> Any:
        if self._happen is not None:
            self._loop.call_soon(self._happen)
            self._happen = None
        return await self._loop.create_connection(*words, **named)


class TestLinks:
    def test_two_nodes_are_linked_both_ways_and_know_each_other(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            assert ("heard", other.id, ord("b"), b"127.0.0.1", b"127.0.0.1") in one.notes.events
            assert one.bus.links_up() == other.bus.links_up() == 1
            await end(one, other)

        in_loop(scene)

    def test_messages_arrive_in_order_once_and_are_counted(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab", b"secret")
            await join(one, other)
            before = one.bus.bytes_sent, other.bus.bytes_received
            assert one.bus.send([(other.id, got(number)) for number in range(10)]) == []
            assert one.bus.send([(other.id, got(10))]) == []
            await other.notes.until(lambda: len(other.notes.messages) == 11)
            assert other.notes.messages == [(one.id, got(number)) for number in range(11)]
            sent, received = one.bus.bytes_sent - before[0], other.bus.bytes_received - before[1]
            assert sent == received > 11 * 40
            await end(one, other)

        in_loop(scene)

    @pytest.mark.parametrize("size", [3 << 20, 20 << 20])
    def test_a_large_job_arrives_between_others_and_is_seen_on_its_way(self, size: int) -> None:
        large: Message = yourjobs(yourjobs_row(JOB, body=b"x" * size, holders=(b"a" * 40,)))

        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            seen = []

            def look() -> bool:
                seen.extend(other.bus.sending())
                return len(other.notes.messages) == 3

            assert one.bus.send([(other.id, message) for message in (got(1), large, got(2))]) == []
            await other.notes.until(look)
            assert other.notes.messages == [(one.id, message) for message in (got(1), large, got(2))]
            assert seen[0] == one.id
            assert other.bus.sending() == []
            link = one.bus.link(other.id)
            assert link is not None
            assert not link.choked
            await end(one, other)

        in_loop(scene)

    def test_messages_to_nodes_without_a_link_come_back(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            left = one.bus.send([(b"c" * 40, got(1)), (other.id, got(2)), (b"c" * 40, got(3))])
            assert left == [(b"c" * 40, [got(1), got(3)])]
            await other.notes.until(lambda: other.notes.messages == [(one.id, got(2))])
            await end(one, other)

        in_loop(scene)

    def test_a_node_that_is_gone_is_reported_at_once_and_linked_again_when_it_is_back(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            await other.end()
            await one.notes.until_event("down", other.id, True)
            assert one.bus.link(other.id) is None
            assert one.bus.send([(other.id, got(1))]) == [(other.id, [got(1)])]
            again = Station("b", start=77)
            again.notes.me = again.notes.me._replace(bus_port=again.port)
            await again.listen()
            one.bus.reconcile([again.node()])
            await one.notes.until_event("up", again.id, 77)
            await end(one, again)

        in_loop(scene)

    def test_a_node_that_makes_a_link_is_linked_back_at_once(self) -> None:
        async def scene() -> None:
            other = Station("b")
            other.sock.close()
            [one] = await stations("a")
            one.bus.reconcile([other.node()])
            await one.notes.until_event("down", other.id, True)
            one.bus.peers[other.id].rest()  # it would not try again by itself
            again = Station("b")
            one.bus.peers[other.id].port = again.port
            await again.listen()
            again.bus.reconcile([one.node()])
            await one.notes.until_event("up", other.id)
            await end(one, again)

        in_loop(scene)

    def test_an_attempt_that_is_given_up_while_its_connection_becomes_a_link_leaves_no_dead_link(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            there = other.node()
            elsewhere = Member(other.id, b"localhost", there.port, there.bus_port)
            loop = one.bus.loop
            one.bus.loop = cast("asyncio.AbstractEventLoop", Hasty(loop, lambda: one.bus.reconcile([elsewhere])))
            one.bus.reconcile([there])
            await one.notes.until_event("up", other.id)
            assert one.bus.peers[other.id].host == "localhost", "what gave up the first attempt came in its midst"
            assert one.bus.send([(other.id, got(1))]) == []
            await other.notes.until(lambda: other.notes.messages == [(one.id, got(1))])
            one.bus.renew(other.id)
            await one.notes.until(lambda: one.notes.kinds().count("up") == 2)
            await end(one, other)

        in_loop(scene)

    def test_links_to_nodes_that_are_not_wanted_any_more_end(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.bus.reconcile([])
            assert one.bus.link(other.id) is None
            await other.notes.until(lambda: not other.bus.incoming)
            assert "down" not in one.notes.kinds(), "its owner knows"
            await end(one, other)

        in_loop(scene)

    def test_a_link_that_is_renewed_ends_and_is_made_again(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.bus.renew(other.id)
            assert one.bus.link(other.id) is None, "nothing more goes over the old one"
            await one.notes.until(lambda: one.notes.kinds().count("up") == 2)
            assert one.notes.events[-3:][0] == ("down", other.id, False)
            await end(one, other)

        in_loop(scene)

    def test_a_node_without_an_address_is_not_tried(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            one.bus.reconcile([Member(b"b" * 40, b"", 0, 1)])
            assert one.bus.peers[b"b" * 40].task is None
            await end(one)

        in_loop(scene)

    def test_an_address_that_changes_is_tried_at_once(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            nobody = socket.create_server((LOOPBACK, 0))
            port = nobody.getsockname()[1]
            nobody.close()
            one.bus.reconcile([Member(other.id, b"127.0.0.1", 1, port)])
            await one.notes.until_event("down", other.id, True)
            one.bus.peers[other.id].failures = 100
            one.bus.reconcile([other.node()])
            await one.notes.until_event("up", other.id)
            await end(one, other)

        in_loop(scene)

    def test_names_are_looked_up(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            one.bus.reconcile([Member(other.id, b"localhost", 1, other.port)])
            await one.notes.until_event("up", other.id)
            await end(one, other)

        in_loop(scene)

    @pytest.mark.parametrize("name", [b"no.such.host.invalid", b"a..b", b"x" * 100, b"\xff"])
    def test_a_name_that_nobody_has_is_a_failure_like_others(self, name: bytes) -> None:
        async def scene() -> None:
            [one] = await stations("a", b"secret")
            one.bus.reconcile([Member(b"b" * 40, name, 1, 1)])
            await one.notes.until_event("down", b"b" * 40, False)
            await end(one)

        in_loop(scene)

    def test_ipv6(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            other = Station("b")
            sock = socket.create_server(("::1", 0), family=socket.AF_INET6)
            await other.bus.listen([sock], 10)
            one.bus.reconcile([Member(other.id, b"::1", 1, sock.getsockname()[1])])
            await one.notes.until_event("up", other.id)
            await other.notes.until_event("heard", one.id, ord("a"), b"::1", b"::1")
            await end(one, other)

        in_loop(scene)

    def test_a_node_that_becomes_another_one_begins_anew(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.notes.me = one.notes.me._replace(id=b"c" * 40)
            one.bus.restart()
            assert one.bus.peers == {}
            await other.notes.until(lambda: not other.bus.incoming)
            one.bus.reconcile([other.node()])
            await other.notes.until_event("heard", b"c" * 40)
            await end(one, other)

        in_loop(scene)


class TestIdentity:
    def test_a_node_that_was_only_met_gets_its_real_name(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            one.bus.reconcile([other.node(b"0" * 40)])
            await one.notes.until_event("up", other.id)
            assert one.notes.events[0] == ("identified", b"0" * 40, other.notes.me, b"127.0.0.1")
            assert list(one.bus.peers) == [other.id]
            await end(one, other)

        in_loop(scene)

    def test_a_node_that_is_met_again_keeps_its_link(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            link = one.bus.link(other.id)
            one.bus.reconcile([other.node(), other.node(b"0" * 40)])
            await one.notes.until_event("identified", b"0" * 40)
            assert one.bus.link(other.id) is link
            assert list(one.bus.peers) == [other.id]
            await end(one, other)

        in_loop(scene)

    def test_a_link_that_leads_to_somebody_who_is_of_no_use_is_not_used(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            one.notes.use_link = lambda _expected, _peer: False
            one.bus.reconcile([other.node(b"c" * 40)])
            await one.notes.until_event("down", b"c" * 40)
            assert "up" not in one.notes.kinds()
            await end(one, other)

        in_loop(scene)

    def test_a_node_that_meets_itself_finds_out_and_hears_nothing_from_itself(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            one.notes.use_link = lambda _expected, peer: peer.id != one.id
            one.bus.reconcile([one.node(b"0" * 40)])
            await one.notes.until_event("identified", b"0" * 40, one.notes.me)
            await one.notes.until_event("down")
            assert "heard" not in one.notes.kinds()
            assert one.bus.complaints.count == 0
            await end(one)

        in_loop(scene)

    def test_a_second_process_with_the_same_id_is_refused_while_the_first_is_alive(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            twin = Station("b", start=1234)
            twin.bus.reconcile([one.node()])
            await twin.notes.until(lambda: twin.notes.said("another process"))
            assert one.notes.said(f"node {other.id.decode()} is alive at 127.0.0.1")
            assert one.bus.incoming[other.id].peer.start == ord("b")
            await end(one, other, twin)

        in_loop(scene)

    def test_a_link_to_a_second_process_with_the_same_id_is_not_used(self) -> None:
        async def scene() -> None:
            [one, other] = await stations("ab")
            other.bus.reconcile([one.node()])
            await one.notes.until_event("heard", other.id)
            twin = await Station("b", start=1234).listen()
            one.bus.reconcile([twin.node()])
            await one.notes.until(lambda: one.notes.said("another process"))
            assert one.bus.link(other.id) is None
            await end(one, other, twin)

        in_loop(scene)

    def test_a_second_process_is_let_in_when_the_first_was_not_heard_for_the_node_timeout(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.bus.timeout_s = 0.0
            twin = Station("b", start=1234)
            twin.bus.reconcile([one.node()])
            await one.notes.until_event("heard", other.id, 1234)
            assert [link.peer.start for link in one.bus.incoming.values()] == [1234]
            await end(one, other, twin)

        in_loop(scene)

    def test_my_own_id_in_another_process_is_refused(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            twin = Station("a", start=1234)
            twin.bus.reconcile([one.node(b"0" * 40)])
            await twin.notes.until(lambda: twin.notes.said(TWIN))
            assert one.notes.said(TWIN)
            await end(one, twin)

        in_loop(scene)


class TestOneIncomingLink:
    def test_a_new_link_ends_the_old_one_before_its_first_frame_is_read(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            old, new = await Stranger.to(one), await Stranger.to(one)
            await old.enter(ZED)
            old.say(frame([encode_message(got(1))]))
            await one.notes.until(lambda: len(one.notes.messages) == 1)
            first = one.bus.incoming[ZED.id]
            await new.enter(ZED)
            await one.notes.until(lambda: one.bus.incoming[ZED.id] is not first)
            old.say(frame([encode_message(got(2))]))
            new.say(frame([encode_message(got(3))]))
            await one.notes.until(lambda: len(one.notes.messages) == 2)
            assert await old.rest() == b""
            assert [message for _, message in one.notes.messages] == [got(1), got(3)]
            await one.notes.until(lambda: list(one.bus.incoming) == [ZED.id])
            new.close()
            await end(one)

        in_loop(scene)

    def test_a_later_version_may_say_more_and_the_link_stands(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            later = await Stranger.to(one)
            await later.enter(ZED._replace(capabilities=(1 << 63) - 1))
            later.say(frame([encode_message(message) for message in ((1000, b"new", (1,)), (*got(1), 7, b"more"))]))
            later.say(frame([encode_message(got(2))]))
            await one.notes.until(lambda: len(one.notes.messages) == 3)
            assert [message for _, message in one.notes.messages] == [(1000, b"new", (1,)), got(1), got(2)]
            assert one.bus.incoming[ZED.id].peer.capabilities == (1 << 63) - 1
            later.close()
            await end(one)

        in_loop(scene)

    def test_what_the_old_link_had_not_handed_on_is_forgotten(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            old, new = await Stranger.to(one), await Stranger.to(one)
            await old.enter(ZED)
            await one.notes.until_event("heard", ZED.id)
            link = one.bus.incoming[ZED.id]
            link.reader.feed(frame([encode_message(got(1))]))
            link.busy = True
            await new.enter(ZED)
            await one.notes.until(lambda: one.bus.incoming.get(ZED.id) not in {link, None})
            link._go_on()
            assert one.notes.messages == []
            for stranger in (old, new):
                stranger.close()
            await end(one)

        in_loop(scene)

    def test_a_new_link_that_stays_silent_ends_nothing(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.notes.use_link = lambda _expected, _peer: False
            one.bus.reconcile([other.node(), other.node(b"0" * 40)])
            await one.notes.until_event("identified", b"0" * 40)
            await one.notes.until_event("down", b"0" * 40)
            one.bus.send([(other.id, got(2))])
            await other.notes.until(lambda: other.notes.messages == [(one.id, got(2))])
            assert ("down", other.id, False) not in one.notes.events
            await end(one, other)

        in_loop(scene)


class TestSecrets:
    def test_another_secret_is_refused_by_both_and_logged_once(self) -> None:
        async def scene() -> None:
            [one] = await stations("a", b"secret")
            other = await Station("b", secret=b"other").listen()
            other.bus.reconcile([one.node()])
            await other.notes.until(lambda: other.notes.kinds().count("down") == 3)
            assert one.bus.complaints.count == 3
            assert one.notes.lines == [f"Refused a link with 127.0.0.1: {MISMATCH}"]
            assert other.notes.said(MISMATCH)
            assert "heard" not in one.notes.kinds()
            await end(one, other)

        in_loop(scene)

    def test_a_server_that_does_not_know_the_secret_learns_nothing_and_is_not_used(self) -> None:
        async def scene() -> None:
            async def pretend(guest: Stranger) -> None:
                shake = Acceptor(ZED, b"guess", os.urandom(32))
                guest.say(enclosed(shake.greeted(await guest.payload())))
                await guest.payload()
                guest.say(enclosed(msgpack.packb((3, b"\0" * 32))))
                assert await guest.rest() == b"", "no frame before the proof"

            impostor = await Impostor(pretend).listen()
            [one] = await stations("a", b"secret")
            one.bus.reconcile([impostor.node(ZED.id)])
            await one.notes.until_event("down", ZED.id)
            assert one.notes.said(MISMATCH)
            assert "identified" not in one.notes.kinds()
            impostor.end()
            await end(one)

        in_loop(scene)

    def test_without_a_secret_other_machines_are_not_let_in(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            visitor = Incoming(one.bus)
            visitor.address = "10.0.0.7"  # no socket of this machine can come from there
            assert "only nodes on this machine" in one.bus.knock(visitor)
            one.bus.secret = b"secret"
            assert one.bus.knock(visitor) == ""
            one.bus.strangers.clear()
            await end(one)

        in_loop(scene)

    def test_without_a_secret_other_machines_are_not_talked_to(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            one.bus.reconcile([Member(b"b" * 40, b"192.0.2.1", 7711, 17711)])
            await one.notes.until_event("down", b"b" * 40, False)
            assert one.notes.said("No link to 192.0.2.1: without a cluster-secret")
            await end(one)

        in_loop(scene)


def half_met(host: str, port: int) -> Member:
    """A node that somebody has named and nobody has met."""
    return Member(b"b" * 40, host.encode(), 7711, port, HANDSHAKE)


class TestUnreached:
    """Where nobody is reached, the owner hears it with the reason; here without the patience of a second."""

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.complaints.PATIENCE_S", 0.0)

    def told(self, one: Station) -> list[Any]:
        return [event[1:] for event in one.notes.events if event[0] == "unreached"]

    def test_a_port_on_which_nobody_listens(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            with socket.create_server((LOOPBACK, 0)) as gone:
                port = gone.getsockname()[1]
            one.bus.reconcile([half_met(LOOPBACK, port)])
            await one.notes.until(lambda: one.notes.kinds().count("down") == 3)
            assert self.told(one) == [(f"{LOOPBACK}:{port}", "connection refused, no process listens there")]
            await end(one)

        in_loop(scene)

    def test_a_name_that_nobody_has(self) -> None:
        async def scene() -> None:
            [one] = await stations("a")
            one.bus.reconcile([half_met("x" * 64 + ".invalid", 17711)])
            await one.notes.until_event("unreached")
            assert self.told(one)[0][0] == "x" * 64 + ".invalid:17711"
            await end(one)

        in_loop(scene)

    def test_a_node_with_another_secret(self) -> None:
        async def scene() -> None:
            [one] = await stations("a", b"secret")
            other = await Station("b", secret=b"other").listen()
            other.bus.reconcile([half_met(LOOPBACK, one.port)])
            await other.notes.until_event("unreached")
            assert self.told(other) == [(f"{LOOPBACK}:{one.port}", f"it says: {MISMATCH}")]
            await end(one, other)

        in_loop(scene)

    def test_a_server_of_another_kind(self) -> None:
        async def scene() -> None:
            async def hang_up(guest: Stranger) -> None:
                guest.close()

            impostor = await Impostor(hang_up).listen()
            [one] = await stations("a")
            one.bus.reconcile([half_met(LOOPBACK, impostor.port)])
            await one.notes.until_event("unreached")
            assert "not a node of this kind" in self.told(one)[0][1]
            impostor.end()
            await end(one)

        in_loop(scene)

    def test_a_server_that_stays_silent_until_the_node_is_given_up(self) -> None:
        async def scene() -> None:
            async def listen(guest: Stranger) -> None:
                await guest.rest()

            impostor = await Impostor(listen).listen()
            [one] = await stations("a")
            one.bus.reconcile([half_met(LOOPBACK, impostor.port)])
            await one.notes.until(lambda: impostor.guests)
            one.bus.reconcile([])
            await one.notes.until_event("unreached")
            assert self.told(one) == [(f"{LOOPBACK}:{impostor.port}", "timed out, no answer")]
            impostor.end()
            await end(one)

        in_loop(scene)

    def test_a_full_node_that_is_down_and_one_that_answers_are_none_of_these(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            with socket.create_server((LOOPBACK, 0)) as gone:
                port = gone.getsockname()[1]
            reached = other.node()
            reached.flags |= HANDSHAKE
            one.bus.reconcile([Member(b"c" * 40, LOOPBACK.encode(), 7711, port), reached])
            await one.notes.until_event("up", other.id)
            await one.notes.until(lambda: one.notes.kinds().count("down") == 3)
            assert self.told(one) == []
            await end(one, other)

        in_loop(scene)


def greeting(me: Identity = ZED) -> bytes:
    return enclosed(Dialer(me, b"", os.urandom(32)).hello)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(range(256)) * 10,
        b"\0\0\0\0",
        enclosed(b"\0"),
        enclosed(b"x" * 4096),
        (4097).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        greeting() + b"\0",
        greeting() * 2,
        enclosed(greeting()),
        frame([encode_message(got(1))]),
        enclosed(msgpack.packb((HELLO, MAGIC, 7, "whatever"))),
    ],
)
def test_garbage_on_the_bus_port_is_refused_and_harms_nobody(data: bytes) -> None:
    async def scene() -> None:
        one, other = await stations("ab")
        await join(one, other)
        for _ in range(3):
            stranger = await Stranger.to(one)
            stranger.say(data)
            await stranger.rest()
            stranger.close()
        assert one.bus.complaints.count == 3
        assert len(one.notes.lines) == 1
        assert one.bus.strangers == {}
        other.bus.send([(one.id, got(1))])
        await one.notes.until(lambda: one.notes.messages == [(other.id, got(1))])
        await end(one, other)

    in_loop(scene)


def test_half_a_handshake_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.link.HANDSHAKE_S", 0.01)

    async def scene() -> None:
        [one] = await stations("a")
        for data in (b"", greeting()[:50], greeting()):
            stranger = await Stranger.to(one)
            stranger.say(data)
            await stranger.rest()
            stranger.close()
        assert one.notes.said("no handshake within")
        assert one.bus.strangers == {}
        await end(one)

    in_loop(scene)


def test_a_recorded_handshake_lets_nobody_in() -> None:
    async def scene() -> None:
        [one] = await stations("a", b"secret")
        honest = await Stranger.to(one)
        dialer = Dialer(ZED, b"secret", os.urandom(32))
        honest.say(enclosed(dialer.hello))
        proof = dialer.challenged(await honest.payload())
        honest.say(enclosed(proof))
        dialer.welcomed(await honest.payload())
        honest.say(frame([]))
        await one.notes.until_event("heard", ZED.id)
        replay = await Stranger.to(one)
        replay.say(enclosed(dialer.hello))
        await replay.payload()
        replay.say(enclosed(proof))
        assert MISMATCH.encode() in await replay.rest()
        assert one.notes.kinds() == ["heard"]
        for stranger in (honest, replay):
            stranger.close()
        await end(one)

    in_loop(scene)


def test_a_node_cannot_be_used_to_prove_something_to_itself_or_to_another() -> None:
    """Mallory has no secret. He takes what Bob's dialer says to him and says it to Bob's own port as Carol."""

    async def scene() -> None:
        [bob] = await stations("b", b"secret")

        async def relay(guest: Stranger) -> None:
            await guest.payload()
            port = await Stranger.to(bob)
            port.say(enclosed(Dialer(ZED, b"?", os.urandom(32)).hello))
            guest.say(enclosed(await port.payload()))
            port.say(enclosed(await guest.payload()))
            guest.say(await port.rest())
            port.close()

        mallory = await Impostor(relay).listen()
        bob.bus.reconcile([mallory.node(ZED.id)])
        await bob.notes.until_event("down", ZED.id)
        assert "identified" not in bob.notes.kinds()
        assert "heard" not in bob.notes.kinds()
        mallory.end()
        await end(bob)

    in_loop(scene)


def test_strangers_are_bounded_and_the_oldest_goes_first() -> None:
    async def scene() -> None:
        [one] = await stations("a")
        first = await Stranger.to(one)
        others = [await Stranger.to(one) for _ in range(STRANGERS_MOST)]
        assert await first.rest() == b""
        assert len(one.bus.strangers) <= STRANGERS_MOST
        late = await Stranger.to(one)
        await late.enter(ZED)
        await one.notes.until_event("heard", ZED.id)
        for stranger in (first, late, *others):
            stranger.close()
        await end(one)

    in_loop(scene)


@pytest.mark.parametrize(
    "data",
    [
        enclosed(b""),
        enclosed(b"\xc1"),
        enclosed(b"\x91\x90"),
        enclosed(msgpack.packb([[GOTJOB, [b"short"]]])),
        enclosed(msgpack.packb([[DELJOB, -1]])),
        b"\xff\xff\xff\xff",
    ],
)
def test_a_bad_frame_of_a_peer_closes_its_link_and_nothing_of_it_counts(data: bytes) -> None:
    async def scene() -> None:
        [one] = await stations("a")
        peer = await Stranger.to(one)
        await peer.enter(ZED)
        peer.say(frame([encode_message(got(1))]) + data + frame([encode_message(got(2))]))
        assert await peer.rest() == b""
        await one.notes.until(lambda: one.notes.said(f"Closed the link of node {ZED.id.decode()}"))
        assert [message for _, message in one.notes.messages] == [got(1)]
        assert one.bus.incoming == {}
        peer.close()
        await end(one)

    in_loop(scene)


def test_a_peer_must_not_speak_on_a_link_that_is_not_its_own() -> None:
    async def scene() -> None:
        async def speak(guest: Stranger) -> None:
            shake = Acceptor(ZED, b"", os.urandom(32))
            guest.say(enclosed(shake.greeted(await guest.payload())))
            guest.say(enclosed(shake.proven(await guest.payload())))
            await one.notes.until_event("up", ZED.id)
            guest.say(frame([encode_message(got(1))]))
            await guest.rest()

        impostor = await Impostor(speak).listen()
        [one] = await stations("a")
        one.bus.reconcile([impostor.node(ZED.id)])
        await one.notes.until_event("down", ZED.id)
        assert one.notes.messages == []
        assert one.notes.said("it sent unexpected data")
        impostor.end()
        await end(one)

    in_loop(scene)


class TestFrames:
    def test_what_goes_to_several_peers_is_encoded_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoded: list[Message] = []

        def encode(message: Message) -> bytes:
            encoded.append(message)
            return encode_message(message)

        monkeypatch.setattr("cluster.bus.encode_message", encode)

        async def scene() -> None:
            one, other, third = await stations("abc")
            one.bus.reconcile([other.node(), third.node()])
            await one.notes.until(lambda: one.notes.kinds().count("up") == 2)
            shared, own = got(1), got(2)
            one.bus.send([(other.id, shared), (third.id, shared), (third.id, own)])
            await third.notes.until(lambda: len(third.notes.messages) == 2)
            await other.notes.until(lambda: other.notes.messages)
            await end(one, other, third)

        in_loop(scene)
        assert encoded == [got(1), got(2)]

    def test_equal_messages_that_are_not_the_same_object_are_encoded_each(self) -> None:
        first, second = (WORKING, (JOB,)), (WORKING, (JOB,))
        assert pack_all([first, second, first], {}) == [encode_message(first)] * 3

    def test_very_many_messages_or_bytes_become_several_frames(self, monkeypatch: pytest.MonkeyPatch) -> None:
        frames: list[tuple[int, int]] = []
        monkeypatch.setattr(Outgoing, "send", lambda _, messages, data: frames.append((len(messages), len(data))))

        async def scene() -> None:
            one, other = await stations("ab")
            one.bus.reconcile([other.node()])
            await one.notes.until_event("up")
            frames.clear()
            one.bus.send([(other.id, got(number)) for number in range(FRAME_MESSAGES * 2 + 1)])
            assert [count for count, _ in frames] == [FRAME_MESSAGES, FRAME_MESSAGES, 1]
            frames.clear()
            big = (DELJOB, (JOB,) * 4000)
            one.bus.send([(other.id, big) for _ in range(5)])
            assert [count for count, _ in frames] == [2, 2, 1]
            assert all(size < 2 * FRAME_BYTES for _, size in frames)
            await end(one, other)

        in_loop(scene)

    def test_a_frame_as_large_as_allowed_passes(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            other.bus.frame_most = 210_100
            await join(one, other)
            one.bus.send([(other.id, (DELJOB, (JOB,) * 5000))])
            await other.notes.until(lambda: other.notes.messages)
            assert len(other.notes.messages[0][1][1]) == 5000  # type: ignore[arg-type]  # the IDs
            await end(one, other)

        in_loop(scene)


class TestBackPressure:
    def test_what_waited_for_a_peer_that_does_not_read_comes_back_when_the_link_ends(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            for link in other.bus.incoming.values():
                link.transport.pause_reading()
            count = 0
            while not (link_out := one.bus.link(other.id)) or not link_out.queue:
                one.bus.send([(other.id, (DELJOB, (JOB,) * 5000)), (other.id, got(count))])
                count += 1
                await asyncio.sleep(0)
            one.bus.send([(other.id, got(-1))])
            one.bus.renew(other.id)
            await one.notes.until_event("down", other.id)
            kinds = one.notes.kinds()
            assert kinds.index("undelivered") < kinds.index("down")
            assert one.notes.returned[-1] == (other.id, got(-1))
            assert 1 < len(one.notes.returned) < count * 2, "what the transport had is not among them"
            await end(one, other)

        in_loop(scene)

    def test_a_peer_that_does_not_read_for_too_long_is_given_up(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.bus.queue_most = 1 << 20
            for link in other.bus.incoming.values():
                link.transport.pause_reading()
            while one.bus.link(other.id):
                one.bus.send([(other.id, (DELJOB, (JOB,) * 5000))])
                await asyncio.sleep(0)
            await one.notes.until_event("down", other.id)
            assert one.notes.said("does not read what it is sent")
            assert one.notes.returned
            await end(one, other)

        in_loop(scene)

    def test_what_waited_goes_on_in_order_when_the_peer_reads_again(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            paused = next(iter(other.bus.incoming.values())).transport
            paused.pause_reading()
            count = 0
            while not (link := one.bus.link(other.id)) or len(link.queue) < 5:
                one.bus.send([(other.id, (DELJOB, (JOB,) * 5000)), (other.id, got(count))])
                count += 1
                await asyncio.sleep(0)
            paused.resume_reading()
            await other.notes.until(lambda: len(other.notes.messages) == 2 * count)
            assert [message for _, message in other.notes.messages[1::2]] == [got(number) for number in range(count)]
            assert link.queued_bytes == 0
            await end(one, other)

        in_loop(scene)


class TestSlices:
    def test_a_peer_with_much_to_say_does_not_stop_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.link.SLICE_S", 0.0)

        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            turns: list[int] = []
            sizes: list[int] = []
            turn = 0

            def count_turns() -> None:
                nonlocal turn
                turn += 1
                if len(sizes) < 63:
                    asyncio.get_running_loop().call_soon(count_turns)

            def note(_peer: bytes, messages: list[Message]) -> None:
                sizes.append(len(messages))
                turns.append(turn)

            other.notes.on_received = note
            one.bus.send([(other.id, got(number)) for number in range(1000)])
            count_turns()
            await other.notes.until(lambda: len(other.notes.messages) == 1000)
            assert max(sizes) == 16
            assert turns == sorted(set(turns)), "one slice a turn when the time is over"
            assert other.notes.messages == [(one.id, got(number)) for number in range(1000)]
            assert not other.bus.busy
            await end(one, other)

        in_loop(scene)


class TestEnd:
    def test_what_was_sent_leaves_before_a_clean_end(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            other.bus.peers[one.id].rest()
            one.bus.send([(other.id, (DELJOB, (JOB,) * 5000)) for _ in range(100)])
            one.bus.send([(other.id, got(1))])
            await one.end()
            await other.notes.until(lambda: other.notes.messages and other.notes.messages[-1] == (one.id, got(1)))
            assert len(other.notes.messages) == 101
            await end(other)

        in_loop(scene)

    def test_a_peer_that_does_not_read_cannot_hold_up_the_end(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            for link in other.bus.incoming.values():
                link.transport.pause_reading()
            for _ in range(100):
                one.bus.send([(other.id, (DELJOB, (JOB,) * 5000))])
            await one.bus.close(0.0)
            assert all(link.closed for link in one.bus._links)
            await end(one, other)

        in_loop(scene)

    def test_a_peer_that_reads_slowly_gets_all_before_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.bus.CLOSE_TURNS", 1000)

        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            (link,) = other.bus.incoming.values()

            def go_on() -> None:
                if not link.closed:
                    link.transport.resume_reading()

            def read_now_and_then(_peer: bytes, _messages: list[Message]) -> None:
                link.transport.pause_reading()
                other.bus.loop.call_later(0.01, go_on)

            other.notes.on_received = read_now_and_then
            for _ in range(100):
                one.bus.send([(other.id, (DELJOB, (JOB,) * 5000))])
            closing = asyncio.create_task(one.bus.close(10))
            await other.notes.until(lambda: link.closed)
            await closing
            got = len(other.notes.messages)
            assert got == 100
            await end(one, other)

        in_loop(scene)

    def test_a_node_that_stops_hears_nobody_and_lets_nobody_in(self) -> None:
        async def scene() -> None:
            one, other = await stations("ab")
            await join(one, other)
            one.bus.stopping = True
            stranger = await Stranger.to(one)
            assert await stranger.rest() == b""
            stranger.close()
            await one.bus.close(1.0)
            one.bus.reconcile([other.node()])
            assert one.bus.links_up() == 0
            await end(one, other)

        in_loop(scene)


def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    files = certificates.FILES
    config = Config()
    config.put("tls-cert-file", (str(files / "node.crt"),))
    config.put("tls-key-file", (str(files / "node.key"),))
    config.put("tls-ca-cert-file", (str(files / "ca.crt"),))
    return contexts(config)


async def secured(letters: str) -> list[Station]:
    """Stations that talk TLS to each other."""
    some = [Station(letter) for letter in letters]
    for one in some:
        one.bus.use_tls(*tls_contexts())
        await one.listen()
    return some


class TestTls:
    def test_nodes_are_linked_and_talk(self) -> None:
        async def scene() -> None:
            one, other = await secured("ab")
            await join(one, other)
            await one.notes.until(lambda: not one.bus.strangers and not other.bus.strangers)
            assert one.bus.send([(other.id, got(number)) for number in range(10)]) == []
            await other.notes.until(lambda: len(other.notes.messages) == 10)
            await end(one, other)

        in_loop(scene)

    def test_who_connects_counts_before_the_tls_handshake_and_the_oldest_goes_first(self) -> None:
        async def scene() -> None:
            one, other = await secured("ab")
            first = await Stranger.to(one)
            await one.notes.until(lambda: len(one.bus.strangers) == 1)
            others = [await Stranger.to(one) for _ in range(STRANGERS_MOST)]
            assert await first.rest() == b""
            await one.notes.until(lambda: len(one.bus.strangers) == STRANGERS_MOST)
            await join(one, other)
            for stranger in (first, *others):
                stranger.close()
            await one.notes.until(lambda: not one.bus.strangers)
            await end(one, other)

        in_loop(scene)

    def test_a_tls_handshake_that_is_not_finished_ends_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cluster.link.HANDSHAKE_S", 0.05)

        async def scene() -> None:
            [one] = await secured("a")
            for data in (b"", b"\x16\x03\x01\x01\x00\x01"):
                stranger = await Stranger.to(one)
                stranger.say(data)
                await stranger.rest()
                stranger.close()
            assert one.notes.said("no handshake within")
            assert one.bus.strangers == {}
            await end(one)

        in_loop(scene)

    def test_who_does_not_speak_tls_is_closed_and_named_in_the_log(self) -> None:
        async def scene() -> None:
            [one] = await secured("a")
            stranger = await Stranger.to(one)
            stranger.say(b"GET / HTTP/1.1\r\n\r\n")
            await stranger.rest()
            stranger.close()
            assert one.notes.said("TLS failed")
            assert one.bus.strangers == {}
            await end(one)

        in_loop(scene)

    def test_what_is_there_before_the_connection_is_taken_belongs_to_the_handshake(self) -> None:
        """On a busy machine that is usual. The loop reads it before anybody can say that TLS is to have it."""

        async def scene() -> None:
            [one] = await secured("a")
            answers = ssl.MemoryBIO()
            asks = ssl.MemoryBIO()
            with suppress(ssl.SSLWantReadError):
                tls_contexts()[1].wrap_bio(answers, asks).do_handshake()
            with socket.create_connection((LOOPBACK, one.port)) as stranger:  # the system answers, not the loop
                stranger.sendall(asks.read())
                stranger.setblocking(False)
                answer = await one.bus.loop.sock_recv(stranger, 1)
                assert answer == b"\x16", "a record of the handshake"
            await one.notes.until(lambda: not one.bus.strangers)
            await end(one)

        in_loop(scene)

    def test_a_handshake_that_fails_when_nobody_waits_for_it_any_more_is_no_fault(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cluster.bus.CONNECT_MOST_S", 0.02)
        monkeypatch.setattr("cluster.bus.HANDSHAKE_S", 0.05)

        async def scene() -> None:
            [one] = await secured("a")
            faults: list[dict[str, Any]] = []
            one.bus.loop.set_exception_handler(lambda _loop, context: faults.append(context))
            with socket.create_server((LOOPBACK, 0)) as silent:
                begun = asyncio.Event()
                began = Bus._begin

                async def noted(bus: Bus, peer: Peer, sock: socket.socket) -> None:
                    try:
                        await began(bus, peer, sock)
                    finally:
                        begun.set()

                monkeypatch.setattr(Bus, "_begin", noted)
                one.bus.reconcile([Member(b"b" * 40, LOOPBACK.encode(), 1, silent.getsockname()[1])])
                await begun.wait()
                await end(one)
            await asyncio.sleep(0)
            gc.collect()
            assert faults == []

        in_loop(scene)

    def test_who_is_gone_before_the_handshake_begins_leaves_nothing(self) -> None:
        async def scene() -> None:
            [one] = await secured("a")
            for _ in range(20):
                stranger = await Stranger.to(one)
                stranger.close()
            await one.notes.until(lambda: not one.bus.strangers)
            await end(one)

        in_loop(scene)


@pytest.mark.parametrize("tls", [False, True])
def test_the_descriptor_of_a_link_that_ends_as_it_begins_is_closed_once(
    tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket must forget its descriptor: collected later, it would close what has that number by then."""
    sockets: list[socket.socket] = []

    async def noted(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: tuple[object, ...]) -> socket.socket:
        sockets.append(sock)
        return await connected(loop, sock, address)

    def ends_at_once(link: Outgoing, transport: asyncio.Transport) -> None:
        Link.connection_made(link, transport)
        link.close()

    monkeypatch.setattr("cluster.bus.connected", noted)
    monkeypatch.setattr(Outgoing, "connection_made", ends_at_once)

    async def scene() -> None:
        one, other = await (secured("ab") if tls else stations("ab"))
        one.bus.reconcile([other.node()])
        await one.notes.until_event("down", other.id)
        assert [sock.fileno() for sock in sockets] == [-1]
        await end(one, other)

    in_loop(scene)


@pytest.mark.parametrize("tls", [False, True])
def test_links_that_fail_and_strangers_leave_no_cycles_behind(tls: bool) -> None:
    async def scene() -> None:
        [one] = await (secured("a") if tls else stations("a", b"secret"))
        closed = socket.create_server((LOOPBACK, 0))
        port = closed.getsockname()[1]
        closed.close()

        async def some() -> None:
            for _ in range(5):
                node = Member(os.urandom(20).hex().encode(), b"127.0.0.1", 1, port)
                one.bus.reconcile([node])
                await one.notes.until_event("down", node.id)
                stranger = await Stranger.to(one)
                stranger.say(b"GET / HTTP/1.1\r\n")
                await stranger.rest()
                await one.notes.until(lambda: not one.bus.strangers)
                stranger.close()
                del stranger
            one.bus.reconcile([])

        gc.collect()
        before = {id(thing) for thing in gc.get_objects() if type(thing) in {Peer, Outgoing, Incoming}}
        await some()
        await asyncio.sleep(0)
        left = [thing for thing in gc.get_objects() if type(thing) in {Peer, Outgoing, Incoming}]
        left = [thing for thing in left if id(thing) not in before]
        assert left == [], "they are gone without the collector"
        await end(one)

    gc.disable()
    try:
        in_loop(scene)
    finally:
        gc.enable()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine(host: str) -> None:
    assert loopback(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "localhost", "", "?"])
def test_not_this_machine(host: str) -> None:
    assert not loopback(host)


def test_a_scene_that_fails_ends_although_a_bus_looks_for_a_node_that_is_gone() -> None:
    async def scene() -> None:
        one, other = await stations("ab")
        await join(one, other)
        await one.bus.close(0.0)
        await other.notes.until_event("down", one.id)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        in_loop(scene)


def test_a_bus_without_peers_sends_nothing() -> None:
    async def scene() -> None:
        bus = Bus(Notes(ZED), asyncio.get_running_loop(), Random(1), os.urandom)
        assert bus.send([]) == []
        assert not bus.busy
        await bus.close(1.0)

    in_loop(scene)
