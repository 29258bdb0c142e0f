"""Operations on nodes, and the figures that scale consumers."""

from typing import Any, Final

from disque import VERSION
from disque.client import AsyncDisque, DisqueError, NodeInfo
from disque.gateway import figures
from disque.gateway.rest.operation import Ask, Operation, Result, unknown
from disque.gateway.rest.schema import integer, number, record, string

STATES: Final = ((5, "up"), (10, "no link"), (100, "may have failed"))


def state_of(node: NodeInfo) -> str:
    """The state of a node in words, as HELLO tells it by its priority."""
    return next((state for below, state in STATES if node.priority < below), "failed or leaving")


def shown(node: NodeInfo) -> dict[str, object]:
    """A node as JSON has it."""
    return {"id": node.id, "host": node.host, "port": node.port, "state": state_of(node)}


async def info_of(client: AsyncDisque) -> dict[str, Any]:
    """INFO of a node."""
    return await client.info()


async def list_nodes(ask: Ask) -> Result:
    """GET /nodes."""
    answers = await ask.cluster.at_each(info_of)
    wanted = ("disque_version", "uptime_in_seconds", "used_memory", "maxmemory", "registered_jobs", "registered_queues")
    rows = []
    for node, answer in answers:
        error = str(answer) if isinstance(answer, DisqueError) else None
        figures = answer if isinstance(answer, dict) else {}
        rows.append({**shown(node), **{name: figures.get(name) for name in wanted}, "error": error})
    return Result({"nodes": rows})


async def get(ask: Ask) -> Result:
    """GET /nodes/{id}: its INFO."""
    for node in await ask.cluster.nodes():
        if node.id == ask.path[0]:
            return Result({**shown(node), "info": await ask.cluster.ask_at(node, info_of)})
    raise unknown("there is no node with this ID")


async def scaling(ask: Ask) -> Result:
    """GET /scaling/{queue}: backlog and latency, in the form of KEDA's metrics-api scaler."""
    found = await figures.of_queue(ask.cluster, ask.path[0]) or {}
    queued, flying = (one if isinstance(one := found.get(name), int) else 0 for name in ("len", "in_flight"))
    oldest_ms = found.get("oldest_ms")
    latency_s = oldest_ms / 1000 if isinstance(oldest_ms, int) and queued else 0
    numbers = {"backlog": queued, "in_flight": flying, "work": queued + flying, "latency_seconds": latency_s}
    return Result({"queue": ask.path[0], **numbers})


async def index(ask: Ask) -> Result:
    """GET /: what this is."""
    del ask
    return Result({"name": "disque", "version": VERSION, "openapi": "/api/v1/openapi.json", "docs": "/api"})


OPERATIONS: Final = (
    Operation("GET", "", index, "What this is"),
    Operation("GET", "/nodes", list_nodes, "The nodes of the cluster"),
    Operation("GET", "/nodes/{id}", get, "All figures of a node"),
    Operation(
        "GET",
        "/scaling/{queue}",
        scaling,
        "Backlog and latency of a queue, for KEDA's metrics-api scaler",
        wants=record(
            {
                "queue": string(),
                "backlog": integer("jobs that wait"),
                "in_flight": integer("jobs that consumers have"),
                "work": integer("both together"),
                "latency_seconds": number("for how long the oldest job has waited"),
            }
        ),
    ),
)
