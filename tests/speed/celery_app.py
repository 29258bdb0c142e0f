"""The application of `celery_brokers`: a task that does nothing, and its producer, which prints tasks a second."""

import os
import sys
import time

from celery import Celery

import disque.celery  # noqa: F401 - registers the transport

BODY = "x" * 100

app = Celery("speed", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task(name="noop")
def noop(body: str) -> None:
    """Do nothing."""


def main() -> None:
    tasks = int(sys.argv[1])
    noop.delay(BODY)
    begin_s = time.perf_counter()
    for _ in range(tasks - 1):
        noop.delay(BODY)
    print((tasks - 1) / (time.perf_counter() - begin_s))


if __name__ == "__main__":
    main()
