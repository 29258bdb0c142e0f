"""Makes some tasks, and waits for their results: `python -m examples.django_shop.enqueue`."""

import os
import time
from datetime import timedelta
from typing import Any

import django
from django.utils import timezone

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_shop.settings")
django.setup()

from examples.django_shop.tasks import mail, picture, price  # noqa: E402 - tasks need the settings


def main() -> None:
    """Make them."""
    later = timezone.now() + timedelta(seconds=0.2)
    results: list[Any] = [
        price.enqueue(["tea", "honey"]),
        mail.enqueue("Ada"),
        picture.using(priority=50, run_after=later).enqueue(7),
    ]
    for result in results:
        while not result.is_finished:
            time.sleep(0.05)
            result.refresh()
        print(result.status, result.return_value, f"attempts: {result.attempts}")


if __name__ == "__main__":
    main()
