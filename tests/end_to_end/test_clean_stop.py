"""A clean stop brings everything back as it was, whichever way it was asked for."""

import signal
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import Node, Raw, request, until

PASSING: Final = {b"ttl", b"next-requeue-within", b"next-awake-within"}  # what time changes
SLACK_MS: Final = 60_000


def by_signal(node: Node) -> None:
    node.signal(signal.SIGTERM)


def by_interrupt(node: Node) -> None:
    node.signal(signal.SIGINT)


def by_command(node: Node) -> None:
    node.raw().send(request("SHUTDOWN"))


def with_rewrite(node: Node) -> None:
    node.raw().send(request("SHUTDOWN", "REWRITE-AOF"))


STOPS: Final = (by_signal, by_interrupt, by_command, with_rewrite)


def shown(raw: Raw, job_id: bytes) -> dict[bytes, Any]:
    fields = raw.ask("SHOW", job_id)
    return dict(zip(fields[::2], fields[1::2], strict=True))


def a_bit_of_everything(raw: Raw) -> dict[str, bytes]:
    """Add jobs in all the states in which one node can have them; those that are taken stand first in their queue."""
    ids = {
        "out": raw.ask("ADDJOB", "work", "out", 0, "RETRY", 500),
        "spent": raw.ask("ADDJOB", "work", "spent", 0, "RETRY", 0),
        "held": raw.ask("ADDJOB", "work", "held", 0, "RETRY", 500),
        "nacked": raw.ask("ADDJOB", "work", "nacked", 0, "RETRY", 500),
        "later": raw.ask("ADDJOB", "work", "later", 0, "RETRY", 500),
        "done": raw.ask("ADDJOB", "work", "done", 0, "RETRY", 500),
    }
    assert len(raw.ask("GETJOB", "COUNT", 6, "FROM", "work")) == 6
    assert raw.ask("WORKING", ids["held"]) == 500
    assert raw.ask("NACK", ids["nacked"]) == 1
    assert raw.ask("NACK", ids["later"], "DELAY", 900) == 1
    assert raw.ask("ACKJOB", ids["done"]) == 1
    ids["queued"] = raw.ask("ADDJOB", "work", "queued", 0, "RETRY", 500)
    ids["once"] = raw.ask("ADDJOB", "work", "once", 0, "RETRY", 0)
    ids["delayed"] = raw.ask("ADDJOB", "work", "delayed", 0, "RETRY", 500, "DELAY", 1000)
    ids["delayed once"] = raw.ask("ADDJOB", "work", "delayed once", 0, "RETRY", 0, "DELAY", 1000)
    ids["unique"] = raw.ask("ADDJOB", "work", "unique", 0, "UNIQUE", "key", 600)
    ids["unique done"] = raw.ask("ADDJOB", "work", "unique done", 0, "UNIQUE", "other", 600)
    assert raw.ask("ACKJOB", ids["unique done"]) == 1
    assert raw.ask("PAUSE", "closed", "in") == b"in"
    assert raw.ask("PAUSE", "shut", "all") == b"all"
    return ids


def look(raw: Raw, ids: dict[str, bytes]) -> tuple[Any, ...]:
    """Everything that must be the same after the restart, but for what passes with time."""
    gone = {"done", "unique done"}
    jobs = {name: shown(raw, job_id) for name, job_id in ids.items() if name not in gone}
    lasting = {name: {key: job[key] for key in job.keys() - PASSING} for name, job in jobs.items()}
    queued = [job_id for _, job_id, _ in raw.ask("QPEEK", "work", 100)]
    pauses = [raw.ask("PAUSE", queue, "state") for queue in ("closed", "shut", "work")]
    missing = [raw.ask("SHOW", ids[name]) for name in sorted(gone)]
    return lasting, queued, pauses, missing


def dues(raw: Raw, ids: dict[str, bytes]) -> dict[str, int]:
    names = ("out", "held", "later", "delayed", "delayed once")
    return {name: shown(raw, ids[name])[b"next-awake-within"] for name in names}


@pytest.mark.parametrize("stop", STOPS)
def test_everything_is_as_it_was(start_node: StartNode, stop: Callable[[Node], None]) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "no")
    raw = node.raw()
    ids = a_bit_of_everything(raw)
    before, due_before = look(raw, ids), dues(raw, ids)
    stop(node)
    assert node.ended() == 0
    node.start()
    raw = node.raw()
    assert look(raw, ids) == before
    due_after = dues(raw, ids)
    assert all(due_before[name] - SLACK_MS < due_after[name] <= due_before[name] for name in due_before)
    assert raw.ask("ADDJOB", "work", "again", 0, "UNIQUE", "key", 600) == ids["unique"]
    assert raw.ask("ADDJOB", "work", "again", 0, "UNIQUE", "other", 600) == ids["unique done"]
    assert str(raw.ask("ADDJOB", "closed", "body", 0)).startswith("PAUSED")


def test_two_stops_in_a_row_are_as_good_as_one(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes")
    ids = a_bit_of_everything(node.raw())
    before = look(node.raw(), ids)
    for _ in range(2):
        assert node.stop() == 0
        node.start()
    assert look(node.raw(), ids) == before


def test_a_crash_after_a_clean_stop_still_delivers_at_most_once_jobs_once(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes")
    node.ask("ADDJOB", "work", "once", 0, "RETRY", 0)
    node.stop()
    assert node.start().ask("GETJOB", "FROM", "work")
    node.kill()
    assert node.start().ask("GETJOB", "NOHANG", "FROM", "work") is None


@pytest.mark.parametrize("words", [("SHUTDOWN",), ("SHUTDOWN", "REWRITE-AOF")])
def test_jobs_that_are_added_in_one_breath_with_shutdown_are_kept(
    start_node: StartNode, words: tuple[str, ...]
) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "no")
    raw = node.raw()
    raw.send(b"".join(request("ADDJOB", "work", number, 0) for number in range(50)) + request(*words))
    ids = [raw.reply() for _ in range(50)]
    assert raw.all() == b""
    assert node.ended() == 0
    assert [job_id for _, job_id, _ in node.start().ask("QPEEK", "work", 100)] == ids


def test_shutdown_with_rewrite_writes_the_journal_although_it_is_off(start_node: StartNode) -> None:
    node = start_node()
    job_id = node.ask("ADDJOB", "work", "body", 0)
    node.raw().send(request("SHUTDOWN", "REWRITE-AOF"))
    assert node.ended() == 0
    node.options = ("--aof-enqueue-jobs-once", "yes")
    assert [found for _, found, _ in node.start().ask("QPEEK", "work", 10)] == [job_id]


def test_without_a_journal_a_stop_keeps_nothing(start_node: StartNode) -> None:
    node = start_node()
    node.ask("ADDJOB", "work", "body", 0)
    assert node.stop() == 0
    assert node.segments() == []
    assert node.start().ask("QLEN", "work") == 0


def test_clients_that_wait_are_let_go(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes")
    waiting = node.raw()
    waiting.send(request("GETJOB", "FROM", "work"))
    waiting.send(request("PING"))
    other = node.raw()
    until(lambda: b"cmd=getjob" in other.ask("CLIENT", "LIST"), "the client that waits")
    node.signal(signal.SIGTERM)
    assert waiting.all() == b""
    assert node.ended() == 0


def test_a_second_interrupt_ends_at_once(start_node: StartNode) -> None:
    node = start_node()
    node.raw().send(request("DEBUG", "SLEEP", "0.3"))
    node.signal(signal.SIGINT)
    node.signal(signal.SIGINT)
    assert node.ended() in {0, 1}


def test_a_stop_while_the_journal_loads_leaves_it_as_it_is(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes", "--appendfsync", "no")
    raw = node.raw()
    for _ in range(30):
        raw.send(request("ADDJOB", "work", b"x" * 100, 0) * 1000)
        for _ in range(1000):
            raw.reply()
    node.kill()
    node.launch()
    node.await_log("Server started")
    node.signal(signal.SIGTERM)
    assert node.ended() in {0, -signal.SIGTERM}  # the signal may come before anybody listens for it
    assert node.start().ask("QLEN", "work") == 30_000
