"""Options: what a call says counts before what its task says, and that before the app."""

import math
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from disque.tasks import App, EncodeError, Options, exponential
from disque.tasks.message import Message, decode
from disque.tasks.options import KEY_BYTES, TTL_S, key_of
from disque.tasks.task import Bound
from tests.conftest import ROOT


def test_the_nearest_counts() -> None:
    app = Options(tries=10, queue="default", delay=5)
    task = Options(tries=3).over(app)
    call = Options(at=1e9, priority=9).over(task)
    assert (call.tries, call.queue, call.priority, call.at, call.delay) == (3, "default", 9, 1e9, None)
    assert Options(delay=0).over(call).at is None
    assert Options().over(Options(at_most_once=True)).at_most_once


def test_a_job_of_them() -> None:
    options = Options(tries=5, backoff=exponential(1, 60), retain=60, priority=3, delay=10, headers={"a": "b"})
    job = options.job("q", b"body", 60, None)
    assert (job.tries, job.retry, job.retain, job.priority, job.delay) == (5, 60, 60, 3, 10)
    assert job.ttl == TTL_S + 20, "a worker may hold it for half of its TTL, whenever it begins"
    assert Options(ttl=5, delay=1).job("q", b"", 60, None).ttl == 5
    once = Options(tries=5, backoff="fixed:1", deadletter="d", at_most_once=True).job("q", b"", 60, None)
    assert (once.retry, once.tries, once.backoff, once.deadletter, once.replicate) == (0, None, None, None, 1)
    assert Options(unique_for=60).job("q", b"", 60, "k").window == 60
    assert Options(unique_for=60).job("q", b"", 60, None).window is None


def test_nothing_that_is_said_counts_before_the_options_of_the_queue() -> None:
    job = Options(priority=0, retain=0, tries=0, deadletter="").job("q", b"", 60, None)
    assert (job.priority, job.retain, job.tries, job.deadletter) == (0, 0, 0, "")
    assert (Options().job("q", b"", 60, None).priority, Options().job("q", b"", 60, None).retain) == (None, None)


def test_a_time_far_away_lives_long_enough() -> None:
    at = datetime.now(UTC) + timedelta(days=90)
    ttl = Options(at=at).job("q", b"", 60, None).ttl
    assert isinstance(ttl, float)
    assert ttl / 2 - 90 * 86400 >= TTL_S / 2 - 1, "then a worker may still hold it"


@pytest.mark.parametrize("forever", [math.inf, 1e300])
def test_a_timeout_that_never_comes_is_without_end(forever: float) -> None:
    """No worker takes a message with such a number: each of these calls was a dead letter."""
    app = App()

    @app.task
    def short() -> None: ...

    @app.task(timeout=forever)
    def long() -> None: ...

    call = short.using(timeout=forever).bind()
    assert sent(call).timeout == 0
    [link] = sent(short.bind().then_run(call)).then or []
    assert link["call"]["timeout"] == 0
    assert (sent(long.bind()).timeout, long.timeout_s) == (None, 0)
    assert sent(long.using(timeout=5).bind()).timeout == 5


def sent(call: Bound[None]) -> Message:
    body = call.job().body
    assert isinstance(body, bytes)
    return decode(body)


def test_unique_that_is_no_rule() -> None:
    wrong: Any = 1
    with pytest.raises(TypeError, match="unique must be a text, True or False, not 1"):
        Options(unique=wrong)


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (None, None),
        (False, None),
        ("{a}-{b[0]}", "t:1-x"),
        ("all", "t:all"),
        ("{b}-{c}", "t:['x']-['y', 'z']"),
        ("{d!s:.9}", 't:{"e": ["f'),
    ],
)
def test_keys(rule: str | bool | None, key: str | None) -> None:
    assert key_of("t", rule, {"a": 1, "b": ["x"], "c": {"z", "y"}, "d": {"e": {"f"}}}) == key


def test_keys_of_all_arguments_and_long_ones() -> None:
    assert key_of("t", True, {"a": 1, "b": 2}) == key_of("t", True, {"b": 2, "a": 1}) != key_of("t", True, {"a": 2})
    long = key_of("t", "{a}", {"a": "x" * 1000})
    assert long is not None
    assert len(long) < KEY_BYTES
    assert long != key_of("t", "{a}", {"a": "y" * 1000})
    with pytest.raises(ValueError, match="names what is no argument"):
        key_of("t", "{c}", {"a": 1})


KEYS = """
from dataclasses import dataclass
from disque.tasks.options import key_of
words = {"ada", "grace", "tim", "alan", "barbara", "edsger"}
nested = {frozenset(["a", "b"]), frozenset(["c"]), frozenset(["b", "d"])}
@dataclass
class Crew:
    ship: str
    names: set[str]
crew = Crew("x", words)
print(key_of("t", True, {"a": words, "b": nested, "c": crew}), key_of("t", "{a}-{c.names}", {"a": words, "c": crew}))
print(key_of("t", "{a}-{b}-{c[0]}", {"a": crew, "b": nested, "c": [{"d": (words,)}]}))
"""


@pytest.mark.slow
def test_a_set_has_the_same_key_in_each_process() -> None:
    keys = set()
    for seed in "01":
        command = [sys.executable, "-c", KEYS]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        keys.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(keys) == 1


def test_a_map_with_names_of_several_kinds_has_a_key() -> None:
    mixed = key_of("t", True, {"c": {1: 2, "a": 3}})
    assert mixed == key_of("t", True, {"c": {"a": 3, 1: 2}}) != key_of("t", True, {"c": {1: 2, "a": 4}})
    with pytest.raises(EncodeError, match="keys must be str"):
        key_of("t", True, {"c": {(1, 2): 3}})


def test_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="together"):
        Options(at=1, delay=1)
    with pytest.raises(ValueError, match="backoff must be"):
        Options(backoff="soon")
    with pytest.raises(ValueError, match="time zone"):
        Options(deadline=datetime(2030, 1, 1)).deadline_s()  # noqa: DTZ001 - that is what is refused
    assert Options(deadline=datetime(2030, 1, 1, tzinfo=UTC)).deadline_s() == 1893456000


@pytest.mark.parametrize("moment", [date(2030, 1, 1), "2030-01-01", True])
def test_what_is_no_time_is_refused_and_it_is_said_what_is_wanted(moment: Any) -> None:
    with pytest.raises(TypeError, match="deadline must be a datetime or seconds since 1970, not "):
        Options(deadline=moment).deadline_s()
    with pytest.raises(TypeError, match="at must be a datetime or seconds since 1970, not "):
        Options(at=moment).job("q", b"", 60, None)


def test_no_deadline_is_sent_that_no_worker_would_take() -> None:
    with pytest.raises(ValueError, match="deadline must be a number of seconds, not nan"):
        Options(deadline=math.nan).deadline_s()
    for deadline in (-1, 1e300, datetime(1969, 1, 1, tzinfo=UTC)):
        with pytest.raises(ValueError, match="deadline is no time: "):
            Options(deadline=deadline).deadline_s()
    assert Options(deadline=math.inf).deadline_s() == math.inf
