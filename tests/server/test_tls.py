import os
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from disque.core.config.settings import Config
from disque.server.tls import TlsError, client_context, common_name, contexts, reason
from tests.cluster.buses import Station, Stranger, in_loop
from tests.conftest import ROOT
from tests.support import certificates

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


def for_clients(auth: str = "yes", **options: str) -> Config:
    made = Config()
    for name, value in (
        certificates.options(auth) | {key.replace("_", "-"): text for key, text in options.items()}
    ).items():
        made.put(name, (value,))
    return made


@pytest.mark.parametrize(
    ("auth", "mode"), [("yes", ssl.CERT_REQUIRED), ("optional", ssl.CERT_OPTIONAL), ("no", ssl.CERT_NONE)]
)
def test_clients_are_asked_for_certificates_as_the_settings_say(auth: str, mode: ssl.VerifyMode) -> None:
    context = client_context(for_clients(auth))
    assert context.verify_mode is mode
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == (auth != "no")


def test_an_authority_is_needed_only_where_certificates_are_looked_at() -> None:
    client_context(for_clients("no", tls_ca_cert_file=""))
    for auth in ("yes", "optional"):
        with pytest.raises(TlsError, match="tls-port needs tls-ca-cert-file, or tls-auth-clients no"):
            client_context(for_clients(auth, tls_ca_cert_file=""))


@pytest.mark.parametrize("missing", ["tls_cert_file", "tls_key_file"])
def test_certificate_and_key_are_needed_in_any_case(missing: str) -> None:
    with pytest.raises(TlsError, match="tls-port needs tls-cert-file and tls-key-file"):
        client_context(for_clients("no", **{missing: ""}))


def test_the_file_that_is_wrong_is_named_with_the_reason(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    certificate, key = certificates.pair("stranger")
    for options, text in (
        ({"tls_ca_cert_file": "/no/such/file"}, r"of tls-port \(/no/such/file\): No such file or directory"),
        ({"tls_ca_cert_file": str(nonsense)}, "nonsense.*: no certificate or crl found"),
        ({"tls_key_file": key}, "server.crt with .*stranger.key.*: key values mismatch"),
        ({"tls_cert_file": certificate}, "stranger.crt with .*server.key.*: key values mismatch"),
        ({"tls_cert_file": str(nonsense)}, "nonsense with .*server.key"),
    ):
        with pytest.raises(TlsError, match=text):
            client_context(for_clients(**options))


@pytest.mark.parametrize("setting", ["tls-cert-file", "tls-key-file", "tls-ca-cert-file"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, setting: str) -> None:
    made, pipe = config(), tmp_path / "pipe"
    os.mkfifo(pipe)
    made.put(setting, (str(pipe),))
    with pytest.raises(TlsError, match=f"\\({pipe}\\): not a file"):
        contexts(made)


def test_a_file_that_cannot_be_looked_at_is_named() -> None:
    for setting in ("tls-cert-file", "tls-key-file", "tls-ca-cert-file"):
        made = config()
        made.put(setting, ("/" + "x" * 300,))
        with pytest.raises(TlsError, match=r"of tls-cluster .*xxx.*: File name too long"):
            contexts(made)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    locked = tmp_path / "locked.key"
    words = ("pkey", "-aes256", "-passout", "pass:secret", "-in", certificates.pair("server")[1], "-out", str(locked))
    subprocess.run([openssl, *words], check=True)
    with pytest.raises(TlsError, match="the key has a passphrase"):
        client_context(for_clients(tls_key_file=str(locked)))


def test_reasons_are_words() -> None:
    assert reason(OSError(2, "No such file or directory")) == "No such file or directory"
    assert reason(ValueError("so it is")) == "so it is"
    assert reason(ValueError()) == "ValueError"


#: What is made strict in Python 3.13: an authority must say what its key is for, and so on.
STRICT: Final = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN


def shake_hands(authority: Path, server: tuple[str, str], client: tuple[str, str], name: str | None) -> None:
    """A handshake in memory, both sides as strict as Python 3.13. Without a name, none is looked at."""
    called = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    called.verify_mode = ssl.CERT_REQUIRED
    called.load_cert_chain(*server)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.load_cert_chain(*client)
    calling.check_hostname = name is not None
    for context in (called, calling):
        context.load_verify_locations(str(authority))
        context.verify_flags |= STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        calling.wrap_bio(to_client, to_server, server_hostname=name),
        called.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in [*sides, *sides]:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert sides[0].version() == sides[1].version() == "TLSv1.3"
    assert sides[1].getpeercert()


def test_the_certificates_of_the_tests_are_good_for_strict_clients() -> None:
    shake_hands(FILES / "authority.crt", certificates.pair("server"), certificates.pair("client"), "localhost")
    shake_hands(FILES / "ca.crt", certificates.pair("node"), certificates.pair("node"), None)


def test_the_recipe_of_the_documentation_makes_certificates_that_strict_clients_accept(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tls.md").read_text()
    recipe = text.partition("```\n")[2].partition("```")[0]
    assert recipe.count("openssl req") == 2
    subprocess.run(["/bin/sh", "-eu"], input=recipe, text=True, cwd=tmp_path, check=True, capture_output=True)
    pair = (str(tmp_path / "node.crt"), str(tmp_path / "node.key"))
    shake_hands(tmp_path / "ca.crt", pair, pair, "node-1")


def test_the_common_name_of_a_certificate() -> None:
    assert common_name({"subject": ((("organizationName", "x"),), (("commonName", "u"), ("commonName", "v")))}) == "u"
    assert common_name({"subject": ((("organizationName", "x"),),)}) == ""
    assert common_name({}) == ""
