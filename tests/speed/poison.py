"""What a poisoned queue costs: `python -m tests.speed.poison [--compiled PYTHON] [--jobs N]`.

Every job fails at its only try: one worker takes a thousand at a time and gives them back with an error, and each
becomes a dead letter. Another pass takes the dead letters out of their queue and acknowledges them. Printed are jobs a
second of each pass, at one node, and at the first of three nodes where each job has two copies.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.end_to_end.node import LOOPBACK, Raw, request, until
from tests.speed.server import PLAIN, Form, Nodes, Ours

BODY: Final = b"x" * 100
AT_ONCE: Final = 1000
QUEUE: Final = b"poisoned"
DEAD: Final = b"poisoned:dead"


def add(raw: Raw, jobs: int, copies: int) -> None:
    """Fill the queue."""
    for _ in range(0, jobs, AT_ONCE):
        for _ in range(AT_ONCE):
            raw.send(request(b"ADDJOB", QUEUE, BODY, b"5000", b"REPLICATE", b"%d" % copies, b"TRIES", b"1"))
        for _ in range(AT_ONCE):
            raw.reply()


def taken(raw: Raw, queue: bytes) -> Iterator[list[bytes]]:
    """The IDs of all jobs of a queue, some at a time."""
    while jobs := raw.ask(b"GETJOB", b"NOHANG", b"COUNT", b"%d" % AT_ONCE, b"NOBODY", b"FROM", queue):
        yield [job[1] for job in jobs]


def passes(port: int, jobs: int, copies: int) -> tuple[float, float]:
    """Jobs a second that die, and that are taken out again as dead letters."""
    with closing(Raw((LOOPBACK, port))) as raw:
        add(raw, jobs, copies)
        begin = time.perf_counter()
        for ids in taken(raw, QUEUE):
            assert raw.ask(b"NACK", *ids, b"ERROR", b"cannot parse it") == len(ids)
        died = jobs / (time.perf_counter() - begin)
        assert raw.ask(b"QLEN", DEAD) == jobs
        begin = time.perf_counter()
        done = sum([raw.ask(b"ACKJOB", *ids) for ids in taken(raw, DEAD)])
        drained = jobs / (time.perf_counter() - begin)
        assert done == jobs
        until(lambda: b"registered_jobs:0" in raw.ask(b"INFO", b"jobs"), "nothing is left")
        return died, drained


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", help="an interpreter that has the compiled form")
    parser.add_argument("--jobs", type=int, default=200_000)
    options = parser.parse_args()
    form = Form("compiled", options.compiled) if options.compiled else PLAIN
    with TemporaryDirectory() as directory, ExitStack() as stack:
        single, safe = Ours(Path(directory) / "one", form), Ours(Path(directory) / "safe", form, "--appendonly", "yes")
        for server in (single, safe):
            server.directory.mkdir()
            stack.callback(server.discard)
            server.start()
        three = Nodes(Path(directory) / "three", 3, form)
        stack.callback(three.discard)
        three.start_whole()
        first = three.members[0].port
        for name, port, copies in (("one", single.port, 1), ("journal", safe.port, 1), ("three", first, 2)):
            for _ in range(3):
                died, drained = passes(port, options.jobs, copies)
                print(f"{name:8} {died:9.0f} die a second, {drained:9.0f} dead letters are taken out")


if __name__ == "__main__":
    main()
