import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings
from django.utils import timezone

from disque.client import Result, UnavailableError
from disque.client.packing import pack
from disque.django import records
from disque.django.api import TaskResultDoesNotExist, TaskResultStatus, task_backends, task_enqueued
from disque.django.backend import DisqueBackend
from disque.django.runner import Runner
from tests.client.served import Served
from tests.django import tasks
from tests.end_to_end.node import Node, free_port


def test_a_task_waits_until_somebody_takes_it(backend: DisqueBackend) -> None:
    added = tasks.add.enqueue(1, other=2)
    found = tasks.add.get_result(added.id)
    assert (found.status, found.args, found.kwargs, found.attempts) == (TaskResultStatus.READY, [1], {"other": 2}, 0)
    assert found.enqueued_at == added.enqueued_at
    assert found == added
    assert backend.get_result(added.id) == added
    with pytest.raises(ValueError, match="not finished yet"):
        _ = found.return_value


def test_while_it_runs_and_after_it(backend: DisqueBackend) -> None:
    result = tasks.add.enqueue(1)
    backend.client.get("default", nohang=True)
    result.refresh()
    assert result.status == TaskResultStatus.RUNNING
    backend.client.enqueue(result.id)
    Runner(backend, ["default"], burst=True).run(10)
    result.refresh()
    assert (result.status, result.return_value, result.is_finished) == (TaskResultStatus.SUCCESSFUL, 2, True)
    assert result.enqueued_at <= result.started_at <= result.finished_at


def test_a_task_may_be_put_off(node: Node, backend: DisqueBackend) -> None:
    at = timezone.now() + timedelta(hours=1)
    result = tasks.add.using(run_after=at).enqueue(1)
    assert node.ask("QLEN", "default") == 0
    found = backend.get_result(result.id)
    assert (found.status, found.task.run_after) == (TaskResultStatus.READY, at)
    with override_settings(USE_TZ=False):
        naive = timezone.make_naive(at)
        assert backend.get_result(tasks.add.using(run_after=naive).enqueue(1).id).task.run_after == naive


@pytest.mark.parametrize("options", [{"TTL": 5000}])
def test_the_time_for_which_a_task_is_put_off_is_no_part_of_its_life(backend: DisqueBackend) -> None:
    for run_after, days in ((None, 0), (timezone.now() + timedelta(days=31), 31)):
        shown: Any = backend.client.show(tasks.add.using(run_after=run_after).enqueue(1).id)
        assert 86_400 * days < shown["ttl"] / 2 <= 86_400 * days + 2500


def test_those_with_a_higher_priority_come_first(backend: DisqueBackend) -> None:
    ids = {number: tasks.add.using(priority=number).enqueue(number).id for number in (0, -100, 100, 50)}
    jobs = backend.client.get("default", count=10, nohang=True)
    assert [job.id for job in jobs] == [ids[number] for number in (100, 50, 0, -100)]
    assert backend.get_result(ids[50]).task.priority == 50


@pytest.mark.parametrize("options", [{"PREFIX": "shop/"}])
def test_queues_of_a_project_may_have_a_prefix(node: Node, backend: DisqueBackend) -> None:
    result = tasks.add.using(queue_name="mails").enqueue(1)
    assert node.ask("QLEN", "shop/mails") == 1
    assert backend.get_result(result.id).task.queue_name == "mails"


def test_asynchronous_views(backend: DisqueBackend) -> None:
    async def view() -> Any:
        result = await tasks.later.aenqueue(3)
        await asyncio.to_thread(Runner(backend, ["default"], burst=True).run, 10)
        await result.arefresh()
        return result.return_value, (await tasks.later.aget_result(result.id)).return_value

    assert asyncio.run(view()) == (-3, -3)


@pytest.mark.parametrize("result_id", ["", "nothing", "D-80b5c460-Vr3WFsmz5lhcQcL2Vtzh1RKD-05a1"])
def test_a_task_that_nobody_knows(backend: DisqueBackend, result_id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result_id)


def test_a_job_that_is_no_task(backend: DisqueBackend) -> None:
    for body in ("hello", "{}", '{"task": "os.getcwd", "queue": "q", "priority": 0}', '{"task": "no.such"}'):
        job_id = backend.client.add("default", body, retain=60)
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(job_id)
    backend.client.settle(job_id, None, b"of somebody else")
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(job_id)


def test_one_that_was_cancelled_is_gone(backend: DisqueBackend) -> None:
    result = tasks.add.enqueue(1)
    backend.client.cancel(result.id)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_arguments_that_json_cannot_say(node: Node, backend: DisqueBackend) -> None:
    del backend
    with pytest.raises(TypeError):
        tasks.add.enqueue(object())
    assert node.ask("QLEN", "default") == 0


def test_receivers_hear_of_what_was_added(backend: DisqueBackend) -> None:
    heard: list[Any] = []

    def receive(**words: Any) -> None:
        heard.append((words["sender"], words["task_result"].id))

    task_enqueued.connect(receive)
    try:
        result = tasks.add.enqueue(1)
    finally:
        task_enqueued.disconnect(receive)
    assert heard == [(type(backend), result.id)]


def test_without_a_node_the_error_says_so(backend: DisqueBackend) -> None:
    backend._parsed = replace(backend.parsed, url=f"disque://127.0.0.1:{free_port()}?attempts=1&backoff_ms=0")
    with pytest.raises(UnavailableError):
        tasks.add.enqueue(1)
    with pytest.raises(UnavailableError):
        backend.get_result("D-80b5c460-Vr3WFsmz5lhcQcL2Vtzh1RKD-05a1")


def test_a_task_that_only_a_node_has_that_joined_since(backend: DisqueBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    body = records.body(records.new(tasks.add, [1], {}, "default")).encode()
    with Served(lambda _words: b"*-1\r\n") as known, Served(lambda _words: pack([b"body", body])) as joined:
        backend._parsed = replace(backend.parsed, url="disque://{}:{}".format(*known.address))
        queued = Result("D-1", "queued", None, None, "default", 0, None)
        monkeypatch.setattr(backend.client, "result", lambda _id: queued)
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result("D-1")
        known.tells(known.address, joined.address)
        assert backend.get_result("D-1").status == TaskResultStatus.READY


def test_what_the_backend_can_do(backend: DisqueBackend) -> None:
    assert all((
        backend.supports_defer,
        backend.supports_async_task,
        backend.supports_get_result,
        backend.supports_priority,
    ))  # fmt: skip
    assert task_backends["default"] is backend


def test_manage_py_check_finds_what_is_wrong(backend: DisqueBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    call_command("check")
    monkeypatch.setattr(backend, "options", {"TRYS": 3})
    with pytest.raises(SystemCheckError, match="unknown option 'TRYS', did you mean TRIES"):
        call_command("check")
    monkeypatch.undo()
