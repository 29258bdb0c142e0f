"""Other replicated queues beside this server: three nodes, three copies of each job, driven by their Python clients.

``python -m tests.speed.brokers [--only ours,nats,rabbit] [--compiled PYTHON] [jobs]`` prints a table in Markdown: jobs
a second, and microseconds of CPU of all nodes together for one job, to add it, and to get it and acknowledge it. The
clients are the limit of the rates, so CPU is what counts. Bodies have 100 bytes.

- All keep jobs in files; JetStream is measured in memory as well. This server keeps its journal (`everysec`), in the
  plain form, and in the compiled form if an interpreter is named that has it. RabbitMQ has a quorum queue.
- Adds go a hundred at a time, and each is confirmed.
- A hundred jobs at a time are fetched and acknowledged, by this server in one command each. JetStream and RabbitMQ
  get an acknowledgement for each job; RabbitMQ can have one for a hundred as well. They do not confirm
  acknowledgements, this server does.

What idle nodes take, and for a second after the load, counts too: with few jobs that is much.

It needs `nats-server`, `rabbitmq-server` and the extra `bench`; what is not installed is left out, and named. Nothing
that runs already is touched. docs/benchmarks.md has figures.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import psutil

from disque.cli.bench_target import cpu_s_of
from disque.client import AsyncDisque
from tests.end_to_end.node import LOOPBACK
from tests.speed import nats, rabbit
from tests.speed.broker import AT_ONCE, BODY, NODES, PATIENCE_S, QUEUE, Driver, Drivers
from tests.speed.machine import core_of
from tests.speed.server import PLAIN, Form, Nodes

#: After the load, in seconds: what nodes still tell each other belongs to it.
TAIL_S: Final = 1.0
HEAD: Final = """\
| {jobs:,} jobs | add, /s | add, us of CPU | get and ack, /s | get and ack, us of CPU |
|---|---:|---:|---:|---:|"""


class Figures(NamedTuple):
    """Of one step: jobs a second, and microseconds of CPU of all nodes for one job."""

    rate: float
    cpu_us: float


async def measured(pids: list[int], jobs: int, step: Callable[[int], Awaitable[None]]) -> Figures:
    """Do something with so many jobs, after some that are not counted."""
    await step(AT_ONCE)
    processes = [psutil.Process(pid) for pid in pids]
    cpu_s = sum(map(cpu_s_of, processes))
    begin_s = time.monotonic()
    for done in range(0, jobs, AT_ONCE):
        await step(min(AT_ONCE, jobs - done))
    spent_s = time.monotonic() - begin_s
    await asyncio.sleep(TAIL_S)
    return Figures(jobs / spent_s, (sum(map(cpu_s_of, processes)) - cpu_s) * 1e6 / jobs)


def row(name: str, added: Figures, taken: Figures) -> str:
    """A line of the table."""
    cells = [f"{figures.rate:,.0f} | {figures.cpu_us:.1f}" for figures in (added, taken)]
    return f"| {name} | {' | '.join(cells)} |"


def ours_in(forms: list[Form]) -> Drivers:
    """This server in these forms, each with three nodes of its own that have journals."""

    async def drivers(stack: ExitStack, folder: Path) -> AsyncGenerator[Driver, None]:
        for form in forms:
            core = core_of(form, folder)
            if not core:
                print(f"{form.python} does not have this server: it is left out", file=sys.stderr)
                continue
            cluster = Nodes(folder / form.name, NODES, form, "--appendonly", "yes")
            stack.callback(cluster.discard)
            cluster.start_whole()
            async with AsyncDisque(f"disque://{LOOPBACK}:{cluster.members[0].port}") as client:
                yield ours(f"disque, {core}", cluster, client)
            cluster.discard()

    return drivers


def ours(name: str, cluster: Nodes, client: AsyncDisque) -> Driver:
    """How this server is driven."""

    async def add(count: int) -> None:
        pipeline = client.pipeline()
        for _ in range(count):
            pipeline.add(QUEUE, BODY, replicate=NODES, retry=300)
        await pipeline.execute()

    async def take(count: int) -> None:
        while count:
            found: list[Any] = await client.get(QUEUE, count=count, timeout=PATIENCE_S)
            count -= len(found)
            await client.ack(*[job.id for job in found])

    return Driver(name, [node.pid for node in cluster.members], add, take)


BROKERS: Final = ("ours", "nats", "rabbit")


def names(text: str) -> list[str]:
    """What `--only` says. Raises ArgumentTypeError for a name that is none."""
    found = text.split(",")
    for name in found:
        if name not in BROKERS:
            raise argparse.ArgumentTypeError(f"no broker is called {name}: there are {', '.join(BROKERS)}")
    return found


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--only", type=names, default=list(BROKERS), metavar="ours,nats,rabbit", help="not all of them")
    found.add_argument("--compiled", metavar="python", help="an interpreter that has the compiled form of the node")
    found.add_argument("jobs", type=int, nargs="?", default=50_000, help="how many each of them gets")
    return found


async def measure(drivers: AsyncGenerator[Driver, None], jobs: int) -> None:
    """Print a line for each."""
    async with aclosing(drivers) as found:
        async for driver in found:
            added = await measured(driver.pids, jobs, driver.add)
            taken = await measured(driver.pids, jobs, driver.take)
            print(row(driver.name, added, taken), flush=True)


def main(argv: list[str] | None = None) -> int:
    """Measure those that are there, one after the other. Gives 1 when one of them failed."""
    options = parser().parse_args(argv)
    forms = [PLAIN, Form("compiled", options.compiled)] if options.compiled else [PLAIN]
    print(HEAD.format(jobs=options.jobs), flush=True)
    brokers: dict[str, tuple[Drivers, list[str]]] = {
        "ours": (ours_in(forms), []),
        "nats": (nats.drivers, nats.absent()),
        "rabbit": (rabbit.drivers, rabbit.absent()),
    }
    code = 0
    with ExitStack() as whole:

        def leave(number: int, _frame: object) -> None:
            """End all processes at once, whatever the event loop and the clients do."""
            whole.close()
            os._exit(128 + number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)
        for name in options.only:
            drivers, absent = brokers[name]
            if absent:
                print(f"{name} is left out, since it is not installed: {', '.join(absent)}", file=sys.stderr)
                continue
            with whole.enter_context(ExitStack()) as stack:  # and `leave` finds it, too
                folder = Path(stack.enter_context(TemporaryDirectory()))
                try:
                    asyncio.run(measure(drivers(stack, folder), options.jobs))
                except Exception:  # noqa: BLE001 - the others are measured all the same
                    traceback.print_exc()
                    code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
