"""URLs that name a server: `disque://user:password@host:port,host2:port2`, `redis://...`, `unix:///path`.

`disques://` and `rediss://` are the same with TLS.

The user and the password are percent-decoded. Before the @ stands `user:password`, `:password` or, as with redis-cli,
the password alone. A path after the host is the database number of Redis and means nothing here.
"""

from typing import Final
from urllib.parse import unquote

from disque.cli.client import DEFAULT_PORT, Target
from disque.cli.client_tls import SYSTEM

_TLS_SCHEMES: Final = frozenset({"disques", "rediss"})
_TCP_SCHEMES: Final = frozenset({"disque", "redis"}) | _TLS_SCHEMES


def apply_url(url: str, target: Target) -> str:
    """Set where `target` points and as whom; give the database number in the URL, "" if there is none.

    Raises ValueError with what is wrong.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or (scheme not in _TCP_SCHEMES and scheme != "unix"):
        raise ValueError(
            f"Invalid URL {url!r}: it must begin with disque://, disques://, redis://, rediss:// or unix://"
        )
    credentials, at, place = rest.rpartition("@")
    if at:
        _apply_credentials(credentials, target)
    if scheme == "unix":
        target.path = unquote(place)
        if not target.path:
            raise ValueError(f"Invalid URL {url!r}: unix:// must be followed by the path of a socket")
        return ""
    hosts, _, database = place.partition("?")[0].partition("/")
    target.path = None
    if scheme in _TLS_SCHEMES:
        target.trust = target.trust or SYSTEM
    target.addresses = [parse_address(address) for address in hosts.split(",")]
    return database


def _apply_credentials(credentials: str, target: Target) -> None:
    user, colon, password = credentials.partition(":")
    target.user = unquote(user) or None if colon else None
    target.password = unquote(password if colon else user)


def parse_address(address: str) -> tuple[str, int]:
    """Read `host`, `host:port`, `[ipv6]:port`; host and port have defaults. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, ""
    return host.strip("[]") or "127.0.0.1", parse_port(port) if port else DEFAULT_PORT


def parse_port(text: str) -> int:
    """Read a port number. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"Invalid port {text!r}: a number from 1 to 65535 is expected")
    return int(text)
