"""Where the copies go that take the place of lost ones; what becomes of them is in test_repair.py."""

from cluster.membership import Member
from disque.core import links
from disque.core.model.job import DEFERRED, LEASE_OWNER, LEASE_RELAYED, Job
from disque.core.model.repair import Replacement
from disque.core.model.spec import JobSpec
from disque.core.replication import replacement
from disque.core.replication.rank import rank
from tests.core.support import MYSELF, START_MS, Bench, foreign_id


def job(bench: Bench, size: int = 4) -> Job:
    return Job(foreign_id(), JobSpec(b"q", 600, 60, 3), b"x" * size, 1, bench.now_ms + 600_000, 0, (MYSELF,))


def spread(bench: Bench, *have: Member, size: int = 4) -> Replacement:
    return Replacement(job(bench, size), tuple([peer.id for peer in have]), (), 2, START_MS, is_alone=True)


def targets(bench: Bench, wanted: Replacement) -> list[bytes]:
    return [peer.id for peer in replacement.targets(bench.node, wanted)]


def test_they_go_to_the_next_nodes_in_the_order_of_the_job() -> None:
    bench = Bench(peers=5)
    order = sorted([peer.id for peer in bench.peers], key=lambda peer_id: -rank(peer_id, foreign_id()))
    assert targets(bench, spread(bench)) == order
    assert targets(bench, spread(bench, bench.peers[0])) == [one for one in order if one != bench.peers[0].id]


def test_nodes_of_other_zones_come_first() -> None:
    bench = Bench(peers=5)
    for number, peer in enumerate(bench.peers):
        bench.membership.set_zone(peer.id, b"far" if number == 4 else b"near")
    bench.membership.set_zone(MYSELF, b"near")
    links.review(bench.node, bench.now_ms)
    assert targets(bench, spread(bench))[0] == bench.peers[4].id


def test_nodes_that_take_no_such_body_are_none() -> None:
    bench = Bench(peers=3)
    one = bench.peers[0]
    bench.membership.set_body_most(one.id, 100)
    links.review(bench.node, bench.now_ms)
    assert one.id in targets(bench, spread(bench, size=100))
    assert one.id not in targets(bench, spread(bench, size=101))


def test_who_has_just_refused_is_passed_over() -> None:
    bench = Bench(peers=2)
    first, second = replacement.targets(bench.node, spread(bench))
    first.refused_until_ms = bench.now_ms + 1
    assert replacement.ripe([first, second], bench.now_ms) is second
    assert replacement.ripe([first], bench.now_ms) is None
    assert replacement.ripe([first], bench.now_ms + 1) is first


def test_the_delay_of_a_copy_is_told_without_the_retry_that_it_waits_for_longer() -> None:
    bench = Bench(peers=2)
    one = job(bench)
    assert replacement.delay_ms(one, 1000) == 0
    one.requeue_ms = 100_000
    assert replacement.delay_ms(one, 1000) == 0
    one.flags = DEFERRED
    assert replacement.delay_ms(one, 1000) == 39_000
    assert replacement.delay_ms(one, 90_000) == 0
    for spoken in (LEASE_OWNER, LEASE_RELAYED):
        one.flags = DEFERRED | spoken
        assert replacement.delay_ms(one, 1000) == 99_000
