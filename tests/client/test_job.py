import asyncio
import pickle
from datetime import timedelta
from typing import Any

import pytest

from disque.client import AsyncDisque, AsyncJob, Disque, Job, UnavailableError
from disque.client.replies import Delivered
from tests.client.fake import A, Hands, MakeHands, job_id, lost, row


def taken(make: MakeHands, body: bytes = b"body") -> tuple[Hands, Any]:
    hands = make(lambda _address, words: [row(1, b"q\xff", body)] if words[0] == b"GETJOB" else 1)
    [job] = hands.get("q")
    return hands, job


def told(hands: Hands) -> list[bytes]:
    return [words[0] for _, words in hands.client._pool.nodes.log[1:]]


def test_what_it_has(make: MakeHands) -> None:
    _, job = taken(make)
    assert (job.id, job.queue, job.body, job.nacks, job.additional_deliveries, job.node) == (
        *(job_id(1), "q\udcff", b"body", 0, 0, A),
    )
    assert job.text() == "body"
    assert job_id(1) in repr(job)
    assert b"x" * 41 not in repr(taken(make, b"x" * 100)[1]).encode()


def test_json(make: MakeHands) -> None:
    assert taken(make, b'{"a": [1]}')[1].json() == {"a": [1]}
    with pytest.raises(ValueError, match="Expecting value"):
        taken(make, b"nonsense")[1].json()


def test_work_that_is_done_is_acknowledged(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.inside(job, lambda _job: None)
    assert told(hands) == [b"ACKJOB"]


def test_work_that_fails_is_given_back_and_the_exception_goes_on(make: MakeHands) -> None:
    hands, job = taken(make)
    with pytest.raises(ZeroDivisionError):
        hands.inside(job, lambda _job: 1 // 0)
    assert told(hands) == [b"NACK"]


def test_what_was_settled_inside_is_left_alone(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.inside(job, lambda job: job.nack(delay=5))
    hands.inside(job, lambda job: job.ack())
    assert told(hands) == [b"NACK", b"ACKJOB"]


def test_a_job_that_cannot_be_given_back_hides_no_exception(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.client._pool.nodes.answer = lambda _address, _words: lost()
    with pytest.raises(ZeroDivisionError):
        hands.inside(job, lambda _job: 1 // 0)
    with pytest.raises(UnavailableError):
        hands.inside(job, lambda _job: None)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_job_whose_program_ends_is_given_back_uncounted(make: MakeHands, ending: type[BaseException]) -> None:
    hands, job = taken(make)
    for manager in (job, job.attempt()):
        leave = manager.__aexit__ if isinstance(job, AsyncJob) else manager.__exit__
        assert not hands.wait(leave(ending, ending(), None)), "it goes on"
    assert hands.client._pool.nodes.sent("NACK") == [[job.id.encode(), b"NOCOUNT"]] * 2


def test_an_attempt_that_succeeds_is_acknowledged(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.inside(job.attempt(), lambda entered: None if entered is job else 1 // 0)
    assert told(hands) == [b"ACKJOB"]


@pytest.mark.parametrize(("nacks", "options", "seconds"), [
    (0, {}, 1),
    (1, {}, 2),
    (5, {}, 32),
    (9, {}, 300),
    (65535, {"longest": timedelta(hours=1)}, 3600),
    (2, {"backoff": 5}, 20),
    (3, {"backoff": 0}, 0),
])  # fmt: skip
def test_an_attempt_that_fails_is_logged_and_held_back_longer_each_time(
    make: MakeHands, caplog: pytest.LogCaptureFixture, nacks: int, options: dict[str, Any], seconds: int
) -> None:
    hands, job = taken(make)
    job.nacks = nacks
    hands.inside(job.attempt(**options), lambda _job: 1 // 0)
    assert hands.client._pool.nodes.sent("NACK") == [[job.id.encode(), b"DELAY", b"%d" % seconds]]
    [record] = caplog.records
    assert record.name == "disque.client"
    assert f"{job.id} of queue 'q\\udcff' failed" in record.getMessage(), "any stream can take it"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_an_attempt_leaves_alone_what_was_settled_inside(make: MakeHands) -> None:
    hands, job = taken(make)

    async def awaited(entered: Any) -> None:
        await entered.nack(delay=7)
        raise ValueError

    def called(entered: Any) -> Any:
        if isinstance(entered, AsyncJob):
            return awaited(entered)
        entered.nack(delay=7)
        raise ValueError

    hands.inside(job.attempt(), called)
    assert hands.client._pool.nodes.sent("NACK") == [[job.id.encode(), b"DELAY", b"7"]]


def test_pauses_are_not_negative(make: MakeHands) -> None:
    _, job = taken(make)
    for options in ({"backoff": -1}, {"longest": -1}):
        with pytest.raises(ValueError, match="must not be negative"):
            job.attempt(**options)


def test_it_can_be_given_back_uncounted(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.wait(job.nack(count=False))
    assert hands.client._pool.nodes.sent("NACK") == [[job.id.encode(), b"NOCOUNT"]]


def test_working(make: MakeHands) -> None:
    hands, job = taken(make)
    assert hands.wait(job.working()) == 1


@pytest.mark.parametrize(("kind", "client"), [(Job, Disque), (AsyncJob, AsyncDisque)])
def test_it_travels(kind: Any, client: Any) -> None:
    job = pickle.loads(pickle.dumps(kind(client(), Delivered("D-1", "q", b"b", 1, 2), A)))
    assert type(job) is kind
    assert (job.id, job.nacks, job.additional_deliveries, job.node) == ("D-1", 1, 2, A)
