"""The page that adds a job: an empty form, or one filled with what another job has."""

from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

from disque.client.replies import JobInfo
from disque.gateway import ids, lookup
from disque.gateway.cluster import Cluster
from disque.gateway.dashboard import form

#: What a browser, or HTML itself, makes another letter in a body: line ends, and NUL.
CHANGED: Final = frozenset("\r\0")
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
    text = text_of(body)
    is_hex = text is None
    had = kept(given)
    return {
        "like": like if info else "",
        "queue": had["queue"] or query.get("queue", ""),
        "body": "" if len(body) > FORM_BODY_MOST else body.hex(" ") if text is None else text,
        "too_long": len(body) > FORM_BODY_MOST,
        "is_hex": is_hex,
        "retry": "" if had["retry"] is None else had["retry"],
        "tries": "" if had["tries"] is None else had["tries"],
        "priority": had["priority"] or "",
        "headers": "\n".join(map(line_of, had["headers"].items())),
        "had_headers": urlencode(had["headers"], errors="surrogateescape"),
    }


def text_of(body: bytes) -> str | None:
    """A body as a text that comes back from a form as it is; None if it would not."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if CHANGED & set(text) else text


def line_of(header: tuple[str, str]) -> str:
    """A header as a line of the form."""
    return "{}: {}".format(*header)


def queue_of(fields: dict[str, str]) -> str | None:
    """The queue of the other job, if the field was not changed: forms cut names off, and have no bytes."""
    had = fields.get("had-queue", "")
    back = form.typed(had).replace("\0", "\ufffd").replace("\r", "").replace("\n", "")  # as browsers send it
    return had if had and fields.get("queue") == back else None


def headers_of(fields: dict[str, str]) -> dict[str, str]:
    """The headers that a form says, a line each: `name: value`. Lines not changed are as the other job has them.

    Raises ValueError.
    """
    had = parse_qsl(fields.get("had-headers", ""), keep_blank_values=True, errors="surrogateescape")
    by_line = {form.typed(line_of(one)): one for one in had}
    found = fields.get("headers", "").replace("\r\n", "\n").split("\n")
    return dict(by_line.get(line) or typed_header(line) for line in found if line.strip())


def typed_header(line: str) -> tuple[str, str]:
    """A header that somebody has typed. Raises ValueError."""
    name, colon, value = line.strip().partition(":")
    if not colon:
        raise ValueError(f"A header is a name, a colon and a value, not {line.strip()[:50]!r}.")
    return name.strip(), value.strip()


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
