"""What a thousand listeners cost beside a load: `python -m tests.speed.listeners [--listeners 1000] [--rate 50000]`.

One node, its load (add, get, acknowledge, in pipelines) and the listeners are processes of their own. Measured are the
jobs that went through, the CPU of the node for each, what a listener that reads has heard, and how many were cut off.
"""

import argparse
import multiprocessing
import selectors
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from tests.end_to_end.node import Node, Raw, request

#: Jobs that travel together.
BATCH = 100


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
        sock = socket.create_connection(("127.0.0.1", port))
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


def measure(name: str, node: Node, count: int, pattern: str, reads: bool, rate: int, seconds: float) -> None:
    """One line of the table."""
    context = multiprocessing.get_context("spawn")
    told, end = context.Queue(), context.Event()
    ears = None
    if count:
        ears = context.Process(target=listen, args=(node.port, count, pattern, reads, told, end))
        ears.start()
        told.get()
    process = psutil.Process(node.pid)
    results = context.Queue()
    worker = context.Process(target=load, args=(node.port, rate, seconds, results))
    before, rss = process.cpu_times(), 0
    worker.start()
    while worker.is_alive():
        rss = max(rss, process.memory_info().rss)
        worker.join(0.2)
    after = process.cpu_times()
    jobs, took_s = results.get()
    cpu_s = after.user + after.system - before.user - before.system
    left = int(node.info("pubsub_clients"))
    line = f"{name:36} {jobs / took_s:7.0f} jobs/s  node {100 * cpu_s / took_s:3.0f} %"
    line += f" {1e6 * cpu_s / max(jobs, 1):6.1f} us a job"
    if ears is not None:
        time.sleep(1)
        end.set()
        heard, total, _ = told.get()
        line += f"  heard {heard} of {4 * jobs}, {total / took_s / 1e6:.0f} MB/s, {count - left} cut, {rss >> 20} MB"
        ears.join()
    print(line, flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50_000, help="jobs a second; 0: as fast as it goes")
    parser.add_argument("--seconds", type=float, default=5.0)
    words = parser.parse_args()
    most, rate, seconds = words.listeners, words.rate, words.seconds
    with tempfile.TemporaryDirectory(prefix="listeners-") as folder:
        node = Node(Path(folder)).start()
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
                measure(name, node, count, pattern, reads, rate, seconds)
        finally:
            node.discard()


if __name__ == "__main__":
    main()
