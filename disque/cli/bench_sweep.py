"""Removing from a server what a run has left there.

Jobs are acknowledged, not deleted: ACKJOB reaches the copies on other nodes too.
"""

from typing import Final

from disque.cli.bench_lane import IdStore
from disque.cli.bench_options import WORKLOADS, Options
from disque.cli.bench_resp import Reply
from disque.cli.bench_target import Control, open_socket

_IDS: Final = 500
_QUEUES: Final = 100
_REPLY_BYTES: Final = 1 << 20


def sweep(options: Options, queues: list[bytes], job_ids: IdStore) -> None:
    """Remove the jobs of `job_ids` and of `queues`, and on a Redis server the keys that begin like the queues.

    Raises BenchError when the server does not play along.
    """
    control = Control(open_socket(options.address), options.address)
    kinds = {WORKLOADS[name].server for name in options.workloads}
    try:
        if "redis" in kinds:
            _unlink(control, queues)
        if "disque" in kinds:
            _acknowledge(control, job_ids)
            _drain(control, queues, max(1, min(_IDS, _REPLY_BYTES // (options.body_bytes + 64))))
        if "disque" in kinds and options.delay_s:
            _search(control, queues)
    finally:
        control.close()


def _acknowledge(control: Control, job_ids: IdStore) -> None:
    while batch := job_ids.take(_IDS):
        control.call(b"ACKJOB", *batch)


def _drain(control: Control, queues: list[bytes], count: int) -> None:
    for first in range(0, len(queues), _QUEUES):
        some = queues[first : first + _QUEUES]
        while jobs := control.call(b"GETJOB", b"NOHANG", b"COUNT", b"%d" % count, b"FROM", *some):
            assert isinstance(jobs, list)
            control.call(b"ACKJOB", *[_id_of(job) for job in jobs])


def _id_of(job: Reply) -> bytes:
    assert isinstance(job, list)
    job_id = job[1]
    assert isinstance(job_id, bytes)
    return job_id


def _search(control: Control, queues: list[bytes]) -> None:
    """Find delayed jobs, which no GETJOB gives."""
    for queue in queues:
        for found in _scan(control, b"JSCAN", b"QUEUE", queue):
            control.call(b"ACKJOB", *found)


def _unlink(control: Control, keys: list[bytes]) -> None:
    prefix = keys[0].rpartition(b"-")[0]
    for found in _scan(control, b"SCAN", b"MATCH", prefix + b"-*"):
        control.call(b"UNLINK", *found)


def _scan(control: Control, command: bytes, *words: bytes) -> "list[list[bytes]]":
    cursor, batches = b"0", []
    while True:
        reply = control.call(command, cursor, b"COUNT", b"1000", *words)
        assert isinstance(reply, list)
        cursor_reply, found = reply
        assert isinstance(found, list)
        assert isinstance(cursor_reply, bytes)
        names = [name for name in found if isinstance(name, bytes)]
        batches += [names[first : first + _IDS] for first in range(0, len(names), _IDS)]
        cursor = cursor_reply
        if cursor == b"0":
            return batches
