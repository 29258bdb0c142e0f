"""Works on jobs until SIGTERM or Ctrl-C: `python examples/client_worker.py disque://127.0.0.1:7711 [seconds]`.

With a number of seconds it also ends when no job came for so long. When it is stopped it finishes the job at hand, and
gives back what it has fetched but not begun, which counts as no failure of these jobs.
"""

import logging
import signal
import sys

from disque.client import Disque, Job


def send(job: Job) -> None:
    """Do the work."""
    mail = job.json()
    if mail["to"] == "nobody":
        raise ValueError("no such address")
    print("sent:", job.id)


def main(url: str, idle_s: float | None = None) -> None:
    """Work on what comes."""
    with Disque.from_url(url) as disque, disque.jobs("mails", timeout=idle_s) as jobs:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: jobs.stop())
        for job in jobs:
            # Acknowledged at the end of the block. If an exception leaves it, it is logged, and the job comes again
            # after a pause, while the loop goes on with others. While it runs, the node is told that the work goes on,
            # however long it takes.
            with job.attempt(), job.keep_working():
                if job.nacks < 3:
                    send(job)
                else:  # enough: it goes to another queue
                    disque.add("mails-failed", job.body, unique=job.id)
    print("stopped")


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    logging.basicConfig(format="%(message)s")
    main(sys.argv[1], *map(float, sys.argv[2:]))
