"""Each kind of record, written by what a node does: what it says is there after a compaction and a start."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from cluster.messages import GOTACK, HAVE, SETACK
from disque.core.journal import kinds, schema
from disque.core.journal.codec import encode, head
from disque.core.journal.replay import Replay, believed
from disque.core.journal.schema import (
    ACK,
    DELETE,
    DUMMY,
    ENDED,
    ENTRY,
    HISTORY,
    HOLDERS,
    JOBS,
    KEPTBY,
    KEYS,
    MORE,
    MOVE,
    PAUSE,
    PURGED,
    REQUEUE,
    RETURNED,
    SPEND,
    UNEND,
)
from disque.core.model.ends import DONE
from disque.core.model.job import ACKED, DEFERRED, SPENT
from disque.core.model.memory import RETURNED_BYTES
from disque.core.model.registry import PAUSED_QUEUE
from disque.core.node import Node
from disque.core.replication import returned
from tests.core.support import MYSELF, START_MS, UNKNOWN_ID, Bench, Client, foreign_id
from tests.support.keys import keys

BOOT: Final = "boot 1"

#: Does something at a node, and gives what `FOUND` is asked for.
Act = Callable[[Bench, Client], Any]


def add(bench: Bench, client: Client) -> bytes:
    del bench
    return client.add("q", "body", "REPLICATE", 1)


def add_shared(bench: Bench, client: Client) -> bytes:
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2)
    ((job_id, spread),) = bench.node.copies.wanted.items()
    bench.confirm(job_id, bench.membership.nodes[spread.asked[0]])
    assert client.read() == job_id
    return bytes(job_id)


def acknowledge(bench: Bench, client: Client) -> bytes:
    job_id = add_shared(bench, client)
    assert client("ACKJOB", job_id) == 1
    return job_id


def delete(bench: Bench, client: Client) -> bytes:
    job_id = add(bench, client)
    assert client("FASTACK", job_id) == 1
    return job_id


def spend(bench: Bench, client: Client) -> bytes:
    del bench
    job_id = client.add("q", "body", "REPLICATE", 1, "RETRY", 0)
    assert client.get("q") == [job_id]
    return job_id


def nack(bench: Bench, client: Client) -> bytes:
    job_id = add(bench, client)
    assert client.get("q") == [job_id]
    assert client("NACK", job_id, "DELAY", 60) == 1
    return job_id


def add_with_headers(bench: Bench, client: Client) -> bytes:
    del bench
    return client.add("q", "body", "REPLICATE", 1, "HEADER", "name", "value")


def die(bench: Bench, client: Client) -> bytes:
    job_id = add_shared(bench, client)
    assert client.get("q") == [job_id]
    assert client("NACK", job_id, "DEAD", "ERROR", "broken") == 1
    return job_id


def end_with_result(bench: Bench, client: Client) -> bytes:
    del bench
    job_id = client.add("q", "body", "REPLICATE", 1, "RETAIN", 60)
    assert client("ACKJOB", job_id, "RESULT", "value") == 1
    return job_id


def end_shared(bench: Bench, client: Client) -> bytes:
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETAIN", 60)
    ((job_id, spread),) = bench.node.copies.wanted.items()
    bench.confirm(job_id, bench.membership.nodes[spread.asked[0]])
    assert client.read() == job_id
    assert client("ACKJOB", job_id) == 1
    return bytes(job_id)


def forget_the_end(bench: Bench, client: Client) -> bytes:
    job_id = end_with_result(bench, client)
    bench.advance(60_000)
    return job_id


def have(bench: Bench, client: Client) -> bytes:
    job_id = add_shared(bench, client)
    for peer in bench.peers:
        bench.hear(peer, (HAVE, (job_id,)))
    return job_id


def take_key(bench: Bench, client: Client) -> bytes:
    del bench
    return client.add("q", "body", "REPLICATE", 1, "UNIQUE", "k", 60)


def acknowledge_unknown(bench: Bench, client: Client) -> bytes:
    del bench
    client("ACKJOB", UNKNOWN_ID)
    return UNKNOWN_ID


def pause(bench: Bench, client: Client) -> bytes:
    del bench
    client("PAUSE", "q", "in")
    return b"q"


def pause_everywhere(bench: Bench, client: Client) -> bytes:
    del bench
    client("PAUSE", "q", "out", "bcast")
    return b"q"


def purge(bench: Bench, client: Client) -> int:
    bench.membership.forget_after_ms = 1000
    client("PAUSE", "q", "none", "bcast")
    bench.live(60_000)
    assert not bench.node.registry.count
    return bench.node.registry.purged


def let_a_minute_pass(bench: Bench, client: Client) -> int:
    client.add("q", "body", "REPLICATE", 1)
    bench.live(60_000)
    return bench.now_ms // 3_600_000


def is_history(node: Node, hour: int) -> bool:
    _, hours, days = node.histories.by_queue[b"q"].rows
    return hours.last() == (hour, 1, 0, 0, 0, 0) and days.last() == (hour // 24, 1, 0, 0, 0, 0)


def is_there(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    return job is not None and job.state != ACKED and not job.nacks and len(job.holders) == 1


def is_acknowledged(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    return job is not None and job.state == ACKED


def is_gone(node: Node, job_id: bytes) -> bool:
    return node.find(job_id) is None


def is_spent(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    return job is not None and bool(job.flags & SPENT)


def waits_with_a_nack(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    return job is not None and job.nacks == 1 and bool(job.flags & DEFERRED)


def has_headers(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    extra = None if job is None else node.extra_of(job)
    return extra is not None and extra.headers == (b"name", b"value")


def is_a_dead_letter(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    extra = None if job is None else node.extra_of(job)
    if job is None or extra is None:
        return False
    said = (extra.generation, extra.mover, extra.origin, extra.error, extra.error_ms)
    return job.queue == b"q:dead" and said == (1, MYSELF, b"q", b"broken", START_MS)


def has_ended(node: Node, job_id: bytes) -> bool:
    end = node.ends.by_id.get(job_id)
    if end is None:
        return False
    said = (end.queue, end.status, end.node_id, end.text, end.body, end.ended_ms, end.until_ms)
    return said == (b"q", DONE, MYSELF, b"value", b"body", START_MS, START_MS + 60_000)


def is_kept_by_two(node: Node, job_id: bytes) -> bool:
    end = node.ends.by_id.get(job_id)
    return end is not None and (end.repl, len(end.holders), end.copied) == (2, 2, False)


def has_forgotten_the_end(node: Node, job_id: bytes) -> bool:
    return not node.ends.by_id and node.find(job_id) is None


def has_three_holders(node: Node, job_id: bytes) -> bool:
    job = node.find(job_id)
    return job is not None and len(job.holders) == 3


def has_a_key(node: Node, job_id: bytes) -> bool:
    return [key.job_id for key in keys(node).values()] == [job_id]


def is_to_be_told(node: Node, job_id: bytes) -> bool:
    return job_id in node.acks.dummies


def is_paused(node: Node, name: bytes) -> bool:
    return bool(node.queues[name].paused)


def is_paused_everywhere(node: Node, name: bytes) -> bool:
    return is_paused(node, name) and node.registry.get((PAUSED_QUEUE, name, b"")) is not None


def come_back_late(bench: Bench, client: Client) -> None:
    del client
    bench.node.repairs.returned[foreign_id()] = ()
    bench.node.used += RETURNED_BYTES
    returned.beat(bench.node, bench.now_ms + 1000)
    bench.settle()


def is_in_doubt(node: Node, what: None) -> bool:
    del what
    return node.repairs.noted > 0


def is_purged(node: Node, counter: int) -> bool:
    return node.registry.purged == counter > 0


#: For each kind that is no mark: what makes a node write it, and what a later start must find.
CASES: Final[dict[int, tuple[Act, Callable[[Node, Any], bool]]]] = {
    JOBS: (add, is_there),
    ACK: (acknowledge, is_acknowledged),
    DELETE: (delete, is_gone),
    SPEND: (spend, is_spent),
    REQUEUE: (nack, waits_with_a_nack),
    HOLDERS: (have, has_three_holders),
    KEYS: (take_key, has_a_key),
    DUMMY: (acknowledge_unknown, is_to_be_told),
    PAUSE: (pause, is_paused),
    ENTRY: (pause_everywhere, is_paused_everywhere),
    PURGED: (purge, is_purged),
    MORE: (add_with_headers, has_headers),
    MOVE: (die, is_a_dead_letter),
    HISTORY: (let_a_minute_pass, is_history),
    ENDED: (end_with_result, has_ended),
    UNEND: (forget_the_end, has_forgotten_the_end),
    KEPTBY: (end_shared, is_kept_by_two),
    RETURNED: (come_back_late, is_in_doubt),
}
NAMES: Final = {
    getattr(schema, name): name for name in schema.__dict__ if name.isupper() and name not in {"FORMAT", "HEAVY"}
}


def read(node: Node, segments: list[tuple[int, list[bytes]]]) -> Node:
    """A node that starts with these segments."""
    found = Bench(peers=2).node
    reader = Replay(found, BOOT)
    for segment, payloads in segments:
        reader.apply(head(node, BOOT, "always", 0), segment)
        for payload in payloads:
            reader.apply(payload, segment)
    for _ in reader.finish(reader.time_ms):
        pass
    return found


def test_each_kind_that_is_no_mark_has_a_case() -> None:
    assert set(CASES) == {kind.number for kind in kinds.KINDS if not kind.is_mark}


def test_each_kind_has_one_row_and_one_that_is_written_again_can_be_forgotten() -> None:
    assert len(kinds.TABLE) == len(kinds.KINDS)
    assert all((kind.copy is None) == (kind.forget is None) for kind in kinds.KINDS)


@pytest.mark.parametrize("number", CASES, ids=lambda number: NAMES[number])
def test_what_it_says_survives_a_start_a_compaction_and_both(number: int) -> None:
    act, is_found = CASES[number]
    bench = Bench(peers=2, journaling=True)
    node = bench.node
    what = act(bench, bench.client())
    first = encode(node.outbox.take(), bench.now_ms)
    assert number in {record[0] for payload in first for record in believed(payload)}
    node.segment = 2
    copying = kinds.begin_copy(node, 1)
    while not copying.step(1, bench.now_ms):
        pass
    second = encode(node.outbox.take(), bench.now_ms)
    for segments in ([(1, first)], [(2, second)], [(1, first), (2, second)]):
        assert is_found(read(node, segments), what)
    for _ in kinds.forget_segments(node):
        pass
    assert not node.live


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_holder_named_after_the_end_is_told_by_a_later_start(*, is_forgotten: bool) -> None:
    """Also when the other holder, which alone was known at the end, is not of the cluster any more."""
    bench = Bench(peers=2, journaling=True)
    job_id = add_shared(bench, bench.client())
    holders = bench.job(job_id).holders
    first, late = sorted(bench.peers, key=lambda peer: peer.id not in holders)
    everybody = tuple(sorted([*holders, late.id]))
    assert bench.client()("ACKJOB", job_id) == 1
    bench.hear(first, (GOTACK, 1, everybody, (job_id,)))
    found = Bench(peers=2)
    if is_forgotten:
        found.client()("CLUSTER", "FORGET", first.id)
        found.settle()
    reader = Replay(found.node, BOOT)
    for payload in [head(bench.node, BOOT, "always", 0), *encode(bench.records(), bench.now_ms)]:
        reader.apply(payload, 1)
    for _ in reader.finish(reader.time_ms):
        pass
    left = tuple([one for one in everybody if not is_forgotten or one != first.id])
    found.link_up(late)
    assert found.told(late, SETACK) == [(SETACK, left, (job_id,))]
