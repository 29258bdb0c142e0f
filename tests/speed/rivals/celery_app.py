"""Celery on Redis: a task that does nothing, and a producer: `celery_app.py PORT JOBS` prints jobs a second."""

import os
import sys
import time

from celery import Celery

BODY = "x" * 100

app = Celery("jobs", broker=f"redis://127.0.0.1:{os.environ['RIVAL_PORT']}/0")
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True


def noop(body: str) -> None:
    """Do nothing."""


task = app.task(noop, name="noop")


def main() -> None:
    jobs = int(sys.argv[2])
    task.delay(BODY)
    begin_s = time.perf_counter()
    for _ in range(jobs - 1):
        task.delay(BODY)
    print((jobs - 1) / (time.perf_counter() - begin_s))


if __name__ == "__main__":
    main()
