"""What the checker of counters takes for a job that a start would not ask others about."""

import pytest

from cluster.member import HANDSHAKE
from tests.core.support import Bench
from tests.simulation.checks.counted import waits_for_strangers


@pytest.mark.parametrize(
    ("who", "flags", "strangers"),
    [("a peer", 0, False), ("a peer", HANDSHAKE, True), ("nobody", 0, True), ("somebody else", 0, True)],
)
def test_who_is_half_met_is_a_stranger(who: str, flags: int, strangers: bool) -> None:
    """nodes.conf does not say such a node, so a start would not wait for it (seed 1800475)."""
    bench = Bench(peers=1)
    client = bench.client()
    job_id = client.add("q", "body", "REPLICATE", 1)
    holders = {"a peer": (bench.peers[0].id,), "nobody": (), "somebody else": (b"5" * 40,)}[who]
    job = bench.node.find(job_id)
    assert job is not None
    job.holders = bench.node.shared((bench.node.node_id, *holders))
    bench.membership.set_flags(bench.peers[0], flags)
    assert waits_for_strangers(bench.node, job_id) == strangers


def test_a_job_that_is_gone_waits_for_nobody() -> None:
    assert not waits_for_strangers(Bench().node, b"D-11111111-how-it-has-ended-is-of-use---05a1")
