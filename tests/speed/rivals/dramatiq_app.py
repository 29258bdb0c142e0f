"""dramatiq on Redis: an actor that does nothing, and a producer: `dramatiq_app.py PORT JOBS` prints jobs a second."""

import os
import sys
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

BODY = "x" * 100

dramatiq.set_broker(RedisBroker(port=int(os.environ["RIVAL_PORT"])))


def noop(body: str) -> None:
    """Do nothing."""


actor = dramatiq.actor(noop)


def main() -> None:
    jobs = int(sys.argv[2])
    begin_s = time.perf_counter()
    for _ in range(jobs):
        actor.send(BODY)
    print(jobs / (time.perf_counter() - begin_s))


if __name__ == "__main__":
    main()
