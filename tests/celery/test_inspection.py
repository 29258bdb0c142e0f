import sys
from types import SimpleNamespace
from typing import Any

import kombu
import pytest

from disque.celery import inspection
from tests.celery.support import application, url_of
from tests.end_to_end.node import Node


def plain(state: Any, **_: Any) -> list[Any]:
    """What Celery has."""
    return [state.hostname]


def double(number: int) -> int:
    """A task."""
    return 2 * number


@pytest.fixture
def panel(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the commands of a worker that is not there."""
    data = {"scheduled": plain, "schedule": plain, "ping": plain}
    monkeypatch.setitem(sys.modules, inspection.CONTROL, SimpleNamespace(Panel=SimpleNamespace(data=data)))
    return data


def test_outside_of_a_worker_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, inspection.CONTROL, raising=False)
    inspection.extend()
    assert inspection.CONTROL not in sys.modules


def test_a_worker_that_has_no_such_command_is_left_alone(panel: dict[str, Any]) -> None:
    del panel["scheduled"]
    inspection.extend()
    assert panel == {"schedule": plain, "ping": plain}


def test_tasks_with_an_eta_are_shown_from_all_queues(panel: dict[str, Any], node: Node) -> None:
    with application(url_of(node)) as app:
        app.conf.update(broker_transport_options={"global_keyprefix": "shop:"})
        task = app.task(double, name="double")
        ours, other = task.apply_async((7,), countdown=3600), task.apply_async((8,), countdown=60, queue="other")
        task.delay(9)
        node.ask("ADDJOB", "shop:celery", "no message", 0, "DELAY", 60)
        inspection.extend()
        inspection.extend()  # once is enough
        assert panel["ping"] is plain
        with app.connection_for_read() as connection:
            queues = [kombu.Queue("celery"), kombu.Queue("other")]
            consumer = kombu.Consumer(connection.channel(), queues, accept=["json"])
            state = SimpleNamespace(
                app=app, hostname="me", consumer=SimpleNamespace(connection=connection, task_consumer=consumer)
            )
            [before, *shown] = panel["schedule"](state)
            assert before == "me"
            assert [(one["request"]["id"], one["request"]["args"]) for one in shown] == [
                (ours.id, [7]),
                (other.id, [8]),
            ]
            assert [one["request"]["hostname"] for one in shown] == ["me", "me"]
            assert shown[0]["eta"] > shown[1]["eta"]


def test_when_no_node_answers_celery_says_what_it_knows(panel: dict[str, Any], node: Node, monkeypatch: Any) -> None:
    inspection.extend()
    with kombu.Connection(url_of(node)) as connection:
        consumer = kombu.Consumer(connection.channel(), [kombu.Queue("celery")])
        consumers = SimpleNamespace(connection=connection, task_consumer=consumer)
        monkeypatch.setattr(connection.transport.disque.router, "addresses", lambda: [("127.0.0.1", 1)])
        assert panel["scheduled"](SimpleNamespace(app=None, hostname="me", consumer=consumers)) == ["me"]


def test_another_broker_has_nothing(panel: dict[str, Any]) -> None:
    inspection.extend()
    with kombu.Connection("memory://") as connection:
        consumers = SimpleNamespace(connection=connection)
        assert panel["scheduled"](SimpleNamespace(hostname="me", consumer=consumers)) == ["me"]
