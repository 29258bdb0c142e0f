"""Operations on jobs: add, take, acknowledge, give back, extend, wait, look."""

import asyncio
from dataclasses import replace
from typing import Any, Final

from disque.client import NewJob, json_body, replies
from disque.client.ends import Ended, Fate
from disque.client.errors import typed
from disque.client.values import duration_word, name_word
from disque.gateway import holders, ids, lookup
from disque.gateway.asgi import unless_gone
from disque.gateway.rations import LEFT_OUT, SHORT
from disque.gateway.rest.operation import VALUES_MOST, Ask, Operation, Result, bad, unknown
from disque.gateway.rest.schema import anything, array, boolean, filled, integer, number, record, string
from disque.gateway.rest.shapes import (
    ADDED,
    ADDED_MANY,
    BODY,
    COUNT,
    ENDED,
    ID,
    JOB,
    NEW_JOB,
    OPTIONS,
    TAKEN,
    meant_body,
    seconds,
    shown_body,
    shown_job,
    taken,
)

#: Bytes of a body that is no JSON; jobs of one request; seconds that a request may wait.
RAW_MOST: Final = 64 << 20
JOBS_MOST: Final = 1000
TAKEN_MOST: Final = 100
WAIT_MOST_S: Final = 300
#: Header of a request that adds one job, and how long its value counts unless the request says it, in seconds: a day.
IDEMPOTENCY: Final = "idempotency-key"
KEY_S: Final = 86_400


async def add(ask: Ask) -> Result:
    """POST /queues/{queue}/jobs: one job, or several, or a body as it comes."""
    key = ask.request.headers.get(IDEMPOTENCY)
    given: dict[str, Any] = ask.query if ask.body is None else ask.body
    if "jobs" in given:
        if key is not None or len(given) > 1:
            raise bad("several jobs have all their options in 'jobs', each 'unique' too")
        return await add_many(ask, given["jobs"])
    if key is not None:
        given = {"window": KEY_S, **given, "unique": key}
    body = ask.raw if ask.body is None else body_of(given)
    job_id = replies.job_id(await ask.cluster.adding.ask(words_of(ask, body, given)))
    shown = ids.shown(job_id.encode()).decode()
    return Result({"id": shown}, 201, {"Location": f"/api/v1/jobs/{shown}"})


async def add_many(ask: Ask, jobs: list[dict[str, Any]]) -> Result:
    """Several jobs: each answer is an ID or an error."""
    words = [words_of(ask, body_of(job), job) for job in jobs]
    asked = [ask.cluster.adding.ask(one) for one in words]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return Result({"jobs": [shown_answer(answer) for answer in answers]}, 201)


def shown_answer(answer: object) -> dict[str, object]:
    """What came of one of several jobs."""
    if isinstance(answer, Exception):
        error = typed(answer)
        if error is None:
            raise answer
        return {"error": error.message, "code": error.code}
    return {"id": ids.shown(replies.job_id(answer).encode()).decode()}


def body_of(given: dict[str, Any]) -> bytes:
    """The body that a job of a request has. Raises Problem."""
    if "json" in given and "body" not in given:
        return json_body(given["json"])
    return meant_body(given)


def words_of(ask: Ask, body: bytes, given: dict[str, Any]) -> list[bytes]:
    """The ADDJOB of a job. Raises Problem."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    try:
        return NewJob(ask.path[0], body, **options).words(ask.cluster.client.config.timeout_ms)
    except ValueError as error:
        raise bad(str(error)) from None


async def take(ask: Ask) -> Result:
    """POST /take: jobs of some queues, or the first that comes within a time."""
    given = ask.body
    lease: list[bytes] = []
    if "lease" in given:
        lease = [b"LEASE", duration_word(given["lease"], "lease")]
    how = (*lease, *[b"STRICT"] * given.get("strict", False))
    queues = tuple(name_word(queue) for queue in given["queues"])
    jobs = await ask.cluster.take(queues, given.get("count", 1), how, given.get("wait", 0), ask.request.receive)
    return Result({"jobs": [taken(job) for job in jobs]})


async def ack(ask: Ask) -> Result:
    """POST /jobs/{id}/ack, with its result if there is one."""
    words: list[bytes] = [b"ACKJOB", ask.job_id()]
    given = ask.body or {}
    if {"result", "json"} & set(given):
        renamed = {("body" if name == "result" else name): value for name, value in given.items()}
        words += (b"RESULT", body_of(renamed))
    return Result({"count": replies.whole(await ask.cluster.asking.ask(words))})


async def ack_many(ask: Ask) -> Result:
    """POST /ack: several jobs."""
    return Result({"count": await ask.cluster.client.ack_many(all_ids(ask.body["ids"]))})


def all_ids(given: list[str]) -> list[bytes]:
    """IDs of a request. Raises Problem."""
    found: list[bytes] = []
    for one in given:
        job_id = ids.meant(one)
        if job_id is None:
            raise bad(f"{one[:100]!r} is not the ID of a job")
        found.append(job_id)
    return found


async def nack(ask: Ask) -> Result:
    """POST /jobs/{id}/nack."""
    given = ask.body or {}
    try:
        count = await holders.at_holder(ask.cluster, ask.job_id(), lambda client, one: client.nack(one, **given))
    except ValueError as error:
        raise bad(str(error)) from None
    return Result({"count": count})


async def extend(ask: Ask) -> Result:
    """POST /jobs/{id}/extend: begin its lease again."""
    left = await ask.cluster.client.working_one(ask.job_id(), progress=(ask.body or {}).get("progress"))
    return Result({"lease_seconds": left})


async def run_now(ask: Ask) -> Result:
    """POST /jobs/{id}/run: put it into its queue now, if it is held back."""
    return Result({"count": await holders.run_now(ask.cluster, [ask.job_id()])})


async def move(ask: Ask) -> Result:
    """POST /jobs/{id}/move."""
    given = ask.body
    count = await ask.cluster.client.move(given["queue"], ask.job_id(), delay=given.get("delay"))
    return Result({"count": count})


async def revive(ask: Ask) -> Result:
    """POST /jobs/{id}/revive."""
    return Result({"count": await ask.cluster.client.revive(ask.job_id())})


async def cancel(ask: Ask) -> Result:
    """DELETE /jobs/{id}."""
    return Result({"count": await ask.cluster.client.cancel(ask.job_id(), waiting=ask.query["waiting"])})


async def get(ask: Ask) -> Result:
    """GET /jobs/{id}: a job, or how it ended."""
    job_id = ask.job_id()
    info = await lookup.find(ask.cluster, job_id)
    if info is not None and info.get("queue"):
        return Result(shown_job(info))
    return await result(ask)


async def result(ask: Ask) -> Result:
    """GET /jobs/{id}/result."""
    found = await lookup.fate(ask.cluster, ask.job_id())
    if found is None:
        raise unknown("no node knows this job, or how it ended")
    more = {"queue": found.queue, "tries": found.tries, "progress": found.progress}
    return Result({**shown_fate(found), **more, "ended_seconds_ago": seconds(found.ended_ms_ago)})


def shown_fate(fate: Fate) -> dict[str, object]:
    """What has become of a job."""
    body = shown_body(fate.result)
    shown_id = ids.shown(fate.id.encode()).decode()
    found = {"id": shown_id, "status": fate.status, "result": body["body"], "encoding": body["encoding"]}
    return {**found, "error": fate.error}


async def wait(ask: Ask) -> Result:
    """POST /wait: until some jobs have ended."""
    given = ask.body
    job_ids = all_ids(given["ids"])
    waiting = ask.cluster.client.ends(job_ids, VALUES_MOST, given.get("timeout", 0), any_one=given.get("any", False))
    ended = await unless_gone(ask.request.receive, waiting)
    told: set[str] = set()
    found = [{**shown_end(one, told), "id": job_id} for job_id, one in zip(given["ids"], ended, strict=True)]
    return Result({"jobs": found})


def shown_end(end: Ended | None, told: set[str]) -> dict[str, object]:
    """How a job that was waited for has ended, if it has. Those in ``told`` have had their long result already."""
    if end is None:
        return {"status": None}
    if end.result is not None and len(end.result) > SHORT:
        if end.id in told:
            end = replace(end, result=LEFT_OUT)
        told.add(end.id)
    if end.result is LEFT_OUT:
        return {**shown_fate(replace(end, result=None)), "left_out": True}
    return shown_fate(end)


WAIT: Final = number("seconds to wait for it", 0, WAIT_MOST_S)
MANY: Final = record({"ids": array(ID, JOBS_MOST)}, "ids")
OPERATIONS: Final = (
    Operation(
        "POST",
        "/queues/{queue}/jobs",
        add,
        "Add a job, or several, or any body that is no JSON, with its options in the query",
        query=OPTIONS,
        body={**record({**NEW_JOB["properties"], "jobs": array(NEW_JOB, JOBS_MOST)})},
        raw=RAW_MOST,
        status=201,
        wants={"oneOf": [ADDED, ADDED_MANY]},
    ),
    Operation(
        "POST",
        "/take",
        take,
        "Take jobs out of queues, or wait for one",
        body=record(
            {
                "queues": filled(array(string("names of queues"), 100)),
                "count": integer("up to so many jobs", 1, TAKEN_MOST, default=1),
                "wait": number("seconds to wait for the first one", 0, WAIT_MOST_S, default=0),
                "lease": number("seconds until they are delivered again; the retry of each job", 0.001),
                "strict": boolean("empty the queues in their order", default=False),
            },
            "queues",
        ),
        wants=record({"jobs": array(TAKEN)}),
    ),
    Operation("POST", "/ack", ack_many, "Acknowledge several jobs", body=MANY, wants=COUNT),
    Operation(
        "POST",
        "/wait",
        wait,
        "Wait until jobs have ended",
        body=record(
            {
                "ids": filled(array(ID, JOBS_MOST)),
                "timeout": WAIT,
                "any": boolean("until one has", default=False),
            },
            "ids",
        ),
        wants=record({"jobs": array(ENDED)}, "jobs"),
    ),
    Operation("GET", "/jobs/{id}", get, "A job, or how it ended", wants=JOB),
    Operation(
        "DELETE",
        "/jobs/{id}",
        cancel,
        "Cancel it, whatever its state",
        {"waiting": boolean("only if no consumer has it", default=False)},
        wants=COUNT,
    ),
    Operation("GET", "/jobs/{id}/result", result, "What has become of it", wants=JOB),
    Operation(
        "POST",
        "/jobs/{id}/ack",
        ack,
        "Acknowledge it",
        body=record(
            {
                "result": string("what has come of it"),
                "encoding": BODY["encoding"],
                "json": anything("any value instead of result"),
            }
        ),
        wants=COUNT,
    ),
    Operation(
        "POST",
        "/jobs/{id}/nack",
        nack,
        "Give it back to its queue",
        body=record(
            {
                "delay": number("seconds before it is there", 0),
                "error": string("why it failed"),
                "dead": boolean("do not try it again"),
                "count": boolean("whether it counts as a failure", default=True),
            }
        ),
        wants=COUNT,
    ),
    Operation(
        "POST",
        "/jobs/{id}/extend",
        extend,
        "Begin its lease again",
        body=record({"progress": string("how far the work has come", maxLength=1024)}),
        wants=record({"lease_seconds": integer()}),
    ),
    Operation("POST", "/jobs/{id}/run", run_now, "Put it into its queue now, if it is held back", wants=COUNT),
    Operation(
        "POST",
        "/jobs/{id}/move",
        move,
        "Put it into another queue",
        body=record({"queue": string("where it goes"), "delay": number("seconds before it is there", 0)}, "queue"),
        wants=COUNT,
    ),
    Operation("POST", "/jobs/{id}/revive", revive, "Put a dead letter back where it died", wants=COUNT),
)
