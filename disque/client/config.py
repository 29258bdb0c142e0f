"""The configuration of a client: addresses of nodes, credentials, time limits. Picklable and hashable."""

import re
from dataclasses import dataclass, field, fields
from typing import Final, Self

from disque.client import url as urls

Address = tuple[str, int]

ORDERS: Final = ("random", "given")
#: What nodes take as the name of a client: with another one they refuse each connection.
CLIENT_NAME: Final = re.compile(r"[!-~]{0,1024}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a client.

    - ``nodes``: (host, port) of the nodes to begin with. One is enough while it is up: it tells of the others.
    - ``user``, ``password``: who logs in; without a user the server's only one.
    - ``tls``, ``ca``, ``cert``, ``key``, ``verify``: TLS; a file with the authorities to trust (default: the system's),
      certificate and key of the client, and whether the server's certificate is checked.
    - ``timeout_ms``: how long an answer may take, beyond what the server was told to wait; also the default for the
      time that ADDJOB waits for its copies. ``connect_timeout_ms``: how long a connection may take.
    - ``attempts``: how often a request is sent before `UnavailableError`, though at least once to each node; between
      rounds it pauses ``backoff_ms``, doubled each time up to ``backoff_max_ms``, less a random part.
    - ``also_retry``: codes of errors that lead to another attempt, such as "NOREPL", "PAUSED", "OOM". LEAVING, LOADING,
      MISCONF and DENIED always do.
    - ``cooldown_ms``: how long a node that failed is only asked when there is no other.
    - ``discover``: whether nodes are learnt from HELLO. ``order``: whether a client begins with a "random" node, which
      spreads clients, or with the first as "given".
    - ``affinity``: whether a consumer moves to the node where most of its jobs were made.
    - ``protocol``: RESP 2 or 3. ``client_name``: shown in CLIENT LIST.

    Raises ValueError for values that make no sense.
    """

    nodes: tuple[Address, ...] = (("127.0.0.1", urls.DEFAULT_PORT),)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True
    timeout_ms: int = 3000
    connect_timeout_ms: int = 2000
    attempts: int = 6
    backoff_ms: int = 100
    backoff_max_ms: int = 2000
    also_retry: tuple[str, ...] = ()
    cooldown_ms: int = 5000
    discover: bool = True
    order: str = "random"
    affinity: bool = False
    protocol: int = 3
    client_name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple((host, port) for host, port in self.nodes))
        object.__setattr__(self, "also_retry", tuple(self.also_retry))
        for wrong in (self._wrong_nodes(), self._wrong_numbers(), self._wrong_words()):
            if wrong:
                raise ValueError(wrong)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read `disque://user:password@host:port,host:port?name=value&...`; `disques://` means TLS.

        Names of the query are the fields above, yes and no stand for true and false, commas part the words of
        ``also_retry``. User and password are percent-decoded; a password may stand alone. Raises ValueError that names
        the part that is wrong and never shows the password.
        """
        parts = urls.split(url)
        words: dict[str, object] = {"nodes": parts.nodes, "tls": parts.tls}
        words |= {"user": parts.user, "password": parts.password}
        kinds = {one.name: str(one.type) for one in fields(cls) if one.name not in words}
        for name, text in parts.query:
            words[name] = urls.option(name, text, kinds)
        try:
            return cls(**words)  # type: ignore[arg-type]  # each was made of the type of its field
        except ValueError as error:
            raise ValueError(f"Invalid URL: {error}") from None

    def _wrong_nodes(self) -> str:
        if not self.nodes:
            return "no node is given"
        for host, port in self.nodes:
            if not host:
                return "a host is empty"
            if not 0 < port < 65536:
                return f"port {port} of host {host}: a number from 1 to 65535 is expected"
        return ""

    def _wrong_numbers(self) -> str:
        for name in ("timeout_ms", "connect_timeout_ms", "attempts"):
            if getattr(self, name) <= 0:
                return f"{name} must be above 0, not {getattr(self, name)}"
        for name in ("backoff_ms", "backoff_max_ms", "cooldown_ms"):
            if getattr(self, name) < 0:
                return f"{name} must not be negative"
        return ""

    def _wrong_words(self) -> str:
        if self.protocol not in {2, 3}:
            return f"protocol must be 2 or 3, not {self.protocol}"
        if self.order not in ORDERS:
            return f"order must be one of {', '.join(ORDERS)}, not {self.order!r}"
        if self.client_name is not None and not CLIENT_NAME.fullmatch(self.client_name):
            return f"client_name must be up to 1024 characters of ASCII without spaces, not {self.client_name!r}"
        if not self.tls and (self.ca or self.cert or self.key):
            return "ca, cert and key need TLS: disques://, or tls=True"
        return ""

    def __repr__(self) -> str:
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.name != "password"]
        return f"Config({', '.join(shown)}{', password=***' if self.password else ''})"
