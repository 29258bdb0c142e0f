import pickle

import pytest
import redis

from disque.client import errors
from disque.core.base import errors as of_the_server
from tests.client.fake import refusal


def replies() -> list[str]:
    """All error replies that the core knows by name."""
    found = [value for name, value in vars(of_the_server).items() if name.isupper() and isinstance(value, bytes)]
    return [reply.decode() for reply in found]


@pytest.mark.parametrize("reply", replies())
def test_each_error_of_the_server_has_a_class(reply: str) -> None:
    error = errors.typed(refusal(reply))
    assert error is not None
    assert type(error) is errors.BY_CODE[reply.split(maxsplit=1)[0]] or reply in {
        of_the_server.WRONG_PASSWORD.decode(),
        of_the_server.NO_PASSWORD_SET.decode(),
    }
    assert isinstance(error, redis.ResponseError)
    assert error.message in reply


def test_the_code_stays_in_the_text_but_for_err() -> None:
    assert str(errors.typed(refusal("NOREPL too few"))) == "NOREPL too few"
    assert str(errors.typed(refusal("OOM full"))) == "OOM full"
    assert str(errors.typed(refusal("ERR syntax error"))) == "syntax error"


def test_old_code_still_catches_what_redis_py_has_classes_for() -> None:
    assert isinstance(errors.typed(refusal("OOM full")), redis.OutOfMemoryError)
    assert isinstance(errors.typed(refusal("WRONGPASS no")), redis.AuthenticationError)
    assert isinstance(errors.typed(refusal("LOADING wait")), redis.BusyLoadingError)
    assert issubclass(errors.UnavailableError, redis.ConnectionError)


def test_a_wrong_password_is_one_in_either_form_of_auth() -> None:
    assert type(errors.typed(refusal("ERR invalid password"))) is errors.WrongPassError


def test_a_code_of_tomorrow() -> None:
    error = errors.typed(refusal("SHINY new thing"))
    assert type(error) is errors.UnknownCodeError
    assert (error.code, str(error)) == ("SHINY", "SHINY new thing")


def test_what_is_no_error_reply() -> None:
    assert errors.typed(OSError("x")) is None
    assert errors.typed(redis.ConnectionError("x")) is None
    assert errors.typed(redis.TimeoutError("x")) is None


def test_nothing_could_be_used_and_why() -> None:
    failures = [("a:1", OSError("first")), ("b:2", OSError()), ("a:1", ValueError("last\ntime"))]
    error = errors.UnavailableError.of("no node", failures)
    assert str(error) == "no node: a:1: last time; b:2: OSError"
    assert [address for address, _ in error.failures] == ["a:1", "b:2"]
    assert str(errors.UnavailableError.of("no node", [])) == "no node"


def test_errors_travel() -> None:
    for error in (errors.PausedError("PAUSED x"), errors.UnavailableError.of("none", [("a:1", OSError("x"))])):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert repr(again) == f"{type(error).__name__}({str(error)!r})"


def test_what_is_out_of_reach() -> None:
    said = [of_the_server.NO_QUEUE, of_the_server.NO_COMMAND % b"show", of_the_server.NO_JOB]
    found = [errors.typed(refusal(reply.decode())) for reply in said]
    assert [errors.is_out_of_reach(one) for one in [*found, None]] == [True, False, False, False]
