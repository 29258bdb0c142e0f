"""`make demo-tasks`: a web shop on three nodes with two workers, of which one is killed, one stopped, and a node dies.

Mails with retries, pictures that take a core, a report by a schedule, clicks in batches, and orders that are a chain.
While they run, one worker is killed with -9, the other is stopped with SIGTERM, and a node is killed with -9; new
workers take over. The last lines say what became of every job.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from disque.client import AsyncDisque, Config, DisqueError
from disque.tasks import Bound
from disque.tasks.inspector import Inspector

ROOT: Final = Path(__file__).resolve().parents[2]
MAILS, PICTURES, CLICKS, ORDERS = 60, 6, 400, 40
NODES: Final = 3
PATIENCE_S: Final = 120.0


def say(*words: object) -> None:
    """Tell people what happens."""
    print(*words, flush=True)


def free_port() -> int:
    """A port that nobody uses, and whose bus port is free too."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except (OSError, OverflowError):
                continue
            return port


class Stage:
    """Nodes and workers, all of which are gone at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes.txt"
        self.ports = [free_port() for _ in range(NODES)]
        self.processes: list[subprocess.Popen[bytes]] = []
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"disque://{hosts}?cooldown_ms=1000&also_retry=NOREPL"
        self.config = Config.from_url(self.url)

    def node(self, number: int) -> subprocess.Popen[bytes]:
        """Start a node."""
        folder = self.folder / f"node{number}"
        folder.mkdir(exist_ok=True)
        words = ["--port", str(self.ports[number]), "--dir", str(folder), "--bind", "127.0.0.1"]
        words += ["--appendonly", "yes", "--default-replicate", "2", "--cluster-node-timeout", "3000"]
        return self._start(f"node{number}.log", sys.executable, "-m", "disque.cli.serve", *words)

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        words = ["-m", "disque.tasks.command", "examples.tasks.shop:app"]
        words += ["--concurrency", "8", "--cpus", "1", "--grace", "1"]
        return self._start("workers.log", sys.executable, *words)

    def _start(self, log: str, *command: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SHOP_URL": self.url,
            "SHOP_LOG": str(self.notes),
            "SHOP_LEASE": "3",
            "SHOP_REPORT": "@every 2s",
        }
        with (self.folder / log).open("ab") as sink:
            process = subprocess.Popen(  # noqa: S603 - our own programs
                command, cwd=ROOT, env=environment, stdout=sink, stderr=sink
            )
        self.processes.append(process)
        return process

    def noted(self, word: str) -> list[str]:
        """What the tasks have written down."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [line for line in lines if line.startswith(f"{word} ")]

    def end(self) -> None:
        """End everything."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


async def until(ask: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until this is true."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if await ask():
                return
        except DisqueError:
            pass
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"still waiting for {what}")
        await asyncio.sleep(0.1)


async def form_cluster(stage: Stage) -> None:
    """Let the nodes find each other."""
    for number in range(NODES):
        stage.node(number)
    async with AsyncDisque(Config(nodes=stage.config.nodes[:1], discover=False)) as first:

        async def met() -> bool:
            for _, port in stage.config.nodes[1:]:
                await first.cluster_meet("127.0.0.1", port)
            return len([one for one in await first.nodes() if one.priority == 1]) == NODES

        await until(met, "the cluster")


async def enqueue() -> dict[str, list[str]]:
    """Add all jobs of the demonstration: their IDs by kind."""
    from examples.tasks.shop import (  # noqa: PLC0415 - SHOP_URL is set by now
        Order,
        app,
        clicks,
        invoice,
        mail,
        pay,
        picture,
    )

    async with app:
        customers = [f"customer-{number}" for number in range(MAILS - 3)] + [f"nobody-{number}" for number in range(3)]
        orders = [Order(number, f"customer-{number}", 100 * number) for number in range(ORDERS)]
        calls: dict[str, list[Bound[Any]]] = {
            "mails": [mail.bind(customer, "hello") for customer in customers],
            "pictures": [picture.bind(f"cat-{number}.png", 400) for number in range(PICTURES)],
            "clicks": [clicks.using(retain=3600).bind(f"/page/{number % 5}") for number in range(CLICKS)],
            "orders": [pay.bind(order).then(invoice, order) for order in orders],
        }
        return {kind: [job.id for job in await app.enqueue_many(bound)] for kind, bound in calls.items()}


async def statuses(client: AsyncDisque, ids: list[str]) -> Counter[str]:
    """How jobs stand."""
    found = [await client.result(job_id) for job_id in ids]
    return Counter("lost" if one is None else one.status for one in found)


async def play(stage: Stage) -> int:
    """The whole demonstration: 0 if nothing was lost."""
    say(f"three nodes at {', '.join(map(str, stage.ports))}, and two workers")
    await form_cluster(stage)
    os.environ["SHOP_URL"] = stage.url
    sys.path.insert(0, str(ROOT))
    workers = [stage.worker(), stage.worker()]
    jobs = await enqueue()
    everything = [job_id for ids in jobs.values() for job_id in ids]
    say(f"{len(everything)} jobs: " + ", ".join(f"{len(ids)} {kind}" for kind, ids in jobs.items()))
    async with AsyncDisque(stage.config) as client:

        async def some_are_done() -> bool:
            return len(stage.noted("mail")) >= MAILS // 4

        await until(some_are_done, "the first mails")
        say(f"kill -9 of the first worker ({workers[0].pid}); its jobs come again after their lease of 3 s")
        workers[0].kill()
        say(f"SIGTERM to the second one ({workers[1].pid}): it gives back what it has not begun")
        workers[1].send_signal(signal.SIGTERM)
        say(f"  it ended with exit code {await asyncio.to_thread(workers[1].wait)}")
        say(f"kill -9 of node {stage.ports[-1]}, and a new worker")
        stage.processes[NODES - 1].kill()
        stage.worker()

        async def all_over() -> bool:
            found = await statuses(client, everything)
            return found["done"] + found["dead-letter"] == len(everything)

        await until(all_over, "all jobs")

        async def all_invoiced() -> bool:
            return len(set(stage.noted("invoice"))) == ORDERS and len(stage.noted("report")) >= 2

        await until(all_invoiced, "the invoices, and two reports")
        return await account(stage, client, jobs)


async def account(stage: Stage, client: AsyncDisque, jobs: dict[str, list[str]]) -> int:
    """Say what became of everything: 0 if nothing was lost."""
    say()
    for kind, ids in jobs.items():
        found = await statuses(client, ids)
        say(f"{kind:10} " + ", ".join(f"{count} {status}" for status, count in sorted(found.items())))
    say(f"{'invoices':10} {len(set(stage.noted('invoice')))}, each after its payment")
    ticks = [line.split()[1] for line in stage.noted("report")]
    say(f"{'reports':10} {len(ticks)} of {len(set(ticks))} times, one each 2 s")
    letters = await Inspector(client).jobs("mail", "dead-letter")
    errors = Counter((job.error or "").split("\n")[0] for job in letters)
    for error, count in sorted(errors.items()):
        say(f"{'dead':10} {count} {error}")
    done = [await client.result(job_id) for job_id in jobs["mails"]]
    retried = sum(one is not None and one.tries > 0 and one.done for one in done)
    say(f"{'retried':10} {retried} mails, since the server was busy")
    lost = sum([(await statuses(client, ids))["lost"] for ids in jobs.values()])
    say(f"{'lost':10} {lost}")
    good = lost == 0 and len(letters) == 3 and len(set(stage.noted("invoice"))) == ORDERS
    return 0 if good else 1


def main() -> int:
    """Run it in a folder that goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            return asyncio.run(play(stage))
        finally:
            stage.end()


if __name__ == "__main__":
    sys.exit(main())
