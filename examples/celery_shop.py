"""A web shop's tasks: an application of Celery that was moved from Redis by its URL and one import.

Start a node (`make run NODES=1`), a worker, and this program:

    celery --app examples.celery_shop worker
    python -m examples.celery_shop
"""

import os

from celery import Celery, chain

import disque.celery  # noqa: F401 - so that disque:// is known: the import that was added

# broker="redis://127.0.0.1:6379/0" before
app = Celery("shop", broker=os.environ.get("BROKER", "disque://127.0.0.1:7711"), backend="rpc://")
app.conf.broker_connection_retry_on_startup = True


@app.task(name="price", acks_late=True)
def price(items: list[str]) -> int:
    """What an order costs, in cents: acknowledged after it has run, so a worker that dies costs nothing."""
    return sum(100 * len(item) for item in items)


@app.task(name="mail", autoretry_for=(ConnectionError,), retry_backoff=True)
def mail(cents: int, name: str) -> str:
    """Write to a customer. Tries that come later wait in the server."""
    return f"Dear {name}, you pay {cents / 100:.2f}."


def main() -> None:
    """Order something."""
    order = chain(price.s(["tea", "honey"]), mail.s("Ada")).apply_async()
    reminder = mail.apply_async((800, "Ada"), countdown=1, priority=9)
    print(order.get(timeout=30))
    print(reminder.get(timeout=30))


if __name__ == "__main__":
    main()
