"""From options to a client of the cluster."""

import os
from dataclasses import replace

from disque.client import Config, Disque
from disque.spark.options import Options, addresses, from_environment

#: Name of the connections in CLIENT LIST.
CLIENT_NAME = "disque-spark"


def config_of(options: Options) -> Config:
    """The settings of a client. The environment of this process is looked at. Raises OptionError."""
    filled = from_environment(options)
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


def connect(options: Options) -> Disque:
    """A client that begins with one of the hosts and knows the others. Nothing is connected yet."""
    return Disque(config_of(options))


def alone(config: Config, address: tuple[str, int]) -> Config:
    """Settings of a client that asks one node, and no other."""
    return replace(config, nodes=(address,), discover=False, attempts=2)


def impatient(config: Config, most_ms: int) -> Config:
    """Settings of a client that asks once and waits no longer than that."""
    connect_ms = min(config.connect_timeout_ms, most_ms)
    return replace(config, timeout_ms=min(config.timeout_ms, most_ms), connect_timeout_ms=connect_ms, attempts=1)
