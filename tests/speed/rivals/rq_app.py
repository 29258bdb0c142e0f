"""RQ: a task that does nothing, and a producer: `rq_app.py PORT JOBS` prints jobs a second, one by one and together."""

import sys
import time

from redis import Redis
from rq import Queue

BODY = "x" * 100


def noop(body: str) -> None:
    """Do nothing."""


def main() -> None:
    port, jobs = map(int, sys.argv[1:])
    queue = Queue("jobs", connection=Redis(port=port))
    begin_s = time.perf_counter()
    for _ in range(jobs):
        queue.enqueue("rq_app.noop", BODY)
    middle_s = time.perf_counter()
    queue.enqueue_many([Queue.prepare_data("rq_app.noop", (BODY,)) for _ in range(jobs)])
    print(jobs / (middle_s - begin_s), jobs / (time.perf_counter() - middle_s))


if __name__ == "__main__":
    main()
