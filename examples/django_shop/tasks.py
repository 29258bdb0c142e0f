"""Tasks of the shop."""

import asyncio
from typing import Any

import django

if django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task


@task
def price(items: list[str]) -> int:
    """What an order costs, in cents."""
    return sum(100 * len(item) for item in items)


@task(queue_name="mails", priority=10, takes_context=True)
def mail(context: Any, name: str) -> str:
    """Write to a customer. The first try fails."""
    if context.attempt == 1:
        raise ConnectionError("no mail server")
    return f"Dear {name}, this is try {context.attempt}."


@task
async def picture(number: int) -> int:
    """An asynchronous task."""
    await asyncio.sleep(0)
    return number * number
