"""Our client: `disque_app.py PORT JOBS` prints jobs added a second, one by one and together; without JOBS it works."""

import sys
import time

from disque.client import Config, Disque

BODY = "x" * 100


def noop(body: bytes) -> None:
    """Do nothing."""


def produce(client: Disque, jobs: int) -> None:
    begin_s = time.perf_counter()
    for _ in range(jobs):
        client.add("jobs", BODY)
    middle_s = time.perf_counter()
    client.add_many(("jobs", BODY) for _ in range(jobs))
    print(jobs / (middle_s - begin_s), jobs / (time.perf_counter() - middle_s))


def work(client: Disque) -> None:
    with client.jobs("jobs") as found:
        for job in found:
            noop(job.body)
            job.ack()


def main() -> None:
    port, *jobs = map(int, sys.argv[1:])
    with Disque(Config(nodes=(("127.0.0.1", port),))) as client:
        if jobs:
            produce(client, jobs[0])
        else:
            work(client)


if __name__ == "__main__":
    main()
