"""What a gateway is told on its command line: where nodes are, where it listens, which files have its secrets."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from disque.client import Config
from disque.client.url import split_address
from disque.gateway.options import PASSWORD_VARIABLE, PORT, new_parser

#: Bytes of a secret that signs sessions.
SECRET_LEAST: Final = 16

#: How often a request is sent, though at least once to each node: clients of HTTP try again by themselves.
ATTEMPTS: Final = 2

Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a gateway runs.

    - ``nodes``, ``user``, ``password``, ``cluster_tls``, ``cluster_ca``, ``cluster_cert``, ``cluster_key``: how it
      reaches the cluster, and as whom.
    - ``listen``: where clients come in. ``admin_listen``: where lmstfy's admin routes are; None: nowhere.
    - ``hosts``: names by which browsers may come where nodes want no password.
    - ``cert``, ``key``: files for TLS at both.
    - ``secret``: encrypts sessions; gateways that share it share sessions. Without one, sessions end with the process.
    - ``tokens``: the file with lmstfy's tokens and limits; None: they are users of the cluster, encrypted with the
      secret, or without one in memory. ``accounts``: users and passwords for the admin routes.
    - ``open_size``: whether sizes of lmstfy's queues are told without a token, as lmstfy does.
    - ``metrics_compat``: whether `/metrics` also has the names of lmstfy and asynq.
    - ``connections_most``: HTTP connections at one time. ``grace_s``: how long requests may last when it stops.
    """

    nodes: tuple[Address, ...] = (("127.0.0.1", 7711),)
    listen: Address = ("127.0.0.1", PORT)
    admin_listen: Address | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    cluster_tls: bool = False
    cluster_ca: str | None = None
    cluster_cert: str | None = None
    cluster_key: str | None = None
    cert: str | None = None
    key: str | None = None
    hosts: frozenset[str] = frozenset()
    secret: bytes = field(default=b"", repr=False)
    tokens: Path | None = None
    accounts: Mapping[str, str] = field(default_factory=dict, repr=False)
    open_size: bool = False
    metrics_compat: bool = False
    access_log: bool = False
    connections_most: int = 20_000
    grace_s: int = 10

    def cluster(self) -> Config:
        """How `disque.client` reaches the cluster."""
        return Config(
            nodes=self.nodes,
            user=self.user,
            password=self.password,
            tls=self.cluster_tls,
            ca=self.cluster_ca,
            cert=self.cluster_cert,
            key=self.cluster_key,
            client_name="gateway",
            attempts=ATTEMPTS,
        )

    @property
    def scheme(self) -> str:
        """How clients of this gateway call."""
        return "https" if self.cert else "http"


class BadSettingError(Exception):
    """The command line, or a file that it names, makes no sense; the message says what and why."""


def parse(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the command line. Raises BadSettingError, and SystemExit as argparse does."""
    given = new_parser().parse_args(words)
    if bool(given.tls_cert) != bool(given.tls_key):
        raise BadSettingError("--tls-cert and --tls-key belong together")
    if bool(given.cluster_cert) != bool(given.cluster_key):
        raise BadSettingError("--cluster-cert and --cluster-key belong together")
    if given.max_connections < 1 or given.grace < 0:
        raise BadSettingError("--max-connections must be above 0, and --grace not below")
    password = environment.get(PASSWORD_VARIABLE)
    return Settings(
        nodes=tuple(address("--nodes", word) for word in given.nodes.split(",")),
        listen=own_address("--listen", given.listen),
        admin_listen=own_address("--admin-listen", given.admin_listen) if given.admin_listen else None,
        user=given.user,
        password=text_of(given.password_file).strip() if given.password_file else password,
        cluster_tls=given.cluster_tls or bool(given.cluster_ca or given.cluster_cert),
        cluster_ca=given.cluster_ca,
        cluster_cert=given.cluster_cert,
        cluster_key=given.cluster_key,
        cert=given.tls_cert,
        key=given.tls_key,
        hosts=frozenset(filter(None, (word.strip().lower() for word in given.hosts.split(",")))),
        secret=secret_of(given.secret_file) if given.secret_file else b"",
        tokens=given.tokens_file,
        accounts=accounts_of(given.accounts_file) if given.accounts_file else {},
        open_size=given.lmstfy_open_size,
        metrics_compat=given.metrics_compat,
        access_log=given.access_log,
        connections_most=given.max_connections,
        grace_s=given.grace,
    )


def address(option: str, word: str) -> Address:
    """Host and port. Raises BadSettingError."""
    try:
        return split_address(word.strip())
    except ValueError as error:
        raise BadSettingError(f"{option}: {str(error).removeprefix('Invalid URL: ')}") from None


def own_address(option: str, word: str) -> Address:
    """Host and port where the gateway listens; the port must be there. Raises BadSettingError."""
    _host, colon, port = word.strip().rpartition(":")
    if not colon or not port or port.endswith("]"):
        raise BadSettingError(f"{option}: {word!r} has no port; write it as in 127.0.0.1:{PORT}")
    return address(option, word)


def text_of(path: Path) -> str:
    """What is in a file. Raises BadSettingError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettingError(f"{path} cannot be read: {error}") from None


def secret_of(path: Path) -> bytes:
    """The secret in a file. Raises BadSettingError."""
    secret = text_of(path).strip().encode()
    if len(secret) < SECRET_LEAST:
        raise BadSettingError(f"{path}: a secret has at least {SECRET_LEAST} characters, such as openssl rand -hex 32")
    return secret


def accounts_of(path: Path) -> dict[str, str]:
    """Users and passwords, a line each. Raises BadSettingError."""
    accounts: dict[str, str] = {}
    for number, line in enumerate(text_of(path).splitlines(), 1):
        user, colon, password = line.strip().partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not (colon and user and password):
            raise BadSettingError(f"{path}, line {number}: user:password is expected")
        accounts[user] = password
    return accounts
