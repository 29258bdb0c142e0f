"""The application of `test_workers`. `FOLDER` is where tasks leave notes; a broker and a backend come from outside."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

import disque.celery  # noqa: F401 - registers the transport

FOLDER = Path(os.environ.get("FOLDER", "."))

app = Celery("tests", broker=os.environ.get("BROKER"), backend=os.environ.get("BACKEND") or None)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "lease": float(os.environ.get("LEASE", "60")),
        "job_options": {"replicate": int(os.environ.get("REPLICATE", "1"))},
    },
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_send_task_events=True,
    result_expires=3600,
    accept_content=["json", "yaml"],
)


def note(name: str) -> None:
    """Leave a line in the file of this name."""
    with (FOLDER / name).open("a") as file:
        file.write(f"{os.getpid()}\n")


def until_there(name: str) -> None:
    """Wait until a test has made a file."""
    deadline_s = time.monotonic() + 60
    while not (FOLDER / name).exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)


@app.task
def add(one: int, other: int) -> int:
    return one + other


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(ignore_result=True)
def done(number: int) -> None:
    note(f"done-{number}")


@app.task(acks_late=True)
def hold(name: str, until: str) -> str:
    """Say that it has begun, and end when it may."""
    note(f"begun-{name}")
    until_there(until)
    note(f"ended-{name}")
    return name


@app.task(bind=True, max_retries=3)
def fail_first(self: Any) -> int:
    """Fail once."""
    if not self.request.retries:
        raise self.retry(countdown=0.1)
    retries: int = self.request.retries
    return retries


@app.task(time_limit=0.3)
def too_long() -> None:
    time.sleep(60)


@app.task(bind=True, acks_late=True)
def rejected_first(self: Any) -> bool:
    """Reject the first time, and say whether it was delivered before."""
    if not self.request.delivery_info["redelivered"]:
        raise Reject("not now", requeue=True)
    return True


@app.task(bind=True, acks_late=True)
def rejected(self: Any) -> None:
    """Reject for good."""
    del self
    raise Reject("never", requeue=False)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def dies_first(self: Any) -> bool:
    """Kill the process that runs this, the first time."""
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return True


@app.task
def same(value: Any) -> Any:
    return value
