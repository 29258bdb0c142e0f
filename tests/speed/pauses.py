"""How long the server stands still for work on many jobs: `python -m tests.speed.pauses`.

Starts a server of its own on a free port of 127.0.0.1 in a temporary folder, gives it many jobs, provokes one piece of
work after the other and prints the longest turn of the loop that the server saw meanwhile (`longest_turn_usec` of INFO
stats), and the longest that a client waited which sends PING all the time.

The machine's own pauses are in these figures: run it on one that has nothing else to do, and more than once.

Not a test: nothing here passes or fails.
"""

import argparse
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

BODY = b"x" * 100
SERVE = [sys.executable, "-m", "disque.cli.serve"]
#: The same with turns measured in processor time: what the machine does beside it does not count then.
SERVE_BY_PROCESSOR = [
    sys.executable,
    "-c",
    "import sys, time; time.perf_counter = time.thread_time; from disque.cli.serve import main; sys.exit(main())",
]
OPTIONS = ["--loglevel", "warning", "--bind", "127.0.0.1"]
#: Requests that are sent at once.
PIPELINE = 500


def request(*words: bytes) -> bytes:
    """One request as it is sent."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Client:
    """A connection that sends many requests and reads what comes line by line."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.file = self.sock.makefile("rb", 1 << 20)

    def ask(self, *words: bytes) -> object:
        """Send one request; its reply."""
        self.sock.sendall(request(*words))
        return self.reply()

    def reply(self) -> object:
        """Read one reply: bytes, a number, a list, None, or the text of an error."""
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def many(self, requests: Iterator[bytes]) -> list[object]:
        """Send requests, so many at once; their replies."""
        replies: list[object] = []
        batch: list[bytes] = []
        for one in requests:
            batch.append(one)
            if len(batch) == PIPELINE:
                self.sock.sendall(b"".join(batch))
                replies += [self.reply() for _ in batch]
                batch = []
        self.sock.sendall(b"".join(batch))
        replies += [self.reply() for _ in batch]
        return replies

    def info(self) -> dict[str, str]:
        """INFO all as a mapping."""
        text = self.ask(b"INFO", b"all")
        assert isinstance(text, bytes)
        return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


def probe(port: int, longest_ms: "multiprocessing.sharedctypes.Synchronized[float]") -> None:
    """Send PING all the time, and note how long the slowest took."""
    client = Client(port)
    while True:
        started = time.perf_counter()
        if client.ask(b"PING") is None:
            return
        longest_ms.value = max(longest_ms.value, (time.perf_counter() - started) * 1000)
        time.sleep(0.0005)


class Node:
    """A server in a process of its own, watched by a probe."""

    serve = SERVE

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.port = port or free_port()
        folder.mkdir(exist_ok=True)
        words = [*Node.serve, *OPTIONS, "--port", str(self.port), "--dir", str(folder), *options]
        started = time.perf_counter()
        self.process = psutil.Popen(words, stdout=subprocess.DEVNULL)
        self.client = self.connect()
        while self.client.info()["loading"] != "0":
            time.sleep(0.01)
        self.ready_s = time.perf_counter() - started
        self.waited = multiprocessing.Value("d", 0.0)
        self.prober = multiprocessing.Process(target=probe, args=(self.port, self.waited), daemon=True)
        self.prober.start()

    def connect(self) -> Client:
        """A connection, as soon as the server listens."""
        for _ in range(500):
            try:
                return Client(self.port)
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise SystemExit("the server does not answer")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Provoke something in the block: prints the longest pause."""
        self.client.ask(b"CONFIG", b"RESETSTAT")
        time.sleep(0.05)
        self.client.ask(b"CONFIG", b"RESETSTAT")
        self.client.ask(b"LATENCY", b"RESET")
        self.waited.value = 0.0
        started = time.perf_counter()
        yield
        took_s = time.perf_counter() - started
        turn_ms = int(self.client.info().get("longest_turn_usec", 0)) / 1000
        events = self.client.ask(b"LATENCY", b"LATEST")
        assert isinstance(events, list)
        names = ", ".join(f"{name.decode()} {worst}" for name, _, _, worst in events)
        print(
            f"{title:<52} {took_s:7.2f} s   turn {turn_ms:7.1f} ms   PING {self.waited.value:7.1f} ms   {names}",
            flush=True,
        )

    def add(self, count: int, *options: bytes, queue: bytes = b"q", unique: bool = False) -> list[object]:
        """Add jobs."""
        if unique:
            return self.client.many(
                request(b"ADDJOB", queue, BODY, b"0", *options, b"UNIQUE", b"key%d" % at) for at in range(count)
            )
        one = request(b"ADDJOB", queue, BODY, b"0", *options)
        return self.client.many(one for _ in range(count))

    def fact(self, name: str) -> int:
        """A number of INFO."""
        return int(self.client.info()[name])

    def until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something."""
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            time.sleep(0.1)

    def stop(self) -> None:
        """End the process."""
        self.prober.terminate()
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    """A port that nobody listens on, low enough for its bus port."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = int(sock.getsockname()[1])
            if port < 50000:
                return port


def scans(node: Node, count: int) -> None:
    """Walks and looks over all jobs."""
    client = node.client
    with node.step("JSCAN COUNT 10000, a whole walk"):
        cursor = b"0"
        while True:
            reply = client.ask(b"JSCAN", cursor, b"COUNT", b"10000")
            assert isinstance(reply, list)
            cursor = reply[0]
            if cursor == b"0":
                break
    with node.step("JSCAN COUNT 10000 REPLY all, ten calls"):
        cursor = b"0"
        for _ in range(10):
            reply = client.ask(b"JSCAN", cursor, b"COUNT", b"10000", b"REPLY", b"all")
            assert isinstance(reply, list)
            cursor = reply[0]
    with node.step(f"QPEEK q {count}"):
        client.ask(b"QPEEK", b"q", b"%d" % count)
    with node.step("GETJOB COUNT 10000"):
        client.ask(b"GETJOB", b"COUNT", b"10000", b"FROM", b"q")
    with node.step("INFO, QSTAT, CONFIG REWRITE x 20"):
        for _ in range(20):
            client.ask(b"INFO", b"all")
            client.ask(b"QSTAT", b"q")
            client.ask(b"CONFIG", b"REWRITE")


def alone(folder: Path, count: int) -> None:
    """What one node without a journal does."""
    (folder / "c.conf").write_text("")
    node = Node(folder / "alone", "--maxmemory", "8gb", "--latency-monitor-threshold", "5")
    with node.step(f"add {count} jobs"):
        node.add(count)
    print(
        f"   used {node.fact('used_memory') / count:.0f}, RSS {node.process.memory_info().rss / count:.0f} bytes a job"
    )
    scans(node, count)
    with node.step("DEBUG FLUSHALL, and 3 s"):
        node.client.ask(b"DEBUG", b"FLUSHALL")
        time.sleep(3)
    with node.step(f"add {count // 2} that end in 8 s"):
        node.add(count // 2, b"TTL", b"8", b"RETRY", b"0", b"DELAY", b"7")
    with node.step("they end"):
        node.until(lambda: not node.fact("registered_jobs"), 30)
    start = time.time()
    with node.step("add 100000 with UNIQUE"):
        node.add(100_000, unique=True)
    with node.step("add 200000 delayed to the same seconds"):
        left = max(3, int(start + 30 - time.time()))
        node.add(200_000, b"DELAY", b"%d" % left, queue=b"d")
    with node.step("they fall due"):
        node.until(lambda: node.client.ask(b"QLEN", b"d") == 200_000, 60)
    with node.step("add 100000 at most once with UNIQUE windows"):
        node.client.many(
            request(b"ADDJOB", b"w", BODY, b"0", b"RETRY", b"0", b"UNIQUE", b"w%d" % at, b"WINDOW", b"60")
            for at in range(100_000)
        )
    with node.step("DEBUG FLUSHALL with keys, and 3 s"):
        node.client.ask(b"DEBUG", b"FLUSHALL")
        time.sleep(3)
    with node.step("50000 queues"):
        node.client.many(request(b"ADDJOB", b"q%d" % at, b"b", b"0") for at in range(50_000))
    with node.step("QSCAN COUNT 10000, a whole walk"):
        cursor = b"0"
        while True:
            reply = node.client.ask(b"QSCAN", cursor, b"COUNT", b"10000")
            assert isinstance(reply, list)
            cursor = reply[0]
            if cursor == b"0":
                break
    node.client.ask(b"DEBUG", b"FLUSHALL")
    node.stop()


def evicting(folder: Path, count: int) -> None:
    """At-most-once jobs that were delivered go when memory is short."""
    node = Node(folder / "evicting", "--maxmemory", "8gb", "--latency-monitor-threshold", "5")
    with node.step(f"add and get {count} at most once"):
        for _ in range(count // 10_000):
            node.add(10_000, b"RETRY", b"0")
            node.client.ask(b"GETJOB", b"COUNT", b"10000", b"FROM", b"q")
    with node.step("maxmemory lowered to a tenth, 5 s"):
        node.client.ask(b"CONFIG", b"SET", b"maxmemory", b"%d" % (node.fact("used_memory") // 10))
        for _ in range(50):
            node.client.ask(b"NACK", b"D-" + b"0" * 8 + b"-" + b"0" * 24 + b"-05a1")  # needs memory, so some is freed
            time.sleep(0.1)
    print(f"   evicted {node.fact('evicted_jobs')}")
    node.stop()


def journal(folder: Path, count: int) -> None:
    """What the journal adds."""
    options = ["--maxmemory", "8gb", "--appendonly", "yes", "--latency-monitor-threshold", "5"]
    options += ["--auto-aof-rewrite-percentage", "0"]
    home = folder / "journal"
    node = Node(home, *options)
    with node.step(f"everysec: add {count} jobs"):
        node.add(count)
    with node.step("BGREWRITEAOF"):
        node.client.ask(b"BGREWRITEAOF")
        node.until(lambda: not node.fact("aof_rewrite_in_progress"))
    with node.step("CONFIG SET appendonly no"):
        node.client.ask(b"CONFIG", b"SET", b"appendonly", b"no")
    with node.step("CONFIG SET appendonly yes"):
        node.client.ask(b"CONFIG", b"SET", b"appendonly", b"yes")
        node.until(lambda: not node.fact("aof_rewrite_in_progress"))
    with node.step("DEBUG FLUSHALL, and 3 s"):
        node.client.ask(b"DEBUG", b"FLUSHALL")
        time.sleep(3)
    node.add(count)
    node.process.kill()
    node.process.wait()
    node.prober.terminate()
    node = Node(home, *options)
    cpu = node.process.cpu_times()
    print(f"restart after a crash with {count} jobs: {node.ready_s:.2f} s, cpu {cpu.user + cpu.system:.2f} s")
    with node.step("idle, 2 s"):
        time.sleep(2)
    node.stop()
    node = Node(home, *options)
    cpu = node.process.cpu_times()
    print(f"restart after a clean stop with {count} jobs: {node.ready_s:.2f} s, cpu {cpu.user + cpu.system:.2f} s")
    node.stop()


def peers(folder: Path, count: int) -> None:
    """Shared jobs, and nodes that come and go."""
    options = ["--maxmemory", "8gb", "--latency-monitor-threshold", "5", "--cluster-node-timeout", "2000"]
    nodes = [Node(folder / f"peer{at}", *options) for at in range(3)]
    for other in nodes[1:]:
        nodes[0].client.ask(b"CLUSTER", b"MEET", b"127.0.0.1", b"%d" % other.port)
    nodes[0].until(lambda: all(one.fact("cluster_linked_nodes") == 2 for one in nodes), 20)
    first, last = nodes[0], nodes[2]
    one = request(b"ADDJOB", b"q", BODY, b"5000", b"REPLICATE", b"3")
    with first.step(f"add {count} with three copies"), last.step("   (as another node sees it)"):
        first.client.many(one for _ in range(count))
    port = last.port
    with first.step("a node stops; 6 s"):
        last.stop()
        time.sleep(6)
    with first.step("it is back, empty; 6 s"):
        nodes[2] = Node(folder / "peer2", *options, port=port)
        time.sleep(6)
    with first.step("get and ack 50000"), nodes[1].step("   (as another node sees it)"):
        ids: list[bytes] = []
        for _ in range(5):
            jobs = first.client.ask(b"GETJOB", b"COUNT", b"10000", b"FROM", b"q")
            assert isinstance(jobs, list)
            ids += [job[1] for job in jobs]
        first.client.many(request(b"ACKJOB", *ids[at : at + 100]) for at in range(0, len(ids), 100))
        time.sleep(3)
    with first.step("GETJOB COUNT 10000 at another node; 4 s"), nodes[1].step("   (as another node sees it)"):
        nodes[1].client.ask(b"GETJOB", b"COUNT", b"10000", b"FROM", b"q")
        time.sleep(4)
    for node in nodes:
        node.stop()


PARTS = {"alone": alone, "evicting": evicting, "journal": journal, "peers": peers}


def main() -> None:
    """Run what the words name, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[[], *PARTS])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--processor", action="store_true", help="measure turns in processor time")
    words = parser.parse_args()
    Node.serve = SERVE_BY_PROCESSOR if words.processor else SERVE
    with tempfile.TemporaryDirectory() as folder:
        for name in words.parts or PARTS:
            print(f"-- {name}", flush=True)
            PARTS[name](Path(folder), words.jobs if name != "peers" else words.jobs // 5)


if __name__ == "__main__":
    main()
