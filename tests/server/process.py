"""A node with a journal in a folder, without sockets: started, killed and stopped by hand; time goes on by hand."""

import asyncio
from pathlib import Path
from time import monotonic
from typing import cast

from disque.core import step
from disque.core.host import Host
from disque.core.jobs import sessions
from disque.server.facts import NodeClock
from disque.server.log import Log
from disque.server.persistence import Persistence
from disque.server.pump import Pump
from tests.support.nodes import START_MS, make_node

NAME = "disque.aof"


class Machine:
    """What outlives a process: the files, the clock, the boot ID; and the loop, which is turned by hand."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.folder = folder
        self.loop = loop
        self.now_ms = START_MS
        #: By how much the wall clock is wrong; and whether its processes load by hand, and wait as `now_ms` says.
        self.wall_off_ms = 0
        self.by_hand = False
        self.boot = "boot 1"
        self.starts = 0

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"{NAME}.*"))

    @property
    def newest(self) -> Path:
        return self.folder / self.files[-1]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob(f"{NAME}.*"))

    def start(self, **options: str) -> "Process":
        self.starts += 1
        return Process(self, options)


class Lines:
    """A log that only remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, text: str) -> None:
        self.lines.append(text)

    warning = verbose = debug = notice


class Process:
    """A node with pump and journal, and one client that is always answered at once."""

    def __init__(self, machine: Machine, options: dict[str, str]) -> None:
        self.machine = machine
        self.log = Lines()
        self.node = make_node(machine.now_ms, seed=machine.starts)
        self.entropy = self.node.host.entropy
        self.node.host = cast(Host, self)
        passes_by = options.pop("passes_by", "") == "yes"  # as a start does with appendonly no
        wanted = {"appendonly": "yes", "dir": str(machine.folder), "aof-segment-size": "64kb"}
        for name, value in (wanted | {name.replace("_", "-"): value for name, value in options.items()}).items():
            self.node.config.put(name, (value,))
        self.node.apply_settings()
        clock = NodeClock(0, self.wall_ns, self.monotonic_ns)
        self.pump = Pump(self.node, clock, cast(Log, self.log), machine.loop)
        seconds = self.seconds if machine.by_hand else monotonic
        self.persistence = Persistence(self.pump, machine.boot, lambda: 7, seconds)
        self.loads = self.persistence.pass_by() if passes_by else self.persistence.load(at_start=True)
        if not machine.by_hand:
            self.get_ready()

    def wall_ns(self) -> int:
        return (self.machine.now_ms + self.machine.wall_off_ms) * 10**6

    def monotonic_ns(self) -> int:
        return self.machine.now_ms * 10**6

    def seconds(self) -> float:
        return self.machine.now_ms / 1000

    def load_for(self, most_ms: int) -> int:
        """Load for so long at most, or to the end. Gives how long it waited."""
        begun_ms = self.machine.now_ms
        for pause_s in self.loads:
            self.machine.now_ms += round(pause_s * 1000)
            if self.machine.now_ms - begun_ms >= most_ms:
                break
        return self.machine.now_ms - begun_ms

    def get_ready(self) -> None:
        for _ in self.loads:
            pass
        self.client = sessions.connect(self.node, 1, b"", b"", self.machine.now_ms)
        self.turn()

    def configure(self, name: str) -> None:
        """What the host does about settings that concern the journal."""
        if name == "appendonly":
            on = self.node.config.flag("appendonly")
            self.persistence.switch_on() if on else self.persistence.switch_off()
        elif name == "appendfsync":
            self.persistence.policy_changed()

    def save_cluster(self) -> None:
        """What the host does about the journal when the node was reset."""
        self.persistence.id_taken()

    def turn(self, times: int = 1) -> None:
        """Turns of the loop: all that is ready, and all that runs beside it, happens."""
        for _ in range(times):
            if self.persistence.background is not None:
                self.persistence.background.wait()
            self.machine.loop.call_soon(self.machine.loop.stop)
            self.machine.loop.run_forever()

    def say(self, *words: bytes) -> bytes:
        """One request and its reply, after the flush that covers it."""
        step.command(self.node, self.client, list(words), self.machine.now_ms)
        self.pump.flush()
        reply = b"".join(self.client.out)
        self.client.out.clear()
        self.client.handed.clear()
        return reply

    def add(self, body: bytes = b"body", *options: bytes) -> bytes:
        reply = self.say(b"ADDJOB", b"q", body, b"0", *options)
        assert reply.startswith(b"+D-"), reply
        return reply[1:-2]

    def get(self, count: int = 1) -> bytes:
        return self.say(b"GETJOB", b"NOHANG", b"COUNT", b"%d" % count, b"FROM", b"q")

    def queued(self) -> list[bytes]:
        queue = self.node.queues.get(b"q")
        return [job.id for job in queue.jobs()] if queue is not None else []

    def known(self) -> set[bytes]:
        return {job_id for shard in self.node.shards for job_id in shard}

    def cron(self, times: int = 1) -> None:
        for _ in range(times):
            self.persistence.cron()
            self.turn(3)

    def kill(self) -> None:
        """The process is gone: nothing more is written, nothing is said."""
        if self.persistence.journal is not None:
            self.persistence.journal.abandon()
        self.end()

    def stop(self) -> None:
        assert not self.persistence.stop()
        self.end()

    def end(self) -> None:
        if self.persistence.background is not None:
            self.persistence.background.close()
        self.persistence.copying = None
