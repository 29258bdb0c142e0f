"""Jobs at certain times: `python examples/client_schedules.py disque://127.0.0.1:7711 [jobs]`.

Sets a schedule, as a program would at each start, and takes what comes of it: one job a second, whichever nodes are
there. Each job knows the time that it is for.
"""

import sys
from datetime import UTC, datetime

from disque.client import Disque, NewJob

NAME = "example: every second"


def main(url: str, most: int) -> None:
    """Set a schedule, take some jobs, and delete it."""
    with Disque.from_url(url) as disque:
        job = NewJob("ticks", "what is to be done", retry=60, ttl=60)
        disque.set_schedule(NAME, "@every 1s", job, catchup="last")
        for _ in range(2):
            disque.set_schedule(NAME, "@every 1s", job, catchup="last")  # it is set, so this changes nothing
        jobs = disque.jobs("ticks", meta=True)
        for count, taken in enumerate(jobs, 1):
            with taken.attempt():
                assert taken.meta is not None
                tick = datetime.fromtimestamp(int(taken.meta.headers["cron-tick"]), UTC)
                print(f"{tick:%H:%M:%S}", taken.text())
            if count == most:
                jobs.stop()
        known = disque.schedule(NAME)
        if known is not None and known.last is not None:
            print("the last one was for", f"{datetime.fromtimestamp(known.last, UTC):%H:%M:%S}")
        disque.delete_schedule(NAME)


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
