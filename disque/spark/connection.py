"""From options to a client of the cluster."""

import os
import socket
from dataclasses import replace
from pathlib import Path

from disque.client import Config, Disque, DisqueError
from disque.spark.commits import LOG
from disque.spark.options import OptionError, Options, addresses, from_environment

#: Name of the connections in CLIENT LIST.
CLIENT_NAME = "disque-spark"


def config_of(options: Options) -> Config:
    """The settings of a client. The environment of this process is looked at. Raises OptionError."""
    filled = from_environment(options)
    check_files(filled)
    return Config(
        nodes=addresses(filled.hosts),
        user=filled.user,
        password=filled.password,
        tls=filled.tls,
        ca=filled.ca,
        cert=filled.cert,
        key=filled.key,
        timeout_ms=filled.timeout_ms,
        client_name=f"{CLIENT_NAME}-{os.getpid()}",
    )


def check_files(options: Options) -> None:
    """Raise OptionError for a file that is not on this machine, with its whole path."""
    for name in ("ca", "cert", "key"):
        given = getattr(options, name)
        if given and not Path(given).is_file():
            path = Path(given).absolute()
            raise OptionError(f"option {name!r}: there is no file {path} on {socket.gethostname()}, where it is needed")


def connect(options: Options) -> Disque:
    """A client that begins with one of the hosts and knows the others. Nothing is connected yet."""
    return Disque(config_of(options))


def warn_of_password(config: Config) -> None:
    """Say so if a password is given and no node wants one: whoever gave it may be at the wrong nodes."""
    if config.password is None:
        return
    with Disque(replace(config, user=None, password=None, attempts=1)) as stranger:
        try:
            stranger.execute_command("HELLO")
        except DisqueError:
            return
    LOG.warning("a password is given, but the nodes ask for none: set requirepass there, or see the option 'hosts'")


def alone(config: Config, address: tuple[str, int]) -> Config:
    """Settings of a client that asks one node, and no other."""
    return replace(config, nodes=(address,), discover=False, attempts=2)


def impatient(config: Config, most_ms: int) -> Config:
    """Settings of a client that asks once and waits no longer than that."""
    connect_ms = min(config.connect_timeout_ms, most_ms)
    return replace(config, timeout_ms=min(config.timeout_ms, most_ms), connect_timeout_ms=connect_ms, attempts=1)
