"""A model of one node: what it must keep of jobs, keys and pauses, as plain values, and what restarts make of them."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from disque.core.model.session import Session

NIL = b"*-1\r\n"


@dataclass
class ModelJob:
    number: int
    id: bytes
    queue: bytes
    body: bytes
    retry: int
    created_ms: int
    expires_ms: int
    queued: bool = False
    due_ms: int = 0  # when it will be queued by itself; 0: it will not
    held: bool = False  # by a delay, which a crash must not shorten
    promised_ms: int = 0  # how long that was promised for
    delivered: bool = False
    spent: bool = False
    nacks: int = 0
    deliveries: int = 0
    priority: int = 0
    lease_ms: int = 0  # how long the delivery that goes on lasts; 0: for the RETRY

    def stamp(self) -> tuple[bool, int, int, int]:
        return self.queued, self.due_ms, self.nacks, self.deliveries


@dataclass
class Wait:
    names: list[bytes]
    count: int
    counters: bool
    until_ms: int
    strict: bool = False
    lease_ms: int = 0


@dataclass
class Client:
    number: int
    session: Session
    out: list[bytes] = field(default_factory=list)
    handed: list[tuple[bytes, Any]] = field(default_factory=list)
    wait: Wait | None = None


@dataclass
class Model:
    """What a restart must keep, and nothing else: lines and replies belong to the machine."""

    jobs: dict[bytes, ModelJob] = field(default_factory=dict)
    keys: dict[tuple[bytes, bytes], tuple[bytes, int]] = field(default_factory=dict)
    paused: dict[bytes, int] = field(default_factory=dict)
    #: Spent jobs in the order in which memory may be had from them, and those that were thrown away for it.
    evictable: list[bytes] = field(default_factory=list)
    evicted: set[bytes] = field(default_factory=set)

    def line_up(self, name: bytes) -> list[ModelJob]:
        jobs = [job for job in self.jobs.values() if job.queued and job.queue == name]
        return sorted(jobs, key=lambda job: (-job.priority, job.number))

    def remove(self, job_id: bytes) -> None:
        del self.jobs[job_id]
        if job_id in self.evictable:
            self.evictable.remove(job_id)
        self.keys = {name: key for name, key in self.keys.items() if key != (job_id, 0)}

    def after_crash(self, now_ms: int, *, sure: bool) -> "Model":
        """What a process that starts after a crash must find."""
        found = deepcopy(self)
        for job in self.jobs.values():
            if job.expires_ms <= now_ms or not (job.retry or job.spent or sure):
                found.remove(job.id)
        for job in found.jobs.values():
            job.held = job.held and not job.spent and job.promised_ms > now_ms
            job.due_ms = job.promised_ms if job.held else 0
            job.queued = not job.held and not job.spent
            job.lease_ms = 0
        return found.at(now_ms)

    def after_stop(self, now_ms: int) -> "Model":
        """What a process that starts after a clean stop must find: everything, but time has gone on."""
        found = deepcopy(self)
        for job in self.jobs.values():
            if job.expires_ms <= now_ms:
                found.remove(job.id)
        for job in found.jobs.values():
            job.lease_ms = 0
            if 0 < job.due_ms <= now_ms:
                job.deliveries += job.delivered and not job.held
                job.queued, job.held, job.due_ms = True, False, 0
        return found.at(now_ms)

    def at(self, now_ms: int) -> "Model":
        self.keys = {name: key for name, key in self.keys.items() if not 0 < key[1] <= now_ms}
        return self


@dataclass
class Payload:
    """What one flush wrote, into which segment, when; and what was true last while nothing was written behind it."""

    data: bytes
    segment: int
    written_ms: int
    now_ms: int
    model: Model
    boot: str = ""
    off: bool = False


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def integer(value: int) -> bytes:
    return b":%d\r\n" % value


def error(text: bytes) -> bytes:
    return b"-" + text + b"\r\n"


def encoded(jobs: list[ModelJob], *, counters: bool) -> bytes:
    parts = [b"*%d\r\n" % len(jobs)]
    for job in jobs:
        values = [bulk(job.queue), bulk(job.id), bulk(job.body)]
        if counters:
            values += [bulk(b"nacks"), integer(job.nacks), bulk(b"additional-deliveries"), integer(job.deliveries)]
        parts += [b"*%d\r\n" % len(values), *values]
    return b"".join(parts)
