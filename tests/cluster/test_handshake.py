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
    VERSION_HIGHEST,
    WELCOME,
    Acceptor,
    Dialer,
    HandshakeError,
    Identity,
    Versions,
    refusal,
)

ALICE = Identity(b"a" * 40, 11, 7711, 17711, b"10.0.0.1")
BOB = Identity(b"b" * 40, 22, 7712, 17712, zone=b"rack-2")
CAROL = Identity(b"c" * 40, 33, 7713, 17713)
SECRET = b"a long secret"
NONCES = [bytes([number]) * 32 for number in range(10)]


def dialer(me: Identity = ALICE, secret: bytes = SECRET, nonce: int = 1, versions: Versions | None = None) -> Dialer:
    return Dialer(me, secret, NONCES[nonce], versions)


def acceptor(me: Identity = BOB, secret: bytes = SECRET, nonce: int = 2, versions: Versions | None = None) -> Acceptor:
    return Acceptor(me, secret, NONCES[nonce], versions)


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
    assert one.version == other.version == VERSION_HIGHEST


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
        [(2, 0), (4, CAROL.id), (5, 12), (6, NONCES[7]), (7, 1), (8, 1), (9, b"10.9.9.9"), (10, b"rack-2")],
    )
    def test_nothing_of_a_hello_can_be_changed_on_the_way(self, at: int, value: object) -> None:
        one, other = dialer(), acceptor()
        challenge = other.greeted(changed(one.hello, at, value))
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(one.challenged(challenge))

    @pytest.mark.parametrize(
        ("at", "value"), [(2, CAROL.id), (3, 12), (4, NONCES[7]), (5, 1), (6, 1), (7, b"1.1.1.1"), (8, b"x")]
    )
    def test_nothing_of_a_challenge_can_be_changed_on_the_way(self, at: int, value: object) -> None:
        one, other = dialer(), acceptor()
        proof = one.challenged(changed(other.greeted(one.hello), at, value))
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(proof)

    def test_versions_cannot_be_talked_down(self) -> None:
        one, other = dialer(versions=Versions(1, 2)), acceptor(versions=Versions(1, 2))
        challenge = other.greeted(changed(one.hello, 3, 1))
        assert other.version == 1
        with pytest.raises(HandshakeError, match=MISMATCH):
            other.proven(one.challenged(challenge))

    def test_what_a_later_version_adds_is_vouched_for_and_skipped(self) -> None:
        other = acceptor()
        one = dialer()
        one.hello = msgpack.packb((*msgpack.unpackb(one.hello), "more"))  # type: ignore[misc]  # a later version
        shake(one, other)
        assert other.peer == ALICE


class TestWithoutZones:
    """A node from before there were zones says none, and is one of its own."""

    def test_as_dialer(self) -> None:
        one, other = dialer(), acceptor()
        one.hello = msgpack.packb(msgpack.unpackb(one.hello)[:10])  # type: ignore[misc]  # an earlier version
        shake(one, other)
        assert other.peer == ALICE

    def test_as_acceptor(self) -> None:
        one, other = dialer(), acceptor()
        one.challenged(msgpack.packb(msgpack.unpackb(other.greeted(one.hello))[:8]))
        assert one.peer == BOB._replace(zone=b"")


class TestVersions:
    @pytest.mark.parametrize(
        ("one", "other", "chosen"),
        [((1, 1), (1, 3), 1), ((1, 3), (1, 1), 1), ((1, 3), (2, 4), 3), ((2, 4), (1, 3), 3), ((3, 3), (3, 3), 3)],
    )
    def test_the_highest_that_both_speak_is_used(
        self, one: tuple[int, int], other: tuple[int, int], chosen: int
    ) -> None:
        first, second = dialer(versions=Versions(*one)), acceptor(versions=Versions(*other))
        shake(first, second)
        assert first.version == second.version == chosen

    @pytest.mark.parametrize(("one", "other"), [((1, 1), (2, 3)), ((4, 5), (2, 3))])
    def test_ranges_that_do_not_meet_are_refused_and_named(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        with pytest.raises(HandshakeError, match=f"speaks versions {one[0]} to {one[1]}") as refused:
            acceptor(versions=Versions(*other)).greeted(dialer(versions=Versions(*one)).hello)
        assert refused.value.tell == "versions 2 to 3 of the bus are accepted here"

    def test_a_version_that_was_not_offered_is_refused(self) -> None:
        with pytest.raises(HandshakeError, match="version 9"):
            dialer().challenged(changed(acceptor().greeted(dialer().hello), 1, 9))


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
        (2, -1), (2, 1 << 40), (2, True), (2, 1.0), (3, None), (3, b"1"),
        (4, b"a" * 39), (4, b"A" * 40), (4, "a" * 40), (4, None),
        (5, -1), (5, (1 << 63) + 1), (5, None),
        (6, b"x" * 31), (6, None),
        (7, 65536), (7, -1), (8, 65536), (8, None),
        (10, b"x" * 65), (10, b"a b"), (10, b"a\n"), (10, "rack"), (10, None),
        (9, b"1.1.1.1\n"), (9, b"x" * 256), (9, "1.1.1.1"), (9, b"a b"),
    ],
)  # fmt: skip
def test_a_hello_with_nonsense_in_a_field_is_refused(at: int, value: object) -> None:
    with pytest.raises(HandshakeError) as refused:
        acceptor().greeted(changed(dialer().hello, at, value))
    assert refused.value.tell == ""


def test_kinds_and_magic_are_for_ever() -> None:
    assert (HELLO, CHALLENGE, PROOF, WELCOME, REFUSAL) == (0, 1, 2, 3, 4)
    assert MAGIC == b"disque bus"
