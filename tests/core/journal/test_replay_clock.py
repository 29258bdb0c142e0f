"""What a start does when its clock is far ahead of the journal: the clock may be wrong, so nothing expires at once."""

from disque.core import step
from disque.core.journal.codec import encode
from disque.core.journal.replay import FAR_AHEAD_MS, Replay
from disque.core.journal.schema import FORMAT, HEAD, Record
from disque.core.node import Node
from tests.core.support import START_MS, Bench

GRACE_MS = 15_000
BOOT = "boot 1"


def journal_of(*adds: tuple[object, ...]) -> tuple[list[bytes], list[bytes]]:
    """The IDs of jobs that were added, and the payloads that tell of them."""
    bench = Bench(journaling=True)
    client = bench.client()
    ids = [client.add("q", "b", *[str(word) for word in options]) for options in adds]
    head: Record = (HEAD, FORMAT, bench.node.node_id, BOOT.encode(), b"everysec")
    return ids, encode([head, *bench.records()], START_MS)


def start(payloads: list[bytes], now_ms: int) -> Node:
    node = Bench().node
    reader = Replay(node, BOOT)
    for payload in payloads:
        reader.apply(payload, 1)
    for _ in reader.finish(now_ms, GRACE_MS):
        pass
    return node


def test_jobs_that_seem_expired_are_kept_for_the_grace_and_not_given_out() -> None:
    ids, payloads = journal_of(("TTL", 60))
    now_ms = START_MS + FAR_AHEAD_MS + 1
    node = start(payloads, now_ms)
    assert node.find(ids[0]) is not None
    assert b"q" not in node.queues
    step.tick(node, now_ms + GRACE_MS - 1)
    assert node.find(ids[0]) is not None
    step.tick(node, now_ms + GRACE_MS)
    assert node.find(ids[0]) is None
    assert node.jobs_registered() == 0


def test_jobs_that_live_on_are_queued_at_once_all_the_same() -> None:
    ids, payloads = journal_of(("TTL", 60), ("TTL", 86400))
    node = start(payloads, START_MS + FAR_AHEAD_MS + 1)
    assert [job.id for job in node.queues[b"q"].jobs()] == [ids[1]]


def test_after_a_short_stop_expired_jobs_are_gone_at_once() -> None:
    _, payloads = journal_of(("TTL", 60))
    node = start(payloads, START_MS + FAR_AHEAD_MS)
    assert node.jobs_registered() == 0
