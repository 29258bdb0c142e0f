from typing import Any

import msgpack
import pytest

from cluster.handshake import (
    CHALLENGE,
    HELLO,
    MAGIC,
    MISMATCH,
    PROOF,
    REFUSAL,
    TWIN,
    VERSION,
    WELCOME,
    Acceptor,
    Dialer,
    HandshakeError,
    Identity,
    refusal,
)

ALICE = Identity(b"a" * 40, 11, 7711, 17711, b"10.0.0.1", capabilities=5 | 1 << 62)
BOB = Identity(b"b" * 40, 22, 7712, 17712, zone=b"rack-2", body_most=1000, capabilities=0)
CAROL = Identity(b"c" * 40, 33, 7713, 17713)
SECRET = b"a long secret"
NONCES = [bytes([number]) * 32 for number in range(10)]


def dialer(me: Identity = ALICE, secret: bytes = SECRET, nonce: int = 1) -> Dialer:
    return Dialer(me, secret, NONCES[nonce])


def acceptor(me: Identity = BOB, secret: bytes = SECRET, nonce: int = 2) -> Acceptor:
    return Acceptor(me, secret, NONCES[nonce])


def shake(one: Dialer, other: Acceptor) -> None:
    one.welcomed(other.proven(one.challenged(other.greeted(one.hello))))


def changed(payload: bytes, at: int, value: Any) -> bytes:
    items = msgpack.unpackb(payload)
    items[at] = value
    return msgpack.packb(items)  # type: ignore[no-any-return]  # bytes


@pytest.mark.parametrize("secret", [SECRET, b"", b"\xff" * 512])
def test_both_sides_learn_who_the_other_is(secret: bytes) -> None:
    one, other = dialer(secret=secret), acceptor(secret=secret)
    shake(one, other)
    assert one.peer == BOB
    assert other.peer == ALICE


@pytest.mark.parametrize("secret", [b"", b"a long secre", b"a long secret "])
def test_an_acceptor_refuses_a_dialer_with_another_secret_and_says_so(secret: bytes) -> None:
    one, other = dialer(secret=secret), acceptor()
    with pytest.raises(HandshakeError, match=MISMATCH) as refused:
        shake(one, other)
    assert refused.value.tell == MISMATCH


def test_a_dialer_refuses_an_acceptor_that_only_pretends_to_know_the_secret() -> None:
    one, liar = dialer(), acceptor(secret=b"?")
    one.challenged(liar.greeted(one.hello))
    for lie in (b"", b"\0" * 32, b"x" * 31):
        with pytest.raises(HandshakeError, match=MISMATCH):
            one.welcomed(msgpack.packb((WELCOME, lie)))


def test_a_stranger_gets_nothing_to_try_secrets_on() -> None:
    challenge = acceptor().greeted(dialer(secret=b"?").hello)
    assert challenge == acceptor(secret=b"other").greeted(dialer(secret=b"?").hello), "no MAC before the dialer's"


class TestReplay:
    def test_a_recorded_dialer_proves_nothing_on_another_link(self) -> None:
        one = dialer()
        first = acceptor()
        proof = one.challenged(first.greeted(one.hello))
        first.proven(proof)
        second = acceptor(nonce=3)
        second.greeted(one.hello)
        with pytest.raises(HandshakeError, match=MISMATCH):
            second.proven(proof)

    def test_a_recorded_acceptor_proves_nothing_on_another_link(self) -> None:
        one, other = dialer(), acceptor()
        challenge = other.greeted(one.hello)
        welcome = other.proven(one.challenged(challenge))
        again = dialer(nonce=3)
        again.challenged(challenge)
        with pytest.raises(HandshakeError, match=MISMATCH):
            again.welcomed(welcome)


class TestReflection:
    def test_the_proof_of_a_dialer_is_no_welcome(self) -> None:
        one, other = dialer(), acceptor()
        proof = one.challenged(other.greeted(one.hello))
        mac = msgpack.unpackb(proof)[1]
        with pytest.raises(HandshakeError, match=MISMATCH):
            one.welcomed(msgpack.packb((WELCOME, mac)))

    def test_the_welcome_of_an_acceptor_is_no_proof(self) -> None:
        one, other = dialer(), acceptor()
        welcome = other.proven(one.challenged(other.greeted(one.hello)))
        mac = msgpack.unpackb(welcome)[1]
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(msgpack.packb((PROOF, mac)))

    def test_who_has_to_prove_himself_cannot_have_the_same_node_do_it_for_him(self) -> None:
        """Mallory pretends to be Carol towards Bob, and has Bob's own dialer answer the challenge."""
        bob_listens, bob_dials = acceptor(BOB, nonce=4), dialer(BOB, nonce=5)
        challenge = bob_listens.greeted(Dialer(CAROL, b"?", NONCES[6]).hello)
        with pytest.raises(HandshakeError, match=MISMATCH):
            bob_listens.proven(bob_dials.challenged(challenge))


class TestEverythingIsVouchedFor:
    @pytest.mark.parametrize(
        ("at", "value"),
        [
            *((3, CAROL.id), (4, 12), (5, NONCES[7]), (6, 1), (7, 1), (8, b"10.9.9.9"), (9, b"rack-2")),
            *((10, 1), (11, 0), (11, 7)),
        ],
    )
    def test_nothing_of_a_hello_can_be_changed_on_the_way(self, at: int, value: object) -> None:
        one, other = dialer(), acceptor()
        challenge = other.greeted(changed(one.hello, at, value))
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(one.challenged(challenge))

    @pytest.mark.parametrize(
        ("at", "value"),
        [(2, CAROL.id), (3, 12), (4, NONCES[7]), (5, 1), (6, 1), (7, b"1.1.1.1"), (8, b"x"), (9, 1), (10, 1)],
    )
    def test_nothing_of_a_challenge_can_be_changed_on_the_way(self, at: int, value: object) -> None:
        one, other = dialer(), acceptor()
        proof = one.challenged(changed(other.greeted(one.hello), at, value))
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(proof)

    def test_what_a_later_version_adds_is_vouched_for_and_skipped(self) -> None:
        other = acceptor()
        one = dialer()
        one.hello = msgpack.packb((*msgpack.unpackb(one.hello), "more"))  # type: ignore[misc]  # a later version
        shake(one, other)
        assert other.peer == ALICE


class TestVersions:
    @pytest.mark.parametrize("version", [0, 2, 9])
    def test_another_version_is_refused_by_both_sides_and_named(self, version: int) -> None:
        with pytest.raises(HandshakeError, match=f"speaks version {version} of the bus") as refused:
            acceptor().greeted(changed(dialer().hello, 2, version))
        assert refused.value.tell == f"version {VERSION} of the bus is accepted here, not version {version}"
        with pytest.raises(HandshakeError, match=f"speaks version {version} of the bus"):
            dialer().challenged(changed(acceptor().greeted(dialer().hello), 1, version))

    def test_nothing_else_is_read_of_another_version(self) -> None:
        with pytest.raises(HandshakeError, match="speaks version 7"):
            acceptor().greeted(msgpack.packb((HELLO, MAGIC, 7)))
        with pytest.raises(HandshakeError, match="speaks version 7"):
            dialer().challenged(msgpack.packb((CHALLENGE, 7, "whatever")))

    def test_capabilities_that_are_unknown_here_come_through(self) -> None:
        one, other = dialer(ALICE._replace(capabilities=(1 << 63) - 1)), acceptor()
        shake(one, other)
        assert other.peer.capabilities == (1 << 63) - 1


def test_another_process_with_the_same_node_id_is_refused() -> None:
    with pytest.raises(HandshakeError, match="same node ID") as refused:
        acceptor(ALICE._replace(start=12)).greeted(dialer(ALICE).hello)
    assert refused.value.tell == TWIN


def test_a_node_that_reaches_itself_finds_out() -> None:
    one = dialer(ALICE)
    shake(one, acceptor(ALICE))
    assert one.peer == ALICE


def test_the_reason_of_a_refusal_is_shown() -> None:
    one = dialer()
    with pytest.raises(HandshakeError, match="it says: no room"):
        one.challenged(refusal("no room"))
    one.challenged(acceptor().greeted(one.hello))
    with pytest.raises(HandshakeError, match=r"it says: x{200}$"):
        one.welcomed(refusal("x" * 1000))


GARBAGE = [
    b"",
    b"\xc1",
    b"GET / HTTP/1.1\r\n\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    msgpack.packb([]),
    msgpack.packb(1),
    msgpack.packb({0: 1}),
    msgpack.packb([True] * 12),
    msgpack.packb([HELLO]),
    msgpack.packb([PROOF, None, None]),
    msgpack.packb([99] * 12),
    b"\x9f" * 2000,
    b"\xdd\xff\xff\xff\xff",
]


@pytest.mark.parametrize("payload", GARBAGE)
def test_garbage_is_refused_at_every_step_without_an_answer(payload: bytes) -> None:
    one, other = dialer(), acceptor()
    steps: list[Any] = [other.greeted, one.challenged, other.proven, one.welcomed]
    for take in steps:
        with pytest.raises(HandshakeError) as refused:
            take(payload)
        if payload != msgpack.packb([PROOF, None, None]):
            assert refused.value.tell == ""


@pytest.mark.parametrize("cut", [1, 5, 20, 100])
def test_a_payload_that_was_cut_short_is_garbage(cut: int) -> None:
    with pytest.raises(HandshakeError, match="this is not a valid handshake"):
        acceptor().greeted(dialer().hello[:-cut])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (1, b"redis bus"), (1, None),
        (2, -1), (2, 1 << 40), (2, True), (2, 1.0), (2, None), (2, b"1"),
        (3, b"a" * 39), (3, b"A" * 40), (3, "a" * 40), (3, None),
        (4, -1), (4, (1 << 63) + 1), (4, None),
        (5, b"x" * 31), (5, None),
        (6, 65536), (6, -1), (7, 65536), (7, None),
        (8, b"1.1.1.1\n"), (8, b"x" * 256), (8, "1.1.1.1"), (8, b"a b"),
        (9, b"x" * 65), (9, b"a b"), (9, b"a\n"), (9, "rack"), (9, None),
        (10, -1), (10, (1 << 40) + 1), (10, None), (10, True),
        (11, -1), (11, 1 << 63), (11, None), (11, b"x"), (11, True),
    ],
)  # fmt: skip
def test_a_hello_with_nonsense_in_a_field_is_refused(at: int, value: object) -> None:
    with pytest.raises(HandshakeError) as refused:
        acceptor().greeted(changed(dialer().hello, at, value))
    assert refused.value.tell == ""


def test_kinds_and_magic_are_for_ever() -> None:
    assert (HELLO, CHALLENGE, PROOF, WELCOME, REFUSAL) == (0, 1, 2, 3, 4)
    assert MAGIC == b"disque bus"
