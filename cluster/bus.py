"""The bus: the links between this node and all others, in both directions, and what is sent over them.

For each node that is wanted (`reconcile`) there is one outgoing link. If it ends, it is made again: at once when there
is news of the node, otherwise after a pause that grows from 100 ms to 3 s. A name is resolved at each attempt. The
other nodes make the incoming links. There is one for each peer: a new one ends the old one when its first frame begins,
before that frame is read. A silent one ends nothing: a node may find that it reached a peer to which it is linked
already, under another address. Then it closes the new link silently.

With `secret`, a node that knows the secret is accepted. Without one, only nodes on this machine are, in both
directions.

An `Owner` is called from a callback of the event loop, never from within `send` or `reconcile`. So it may change
anything. Faults of other nodes are counted, and logged once a minute for each address.

Two processes with one node ID would confuse the cluster. Each process has a start number. While the process that came
first is heard (within the node timeout), the other one is refused.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, Protocol

from cluster.complaints import Complaints, Unreached, reason_of
from cluster.handshake import NONCE_LENGTH, Identity
from cluster.large import encode_large, framed
from cluster.link import HANDSHAKE_S, Incoming, Outgoing, connected, host_of
from cluster.membership import HANDSHAKE, Member
from cluster.messages import FAIL, FLEETING, MEET, PING, PONG, Message, encode_message, frame, has_large, is_large
from cluster.peer import Peer

#: What nodes say of each other.
OF_MEMBERSHIP: Final = frozenset({PING, PONG, MEET, FAIL})

Outbox = list[tuple[bytes, Message]]
Remains = list[tuple[bytes, list[Message]]]

MB: Final = 1 << 20
#: What a frame may be longer than the longest body, and what may wait for a link that is slow.
FRAME_ROOM: Final = 64 * MB
QUEUE_MOST: Final = 64 * MB
#: Bytes that may wait on a link that takes what is sent once and may be missed.
FLEETING_MOST: Final = 8 * MB
#: A frame is ended when it has so many messages or bytes: the other side takes it apart in one go.
FRAME_MESSAGES: Final = 1024
FRAME_BYTES: Final = 256 * 1024
#: Connections that have not proven who they are, at most; beyond it the oldest is dropped.
STRANGERS_MOST: Final = 256
#: Addresses of a name that are tried.
ADDRESSES_MOST: Final = 8
#: Seconds that a link must have held to be made anew at once when it ends.
STEADY_S: Final = 1.0
CONNECT_LEAST_S: Final = 1.0
CONNECT_MOST_S: Final = 5.0
CLOSE_TURNS = 10  # not Final: tests want more


class Owner(Protocol):
    """Who the bus works for. A peer is named by its node ID."""

    def identity(self) -> Identity:
        """Who this node is at the moment."""

    def identified(self, expected_id: bytes, peer: Identity, ip: bytes) -> bool:
        """At the address of ``expected_id``, ``peer`` has answered and proven itself: whether the link is of use."""

    def link_up(self, peer_id: bytes, start: int) -> None:
        """The outgoing link is there."""

    def link_down(self, peer_id: bytes, *, refused: bool) -> None:
        """The outgoing link has ended, or could not be made; ``refused``: nobody listens there."""

    def heard(self, peer: Identity, ip: bytes, own_ip: bytes) -> None:
        """A new incoming link has proven itself and begins to speak. It came from ``ip`` to ``own_ip``."""

    def received(self, peer_id: bytes, messages: list[Message]) -> None:
        """Messages have come, in order; they have the shapes of `messages`."""

    def undelivered(self, peer_id: bytes, messages: list[Message]) -> None:
        """Of these messages certainly no byte has left. Comes before the `link_down` of their link."""

    def unreached(self, place: str, reason: str) -> None:
        """Where a node is said to be (host and port of the bus), nobody was reached; told once a minute."""

    def notice(self, text: str) -> None:
        """Something for the log."""

    def verbose(self, text: str) -> None:
        """Something for the log that is rarely wanted."""


class Bus:
    """All links. ``nonce`` gives random bytes that nobody can foretell, ``random`` spreads attempts to connect."""

    def __init__(
        self, owner: Owner, loop: asyncio.AbstractEventLoop, random: Random, nonce: Callable[[int], bytes]
    ) -> None:
        self.owner = owner
        self.loop = loop
        self.secret = b""
        self.timeout_s = 15.0
        self.frame_most = FRAME_ROOM
        self.strangers_most = STRANGERS_MOST
        self.queue_most = QUEUE_MOST
        self.large_most = QUEUE_MOST
        self.complaints = Complaints()
        self._unreached = Unreached()
        self.bytes_sent = 0
        self.bytes_received = 0
        self.peers: dict[bytes, Peer] = {}
        self.incoming: dict[bytes, Incoming] = {}
        self.strangers: dict[Incoming, None] = {}
        self.stopping = False
        self._random = random
        self._nonce = nonce
        #: For links that others make; None: they are plain.
        self.server_tls: ssl.SSLContext | None = None
        self._client_tls: ssl.SSLContext | None = None
        self._servers: list[asyncio.AbstractServer] = []
        self._links: dict[Outgoing, None] = {}
        self._gone: asyncio.Event | None = None

    def configure(self, secret: bytes, timeout_ms: int, body_most: int, memory_most: int) -> None:
        """Take over settings; they count for links that come later. ``memory_most``: bytes that jobs may take.

        Longer frames are taken from now on over links that stand, too: their senders will be told that they may. Those
        that are on their way when the limit is lowered must be taken.
        """
        self.secret = secret
        self.timeout_s = timeout_ms / 1000
        self.frame_most = body_most + FRAME_ROOM
        self.large_most = max(memory_most, QUEUE_MOST)
        for link in self.incoming.values():
            link.reader.most = max(link.reader.most, self.frame_most)

    def use_tls(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        """Encrypt all links that come later."""
        self.server_tls = server
        self._client_tls = client

    async def listen(self, sockets: Sequence[socket.socket], backlog: int) -> None:
        """Take connections at sockets that are bound. Raises OSError."""
        for sock in sockets:
            self._servers.append(await self.loop.create_server(lambda: Incoming(self), sock=sock, backlog=backlog))

    def nonce(self) -> bytes:
        """Random bytes for one handshake."""
        return self._nonce(NONCE_LENGTH)

    @property
    def busy(self) -> bool:
        """Whether something that has come is not handed on yet."""
        return any(link.busy for link in self.incoming.values())

    def sending(self) -> list[bytes]:
        """The nodes of which bytes have come since the last call, and more is to come before they are understood.

        What such a node has said behind these bytes, an answer to a PING perhaps, can have come to nobody. So a frame
        that cannot be one must be noticed here: see `Incoming.look`.
        """
        found = []
        now_s = self.loop.time()
        for peer_id, link in self.incoming.items():
            link.look(now_s)
            if link.came and (link.busy or len(link.reader)):
                found.append(peer_id)
            link.came = False
        return found

    def waiting_bytes(self) -> int:
        """What waits for other nodes that do not read it, large bodies too."""
        return sum([link.queued_bytes + link.large_bytes for link in self._links])

    def links_up(self) -> int:
        """How many outgoing links are there."""
        return sum([self.link(peer_id) is not None for peer_id in self.peers])

    def complain(self, address: str, text: str) -> None:
        """The process at ``address`` has made a mistake: log it."""
        if self.complaints.add(address, self.loop.time()):
            self.owner.notice(text)

    # -- who should be linked --------------------------------------------------------------------------------------

    def reconcile(self, wanted: Iterable[Member]) -> None:
        """Begin and end outgoing links so that there is one for each of these nodes, where it has an address."""
        if self.stopping:
            return
        ids = set()
        for node in wanted:
            ids.add(node.id)
            host = node.ip.decode("latin-1")
            peer = self.peers.get(node.id)
            if peer is None:
                peer = self.peers[node.id] = Peer(node.id, host, node.bus_port)
                self._try_now(peer)
            elif peer.host != host or peer.port != node.bus_port:
                peer.host, peer.port = host, node.bus_port
                self._try_now(peer)
            peer.half_met = node.flags & HANDSHAKE != 0
        for peer_id in [peer_id for peer_id in self.peers if peer_id not in ids]:
            peer = self.peers.pop(peer_id)
            if peer.trying:
                self._tell_unreached(peer, "timed out, no answer")
            self._forget(peer)

    def renew(self, peer_id: bytes) -> None:
        """End the link to a node, which does not answer on it, and make a new one."""
        peer = self.peers.get(peer_id)
        if peer is not None and peer.link is not None:
            peer.link.close()

    def restart(self) -> None:
        """This node has become another one: end all links, both ways."""
        for incoming in [*self.incoming.values(), *self.strangers]:
            incoming.close()
        for peer in self.peers.values():
            self._forget(peer)
        self.peers.clear()

    @staticmethod
    def _forget(peer: Peer) -> None:
        peer.rest()
        if peer.link is not None:
            peer.link.close()

    def _try_now(self, peer: Peer) -> None:
        """Connect at once, unless there is a link."""
        if peer.link is None and not self.stopping:
            peer.rest()
            if peer.has_address:
                peer.task = self.loop.create_task(self._connect(peer))

    def _try_later(self, peer: Peer, delay_s: float) -> None:
        if self.peers.get(peer.id) is peer and peer.timer is None and not self.stopping:
            peer.timer = self.loop.call_later(delay_s, self._try_again, peer)

    def _try_again(self, peer: Peer) -> None:
        peer.timer = None
        self._try_now(peer)

    # -- outgoing --------------------------------------------------------------------------------------------------

    async def _connect(self, peer: Peer) -> None:
        """Make a connection; the link goes on by itself, also when the handshake fails."""
        refused = False
        peer.why = ""
        if peer.half_met:
            self._unreached.tried(peer.place, self.loop.time())
        patience_s = min(max(self.timeout_s, CONNECT_LEAST_S), CONNECT_MOST_S)
        try:
            async with asyncio.timeout(patience_s):
                refused = await self._reach(peer)
        except (OSError, ValueError) as wrong:  # ValueError: what can be no name
            peer.why = reason_of(wrong, patience_s)
            self.owner.verbose(f"Cannot connect to {peer.place}: {peer.why}")
        if asyncio.current_task() is peer.task:
            peer.task = None
            if peer.link is None:
                self._failed(peer, refused=refused)

    async def _reach(self, peer: Peer) -> bool:
        """Try the addresses of a name in turn; whether all of them refused. Raises OSError."""
        found = await self.loop.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
        self._random.shuffle(found)  # one name may stand for all nodes, this one among them
        refused = 0
        for family, kind, protocol, _, address in found[:ADDRESSES_MOST]:
            if not self._may_reach(str(address[0])):
                continue
            try:
                sock = await connected(self.loop, socket.socket(family, kind, protocol), address)
                beginning = self.loop.create_task(self._begin(peer, sock))
                beginning.add_done_callback(_heard_of)
                await asyncio.shield(beginning)  # ended halfway, the link would never hear of its end
            except ConnectionRefusedError as wrong:
                refused += 1
                peer.why = peer.why or reason_of(wrong, 0)
            except OSError as wrong:
                peer.why = reason_of(wrong, 0)
                self.owner.verbose(f"Cannot connect to {peer.place}: {peer.why}")
            else:
                return False
        return 0 < refused == len(found[:ADDRESSES_MOST])

    async def _begin(self, peer: Peer, sock: socket.socket) -> None:
        """Make a link of a connection, unless there is one by now; sooner or later it is told that it has ended."""
        tls = self._client_tls
        try:
            _, link = await self.loop.create_connection(
                lambda: Outgoing(self, peer),
                sock=sock,
                ssl=tls,
                server_hostname="" if tls is not None else None,
                ssl_handshake_timeout=HANDSHAKE_S if tls is not None else None,
            )
        finally:
            # The descriptor is the transport's alone. One that is closed before uvloop has noted the socket does not
            # detach it; when the socket is collected, that would close whatever has the same number by then.
            sock.detach()
        if link.closed:
            peer.why = link.why
            return
        self._links[link] = None
        if peer.link is not None or self.peers.get(peer.id) is not peer or self.stopping:
            link.close()
        else:
            peer.link = link
            link.introduce()

    def _may_reach(self, host: str) -> bool:
        if self.secret or loopback(host):
            return True
        self.complain(host, f"No link to {host}: without a cluster-secret, only nodes on this machine are linked to")
        return False

    def reached(self, link: Outgoing) -> None:
        """The node at the other end of an outgoing link has proven who it is."""
        peer, found = link.whom, link.peer
        self._unreached.reached(peer.place)
        wrong = self._twin(found, link.address)
        if wrong:
            self.complain(link.address, f"Closed the link to {link.address}: {wrong}")
            link.close()
            return
        if not self.owner.identified(peer.id, found, link.address.encode("latin-1")):
            link.close()
            return
        if peer.id != found.id:
            self._rename(peer, found.id)
        if link.closed:
            return
        link.up_s = self.loop.time()
        self.owner.link_up(found.id, found.start)

    def _rename(self, peer: Peer, real_id: bytes) -> None:
        """The link belongs to another node than was thought. If that one has a link, it keeps that."""
        link = peer.link
        assert link is not None
        self.peers.pop(peer.id, None)
        other = self.peers.get(real_id)
        if other is not None and other.link is not None and other.link.up_s:
            link.close()
            return
        if other is not None:
            self._forget(other)
        peer.id = real_id
        self.peers[real_id] = peer

    def outgoing_lost(self, link: Outgoing) -> None:
        """An outgoing link has ended: give back what did not leave, and try again."""
        self._links.pop(link, None)
        peer = link.whom
        peer_id = link.peer.id if link.up_s else peer.id
        link.urgent.clear()
        if link.queue:
            self.owner.undelivered(peer_id, [one for messages, _ in link.queue for one in messages])
            link.queue.clear()
        if peer.link is link:
            peer.link = None
            if link.up_s and self.loop.time() - link.up_s > STEADY_S:
                peer.failures = 0
                self._down(peer, refused=False)
                self._try_later(peer, 0)
            else:
                peer.why = link.why
                self._failed(peer, refused=False)
        if not self._links and self._gone is not None:
            self._gone.set()

    def _failed(self, peer: Peer, *, refused: bool) -> None:
        """An attempt to connect has failed."""
        peer.failures += 1
        if peer.why and self.peers.get(peer.id) is peer:
            self._tell_unreached(peer, peer.why)
        self._down(peer, refused=refused)
        self._try_later(peer, peer.delay_s(self._random))

    def _tell_unreached(self, peer: Peer, why: str) -> None:
        """No node is at the address of the peer. For full nodes that are away, the table logs it."""
        if peer.half_met and not self.stopping and self._unreached.failed(peer.place, self.loop.time()):
            self.loop.call_soon(self.owner.unreached, peer.place, why)

    def _down(self, peer: Peer, *, refused: bool) -> None:
        """Tell the owner, if it still wants a link to that node."""
        if self.peers.get(peer.id) is peer:
            self.owner.link_down(peer.id, refused=refused)

    # -- incoming --------------------------------------------------------------------------------------------------

    def knock(self, link: Incoming) -> str:
        """A process has connected: "" or why it may not begin a handshake."""
        if self.stopping:
            return "this node stops"
        self.strangers[link] = None
        if len(self.strangers) > self.strangers_most:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.close()
        if not self.secret and not loopback(link.address):
            return "without a cluster-secret, only nodes on this machine are accepted"
        return ""

    def objection(self, link: Incoming) -> str:
        """A node has proven that it knows the secret: "" or why it is not accepted."""
        return self._twin(link.peer, link.address)

    def _twin(self, found: Identity, address: str) -> str:
        """Whether another process with the same node ID was heard of lately, "" if not."""
        known = self.incoming.get(found.id)
        if known is None or known.peer.start == found.start:
            return ""
        if self.loop.time() - known.heard_s >= self.timeout_s:
            return ""
        return f"node {found.id.decode()} is alive at {known.address}, and another process at {address} has its ID"

    def entered(self, link: Incoming) -> None:
        """A node that has proven who it is begins to speak."""
        found = link.peer
        self.strangers.pop(link, None)
        if found.id == self.owner.identity().id:
            link.close()  # nobody has anything to tell himself
            return
        old = self.incoming.pop(found.id, None)
        if old is not None:
            old.close()
        self.incoming[found.id] = link
        own_ip = host_of(link.transport.get_extra_info("sockname"))
        self.owner.heard(found, link.address.encode("latin-1"), own_ip.encode("latin-1"))
        peer = self.peers.get(found.id)
        if peer is None:
            return
        peer.failures = 0
        if peer.link is None:
            self._try_now(peer)
        elif peer.link.up_s and peer.link.peer.start != found.start:
            peer.link.close()  # that leads to a process that is gone

    def incoming_lost(self, link: Incoming) -> None:
        """An incoming link has ended."""
        self.strangers.pop(link, None)
        if link.proven and self.incoming.get(link.peer.id) is link:
            del self.incoming[link.peer.id]

    # -- messages --------------------------------------------------------------------------------------------------

    def link(self, peer_id: bytes) -> Outgoing | None:
        """The outgoing link to a node, if it is there."""
        peer = self.peers.get(peer_id)
        link = peer.link if peer is not None else None
        return link if link is not None and link.up_s and not link.closed else None

    def send(self, outbox: Outbox) -> Remains:
        """Send messages: to each peer one frame, in order (a few if they are many). What comes back has no link."""
        groups: dict[bytes, list[Message]] = {}
        for peer_id, message in outbox:
            group = groups.get(peer_id)
            if group is None:
                groups[peer_id] = [message]
            else:
                group.append(message)
        remains: Remains = []
        packed: dict[int, bytes] | None = {} if len(groups) > 1 else None
        for peer_id, messages in groups.items():
            link = self.link(peer_id)
            if link is None:
                remains.append((peer_id, messages))
            elif link.choked or has_large(messages):
                self._send_slowly(link, messages, packed)
            else:
                self._send(link, messages, pack_all(messages, packed))
        return remains

    def _send_slowly(self, link: Outgoing, messages: list[Message], packed: dict[int, bytes] | None) -> None:
        """Send what may be large, or must wait: a large message is a frame of its own, and who is there goes first."""
        urgent = [message for message in messages if message[0] in OF_MEMBERSHIP]
        if urgent:
            link.send(urgent, frame(pack_all(urgent, packed)), urgent=True)
        run: list[Message] = []
        is_behind = link.queued_bytes > FLEETING_MOST
        for message in messages:
            if message[0] in OF_MEMBERSHIP or (is_behind and message[0] in FLEETING):
                continue
            if not is_large(message):
                run.append(message)
                continue
            if run:
                self._send(link, run, pack_all(run, packed))
                run = []
            link.send([message], framed(encode_large(message)))
        if run:
            self._send(link, run, pack_all(run, packed))

    def _send(self, link: Outgoing, messages: list[Message], parts: list[bytes]) -> None:
        if len(parts) <= FRAME_MESSAGES and sum(map(len, parts)) <= FRAME_BYTES:
            link.send(messages, frame(parts))
            return
        start = size = 0
        for at, part in enumerate(parts, 1):
            size += len(part)
            if size >= FRAME_BYTES or at - start >= FRAME_MESSAGES or at == len(parts):
                link.send(messages[start:at], frame(parts[start:at]))
                start, size = at, 0

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self, patience_s: float) -> None:
        """Take nothing more and end all links; what was sent has so many seconds to leave, more while it does so."""
        self.stopping = True
        while self._servers:
            self._servers.pop().close()
        for incoming in [*self.incoming.values(), *self.strangers]:
            incoming.closed = True  # what comes now is answered by nobody
        for peer in self.peers.values():
            peer.rest()
        self._gone = asyncio.Event()
        for link in list(self._links):
            link.finish() if link.up_s else link.close()
        before = -1
        for _ in range(CLOSE_TURNS):
            unsent = sum([link.transport.get_write_buffer_size() for link in self._links])
            if not self._links or unsent == before:
                break
            before = unsent
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), patience_s)
        for one in [*self._links, *self.incoming.values(), *self.strangers]:
            one.close()


def pack_all(messages: list[Message], packed: dict[int, bytes] | None) -> list[bytes]:
    """Encode messages; with a dict in which to look for those that another peer is sent as well."""
    if packed is None:
        return list(map(encode_message, messages))
    parts: list[bytes] = []
    for message in messages:
        key = id(message)
        part = packed.get(key)
        if part is None:
            part = packed[key] = encode_message(message)
        parts.append(part)
    return parts


def _heard_of(beginning: "asyncio.Task[None]") -> None:
    """A link was begun, or that has failed: asyncio need not report it when whoever waited for it is gone."""
    if not beginning.cancelled():
        beginning.exception()


def loopback(host: str) -> bool:
    """Whether an address is this machine itself."""
    try:
        return ipaddress.ip_address(host.partition("%")[0].removeprefix("::ffff:")).is_loopback
    except ValueError:
        return False
