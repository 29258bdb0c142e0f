"""Parsing URLs of clusters: `disque://user:password@host:port,[::1]:port?name=value`.

An error names the part that is wrong. No message shows the password, or a whole URL that may contain it.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

SCHEMES: Final[dict[str, bool]] = {"disque": False, "disques": True}
DEFAULT_PORT: Final = 7711
#: What names and addresses of hosts are made of. Containers have underscores, `%` stands before the zone of an IPv6
#: address, and other scripts than ASCII are turned into it before a name is looked up.
HOST: Final = re.compile(r"(?:[A-Za-z0-9_.:%-]|[^\s\x00-\x7f])+")
YES_NO: Final[dict[str, bool]] = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}


class Parts(NamedTuple):
    """A URL taken apart."""

    tls: bool
    user: str | None
    password: str | None
    nodes: tuple[tuple[str, int], ...]
    query: list[tuple[str, str]]


def split(url: str) -> Parts:
    """Take a URL apart. Raises ValueError."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError("Invalid URL: it must begin with disque:// or, for TLS, disques://")
    place, _, query = rest.partition("?")
    credentials, at, hosts = place.rpartition("@")
    user, password = split_credentials(credentials) if at else (None, None)
    hosts, _, path = hosts.partition("/")
    if path:
        raise ValueError(f"Invalid URL: nothing is expected behind the hosts, but there is the path /{path}")
    nodes = tuple(split_address(address) for address in hosts.split(","))
    return Parts(SCHEMES[scheme], user, password, nodes, split_query(query))


def split_credentials(credentials: str) -> tuple[str | None, str]:
    """User and password; what stands alone is the password."""
    user, colon, password = credentials.partition(":")
    return (unquote(user) or None, unquote(password)) if colon else (None, unquote(user))


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[ipv6]` or `[ipv6]:port`. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"Invalid URL: host {address!r}: an IPv6 address stands in brackets, as in [::1]:7711")
    if not HOST.fullmatch(host):
        raise ValueError(f"Invalid URL: host {host!r} in {address!r}: a name or an address is expected")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"Invalid URL: port {port!r} of host {host}: a number from 1 to 65535 is expected")
    return host, int(port)


def split_query(query: str) -> list[tuple[str, str]]:
    """Names and values of the query. Raises ValueError."""
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ValueError(f"Invalid URL: query {query!r}: name=value&name=value is expected") from None


def option(name: str, text: str, kinds: Mapping[str, str]) -> object:
    """The value of an option of the query; ``kinds`` has the type of each as written. Raises ValueError."""
    kind = kinds.get(name)
    if kind is None:
        near = get_close_matches(name, kinds, 1)
        advice = f", did you mean {near[0]}?" if near else f"; there are {', '.join(kinds)}"
        raise ValueError(f"Invalid URL: unknown option {name!r}{advice}")
    if "bool" in kind:
        if text.lower() not in YES_NO:
            raise ValueError(f"Invalid URL: option {name}: yes or no is expected, not {text!r}")
        return YES_NO[text.lower()]
    if "int" in kind:
        return whole(name, text)
    return tuple(text.split(",")) if "tuple" in kind else text


def whole(name: str, text: str) -> int:
    """A whole number. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"Invalid URL: option {name}: a whole number is expected, not {text!r}") from None
