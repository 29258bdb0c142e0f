"""Jobs that fail, and those that died: `python examples/client_dead_letters.py disque://127.0.0.1:7711 [seconds]`.

A worker tries each letter three times. What is left is in the queue `letters:dead`, with the reason; there somebody
looks at it, mends what can be mended, and puts it back. The worker ends when no job came for so many seconds (2).
"""

import logging
import sys

from disque.client import Backoff, Disque, Job


def send(job: Job) -> None:
    """Do the work."""
    address = job.json()["to"]
    if "@" not in address:
        raise ValueError(f"no address: {address}")
    if address.startswith("full@"):
        raise OSError("mailbox full")
    print("sent to", address, "from", job.headers["sender"])


def work(disque: Disque, idle_s: float) -> None:
    """Work on what comes. With `meta=True` a job knows its tries, its backoff, its last error and its headers."""
    with disque.jobs("letters", timeout=idle_s, prefetch=0, meta=True) as jobs:
        for job in jobs:
            if "to" not in job.json():
                job.dead("nobody to send it to")  # it can never succeed: no more tries
                continue
            with job.attempt():  # an exception is one try less; the job's own backoff counts
                send(job)


def look(disque: Disque) -> list[str]:
    """Show the dead letters, and say which to put back. They are jobs in a queue: what can never be sent is done."""
    again = []
    for job in disque.get("letters:dead", count=100, nohang=True, meta=True):
        print("dead:", job.text(), "from", job.origin, "because of", job.error)
        if job.error == "OSError: mailbox full":
            again.append(job.id)
        else:
            job.ack()
    return again


def main(url: str, idle_s: float = 2) -> None:
    """Add letters, work on them, look at the dead ones, and put back what may succeed by now."""
    with Disque.from_url(url) as disque:
        bodies = ['{"to": "ada@example.org"}', '{"to": "full@example.com"}', '{"to": "nowhere"}', "{}"]
        backoff = Backoff("exponential", 0.05, longest=1)
        disque.add_many([("letters", body) for body in bodies], tries=3, backoff=backoff, headers={"sender": "grace"})
        work(disque, idle_s)
        again = look(disque)
        print("put back:", disque.revive(*again))
        for job in disque.get("letters", count=100, nohang=True, meta=True):  # its tries began anew
            print("to be tried again:", job.text(), "tries left:", job.tries_left)
            job.ack()


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    logging.disable()  # otherwise each failure is logged, with its traceback
    main(sys.argv[1], *map(float, sys.argv[2:]))
