"""The page that adds a job: an empty form, or one filled with what another job has."""

from typing import Any, Final

from starlette.requests import Request

from disque.client.replies import JobInfo
from disque.gateway import ids, lookup
from disque.gateway.cluster import Cluster
from disque.gateway.dashboard import form

#: Bytes of a body that a form can hold, since it is sent with each byte as up to three letters.
FORM_BODY_MOST: Final = 256 << 10


async def add(request: Request, cluster: Cluster) -> dict[str, Any]:
    """The form; `?from=` names a job whose queue, body and terms it begins with."""
    query = form.query(request)
    like = query.get("from", "")
    job_id = ids.meant(like) if like else None
    info = await lookup.find(cluster, job_id) if job_id else None
    given: dict[str, Any] = dict(info) if info else {}
    body = given.get("body") or b""
    is_hex = False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text, is_hex = body.hex(" "), True
    had = kept(given)
    return {
        "like": like if info else "",
        "queue": had["queue"] or query.get("queue", ""),
        "body": text if len(body) <= FORM_BODY_MOST else "",
        "too_long": len(body) > FORM_BODY_MOST,
        "is_hex": is_hex,
        "retry": "" if had["retry"] is None else had["retry"],
        "tries": "" if had["tries"] is None else had["tries"],
        "priority": had["priority"] or "",
        "headers": "\n".join(f"{name}: {value}" for name, value in had["headers"].items()),
    }


def kept(info: JobInfo) -> dict[str, Any]:
    """What a job that is added again has of the other, as NewJob takes it: queue, retry, tries, priority, headers.

    A dead letter is added where it died, with as many tries as it had. SHOW does not tell of more.
    """
    given: dict[str, Any] = dict(info)
    left = given.get("tries_left")
    return {
        "queue": given.get("origin") or given.get("queue"),
        "retry": given.get("retry"),
        "tries": None if left is None else left + (given.get("tries") or 0),
        "priority": given.get("priority"),
        "headers": given.get("headers") or {},
    }
