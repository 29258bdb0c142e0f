"""Jobs and queues as JSON shows them, and their schemas."""

import base64
from datetime import UTC, datetime
from typing import Any, Final

from disque.client.replies import JobInfo
from disque.client.values import text_of
from disque.gateway import ids
from disque.gateway.rest.operation import bad
from disque.gateway.rest.schema import (
    Schema,
    anything,
    array,
    boolean,
    integer,
    nullable,
    number,
    record,
    string,
    texts,
)
from disque.gateway.taken import Taken

BODY: Final[dict[str, Schema]] = {
    "body": string("the body of the job: a text, or base64 where encoding says so"),
    "encoding": string("how body is written", enum=["utf-8", "base64"], default="utf-8"),
    "json": anything("any value instead of body: the job gets it as JSON"),
}
OPTIONS: Final[dict[str, Schema]] = {
    "delay": number("seconds before it is delivered", 0),
    "at": number("instead of delay: when, in seconds since 1970", 0),
    "ttl": number("seconds that it lives", 1),
    "retry": number("seconds until it is delivered again, unless acknowledged; 0: never", 0),
    "replicate": integer("how many nodes have it before its ID is answered", 1, 65_535),
    "tries": integer("this many tries, then it is a dead letter; 0: without end", 0, 65_535),
    "backoff": string("how long a failure holds it back, such as exponential:2:60"),
    "deadletter": string("the queue for it when its tries are used up; empty: none"),
    "priority": integer("higher ones leave the queue first", 0, 255),
    "retain": number("seconds for which its end and its result are kept", 0),
    "maxlen": integer("refuse it if the queue has so many jobs", 0),
    "unique": string("add nothing while a job with this key is there", maxLength=512),
    "window": number("seconds for which the key counts; 0: while the job is alive", 0),
    "headers": texts("names and values that go with it"),
    "background": boolean("answer before the copies are made"),
}
NEW_JOB: Final = record({**BODY, **OPTIONS})
ID: Final = string("the ID of a job; + and / are written . and _")
TAKEN: Final = record(
    {
        "id": ID,
        "queue": string(),
        "body": BODY["body"],
        "encoding": BODY["encoding"],
        "tries": integer("tries that have ended"),
        "tries_left": nullable(integer("with this one; null: no bound")),
        "priority": integer(),
        "age_seconds": number("since it was added"),
        "ttl_seconds": number("for how long it lives yet"),
        "lease_seconds": number("until it is delivered again"),
        "error": nullable(string("why it failed last; null: it has not")),
        "origin": nullable(string("of a dead letter: where it died; null: it is none")),
        "headers": texts(""),
    }
)
JOB: Final = {"type": "object", "description": "What is known of a job, as SHOW has it, or how it ended, as RESULT."}
ENDED: Final = record(
    {
        "id": ID,
        "status": nullable(string("how it ended; null: it has not")),
        "result": nullable(string("what has come of it: a text, or base64 where encoding says so")),
        "encoding": nullable(string("how result is written", enum=["utf-8", "base64", None])),
        "error": nullable(string("why it failed last")),
        "left_out": boolean("true: it has a result, and the answer would be too large with it; ask for the job itself"),
    },
    "id",
    "status",
)
QUEUE: Final = {"type": "object", "description": "Figures of a queue at all nodes, as QSTAT CLUSTER has them."}
ADDED: Final = record({"id": ID}, "id")
ADDED_MANY: Final = record({"jobs": array(record({"id": ID, "error": string(), "code": string()}), None)}, "jobs")
COUNT: Final = record({"count": integer()}, "count")
SWEPT: Final = record({"count": integer(), "unreachable": array(string("nodes that did not answer"))}, "count")
REVIVED: Final = record(
    {**SWEPT["properties"], "without_origin": integer("jobs that stay there, since they are no dead letters")}, "count"
)


def shown_body(body: bytes | None) -> dict[str, str | None]:
    """A body as text if it is one, else as base64."""
    if body is None:
        return {"body": None, "encoding": None}
    try:
        return {"body": body.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "encoding": "base64"}


def meant_body(given: dict[str, Any]) -> bytes:
    """The body that a request means. Raises Problem, and UnicodeEncodeError for half of a surrogate pair."""
    if ("body" in given) == ("json" in given):
        raise bad("a job has either 'body' or 'json'")
    body: str = given.get("body", "")
    if given.get("encoding", "utf-8") == "base64":
        try:
            return base64.b64decode(body, validate=True)
        except ValueError:
            raise bad("'body' is no base64") from None
    return body.encode()


def seconds(ms: object) -> float | None:
    """Milliseconds as seconds."""
    return ms / 1000 if isinstance(ms, int) else None


def taken(job: Taken) -> dict[str, object]:
    """A job that was just delivered."""
    return {
        "id": ids.shown(job.job_id).decode(),
        "queue": text_of(job.queue),
        **shown_body(job.body),
        "tries": job.tries,
        "tries_left": job.tries_left,
        "priority": job.priority,
        "age_seconds": seconds(job.created_ms_ago),
        "ttl_seconds": seconds(job.ttl_ms),
        "lease_seconds": seconds(job.lease_ms),
        "error": None if job.error is None else job.error.decode("utf-8", "replace"),
        "origin": None if job.origin is None else text_of(job.origin),
        "headers": {text_of(name): text_of(value) for name, value in job.headers.items()},
    }


def shown_job(info: JobInfo) -> dict[str, object]:
    """A job as SHOW has it."""
    shown: dict[str, object] = {**info}
    body = shown.pop("body", None)
    born_ns = shown.pop("ctime", None)
    if isinstance(born_ns, int) and born_ns:
        shown["created"] = moment(born_ns / 1e9)
    if "id" in shown:
        shown["id"] = ids.shown(str(shown["id"]).encode()).decode()
    return {**shown, **(shown_body(body if isinstance(body, bytes) else None) if body is not None else {})}


def moment(unix_s: float) -> str:
    """A time as JSON has it (RFC 3339)."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
