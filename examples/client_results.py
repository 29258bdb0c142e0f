"""Jobs that answer: `python examples/client_results.py disque://127.0.0.1:7711`.

A producer adds jobs and waits for what comes of them; a worker, here in a thread, acknowledges each with a result. One
job is cancelled, which its worker hears when it says how far it is.
"""

import json
import sys
import threading
import time

from disque.client import Disque, Job, JobCancelledError


def work(url: str, stop: threading.Event) -> None:
    """Take jobs until it is enough."""
    with Disque.from_url(url) as disque:
        while not stop.is_set():
            for job in disque.get("sums", timeout=0.1):
                with job.attempt():
                    add_up(job)


def add_up(job: Job) -> None:
    """Add up numbers, slowly; say how far that is, and at the end what came of it."""
    total, numbers = 0, job.json()
    for at, number in enumerate(numbers):
        try:
            job.progress(f"{at} of {len(numbers)}")
        except JobCancelledError:
            return  # nobody wants it any more
        time.sleep(0.02)
        total += number
    job.ack(result=json.dumps({"total": total}))


def main(url: str) -> None:
    """Add jobs, wait for their results, and cancel one."""
    stop = threading.Event()
    worker = threading.Thread(target=work, args=(url, stop))
    worker.start()
    with Disque.from_url(url) as disque:
        # How a job ends is kept for an hour, at all nodes that have it.
        bodies = ["[1, 2, 3]", "[40, 2]"]
        ids = disque.add_many([("sums", body) for body in bodies], retain=3600)
        for ended in disque.wait(*ids, timeout=30):
            if ended is not None:
                print(ended.status, ended.json()["total"])

        long = disque.add("sums", json.dumps([1] * 1000), retain=3600)
        while not (known := disque.result(long)) or not known.progress:
            time.sleep(0.02)
        print(known.status, "and at work")
        print("cancelled:", disque.cancel(long))
        known = disque.result(long)
        print("it is", known.status if known else "unknown")
    stop.set()
    worker.join()


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    main(sys.argv[1])
