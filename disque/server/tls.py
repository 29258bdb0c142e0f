"""TLS between nodes: both sides show a certificate of the same authority (`tls-ca-cert-file`).

Names in certificates are not looked at: nodes have addresses that nobody knows beforehand. Who has a certificate of the
authority is a node.
"""

import ssl

from disque.core.settings import Config


class TlsError(Exception):
    """The files cannot be used; the text is for the log."""


def contexts(config: Config) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of those who are called and of those who call. Raises TlsError."""
    called = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname = False
    for context in (called, calling):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        _load(context, config)
    return called, calling


def _load(context: ssl.SSLContext, config: Config) -> None:
    certificate, key, authority = map(config.text, ("tls-cert-file", "tls-key-file", "tls-ca-cert-file"))
    if not certificate or not key or not authority:
        raise TlsError("tls-cluster needs tls-cert-file, tls-key-file and tls-ca-cert-file")
    try:
        context.load_cert_chain(certificate, key, _no_passphrase)
        context.load_verify_locations(authority)
    except (OSError, ValueError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
        raise TlsError(f"Cannot use the certificates of tls-cluster ({certificate}, {authority}): {reason}") from wrong


def _no_passphrase() -> str:
    """Never ask at the terminal: a server has none. Raises ValueError."""
    raise ValueError("the key has a passphrase")
