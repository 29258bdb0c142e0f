import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from taskiq import TaskiqEvents
from taskiq.message import TaskiqMessage
from taskiq.scheduler.scheduled_task import ScheduledTask

from disque.client import Disque, UnavailableError
from disque.taskiq import DisqueBroker, DisqueScheduleSource
from disque.taskiq.marks import PLACE
from disque.taskiq.schedules import labelled, spec_of
from tests.end_to_end.node import Node, free_port

NEXT_YEAR = datetime.now(UTC) + timedelta(days=365)


@pytest.fixture
def client(node: Node, url: str) -> Iterator[Disque]:
    """Give a client, and no schedules."""
    del node
    with Disque.from_url(url) as one:
        for schedule in one.schedules()[1]:
            one.delete_schedule(schedule.name)
        yield one


def scheduled(**words: Any) -> ScheduledTask:
    return ScheduledTask(task_name="report", labels={}, args=[1], kwargs={"a": 2}, **words)


def test_a_schedule_is_one_of_the_server_and_each_job_has_an_id_of_its_own(client: Disque, url: str) -> None:
    async def main() -> list[dict[str, Any]]:
        broker = DisqueBroker(url)
        source = DisqueScheduleSource(broker, catchup="last")
        one = scheduled(cron="0 9 * * *", cron_offset="Europe/Berlin", schedule_id="mornings")
        await source.add_schedule(one)
        await source.add_schedule(one)
        assert await source.get_schedules() == []
        found = client.schedule("taskiq:mornings")
        assert found is not None
        assert (found.spec, found.tz, found.catchup, found.queue) == ("0 9 * * *", "Europe/Berlin", "last", "taskiq")
        ids = [client.run_schedule("taskiq:mornings") for _ in range(2)]
        listening = broker.listen()
        messages = [json.loads((await anext(listening)).data) for _ in range(2)]
        await listening.aclose()
        assert sorted(message["task_id"] for message in messages) == sorted(ids)
        await source.delete_schedule("mornings")
        assert client.schedule("taskiq:mornings") is None
        await broker.shutdown()
        return messages

    [message, _] = asyncio.run(main())
    assert (message["task_name"], message["args"], message["kwargs"]) == ("report", [1], {"a": 2})
    assert message["labels"]["schedule_id"] == "mornings"


def test_a_single_time_is_a_job_that_waits_and_may_be_taken_back(node: Node, client: Disque, url: str) -> None:
    async def main() -> None:
        broker = DisqueBroker(url)
        source = DisqueScheduleSource(broker)
        one = scheduled(time=NEXT_YEAR.replace(tzinfo=None), schedule_id="once", task_id="my own")
        await source.add_schedule(one)
        [job] = client.scan_job_infos(0, busyloop=True, queue="taskiq", states=("delayed",))[1]
        assert b"my own" in bytes(job["body"])  # type: ignore[arg-type]  # a body is bytes
        assert PLACE.encode() not in bytes(job["body"])  # type: ignore[arg-type]  # a body is bytes
        assert int(str(job["ttl"])) / 2 > 364 * 86_400, "so that it can be held then"
        await source.delete_schedule("once")
        await source.delete_schedule("once")
        await broker.shutdown()

    asyncio.run(main())
    assert int(node.info("registered_jobs")) == 0


@pytest.mark.parametrize("is_of_a_task", [True, False])
def test_one_in_another_queue_may_be_taken_back(node: Node, client: Disque, url: str, *, is_of_a_task: bool) -> None:
    del client

    async def main() -> None:
        broker = DisqueBroker(url)
        source = DisqueScheduleSource(broker)
        task = broker.register_task(lambda: None, "nothing", **{"queue_name": "reports"} if is_of_a_task else {})
        kicker = task.kicker().with_labels(queue_name="reports")
        one, other = [await kicker.schedule_by_time(source, NEXT_YEAR) for _ in range(2)]
        await one.unschedule()
        assert node.ask("FIND", "reports", f"taskiq:{one.schedule_id}") is None
        assert node.ask("FIND", "reports", f"taskiq:{other.schedule_id}") is not None
        await other.unschedule()
        await broker.shutdown()

    asyncio.run(main())
    assert int(node.info("registered_jobs")) == 0


def test_where_a_node_cannot_be_asked_it_is_an_error_that_it_was_not_found(
    node: Node, client: Disque, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del node, client

    async def main() -> None:
        source = DisqueScheduleSource(DisqueBroker(f"{url}?attempts=1&backoff_ms=0"))
        await source.delete_schedule("nothing")
        away = ("127.0.0.1", free_port())
        monkeypatch.setattr(source.broker.client.router, "addresses", lambda: [away])
        with pytest.raises(UnavailableError):
            await source.delete_schedule("nothing")
        await source.broker.shutdown()

    asyncio.run(main())


def test_those_in_labels_are_written_when_a_worker_starts(client: Disque, url: str) -> None:
    async def main() -> None:
        broker = DisqueBroker(url)
        DisqueScheduleSource(broker)
        schedules = [
            {"interval": 30, "labels": {"queue_name": "reports"}},
            {"cron": "* * * * *", "args": [5], "schedule_id": "minutes"},
            {"time": datetime(2020, 1, 1, tzinfo=UTC)},
            {"time": NEXT_YEAR, "schedule_id": "once"},
            {"nothing": 1},
        ]

        @broker.task("report", schedule=schedules)
        async def report() -> None:
            """Do nothing."""

        assert TaskiqEvents.WORKER_STARTUP in broker.event_handlers
        for _ in range(2):
            broker.is_worker_process = True
            await broker.startup()
        await broker.shutdown()

    asyncio.run(main())
    found = sorted((one.spec, one.queue) for one in client.schedules()[1])
    assert found == [("* * * * *", "taskiq"), ("@every 30s", "reports")]
    assert len(client.scan_jobs(0, busyloop=True, queue="taskiq", states=("delayed",))[1]) == 1


def test_ids_stay_the_same_as_long_as_what_they_stand_for() -> None:
    first, second = ([one.schedule_id for one in labelled("report", {"schedule": [{"cron": spec}]})] for spec in "12")
    again = [one.schedule_id for one in labelled("report", {"schedule": [{"cron": "1"}]})]
    assert first == again != second


def test_an_id_does_not_change_with_where_an_object_is_in_memory() -> None:
    def found(check: object, types: set[type[Exception]]) -> list[str]:
        labels = {"schedule": [{"cron": "1"}], "check": check, "types_of_exceptions": types}
        return [one.schedule_id for one in labelled("report", labels)]

    check, again = (lambda: None for _ in range(2))
    assert repr(check) != repr(again)
    assert found(check, {ValueError}) == found(again, {ValueError, KeyError})


def test_labels_are_said_as_in_each_other_message(client: Disque, url: str) -> None:
    labels = {"retry_on_error": True, "blob": b"\xff", "count": 3, "hook": print}

    async def main() -> list[TaskiqMessage]:
        broker = DisqueBroker(url)
        source = DisqueScheduleSource(broker)
        schedule = [{"cron": "* * * * *", "schedule_id": "minutes"}]
        words = {**labels, "types_of_exceptions": [ValueError], "schedule": schedule}
        task = broker.register_task(lambda: None, "nothing", **words)
        await source.startup()
        client.run_schedule("taskiq:minutes")
        for name in ("schedule", "types_of_exceptions"):
            del task.labels[name]
        await task.kiq()
        listening = broker.listen()
        messages = [broker.formatter.loads((await anext(listening)).data) for _ in range(2)]
        await listening.aclose()
        await broker.shutdown()
        return messages

    [ticked, sent] = asyncio.run(main())
    for message in (ticked, sent):
        message.parse_labels()
    assert ticked.labels == {**sent.labels, "schedule_id": "minutes"}
    assert ticked.labels == {**labels, "hook": str(print), "schedule_id": "minutes"}


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ({"cron": "0 9 * * *"}, ("0 9 * * *", None)),
        ({"cron": "0 9 * * *", "cron_offset": timedelta(0)}, ("0 9 * * *", None)),
        ({"interval": 90}, ("@every 90s", None)),
        ({"interval": timedelta(hours=1)}, ("@every 3600s", None)),
    ],
)
def test_specs(words: dict[str, Any], spec: tuple[str, str | None]) -> None:
    assert spec_of(scheduled(**words)) == spec


def test_an_offset_that_is_no_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="must be the name of a time zone"):
        spec_of(scheduled(cron="* * * * *", cron_offset=timedelta(hours=2)))
