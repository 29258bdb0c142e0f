"""What becomes of a job by what its function raises."""

import asyncio

from disque.tasks import Dead, Discard, MessageError, Retry, Snooze
from disque.tasks.outcome import Back, Done, Told, explained, of_error


def raised(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301 - so that it has a traceback
    except BaseException as caught:  # noqa: BLE001 - of any kind
        return caught


def test_verdicts() -> None:
    assert of_error(Retry()) == Back("Retry", None)
    assert of_error(Retry(5, "busy")) == Back("busy", 5)
    assert of_error(Snooze(5)) == Back(None, 5, counts=False)
    assert of_error(Discard()) == Done()
    assert of_error(Dead("no such user")) == Back("Dead: no such user", dead=True)
    assert of_error(MessageError("odd")) == Back("MessageError: odd", dead=True)
    assert of_error(Told(Back("x", 1))) == Back("x", 1)


def test_anything_else_is_a_failure_with_type_text_and_place() -> None:
    for error in (ValueError("bad"), SystemExit(3), KeyboardInterrupt(), MemoryError()):
        outcome = of_error(raised(error))
        assert isinstance(outcome, Back)
        assert outcome.counts
        assert not outcome.dead
        assert outcome.error is not None
        assert outcome.error.startswith(type(error).__name__)
        assert "test_outcome.py:" in outcome.error
        assert " in raised: raise error" in outcome.error


def test_groups_tell_what_is_in_them() -> None:
    inner = BaseExceptionGroup("inner", [KeyboardInterrupt("stop")])
    text = explained(raised(BaseExceptionGroup("both", [raised(ValueError("one")), inner])))
    assert text.splitlines()[:3] == [
        "BaseExceptionGroup: both (2 sub-exceptions)",
        "  | ValueError: one",
        "  | KeyboardInterrupt: stop",
    ]


def test_a_function_that_cancels_itself_has_failed() -> None:
    assert explained(asyncio.CancelledError()).startswith("CancelledError: the function was cancelled, and not by")
