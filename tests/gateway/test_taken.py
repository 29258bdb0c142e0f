"""Replies as typed values."""

import pytest

from disque.client.errors import UnexpectedReplyError
from disque.gateway.taken import id_of, jobs_of
from tests.end_to_end.node import Node
from tests.gateway.support import Gateway


def test_a_job_is_as_a_node_gives_it(gateway: Gateway, node: Node) -> None:
    job_id = node.ask("ADDJOB", "q", "x", 0, "TRIES", 3, "HEADER", "a", "b", "PRIORITY", 7)
    [job] = gateway.run(gateway.hub.clusters.own.take((b"q",), 5, (b"LEASE", b"30"), 0))
    assert (job.queue, job.job_id, job.body, job.tries, job.tries_left) == (b"q", job_id, b"x", 0, 3)
    assert (job.priority, job.lease_ms, job.error, job.origin, job.headers) == (7, 30_000, None, None, {b"a": b"b"})
    assert job.created_ms_ago >= 0
    assert job.ttl_ms > 30_000


def test_nil_is_none() -> None:
    assert jobs_of(None) == []


@pytest.mark.parametrize("reply", [b"x", 1, [[b"q", b"id", b"body"]], [[b"q", b"id", b"body", {}]], [1]])
def test_what_no_node_says_is_refused(reply: object) -> None:
    with pytest.raises(UnexpectedReplyError):
        jobs_of(reply)
    with pytest.raises(UnexpectedReplyError):
        id_of(reply if not isinstance(reply, bytes) else None)
