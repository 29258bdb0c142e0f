import pytest

from cluster.messages import (
    REPLJOB,
    REPLJOB_BODIES,
    REPLJOB_DELAY_MS,
    REPLJOB_HOLDERS,
    REPLJOB_IDS,
    REPLJOB_LEFT_MS,
    REPLJOB_QUEUE,
    REPLJOB_SPEC,
)
from disque.core import step
from disque.core.model.copies import WAVE_BYTES, WAVE_MOST
from tests.core.support import Bench


@pytest.mark.parametrize("words", ["r b 0", "q b 0 RETRY 9", "q b 0 TTL 900", "q b 0 DELAY 1", "q b 0 REPLICATE 2"])
def test_a_job_that_differs_in_more_has_another_message(words: str) -> None:
    bench = Bench(peers=2)
    client = bench.client()
    for line in ("q b 0", words, "q b 0"):
        step.command(bench.node, client.session, [b"ADDJOB", *line.encode().split()], bench.now_ms)
    sent = bench.sent(REPLJOB)
    assert len({id(message) for _, message in sent}) == 3
    for _, message in sent:
        (job_id,) = message[REPLJOB_IDS]
        job = bench.node.copies.wanted[job_id].job
        assert (message[REPLJOB_QUEUE], message[REPLJOB_SPEC]) == (job.queue, job.spec.encoded)
        assert (message[REPLJOB_LEFT_MS], message[REPLJOB_DELAY_MS]) == (job.ttl * 1000, job.delay * 1000)
        assert message[REPLJOB_HOLDERS] == job.holders


def test_jobs_with_the_same_date_share_a_message_and_no_others_do() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    wall_ms = bench.host.wall_us() // 1000
    at = b"AT %d" % (wall_ms + 700)
    for words in (at, at, b"DELAY 1", b"AT %d" % (wall_ms + 701), b"DELAY 0.7", b"DELAY 0.7"):
        step.command(bench.node, client.session, [b"ADDJOB", b"q", b"b", b"0", *words.split()], bench.now_ms)
    sent = [message for _, message in bench.sent(REPLJOB)]
    assert [(len(message[REPLJOB_IDS]), message[REPLJOB_DELAY_MS]) for message in sent[::2]] == [
        (2, 700),
        (1, 1000),
        (1, 701),
        (2, 700),
    ]


def test_a_message_of_jobs_has_bounds() -> None:
    bench = Bench(peers=2, checked=False)
    client = bench.client()
    for _ in range(WAVE_MOST + 1):
        step.command(bench.node, client.session, [b"ADDJOB", b"q", b"b", b"0"], bench.now_ms)
    assert [len(message[REPLJOB_IDS]) for message in bench.told(bench.peers[0])] == [WAVE_MOST, 1]
    for size in (WAVE_BYTES, 1, 1):
        step.command(bench.node, client.session, [b"ADDJOB", b"q", b"b" * size, b"0"], bench.now_ms)
    assert [len(message[REPLJOB_IDS]) for message in bench.told(bench.peers[0])] == [1, 2]


def test_a_node_that_goes_in_the_middle_of_a_turn_is_asked_for_no_more() -> None:
    bench = Bench(peers=3)
    client = bench.client()
    step.command(bench.node, client.session, [b"ADDJOB", b"q", b"one", b"0"], bench.now_ms)
    (job_id,) = bench.node.copies.wanted
    gone = next(peer for peer in bench.peers if peer.id in bench.node.copies.wanted[job_id].asked)
    step.link_down(bench.node, gone.id, True, bench.now_ms)
    step.command(bench.node, client.session, [b"ADDJOB", b"q", b"two", b"0"], bench.now_ms)
    assert [message[REPLJOB_BODIES] for message in bench.told(gone, REPLJOB)] == [(b"one",)]
    assert gone.id not in list(bench.node.copies.wanted.values())[1].asked
