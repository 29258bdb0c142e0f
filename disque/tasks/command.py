"""`disque worker module:app`: runs the tasks of an app, in one process or several.

Signals: SIGTERM or Ctrl-C stops it, a second one at once; SIGTSTP lets it take no more jobs, SIGCONT goes on. The exit
code is 0 after a stop, 1 when it could not begin.
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

import uvloop

from disque.client import DisqueError
from disque.tasks.ending import Ending, is_something_left, run_through
from disque.tasks.loading import AppNotFoundError, load_app
from disque.tasks.supervisor import NOT_BEGUN, PARENT, QUIET, Supervisor
from disque.tasks.worker import HOPELESS, Settings, Worker

LOG: Final = logging.getLogger("disque.tasks")

PORT_MOST: Final = 65_535
#: How often a process looks whether its supervisor is there.
PARENT_S: Final = 1.0
#: When the worker has ended, what functions have left behind has so long to end.
LEFT_S: Final = 5.0
#: After a second signal the process ends within this, even if a function blocks the event loop: longer than it takes to
#: tell what has become of jobs.
HARD_S: Final = 15.0


def main(argv: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    words = sys.argv[1:] if argv is None else argv
    options = parser().parse_args(words)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(process)d %(levelname)s %(message)s")
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if options.processes > 1 or options.reload:
        return Supervisor(words_of_one(words), options.processes, reload=options.reload, health=options.health).run()
    return serve(options.app, settings_of(options))


def parser() -> argparse.ArgumentParser:
    """The options."""
    # Whole names only: `words_of_one` must know those that are not for the processes of a supervisor.
    found = argparse.ArgumentParser(prog="disque worker", description="Runs the tasks of an app.", allow_abbrev=False)
    found.add_argument("app", metavar="module:app", help="where the App is; `module` alone means module:app")
    found.add_argument(
        "--queues", type=queues, metavar="NAME:WEIGHT,...", help="queues with weights (all queues of its tasks, alike)"
    )
    found.add_argument(
        "--strict", action="store_true", help="look at a queue only when those named before it are empty"
    )
    found.add_argument(
        "--concurrency", type=positive, default=100, metavar="N", help="calls at once in a process (100)"
    )
    found.add_argument(
        "--processes", type=positive, default=1, metavar="N", help="processes (1); one that dies is started again"
    )
    found.add_argument(
        "--cpus",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="of each process: processes of its own for tasks with cpu=True (one for each core)",
    )
    found.add_argument(
        "--grace", type=duration, default=30.0, metavar="S", help="seconds that calls may go on at a stop (30)"
    )
    found.add_argument("--reload", action="store_true", help="start anew when a Python file changes: for development")
    found.add_argument(
        "--health",
        type=port,
        metavar="PORT",
        help="port of /healthz, /readyz, /metrics; further processes have the next",
    )
    found.add_argument("--health-host", default="127.0.0.1", metavar="HOST", help="address of this port (127.0.0.1)")
    found.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"), help="(info)")
    return found


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


def duration(text: str) -> float:
    """Seconds, not negative."""
    seconds = float(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError("it must not be negative")
    return seconds


def port(text: str) -> int:
    """A port; 0 for a free one."""
    number = int(text)
    if not 0 <= number <= PORT_MOST:
        raise argparse.ArgumentTypeError(f"a port is at most {PORT_MOST}")
    return number


def queues(text: str) -> dict[str, int]:
    """Names of queues with weights: "mail:3,default:1". A name may have colons, but none ends like a wrong weight."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, colon, weight = part.rpartition(":")
        if colon and weight[:1] in {"-", "+"} and weight[1:].isdigit():
            raise argparse.ArgumentTypeError(f"{part!r}: a weight is a whole number from 1, such as mail:3")
        if not colon or not weight.isdigit():
            name, weight = part, "1"
        if not name or int(weight) < 1:
            raise argparse.ArgumentTypeError(f"{part!r} is no queue with a weight, such as mail:3")
        found[name] = int(weight)
    return found


def settings_of(options: argparse.Namespace) -> Settings:
    """How the worker is to work."""
    return Settings(
        queues=options.queues, strict=options.strict, concurrency=options.concurrency, grace_s=options.grace,
        cpus=options.cpus, place=options.app, health=options.health, health_host=options.health_host,
    )  # fmt: skip


def words_of_one(words: Sequence[str]) -> list[str]:
    """The same command line for one process of several."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in {"--processes", "--health"}:
            skip = True
        elif word != "--reload" and not word.startswith(("--processes=", "--health=")):
            kept.append(word)
    return kept


def serve(place: str, settings: Settings) -> int:
    """Run one worker in this process."""
    try:
        app = load_app(place)
    except AppNotFoundError as error:
        LOG.error("%s", error)  # noqa: TRY400 - the text says it all
        return not_begun()
    ending = Ending()
    leaves_threads = has_begun = False
    gc.collect()
    gc.freeze()  # it stays: to look at it with each full collection would let all jobs wait for 10 ms and more

    async def work() -> None:
        nonlocal leaves_threads, has_begun
        worker = Worker(app, settings)
        worker.listen(lambda: ending.within(HARD_S))
        if os.environ.pop(QUIET, ""):
            worker.hush()
        watching = asyncio.create_task(mind_parent(worker, os.environ.get(PARENT)))
        try:
            await worker.run()
        finally:
            watching.cancel()
            has_begun = worker.ready.is_set()
        leaves_threads = worker.leaves_threads

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            run_through(runner.get_loop(), work())
            if leaves_threads:  # nobody could wait for them
                ending.now()
            ending.within(LEFT_S)
        if not is_something_left():
            ending.call_off()
    except (DisqueError, ValueError, OSError) as error:
        LOG.error("the worker cannot go on: %s", error)  # noqa: TRY400 - the same
        return not_begun() if isinstance(error, HOPELESS) and not has_begun else 1
    return 0


def not_begun() -> int:
    """The exit code where it is in vain to start it again; a supervisor wants to know."""
    return NOT_BEGUN if PARENT in os.environ else 1


async def mind_parent(worker: Worker, pid: str | None) -> None:
    """Stop the worker when its supervisor is gone, for nobody would stop it then."""
    while pid is not None:
        if os.getppid() != int(pid):
            LOG.error("the supervisor is gone")
            worker.stop()
            return
        await asyncio.sleep(PARENT_S)


if __name__ == "__main__":
    sys.exit(main())
