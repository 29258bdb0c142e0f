"""Operations on queues: lists, figures, options, pauses, and what is done with all their jobs."""

from typing import Any, Final

from disque.client import AsyncDisque, DisqueError
from disque.gateway import figures
from disque.gateway.rest import cursors
from disque.gateway.rest.operation import CURSOR, LIMIT, NEXT, Ask, Operation, Result, bad, page, unknown
from disque.gateway.rest.schema import Schema, array, boolean, filled, integer, record, string
from disque.gateway.rest.shapes import JOB, QUEUE, REVIVED, SWEPT, shown_job

#: Queues whose figures one page has.
FIGURES_MOST: Final = 100
STATES: Final = [
    *("queued", "delayed", "in-flight", "active", "wait-repl", "acked"),
    *("done", "dead", "cancelled", "expired"),
]
PAUSES: Final = ["none", "in", "out", "all"]
OPTIONS: Final = [
    *("ttl", "retry", "replicate", "tries", "backoff", "priority", "retain", "deadletter", "dead-ttl", "maxlen"),
    "overflow",
]
QUEUE_OPTIONS: Final = filled(record({name: string() for name in OPTIONS}))
BOUND: Final[Schema] = record({"count": integer("only so many, the oldest", 1)})


async def list_queues(ask: Ask) -> Result:
    """GET /queues."""
    query = ask.query
    names = await ask.cluster.queue_names()
    after = cursors.read(query["cursor"]) if query.get("cursor") else ""
    if not isinstance(after, str):
        raise bad("this is no cursor of this list")
    prefix, suffix, part = query.get("prefix", ""), query.get("suffix", ""), query.get("contains", "")
    limit = min(query["limit"], FIGURES_MOST) if query.get("figures") else query["limit"]
    fitting = [
        name for name in names if name > after and name.startswith(prefix) and name.endswith(suffix) and part in name
    ]
    shown = fitting[:limit]
    more = cursors.written(shown[-1]) if len(fitting) > limit else None
    if not query.get("figures"):
        return page([{"name": name} for name in shown], more, "queues")
    return page(await figures.of_queues(ask.cluster, shown), more, "queues")


async def get_queue(ask: Ask) -> Result:
    """GET /queues/{queue}."""
    found = await figures.of_queue(ask.cluster, ask.path[0])
    if found is None:
        raise unknown("no node has a queue of this name")
    return Result({**found, "name": ask.path[0]})


async def history(ask: Ask) -> Result:
    """GET /queues/{queue}/history."""
    found = await figures.history(ask.cluster, ask.path[0], ask.query["unit"])
    if found is None:
        raise unknown("no node has a history of this queue")
    return Result(found)


async def list_jobs(ask: Ask) -> Result:
    """GET /queues/{queue}/jobs: a walk through the jobs of all nodes."""
    states = tuple(ask.query.get("state") or ())
    if not set(states) <= set(STATES):
        raise bad(f"'state' must be of {', '.join(STATES)}")
    limit = ask.query["limit"]

    async def step(client: AsyncDisque, at: int) -> tuple[int, list[Any]]:
        return await client.scan_job_infos(at, count=limit, queue=ask.path[0], states=states)

    found, more = await cursors.page(ask.cluster, ask.query.get("cursor", ""), limit, step)
    return page([{**shown_job(info), "node": node.id} for node, info in found], more, "jobs")


async def peek(ask: Ask) -> Result:
    """GET /queues/{queue}/peek: the next jobs at each node."""
    limit = ask.query["limit"]
    answers = await ask.cluster.at_each(lambda client: client.peek(ask.path[0], limit))
    found = []
    for node, answer in answers:
        if isinstance(answer, DisqueError):
            continue
        found += [{"id": job.id, "node": node.id, "queue": job.queue, "body": job.body} for job in answer]
    return page([shown_job(one) for one in found], None, "jobs")  # type: ignore[arg-type]  # as SHOW has them


async def flush(ask: Ask) -> Result:
    """DELETE /queues/{queue}/jobs."""
    swept = await ask.cluster.client.flush_queue(ask.path[0], count=ask.query.get("count"))
    return Result({"count": swept.jobs, "unreachable": swept.unreachable})


async def move(ask: Ask) -> Result:
    """POST /queues/{queue}/move."""
    swept = await ask.cluster.client.move_queue(ask.path[0], ask.body["to"], count=ask.body.get("count"))
    return Result({"count": swept.jobs, "unreachable": swept.unreachable})


async def revive(ask: Ask) -> Result:
    """POST /queues/{queue}/revive."""
    swept = await ask.cluster.client.revive_queue(ask.path[0], count=(ask.body or {}).get("count"))
    shown = {"count": swept.jobs, "unreachable": swept.unreachable, "without_origin": swept.without_origin}
    return Result(shown)


async def get_pause(ask: Ask) -> Result:
    """GET /queues/{queue}/pause."""
    return Result({"pause": await ask.cluster.client.pause(ask.path[0])})


async def set_pause(ask: Ask) -> Result:
    """PUT /queues/{queue}/pause: at all nodes."""
    return Result({"pause": await ask.cluster.client.pause(ask.path[0], ask.body["pause"], "bcast")})


async def get_options(ask: Ask) -> Result:
    """GET /queues/{queue}/options."""
    found = await ask.cluster.client.queue_options(ask.path[0])
    return Result({name: {"value": value, "from": source} for name, (value, source) in found.items()})


async def set_options(ask: Ask) -> Result:
    """PATCH /queues/{queue}/options."""
    if not ask.body:
        raise bad("no option is given")
    await ask.cluster.client.set_queue_options(ask.path[0], **ask.body)
    return await get_options(ask)


async def unset_options(ask: Ask) -> Result:
    """DELETE /queues/{queue}/options."""
    return Result({"count": await ask.cluster.client.unset_queue_options(ask.path[0], *ask.query.get("name", ()))})


PAUSE: Final = record({"pause": string("what is paused", enum=PAUSES)}, "pause")
LIST: Final = {"cursor": CURSOR, "limit": LIMIT}
OPERATIONS: Final = (
    Operation(
        "GET",
        "/queues",
        list_queues,
        "Queues by name",
        {
            **LIST,
            "prefix": string("only names that begin so"),
            "suffix": string("only names that end so"),
            "contains": string("only names that have this in them"),
            "figures": boolean(f"with figures of each; at most {FIGURES_MOST}", default=False),
        },
        wants=record({"queues": array(QUEUE), "next": NEXT}),
    ),
    Operation("GET", "/queues/{queue}", get_queue, "Figures of a queue", wants=QUEUE),
    Operation(
        "GET",
        "/queues/{queue}/history",
        history,
        "What happened in the last minutes, hours or days",
        {"unit": string("how long the times are", enum=["minute", "hour", "day"], default="minute")},
    ),
    Operation(
        "GET",
        "/queues/{queue}/jobs",
        list_jobs,
        "Walk through its jobs, at all nodes",
        {**LIST, "state": array(string(enum=STATES))},
        wants=record({"jobs": array(JOB), "next": NEXT}),
    ),
    Operation("GET", "/queues/{queue}/peek", peek, "The next jobs, at each node", {"limit": LIMIT}),
    Operation(
        "DELETE",
        "/queues/{queue}/jobs",
        flush,
        "Delete what is queued or delayed",
        {"count": integer("only so many, the oldest", 1)},
        wants=SWEPT,
    ),
    Operation(
        "POST",
        "/queues/{queue}/move",
        move,
        "Put its jobs into another queue",
        body=record({"to": string("where they go"), "count": integer("only so many, the oldest", 1)}, "to"),
        wants=SWEPT,
    ),
    Operation(
        "POST", "/queues/{queue}/revive", revive, "Put dead letters back where they died", body=BOUND, wants=REVIVED
    ),
    Operation("GET", "/queues/{queue}/pause", get_pause, "What is paused", wants=PAUSE),
    Operation("PUT", "/queues/{queue}/pause", set_pause, "Pause it, or let it go on, at all nodes", body=PAUSE),
    Operation("GET", "/queues/{queue}/options", get_options, "Options of its jobs, and for which name they were set"),
    Operation(
        "PATCH", "/queues/{queue}/options", set_options, "Set options; the name may end in *", body=QUEUE_OPTIONS
    ),
    Operation(
        "DELETE",
        "/queues/{queue}/options",
        unset_options,
        "Take options back",
        {"name": array(string(enum=OPTIONS))},
    ),
)
