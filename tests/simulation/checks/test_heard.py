"""What the checker of pub/sub lets pass, and what it does not."""

import pytest

from cluster.member import HANDSHAKE
from cluster.messages import PUBLISHED, YOURJOBS
from disque.core.model.pubsub import ACKED, EXPIRED
from tests.simulation.checks.heard import TALK_MS, Heard
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.options import Options
from tests.simulation.run import GATHER_MS
from tests.simulation.world import Violation, World

JOB = b"D-11111111-a-job-in-its-last-moment------05a1"


@pytest.mark.parametrize("has_met", [True, False])
def test_a_node_must_hear_what_is_said_if_it_has_met_who_says_it(has_met: bool) -> None:
    cluster = Cluster(World(Options(1, 2)))
    cluster.begin()
    cluster.world.run(GATHER_MS)
    speaker, other = cluster.processes()
    checker = Heard(cluster)
    if not has_met:
        other.node.membership.nodes[speaker.node.node_id].flags |= HANDSHAKE
    checker.ran(speaker, Request([b"PUBLISH", b"news", b"hello"], cluster.world.now), b":1\r\n")
    other.node.membership.nodes[speaker.node.node_id].flags &= ~HANDSHAKE
    checker.news(speaker, [b"hello"])
    cluster.world.run(GATHER_MS + 4 * TALK_MS)
    if has_met:
        with pytest.raises(Violation, match=r"n1\.1 has not heard b'hello' of n0\.1"):
            checker.beat(speaker)
    else:
        checker.beat(speaker)


@pytest.mark.parametrize(("event", "is_back"), [(EXPIRED, True), (EXPIRED, False), (ACKED, True)])
def test_a_job_that_was_handed_back_in_its_last_moment_expires_twice(event: int, is_back: bool) -> None:
    cluster = Cluster(World(Options(1, 2)))
    cluster.begin()
    cluster.world.run(GATHER_MS)
    process, other = cluster.processes()
    checker = Heard(cluster)
    checker.happened(process, [(event, b"q", JOB)])
    for job_id in (JOB if is_back else JOB[:-1] + b"0", JOB[:-1] + b"2"):
        checker.taken(process, other, (YOURJOBS, b"q", ((job_id, b"body"),)))
    checker.taken(process, other, (PUBLISHED, b"news", b"hello"))
    if event == EXPIRED and is_back:
        checker.happened(process, [(event, b"q", JOB)])
    with pytest.raises(Violation, match="told twice"):
        checker.happened(process, [(event, b"q", JOB)])
