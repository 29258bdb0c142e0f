"""Many jobs at once: ADDJOBs that are sent together, in parts of bounded size."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Final, Literal, TypeAlias, TypedDict

from disque.client.config import Config
from disque.client.delivery import Flow, Parcel, deliver
from disque.client.errors import DisqueError, UnexpectedReplyError
from disque.client.newjob import NewJob
from disque.client.packing import pack
from disque.client.replies import job_id
from disque.client.requests import ack, say_counted
from disque.client.router import Router
from disque.client.terms import Backoff
from disque.client.values import Body, Duration, Name, body_word, id_words, name_word, number_word

AnyNewJob: TypeAlias = NewJob | tuple[Name, Body]
Errors: TypeAlias = Literal["raise", "return"]

#: Bytes of packed requests at which a part ends, however few jobs they are.
BYTES_MOST: Final = 1 << 20
#: Jobs in a part, unless said otherwise.
PIPELINE: Final = 1000
#: These are no pairs, even if they have two letters.
TEXTS: Final[tuple[type, ...]] = (str, bytes, bytearray, memoryview)
#: IDs in one ACKJOB.
IDS_MOST: Final = 1000


class BatchOptions(TypedDict, total=False):
    """What `Disque.add` takes, for all jobs of a batch; ``window`` is for those that are unique."""

    timeout_ms: int | None
    delay: Duration | None
    retry: Duration | None
    ttl: Duration | None
    replicate: int | None
    maxlen: int | None
    background: bool
    window: Duration | None
    tries: int | None
    backoff: Backoff | str | None
    deadletter: Name | None
    priority: int | None
    headers: Mapping[Name, Name] | None
    at: datetime | float | None
    retain: Duration | None


class Packer:
    """Packs jobs as ADDJOBs with the options of a batch, which those of a job override."""

    def __init__(self, config: Config, options: BatchOptions) -> None:
        timeout_ms = options.get("timeout_ms")
        own = {name: value for name, value in options.items() if name not in {"timeout_ms", "window"}}
        self.timeout_ms = config.timeout_ms if timeout_ms is None else timeout_ms
        self.defaults = NewJob("", b"", **own)  # type: ignore[arg-type]  # each has the type of its field
        self._window = options.get("window")
        self._timeout = number_word(self.timeout_ms, "timeout_ms")
        self._options = self.defaults.options()
        self._has_defaults = bool(own) or self._window is not None

    def pack(self, job: AnyNewJob) -> bytes:
        """The bytes of one request. Raises TypeError, ValueError."""
        if len(job) == 2 and not isinstance(job, TEXTS):
            queue, body = job
            return pack([b"ADDJOB", name_word(queue), body_word(body), self._timeout, *self._options])
        if not isinstance(job, NewJob):
            raise TypeError(f"a NewJob or a pair of queue and body is expected, not {type(job).__name__}")
        if not self._has_defaults:
            return pack(job.words(self.timeout_ms))
        whole = [own if own is not None else default for own, default in zip(job, self.defaults, strict=True)]
        merged = NewJob._make(whole)._replace(background=job.background or self.defaults.background)
        if job.unique is not None and job.window is None:
            merged = merged._replace(window=self._window)
        if job.at is not None and job.delay is None:  # one job says when, in place of what the batch says
            merged = merged._replace(delay=None)
        elif job.delay is not None and job.at is None:
            merged = merged._replace(at=None)
        return pack(merged.words(self.timeout_ms))


def parts(jobs: Iterable[AnyNewJob], packer: Packer, most: int) -> Iterator[list[bytes]]:
    """Packed jobs in parts of so many, or of `BYTES_MOST`; jobs are taken as late as possible."""
    if most < 1:
        raise ValueError(f"pipeline must be at least 1, not {most}")
    part: list[bytes] = []
    size = 0
    for job in jobs:
        packed = packer.pack(job)
        part.append(packed)
        size += len(packed)
        if len(part) == most or size >= BYTES_MOST:
            yield part
            part, size = [], 0
    if part:
        yield part


def add_parts(
    router: Router, config: Config, jobs: Iterable[AnyNewJob], packer: Packer, pipeline: int, errors: Errors
) -> Flow[list[str | DisqueError]]:
    """Add jobs, part after part: an ID for each, or what the node refused it with.

    With ``errors`` "raise" the first refusal is raised behind the part that it is in. Whatever is raised by a node has
    in ``results`` what came of the jobs so far.
    """
    wait_ms = packer.timeout_ms or None
    results: list[str | DisqueError] = []
    for part in parts(jobs, packer, pipeline):
        try:
            replies = yield from deliver(router, config, Parcel(part, wait_ms))
        except DisqueError as error:
            error.results = [*results, *map(result, error.results)]
            raise
        results += map(result_of_answer, replies)
        if errors == "raise":
            raise_first(results, len(replies))
    return results


def result_of_answer(reply: object) -> str | DisqueError:
    """An ID, or an error."""
    try:
        return reply if isinstance(reply, DisqueError) else job_id(reply)
    except UnexpectedReplyError as error:
        return error


def result(reply: object) -> str | DisqueError | None:
    """The same, or None where there was no answer."""
    return None if reply is None else result_of_answer(reply)


def raise_first(results: list[str | DisqueError], last: int) -> None:
    """Raise the first error among the last so many results, if there is one."""
    for one in islice(results, len(results) - last, None):
        if isinstance(one, DisqueError):
            one.results = results
            raise one


def ack_parts(router: Router, config: Config, ids: Iterable[Name]) -> Flow[int]:
    """Acknowledge any number of jobs, some at a time: how many were known and not done."""
    words = id_words(ids)
    groups = [words[at : at + IDS_MOST] for at in range(0, len(words), IDS_MOST)]
    return (yield from say_counted(router, config, groups, lambda group: ack(config, *group)))
