"""Metrics of all nodes as one text: what each answers to METRICS, with its address as a label."""

import asyncio
from collections.abc import Iterable
from typing import Final

from disque.client import AsyncDisque, DisqueError
from disque.client.replies import text
from disque.gateway.cluster import Cluster

#: Queues that each node tells of.
QUEUES: Final = 1000
#: Seconds after which a node that does not answer is left out.
PATIENCE_S: Final = 5.0


async def nodes(cluster: Cluster) -> str:
    """The metrics of all nodes, and which of them have answered. Raises DisqueError if none can be asked."""

    async def ask(client: AsyncDisque) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return text(await client.execute_command("METRICS", "COUNT", QUEUES))
        except TimeoutError:
            raise DisqueError("it took too long") from None

    answers = await cluster.at_each(ask)
    for _, answer in answers:
        if isinstance(answer, DisqueError) and answer.code in {"NOAUTH", "NOPERM"}:
            raise answer
    told = [(f"{node.host}:{node.port}", answer) for node, answer in answers if isinstance(answer, str)]
    up = [
        "# HELP disque_node_up Whether a node has answered the gateway.",
        "# TYPE disque_node_up gauge",
        *[f'disque_node_up{{node="{node.host}:{node.port}"}} {isinstance(answer, str):d}' for node, answer in answers],
    ]
    return "\n".join([*up, *merged(told)]) + "\n"


def merged(told: Iterable[tuple[str, str]]) -> list[str]:
    """Texts of several nodes as one: each family once, each sample with its node."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for node, answer in told:
        family = ""
        for line in answer.splitlines():
            if line.startswith("# "):
                _, kind, family, *_ = line.split(" ", 3)
                known = heads.setdefault(family, [])
                if not any(one.startswith(f"# {kind} ") for one in known):
                    known.append(line)
            elif line:
                samples.setdefault(family, []).append(labelled(line, node))
    return [line for family, head in heads.items() for line in (*head, *samples.get(family, ()))]


def labelled(line: str, node: str) -> str:
    """A sample with one label more."""
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{node="{node}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{node="{node}"}} {value}'
