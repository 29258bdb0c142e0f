"""What lmstfy's routes do with jobs, in the words of the cluster.

A namespace is the beginning of the names of queues (`namespace/queue`). Tries count deliveries: TRIES and a LEASE for
each. ttr is the LEASE, and ttl 0 the longest TTL. Dead letters are jobs in the queue with `:dead` behind its name.
Attributes are headers.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Final

from disque.client import AsyncDisque, DisqueError
from disque.client.replies import JobInfo
from disque.gateway import figures, ids, lookup
from disque.gateway.asgi import as_json, header
from disque.gateway.hub import Hub
from disque.gateway.lmstfy import names
from disque.gateway.lmstfy.call import NOTHING, Call, RefusedError, Reply, failure
from disque.gateway.lmstfy.query import U16, U32, number, signed
from disque.gateway.taken import Taken, id_of

#: Bytes of a job, and jobs of one request.
BODY_MOST: Final = 1 << 20
BULK_MOST: Final = 64
#: Bytes of a bulk: its jobs, and what may stand between them.
BULK_BYTES: Final = BULK_MOST * BODY_MOST + (1 << 16)
CONSUMED_MOST: Final = 100
#: Attributes of a job, and bytes of their names and values.
ATTRIBUTES_MOST: Final = 16
KEY_MOST: Final = 32
VALUE_MOST: Final = 128
ATTRIBUTE: Final = b"job-attr-"
#: Seconds of a TTL that stands for none. What has more than half of it left is shown as one without an end.
FOREVER_S: Final = U32
#: Jobs that are looked at in one step of emptying a queue.
EMPTIED: Final = 1000

NO_JOB: Final = Reply(404, b'{"msg":"no job available"}')
EMPTY: Final = failure(404, "the queue is empty")
NO_SUCH_JOB: Final = failure(404, "job not found")


class Jobs:
    """The routes of a gateway."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.cluster = hub.clusters.own
        self._timeout = b"%d" % self.cluster.client.config.timeout_ms

    # -- produce ---------------------------------------------------------------------------------------------------

    async def publish(self, call: Call) -> Reply:
        """PUT: add a job; with the ID of another one, acknowledge that first."""
        if call.job_id:
            await self.delete(call)
        options = publish_options(call)
        body = await self.hub.reading.body(call.receive, BODY_MOST)
        options += attributes(call)
        job_id = await self._add(names.inside(call.namespace, call.queue), body, options)
        self._published(call, 1, options)
        return Reply(201, b'{"job_id":"%b","msg":"published"}' % ids.shown(job_id))

    async def publish_bulk(self, call: Call) -> Reply:
        """PUT bulk: add a job for each element of an array."""
        options = publish_options(call)
        bodies = elements(await self.hub.reading.body(call.receive, BULK_BYTES))
        if not bodies:
            raise RefusedError(400, "no jobs")
        if len(bodies) > BULK_MOST:
            raise RefusedError(400, "too many jobs")
        if max(map(len, bodies)) > BODY_MOST:
            raise RefusedError(413, "job too large")
        options += attributes(call)
        queue = names.inside(call.namespace, call.queue)
        asked = [self.cluster.adding.ask(self._words(queue, body, options)) for body in bodies]
        added = [ids.shown(id_of(await one)) for one in asked]
        self._published(call, len(added), options)
        return Reply(201, b'{"job_ids":["%b"],"msg":"published"}' % b'","'.join(added))

    def _published(self, call: Call, jobs: int, options: list[bytes]) -> None:
        if self.hub.lmstfy is not None:
            self.hub.lmstfy.published(call.namespace, call.queue, jobs, delayed=b"DELAY" in options)

    def _words(self, queue: bytes, body: bytes, options: list[bytes]) -> list[bytes]:
        return [b"ADDJOB", queue, body, self._timeout, *options]

    async def _add(self, queue: bytes, body: bytes, options: list[bytes]) -> bytes:
        return id_of(await self.cluster.adding.ask(self._words(queue, body, options)))

    # -- consume ---------------------------------------------------------------------------------------------------

    async def consume(self, call: Call) -> Reply:
        """GET: take one job or several, or wait for one. The first queue that has any is emptied first."""
        query = call.query
        ttr = number(query.get("ttr", "120"), U32)
        timeout = number(query.get("timeout", "0"), U32)
        count = number(query.get("count", "1"), U32)
        if ttr is None:
            raise RefusedError(400, "invalid ttr")
        if timeout is None:
            raise RefusedError(400, "invalid timeout")
        if count is None or not 0 < count <= CONSUMED_MOST:
            raise RefusedError(400, "invalid count")
        queues = tuple(names.inside(call.namespace, queue) for queue in call.queue.split(",") if queue)
        if not queues:
            raise RefusedError(400, "invalid queue name(s)")
        how = (b"LEASE", b"%d" % (ttr or 1), b"STRICT")  # lmstfy looks once a second, too
        jobs = await self.cluster.take(queues, count, how, timeout, call.receive)
        if not jobs:
            return NO_JOB
        cut = len(call.namespace) + 1
        if self.hub.lmstfy is not None:
            self._consumed(call.namespace, jobs, several=len(queues) > 1)
        if count == 1:
            return Reply(200, shown(jobs[0], call.namespace, cut))
        return Reply(200, b"[%b]" % b",".join([shown(job, call.namespace, cut) for job in jobs]))

    def _consumed(self, namespace: str, jobs: list[Taken], *, several: bool) -> None:
        """Count what was consumed."""
        assert self.hub.lmstfy is not None
        for job in jobs:
            self.hub.lmstfy.consumed(namespace, text(job.queue)[len(namespace) + 1 :], job.job_id, job.created_ms_ago)
        self.hub.lmstfy.count("consume_multi_jobs", len(jobs) * several)

    async def delete(self, call: Call) -> Reply:
        """DELETE job: acknowledge it. It is no error if there is none."""
        job_id = ids.meant(call.job_id)
        if self.hub.lmstfy is not None:
            self.hub.lmstfy.acknowledged(call.namespace, call.queue, job_id)
        if job_id is not None:
            await self.cluster.asking.ask([b"ACKJOB", job_id])
        return NOTHING

    async def peek_job(self, call: Call) -> Reply:
        """GET job: look at it, wherever it is, as long as it is one of this queue."""
        job_id = ids.meant(call.job_id)
        info = None if job_id is None else await lookup.find(self.cluster, job_id)
        queue = f"{call.namespace}/{call.queue}"
        if info is None or info["body"] is None or info["queue"] not in {queue, f"{queue}:dead"}:
            return NO_SUCH_JOB
        return Reply(200, self._shown(info, call, remain_tries=0))

    # -- queues ----------------------------------------------------------------------------------------------------

    async def peek(self, call: Call) -> Reply:
        """GET peek: the job that has waited longest."""
        info = await self._oldest(names.inside(call.namespace, call.queue))
        if info is None:
            return EMPTY
        left = info.get("tries_left")
        return Reply(200, self._shown(info, call, remain_tries=left if isinstance(left, int) else 0))

    async def _oldest(self, queue: bytes) -> JobInfo | None:
        """The oldest job of a queue at any node."""

        async def first(client: AsyncDisque) -> JobInfo | None:
            found = await client.peek(queue, 1)
            return await client.show(found[0].id) if found else None

        answers = await self.cluster.at_each(first)
        found = [info for _, info in answers if isinstance(info, dict)]
        return min(found, key=lambda info: info["ctime"]) if found else None  # type: ignore[arg-type,return-value]  # int

    async def size(self, call: Call) -> Reply:
        """GET size."""
        return await self._size(call, names.inside(call.namespace, call.queue))

    async def dead_size(self, call: Call) -> Reply:
        """GET deadletter/size."""
        return await self._size(call, names.dead(call.namespace, call.queue))

    async def _size(self, call: Call, queue: bytes) -> Reply:
        size = await figures.length(self.cluster, queue)
        return Reply(200, as_json({"namespace": call.namespace, "queue": call.queue, "size": size}))

    async def destroy(self, call: Call) -> Reply:
        """DELETE: what is queued is gone; what is delayed or in flight stays."""
        queue = names.inside(call.namespace, call.queue)

        async def empty(client: AsyncDisque) -> None:
            met: set[str] = set()
            while found := [job for job in await client.peek(queue, EMPTIED) if job.id not in met]:
                await client.cancel(*[job.id for job in found], waiting=True)
                met.update(job.id for job in found)

        for _, answer in await self.cluster.at_each(empty):
            if isinstance(answer, DisqueError):
                raise answer
        return NOTHING

    # -- dead letters ----------------------------------------------------------------------------------------------

    async def peek_dead(self, call: Call) -> Reply:
        """GET deadletter: how many there are, and the oldest."""
        queue = names.dead(call.namespace, call.queue)
        size = await figures.length(self.cluster, queue)
        info = await self._oldest(queue) if size else None
        head = "" if info is None else ids.shown(str(info["id"]).encode()).decode()
        shown = {"deadletter_head": head, "deadletter_size": size, "namespace": call.namespace, "queue": call.queue}
        return Reply(200, as_json(shown))

    async def respawn(self, call: Call) -> Reply:
        """PUT deadletter: put some back, with tries and TTL as at first."""
        limit = number_of(call, "limit", "1")
        ttl = signed(call.query.get("ttl", "86400"))
        if ttl is None or ttl < 0:
            raise RefusedError(400, "invalid ttl")
        swept = await self.cluster.client.revive_queue(names.dead(call.namespace, call.queue), count=limit)
        if self.hub.lmstfy is not None:
            self.hub.lmstfy.count("deadletter_respawn_jobs", swept.jobs)
        return Reply(200, as_json({"count": swept.jobs, "msg": "respawned"}))

    async def delete_dead(self, call: Call) -> Reply:
        """DELETE deadletter: some are gone."""
        limit = number_of(call, "limit", "1")
        await self.cluster.client.flush_queue(names.dead(call.namespace, call.queue), count=limit)
        return NOTHING

    def _shown(self, info: JobInfo, call: Call, remain_tries: int) -> bytes:
        """A job that was looked at."""
        born_ms = int(str(info["ctime"])) // 1_000_000
        given = info.get("headers")
        return as_json(
            {
                "attributes": lower(given.items()) if isinstance(given, dict) and given else None,
                "data": b64encode(info["body"] if isinstance(info["body"], bytes) else b"").decode(),
                "elapsed_ms": max(0, int(self.hub.wall_s() * 1000) - born_ms),
                "job_id": ids.shown(str(info["id"]).encode()).decode(),
                "namespace": call.namespace,
                "queue": call.queue,
                "remain_tries": remain_tries,
                "ttl": left_s(int(str(info["ttl"])) * 1000),
            }
        )


def number_of(call: Call, name: str, default: str) -> int:
    """A number above 0 of the query. Raises RefusedError."""
    value = signed(call.query.get(name, default))
    if value is None or value <= 0:
        raise RefusedError(400, f"invalid {name}")
    return value


def publish_options(call: Call) -> list[bytes]:
    """Delay, TTL and tries as options of ADDJOB. Raises RefusedError."""
    query = call.query
    delay = number(query.get("delay", "0"), U32)
    if delay is None:
        raise RefusedError(400, "invalid delay")
    ttl = number(query.get("ttl", "86400"), U32)
    if ttl is None:
        raise RefusedError(400, "invalid ttl")
    if 0 < ttl < delay:
        raise RefusedError(400, "ttl is shorter than delay")
    tries = number(query.get("tries", "1"), U16)
    if tries is None:
        raise RefusedError(400, "invalid tries")
    if not tries:
        raise RefusedError(400, "tries shouldn't be zero")
    ttl = ttl or FOREVER_S
    if delay >= ttl:  # it ends in the moment in which it is due, which the cluster would refuse
        delay, ttl = (delay, ttl + 1) if ttl < FOREVER_S else (ttl - 1, ttl)
    options = [b"TTL", b"%d" % ttl, b"TRIES", b"%d" % tries]
    return [*options, b"DELAY", b"%d" % delay] if delay else options


def attributes(call: Call) -> list[bytes]:
    """Attributes of a job as options of ADDJOB. Raises RefusedError."""
    if header(call.scope, b"enable-job-version") != b"YES":
        return []
    found: dict[bytes, bytes] = {}
    for name, value in call.scope["headers"]:
        if name.startswith(ATTRIBUTE) and len(name) > len(ATTRIBUTE):
            found.setdefault(name[len(ATTRIBUTE) :][:KEY_MOST], value[:VALUE_MOST])
    if len(found) > ATTRIBUTES_MOST:
        raise RefusedError(400, "too many attributes, cannot exceed 16")
    return [word for name, value in found.items() for word in (b"HEADER", name, value)]


def elements(body: bytes) -> list[bytes]:
    """The elements of a JSON array, each as it is written. Raises RefusedError."""
    text = body.decode("utf-8", "surrogateescape")
    try:
        parsed = _Elements(text).read()
    except (ValueError, RecursionError):
        raise RefusedError(400, "request body should be an array of objects") from None
    return [part.encode("utf-8", "surrogateescape") for part in parsed]


class _Elements:
    """Reads an array, and notes where its elements are."""

    SPACE: Final = " \t\n\r"

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._decode = json.JSONDecoder(
            parse_int=str, parse_float=str, parse_constant=_no_json
        ).raw_decode  # numbers are not looked at, and may have any length

    def read(self) -> list[str]:
        """The elements; none for null. Raises ValueError."""
        self._skip()
        if self.text.startswith("null", self.at):
            self.at += 4
            return self._ended([])
        self._take("[")
        parts: list[str] = []
        self._skip()
        while self.text[self.at : self.at + 1] != "]":
            if parts:
                self._take(",")
                self._skip()
            _, end = self._decode(self.text, self.at)
            parts.append(self.text[self.at : end])
            self.at = end
            self._skip()
        self._take("]")
        return self._ended(parts)

    def _ended(self, parts: list[str]) -> list[str]:
        self._skip()
        if self.at != len(self.text):
            raise ValueError
        return parts

    def _take(self, sign: str) -> None:
        if self.text[self.at : self.at + 1] != sign:
            raise ValueError
        self.at += 1

    def _skip(self) -> None:
        while self.text[self.at : self.at + 1] in self.SPACE and self.at < len(self.text):
            self.at += 1


def _no_json(name: str) -> object:
    raise ValueError(name)


def left_s(left_ms: int) -> int:
    """The rest of a TTL in seconds, rounded up; 0 for one without an end."""
    return 0 if left_ms > FOREVER_S * 500 else -(-left_ms // 1000)


def lower(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Attributes as lmstfy shows them."""
    return {name.lower(): value for name, value in pairs}


def shown(job: Taken, namespace: str, cut: int) -> bytes:
    """A job that was just delivered. Its name and ID have no signs that JSON would write otherwise."""
    headers, left = job.headers, job.tries_left
    return (
        b'{"attributes":%b,"data":"%b","elapsed_ms":%d,"job_id":"%b","msg":"new job","namespace":"%b","queue":"%b",'
        b'"remain_tries":%d,"ttl":%d}'
        % (
            as_json(lower([(text(name), text(value)) for name, value in headers.items()])) if headers else b"null",
            b64encode(job.body),
            job.created_ms_ago,
            ids.shown(job.job_id),
            namespace.encode(),
            job.queue[cut:],
            left - 1 if left else 0,
            left_s(job.ttl_ms),
        )
    )


def text(word: bytes) -> str:
    """A word as text."""
    return word.decode("utf-8", "replace")
