from pathlib import Path
from typing import Final

import pytest

from disque.core.settings import Config
from disque.server.tls import TlsError, contexts
from tests.cluster.buses import Station, Stranger, in_loop

FILES: Final = Path(__file__).parent.parent / "support" / "tls"


def config(name: str = "node", authority: str = "ca") -> Config:
    made = Config()
    made.put("tls-cert-file", (str(FILES / f"{name}.crt"),))
    made.put("tls-key-file", (str(FILES / f"{name}.key"),))
    made.put("tls-ca-cert-file", (str(FILES / f"{authority}.crt"),))
    return made


async def station(letter: str, name: str = "node") -> Station:
    made = Station(letter, secret=b"secret")
    made.bus.use_tls(*contexts(config(name)))
    return await made.listen()


def test_nodes_with_certificates_of_one_authority_are_linked() -> None:
    async def scene() -> None:
        one, other = await station("a"), await station("b")
        one.bus.reconcile([other.node()])
        await one.notes.until_event("up", other.id)
        await other.notes.until_event("heard", one.id)
        await one.end()
        await other.end()

    in_loop(scene)


def test_a_node_with_a_certificate_of_another_authority_is_refused_both_ways() -> None:
    async def scene() -> None:
        one, stranger = await station("a"), await station("b", "stranger")
        one.bus.reconcile([stranger.node()])
        stranger.bus.reconcile([one.node()])
        await one.notes.until_event("down", stranger.id)
        await stranger.notes.until_event("down", one.id)
        assert {"up", "heard"}.isdisjoint([*one.notes.kinds(), *stranger.notes.kinds()])
        await one.end()
        await stranger.end()

    in_loop(scene)


def test_a_node_without_tls_is_refused_and_learns_nothing() -> None:
    async def scene() -> None:
        one, plain = await station("a"), await Station("b", secret=b"secret").listen()
        plain.bus.reconcile([one.node()])
        one.bus.reconcile([plain.node()])
        await plain.notes.until_event("down", one.id)
        await one.notes.until_event("down", plain.id)
        stranger = await Stranger.to(one)
        stranger.say(b"GET / HTTP/1.1\r\n\r\n")
        assert b"disque" not in await stranger.rest()
        stranger.close()
        await one.end()
        await plain.end()

    in_loop(scene)


@pytest.mark.parametrize(
    ("name", "authority"), [("missing", "ca"), ("node", "missing"), ("../tls", "ca"), ("node", "../test_conf")]
)
def test_files_that_cannot_be_used_are_named(name: str, authority: str) -> None:
    with pytest.raises(TlsError, match="Cannot use the certificates of tls-cluster"):
        contexts(config(name, authority))


def test_a_key_of_another_certificate_cannot_be_used() -> None:
    mixed = config()
    mixed.put("tls-key-file", (str(FILES / "stranger.key"),))
    with pytest.raises(TlsError, match="Cannot use"):
        contexts(mixed)


def test_all_three_files_are_needed() -> None:
    for missing in ("tls-cert-file", "tls-key-file", "tls-ca-cert-file"):
        short = config()
        short.put(missing, ("",))
        with pytest.raises(TlsError, match="tls-cluster needs"):
            contexts(short)
