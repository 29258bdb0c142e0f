"""kill -9 in the middle of a load: what was answered is there, under every fsync policy, since the kernel lives on."""

from typing import Final

import pytest

from tests.conftest import rarely
from tests.end_to_end.conftest import StartNode
from tests.end_to_end.load import QUEUE, Account, bodies_left, crash_under_load, load
from tests.end_to_end.node import Node, ServerError, request, until

POLICIES: Final = ("always", *rarely("everysec", "no"))
JOBS: Final = 5000


def journaled(start_node: StartNode, *options: str, fsync: str = "always") -> Node:
    return start_node("--appendonly", "yes", "--appendfsync", fsync, *options)


@pytest.mark.parametrize("fsync", POLICIES)
def test_nothing_that_was_answered_is_lost_over_several_crashes(start_node: StartNode, fsync: str) -> None:
    node = journaled(start_node, fsync=fsync)
    account = Account()
    for _ in range(3):
        crash_under_load(node, account, JOBS)
        node.start()
    account.check(bodies_left(node))


@pytest.mark.parametrize("fsync", POLICIES)
def test_small_segments_that_are_rewritten_all_the_time_lose_nothing(start_node: StartNode, fsync: str) -> None:
    options = ("--aof-segment-size", "64kb", "--auto-aof-rewrite-percentage", "10", "--auto-aof-rewrite-min-size", "1")
    node = journaled(start_node, *options, fsync=fsync)
    account = Account()
    for compactions in (1, 4):
        with load(node, account):
            until(lambda: node.log().count("Starting automatic compaction") >= compactions, "a compaction")  # noqa: B023 - called at once
            node.kill()
        account.crashes += 1
        node.start()
    assert int(node.segments()[-1].suffix[1:]) > 4, "no segments were written"
    account.check(bodies_left(node))


def test_a_rewrite_that_is_asked_for_under_load_loses_nothing(start_node: StartNode) -> None:
    node = journaled(start_node)
    account = Account()
    goal = 0
    with load(node, account):
        for finished in range(3):
            goal += 2000
            until(lambda: len(account.added) >= goal, "jobs")  # noqa: B023 - called at once
            until(lambda: node.log().count("compacted") >= finished, "the rewrite before")  # noqa: B023 - called at once
            assert node.ask("BGREWRITEAOF") == b"Background append only file rewriting started"
        node.kill()
    account.crashes += 1
    account.check(bodies_left(node.start()))


def test_the_journal_can_be_switched_off_and_on_under_load(start_node: StartNode) -> None:
    node = journaled(start_node)
    account = Account()
    with load(node, account):
        for value in ("no", "yes", "no", "yes"):
            goal = len(account.added) + 300
            until(lambda: len(account.added) >= goal or account.errors, "jobs")  # noqa: B023 - called at once
            assert node.ask("CONFIG", "SET", "appendonly", value) == b"OK"
        until(lambda: node.info("aof_state") == "on", "the journal")
        goal = len(account.added) + 300
        until(lambda: len(account.added) >= goal or account.errors, "jobs")
        node.kill()
    account.crashes += 1
    account.check(bodies_left(node.start()))


def test_the_policy_can_be_changed_under_load(start_node: StartNode) -> None:
    node = journaled(start_node)
    account = Account()
    with load(node, account):
        for policy in ("no", "everysec", "always", "everysec", "always"):
            goal = len(account.added) + 200
            until(lambda: len(account.added) >= goal or account.errors, "jobs")  # noqa: B023 - called at once
            assert node.ask("CONFIG", "SET", "appendfsync", policy) == b"OK"
        node.kill()
    account.crashes += 1
    account.check(bodies_left(node.start()))


def test_an_at_most_once_job_that_was_delivered_does_not_come_back(start_node: StartNode) -> None:
    node = journaled(start_node)
    taken, left = (node.ask("ADDJOB", QUEUE, body, 0, "RETRY", 0) for body in ("taken", "left"))
    assert node.ask("GETJOB", "FROM", QUEUE) == [[QUEUE.encode(), taken, b"taken"]]
    node.kill()
    assert node.start().ask("GETJOB", "NOHANG", "COUNT", 10, "FROM", QUEUE) == [[QUEUE.encode(), left, b"left"]]


def test_a_job_that_was_out_comes_back_at_once_and_counts_the_delivery(start_node: StartNode) -> None:
    node = journaled(start_node)
    job_id = node.ask("ADDJOB", QUEUE, "body", 0, "RETRY", 3600)
    node.ask("GETJOB", "FROM", QUEUE)
    node.kill()
    node.start()
    assert node.ask("GETJOB", "NOHANG", "WITHCOUNTERS", "FROM", QUEUE)[0][:2] == [QUEUE.encode(), job_id]


def test_a_load_of_the_journal_forgets_and_reads_everything_again(start_node: StartNode) -> None:
    node = journaled(start_node, fsync="no")
    raw = node.raw()
    raw.send(b"".join(request("ADDJOB", QUEUE, str(number), 0) for number in range(100)))
    ids = [raw.reply() for _ in range(100)]
    assert raw.ask("ACKJOB", *ids[:50]) == 50
    for _ in range(2):
        assert raw.ask("DEBUG", "LOADAOF") == b"OK"
        assert raw.ask("QLEN", QUEUE) == 50
    late = raw.ask("ADDJOB", QUEUE, "late", 0)
    node.kill()
    assert [job_id for _, job_id, _ in node.start().ask("QPEEK", QUEUE, 100)] == [*ids[50:], late]


def test_clients_are_told_while_a_long_journal_loads(start_node: StartNode) -> None:
    node = journaled(start_node, fsync="no")
    raw = node.raw()
    body = b"x" * 100
    for _ in range(60):
        raw.send(request("ADDJOB", QUEUE, body, 0, "RETRY", 3600) * 1000)
        for _ in range(1000):
            raw.reply()
    node.kill()
    node.launch()
    refusals = []

    def loaded() -> bool:
        try:
            reply = node.ask("QLEN", QUEUE)
        except OSError:
            return False
        if isinstance(reply, ServerError):
            refusals.append(str(reply))
            assert node.ask("INFO", "persistence")
            return False
        return bool(reply == 60_000)

    until(loaded, "the load")
    assert refusals
    assert set(refusals) == {"LOADING Disque is loading the dataset in memory"}


@pytest.mark.parametrize("fsync", POLICIES)
def test_small_promises_survive_too(start_node: StartNode, fsync: str) -> None:
    node = journaled(start_node, fsync=fsync)
    ask = node.raw().ask
    ask("ADDJOB", "gone", "body", 0)
    assert ask("DEBUG", "FLUSHALL") == b"OK"
    nacked, later, deleted, unique = (ask("ADDJOB", QUEUE, body, 0, "UNIQUE", body, 600) for body in "abcd")
    ask("GETJOB", "COUNT", 4, "FROM", QUEUE)
    assert ask("NACK", nacked) == 1
    assert ask("NACK", later, "DELAY", 500) == 1
    assert ask("DELJOB", deleted) == 1
    assert ask("ACKJOB", unique) == 1
    delayed = ask("ADDJOB", QUEUE, "delayed", 0, "DELAY", 500, "RETRY", 0)
    assert ask("PAUSE", "closed", "in") == b"in"
    node.kill()
    ask = node.start().raw().ask
    assert ask("QLEN", "gone") == 0
    assert [job[:2] + job[4:5] for job in ask("GETJOB", "NOHANG", "WITHCOUNTERS", "COUNT", 10, "FROM", QUEUE)] == [
        [QUEUE.encode(), nacked, 1]
    ]
    assert ask("SHOW", later)[5] == b"active"
    assert ask("SHOW", delayed)[5] == b"active"
    assert ask("SHOW", deleted) is None
    assert ask("SHOW", unique) is None
    assert ask("ADDJOB", QUEUE, "again", 0, "UNIQUE", "d", 600) == unique
    assert ask("PAUSE", "closed", "state") == b"in"


@pytest.mark.parametrize("fsync", POLICIES)
def test_a_crash_while_the_journal_that_was_switched_on_is_still_written(start_node: StartNode, fsync: str) -> None:
    node = journaled(start_node, fsync=fsync)
    raw = node.raw()
    for _ in range(20):
        raw.send(request("ADDJOB", QUEUE, b"x" * 100, 0, "RETRY", 3600) * 1000)
        for _ in range(1000):
            raw.reply()
    assert raw.ask("CONFIG", "SET", "appendonly", "no") == b"OK"
    raw.send(request("CONFIG", "SET", "appendonly", "yes") + request("ADDJOB", "new", "body", 0, "RETRY", 3600))
    assert raw.reply() == b"OK"
    job_id = raw.reply()
    node.kill()
    node.start()
    assert node.ask("QPEEK", "new", 2) == [[b"new", job_id, b"body"]]
    assert node.ask("QLEN", QUEUE) == 20_000


def test_a_rewrite_that_a_crash_interrupts_changes_nothing(start_node: StartNode) -> None:
    node = journaled(start_node, fsync="no")
    raw = node.raw()
    for _ in range(20):
        raw.send(request("ADDJOB", QUEUE, b"x" * 100, 0, "RETRY", 3600) * 1000)
        for _ in range(1000):
            raw.reply()
    for _ in range(3):
        assert node.ask("BGREWRITEAOF") == b"Background append only file rewriting started"
        node.kill()
        assert node.start().ask("QLEN", QUEUE) == 20_000
