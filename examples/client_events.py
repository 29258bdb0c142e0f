"""Listening to what happens: `python examples/client_events.py disque://127.0.0.1:7711`.

Two jobs are added; a worker does one and fails with the other. Meanwhile somebody listens to what happens to jobs of
this queue at all nodes, and to what the worker says when it is done.
"""

import sys
import threading

from disque.client import Disque

QUEUE = "parcels"


def work(url: str) -> None:
    """Take two jobs, and tell whoever wants to know that they are done."""
    with Disque.from_url(url) as disque:
        for body in ("to: ada", "to: nobody"):
            disque.add(QUEUE, body, tries=1)
        for _ in range(2):
            for job in disque.get(QUEUE):
                if job.text().endswith("nobody"):
                    job.fail("nobody lives there")
                else:
                    job.ack()
        disque.publish("parcels are done", "2")


def main(url: str) -> None:
    """Print all that happens until the worker says that it is done."""
    with (
        Disque.from_url(url) as disque,
        disque.events(queue=QUEUE, timeout=1) as events,
        disque.listen("parcels are done", timeout=30) as said,
    ):
        events.ready(30)
        said.ready(30)
        worker = threading.Thread(target=work, args=(url,))
        worker.start()
        print("parcels done:", next(said).data.decode())
        for event in events:  # they end when nothing has come for a second
            print(event.event, event.queue)
        worker.join()


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    main(sys.argv[1])
