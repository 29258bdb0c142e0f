"""What pages can do: each action is a form that is posted to `/do/<name>`, and a sentence that says what came of it.

Nodes look whether the user may. What is done to all jobs that match is done in parts, each of which looks for jobs and
does it; a part that takes too long ends, and the sentence says so.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from disque.client import AsyncDisque, DisqueError, NewJob, Swept
from disque.client.replies import JobInfo
from disque.gateway import holders, ids, lookup
from disque.gateway.cluster import Cluster
from disque.gateway.dashboard.adding import headers_of, kept, queue_of
from disque.gateway.dashboard.form import jobs
from disque.gateway.dashboard.looks import SERVED, has_header
from disque.gateway.rest import cursors
from disque.gateway.rest.dead import error_of
from disque.gateway.rest.queues import OPTIONS, STATES

#: Jobs of one request to a node, and seconds for which one action goes on.
TOGETHER: Final = 200
LONGEST_S: Final = 20.0
#: How many jobs one walk looks at in a step.
STEP: Final = 500
#: Jobs that one action adds again, and how many bodies it holds at one time.
AGAIN_MOST: Final = 5000
BODIES: Final = 20
#: Names of hidden fields end so that hold a name or a text of somebody else's, written as in URLs: browsers change line
#: ends, and cannot send what is no UTF-8.
QUOTED: Final = ".quoted"


class BadFormError(Exception):
    """A form that cannot be meant; the message says why."""


class StoppedError(Exception):
    """A node has refused to go on: how many jobs it was done to before, and what the node said."""

    def __init__(self, done: int, error: DisqueError) -> None:
        super().__init__(str(error))
        self.done = done
        self.error = error


class Form(NamedTuple):
    """What a form says: its fields, the jobs that are chosen in it, and the names of fields that nobody typed."""

    fields: dict[str, str]
    job_ids: list[bytes]
    exact: frozenset[str] = frozenset()

    def need(self, name: str) -> str:
        """A field that must not be empty. Raises BadFormError."""
        value = self.fields.get(name, "")
        value = value if name in self.exact else value.strip()
        if not value:
            raise BadFormError(f"{name.capitalize()} is missing.")
        return value


class Did(NamedTuple):
    """What an action did: to how many jobs, and what else is to be said, by its name in `SAID`."""

    jobs: int
    more: str = ""
    job_id: str = ""


Do = Callable[[Cluster, Form], Awaitable[Did]]


class Action(NamedTuple):
    """A row: what does it, what the nodes must allow (`rights.PROBES`), and the sentence about it."""

    do: Do
    right: str
    said: str


#: What else is to be said.
SAID: Final = {
    "": "",
    "more": "There are more: this took long, so it ended here. Do it again to go on.",
    "unreachable": "Some nodes did not answer.",
}


def read(pairs: Sequence[tuple[str, str]]) -> Form:
    """A form as it was sent. Raises BadFormError."""
    job_ids: list[bytes] = []
    fields: dict[str, str] = {}
    exact: set[str] = set()
    for name, value in pairs:
        if name.endswith(QUOTED):
            exact.add(name.removesuffix(QUOTED))
            fields[name.removesuffix(QUOTED)] = unquote(value, errors="surrogateescape")
            continue
        fields[name] = value
        if name == "id":
            job_id = ids.meant(value)
            if job_id is None:
                raise BadFormError(f"{value[:100]!r} is not the ID of a job.")
            job_ids.append(job_id)
    return Form(fields, job_ids, frozenset(exact))


async def swept(asked: Awaitable[Swept]) -> Did:
    """What all nodes did with a queue."""
    found = await asked
    return Did(found.jobs, "unreachable" if found.unreachable else "")


async def cancel(cluster: Cluster, job_ids: list[bytes], form: Form) -> int:
    """CANCEL: they end, whatever their state."""
    del form
    return await cluster.client.cancel(*job_ids)


async def revive(cluster: Cluster, job_ids: list[bytes], form: Form) -> int:
    """REVIVEJOB: dead letters go back where they died."""
    del form
    return await cluster.client.revive(*job_ids)


async def move(cluster: Cluster, job_ids: list[bytes], form: Form) -> int:
    """MOVE: into another queue."""
    return await cluster.client.move(form.need("to"), *job_ids)


async def run(cluster: Cluster, job_ids: list[bytes], form: Form) -> int:
    """ENQUEUE: what is held back goes into its queue now."""
    del form
    return await holders.run_now(cluster, job_ids)


async def delete(cluster: Cluster, job_ids: list[bytes], form: Form) -> int:
    """CANCEL WAITING: only jobs that no consumer has."""
    del form
    return await cluster.client.cancel(*job_ids, waiting=True)


Some = Callable[[Cluster, list[bytes], Form], Awaitable[int]]


def on_jobs(some: Some) -> Do:
    """An action on the jobs that are chosen, or on all that match."""

    async def do(cluster: Cluster, form: Form) -> Did:
        if form.fields.get("all"):
            return await on_all(cluster, form, some)
        if not form.job_ids:
            raise BadFormError("No job is chosen.")
        return Did(await some(cluster, form.job_ids, form))

    return do


async def on_all(cluster: Cluster, form: Form, some: Some) -> Did:
    """Do it to all jobs of a queue that match."""
    until_s = time.monotonic() + LONGEST_S
    done = 0
    async for new in matching(cluster, form):
        if time.monotonic() > until_s:
            return Did(done, "more")
        for at in range(0, len(new), TOGETHER):
            done += await some(cluster, new[at : at + TOGETHER], form)
    return Did(done)


async def matching(cluster: Cluster, form: Form, usual: tuple[str, ...] = ()) -> AsyncIterator[list[bytes]]:
    """The jobs of a queue that match the state, a header, an error, each once, a part at a time; a part may be empty.

    ``usual`` are the states where the form names none; none: all. Raises BadFormError, DisqueError.
    """
    name = form.need("queue")
    state, header, error = (form.fields.get(one, "") for one in ("state", "header", "error"))
    states = (state,) if state in STATES else usual
    seen: set[bytes] = set()
    cursor: str | None = ""

    async def step(client: AsyncDisque, at: int) -> tuple[int, list[JobInfo]]:
        return await client.scan_job_infos(at, count=STEP, queue=name, states=states)

    while cursor is not None:
        found, cursor = await cursors.walk(cluster, cursor, STEP, step)
        fitting = [
            str(info["id"]).encode()
            for _, info in found
            if has_header(info, header) and ("error" not in form.fields or error_of(info) == error)
        ]
        new = [job_id for job_id in dict.fromkeys(fitting) if job_id not in seen]
        seen.update(new)
        yield new


async def again(cluster: Cluster, form: Form) -> Did:
    """ADDJOB with the body and headers of each job, and the terms that it has where the form says none.

    All are found before the first is added: the new jobs may match, too. Raises BadFormError, DisqueError, and
    StoppedError where it has begun.
    """
    given = terms_of(form)
    if to := form.fields.get("to", "").strip():
        given["queue"] = to
    as_words(cluster, NewJob(**{"queue": "-", "body": b"", **given}))
    job_ids = await all_matching(cluster, form) if form.fields.get("all") else form.job_ids
    if not (job_ids or form.fields.get("all")):
        raise BadFormError("No job is chosen.")
    done = 0
    for at in range(0, len(job_ids), BODIES):
        try:
            infos = await asyncio.gather(*[lookup.find(cluster, job_id) for job_id in job_ids[at : at + BODIES]])
        except DisqueError as error:
            raise StoppedError(done, error) from error
        jobs = [
            NewJob(**{"body": info["body"], **kept(info), **given})
            for info in infos
            if info is not None and (info.get("state") != "acked" or form.fields.get("state") == "acked")
        ]
        asked = [as_words(cluster, job) for job in jobs]
        adding = [cluster.client.execute_command(*words) for words in asked]
        answers = await asyncio.gather(*adding, return_exceptions=True)
        done += sum(not isinstance(answer, BaseException) for answer in answers)
        for answer in answers:
            if isinstance(answer, DisqueError):
                raise StoppedError(done, answer)
            if isinstance(answer, BaseException):
                raise answer
    return Did(done)


async def all_matching(cluster: Cluster, form: Form) -> list[bytes]:
    """All jobs that match, of those that a page lists. Raises BadFormError if they are too many."""
    until_s = time.monotonic() + LONGEST_S
    found: list[bytes] = []
    async for new in matching(cluster, form, SERVED):
        found += new
        if len(found) > AGAIN_MOST:
            raise BadFormError(f"More than {AGAIN_MOST:,} jobs match, so none was added. Choose a state or a header.")
        if time.monotonic() > until_s:
            raise BadFormError("It takes too long to find all that match, so none was added.")
    return found


def as_words(cluster: Cluster, job: NewJob) -> list[bytes]:
    """ADDJOB. A job of RETRY 0 has no second copy, which a cluster wants to be told. Raises BadFormError."""
    if job.retry == 0:
        job = job._replace(replicate=1)
    try:
        return job.words(cluster.client.config.timeout_ms)
    except ValueError as error:
        raise BadFormError(f"{error}.") from None


async def flush(cluster: Cluster, form: Form) -> Did:
    """QFLUSH."""
    return await swept(cluster.client.flush_queue(form.need("queue")))


async def revive_all(cluster: Cluster, form: Form) -> Did:
    """REVIVE."""
    return await swept(cluster.client.revive_queue(form.need("queue")))


async def move_all(cluster: Cluster, form: Form) -> Did:
    """QMOVE."""
    return await swept(cluster.client.move_queue(form.need("queue"), form.need("to")))


async def pause(cluster: Cluster, form: Form) -> Did:
    """PAUSE, at all nodes."""
    how = form.need("how")
    if how not in {"none", "in", "out", "all"}:
        raise BadFormError("A queue is paused in, out, all or none.")
    await cluster.client.pause(form.need("queue"), how, "bcast")
    return Did(1)


async def set_option(cluster: Cluster, form: Form) -> Did:
    """QCONFIG SET, or UNSET where the value is empty."""
    name, option, value = form.need("queue"), form.need("option"), form.fields.get("value", "").strip()
    if option not in OPTIONS:
        raise BadFormError(f"There is no option {option!r}.")
    if value:
        await cluster.client.set_queue_options(name, **{option: value})
    else:
        await cluster.client.unset_queue_options(name, option)
    return Did(1)


async def add(cluster: Cluster, form: Form) -> Did:
    """ADDJOB."""
    given = terms_of(form)
    try:
        given["headers"] = headers_of(form.fields)
    except ValueError as error:
        raise BadFormError(str(error)) from None
    body = form.fields.get("body", "").replace("\r\n", "\n")
    try:
        data = bytes.fromhex(body) if form.fields.get("hex") else body.encode("utf-8", "surrogateescape")
    except ValueError as error:
        raise BadFormError(f"{error}.") from None
    words = as_words(cluster, NewJob(queue_of(form.fields) or form.need("queue"), data, **given))
    job_id = await cluster.client.execute_command(*words)
    return Did(1, job_id=ids.shown(job_id).decode())


def terms_of(form: Form) -> dict[str, Any]:
    """The terms of a job that a form says, as NewJob takes them. Raises BadFormError."""
    given: dict[str, Any] = {}
    for name in ("delay", "ttl", "retry", "retain"):
        if value := form.fields.get(name, "").strip():
            given[name] = number_of(value, name)
    for name in ("tries", "priority"):
        if value := form.fields.get(name, "").strip():
            given[name] = int(number_of(value, name))
    if value := form.fields.get("backoff", "").strip():
        given["backoff"] = value
    return given


def number_of(value: str, name: str) -> float:
    """A number of a form. Raises BadFormError."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadFormError(f"{name.capitalize()} must be a number.")
    return number


def of_schedule(word: str) -> Do:
    """CRON PAUSE, RESUME, DEL."""

    async def do(cluster: Cluster, form: Form) -> Did:
        return Did(int(await cluster.client.execute_command("CRON", word, form.need("name")) or 0))

    return do


async def run_schedule(cluster: Cluster, form: Form) -> Did:
    """CRON RUN."""
    job_id = await cluster.client.run_schedule(form.need("name"))
    return Did(1, job_id=ids.shown(job_id.encode()).decode())


#: All actions by their name in the path.
ACTIONS: Final[dict[str, Action]] = {
    "add": Action(add, "add", "The job was added"),
    "again": Action(again, "add", "Added again"),
    "cancel": Action(on_jobs(cancel), "cancel", "Cancelled"),
    "delete": Action(on_jobs(delete), "cancel", "Deleted"),
    "revive": Action(on_jobs(revive), "revive", "Put back where they died"),
    "run": Action(on_jobs(run), "run", "Queued now"),
    "move": Action(on_jobs(move), "move", "Moved"),
    "flush": Action(flush, "flush", "Deleted"),
    "revive-all": Action(revive_all, "flush", "Put back where they died"),
    "move-all": Action(move_all, "flush", "Moved"),
    "pause": Action(pause, "pause", "The pause was set"),
    "option": Action(set_option, "options", "The option was set"),
    "run-schedule": Action(run_schedule, "cron", "Its job was added"),
    "pause-schedule": Action(of_schedule("PAUSE"), "cron", "The schedule was paused"),
    "resume-schedule": Action(of_schedule("RESUME"), "cron", "The schedule goes on"),
    "delete-schedule": Action(of_schedule("DEL"), "cron", "The schedule was deleted"),
}


def sentence(name: str, count: str, more: str) -> str:
    """What came of an action, from the words of a link; empty if they are nonsense."""
    action = ACTIONS.get(name)
    if action is None or not (count.isascii() and count.isdigit()) or len(count) > 12:
        return ""
    counted = name in {"again", "cancel", "delete", "revive", "run", "move", "flush", "revive-all", "move-all"}
    text = f"{action.said}: {jobs(int(count))}." if counted else f"{action.said}."
    return f"{text} {SAID.get(more, '')}".strip()
