"""What a kombu connection says, as the configuration of a client and as options of the transport.

Addresses, user, password and TLS come from the URLs; all else from `broker_transport_options`.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kombu.utils.url import parse_url

from disque.client import Config
from disque.client.config import Address
from disque.client.url import DEFAULT_PORT

#: The scheme of each URL, and whether it means TLS.
SCHEMES: Final = {"disque": False, "disques": True}
#: Longer than anybody waits, in seconds: brokers keep a message until somebody takes it.
FOREVER_S: Final = 2**32 - 1
#: Options of the transport that Redis' has, too, or that are this one's, in seconds: name, default.
LEASE_S: Final = 60.0
TRANSIENT_S: Final = 86_400
#: Requests are sent so often before kombu hears of it, which has a policy of its own.
ATTEMPTS: Final = 2
#: Names that Redis' transport and AMQP have for the parts of TLS, without "ssl_" at their beginning.
TLS: Final = {"ca_certs": "ca", "certfile": "cert", "keyfile": "key"}
#: What job options may be said in `job_options`: what a message says itself is not among them.
JOB_OPTIONS: Final = frozenset({"backoff", "deadletter", "maxlen", "replicate", "retain", "retry", "tries"})


@dataclass(frozen=True)
class Options:
    """Options of the transport.

    - ``lease_s``: how long a message stays with a consumer that says nothing more, in seconds. It is renewed meanwhile.
    - ``ttl_s``, ``transient_ttl_s``: how long messages live, and those whose delivery mode is transient.
    - ``prefix``: before the names of all queues and exchanges.
    - ``order``: in which order queues are asked: round_robin, sorted or priority.
    - ``job``: options that all messages get as jobs, such as tries and backoff.
    """

    lease_s: float = LEASE_S
    ttl_s: float = FOREVER_S
    transient_ttl_s: float = TRANSIENT_S
    prefix: str = ""
    order: str = "round_robin"
    job: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Any) -> Self:
        """Those of a kombu connection. Raises ValueError."""
        given: Mapping[str, Any] = connection.transport_options or {}
        lease_s = given.get("lease", min(LEASE_S, given.get("visibility_timeout", LEASE_S)))
        if not lease_s > 0:
            raise ValueError(f"lease must be above 0 seconds, not {lease_s!r}")
        job = dict(given.get("job_options", {}))
        wrong = sorted(job.keys() - JOB_OPTIONS)
        if wrong:
            raise ValueError(f"unknown job_options: {', '.join(wrong)}; there are {', '.join(sorted(JOB_OPTIONS))}")
        return cls(
            lease_s=float(lease_s),
            ttl_s=given.get("ttl", FOREVER_S),
            transient_ttl_s=given.get("transient_ttl", TRANSIENT_S),
            prefix=given.get("global_keyprefix", "") + namespace(connection.virtual_host),
            order=given.get("queue_order_strategy", "round_robin"),
            job=job,
        )


def namespace(virtual_host: str | None) -> str:
    """What a virtual host puts before names."""
    name = (virtual_host or "").strip("/")
    return f"{name}/" if name else ""


def config_of(connection: Any, *, is_tls: bool = False) -> Config:
    """The configuration of a client for a kombu connection: the node in use first, then the alternates.

    ``is_tls`` says that the transport itself stands for TLS.
    """
    parts = [connection_parts(connection), *alternates(connection)]
    nodes = dict.fromkeys(address_of(part) for part in parts)
    login = next((part for part in parts if part.get("password")), {})
    options = connection.transport_options or {}
    timeout_s = options.get("socket_timeout") or 3
    connect_s = options.get("socket_connect_timeout") or connection.connect_timeout or 5
    return Config(
        nodes=tuple(nodes),
        user=login.get("userid"),
        password=said(login.get("password")),
        order="given",
        attempts=ATTEMPTS,
        timeout_ms=max(1, round(timeout_s * 1000)),
        connect_timeout_ms=max(1, round(connect_s * 1000)),
        client_name=options.get("client_name"),
        **tls(connection, parts, is_tls=is_tls),
    )


def connection_parts(connection: Any) -> dict[str, Any]:
    """Where the connection is, as `parse_url` has it."""
    names = ("hostname", "port", "userid", "password")
    return {name: getattr(connection, name) for name in names} | {"transport": connection.transport_cls}


def alternates(connection: Any) -> Iterator[dict[str, Any]]:
    """The URLs that kombu changes to, taken apart; a name of a host may stand alone."""
    for url in connection.alt or ():
        parts = parse_url(url) if "://" in url else {"hostname": url}
        if parts.get("transport", "disque") in SCHEMES:
            yield parts


def address_of(parts: Mapping[str, Any]) -> Address:
    """Host and port."""
    return parts.get("hostname") or "localhost", parts.get("port") or DEFAULT_PORT


def said(password: Any) -> str | None:
    """A password, which may be a function."""
    found: str | None = password() if callable(password) else password
    return found


def tls(connection: Any, parts: list[dict[str, Any]], *, is_tls: bool) -> dict[str, Any]:
    """The part of the configuration about TLS: from `disques://`, `?ssl=true`, `broker_use_ssl`, or the transport.

    Certificates of nodes are checked unless that is switched off by name. Raises ValueError.
    """
    given = connection.ssl
    if isinstance(given, str):
        given = given.lower() not in {"", "0", "no", "false", "off"}
    if not given and not is_tls and not any(SCHEMES.get(part.get("transport", ""), False) for part in parts):
        return {}
    words = {name.removeprefix("ssl_"): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    required = words.pop("cert_reqs", ssl.CERT_REQUIRED)
    checked = words.pop("check_hostname", True)
    wrong = sorted(words.keys() - TLS)
    if wrong:
        raise ValueError(f"unknown options of TLS: {', '.join(wrong)}; there are {', '.join(TLS)} and cert_reqs")
    verify = bool(checked) and required not in {ssl.CERT_NONE, "none", "CERT_NONE"}
    return {"tls": True, "verify": verify} | {TLS[name]: value for name, value in words.items()}
