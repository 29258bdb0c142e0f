"""Works on jobs until none came for two seconds: `python examples/client_worker.py disque://127.0.0.1:7711`."""

import sys

from disque.client import Disque, Job


def send(job: Job) -> None:
    """Do the work."""
    mail = job.json()
    if mail["to"] == "nobody":
        raise ValueError("no such address")


def main(url: str) -> None:
    """Work on what there is."""
    done = failed = 0
    with Disque.from_url(url) as disque, disque.jobs("mails", timeout=2) as jobs:
        for job in jobs:
            if job.nacks >= 3:  # enough: it goes to another queue
                disque.add("mails-failed", job.body)
                job.ack()
                continue
            try:
                # Acknowledged at the end of the block; given back if an exception leaves it. While it runs, the node is
                # told that the work goes on, however long it takes.
                with job, job.keep_working():
                    send(job)
                done += 1
            except ValueError as error:
                failed += 1
                print("failed:", job.id, error)
    print("done:", done, "failed:", failed)


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    main(sys.argv[1])
