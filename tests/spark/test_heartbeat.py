import threading
import time

from disque.spark.heartbeat import FIRST_S, LONGEST_S, Heartbeat, Schedule
from tests.end_to_end.node import until


class TestSchedule:
    def test_the_first_beat_is_early_enough_for_the_shortest_retry(self) -> None:
        schedule = Schedule()
        schedule.hold(["a"], 10.0)
        assert schedule.next_s() == 10.0 + FIRST_S < 11.0
        assert schedule.due(10.0) == []
        assert schedule.due(10.0 + FIRST_S) == ["a"]

    def test_the_answer_tells_how_often_to_beat(self) -> None:
        schedule = Schedule()
        schedule.hold(["a", "b", "c"], 0.0)
        schedule.answered(["a", "b", "c"], {"a": 1, "b": 30, "c": 100_000}, 1.0)
        assert schedule.due(1.0 + 1 / 3) == ["a"]
        assert schedule.due(1.0 + 10) == ["a", "b"]
        assert schedule.due(1.0 + LONGEST_S) == ["a", "b", "c"]

    def test_what_nobody_answered_is_asked_soon_again(self) -> None:
        schedule = Schedule()
        schedule.hold(["a"], 0.0)
        assert schedule.answered(["a"], {}, 5.0) == []
        assert schedule.next_s() == 5.0 + FIRST_S

    def test_a_job_that_can_be_held_no_longer_is_told_and_dropped(self) -> None:
        schedule = Schedule()
        schedule.hold(["a", "b"], 0.0)
        assert schedule.answered(["a", "b"], {"a": None, "b": 3}, 1.0) == ["a"]
        assert len(schedule) == 1

    def test_what_is_released_stays_so_whatever_is_answered(self) -> None:
        schedule = Schedule()
        schedule.hold(["a"], 0.0)
        schedule.release(["a", "x"])
        assert schedule.answered(["a"], {"a": 3}, 1.0) == []
        assert schedule.next_s() is None


class TestHeartbeat:
    def test_it_beats_by_itself_even_after_an_error_and_ends(self) -> None:
        asked: list[list[str]] = []

        def working(ids: list[str]) -> dict[str, int | None]:
            asked.append(ids)
            if len(asked) == 1:
                raise OSError("gone")
            return dict.fromkeys(ids, 1)

        heartbeat = Heartbeat(working, time.monotonic)
        heartbeat.hold(["a"])
        until(lambda: len(asked) > 2, "beats")
        heartbeat.release(["a"])
        heartbeat.stop()
        until(lambda: "disque-heartbeat" not in {thread.name for thread in threading.enumerate()}, "the end")
        assert asked[0] == ["a"]
