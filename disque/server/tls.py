"""TLS between nodes, and for clients. Both use the certificate of this node, and one authority to check that of others.

Between nodes, both sides show a certificate of the authority (`tls-ca-cert-file`). Names in it are not checked, since
the addresses of nodes are not known beforehand. A certificate alone does not make a node: `cluster-secret` does.

Clients are asked for a certificate as `tls-auth-clients` says. Whether they check the name in the certificate of this
node is up to them.
"""

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from disque.core.config.settings import Config

#: What a change of these settings reads anew.
SETTINGS_OF_TLS: Final = ("tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients")
#: What `tls-auth-clients` means.
VERIFY: Final = {"yes": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "no": ssl.CERT_NONE}


class TlsError(Exception):
    """The files cannot be used; the text is for the log."""


def contexts(config: Config) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of nodes that are called and of those that call. Raises TlsError."""
    called = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname = False
    for context in (called, calling):
        _load(context, config, "tls-cluster", ssl.CERT_REQUIRED)
    return called, calling


def client_context(config: Config) -> ssl.SSLContext:
    """The context for clients. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Clients of this kind come to stay, so they resume nothing. And a ticket that a client has not read when it closes
    # its connection makes the system throw away what it sent last.
    context.num_tickets = 0
    _load(context, config, "tls-port", VERIFY[config.text("tls-auth-clients")])
    return context


def common_name(certificate: Mapping[str, Any]) -> str:
    """The common name of the subject of a certificate, as `SSLObject.getpeercert` gives it; "" if there is none."""
    subject: Any = certificate.get("subject", ())
    return next((str(value) for part in subject for name, value in part if name == "commonName"), "")


def _load(context: ssl.SSLContext, config: Config, what: str, verify: ssl.VerifyMode) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = verify
    certificate, key, authority = map(config.text, ("tls-cert-file", "tls-key-file", "tls-ca-cert-file"))
    if not certificate or not key:
        raise TlsError(f"{what} needs tls-cert-file and tls-key-file")
    if not authority and verify != ssl.CERT_NONE:
        hint = ", or tls-auth-clients no" if what == "tls-port" else ""
        raise TlsError(f"{what} needs tls-ca-cert-file{hint}")
    for path in filter(None, (certificate, key, authority)):
        _read(partial(_look_at, Path(path)), what, path)
    _read(lambda: context.load_cert_chain(certificate, key, _no_passphrase), what, f"{certificate} with {key}")
    if verify != ssl.CERT_NONE:
        _read(lambda: context.load_verify_locations(authority), what, authority)


def _look_at(path: Path) -> None:
    """Raise ValueError for what is there and no file: to open a pipe would wait for who writes to it."""
    if path.exists() and not path.is_file():
        raise ValueError("not a file")


def _read(load: Callable[[], None], what: str, files: str) -> None:
    """Load something. Raises TlsError that names the files."""
    try:
        load()
    except (OSError, ValueError) as wrong:
        raise TlsError(f"Cannot use the certificates of {what} ({files}): {reason(wrong)}") from wrong


def reason(wrong: Exception) -> str:
    """What went wrong, in words and without places in the sources of others."""
    if isinstance(wrong, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {wrong.verify_message}"
    if isinstance(wrong, ssl.SSLError) and wrong.reason:
        return wrong.reason.lower().replace("_", " ")
    return (isinstance(wrong, OSError) and wrong.strerror) or str(wrong) or type(wrong).__name__


def _no_passphrase() -> str:
    """Never ask at the terminal: a server has none. Raises ValueError."""
    raise ValueError("the key has a passphrase")
