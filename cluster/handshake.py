"""The handshake: two nodes prove to each other who they are when a link begins.

It is pure: bytes in, bytes out, and randomness is an argument.

There are four payloads. Each is an array whose first element is its kind. The node that connects is the dialer, the
other one the acceptor:

========= ======== ==========================================================================================
HELLO     dialer   magic, version of the bus, ID, start number, nonce, port, bus port, announced IP, zone, the longest
                   body that it takes, what it understands (see `capabilities`)
CHALLENGE acceptor its version, then the same of its own from the ID on
PROOF     dialer   a MAC that only a node with the secret can make
WELCOME   acceptor the other MAC
REFUSAL   acceptor in place of CHALLENGE or WELCOME: the reason, for the log of the dialer, which does not trust it
========= ======== ==========================================================================================

Both MACs are HMAC-SHA256, keyed with `cluster-secret`, over the name of the role and a digest of HELLO and CHALLENGE as
they were sent. So they cover both IDs, both starts, versions, addresses and capabilities. They cover both nonces: a
recording of one link proves nothing on another. They cover the roles: a proof of a dialer is no proof of an acceptor.
The dialer proves itself first, so a stranger who connects gets nothing to test guesses of the secret on. Without a
secret the key is empty, and what counts is which addresses are accepted (see `bus`).

The proof is about the beginning of a link. Someone who can change the bytes of an established link needs no secret. On
networks where that is possible, use TLS.

Arrays may grow at their end. What a later version adds is covered by the MACs and otherwise skipped. There is one
version of the bus, and a node of another one is refused. It changes only when capabilities cannot say what is new.
"""

from hashlib import sha256
from hmac import compare_digest, digest
from typing import Final, NamedTuple

import msgpack

from cluster.capabilities import MASK_END, MINE
from cluster.member import BODY_USUAL, is_zone
from cluster.membership import is_node_id

MAGIC: Final = b"disque bus"
#: The version of the bus.
VERSION: Final = 1

HELLO: Final = 0
CHALLENGE: Final = 1
PROOF: Final = 2
WELCOME: Final = 3
REFUSAL: Final = 4

#: Frames before the proofs are no longer than this, in bytes.
FRAME_MOST: Final = 4096
NONCE_LENGTH: Final = 32
MAC_LENGTH: Final = 32
START_MOST: Final = 1 << 63
PORT_MOST: Final = 65535
VERSION_MOST: Final = 1 << 31
IP_LENGTH_MOST: Final = 255
BODY_MOST: Final = 1 << 40
REASON_LENGTH_MOST: Final = 200

DIALER: Final = b"dialer of a disque bus link"
ACCEPTOR: Final = b"acceptor of a disque bus link"

TWIN: Final = "another process has the same node ID: was its directory copied?"
MISMATCH: Final = "the other node has another cluster-secret"


class HandshakeError(Exception):
    """The link must not be used.

    ``tell`` is what the other side may hear about the reason; nothing if it is no node of this kind at all.
    """

    def __init__(self, reason: str, tell: str = "") -> None:
        super().__init__(reason)
        self.tell: Final = tell


class Identity(NamedTuple):
    """Who a node says that it is. ``ip`` is b"" unless it is announced; ``start`` is a random number of the process.

    ``zone`` is the label of those with which it fails together, b"" for none. ``body_most`` is the longest body that it
    takes, ``capabilities`` the mask of what it understands, with bits that may be unknown here.
    """

    id: bytes
    start: int
    port: int
    bus_port: int
    ip: bytes = b""
    zone: bytes = b""
    body_most: int = BODY_USUAL
    capabilities: int = MINE


class Dialer:
    """The side that connects. Send ``hello``, then what `challenged` gives; after `welcomed` the peer is proven."""

    __slots__ = ("_secret", "_transcript", "hello", "is_challenged", "peer")

    peer: Identity

    def __init__(self, me: Identity, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_LENGTH
        self._secret = secret
        self._transcript = b""
        self.is_challenged = False
        self.hello: Final = _pack((HELLO, MAGIC, VERSION, *_described(me, nonce)))

    def challenged(self, payload: bytes) -> bytes:
        """Take the CHALLENGE, note who answers (not proven yet), give the PROOF. Raises HandshakeError."""
        items = _unpack(payload, CHALLENGE, 2)
        _check_version(items[1])
        self.peer = _identity(items, 2)
        self.is_challenged = True
        self._transcript = _transcript(self.hello, payload)
        return _pack((PROOF, _mac(self._secret, DIALER, self._transcript)))

    def welcomed(self, payload: bytes) -> None:
        """Take the WELCOME. Raises HandshakeError unless it proves that the peer knows the secret."""
        items = _unpack(payload, WELCOME, 2)
        if not _is_mac(items[1], _mac(self._secret, ACCEPTOR, self._transcript)):
            raise HandshakeError(MISMATCH)


class Acceptor:
    """The side that was connected to. Answer with what `greeted` gives; after `proven` the peer is who it says.

    A node that has connected to itself is no fault here: the dialer can only find out when it knows whom it reached.
    """

    __slots__ = ("_me", "_nonce", "_secret", "_transcript", "peer")

    peer: Identity

    def __init__(self, me: Identity, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_LENGTH
        self._me = me
        self._secret = secret
        self._nonce = nonce
        self._transcript = b""

    def greeted(self, payload: bytes) -> bytes:
        """Take the HELLO, note who it claims to be from, give the CHALLENGE. Raises HandshakeError."""
        items = _unpack(payload, HELLO, 3)
        if items[1] != MAGIC:
            raise HandshakeError("this is not a node")
        _check_version(items[2])
        self.peer = _identity(items, 3)
        if self.peer.id == self._me.id and self.peer.start != self._me.start:
            raise HandshakeError(TWIN, TWIN)
        challenge = _pack((CHALLENGE, VERSION, *_described(self._me, self._nonce)))
        self._transcript = _transcript(payload, challenge)
        return challenge

    def proven(self, payload: bytes) -> bytes:
        """Take the PROOF, give the WELCOME. Raises HandshakeError unless it proves that the peer knows the secret."""
        items = _unpack(payload, PROOF, 2)
        if not _is_mac(items[1], _mac(self._secret, DIALER, self._transcript)):
            raise HandshakeError(MISMATCH, MISMATCH)
        return _pack((WELCOME, _mac(self._secret, ACCEPTOR, self._transcript)))


def refusal(reason: str) -> bytes:
    """The payload that tells a dialer why it is not let in."""
    return _pack((REFUSAL, reason[:REASON_LENGTH_MOST]))


def _pack(items: tuple[object, ...]) -> bytes:
    packed: bytes = msgpack.packb(items)
    return packed


def _unpack(payload: bytes, kind: int, least: int) -> tuple[object, ...]:
    """The items of a payload that must be of this kind and have so many items. Raises HandshakeError."""
    try:
        items: object = msgpack.unpackb(payload, use_list=False)
    except Exception as wrong:  # whatever the decoder says, it is garbage
        raise HandshakeError("this is not a valid handshake") from wrong
    if not isinstance(items, tuple) or not items or type(items[0]) is not int:
        raise HandshakeError("this is not a valid handshake")
    if items[0] == REFUSAL and kind in {CHALLENGE, WELCOME}:
        raise HandshakeError(f"it says: {_reason(items)}")
    if items[0] != kind or len(items) < least:
        raise HandshakeError("this is not a valid handshake")
    return items


def _reason(items: tuple[object, ...]) -> str:
    reason = items[1] if len(items) > 1 else None
    return reason[:REASON_LENGTH_MOST] if isinstance(reason, str) else "nothing"


def _described(me: Identity, nonce: bytes) -> tuple[object, ...]:
    """What `_identity` reads."""
    return (me.id, me.start, nonce, me.port, me.bus_port, me.ip, me.zone, me.body_most, me.capabilities)


def _check_version(item: object) -> None:
    """See whether the other side speaks this version of the bus, before anything else of it is read."""
    version = _number(item, VERSION_MOST)
    if version != VERSION:
        raise HandshakeError(
            f"it speaks version {version} of the bus, this node version {VERSION}",
            f"version {VERSION} of the bus is accepted here, not version {version}",
        )


def _identity(items: tuple[object, ...], at: int) -> Identity:
    """ID, start, nonce, port, bus port, IP, zone, longest body, capabilities, from ``at`` on. Raises HandshakeError."""
    if len(items) < at + 9:
        raise HandshakeError("this is not a valid handshake")
    node_id, start, nonce, port, bus_port, ip, zone, body_most, capabilities = items[at : at + 9]
    if not isinstance(node_id, bytes) or not is_node_id(node_id):
        raise HandshakeError("the node ID is not valid")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE_LENGTH:
        raise HandshakeError("the nonce is not valid")
    if not isinstance(ip, bytes) or len(ip) > IP_LENGTH_MOST or not all(33 <= char < 127 for char in ip):
        raise HandshakeError("the address is not valid")
    if not isinstance(zone, bytes) or not is_zone(zone):
        raise HandshakeError("the zone is not valid")
    ports = _number(port, PORT_MOST), _number(bus_port, PORT_MOST)
    most, mask = _number(body_most, BODY_MOST), _number(capabilities, MASK_END - 1)
    return Identity(node_id, _number(start, START_MOST), *ports, ip, zone, most, mask)


def _number(item: object, most: int) -> int:
    if type(item) is not int or not 0 <= item <= most:
        raise HandshakeError("a number is not valid")
    return item


def _transcript(hello: bytes, challenge: bytes) -> bytes:
    """One digest of both payloads, which no other pair of payloads has."""
    return sha256(sha256(hello).digest() + sha256(challenge).digest()).digest()


def _mac(secret: bytes, role: bytes, transcript: bytes) -> bytes:
    return digest(secret, role + transcript, sha256)


def _is_mac(item: object, expected: bytes) -> bool:
    return isinstance(item, bytes) and compare_digest(item, expected)
