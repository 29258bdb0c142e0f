from typing import cast

from cluster.capabilities import JOBS, MINE
from cluster.messages import (
    ANSWER,
    ANSWER_NO,
    ASKCOPY,
    BY_NACK,
    COPYIS,
    GOTMOVE,
    HOLD,
    IN_MY_STEAD,
    MOVED,
    QUEUED,
    SETACK,
    STILL,
    WILLQUEUE,
)
from disque.core import step
from disque.core.journal.schema import MOVE
from disque.core.model.extra import Extra, encode
from disque.core.replication.announcements import JITTER_MS
from disque.core.replication.arbitration import SPREAD_MS
from tests.core.support import MYSELF, PROCESS, START_MS, Bench, foreign_id, repljob
from tests.support.formats import encoded, yourjobs, yourjobs_row

ID = foreign_id()


def extra(generation: int, mover: bytes, **values: object) -> bytes:
    made = Extra()
    made.generation, made.mover = generation, mover
    for name, value in values.items():
        setattr(made, name, value)
    return encode(made, START_MS)


def backup(peers: int = 2) -> Bench:
    """A node with a copy of a job that other nodes have, too."""
    bench = Bench(peers=peers, journaling=True)
    bench.hear(bench.peers[0], repljob(*[peer.id for peer in bench.peers], job_id=ID))
    bench.sent()
    return bench


def moved(bench: Bench, queue: bytes, generation: int, mover: bytes, delay_ms: int = 0) -> tuple[object, ...]:
    holders = tuple(sorted([MYSELF, *[peer.id for peer in bench.peers]]))
    return (MOVED, queue, encoded(), 3_000_000, delay_ms, holders, extra(generation, mover), (ID,))


def test_a_holder_follows_a_move_and_confirms_it() -> None:
    bench = backup()
    one, two = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id))
    assert bench.sent(GOTMOVE) == [(one.id, (GOTMOVE, 1, one.id, (ID,)))]
    assert bench.job(ID).queue == b"r"
    bench.live(5000)
    assert [peer_id for peer_id, _ in bench.sent(MOVED)] == [two.id]
    bench.hear(two, (GOTMOVE, 1, one.id, (ID,)))
    assert not bench.node.moves.by_id
    bench.live(100_000)
    assert not bench.sent(MOVED)


def test_who_moves_a_job_says_so_until_all_have_confirmed() -> None:
    bench = backup()
    one, two = bench.peers
    assert bench.client()("MOVE", "r", ID) == 1
    assert sorted(peer_id for peer_id, _ in bench.sent(MOVED)) == [one.id, two.id]
    bench.hear(one, (GOTMOVE, 1, MYSELF, (ID,)))
    bench.live(5000)
    assert {peer_id for peer_id, _ in bench.sent(MOVED)} == {two.id}
    bench.hear(two, (GOTMOVE, 2, MYSELF, (ID,)), (GOTMOVE, 1, one.id, (ID,)))
    assert bench.node.moves.by_id
    bench.hear(two, (GOTMOVE, 1, MYSELF, (ID,)))
    assert not bench.node.moves.by_id


def test_who_is_behind_is_told_and_what_he_says_does_not_count() -> None:
    bench = backup()
    one, two = bench.peers
    bench.client()("MOVE", "r", ID)
    bench.sent()
    for message in ((WILLQUEUE, START_MS, (), (ID,)), (QUEUED, STILL, (ID,))):
        bench.hear(two, message)
        assert [(peer_id, said[0]) for peer_id, said in bench.sent()] == [(two.id, MOVED)]
    assert bench.state(ID) == "queued"
    bench.hear(two, (GOTMOVE, 1, MYSELF, (ID,)), (WILLQUEUE, START_MS, (), (ID,)))
    assert not bench.sent(MOVED)
    bench.hear(two, (SETACK, (MYSELF, two.id), (ID,)))
    assert bench.state(ID) == "acked"
    assert one.id


def test_who_was_forgotten_hears_of_a_move_when_he_asks() -> None:
    bench = backup(1)
    (one,) = bench.peers
    client = bench.client()
    assert client("CLUSTER", "FORGET", one.id) == b"OK"
    bench.peers.remove(one)
    bench.live(200)
    assert one.id not in bench.job(ID).holders
    client("MOVE", "r", ID)
    one = bench.meet(0)
    bench.live(5000)
    assert not bench.sent(MOVED), "nobody here knows that he has a copy"
    bench.hear(one, (WILLQUEUE, START_MS, (MYSELF, one.id), (ID,)))
    assert [(peer_id, said[0]) for peer_id, said in bench.sent()] == [(one.id, MOVED)]


def test_who_was_forgotten_and_asks_about_his_copies_hears_of_a_move_and_is_known_again() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.client()("CLUSTER", "FORGET", one.id)
    bench.peers.remove(one)
    bench.live(200)
    bench.client()("MOVE", "r", ID)
    one = bench.meet(0)
    bench.sent()
    bench.hear(one, (ASKCOPY, (MYSELF, one.id), (ID,)))
    assert [(peer_id, said[0]) for peer_id, said in bench.sent(MOVED, COPYIS)] == [(one.id, MOVED), (one.id, COPYIS)]
    assert one.id in bench.job(ID).holders


def test_who_cannot_be_told_is_not_behind() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.client()("MOVE", "r", ID)
    bench.sent()
    bench.node.peers[one.id].capabilities = 0
    bench.hear(one, (QUEUED, STILL, (ID,)))
    assert bench.state(ID) == "active", "one of two that have it queued steps back"
    assert not bench.sent(MOVED)


def test_what_a_node_that_cannot_be_told_hands_over_from_the_old_queue_goes_into_the_new_one() -> None:
    bench = backup(1)
    (one,) = bench.peers
    client = bench.client()
    client("MOVE", "r", ID)
    again = yourjobs(yourjobs_row(ID, holders=(MYSELF, one.id), nacks=7))
    bench.node.peers[one.id].capabilities = 0
    bench.hear(one, (QUEUED, STILL, (ID,)))
    bench.hear(one, again)
    assert bench.job(ID).nacks == 0, "what is counted there belongs to another generation"
    assert client.get("q") == []
    assert client.get("r") == [ID], "else it would be handed over again and again, and reach nobody"
    bench.hear(one, again)
    assert client.get("r") == [], "it is out with a consumer"


def test_a_process_that_starts_again_may_have_lost_it() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.client()("MOVE", "r", ID)
    bench.hear(one, (GOTMOVE, 1, MYSELF, (ID,)))
    bench.sent()
    step.link_down(bench.node, one.id, False, bench.now_ms)
    step.link_up(bench.node, one.id, PROCESS + 1, bench.now_ms)
    bench.live(200)
    assert [peer_id for peer_id, _ in bench.sent(MOVED)] == [one.id]


def test_who_was_not_sure_of_this_node_hears_again_that_the_job_is_queued_here() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.client()("MOVE", "r", ID)
    bench.sent()
    bench.hear(one, moved(bench, b"r", 1, MYSELF))
    assert sorted(bench.sent()) == [(one.id, (QUEUED, STILL, (ID,))), (one.id, (GOTMOVE, 1, MYSELF, (ID,)))]
    bench.hear(one, (QUEUED, STILL, (ID,)))
    assert not bench.sent(MOVED), "now it is sure, and the two agree who keeps the job in its queue"


def test_who_was_not_sure_of_this_node_hears_again_that_the_job_was_given_back_here_with_a_delay() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id))
    bench.client()("NACK", ID, "DELAY", 5)
    assert bench.sent(QUEUED) == [(one.id, (QUEUED, BY_NACK, (ID,)))]
    bench.hear(one, moved(bench, b"r", 1, one.id))
    said = bench.sent()
    assert (one.id, (QUEUED, STILL, (ID,))) in said, "else it speaks until RETRY for what it has handed on"
    assert [message[0] for _, message in said] == [GOTMOVE, QUEUED]


def test_who_names_not_all_holders_of_what_has_moved_is_told_of_them() -> None:
    bench = backup()
    one, two = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id))
    bench.sent()
    _, *rest = moved(bench, b"r", 1, one.id)
    rest[4] = (MYSELF, one.id)
    bench.hear(one, (MOVED, *rest))
    holders = tuple(sorted([MYSELF, one.id, two.id]))
    assert sorted(bench.sent()) == [
        (one.id, (ANSWER, 0, ANSWER_NO, holders, (ID,))),
        (one.id, (GOTMOVE, 1, one.id, (ID,))),
    ]


def test_of_two_moves_one_wins() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.client()("MOVE", "b", ID)
    bench.sent()
    bench.hear(one, moved(bench, b"c", 1, one.id))
    assert [message[0] for _, message in bench.sent()] == [MOVED]
    assert bench.job(ID).queue == b"b"
    bench.hear(one, moved(bench, b"a", 1, one.id))
    assert bench.sent(GOTMOVE) == [(one.id, (GOTMOVE, 1, one.id, (ID,)))]
    assert (bench.job(ID).queue, bench.state(ID)) == (b"a", "active")


def test_who_does_not_know_the_job_confirms_and_who_knows_that_it_is_done_says_so() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id))
    assert bench.sent() == [(one.id, (GOTMOVE, 1, one.id, (ID,)))]
    other = backup(1)
    other.client()("ACKJOB", ID)
    other.sent()
    other.hear(other.peers[0], moved(other, b"r", 1, one.id))
    assert [message[0] for _, message in other.sent()] == [SETACK]


def test_a_delay_goes_along() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id, delay_ms=50_000))
    job = bench.job(ID)
    assert job.requeue_ms >= bench.now_ms + 110_000
    assert bench.client().show(ID)["queue"] == b"r"


def test_a_delay_is_told_to_others_without_the_retry_that_a_copy_waits_for_longer() -> None:
    bench = backup()
    one, two = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id, delay_ms=50_000))
    bench.sent()
    bench.hear(two, (WILLQUEUE, 1, (), (ID,)))
    ((_, message),) = bench.sent(MOVED)
    assert 50_000 <= message[4] <= 50_000 + JITTER_MS
    (record,) = [record for record in bench.node.outbox.records if record[0] == MOVE]
    assert 50_000 <= cast("int", record[5]) - bench.now_ms <= 50_000 + JITTER_MS


def test_a_node_that_stops_says_how_long_a_delay_is_after_a_move_too() -> None:
    bench = backup(1)
    (one,) = bench.peers
    bench.hear(one, moved(bench, b"r", 1, one.id, delay_ms=50_000), (HOLD, IN_MY_STEAD, (), (ID,), (40_000,)))
    assert 40_000 <= bench.job(ID).requeue_ms - bench.now_ms <= 40_000 + SPREAD_MS


def test_nonsense_is_skipped() -> None:
    bench = backup(1)
    (one,) = bench.peers
    good = moved(bench, b"r", 1, one.id)
    for at, value in ((2, b"x"), (2, encoded(retry=0)), (6, b"x"), (6, b""), (6, encode(Extra(), 0))):
        bench.hear(one, (*good[:at], value, *good[at + 1 :]))
    assert bench.node.messages_skipped == 5
    assert bench.job(ID).queue == b"q"


def test_of_one_that_is_delivered_at_most_once_nobody_else_is_told() -> None:
    bench = Bench(peers=1)
    peer = bench.peers[0]
    job_id = foreign_id(1, 0)
    bench.hear(peer, yourjobs(yourjobs_row(job_id, retry=0, holders=tuple(sorted((MYSELF, peer.id))))))
    job = bench.node.find(job_id)
    assert job is not None
    assert len(job.holders) == 2
    assert bench.client()("MOVE", "r", job_id) == 1
    assert bench.sent(MOVED) == []
    assert bench.node.moves.by_id == {}
    bench.link_down(peer)
    bench.link_up(peer)
    assert bench.sent(MOVED) == []


def test_a_holder_that_does_not_understand_a_move_hears_that_the_job_is_queued() -> None:
    """It had it in its queue as well, and both served it (simulator, seed 1030371)."""
    bench = Bench(peers=2)
    one, two = bench.peers
    client = bench.client()
    client.send("ADDJOB", "q", "body", 100, "REPLICATE", 3, "RETRY", 5, "TRIES", 1)
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, one, two)
    bench.client().get("q")
    bench.link_down(two)
    bench.membership.set_capabilities(two.id, MINE & ~JOBS)  # an older version was started again
    bench.link_up(two, PROCESS + 1)
    bench.sent()
    bench.client()("NACK", job_id)
    told = bench.sent()
    assert [(peer, message) for peer, message in told if message[0] == QUEUED] == [(two.id, (QUEUED, STILL, (job_id,)))]
    assert MOVED in {message[0] for peer, message in told if peer == one.id}
    bench.link_down(two)
    bench.link_up(two, PROCESS + 1)
    assert (QUEUED, STILL, (job_id,)) in bench.told(two)
    bench.hear(two, (QUEUED, STILL, (job_id,)))
    assert len(bench.sent(QUEUED)) + (bench.state(job_id) == "active") == 1, "one of the two steps back"
