"""Certificates for tests of TLS with clients: an authority, a server with names (localhost, queue.example.org,
127.0.0.1), a client, and a stranger whom the authority does not know. They are good for a hundred years."""

import ssl
from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).parent / "tls"
AUTHORITY: Final = str(FILES / "authority.crt")
NAME: Final = "queue.example.org"


def pair(who: str) -> tuple[str, str]:
    """The files of a certificate and of its key."""
    return str(FILES / f"{who}.crt"), str(FILES / f"{who}.key")


def options(auth: str = "yes", who: str = "server", authority: str = AUTHORITY) -> dict[str, str]:
    """The settings of a server with TLS, without its port."""
    certificate, key = pair(who)
    return {
        "tls-cert-file": certificate,
        "tls-key-file": key,
        "tls-ca-cert-file": authority,
        "tls-auth-clients": auth,
    }


def trusting(who: str | None = "client") -> ssl.SSLContext:
    """A client that believes the authority, with the certificate of ``who`` or without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(AUTHORITY)
    if who is not None:
        context.load_cert_chain(*pair(who))
    return context
