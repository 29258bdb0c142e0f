"""RabbitMQ for `tests.speed.brokers`: a quorum queue of three members on three nodes.

The nodes have an epmd of their own, all ports of their own on loopback, and all files below one folder: a RabbitMQ that
the system runs is not touched. They find each other by their configuration, so `rabbitmqctl` need not join them.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.end_to_end.node import LOOPBACK, SLOW_POLL_S, until
from tests.speed.broker import AT_ONCE, BODY, NODES, QUEUE, Driver, distinct_ports, lacking, run

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
    from pamqp.common import FieldValue

#: Debian's programs in PATH change the user and lose the environment; these are what they call.
PATH: Final = os.pathsep.join(["/usr/lib/rabbitmq/bin", os.environ.get("PATH", os.defpath)])
#: Three Erlang machines that start at once on few cores take half a minute.
START_S: Final = 180.0
CONF: Final = """\
cluster_formation.peer_discovery_backend = classic_config
log.file.level = warning
"""
QUORUM: "Final[dict[str, FieldValue]]" = {"x-queue-type": "quorum", "x-quorum-initial-group-size": NODES}


class Running(NamedTuple):
    """Three nodes: their process IDs, where clients connect, and what the programs of RabbitMQ need around them."""

    pids: list[int]
    ports: list[int]
    environment: dict[str, str]


def absent() -> list[str]:
    """What it needs and is not installed."""
    return lacking(["epmd", "rabbitmq-server", "rabbitmqctl"], "aio_pika", PATH)


def program(name: str) -> str:
    """Its full path."""
    found = shutil.which(name, path=PATH)
    assert found is not None, name
    return found


def node_name(number: int) -> str:
    return f"bench{number}@localhost"


def around(folder: Path, epmd_port: int, ctl_port: int) -> dict[str, str]:
    """The environment of all programs, and the files that it names."""
    cookie, plugins, conf = folder / ".erlang.cookie", folder / "enabled_plugins", folder / "rabbitmq.conf"
    cookie.write_text(os.urandom(16).hex())
    cookie.chmod(0o400)
    plugins.write_text("[].\n")
    nodes = [f"cluster_formation.classic_config.nodes.{number + 1} = {node_name(number)}\n" for number in range(NODES)]
    conf.write_text(CONF + "".join(nodes))
    return {
        **{key: word for key, word in os.environ.items() if not key.startswith(("RABBITMQ_", "ERL_"))},
        "HOME": str(folder),  # where the cookie is
        "ERL_CRASH_DUMP": str(folder / "erl_crash.dump"),  # not where this was started
        "HOSTNAME": "localhost",
        "ERL_EPMD_ADDRESS": LOOPBACK,
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_ALLOW_INPUT": "true",  # so the script becomes the node, and signals reach it
        "RABBITMQ_CONFIG_FILE": str(conf),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CTL_DIST_PORT_MIN": str(ctl_port),
        "RABBITMQ_CTL_DIST_PORT_MAX": str(ctl_port),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
    }


def start(stack: ExitStack, folder: Path) -> Running:
    """Three nodes that make a cluster and listen. Raises RuntimeError when one of them ends instead."""
    epmd_port, ctl_port, *ports = distinct_ports(2 + 2 * NODES)
    environment = around(folder, epmd_port, ctl_port)
    # Else the first node would start it, and it would stay.
    run(stack, ["epmd", "-port", str(epmd_port), "-address", LOOPBACK], folder / "epmd.log", environment)
    until(lambda: listens(epmd_port), "epmd", SLOW_POLL_S)
    clients, between = ports[:NODES], ports[NODES:]
    processes = []
    for number in range(NODES):
        own = {
            "RABBITMQ_NODENAME": node_name(number),
            "RABBITMQ_NODE_PORT": str(clients[number]),
            "RABBITMQ_DIST_PORT": str(between[number]),
        }
        log = folder / f"start{number}.log"
        processes.append(run(stack, [program("rabbitmq-server")], log, environment | own))

    def all_listen() -> bool:
        for number, process in enumerate(processes):
            if process.poll() is not None:
                raise RuntimeError(f"RabbitMQ has ended:\n{(folder / f'start{number}.log').read_text()}")
        return all(map(listens, clients))

    until(all_listen, "RabbitMQ", 0.5, START_S)
    return Running([process.pid for process in processes], clients, environment)


def listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection((LOOPBACK, port))):
        return True
    return False


def members(running: Running) -> list[str]:
    """The nodes that have copies of the queue."""
    words = ["-n", node_name(0), "list_queues", "--silent", "--formatter", "json", "members"]
    done = subprocess.run([program("rabbitmqctl"), *words], env=running.environment, capture_output=True, check=True)
    [row] = json.loads(done.stdout)
    found: list[str] = row["members"]
    return found


async def drivers(stack: ExitStack, folder: Path) -> AsyncGenerator[Driver, None]:
    """Jobs acknowledged one by one, and a hundred at a time. RabbitMQ does not confirm acknowledgements."""
    import aio_pika  # noqa: PLC0415 - the program says what is missing first

    running = start(stack, folder)
    async with await aio_pika.connect(f"amqp://guest:guest@{LOOPBACK}:{running.ports[0]}/") as connection:
        assert connection.transport is not None
        version = connection.transport.connection.server_properties["version"]
        assert isinstance(version, str)
        for how, multiple in (("acks one by one", False), ("acks by the hundred", True)):
            async with connection.channel() as channel:
                yield await quorum_queue(channel, f"RabbitMQ {version}, {how}", running, multiple=multiple)


async def quorum_queue(channel: "AbstractChannel", name: str, running: Running, *, multiple: bool) -> Driver:
    """Make the queue if it is not there, on a channel with confirms.

    Raises RuntimeError when it has not a copy on each node.
    """
    from aio_pika import DeliveryMode, Message  # noqa: PLC0415 - the program says what is missing first

    await channel.set_qos(prefetch_count=AT_ONCE)
    queue = await channel.declare_queue(QUEUE, durable=True, arguments=QUORUM)
    if len(found := members(running)) != NODES:
        raise RuntimeError(f"the quorum queue has its copies on {found}")
    inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    consumers: list[str] = []

    async def add(count: int) -> None:
        messages = [Message(BODY, delivery_mode=DeliveryMode.PERSISTENT) for _ in range(count)]
        await asyncio.gather(*[channel.default_exchange.publish(message, QUEUE) for message in messages])

    async def take(count: int) -> None:
        if not consumers:
            consumers.append(await queue.consume(inbox.put))
        for left in reversed(range(count)):
            message = await inbox.get()
            if not multiple:
                await message.ack()
            elif not left:
                await message.ack(multiple=True)

    return Driver(name, running.pids, add, take)
