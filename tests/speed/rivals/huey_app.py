"""huey on Redis: a task that does nothing, and a producer: `huey_app.py PORT JOBS` prints jobs a second."""

import importlib
import os
import sys
import time

from huey import RedisHuey

BODY = "x" * 100

huey = RedisHuey("jobs", host="127.0.0.1", port=int(os.environ["RIVAL_PORT"]), results=False)


def noop(body: str) -> None:
    """Do nothing."""


task = huey.task()(noop)


def main() -> None:
    jobs = int(sys.argv[2])
    begin_s = time.perf_counter()
    for _ in range(jobs):
        task(BODY)
    print(jobs / (time.perf_counter() - begin_s))


if __name__ == "__main__":
    importlib.import_module("huey_app").main()  # the name of a task has that of its module
