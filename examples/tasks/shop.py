"""The tasks of a web shop. In the folder of the project: `disque worker examples.tasks.shop:app`.

The nodes are those of SHOP_URL, or one at 127.0.0.1:7711.
"""

import asyncio
import os
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from disque.tasks import App, Dead, Depends, current, exponential

URL = os.environ.get("SHOP_URL", "disque://127.0.0.1:7711")
app = App(URL, name="shop", lease=int(os.environ.get("SHOP_LEASE", "60")))


@dataclass
class Order:
    """What somebody has bought."""

    number: int
    customer: str
    cents: int


def note(text: str) -> None:
    """Write down what happened, where the demonstration looks for it."""
    path = os.environ.get("SHOP_LOG")
    if path:
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")


@app.lifespan
async def alive(_app: App) -> AsyncIterator[None]:
    """What each process of a worker does around everything."""
    note(f"worker {os.getpid()} begins")
    yield
    note(f"worker {os.getpid()} ends")


@contextmanager
def mail_server() -> Iterator[list[str]]:
    """What a task needs and its callers do not give: here, a mail server that forgets everything."""
    yield []


@app.task(queue="mail", tries=5, backoff=exponential(0.2, 60), timeout=30, retain=3600, unique="{customer}-{text}")
async def mail(customer: str, text: str, *, server: list[str] = Depends(mail_server)) -> str:
    """Send a mail. The server is busy at first, and some addresses do not exist."""
    if customer.startswith("nobody"):
        raise Dead(f"there is no {customer}")
    if current().tries == 0 and customer.endswith("7"):
        raise ConnectionError("the mail server is busy")
    await asyncio.sleep(0.01)
    server.append(f"{customer}: {text}")
    note(f"mail {customer}")
    return f"sent to {customer}"


@app.task(queue="pictures", cpu=True, timeout=60, retain=3600)
def picture(name: str, width: int) -> int:
    """Make a picture small: this takes a core, so it runs in a process of its own."""
    pixels = bytes((at * at) % 251 for at in range(width * 100))
    for _ in range(20):
        pixels = zlib.compress(pixels, 9)[:width] * 100
    note(f"picture {name}")
    return len(pixels)


@app.batch(queue="clicks", max_size=100, max_wait=0.5)
async def clicks(pages: list[str]) -> None:
    """Write many clicks at once."""
    for page, count in Counter(pages).items():
        note(f"clicks {page} {count}")


@app.cron(os.environ.get("SHOP_REPORT", "@hourly"), queue="reports")
async def report() -> None:
    """Write the report of the hour; headers say which hour it is."""
    note(f"report {current().headers.get('cron-tick')}")


@app.task(queue="orders", retain=3600)
async def pay(order: Order) -> int:
    """Take the money."""
    await asyncio.sleep(0.01)
    note(f"pay {order.number}")
    return order.cents


@app.task(queue="orders", retain=3600)
async def invoice(cents: int, order: Order) -> str:
    """Write the invoice, with what was paid."""
    note(f"invoice {order.number}")
    return f"invoice {order.number}: {cents / 100:.2f} EUR"
