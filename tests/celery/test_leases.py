import gc
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from disque.celery.leases import IDS_MOST, Leases
from disque.client import JobCancelledError, NoJobError, NoPermError, TooLateError, UnavailableError
from tests.end_to_end.node import until

A, B = ("a", 1), ("b", 2)


class FakeClient:
    """Answers WORKING."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, list[str]]] = []
        self.answers: dict[str, Any] = {}
        self.error: Exception | None = None

    def working_at(self, node: Any, ids: Sequence[str]) -> list[Any]:
        self.said.append((node, list(ids)))
        if self.error is not None:
            raise self.error
        return [self.answers.get(one, 60) for one in ids]


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def leases(client: Any, lease_s: float = 60) -> Leases:
    """Some that no thread renews."""
    made = Leases(client, lease_s)
    made.has_timer = True
    return made


def test_all_that_is_held_is_renewed_where_it_is_known(client: FakeClient) -> None:
    held = leases(client)
    for job_id, node in (("1", A), ("2", B), ("3", A), ("4", None)):
        held.take(job_id, node)
    assert held.drop("3") == A
    held.renew()
    assert client.said == [(A, ["1"]), (B, ["2"]), (None, ["4"])]
    assert (len(held), "1" in held, "3" in held, held.interval_s) == (3, True, False, 20)


def test_what_is_not_held_cannot_be_dropped(client: FakeClient) -> None:
    with pytest.raises(KeyError):
        leases(client).drop("1")


def test_very_many_go_in_parts(client: FakeClient) -> None:
    held = leases(client)
    for number in range(IDS_MOST + 1):
        held.take(str(number), A)
    held.renew()
    assert [len(ids) for _, ids in client.said] == [IDS_MOST, 1]


def test_what_is_lost_is_said_once_and_what_may_be_is_kept(client: FakeClient, caplog: Any) -> None:
    held = leases(client)
    client.answers = {"1": NoJobError("NOJOB gone"), "2": JobCancelledError("CANCELLED"), "3": TooLateError("TOOLATE")}
    for job_id in ("1", "2", "3", "4"):
        held.take(job_id, A)
    with caplog.at_level(logging.WARNING, "disque.celery.leases"):
        held.renew()
        held.renew()
    assert [job_id in held for job_id in ("1", "2", "3", "4")] == [False, False, True, True]
    assert len(caplog.records) == 4


def test_what_is_in_a_queue_of_others_by_now_is_lost(client: FakeClient) -> None:
    held = leases(client)
    client.answers = {"1": NoPermError("NOPERM this user has no permissions to access one of the keys")}
    held.take("1", A)
    held.take("2", A)
    held.renew()
    assert ["1" in held, "2" in held] == [False, True]


def test_when_no_node_answers_all_is_kept_and_said_again(client: FakeClient, caplog: Any) -> None:
    held = leases(client)
    held.take("1", A)
    client.error = UnavailableError("UNAVAILABLE")
    with caplog.at_level(logging.CRITICAL):
        held.renew()
    client.error = None
    held.renew()
    assert client.said == [(A, ["1"]), (A, ["1"])]


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "disque-leases"]


def test_a_thread_renews_while_there_is_something(client: FakeClient) -> None:
    held = Leases(client, 0.003)  # type: ignore[arg-type]  # it answers what is asked
    assert names() == []
    held.take("1", A)
    until(lambda: len(client.said) >= 2, "two renewals")
    held.drop("1")
    until(lambda: not names(), "the end of the thread")
    held.take("2", A)
    until(lambda: (A, ["2"]) in client.said, "a new thread")
    held.stop()
    until(lambda: not names(), "the end of the thread")


def test_the_thread_keeps_nothing_alive(client: FakeClient) -> None:
    held = Leases(client, 0.003)  # type: ignore[arg-type]  # it answers what is asked
    held.take("1", A)
    del held
    gc.collect()
    until(lambda: not names(), "the end of the thread")


def test_a_child_process_holds_nothing(client: FakeClient) -> None:
    held = leases(client)
    held.take("1", A)
    held.after_fork()
    held.renew()
    assert (len(held), client.said) == (0, [])
