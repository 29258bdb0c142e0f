"""Replies as Python values: names and values become a dict, words become str, bodies stay bytes."""

from typing import Final, NamedTuple, TypeAlias

from disque.client.errors import DisqueError, UnexpectedReplyError, typed
from disque.client.values import text_of

#: What is known of a job or a queue: names as in SHOW and QSTAT, with underscores for dashes.
JobInfo: TypeAlias = dict[str, "str | int | bytes | list[str] | dict[str, str] | None"]

#: What happened in a queue, as in QHISTORY.
History: TypeAlias = dict[str, "int | list[int | str]"]


class Meta(NamedTuple):
    """What is known of a job beyond its body, when it was delivered (WITHMETA). Times are in ms.

    ``tries`` have ended, and ``tries_left`` remain with this one (None: there is no bound). ``created_ms_ago``: since
    it was added, or became a dead letter; ``due_ms_ago``: since it could have been delivered for the first time;
    ``lease_ms``: until it is delivered again. ``error`` is the last one, ``origin`` the queue in which a dead letter
    died. ``backoff`` is how long failures hold it back, as `Disque.add` takes it; None if it does not say.
    """

    tries: int
    tries_left: int | None
    nacks: int
    additional_deliveries: int
    priority: int
    created_ms_ago: int
    due_ms_ago: int
    ttl_ms: int
    lease_ms: int
    error: str | None
    origin: str | None
    headers: dict[str, str]
    backoff: str | None = None


class Delivered(NamedTuple):
    """A job as a node gives it."""

    id: str
    queue: str
    body: bytes
    nacks: int = 0
    additional_deliveries: int = 0
    meta: Meta | None = None


#: How the ID of a job begins, and how many characters it has.
ID_HEAD: Final = "D-"
ID_LENGTH: Final = 40
#: Where bytes are no text.
BODIES: Final = frozenset({"body"})
#: Fields of `Meta` that are numbers.
NUMBERS: Final = (*Meta._fields[:1], *Meta._fields[2:9])
#: What is a map, in RESP2 a list of names and values.
MAPS: Final = frozenset({"headers"})


def whole(reply: object) -> int:
    """A number."""
    if isinstance(reply, int) and not isinstance(reply, bool):
        return reply
    raise UnexpectedReplyError(f"a number was expected, not {shown(reply)}")


def text(reply: object) -> str:
    """A text."""
    if isinstance(reply, bytes | str):
        return text_of(reply)
    raise UnexpectedReplyError(f"a text was expected, not {shown(reply)}")


def job_id(reply: object) -> str:
    """The ID of a job."""
    found = text_of(reply) if isinstance(reply, bytes | str) else ""
    if len(found) != ID_LENGTH or not found.startswith(ID_HEAD):
        raise UnexpectedReplyError(f"the ID of a job was expected, not {shown(reply)}")
    return found


def text_or_none(reply: object) -> str | None:
    """A text, or None."""
    return None if reply is None else text(reply)


def texts(reply: object) -> list[str]:
    """A list of texts."""
    return [text(item) for item in listed(reply)]


def listed(reply: object) -> list[object]:
    """A list; nil is an empty one."""
    if reply is None:
        return []
    if isinstance(reply, list):
        return reply
    raise UnexpectedReplyError(f"a list was expected, not {shown(reply)}")


def same(reply: object) -> object:
    """The reply as it is."""
    return reply


def nothing(reply: object) -> None:
    """OK, which says nothing."""
    text(reply)


def shown(reply: object) -> str:
    """A reply for a message, not too long."""
    return repr(reply)[:100]


def delivered(reply: object) -> list[Delivered]:
    """The jobs of GETJOB or QPEEK."""
    try:
        return [one_delivered(row) for row in reply] if reply else []  # type: ignore[attr-defined]  # refused below
    except (TypeError, ValueError, AttributeError, LookupError):
        raise UnexpectedReplyError(f"jobs were expected, not {shown(reply)}") from None


def one_delivered(row: list[bytes]) -> Delivered:
    """One job: queue, ID, body, and where they are the counters, and what is known of it."""
    job_id = row[1].decode("ascii")
    queue = row[0].decode("utf-8", "surrogateescape")
    if not isinstance(row[2], bytes):
        raise TypeError
    if len(row) == 3:
        return Delivered(job_id, queue, row[2])
    if len(row) % 4 == 0:
        known = meta(row[-1])
        return Delivered(job_id, queue, row[2], known.nacks, known.additional_deliveries, known)
    return Delivered(job_id, queue, row[2], int(row[4]), int(row[6]))


def meta(reply: object) -> Meta:
    """The map of WITHMETA, in the shape of either protocol. What a newer node adds is left out."""
    found = {text(name).replace("-", "_"): value for name, value in pairs(reply)}
    words = {name: found[name] for name in Meta._fields if name in found}
    words["headers"] = dictionary(words["headers"])
    error = words["error"]
    words["error"] = error.decode("utf-8", "replace") if isinstance(error, bytes) else error
    for name in ("origin", "backoff"):
        words[name] = text_or_none(words.get(name))
    for name in NUMBERS:
        words[name] = whole(words[name])
    if words["tries_left"] is not None:
        words["tries_left"] = whole(words["tries_left"])
    return Meta(**words)  # type: ignore[arg-type]  # each is what its field says


def pairs(reply: object) -> list[tuple[object, object]]:
    """Names and values, in the shape of either protocol."""
    if isinstance(reply, dict):
        return list(reply.items())
    items = listed(reply)
    return list(zip(items[::2], items[1::2], strict=True))


def answers(reply: object, jobs: int = 1) -> list[int | DisqueError]:
    """What WORKING says of each of so many jobs: seconds or an error; of one alone it says it without a list."""
    items = reply if isinstance(reply, list) else [reply]
    if len(items) != jobs:
        raise UnexpectedReplyError(f"answers for {jobs} jobs were expected, not {shown(reply)}")
    return [(typed(item) or DisqueError(str(item))) if isinstance(item, Exception) else whole(item) for item in items]


def job_info(reply: object) -> JobInfo | None:
    """Names and values as a dict, or None."""
    if reply is None:
        return None
    return {(name := text(key).replace("-", "_")): plain(name, value) for key, value in pairs(reply)}


def history(reply: object) -> History | None:
    """Names, and numbers or lists, as a dict, or None."""
    if reply is None:
        return None
    found: History = {}
    for name, value in pairs(reply):
        if isinstance(value, list):
            found[text(name)] = [one if isinstance(one, int) else text(one) for one in value]
        else:
            found[text(name)] = whole(value)
    return found


def plain(name: str, value: object) -> str | int | bytes | list[str] | dict[str, str] | None:
    """One value of such a dict."""
    if name in MAPS:
        return dictionary(value)
    if isinstance(value, list):
        return texts(value)
    if value is None or isinstance(value, int) or (name in BODIES and isinstance(value, bytes)):
        return value
    return text(value)


def dictionary(reply: object) -> dict[str, str]:
    """Names and values that are texts, in the shape of either protocol."""
    return {text(name): text(value) for name, value in pairs(reply)}


def queue_options(reply: object) -> dict[str, tuple[str, str]]:
    """Options of a queue: of each its value, and for which name it was set."""
    found: dict[str, tuple[str, str]] = {}
    for name, row in pairs(reply):
        value, source = texts(row)
        found[text(name)] = (value, source)
    return found


def scanned(reply: object) -> tuple[int, list[str]]:
    """Cursor and names of QSCAN, or cursor and IDs of JSCAN."""
    cursor, found = listed(reply)
    return int(text(cursor)), texts(found)


def scanned_jobs(reply: object) -> tuple[int, list[JobInfo]]:
    """Cursor and jobs of JSCAN with REPLY ALL."""
    cursor, found = listed(reply)
    return int(text(cursor)), [info for info in map(job_info, listed(found)) if info is not None]


def info(reply: object) -> dict[str, str | int | float]:
    """The fields of INFO or CLUSTER INFO."""
    lines = [line.split(":", 1) for line in text(reply).splitlines() if ":" in line and not line.startswith("#")]
    return {name: number_if_any(value) for name, value in lines}


def number_if_any(value: str) -> str | int | float:
    """A number where a text is one."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


class NodeInfo(NamedTuple):
    """A node as HELLO shows it. Priority: 1 is good, 5 has no link, 10 may fail, 100 fails or is leaving."""

    id: str
    host: str
    port: int
    priority: int


def nodes(reply: object) -> list[NodeInfo]:
    """The nodes of HELLO."""
    rows = [texts(row) for row in listed(reply)[2:]]
    return [NodeInfo(node_id, host, int(port), int(priority)) for node_id, host, port, priority in rows]


def moment(reply: object) -> float:
    """The seconds of TIME."""
    seconds, micros = texts(reply)
    return int(seconds) + int(micros) / 1_000_000
