import inspect
import traceback

import pytest

from disque.client import NoReplError
from disque.spark.doors import PlainError, bare, door, is_plain, rows_door


class WrongError(PlainError):
    """An error of ours."""


def deep(error: Exception) -> None:
    raise error


@door
def opened(error: Exception | None) -> int:
    if error is not None:
        deep(error)
    return 7


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)][1:]  # the first is the test


def test_plain_errors_leave_with_one_frame_and_nothing_behind_them() -> None:
    assert opened(None) == 7
    with pytest.raises(WrongError, match="partition 3") as caught:
        opened(WrongError("partition 3"))
    assert frames(caught.value) == ["opened"]
    assert caught.value.__context__ is None


def test_an_error_that_nobody_foresaw_keeps_its_frames() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        opened(ZeroDivisionError("a bug"))
    assert frames(caught.value) == ["opened", "opened", "deep"]


def test_spark_sees_the_parameters_of_what_is_behind_a_door() -> None:
    assert list(inspect.signature(opened).parameters) == ["error"]


def test_rows() -> None:
    assert list(rows_door(iter([1, 2]))) == [1, 2]

    def failing(error: Exception) -> "list[int]":
        raise error

    with pytest.raises(WrongError) as caught:
        list(rows_door(failing(WrongError("x")) for _ in "a"))
    assert frames(caught.value) == ["rows_door"]
    with pytest.raises(ZeroDivisionError):
        list(rows_door(failing(ZeroDivisionError("x")) for _ in "a"))


def test_what_is_plain() -> None:
    assert all(map(is_plain, (WrongError("x"), ImportError("x"), NoReplError("x"))))
    assert not is_plain(ValueError("x"))
    assert bare(WrongError("x")).__traceback__ is None
