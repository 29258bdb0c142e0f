"""What a thousand listeners cost beside a load: `python -m tests.speed.listeners [--compiled PYTHON]`.

One node, its load (add, get, acknowledge, in pipelines) and the listeners are processes of their own. Measured are the
jobs that went through, the CPU of the node for each, what a listener that reads has heard, and how many were cut off.

Where one of many reads, it must hear everything, and all others must be cut off when they reach their limit: if not,
that is said, and the exit code is 1. `--rate`, `--seconds` and `--limit` must be such that they reach it: each job is
about 300 bytes for who listens to everything. `--listeners 200 --rate 3000 --seconds 3 --limit 256kb` is a small run.
"""

import argparse
import multiprocessing
import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.end_to_end.node import Raw, request
from tests.speed.server import PLAIN, Form, Ours

#: Jobs that travel together.
BATCH = 100
#: Bytes that the system keeps for a listener that does not read.
UNREAD = 1 << 16


def load(port: int, rate: int, seconds: float, told: Any) -> None:
    """Add, get and acknowledge jobs at a rate, or as fast as it goes; tell how many there were."""
    raw = Raw(("127.0.0.1", port))
    add = request("ADDJOB", "q", "x" * 100, 0) * BATCH
    get = request("GETJOB", "NOHANG", "COUNT", BATCH, "FROM", "q")
    begin = time.perf_counter()
    jobs = 0
    while (now := time.perf_counter()) - begin < seconds:
        if rate and jobs > (now - begin) * rate:
            time.sleep(0.001)
            continue
        raw.send(add)
        for _ in range(BATCH):
            raw.reply()
        raw.send(get)
        got = raw.reply() or []
        raw.ask("ACKJOB", *[job_id for _, job_id, _ in got])
        jobs += len(got)
    told.put((jobs, time.perf_counter() - begin))


def listen(port: int, count: int, pattern: str, reads: bool, told: Any, end: Any) -> None:
    """So many connections that listen; all read, or only the first. Tell what that one heard, and how many were cut."""
    selector = selectors.DefaultSelector()
    sockets: list[socket.socket] = []
    for number in range(count):
        sock = socket.socket()
        if not reads and number:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD)  # else the system keeps megabytes for each
        sock.connect(("127.0.0.1", port))
        sock.sendall(request("PSUBSCRIBE", pattern))
        sock.recv(1000)
        sock.setblocking(False)
        sockets.append(sock)
        if reads or not number:
            selector.register(sock, selectors.EVENT_READ, number)
    told.put("ready")
    heard = cut = total = 0
    while not end.is_set():
        for key, _ in selector.select(0.1):
            one: Any = key.fileobj
            try:
                data = one.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                selector.unregister(one)
                cut += 1
                continue
            total += len(data)
            if key.data == 0:
                heard += data.count(b"$8\r\npmessage")
    told.put((heard, total, cut))


def measure(name: str, node: Ours, count: int, pattern: str, reads: bool, rate: int, seconds: float) -> bool:
    """Print one line of the table. False if one that reads has missed something, or others were not cut off."""
    context = multiprocessing.get_context("spawn")
    told, end = context.Queue(), context.Event()
    ears = None
    if count:
        ears = context.Process(target=listen, args=(node.port, count, pattern, reads, told, end))
        ears.start()
        told.get()
    results = context.Queue()
    worker = context.Process(target=load, args=(node.port, rate, seconds, results))
    before_s, rss = node.cpu_s(), 0
    worker.start()
    while worker.is_alive():
        rss = max(rss, int(node.info("used_memory_rss")))
        worker.join(0.2)
    jobs, took_s = results.get()
    cpu_s = node.cpu_s() - before_s
    left = int(node.info("pubsub_clients"))
    is_right = True
    line = f"{name:36} {jobs / took_s:7.0f} jobs/s  node {100 * cpu_s / took_s:3.0f} %"
    line += f" {1e6 * cpu_s / max(jobs, 1):6.1f} us a job"
    if ears is not None:
        time.sleep(1)
        end.set()
        heard, total, _ = told.get()
        line += f"  heard {heard} of {4 * jobs}, {total / took_s / 1e6:.0f} MB/s, {count - left} cut, {rss >> 20} MB"
        ears.join()
        is_right = reads or (heard == 4 * jobs and left == 1)
    print(line, flush=True)
    return is_right


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", help="an interpreter that has the compiled form")
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50_000, help="jobs a second; 0: as fast as it goes")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--limit", default="32mb", help="bytes that a listener may leave unread")
    words = parser.parse_args()
    most, rate, seconds = words.listeners, words.rate, words.seconds
    form = Form("compiled", words.compiled) if words.compiled else PLAIN
    is_right = True
    with tempfile.TemporaryDirectory(prefix="listeners-") as folder:
        node = Ours(Path(folder), form, "--client-output-buffer-limit", "pubsub", words.limit, "0", "0")
        node.start()
        print("core:", node.info("disque_core"))
        try:
            for name, count, pattern, reads in (
                ("nobody listens", 0, "", True),
                (f"{most} listen to job:dead:*", most, "job:dead:*", True),
                ("1 listens to job:*", 1, "job:*", True),
                ("10 listen to job:*", 10, "job:*", True),
                (f"{most} listen to job:*, all read", most, "job:*", True),
                (f"{most} listen to job:*, one reads", most, "job:*", False),
                ("nobody listens", 0, "", True),
            ):
                is_right = measure(name, node, count, pattern, reads, rate, seconds) and is_right
        finally:
            node.discard()
    if not is_right:
        sys.exit("not all that do not read were cut off, or the one that reads has missed something")


if __name__ == "__main__":
    main()
