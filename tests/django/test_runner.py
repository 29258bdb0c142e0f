import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from disque.client import TooLateError, UnavailableError
from disque.django.api import TaskResultStatus, task_finished, task_started
from disque.django.backend import DisqueBackend
from disque.django.runner import Runner
from tests.django import tasks
from tests.end_to_end.node import Node, until


def work(backend: DisqueBackend, *, concurrency: int = 1) -> None:
    assert Runner(backend, ["default", "mails"], concurrency=concurrency, burst=True).run(30)


@pytest.fixture(autouse=True)
def _quiet(caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL)


def test_functions_of_both_kinds_are_run(node: Node, backend: DisqueBackend) -> None:
    results = [tasks.add.enqueue(1, 2), tasks.later.using(queue_name="mails").enqueue(3)]
    work(backend)
    for result, value in zip(results, (3, -3), strict=True):
        result.refresh()
        assert (result.return_value, result.attempts, result.errors) == (value, 1, [])
        assert json.dumps(result.worker_ids)
    assert int(node.info("registered_jobs")) == 0


def test_the_child_of_a_fork_is_no_second_worker(node: Node, backend: DisqueBackend) -> None:
    result = tasks.fork.enqueue()
    work(backend)
    result.refresh()
    assert (result.return_value, result.attempts) == (1, 1)
    assert int(node.info("registered_jobs")) == 0


def test_several_at_a_time(backend: DisqueBackend) -> None:
    results = [tasks.add.enqueue(number) for number in range(30)]
    work(backend, concurrency=3)
    assert [backend.get_result(one.id).return_value for one in results] == list(range(1, 31))


def test_one_that_raises_is_tried_again_and_has_failed_then(node: Node, backend: DisqueBackend) -> None:
    result = tasks.fail.enqueue("bad")
    work(backend)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [one.exception_class for one in result.errors] == [ValueError]
    assert result.errors[0].traceback.endswith("ValueError: bad\n")
    assert result.finished_at > result.last_attempted_at > result.started_at
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert node.ask("QLEN", "default:dead") == 1
    backend.client.revive(result.id)
    result.refresh()
    assert result.status == TaskResultStatus.READY


def test_one_that_succeeds_later_knows_its_attempts(backend: DisqueBackend) -> None:
    result = tasks.attempt.enqueue()
    work(backend)
    result.refresh()
    assert (result.return_value, result.attempts) == ([2, result.id], 2)
    assert [one.exception_class for one in result.errors] == [ConnectionError]
    assert result.started_at < result.last_attempted_at


def test_a_result_that_is_too_long_with_its_arguments_is_kept_without_them(backend: DisqueBackend, caplog: Any) -> None:
    short, long = tasks.length.enqueue("x", more="y"), tasks.length.enqueue("x" * 1_100_000, more="y")
    with caplog.at_level(logging.WARNING, "disque.django"):
        work(backend)
    for result, value, args, kwargs in ((short, 2, ["x"], {"more": "y"}), (long, 1_100_001, [], {})):
        found = backend.get_result(result.id)
        assert (found.return_value, found.args, found.kwargs, found.attempts) == (value, args, kwargs, 1)
    [told] = [one.getMessage() for one in caplog.records]
    assert told.startswith(f"the result of task {long.id} is kept without its arguments: RESULT is longer than")


@pytest.mark.parametrize("task", [tasks.large, tasks.strange])
@pytest.mark.parametrize("options", [{"TRIES": 3}])
def test_a_task_that_has_succeeded_is_not_tried_again_for_its_result(backend: DisqueBackend, task: Any) -> None:
    result = task.enqueue()
    work(backend)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].traceback.endswith("the function has ended, but its result cannot be kept\n")


def die(backend: DisqueBackend, queue: str, times: int) -> None:
    """So many workers die of the task in a queue."""
    for _ in range(times):
        [job] = backend.client.get(queue, nohang=True)
        backend.client.enqueue(job.id)


@pytest.mark.parametrize("options", [{"TRIES": 5, "CRASHES": 2}])
def test_a_task_of_which_workers_die_has_failed_however_often_it_may_raise(backend: DisqueBackend) -> None:
    good, bad = tasks.add.using(queue_name="mails").enqueue(1), tasks.add.enqueue(2)
    die(backend, "mails", 1)
    die(backend, "default", 2)
    work(backend)
    good.refresh()
    assert good.return_value == 2
    bad.refresh()
    assert (bad.status, bad.attempts) == (TaskResultStatus.FAILED, 0)
    assert bad.errors[0].traceback == "RuntimeError: its workers have died, or took longer than their lease\n"
    backend.client.revive(bad.id)
    work(backend)
    bad.refresh()
    assert bad.return_value == 3


@pytest.mark.parametrize(
    ("task", "error", "text"),
    [
        (tasks.give_up, "builtins.SystemExit", "SystemExit: 1"),
        (tasks.large, "disque.client.errors.CommandError", "RESULT is longer than"),
        (tasks.strange, "builtins.TypeError", "not JSON serializable"),
        (tasks.add, "builtins.TypeError", "missing 1 required positional argument"),
    ],
)
@pytest.mark.parametrize("options", [{"TRIES": 1}])
def test_whatever_a_task_does_the_worker_goes_on(backend: DisqueBackend, task: Any, error: str, text: str) -> None:
    result, good = task.enqueue(), tasks.add.enqueue(1)
    work(backend)
    result.refresh()
    assert (result.status, result.errors[0].exception_class_path) == (TaskResultStatus.FAILED, error)
    assert text in result.errors[0].traceback
    good.refresh()
    assert good.return_value == 2


@pytest.mark.parametrize("body", ["hello", "{}", '{"task": "os.getcwd"}', '{"task": "no.such.task"}', "7"])
def test_what_is_no_task_is_a_dead_letter_with_the_reason(backend: DisqueBackend, body: str) -> None:
    backend.client.add("default", body)
    work(backend)
    [job] = backend.client.get("default:dead", nohang=True, meta=True)
    assert (job.body.decode(), job.origin, bool(job.error)) == (body, "default", True)


@contextmanager
def receiving(receive: Callable[..., None], *signals: Any) -> Iterator[None]:
    """Let a function receive signals."""
    for signal in signals:
        signal.connect(receive)
    try:
        yield
    finally:
        for signal in signals:
            signal.disconnect(receive)


def test_receivers_hear_of_begin_and_end_and_may_fail(backend: DisqueBackend) -> None:
    heard: list[Any] = []

    def receive(signal: Any, task_result: Any, **_: Any) -> None:
        heard.append((signal is task_started, task_result.id, task_result.status))
        if signal is task_finished:
            raise RuntimeError("a receiver that fails")

    with receiving(receive, task_started, task_finished):
        one, two = tasks.add.enqueue(1), tasks.add.enqueue(2)
        work(backend)
    assert heard == [
        (True, one.id, TaskResultStatus.RUNNING),
        (False, one.id, TaskResultStatus.SUCCESSFUL),
        (True, two.id, TaskResultStatus.RUNNING),
        (False, two.id, TaskResultStatus.SUCCESSFUL),
    ]


def test_receivers_hear_of_a_failure_while_its_exception_is_handled(backend: DisqueBackend) -> None:
    heard: list[Any] = []

    def receive(task_result: Any, **_: Any) -> None:
        heard.append((task_result.status, repr(sys.exception())))
        raise RuntimeError("a receiver that fails")

    with receiving(receive, task_finished):
        result = tasks.fail.enqueue("bad")
        work(backend)
    assert heard == [(TaskResultStatus.FAILED, "ValueError('bad')")]
    result.refresh()
    assert result.status == TaskResultStatus.FAILED


class Working:
    """A runner in a thread of its own, with a task that runs until GO is set."""

    def __init__(self, backend: DisqueBackend, grace_s: float) -> None:
        tasks.BEGUN.clear()
        tasks.GO.clear()
        self.result = tasks.wait.enqueue()
        self.runner = Runner(backend, ["default"])
        self.ended: list[bool] = []
        self.thread = threading.Thread(target=lambda: self.ended.append(self.runner.run(grace_s)))
        self.thread.start()
        assert tasks.BEGUN.wait(60)


def test_a_worker_that_stops_finishes_what_runs(node: Node, backend: DisqueBackend) -> None:
    working = Working(backend, 60)
    later = tasks.add.enqueue(1)
    working.runner.stop()
    tasks.GO.set()
    working.thread.join()
    working.result.refresh()
    assert (working.ended, working.result.return_value) == ([True], "waited")
    assert backend.get_result(later.id).status == TaskResultStatus.READY
    assert node.ask("QLEN", "default") == 1


def test_what_runs_longer_than_the_grace_goes_back_and_uses_up_no_try(node: Node, backend: DisqueBackend) -> None:
    working = Working(backend, 0)
    working.runner.stop()
    working.thread.join()
    assert (working.ended, node.ask("QLEN", "default")) == ([False], 1)
    [job] = backend.client.get("default", nohang=True)
    assert (job.id, job.nacks) == (working.result.id, 0)
    tasks.GO.set()
    until(lambda: not working.runner._running, "the end of the task")


def test_stopped_twice_it_gives_back_what_runs_at_once(node: Node, backend: DisqueBackend) -> None:
    working = Working(backend, 1_000_000)
    working.runner.stop()
    working.runner.stop()
    working.thread.join(60)
    assert (working.ended, node.ask("QLEN", "default")) == ([False], 1)
    tasks.GO.set()
    until(lambda: not working.runner._running, "the end of the task")


def test_a_task_that_cannot_be_kept_is_said(
    backend: DisqueBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    result = tasks.add.enqueue(1)
    late = [TooLateError("TOOLATE half of the TTL is over")]
    monkeypatch.setattr(backend.client, "working_at", lambda *_: late)
    with caplog.at_level(logging.WARNING, "disque.django"):
        work(backend)
    text = f"task {result.id} can be kept for this worker no longer: TOOLATE half of the TTL is over"
    assert [one.getMessage() for one in caplog.records] == [text]
    assert backend.get_result(result.id).return_value == 2


def test_without_a_node_it_waits_for_one(backend: DisqueBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tasks.add.enqueue(1)
    take = backend.client.take
    failures = [UnavailableError("UNAVAILABLE no node")]

    def flaky(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return take(*args)

    monkeypatch.setattr("disque.django.runner.PAUSE_S", 0.001)
    monkeypatch.setattr(backend.client, "take", flaky)
    work(backend)
    assert backend.get_result(result.id).return_value == 2
