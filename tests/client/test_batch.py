from random import Random
from typing import Any

import pytest

from disque.client import Config, NewJob, batch, errors
from disque.client.batch import BatchOptions, Packer
from disque.client.config import Address
from disque.client.delivery import Exchange, Outcome
from disque.client.router import Router
from tests.client.fake import A, B, FakeNodes, Words, config, job_id, lost, refusal


def run(nodes: FakeNodes, flow: Any) -> Any:
    """Do what a flow yields."""
    try:
        step = next(flow)
        while True:
            step = flow.send(nodes.outcome(step)[0] if isinstance(step, Exchange) else Outcome())
    except StopIteration as stop:
        return stop.value


def add(nodes: FakeNodes, jobs: Any, settings: Config | None = None, pipeline: int = 1000, **options: Any) -> Any:
    settings = settings or config()
    how = options.pop("errors", "raise")
    router = Router(settings, lambda: 0.0, Random(1))
    defaults: Any = options
    return run(nodes, batch.add_parts(router, settings, jobs, Packer(settings, defaults), pipeline, how))


def counting() -> Any:
    """Answers of a node that gives IDs by the body."""
    return lambda _address, words: job_id(int(words[2])).encode()


def test_pairs_and_new_jobs_with_the_options_of_the_batch() -> None:
    nodes = FakeNodes(counting())
    jobs = [("q", "1"), NewJob("r", b"2", retry=9), NewJob("r", b"3", unique="k"), NewJob("r", b"4", background=True)]
    options: BatchOptions = {"timeout_ms": 50, "retry": 5, "window": 7, "replicate": 1}
    assert add(nodes, jobs, **options) == [job_id(number) for number in (1, 2, 3, 4)]
    first, second, third, fourth = nodes.sent("ADDJOB")
    assert first == [b"q", b"1", b"50", b"REPLICATE", b"1", b"RETRY", b"5"]
    assert second == [b"r", b"2", b"50", b"REPLICATE", b"1", b"RETRY", b"9"]
    assert third[-3:] == [b"UNIQUE", b"k", b"7"]
    assert fourth[-1:] == [b"ASYNC"]


def test_what_a_job_says_of_when_is_in_place_of_what_the_batch_says() -> None:
    nodes = FakeNodes(counting())
    add(nodes, [("q", "1"), NewJob("q", "2", delay=0.5), NewJob("q", "3", tries=1)], at=9.0, tries=4)
    add(nodes, [NewJob("q", "4", at=9.0, headers={"a": "b"})], delay=7, backoff="fixed:1", headers={"c": "d"})
    assert [words[3:] for words in nodes.sent("ADDJOB")] == [
        [b"AT", b"9000", b"TRIES", b"4"],
        [b"DELAY", b"0.5", b"TRIES", b"4"],
        [b"AT", b"9000", b"TRIES", b"1"],
        [b"AT", b"9000", b"BACKOFF", b"fixed:1", b"HEADER", b"a", b"b"],
    ]


def test_jobs_are_taken_and_sent_in_parts() -> None:
    taken = 0
    seen: list[int] = []

    def jobs() -> Any:
        nonlocal taken
        for taken in range(1, 8):
            yield "q", str(taken)

    def answer(_address: Address, words: Words) -> bytes:
        seen.append(taken)
        return job_id(int(words[2])).encode()

    assert add(FakeNodes(answer), jobs(), pipeline=3) == [job_id(number) for number in range(1, 8)]
    assert seen == [3, 3, 3, 6, 6, 6, 7]


def test_parts_are_bounded_in_bytes() -> None:
    packer = Packer(config(), {})
    body = bytes(batch.BYTES_MOST // 2)
    assert [len(part) for part in batch.parts([("q", body)] * 5, packer, 1000)] == [2, 2, 1]
    with pytest.raises(ValueError, match="pipeline must be at least 1"):
        list(batch.parts([], packer, 0))


def test_what_is_no_job_is_refused() -> None:
    for wrong in (("q", "b", "c"), ("q", None), "ab", b"ab", "abc"):
        with pytest.raises(TypeError):
            add(FakeNodes(counting()), [wrong])


def answer_with_refusals(_address: Address, words: Words) -> object:
    number = int(words[2])
    return refusal("PAUSED not now") if number % 2 else job_id(number).encode()


def test_refusals_are_raised_with_what_came_of_the_rest() -> None:
    nodes = FakeNodes(answer_with_refusals)
    with pytest.raises(errors.PausedError) as caught:
        add(nodes, [("q", str(number)) for number in range(6)], pipeline=3)
    assert [type(one).__name__ for one in caught.value.results] == ["str", "PausedError", "str"]
    assert len(nodes.log) == 3


def test_refusals_may_stand_in_the_list() -> None:
    found = add(FakeNodes(answer_with_refusals), [("q", str(number)) for number in range(3)], errors="return")
    assert [found[0], str(found[1]), found[2]] == [job_id(0), "PAUSED not now", job_id(2)]


def test_what_was_not_answered_goes_to_another_node() -> None:
    def answer(address: Address, words: Words) -> object:
        number = int(words[2])
        return lost() if address == A and number == 2 else job_id(number).encode()

    nodes = FakeNodes(answer)
    assert add(nodes, [("q", str(number)) for number in range(4)], config(A, B)) == [job_id(n) for n in range(4)]
    assert [(address, words[2]) for address, words in nodes.log if address == B] == [(B, b"2"), (B, b"3")]


def test_when_no_node_is_left_the_error_has_what_was_added() -> None:
    nodes = FakeNodes(lambda _address, words: lost() if words[2] == b"3" else job_id(int(words[2])).encode())
    with pytest.raises(errors.UnavailableError) as caught:
        add(nodes, [("q", str(number)) for number in range(5)], pipeline=2)
    assert caught.value.results == [job_id(0), job_id(1), job_id(2), None]


class TestAcknowledging:
    def ack(self, nodes: FakeNodes, ids: Any) -> Any:
        return run(nodes, batch.ack_parts(Router(config(), lambda: 0.0, Random(1)), config(), ids))

    def test_any_number(self) -> None:
        nodes = FakeNodes(lambda _address, words: len(words) - 1)
        assert self.ack(nodes, (job_id(number) for number in range(2500))) == 2500
        assert list(map(len, nodes.sent("ACKJOB"))) == [1000, 1000, 500]

    def test_none(self) -> None:
        nodes = FakeNodes(counting())
        assert self.ack(nodes, []) == 0
        assert nodes.log == []

    def test_an_error_is_raised(self) -> None:
        with pytest.raises(errors.BadIdError):
            self.ack(FakeNodes(lambda _address, _words: refusal("BADID x")), ["x"])
