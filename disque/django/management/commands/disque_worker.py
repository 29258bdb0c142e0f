"""`manage.py disque_worker`: runs tasks until it is told to stop."""

import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from disque.django import DisqueBackend
from disque.django.runner import Runner

GRACE_S: Final = 30.0
THREADS: Final = 4


class Command(BaseCommand):
    """The worker. SIGTERM and Ctrl-C: takes no more, and finishes what runs; a second one: at once."""

    help = "Run tasks of a backend of Disque. SIGTERM and Ctrl-C: takes no more, and finishes what runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Say what there is on the command line."""
        parser.add_argument("--backend", default="default", help="name in TASKS (default)")
        parser.add_argument(
            "--queues", default="", help="names of queues with commas between them (all of the backend)"
        )
        parser.add_argument("--threads", type=int, default=THREADS, help=f"tasks that run at a time ({THREADS})")
        parser.add_argument(
            "--grace", type=float, default=GRACE_S, help=f"seconds that running tasks have ({GRACE_S:g})"
        )
        parser.add_argument("--burst", action="store_true", help="end when nothing is left to do")

    def handle(self, **options: Any) -> None:
        """Run it."""
        backend = backend_of(options["backend"])
        queues = [name for name in options["queues"].split(",") if name] or sorted(backend.queues)
        if not queues:
            raise CommandError("which queues? Name them with --queues, or in TASKS")
        if options["threads"] < 1:
            raise CommandError("--threads must be at least 1")
        runner = Runner(backend, queues, concurrency=options["threads"], burst=options["burst"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: runner.stop())
        self.stdout.write(f"working on {', '.join(queues)} of {backend.client!r}")
        self.stdout.flush()
        if not runner.run(options["grace"]):
            self.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # threads that run tasks would be waited for


def backend_of(alias: str) -> DisqueBackend:
    """The backend of that name. Raises CommandError."""
    from disque.django.api import task_backends  # noqa: PLC0415 - it reads the settings

    try:
        backend = task_backends[alias]
    except Exception as error:
        raise CommandError(f"TASKS[{alias!r}]: {error}") from error
    if not isinstance(backend, DisqueBackend):
        raise CommandError(f"TASKS[{alias!r}] is no DisqueBackend")
    return backend
