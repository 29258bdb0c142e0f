"""Figures of queues, put together out of what nodes say."""

import pytest

from disque.client import DisqueError, NodeInfo
from disque.client.replies import History, JobInfo
from disque.gateway.figures import merged, merged_history, told_by


def test_numbers_are_added_but_for_times_and_pauses() -> None:
    one: JobInfo = {"name": "q", "len": 2, "age": 5, "idle": 3, "oldest_ms": 10, "wait_p95_ms": 7, "pause": "in"}
    other: JobInfo = {"name": "q", "len": 3, "age": 9, "idle": 1, "oldest_ms": 4, "wait_p95_ms": 8, "pause": "out"}
    expected = {"name": "q", "len": 5, "age": 9, "idle": 1, "oldest_ms": 10, "wait_p95_ms": 8, "pause": "all"}
    assert merged([one, None, other]) == expected
    assert merged([other, one]) == expected
    assert merged([None]) is None
    assert one["len"] == 2, "what a node said stays as it is"


def test_lists_are_put_together_and_a_node_of_another_version_may_not_know_all() -> None:
    one: JobInfo = {"import_from": ["a", "b"], "dropped": 1}
    assert merged([one, {"import_from": ["b", "c"]}]) == {"import_from": ["a", "b", "c"], "dropped": 1}


def test_a_history_is_added_by_its_times() -> None:
    one: History = {"begin": 600, "seconds": 60, "added": [1, 2, 3]}
    late: History = {"begin": 540, "seconds": 60, "added": [10, 20, 30]}
    assert merged_history([late, one]) == {"begin": 600, "seconds": 60, "added": [21, 32, 3]}
    assert merged_history([one]) == one
    assert merged_history([]) is None


def test_an_error_of_all_nodes_is_no_figure() -> None:
    node = NodeInfo("n" * 40, "h", 1, 1)
    refused = DisqueError("NOPERM you may not")
    assert told_by([(node, 2), (node, refused), (node, 3)]) == [2, 3]
    with pytest.raises(DisqueError, match="NOPERM"):
        told_by([(node, refused), (node, refused)])
