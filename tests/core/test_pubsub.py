"""Pub/sub beyond one connection: what happens to jobs, what other nodes say, those who go."""

import pytest

from cluster.capabilities import MINE, PUBSUB
from cluster.messages import PUBLISHED, REPLJOB, REPLJOB_IDS, SETACK
from disque.core import pubsub
from tests.core.support import MYSELF, Bench, Client, foreign_id, repljob


@pytest.fixture
def bench() -> Bench:
    return Bench()


def listener(bench: Bench, *patterns: str) -> Client:
    client = bench.client()
    client.send("PSUBSCRIBE", *patterns)
    client.read_all()
    return client


def heard(client: Client) -> list[tuple[str, bytes]]:
    """What a listener has got since the last time: channels and messages."""
    return [(words[-2].decode(), words[-1]) for words in client.read_all()]


class TestEvents:
    def test_a_job_from_its_beginning_to_its_end(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:*"), bench.client()
        job_id = client.add("q")
        client.get("q")
        client("NACK", job_id)
        client.get("q")
        client("ACKJOB", job_id)
        names = ["added", "ready", "delivered", "nacked", "ready", "delivered", "acked"]
        assert heard(watcher) == [(f"job:{name}:q", job_id) for name in names]

    def test_a_retry_tells_that_the_job_came_back(self, bench: Bench) -> None:
        client = bench.client()
        job_id = client.add("q", "b", "RETRY", 5)
        client.get("q")
        watcher = listener(bench, "job:*")
        bench.live(6000)
        assert heard(watcher) == [("job:retried:q", job_id), ("job:ready:q", job_id)]

    def test_the_last_try_is_told_where_the_job_was(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:dead:*", "job:moved:*"), bench.client()
        job_id = client.add("q", "b", "TRIES", 1)
        client.get("q")
        client("NACK", job_id)
        assert heard(watcher) == [("job:dead:q", job_id)]
        client("REVIVEJOB", job_id)
        assert heard(watcher) == [("job:moved:q:dead", job_id)]

    def test_a_job_that_is_delivered_once_dies_as_well(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:dead:*"), bench.client()
        job_id = client.add("q", "b", "RETRY", 0)
        client.get("q")
        client("NACK", job_id, "DEAD")
        assert heard(watcher) == [("job:dead:q", job_id)]

    def test_moves_cancels_and_the_end_of_a_life(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:moved:*", "job:cancelled:*", "job:expired:*"), bench.client()
        moved, cancelled, expired = client.add("q"), client.add("q"), client.add("q", "b", "TTL", 5, "RETRY", 1)
        client("MOVE", "other", moved)
        client("CANCEL", cancelled)
        bench.live(6000)
        ends = [("job:moved:q", moved), ("job:cancelled:q", cancelled), ("job:expired:q", expired)]
        assert sorted(heard(watcher)) == sorted(ends)

    def test_an_addjob_that_waits_for_copies_is_told_when_it_has_them(self) -> None:
        bench = Bench(peers=1)
        watcher, client = listener(bench, "job:added:*"), bench.client()
        client.send("ADDJOB", "q", "body", 5000, "REPLICATE", 2)
        assert heard(watcher) == []
        (message,) = bench.told(bench.peers[0], REPLJOB)
        bench.confirm(message[REPLJOB_IDS][0], bench.peers[0])
        (job_id,) = client.read_all()
        assert heard(watcher) == [("job:added:q", job_id)]

    def test_who_acknowledges_where_nobody_knows_the_job_is_heard_where_it_was_delivered(self) -> None:
        bench = Bench(peers=2)
        watcher, client = listener(bench, "job:acked:*"), bench.client()
        bench.hear(bench.peers[0], repljob(bench.peers[0].id, job_id=foreign_id(1)))
        bench.hear(bench.peers[1], (SETACK, (), (foreign_id(1),)))
        assert heard(watcher) == [], "it is a copy: whoever has delivered it tells"
        here = client.add("q", "b", "REPLICATE", 1)
        client.get("q")
        bench.hear(bench.peers[1], (SETACK, (), (here,)))
        assert heard(watcher) == [("job:acked:q", here)]
        assert client("QSTAT", "q")[1::2][client("QSTAT", "q")[::2].index(b"acked")] == 1

    def test_who_acknowledges_at_another_holder_is_heard_there(self) -> None:
        bench = Bench(peers=1)
        watcher, client = listener(bench, "job:acked:*"), bench.client()
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "ASYNC")
        (job_id,) = client.read_all()
        client.get("q")
        bench.hear(bench.peers[0], (SETACK, tuple(sorted((MYSELF, bench.peers[0].id))), (job_id,)))
        assert heard(watcher) == []

    def test_a_job_that_is_done_before_it_has_its_copies_was_added(self) -> None:
        bench = Bench(peers=1)
        watcher, client = listener(bench, "job:*"), bench.client()
        client.send("ADDJOB", "q", "body", 5000, "REPLICATE", 2)
        (message,) = bench.told(bench.peers[0], REPLJOB)
        bench.hear(bench.peers[0], (SETACK, tuple(sorted((MYSELF, bench.peers[0].id))), message[REPLJOB_IDS]))
        (job_id,) = client.read_all()
        assert heard(watcher) == [("job:added:q", job_id)], "it was acknowledged over there"

    def test_a_job_that_is_given_back_unread_is_ready_again(self, bench: Bench) -> None:
        watcher, client, worker = listener(bench, "job:*"), bench.client(), bench.client()
        job_id = client.add("q")
        worker.choked = True
        worker.send("GETJOB", "FROM", "q")
        worker.disconnect()
        names = ["added", "ready", "delivered", "ready"]
        assert heard(watcher) == [(f"job:{name}:q", job_id) for name in names]

    def test_every_job_of_a_queue_that_is_flushed_is_cancelled(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:cancelled:*"), bench.client()
        ids = [client.add("q") for _ in range(3)]
        client("QFLUSH", "q")
        bench.live(100)
        assert sorted(heard(watcher)) == sorted(("job:cancelled:q", job_id) for job_id in ids)

    def test_what_cannot_be_moved_is_not_told(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:moved:*"), bench.client()
        job_id = client.add("q", "b", "RETRY", 0)
        client.get("q")
        client("MOVE", "other", job_id)
        client("REVIVEJOB", client.add("q"))
        assert heard(watcher) == []

    def test_nothing_is_made_of_what_nobody_listens_for(self, bench: Bench) -> None:
        listener(bench, "job:dead:*")
        client = bench.client()
        client.send("ADDJOB", "q", "body", 0)
        assert not bench.node.pubsub.pending

    def test_one_piece_a_turn_is_shared_by_all(self, bench: Bench) -> None:
        watchers = [listener(bench, "job:*") for _ in range(3)]
        client = bench.client()
        client.choked = True
        for watcher in watchers:
            watcher.choked = True
        for number in range(10):
            client.send("ADDJOB", "q", str(number), 0)
        bench.settle()
        pieces = [watcher.session.out for watcher in watchers]
        assert [len(piece) for piece in pieces] == [1, 1, 1]
        assert pieces[0][0] is pieces[1][0] is pieces[2][0]


class TestOtherNodes:
    def test_what_is_published_goes_to_all_once_and_at_once(self) -> None:
        bench = Bench(peers=2, journaling=True)
        assert bench.client()("PUBLISH", "news", "hi") == 0
        assert bench.sent(PUBLISHED) == [(peer.id, (PUBLISHED, b"news", b"hi")) for peer in bench.peers]

    def test_what_another_node_says_is_told_here_and_not_passed_on(self) -> None:
        bench = Bench(peers=2)
        watcher = listener(bench, "n*")
        bench.hear(bench.peers[0], (PUBLISHED, b"news", b"hi"))
        assert heard(watcher) == [("news", b"hi")]
        assert bench.sent(PUBLISHED) == []

    @pytest.mark.parametrize(
        ("channel", "text"),
        [(b"job:added:q", b"D-x"), (b"x" * (pubsub.NAME_MOST + 1), b""), (b"news", b"x" * (pubsub.MESSAGE_MOST + 1))],
    )
    def test_what_no_client_can_have_published_is_skipped(self, channel: bytes, text: bytes) -> None:
        bench = Bench(peers=1)
        watcher = listener(bench, "*")
        bench.hear(bench.peers[0], (PUBLISHED, channel, text))
        assert heard(watcher) == []
        assert bench.node.messages_skipped == 1

    def test_this_version_says_that_it_passes_on_what_is_published(self) -> None:
        assert MINE & PUBSUB


class TestThoseWhoGo:
    def test_who_is_gone_hears_nothing_and_costs_nothing(self, bench: Bench) -> None:
        before = bench.node.used
        watcher = listener(bench, "job:*", "news")
        assert bench.node.used > before
        watcher.disconnect()
        assert bench.node.used == before
        assert bench.node.pubsub.heard == 0
        assert bench.client()("PUBLISH", "news", "hi") == 0

    def test_flushall_leaves_those_who_listen(self, bench: Bench) -> None:
        watcher, client = listener(bench, "job:added:*"), bench.client()
        client.add("q")
        client("DEBUG", "FLUSHALL")
        heard(watcher)
        job_id = client.add("q")
        assert heard(watcher) == [("job:added:q", job_id)]
