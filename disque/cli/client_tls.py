"""TLS of the command line: which servers are trusted, and the certificate of the client.

The names are those of redis-cli. Unlike with redis-cli, the name in the certificate of the server must be the one that
was connected to (or `sni`). An authority of a whole company says that someone is a server, not that it is this one.
"""

import socket
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

NEEDS: Final = "--cert and --key belong together"


class Trust(NamedTuple):
    """Files and names for a connection with TLS, "" for those that are not given.

    `cacert` and `cacertdir` are authorities to believe, without either those of the system; `insecure` believes
    everybody. `sni` is the name that the server is to have, when it is not the one that is connected to.
    """

    cacert: str = ""
    cacertdir: str = ""
    cert: str = ""
    key: str = ""
    sni: str = ""
    insecure: bool = False


#: Whom the system believes.
SYSTEM: Final = Trust()


class TrustError(Exception):
    """The files cannot be used; the message says which and why."""


@lru_cache(maxsize=4)
def context_of(trust: Trust) -> ssl.SSLContext:
    """Read the files. Raises TrustError."""
    if bool(trust.cert) != bool(trust.key):
        raise TrustError(NEEDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    files = str(Path(trust.cacert or trust.cacertdir).absolute())
    try:
        if trust.cacert or trust.cacertdir:
            context.load_verify_locations(trust.cacert or None, trust.cacertdir or None)
        else:
            context.load_default_certs()
        files = f"{Path(trust.cert).absolute()} with {Path(trust.key).absolute()}"
        if trust.cert:
            context.load_cert_chain(trust.cert, trust.key)
    except OSError as error:
        raise TrustError(f"Cannot use {files}: {reason(error)}") from None
    return context


def secure(connected: socket.socket, host: str, trust: Trust) -> ssl.SSLSocket:
    """Shake hands over a connected socket, which belongs to the one that is given. Raises OSError, TrustError."""
    name = trust.sni or host
    try:
        name.encode("idna")  # ssl does so too, and then leaves the socket to nobody
        return context_of(trust).wrap_socket(connected, server_hostname=name)
    except ssl.SSLError:  # one of a certificate is a ValueError, too
        raise
    except ValueError as error:  # a name that can be none
        raise OSError(str(error)) from error


def reason(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS failed: {error.reason.lower().replace('_', ' ')}"
    return getattr(error, "strerror", None) or str(error)
