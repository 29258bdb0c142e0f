"""Adds jobs, many at a time: `python examples/client_producer.py disque://127.0.0.1:7711 [jobs]`."""

import sys
from datetime import timedelta

from disque.client import Disque, NewJob, json_body


def main(url: str, jobs: int = 1000) -> None:
    """Add one job, then many."""
    with Disque.from_url(url) as disque:
        # One job, with what it needs: half an hour until it comes again if nobody acknowledges it.
        job_id = disque.add("mails", json_body({"to": "ada"}), retry=timedelta(minutes=30))
        print("added", job_id)

        # Many jobs: pairs of queue and body, or NewJob. With a key none of them is added twice, even if this program
        # is run again within the hour.
        new = (NewJob("mails", json_body({"to": number}), unique=f"mail-{number}") for number in range(jobs))
        ids = disque.add_many(new, window=timedelta(hours=1))
        print("added", len(set(ids)), "more")


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
