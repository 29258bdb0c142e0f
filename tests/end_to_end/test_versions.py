"""Nodes of two versions side by side: what needs all of them is refused with the name of the older one.

The older node is this version, started by a few lines which take away that it understands something, as a version
before says at the handshake. So it is a process of its own that is told, and answers, as little as such a version.
"""

import sys
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, id_of
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import SLOW_POLL_S, Node, ServerError, until

#: Starts a node that understands nothing but the capabilities of the number that is its first word.
OLDER = """
import sys

from cluster import capabilities

capabilities.MINE &= int(sys.argv.pop(1))

from disque.cli.serve import main

sys.exit(main())
"""
#: What the first version understands, and one that knows what is said of jobs.
FIRST, WITH_JOBS = 1, 1 + 2 + 4
JOB = "D-b0b0b0b0-0123456789abcdef01234567-05a1"
#: What needs one of the capabilities that the first version lacks.
OF_JOBS = (
    ("ADDJOB", "q", "body", "0", "TRIES", "3"),
    ("ADDJOB", "q", "body", "0", "RETAIN", "60"),
    ("ADDJOB", "q", "body", "0", "PRIORITY", "1"),
    ("ADDJOB", "q", "body", "0", "HEADER", "name", "value"),
    ("NACK", JOB, "DEAD"),
    ("CANCEL", JOB),
    ("MOVE", "other", JOB),
    ("REVIVEJOB", JOB),
    ("QMOVE", "q", "other"),
    ("REVIVE", "q:dead"),
    ("QFLUSH", "q"),
    ("WAITJOB", "1000", JOB),
    ("ACKJOB", JOB, "RESULT", "value"),
    ("WORKING", JOB, "PROGRESS", "half"),
)
OF_ALL = (
    ("QCONFIG", "SET", "q", "maxlen", "5"),
    ("QCONFIG", "SET", "q", "overflow", "drop-oldest"),
    ("CRON", "SET", "nightly", "@daily", "q", "body"),
    ("ACL", "SETUSER", "ann", "on", ">password", "~*", "+@all"),
    ("ACL", "DELUSER", "ann"),
)


def make_older(node: Node, understands: int, directory: Path) -> None:
    """Start this node, which is stopped, as a process of an older version, from the same directory as before."""
    script = directory / "older.py"
    script.write_text(OLDER)
    place = node.command.index("--port")
    words = [sys.executable, str(script), str(understands), *node.command[place:]]
    node.launch(command=words).await_ready()


def answers(node: Node, requests: tuple[tuple[str, ...], ...]) -> list[str]:
    """The texts of errors; of what is no error, nothing."""
    found = [node.ask(*request) for request in requests]
    return [str(reply) if isinstance(reply, ServerError) else "" for reply in found]


def refusing(node: Node, requests: tuple[tuple[str, ...], ...], older: bytes) -> list[tuple[str, ...]]:
    """Those of the requests that are not refused with the name of the older node."""
    wanted = f"needs all nodes to know it: node {older.decode()} runs an older version"
    return [one for one, text in zip(requests, answers(node, requests), strict=True) if wanted not in text]


def passes(cluster: Cluster, giver: Node, taker: Node) -> None:
    """A plain job goes from one node to another, and is done at a third one."""
    job_id = giver.ask("ADDJOB", "plain", "body", 10_000, "REPLICATE", 3)
    assert isinstance(job_id, bytes), job_id
    assert taker.ask("GETJOB", "TIMEOUT", 60_000, "FROM", "plain") == [[b"plain", job_id, b"body"]]
    assert cluster.members[-1].ask("ACKJOB", job_id) == 1
    until(lambda: all(node.ask("SHOW", job_id) is None for node in cluster.members), cluster.describe, SLOW_POLL_S)


@pytest.mark.slow
@pytest.mark.plain_only("it changes a number of the core before that is imported")
@pytest.mark.parametrize("understands", [FIRST, WITH_JOBS])
def test_what_an_older_node_would_not_understand_is_refused_until_it_is_upgraded(
    make_cluster: MakeCluster, tmp_path: Path, understands: int
) -> None:
    cluster = make_cluster(3)
    old, new, other = cluster.members
    old_id = id_of(old)
    requests = OF_ALL if understands & 4 else (*OF_JOBS, *OF_ALL)
    cluster.stop(old)
    make_older(old, understands, tmp_path)
    cluster.await_whole()
    new.await_log("runs another version: it does not understand")
    for node in (new, other):
        assert not refusing(node, requests, old_id)
    passes(cluster, old, new)
    passes(cluster, new, old)
    kept = new.ask("ADDJOB", "later", "body", 10_000, "REPLICATE", 3, "DELAY", 3600)
    assert old.ask("SHOW", kept)
    cluster.stop(old)
    assert not refusing(new, requests, old_id)  # one that is away counts with what it understood
    cluster.start(old)
    cluster.await_whole()
    assert id_of(old) == old_id
    assert old.ask("SHOW", kept)
    until(lambda: new.ask(*OF_ALL[0]) == b"OK", cluster.describe, SLOW_POLL_S)
    for text in answers(new, requests):
        assert "older version" not in text
    passes(cluster, old, new)
