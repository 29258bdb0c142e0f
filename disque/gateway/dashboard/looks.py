"""What pages show: each function gathers the values of one template."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.requests import Request

from disque.client import AsyncDisque, DisqueError, UnavailableError
from disque.client.errors import cause_text
from disque.client.replies import JobInfo, pairs
from disque.gateway import figures, ids, lookup
from disque.gateway.circuit import SilentError
from disque.gateway.cluster import Cluster
from disque.gateway.dashboard import form, sampler
from disque.gateway.dashboard.charts import Chart, Line, chart
from disque.gateway.rest import cursors
from disque.gateway.rest.dead import DEAD, Groups, groups_of
from disque.gateway.rest.nodes import state_of
from disque.gateway.rest.queues import OPTIONS, STATES

Values = dict[str, Any]

#: Rows of a page.
QUEUES_A_PAGE: Final = 50
JOBS_A_PAGE: Final = 50
USERS_A_PAGE: Final = 500
#: The states that only the node tells that serves a job, and not those with a copy.
SERVED: Final = ("wait-repl", "delayed", "queued", "in-flight")
#: States of jobs in the words of a page, in the order of a job's life.
WORDS: Final = {
    "wait-repl": "waits for copies",
    "delayed": "delayed",
    "queued": "queued",
    "in-flight": "in flight",
    "active": "in flight or a copy",
    "held-back": "in flight or held back",
    "acked": "acknowledged",
    "done": "done",
    "dead": "dead",
    "cancelled": "cancelled",
    "expired": "expired",
    "dropped": "dropped",
}
#: What a node leaves out where a job has none.
NONE_OF: Final[JobInfo] = {"origin": None, "headers": {}, "error": None, "progress": None}
#: The charts of the first page: what each shows, in which colour.
CHARTS: Final = {
    "Jobs a second": {"added": 0, "delivered": 1, "acked": 2},
    "Failures a second": {"nacked": 3, "retried": 4, "died": 5},
}
#: By the unit of a history, where the time of the clock that matters stands in a moment.
CUTS: Final = {"minute": slice(11, 16), "hour": slice(5, 16), "day": slice(0, 10)}

_samplers: WeakKeyDictionary[Cluster, sampler.Sampler] = WeakKeyDictionary()


class ElsewhereError(Exception):
    """The page is another one; the message is its path."""


def samples_of(cluster: Cluster) -> sampler.Sampler:
    """The samples of a cluster, which are taken while somebody looks."""
    found = _samplers.get(cluster)
    if found is None:
        found = _samplers[cluster] = sampler.Sampler(cluster)
        cluster.ends.append(found.stop)
    return found


async def overview(request: Request, cluster: Cluster) -> Values:
    """Rates, how long jobs of the busiest queues wait and run, nodes, and what needs somebody."""
    del request
    samples = samples_of(cluster)
    await samples.look()
    infos = [info for _, info in samples.nodes if isinstance(info, dict)]
    taken = list(samples.samples)
    charts = [rates_chart(title, taken, lines) for title, lines in CHARTS.items()] if len(taken) > 1 else []
    return {
        "nodes": [node_row(node, info) for node, info in samples.nodes],
        "busiest": await busiest(cluster, samples),
        "now": taken[-1].rates if taken else None,
        "charts": charts,
        "memory": sum(sampler.number(info, "used_memory") for info in infos),
        "maxmemory": sum(sampler.number(info, "maxmemory") for info in infos),
        "kept": sum(sampler.number(info, "registered_jobs") for info in infos),
        "queue_count": len(await cluster.queue_names()),
        "up": len(infos),
    }


async def busiest(cluster: Cluster, samples: sampler.Sampler) -> list[Values]:
    """Figures of the busiest queues; without those that are gone, and none if the user may not look at them.

    They cost nodes more than all else on this page, so they are asked for once for each choice of queues.
    """
    names = samples.busiest
    if samples.told_of is not names:
        samples.told_of = names
        try:
            rows = await figures.of_queues(cluster, names)
        except DisqueError:
            rows = []
        samples.told = [row for row in rows if row.get("len") is not None]
    return samples.told


def rates_chart(title: str, taken: list[sampler.Sample], lines: dict[str, int]) -> Chart:
    """Rates over the last minutes."""
    labels = [form.moment(one.at_s)[11:19] for one in taken]
    return chart(title, [Line(name, [one.rates[name] for one in taken], at) for name, at in lines.items()], labels)


def node_row(node: Any, info: sampler.Info | DisqueError) -> Values:  # noqa: ANN401 - NodeInfo
    """A node as tables have it."""
    told = info if isinstance(info, dict) else {}
    return {
        "id": node.id,
        "address": f"{node.host}:{node.port}",
        "state": state_of(node) if isinstance(info, dict) else "does not answer",
        "ok": isinstance(info, dict) and node.priority < 5,
        "error": None if isinstance(info, dict) else reason(f"{node.host}:{node.port}", info),
        "info": told,
    }


def reason(address: str, error: DisqueError) -> str:
    """Why a node has not answered, in one sentence that names it."""
    if isinstance(error, SilentError):
        return error.message
    causes = [cause for _, cause in error.failures] if isinstance(error, UnavailableError) else []
    return f"{address}: {cause_text(causes[-1]) if causes else error}"


async def queues(request: Request, cluster: Cluster) -> Values:
    """The queues of all nodes, a page of them."""
    query = form.query(request)
    part, after = query.get("q", ""), query.get("after", "")
    names = [name for name in await cluster.queue_names() if part.lower() in name.lower()]
    fitting = [name for name in names if name > after]
    shown = fitting[:QUEUES_A_PAGE]
    rows = await figures.of_queues(cluster, shown)
    return {
        "rows": rows,
        "q": part,
        "total": len(names),
        "first": len(names) - len(fitting) + 1,
        "next": shown[-1] if len(fitting) > QUEUES_A_PAGE else None,
        "is_first": not after,
    }


async def queue(request: Request, cluster: Cluster) -> Values:
    """One queue: figures, what happened, options."""
    name = form.named(request, "queue")
    found = await figures.of_queue(cluster, name)
    unit = form.query(request).get("unit", "minute")
    history = None
    if found is not None and unit in {"minute", "hour", "day"}:
        history = history_chart(await figures.history(cluster, name, unit), unit)
    options = await cluster.client.queue_options(name)
    return {"name": name, "stat": found, "chart": history, "unit": unit, "options": options, "known": OPTIONS}


def history_chart(found: dict[str, Any] | None, unit: str) -> Chart | None:
    """The history of a queue as a chart."""
    if not found or not isinstance(found.get("added"), list):
        return None
    step = int(found["seconds"])
    names = {"added": 0, "delivered": 1, "acked": 2, "nacked": 3, "died": 5}
    labels = [form.moment(found["begin"] + at * step)[CUTS[unit]] for at in range(len(found["added"]))]
    return chart(f"Jobs a {unit}", [Line(name, found[name], at) for name, at in names.items()], labels)


async def list_jobs(request: Request, cluster: Cluster) -> Values:
    """Jobs of a queue, by state and header. Unless copies are asked for, each is shown by the node that serves it.

    Raises ElsewhereError where one is asked for by its ID.
    """
    query = form.query(request)
    if job_id := query.get("id", "").strip():
        raise ElsewhereError(f"/jobs/{form.word(ids.shown(job_id.encode(errors='replace')).decode())}")
    name, state, header = query.get("queue", ""), query.get("state", ""), query.get("header", "")
    rows: list[Values] = []
    more = None
    if name or state:
        states = (state,) if state in STATES else SERVED

        async def step(client: AsyncDisque, at: int) -> tuple[int, list[JobInfo]]:
            return await client.scan_job_infos(at, count=JOBS_A_PAGE, queue=name or None, states=states)

        found, more = await cursors.page(cluster, query.get("cursor", ""), JOBS_A_PAGE, step)
        now_s = time.time()
        rows = once(job_row(info, state, now_s) for _, info in found if has_header(info, header))
    return {
        "rows": rows,
        "queue": name,
        "state": state,
        "header": header,
        "states": {one: WORDS.get(one, one) for one in STATES},
        "next": more,
        "is_asked": bool(name or state),
    }


def once(rows: Iterable[Values]) -> list[Values]:
    """Each job once; of its copies the one that says most of it."""
    found: dict[str, Values] = {}
    for row in rows:
        known = found.get(row["id"])
        if known is None or (known["state"] == "active" and row["state"] != "active"):
            found[row["id"]] = row
    return list(found.values())


def has_header(info: JobInfo, wanted: str) -> bool:
    """Whether a job has a header: `name`, or `name=value`."""
    if not wanted:
        return True
    name, equals, value = wanted.partition("=")
    headers: dict[str, str] = info.get("headers") or {}  # type: ignore[assignment]  # as SHOW has them
    return name in headers and (not equals or headers[name] == value)


def job_row(info: JobInfo, asked: str, now_s: float) -> Values:
    """A job as tables have it; ``asked`` is the state that it was found by."""
    body, kind = form.body(value if isinstance(value := info.get("body"), bytes) else None)
    return {
        **info,
        "shown_id": ids.shown(str(info["id"]).encode()).decode(),
        "word": word_of(info, asked, now_s),
        "preview": " ".join(body[:160].split()) if kind != "binary" else "binary",
    }


def word_of(info: JobInfo, asked: str, now_s: float) -> str:
    """The state of a job in words; ``asked`` is the state that it was found by, if any.

    SHOW says of all these that they are active: a job that is delayed, one that a consumer has, and a copy.
    """
    state = str(info.get("state", ""))
    if state == "active":
        born_ns, delay_s = info.get("ctime"), info.get("delay")
        if isinstance(born_ns, int) and isinstance(delay_s, int) and born_ns / 1e9 + delay_s > now_s:
            state = "delayed"
        else:
            state = asked or ("held-back" if info.get("nacks") else "in-flight")
    return WORDS.get(state, state)


async def job(request: Request, cluster: Cluster) -> Values:
    """All about one job: where it is, what happened to it, its body and its end."""
    job_id = ids.meant(request.path_params["job"])
    found = None if job_id is None else await lookup.find(cluster, job_id)
    info = {**NONE_OF, **found} if found else None
    fate, unsure = None, ""
    try:
        fate = None if job_id is None else await lookup.fate(cluster, job_id)
    except SilentError as error:
        unsure = error.message
    body, kind = form.body(info.get("body") if info else None)  # type: ignore[arg-type]  # bytes, as SHOW has it
    result, result_kind = form.body(fate.result if fate else None)
    shown = ids.shown(job_id).decode() if job_id else request.path_params["job"]
    return {
        "id": job_id.decode() if job_id else request.path_params["job"],
        "shown_id": shown,
        "info": info,
        "fate": fate,
        "unsure": unsure,
        "body": body,
        "kind": kind,
        "result": result,
        "result_kind": result_kind,
        "events": time_line(info, fate),
        "word": word_of(info, "active", time.time()) if info else None,
    }


def time_line(info: JobInfo | None, fate: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a Result
    """What is known of a job's life: when, and what."""
    rows: list[tuple[str, str]] = []
    if info:
        born_ns = info.get("ctime")
        if isinstance(born_ns, int) and born_ns:
            rows.append((form.moment(born_ns / 1e9), "added"))
        if info.get("origin"):
            why = str(info.get("died") or "moved")
            rows.append((form.NOTHING, f"died in {info['origin']!s} ({why})"))
        if isinstance(ago := info.get("error_ms_ago"), int):
            rows.append((f"{form.lasting(ago)} ago", f"failed: {info.get('error')!s}"))
        if info.get("progress"):
            rows.append(("now", f"progress: {info['progress']!s}"))
        if info.get("state") == "active":
            rows.append((f"in {form.lasting(info.get('next_requeue_within'))}", "comes back unless it is acknowledged"))
        if isinstance(left := info.get("ttl"), int):
            rows.append((f"in {form.seconds(left)}", "expires"))
    if fate and fate.ended_ms_ago is not None:
        rows.append((f"{form.lasting(fate.ended_ms_ago)} ago", fate.status))
    return rows


async def dead(request: Request, cluster: Cluster) -> Values:
    """Queues of dead letters, a page of them, and one of them grouped by error."""
    query = form.query(request)
    name, after = query.get("queue", ""), query.get("after", "")
    names = [one for one in await cluster.queue_names() if one.endswith(DEAD) and one > after]
    shown = names[:QUEUES_A_PAGE]
    rows = await figures.of_queues(cluster, shown)
    found = await groups_of(cluster, name) if name else Groups([], 0, is_whole=True)
    return {
        "rows": [row for row in rows if row.get("len") or row.get("delayed")],
        "queue": name,
        "groups": found.groups[:QUEUES_A_PAGE],
        "errors": len(found.groups),
        "looked": found.looked,
        "is_whole": found.is_whole,
        "next": shown[-1] if len(names) > QUEUES_A_PAGE else None,
        "is_first": not after,
    }


async def schedules(request: Request, cluster: Cluster) -> Values:
    """All schedules, a page of them."""
    cursor = form.query(request).get("cursor", "0")
    after, rows = await cluster.client.schedules(int(cursor) if cursor.isascii() and cursor.isdigit() else 0)
    return {"rows": rows, "next": after or None}


async def schedule(request: Request, cluster: Cluster) -> Values:
    """One schedule, and when it is due next."""
    name = form.named(request, "name")
    found = await cluster.client.schedule(name)
    ticks = await cluster.client.next_ticks(found.spec, 10, tz=found.tz) if found else []
    body, kind = form.body(found.body if found else None)
    return {"name": name, "schedule": found, "ticks": ticks, "body": body, "kind": kind}


async def workers(request: Request, cluster: Cluster) -> Values:
    """Who is connected to which node: workers first."""
    del request
    answers = await cluster.at_each(clients_of)
    rows: list[Values] = []
    failed: list[str] = []
    for node, answer in answers:
        if isinstance(answer, DisqueError):
            failed.append(reason(f"{node.host}:{node.port}", answer))
            continue
        rows += [{**row, "node": f"{node.host}:{node.port}"} for row in answer]
    rows.sort(key=lambda row: (not row["name"].startswith("worker:"), not row["name"], row["name"], row["node"]))
    return {"rows": rows[:500], "total": len(rows), "failed": failed}


async def clients_of(client: AsyncDisque) -> list[dict[str, Any]]:
    """CLIENT LIST of a node."""
    return await client.client_list()  # type: ignore[return-value]  # all are texts


async def nodes(request: Request, cluster: Cluster) -> Values:
    """The nodes: memory, links, copies, journal."""
    del request
    samples = samples_of(cluster)
    await samples.look()
    rows = [node_row(node, info) for node, info in samples.nodes]
    told = {node.id: answer for node, answer in await cluster.at_each(cluster_info_of)}
    for row in rows:
        answer = told.get(row["id"])
        row["cluster"] = answer if isinstance(answer, dict) else {}
        if isinstance(answer, DisqueError):
            row["error"] = reason(row["address"], answer)
    return {"nodes": rows}


async def cluster_info_of(client: AsyncDisque) -> sampler.Info:
    """CLUSTER INFO of a node."""
    return await client.cluster_info()


async def node(request: Request, cluster: Cluster) -> Values:
    """All that a node tells of itself."""
    node_id = request.path_params["node"]
    for one in await cluster.nodes():
        if one.id == node_id:
            info = await cluster.ask_at(one, sampler.info_of)
            return {"id": node_id, "address": f"{one.host}:{one.port}", "info": info, "state": state_of(one)}
    return {"id": node_id, "address": None, "info": {}, "state": "unknown"}


async def users(request: Request, cluster: Cluster) -> Values:
    """The users, and what they may do."""
    del request
    names: list[bytes] = sorted(await cluster.client.execute_command("ACL", "USERS"))
    shown = names[:USERS_A_PAGE]
    found = await asyncio.gather(*[cluster.asking.ask([b"ACL", b"GETUSER", name]) for name in shown])
    rows = [
        {"name": text(name), **{text(key): told(value) for key, value in pairs(rules or [])}}
        for name, rules in zip(shown, found, strict=True)
    ]
    return {"rows": rows, "total": len(names)}


def text(value: object) -> str:
    """A word of a reply."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def told(value: object) -> object:
    """A value of a reply: a text, or a list of them."""
    return [text(one) for one in value] if isinstance(value, list) else text(value)
