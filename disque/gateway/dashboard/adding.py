"""The page that adds a job: an empty form, or one filled with what another job has."""

from typing import Any, Final

from starlette.requests import Request

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
    tries = given.get("tries_left")
    return {
        "like": like if info else "",
        "queue": given.get("origin") or given.get("queue") or query.get("queue", ""),
        "body": text if len(body) <= FORM_BODY_MOST else "",
        "too_long": len(body) > FORM_BODY_MOST,
        "is_hex": is_hex,
        "retry": given.get("retry", ""),
        "tries": (tries or 0) + (given.get("tries") or 0) if tries is not None else "",
        "priority": given.get("priority") or "",
        "headers": "\n".join(f"{name}: {value}" for name, value in (given.get("headers") or {}).items()),
    }
