from datetime import UTC, datetime

import pytest

from disque.django.records import ERROR_MOST, PROGRESS_MOST, Attempts, error_of, error_text, read_error

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


def test_attempts_are_told_and_read() -> None:
    attempts = Attempts().begun("one", NOON).begun("two", NOON.replace(hour=13))
    assert attempts == Attempts(["one", "two"], NOON, NOON.replace(hour=13))
    assert Attempts.unpacked(attempts.packed()) == attempts


def test_of_very_many_the_last_ones_are_told() -> None:
    attempts = Attempts([f"worker-{number:020}" for number in range(200)], NOON, NOON)
    text = attempts.packed()
    assert len(text) <= PROGRESS_MOST
    assert Attempts.unpacked(text).workers == attempts.workers[-len(Attempts.unpacked(text).workers) :]


@pytest.mark.parametrize("text", [None, "", "half done", "[]", "[1, 2, 3]", '[["a"], "soon", null]', "{}"])
def test_a_progress_of_somebody_else_tells_of_no_attempts(text: str | None) -> None:
    assert Attempts.unpacked(text) == Attempts()


def fail(text: str) -> None:
    raise ValueError(text)


def raised(text: str) -> ValueError:
    with pytest.raises(ValueError, match=text[:1]) as caught:
        fail(text)
    return caught.value


def test_an_error_is_told_and_read() -> None:
    told = error_of(raised("bad"))
    found, when = read_error(error_text(told))
    assert found == told
    assert found.exception_class is ValueError
    assert found.traceback.endswith("ValueError: bad\n")
    assert when is not None


def test_of_a_long_one_the_end_is_told() -> None:
    told = error_of(raised("é" * 10_000))
    text = error_text(told)
    assert len(text.encode()) <= ERROR_MOST
    assert read_error(text)[0].traceback.endswith("éé\n")


@pytest.mark.parametrize("text", [None, "", "rejected by its consumer", "one\ntwo", "one\ntwo\nthree"])
def test_an_error_of_somebody_else_is_shown_as_it_is(text: str | None) -> None:
    found, when = read_error(text)
    assert (found.exception_class, when) == (RuntimeError, None)
    assert found.traceback == (text or "its workers have died, or took longer than their lease")
