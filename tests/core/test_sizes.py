"""Nodes that differ in the longest body that they take."""

from cluster.messages import LIMIT, NEEDJOBS, NEEDNOW, OFFER, REFUSED, REFUSED_SIZE, YOURJOBS
from disque.core import sizes, step
from tests.core.replication.test_coordinator import asked
from tests.core.support import UNKNOWN_ID, Bench, repljob
from tests.support.formats import row_ids


def limits(bench: Bench, *most: int) -> None:
    """The other nodes say what the longest body is that they take."""
    for peer, one in zip(bench.peers, most, strict=True):
        bench.hear(peer, (LIMIT, one))


class TestSizes:
    def test_copies_go_to_nodes_that_take_the_body(self) -> None:
        for seed in range(8):
            bench = Bench(peers=3, seed=seed)
            limits(bench, 9, 10, 9)
            client = bench.client()
            client("ADDJOB", "q", "x" * 10, 0, "REPLICATE", 2)
            ((job_id, nodes),) = asked(bench).items()
            assert nodes == [bench.peers[1]]
            bench.confirm(job_id, *nodes)
            assert client.read() == job_id

    def test_where_too_few_take_it_the_answer_is_a_clear_error_and_nothing_is_sent(self) -> None:
        bench = Bench(peers=3)
        limits(bench, 9, 10, 9)
        reply = bench.client()("ADDJOB", "q", "x" * 10, 0, "REPLICATE", 3)
        assert str(reply).startswith("NOREPL Not enough reachable nodes for the requested replication level: the body")
        assert asked(bench) == {}
        assert bench.node.copies.wanted == {}

    def test_smaller_bodies_go_anywhere(self) -> None:
        bench = Bench(peers=2)
        limits(bench, 9, 9)
        bench.client()("ADDJOB", "q", "x" * 9, 0, "REPLICATE", 3)
        assert len(asked(bench).popitem()[1]) == 2

    def test_a_copy_that_is_too_long_here_is_refused(self) -> None:
        bench = Bench(peers=2)
        sizes.announce(bench.node, 9)
        assert [message for _, message in bench.sent(LIMIT)] == [(LIMIT, 9)] * 2
        job_id = bytes(UNKNOWN_ID)
        bench.hear(bench.peers[0], repljob(job_id=job_id, body=b"x" * 10))
        assert [message for _, message in bench.sent(REFUSED)] == [(REFUSED, REFUSED_SIZE, (job_id,))]

    def test_who_refuses_a_body_for_its_length_is_not_asked_again_and_not_left_alone(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        client.send("ADDJOB", "q", "x" * 10, 0, "REPLICATE", 2)
        ((job_id, (peer,)),) = asked(bench).items()
        bench.hear(peer, (REFUSED, REFUSED_SIZE, (job_id,)))
        bench.live(5000)
        assert asked(bench) == {}
        bench.client().send("ADDJOB", "q", "x" * 9, 0, "REPLICATE", 2)
        assert len(asked(bench)) == 1

    def test_a_node_that_takes_less_since_is_not_sent_the_body_over_a_new_link(self) -> None:
        bench = Bench(peers=1)
        bench.client().send("ADDJOB", "q", "x" * 10, 0, "REPLICATE", 2)
        ((job_id, (peer,)),) = asked(bench).items()
        bench.hear(peer, (LIMIT, 9))
        step.link_down(bench.node, peer.id, False, bench.now_ms)
        step.link_up(bench.node, peer.id, 1, bench.now_ms)
        bench.live(5000)
        assert asked(bench) == {}
        assert peer.id in bench.node.copies.wanted[job_id].job.holders, "it may have a copy"

    def test_a_job_that_a_consumers_node_does_not_take_stays_and_others_travel(self) -> None:
        bench = Bench(peers=1)
        limits(bench, 9)
        client = bench.client()
        large, small = (client("ADDJOB", "q", "x" * size, 0, "REPLICATE", 1) for size in (10, 9))
        bench.hear(bench.peers[0], (NEEDJOBS, b"q", 5))
        bench.tick()
        assert [row_ids(message) for _, message in bench.sent(YOURJOBS)] == [[small]]
        assert bench.state(large) == "queued"
        limits(bench, 10)
        bench.live(200)
        assert [row_ids(message) for _, message in bench.sent(YOURJOBS)] == [[large]]

    def test_what_a_consumers_node_does_not_take_is_not_offered_to_it_again_and_again(self) -> None:
        bench = Bench(peers=1)
        limits(bench, 9)
        bench.client()("ADDJOB", "q", "x" * 10, 0, "REPLICATE", 1)
        for kind in (NEEDJOBS, NEEDNOW, NEEDNOW):
            bench.hear(bench.peers[0], (kind, b"q", 5))
            bench.tick()
            assert bench.sent(OFFER, YOURJOBS) == []
