import inspect
from typing import Any

import pytest

from disque.client import PausedError, UnavailableError
from disque.client.delivery import PART_BYTES, Exchange
from tests.client.fake import ID, A, B, MakeHands, config, lost, refusal


def test_commands_travel_together_and_have_their_values(make: MakeHands) -> None:
    replies = {b"ADDJOB": ID.encode(), b"QLEN": 3, b"WORKING": 5}
    hands = make(lambda _address, words: replies[words[0]])
    pipeline = hands.client.pipeline(transaction=False)
    assert len(pipeline.add("q", "b").queue_length("q").execute_command("QLEN", "r").working(ID)) == 4
    assert hands.wait(pipeline.execute()) == [ID, 3, 3, [5]]
    assert len(pipeline) == 0
    assert hands.wait(pipeline.execute()) == []


def test_jobs_that_fail_and_move(make: MakeHands) -> None:
    hands = make(lambda _address, words: ID.encode() if words[0] == b"ADDJOB" else 1)
    pipeline = hands.client.pipeline().add("q", "b", tries=2).nack(ID, error="x", dead=True).move("r", ID).revive(ID)
    assert hands.wait(pipeline.execute()) == [ID, 1, 1, 1]
    assert [b" ".join(words) for _, words in hands.client._pool.nodes.log] == [
        b"ADDJOB q b 3000 TRIES 2",
        *(line % ID.encode() for line in (b"NACK %b ERROR x DEAD", b"MOVE r %b", b"REVIVEJOB %b")),
    ]


def test_jobs_that_end(make: MakeHands) -> None:
    hands = make(lambda _address, words: None if words[0] == b"RESULT" else 1)
    pipeline = hands.client.pipeline().ack(ID, result="r").result(ID).cancel(ID, waiting=True)
    assert hands.wait(pipeline.execute()) == [1, None, 1]


def test_an_error_is_raised_or_stands_in_the_list(make: MakeHands) -> None:
    hands = make(lambda _address, words: refusal("PAUSED x") if words[1] == b"p" else ID.encode())
    pipeline = hands.client.pipeline()
    with pytest.raises(PausedError) as caught:
        hands.wait(pipeline.add("q", "b").add("p", "b").execute())
    assert caught.value.results == [ID, caught.value]
    _, error = hands.wait(pipeline.add("q", "b").add("p", "b").execute(raise_on_error=False))
    assert isinstance(error, PausedError)


def test_the_rest_of_a_broken_pipeline_goes_elsewhere(make: MakeHands) -> None:
    hands = make(lambda address, words: lost() if address == A and words[1] == b"2" else 0, config(A, B))
    pipeline = hands.client.pipeline()
    for number in (1, 2, 3):
        pipeline.queue_length(str(number))
    assert hands.wait(pipeline.execute()) == [0, 0, 0]
    assert [(address, words[1]) for address, words in hands.client._pool.nodes.log if address == B] == [
        *((B, b"2"), (B, b"3"))
    ]


def test_a_large_one_goes_in_parts_whose_replies_are_read_between(make: MakeHands) -> None:
    hands = make(lambda _address, words: words[1][:1])
    pipeline = hands.client.pipeline()
    for letter in "abcde":
        pipeline.execute_command("ECHO", letter * (PART_BYTES // 2))
    nodes, sent = hands.client._pool.nodes, []
    answered = nodes.outcome

    def outcome(step: Exchange) -> Any:
        sent.append(step.replies)
        return answered(step)

    nodes.outcome = outcome
    assert hands.wait(pipeline.execute()) == [b"a", b"b", b"c", b"d", b"e"]
    assert sent == [2, 2, 1]


def test_what_a_large_one_was_answered_before_it_broke_is_told(make: MakeHands) -> None:
    hands = make(lambda _address, words: lost() if words[1][:1] == b"d" else words[1][:1], config(attempts=1))
    pipeline = hands.client.pipeline()
    for letter in "abcdef":
        pipeline.execute_command("ECHO", letter * (PART_BYTES // 2))
    with pytest.raises(UnavailableError) as caught:
        hands.wait(pipeline.execute())
    assert caught.value.results == [b"a", b"b", b"c", None, None, None]


def test_it_is_as_patient_as_its_most_patient_command(make: MakeHands) -> None:
    hands = make(lambda _address, _words: 1)
    pipeline = hands.client.pipeline().add("q", "b", timeout_ms=9000).queue_length("q")
    step: Any = next(pipeline.flow(hands.client.router, raise_on_error=True))
    assert step.timeout_s == 12.0


def test_old_code_uses_it_as_a_context_manager(make: MakeHands) -> None:
    hands = make(lambda _address, _words: 1)
    kept = []

    def work(pipeline: Any) -> Any:
        kept.append(pipeline.queue_length("q"))
        assert not inspect.iscoroutine(pipeline)

    hands.inside(hands.client.pipeline(), work)
    assert len(kept[0]) == 0


def test_there_are_no_transactions(make: MakeHands) -> None:
    with pytest.raises(ValueError, match="no transactions"):
        make(lambda _address, _words: 1).client.pipeline(transaction=True)
