"""Operations on schedules (CRON)."""

from typing import Any, Final

from disque.client import DisqueError, NewJob
from disque.client.replies import pairs, text, texts
from disque.client.values import number_word
from disque.gateway import ids
from disque.gateway.rest.jobs import body_of
from disque.gateway.rest.operation import Ask, Operation, Result, bad, unknown
from disque.gateway.rest.schema import integer, record, string
from disque.gateway.rest.shapes import ADDED, BODY, COUNT, OPTIONS, moment, shown_body

#: Options of ADDJOB that no schedule has.
NOT_HERE: Final = frozenset({"unique", "window", "background", "at"})
TERMS: Final = {name: schema for name, schema in OPTIONS.items() if name not in NOT_HERE}
SPEC: Final = string("minute hour day month weekday, or @hourly and its like, or @every 30s")
ZONE: Final = string("time zone of the spec, such as Europe/Berlin", default="UTC")
SCHEDULE: Final = record(
    {
        "spec": SPEC,
        "queue": string("where its jobs go"),
        "tz": ZONE,
        "catchup": string("what becomes of ticks that passed while no node was up", enum=["none", "last", "all"]),
        **BODY,
        **TERMS,
    },
    "spec",
    "queue",
)


def shown(reply: object) -> dict[str, object]:
    """A schedule as JSON has it."""
    found: dict[str, Any] = {text(name): value for name, value in pairs(reply)}
    body = found.pop("body", None)
    options = found.pop("options", None)
    result: dict[str, Any] = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for name, value in found.items()
    }
    result["paused"] = bool(result.get("paused"))
    for name in ("last", "next"):
        tick = result.get(name)
        result[name] = moment(tick) if isinstance(tick, int) else None
    if options is not None:
        result["options"] = texts(options) if isinstance(options, list) else options
    return {**result, **(shown_body(body) if isinstance(body, bytes) else {})}


async def list_schedules(ask: Ask) -> Result:
    """GET /schedules."""
    cursor = ask.query.get("cursor", "0")
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 20:
        raise bad("this is no cursor of this list")
    more, rows = await ask.cluster.client.execute_command("CRON", "LIST", cursor)
    after = text(more)
    return Result({"schedules": [shown(row) for row in rows], "next": None if after == "0" else after})


async def get(ask: Ask) -> Result:
    """GET /schedules/{name}."""
    found = await ask.cluster.client.execute_command("CRON", "GET", ask.path[0])
    if found is None:
        raise unknown("there is no schedule of this name")
    return Result(shown(found))


async def put(ask: Ask) -> Result:
    """PUT /schedules/{name}: make it, or change it."""
    given = ask.body
    try:
        terms = NewJob("", b"", **{name: value for name, value in given.items() if name in TERMS}).options()
    except ValueError as error:
        raise bad(str(error)) from None
    words: list[Any] = ["CRON", "SET", ask.path[0], given["spec"], given["queue"], body_of(given)]
    for name in ("tz", "catchup"):
        words += [name.upper(), given[name]] if name in given else []
    await ask.cluster.client.execute_command(*words, *terms)
    return await get(ask)


def counts(word: str) -> Any:  # noqa: ANN401 - an operation
    """What only answers whether it has changed something."""

    async def do(ask: Ask) -> Result:
        return Result({"count": await ask.cluster.client.execute_command("CRON", word, ask.path[0])})

    do.__doc__ = f"CRON {word}."
    return do


async def run(ask: Ask) -> Result:
    """POST /schedules/{name}/run: add its job now."""
    try:
        job_id: bytes = await ask.cluster.client.execute_command("CRON", "RUN", ask.path[0])
    except DisqueError as error:
        if error.code == "ERR":
            await get(ask)  # nodes have no code of its own for a schedule that is not there
        raise
    return Result({"id": ids.shown(job_id).decode()}, 201)


async def preview(ask: Ask) -> Result:
    """GET /schedules-preview: when a spec is due next."""
    query = ask.query
    if "spec" not in query:
        raise bad("'spec' is missing")
    words = ["CRON", "NEXT", query["spec"], number_word(query["count"], "count"), "TZ", query["tz"]]
    ticks = await ask.cluster.client.execute_command(*words)
    return Result({"ticks": [moment(tick) for tick in ticks]})


OPERATIONS: Final = (
    Operation("GET", "/schedules", list_schedules, "All schedules", {"cursor": string("as for other lists")}),
    Operation("GET", "/schedules/{name}", get, "A schedule"),
    Operation("PUT", "/schedules/{name}", put, "Make or change a schedule", body=SCHEDULE),
    Operation("DELETE", "/schedules/{name}", counts("DEL"), "Delete a schedule", wants=COUNT),
    Operation("POST", "/schedules/{name}/pause", counts("PAUSE"), "Add no jobs from now on", wants=COUNT),
    Operation("POST", "/schedules/{name}/resume", counts("RESUME"), "Go on", wants=COUNT),
    Operation("POST", "/schedules/{name}/run", run, "Add its job now", status=201, wants=ADDED),
    Operation(
        "GET",
        "/schedules-preview",
        preview,
        "When a spec is due next",
        {"spec": SPEC, "tz": ZONE, "count": integer("so many times", 1, 100, default=5)},
    ),
)
