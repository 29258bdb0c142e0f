import asyncio
import pickle
from datetime import timedelta
from typing import Any

import pytest

from disque.client import AsyncDisque, AsyncJob, Disque, Job, UnavailableError
from disque.client.replies import Delivered, Meta
from tests.client.fake import A, Hands, MakeHands, cancel_at_each_await, job_id, lost, making, refusal, row


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
    why = [b"ERROR", b"ZeroDivisionError: integer division or modulo by zero"]
    assert hands.client._pool.nodes.sent("NACK") == [[job.id.encode(), b"DELAY", b"%d" % seconds, *why]]
    [record] = caplog.records
    assert record.name == "disque.client"
    assert f"{job.id} of queue 'q\\udcff' failed" in record.getMessage(), "any stream can take it"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


META = Meta(1, 2, 0, 0, 5, 6, 7, 8, 9, "why", "mails", {"a": "b"})


@pytest.mark.parametrize(("options", "meta"), [
    ({"backoff": None}, None), ({"backoff": None}, META), ({}, META._replace(backoff="e:2000"))
])  # fmt: skip
def test_an_attempt_leaves_the_pause_to_a_job_that_has_a_backoff(
    make: MakeHands, caplog: pytest.LogCaptureFixture, options: dict[str, Any], meta: Meta | None
) -> None:
    hands, job = taken(make)
    job.meta = meta
    hands.inside(job.attempt(**options), lambda _job: int("x"))
    [words] = hands.client._pool.nodes.sent("NACK")
    assert words[1:2] == [b"ERROR"]
    [record] = caplog.records
    assert record.getMessage().endswith("failed (failures: 1)")


def test_an_attempt_fails_at_nodes_that_know_no_errors_and_no_decimals(make: MakeHands) -> None:
    for code in ("BADID x", "ERR DELAY"):
        hands, job = taken(make)
        hands.client._pool.nodes.answer = lambda _address, words, code=code: refusal(code) if b"ERROR" in words else 1
        hands.inside(job.attempt(backoff=0.5), lambda _job: 1 // 0)
        _, plain = hands.client._pool.nodes.sent("NACK")
        assert plain == [job.id.encode(), b"DELAY", b"1"]


def test_it_can_have_a_result_and_a_progress(make: MakeHands) -> None:
    hands = make(lambda _address, words: [row(1)] if words[0] == b"GETJOB" else 300)
    [job] = hands.get("q")
    assert hands.wait(job.progress("half")) == 300
    hands.inside(job, lambda job: job.ack(result=b"what came of it"))
    at = job.id.encode()
    assert hands.client._pool.nodes.sent("WORKING", "ACKJOB") == [
        [at, b"PROGRESS", b"half"],
        [at, b"RESULT", b"what came of it"],
    ]


def test_it_can_fail_for_a_reason_or_for_good(make: MakeHands) -> None:
    hands, job = taken(make)
    hands.wait(job.fail("why"))
    hands.wait(job.fail(ValueError("why"), delay=0.5))
    hands.wait(job.dead())
    hands.inside(job, lambda job: job.dead(error="never"))
    at = job.id.encode()
    assert hands.client._pool.nodes.sent("NACK") == [
        [at, b"ERROR", b"why"],
        [at, b"DELAY", b"0.5", b"ERROR", b"ValueError: why"],
        [at, b"DEAD"],
        [at, b"ERROR", b"never", b"DEAD"],
    ]
    assert told(hands) == [b"NACK"] * 4, "it is settled"


def test_what_is_known_of_it_must_be_asked_for(make: MakeHands) -> None:
    _, job = taken(make)
    for name in ("tries", "tries_left", "priority", "headers", "error", "origin"):
        with pytest.raises(AttributeError, match="meta=True"):
            getattr(job, name)
    job.meta = META
    assert (job.tries, job.tries_left, job.priority, job.headers, job.error, job.origin) == (
        *(1, 2, 5, {"a": "b"}, "why", "mails"),
    )


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
    job = pickle.loads(pickle.dumps(kind(client(), Delivered("D-1", "q", b"b", 1, 2, META), A)))
    assert type(job) is kind
    assert (job.id, job.nacks, job.additional_deliveries, job.meta, job.node) == ("D-1", 1, 2, META, A)


@pytest.mark.parametrize(("say", "word"), [
    (lambda job: job.ack(), b"ACKJOB"),
    (lambda job: job.ack("result"), b"ACKJOB"),
    (lambda job: job.nack(), b"NACK"),
    (lambda job: job.fail("why"), b"NACK"),
    (lambda job: job.dead(), b"NACK"),
    (lambda job: job.__aexit__(None, None, None), b"ACKJOB"),
    (lambda job: job.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None), b"NACK"),
    (lambda job: job.attempt().__aexit__(ValueError, ValueError(), None), b"NACK"),
])  # fmt: skip
def test_what_ends_the_work_is_told_also_when_the_task_is_cancelled_at_each_await(say: Any, word: bytes) -> None:
    async def cancelled(hands: Hands, job: Any) -> None:
        task = asyncio.ensure_future(say(job))
        await cancel_at_each_await(task)
        assert task.cancelled()
        await hands.client.aclose()

    with making("asyncio") as make:
        hands, job = taken(make)
        hands.runner.run(cancelled(hands, job))
        assert told(hands) == [word]
