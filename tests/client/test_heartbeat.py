import threading
from typing import Any

import pytest

from disque.client import JobCancelledError, NoJobError, TooLateError, UnavailableError
from disque.client.config import Address
from disque.client.errors import CommandError
from disque.client.heartbeat import FIRST_S, LONGEST_S, SHORTEST_S, Pulse
from tests.client.fake import ID, B, MakeHands, Words, config, job_id, lost, making, refusal, row

PATIENCE_S = 30


class TestPulse:
    @pytest.mark.parametrize(
        ("answers", "interval_s"),
        [([300, 9], 3), ([0, 0], FIRST_S), ([1, 300], 1 / 3), ([9000, 9000], LONGEST_S), ([0, 9], 3)],
    )
    def test_it_beats_three_times_in_the_shortest_retry(self, answers: list[int], interval_s: float) -> None:
        pulse = Pulse(["a", "b"])
        pulse.answered(answers)
        assert pulse.interval_s == pytest.approx(interval_s)

    def test_never_too_often(self) -> None:
        assert SHORTEST_S < FIRST_S
        pulse = Pulse(["a"])
        pulse.answered([1])
        assert pulse.interval_s >= SHORTEST_S

    def test_a_job_that_is_gone_is_left_out(self) -> None:
        pulse = Pulse(["a", "b", "c"])
        gone, late = NoJobError("x"), TooLateError("y")
        pulse.answered([gone, 30, late])
        assert pulse.ids == ["b"]
        assert pulse.errors == {"a": gone, "c": late}

    def test_a_beat_that_nobody_answered_is_only_missed(self) -> None:
        pulse = Pulse(["a"])
        pulse.missed(UnavailableError("x"))
        assert pulse.ids == ["a"]
        wrong = CommandError("x")
        pulse.missed(wrong)
        assert (pulse.ids, pulse.errors) == ([], {"a": wrong})

    def test_progress_is_told_until_a_beat_was_answered(self) -> None:
        pulse = Pulse(["a"])
        assert pulse.news() is None
        pulse.progress = "half"
        assert [pulse.news(), pulse.news()] == ["half", "half"]
        pulse.missed(UnavailableError("x"))
        assert pulse.news() == "half"
        pulse.answered([9])
        assert pulse.news() is None
        pulse.progress = "nearly"
        assert pulse.news() == "nearly"
        pulse.progress = "more"
        pulse.answered([9])
        assert pulse.news() == "more", "what was said meanwhile"


def test_it_says_how_far_the_work_is(make: MakeHands) -> None:
    hands = make(lambda _address, words: 300 if len(words) == 4 else [300, refusal("CANCELLED x")])
    keeping = hands.client.keep_working([ID, "x"])
    keeping.progress("half")
    hands.inside(keeping, lambda kept: hands.client._pool.nodes.sent() or kept.progress("unsaid"))
    assert hands.client._pool.nodes.sent("WORKING") == [[ID.encode(), b"x", b"PROGRESS", b"half"]]
    with pytest.raises(JobCancelledError):
        keeping.check()


def test_it_says_working_when_it_begins_and_has_ended_when_it_ends(make: MakeHands) -> None:
    hands = make(lambda _address, _words: 300)
    hands.inside(hands.client.keep_working([ID]), lambda kept: kept.check())
    assert hands.client._pool.nodes.sent("WORKING") == [[ID.encode()]]
    assert [one.name for one in threading.enumerate() if one.name.startswith("disque")] == []


def test_it_asks_the_node_that_gave_the_job(make: MakeHands) -> None:
    hands = make(lambda _address, words: [row(1)] if words[0] == b"GETJOB" else 300, config(("a", 1), B))
    hands.client.router.current = B
    [job] = hands.get("q")
    hands.client.router.current = ("a", 1)
    hands.inside(job.keep_working(), lambda _kept: None)
    assert hands.client._pool.nodes.asked() == [B, B]


def test_what_that_node_does_not_know_is_looked_for_at_the_others(make: MakeHands) -> None:
    known = {("a", 1): {job_id(1)}, B: {job_id(2)}}

    def answer(address: Address, words: Words) -> object:
        replies = [9 if one.decode() in known[address] else refusal("NOJOB x") for one in words[1:]]
        return replies if len(replies) > 1 else replies[0]

    hands = make(answer, config(("a", 1), B))
    keeping = hands.client.keep_working([job_id(number) for number in (1, 2, 3)])
    hands.inside(keeping, lambda _kept: None)
    assert keeping._pulse.ids == [job_id(1), job_id(2)]
    assert [*keeping.errors] == [job_id(3)]
    assert isinstance(keeping.errors[job_id(3)], NoJobError)


def test_it_goes_on_saying_it_in_the_background(make: MakeHands) -> None:
    enough = threading.Event()
    replies = [1, lost(), *[1] * 3]

    def answer(_address: object, _words: object) -> object:
        if not replies:
            enough.set()
            return refusal("TOOLATE x")
        return replies.pop(0)

    hands = make(answer, config(attempts=1))
    keeping = hands.client.keep_working([ID])

    def work(kept: Any) -> Any:
        return ended(kept) if hasattr(kept, "__aenter__") else kept._thread.join(PATIENCE_S)

    keeping._pulse.answered = quickly(keeping._pulse)
    hands.inside(keeping, work)
    assert enough.is_set()
    assert isinstance(keeping.errors[ID], TooLateError)
    with pytest.raises(TooLateError):
        keeping.check()


@pytest.mark.parametrize("begins", [False, True])
def test_one_whose_start_is_interrupted_ends(begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupt(thread: threading.Thread) -> None:
        monkeypatch.undo()
        if begins:
            start(thread)
        raise KeyboardInterrupt

    with making("blocking") as make:
        keeping = make(lambda _address, _words: 300).client.keep_working([ID])
        monkeypatch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            keeping.start()
        if begins:
            keeping._thread.join(PATIENCE_S)
            assert not keeping._thread.is_alive()
        keeping.stop()


async def ended(kept: Any) -> None:
    await kept._task


def quickly(pulse: Pulse) -> Any:
    """Takes answers as a pulse does, and beats on at once."""
    answered = type(pulse).answered

    def take(answers: Any) -> None:
        answered(pulse, answers)
        pulse.interval_s = 0

    return take
