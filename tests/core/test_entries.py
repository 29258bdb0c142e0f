"""What entries of the registry mean, what is taken from other nodes, and how much."""

import pytest

from cluster.messages import ENTRIES
from disque.core import entries
from disque.core.model.registry import PAUSED_QUEUE
from tests.core.support import MYSELF, Bench
from tests.support.formats import pauses_everywhere

B0 = b"b0" * 20
NEWER = 9  # a kind that this version does not know


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=2, journaling=True)


def test_what_is_set_is_told_to_all_and_above_whatever_was_seen(bench: Bench) -> None:
    bench.hear(bench.peers[0], (ENTRIES, ((NEWER, b"n", b"f", b"v", bench.now_ms + 500, B0, 0),)))
    assert entries.set_value(bench.node, (NEWER, b"other", b""), b"v", bench.now_ms) == b""
    row = (NEWER, b"other", b"", b"v", bench.now_ms + 501, MYSELF, 0)
    assert bench.sent(ENTRIES) == [(peer.id, (ENTRIES, (row,))) for peer in bench.peers]


def test_a_kind_that_is_not_known_is_kept_and_passed_on(bench: Bench) -> None:
    bench.hear(bench.peers[0], (ENTRIES, ((NEWER, b"n", b"f", b"\0\xff", 5, B0, 0),)))
    found = bench.node.registry.get((NEWER, b"n", b"f"))
    assert found is not None
    assert found.value == b"\0\xff"
    assert found.segment == 1, "it is in the journal"


@pytest.mark.parametrize(
    "row",
    [
        (PAUSED_QUEUE, b"q", b"", b"9", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"0", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"field", b"1", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"1", 5, B0, 1),
        (PAUSED_QUEUE, b"q", b"", b"", 5, B0, 2),
        (PAUSED_QUEUE, b"q", b"", b"1", 2**62 - 1, B0, 0),
        (NEWER, b"q", b"", b"x" * (entries.VALUE_MOST + 1), 5, B0, 0),
    ],
    ids=lambda row: repr(row)[:60],
)
def test_nonsense_is_skipped_and_counted(bench: Bench, row: tuple[object, ...]) -> None:
    bench.hear(bench.peers[0], (ENTRIES, (row,)))
    assert bench.node.registry.count == 0
    assert bench.node.messages_skipped == 1


def test_beyond_the_bound_nothing_more_can_be_set_but_deleted(bench: Bench) -> None:
    client = bench.client()
    bench.node.registry_most = 2000
    names = [f"q{number}" for number in range(10)]
    replies = [client.raw("PAUSE", name, "in", "bcast") for name in names]
    assert replies[0] == b"+in\r\n"
    assert replies[-1] == b"-ERR the nodes of this cluster share too many settings already: see registry-max-bytes\r\n"
    assert bench.node.registry.size <= 2000
    assert b"q9" not in bench.node.queues, "what is refused is not done here either"
    assert client("PAUSE", "q0", "out", "bcast") == b"out", "as long as before"
    assert client("PAUSE", "q0", "none", "bcast") == b"none"


def test_of_what_others_have_set_twice_as_much_is_taken(bench: Bench) -> None:
    bench.node.registry_most = 2000
    for number in range(100):
        bench.hear(bench.peers[0], (ENTRIES, ((PAUSED_QUEUE, b"q%d" % number, b"", b"1", 5, B0, 0),)))
    assert 2000 < bench.node.registry.size <= 4000
    assert bench.node.messages_skipped > 80


def test_of_two_at_the_same_place_in_the_order_the_deletion_wins(bench: Bench) -> None:
    for deleted in (0, 1, 0):
        value = b"" if deleted else b"1"
        bench.hear(bench.peers[0], (ENTRIES, ((PAUSED_QUEUE, b"q", b"", value, 5, B0, deleted),)))
    assert pauses_everywhere(bench.node) == {b"q": (0, 5, B0)}
    assert bench.client()("PAUSE", "q", "state") == b"none"
