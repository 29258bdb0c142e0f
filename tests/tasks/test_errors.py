"""What tasks raise, and what it says."""

from datetime import timedelta

import pytest

from disque.tasks import JobFailedError, Retry, Snooze
from disque.tasks.errors import seconds


def test_delays_are_durations() -> None:
    assert Retry().delay_s is None
    assert Retry(timedelta(minutes=1)).delay_s == 60
    assert Snooze(0.25).delay_s == 0.25
    with pytest.raises(ValueError, match="must not be negative"):
        Snooze(-1)
    with pytest.raises(TypeError):
        seconds("1", "delay")  # type: ignore[arg-type]  # that is what is refused


def test_a_failure_says_how_and_why() -> None:
    error = JobFailedError("D-1", "dead", "ValueError: no")
    assert str(error) == "job D-1 is dead: ValueError: no"
    assert (error.job_id, error.status, error.error) == ("D-1", "dead", "ValueError: no")
