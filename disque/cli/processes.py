"""`disque-server --processes N`: N nodes of this host as one service, so that a queue can use more than one core.

This process, the service, only supervises them. Each of them is a whole node with the same configuration file and
command line. What each needs of its own is derived from its number: ports count on from the first, and files are named
after the port. Each has a directory in `dir`, named after its port. Each process reads the configuration at its start,
and none writes it: CONFIG REWRITE is refused.

All processes of a host have the same `cluster-zone`, that of the host unless the settings give another. So copies of a
job go to other hosts where there are some. They find each other by `cluster-seeds`, to which all of them are added.

A process that ends is started again, for whatever reason it ended: at once if it had lived for a while, otherwise after
a pause that doubles. If one cannot start the first time, the service ends, as a single server would. SIGTERM and SIGINT
stop all cleanly, one after the other. SIGHUP is passed on. If the service is killed, the processes notice that their
standard input ends, and stop cleanly.
"""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from cluster.bus import loopback
from cluster.member import ZONE
from disque.cli import children
from disque.cli.children import Child, how_it_ended
from disque.core.config.seeds import parse_seed
from disque.core.config.settings import Config
from disque.server.log import Log
from disque.server.mesh import bus_port_of, client_port_of

#: Which of the nodes a process runs, counted from 0: set for it by the service.
VARIABLE: Final = "DISQUE_PROCESS"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
PORT_MOST: Final = 65535
SEEDS_MOST: Final = 64
#: Settings that count on from process to process, where they are not 0.
IN_A_ROW: Final = (
    *("port", "tls-port", "cluster-bus-port", "cluster-announce-port", "cluster-announce-bus-port"),
)  # fmt: skip
#: Pauses before a process is started again, in seconds, and how long it must have lived to begin anew with the first.
PAUSE_LEAST_S: Final = 0.2
PAUSE_MOST_S: Final = 30.0
STEADY_S: Final = 10.0
EVERYWHERE: Final = frozenset({"*", "0.0.0.0", "127.0.0.1", "localhost"})  # noqa: S104 - it is looked for
EVERYWHERE_6: Final = frozenset({"::*", "::", "::1"})


# -- what is shared and what is not ------------------------------------------------------------------------------------


def objection(config: Config) -> str:
    """Why there cannot be so many processes with these settings, or nothing."""
    count = config.number("processes")
    if not client_port_of(config):
        return "processes need a port: each has its own, counted on from port (or tls-port)"
    rows = {name: config.number(name) for name in ("port", "tls-port") if config.number(name)}
    rows["cluster-bus-port"] = bus_port_of(config)
    for name, first in [*rows.items(), *[(name, config.number(name)) for name in IN_A_ROW]]:
        if first + count - 1 > PORT_MOST:
            last = first + count - 1
            return f"{count} processes need {name} {first} to {last}, and there is no port above {PORT_MOST}"
    firsts = sorted(rows.values())
    if any(after - before < count for before, after in pairwise(firsts)):
        shown = ", ".join(f"{name} {first} to {first + count - 1}" for name, first in rows.items())
        return f"{count} processes need as many ports each, and these overlap: {shown}"
    if Path(config.text("cluster-config-file")).name != config.text("cluster-config-file"):
        return "cluster-config-file must be a plain name: each process has its own, in its directory"
    if config.flag("aof-enqueue-jobs-once"):
        return (
            "aof-enqueue-jobs-once turns itself off in the configuration file, which processes share: it cannot be used"
        )
    return objection_to_addresses(config)


def objection_to_addresses(config: Config) -> str:
    """Why the processes would not find each other, or other hosts would not find them."""
    host = own_address(config)
    if not config.text("cluster-secret") and not loopback(host):
        return f"without a cluster-secret, nodes talk over loopback only: set one, or add 127.0.0.1 to bind ({host})"
    told = config.text("cluster-announce-ip")
    if told and not config.text("cluster-secret") and not loopback(told):
        return (
            f"without a cluster-secret, nodes talk over loopback only, and not at cluster-announce-ip ({told}): set one"
        )
    own = config.words("cluster-seeds")
    if len(own) + config.number("processes") > SEEDS_MOST:
        return f"cluster-seeds may have {SEEDS_MOST} addresses, those of the processes included"
    abroad = [seed for seed in map(parse_seed, own) if seed and not (loopback(seed.host) or seed.host == "localhost")]
    if abroad and loopback(host) and not told:
        return (
            "with cluster-seeds on other hosts, processes need cluster-announce-ip (the address of this host), or bind "
            "with that address alone: they know each other by loopback, and would tell that to other hosts"
        )
    return ""


def own_address(config: Config) -> str:
    """Where the processes of this host reach each other."""
    words = [word.removeprefix("-") for word in config.words("bind")]
    if not words or any(word in EVERYWHERE or word.startswith("127.") for word in words):
        return "127.0.0.1"
    return "::1" if EVERYWHERE_6.intersection(words) else words[0]


def seeds(config: Config) -> list[str]:
    """The addresses of all processes, as `cluster-seeds` has them. For the settings of the service, not of one."""
    host = own_address(config)
    host = f"[{host}]" if ":" in host else host
    port, bus_port = client_port_of(config), bus_port_of(config)
    return [f"{host}:{port + number}@{bus_port + number}" for number in range(config.number("processes"))]


def fit(config: Config, number: int) -> None:
    """Make the settings of the service those of one process, counted from 0."""
    config.put("cluster-seeds", (*seeds(config), *config.words("cluster-seeds")))
    if not config.text("cluster-zone"):
        config.put("cluster-zone", (host_zone(),))
    for name in IN_A_ROW:
        if config.number(name):
            config.put(name, (str(config.number(name) + number),))
    port = client_port_of(config)
    for name in ("unixsocket", "logfile"):
        if config.text(name):
            config.put(name, (f"{config.text(name)}.{port}",))
    config.put("syslog-ident", (f"{config.text('syslog-ident')[:120]}-{port}",))
    config.put("dir", (str(Path(config.text("dir") or ".").absolute() / str(port)),))
    config.put("daemonize", ("no",))
    config.put("pidfile", ("/var/run/disque.pid",))  # the default: none is written but that of the service


def host_zone() -> str:
    """A label that is the same for all processes of this host, and for no other host.

    The kernel draws a number each time it starts: containers of one host share it, copies of a disk do not. Where there
    is none, the name of the host must do.
    """
    try:
        boot_id = BOOT_ID.read_bytes().strip()
    except OSError:
        boot_id = b""
    if boot_id:
        return f"host-{hashlib.sha256(boot_id).hexdigest()[:16]}"
    name = socket.gethostname()[:64]
    return name if name and ZONE.fullmatch(name.encode()) else f"host-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


# -- in one of them ----------------------------------------------------------------------------------------------------


def number_of(environment: Mapping[str, str]) -> int:
    """Which of the nodes this process runs, or -1 if it is none of a service."""
    word = environment.get(VARIABLE, "")
    return int(word) if word.isdigit() else -1


def become(config: Config, number: int) -> None:
    """Let this process run that node: its settings, its directory. Raises OSError."""
    fit(config, number)
    Path(config.text("dir")).mkdir(parents=True, exist_ok=True)
    threading.Thread(target=end_with_service, daemon=True).start()


def end_with_service() -> None:
    """Stop cleanly when the service is gone: it holds the other end of standard input, and never writes there."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


# -- the service -------------------------------------------------------------------------------------------------------


def pause_s(failures: int) -> float:
    """How long to wait before a process is started again that has ended so many times soon after its start."""
    return min(PAUSE_LEAST_S * (1 << min(failures, 20)), PAUSE_MOST_S)


class Service:
    """All processes, from their start to their end."""

    def __init__(self, ports: Sequence[int], command: Sequence[str], log: Log, started_in: str) -> None:
        self.ports = ports
        self.log = log
        self.children: dict[int, Child] = {}
        self._command = list(command)
        self._started_in = Path(started_in)
        self._stop = asyncio.Event()
        self._failed = False
        self._interrupts = 0

    async def run(self) -> int:
        """Start the processes and look after them until they are to stop. The exit code: 0 if all stopped cleanly."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.hang_up)
        shown = f"{self.ports[0]} to {self.ports[-1]}"
        self.log.notice(f"{len(self.ports)} processes, ports {shown}, each with its directory in {Path.cwd()}")
        keepers = [asyncio.create_task(self._keep(number)) for number in range(len(self.ports))]
        await self._stop.wait()
        await children.stop_in_turn(list(self.children.values()))
        await asyncio.gather(*keepers)
        if not self._failed:
            self.log.warning("All processes have stopped, bye bye...")
        return int(self._failed)

    def stop(self, number: signal.Signals) -> None:
        """Let all processes stop; a second SIGINT kills them."""
        self.log.warning(f"Received {number.name}: the processes stop, one after the other")
        self._interrupts += number == signal.SIGINT
        self._stop.set()
        if self._interrupts > 1:
            self._failed = True
            for child in self.children.values():
                child.signal(signal.SIGKILL)

    def hang_up(self) -> None:
        """Open log files anew, as each process does."""
        self.log.reopen()
        for child in self.children.values():
            child.signal(signal.SIGHUP)

    async def _keep(self, number: int) -> None:
        """Start a process, and start it again whenever it ends."""
        port = self.ports[number]
        loop = asyncio.get_running_loop()
        starts = failures = 0
        while not self._stop.is_set():
            began_s = loop.time()
            code = await self._live(number, port)
            is_steady = loop.time() - began_s >= STEADY_S
            failures = 0 if is_steady else failures + 1
            starts += 1
            if self._stop.is_set():
                self._note_end(port, code)
            elif starts == 1 and code > 0 and not is_steady:
                self.log.warning(f"The process at port {port} cannot start (exit code {code}): all stop")
                self._failed = True
                self._stop.set()
            else:
                await self._wait(port, code, pause_s(failures - 1) if failures else 0)

    async def _live(self, number: int, port: int) -> int:
        """Run one process to its end, and show what it writes; gives its exit code."""
        environment = {**os.environ, VARIABLE: str(number)}
        pipe = asyncio.subprocess.PIPE
        try:
            child = await children.start(port, self._command, stdin=pipe, cwd=self._started_in, environment=environment)
        except OSError as error:  # no memory or processes left, most likely
            self.log.warning(f"The process at port {port} cannot be started: {error.strerror}")
            return -signal.SIGKILL
        self.children[number] = child
        if self._stop.is_set():
            child.signal(signal.SIGTERM)
        async for line in child.lines():
            relay(f"{port} | {line}\n")
        return await child.process.wait()

    def _note_end(self, port: int, code: int) -> None:
        """A process has ended because all shall. By SIGTERM itself ends one that has not begun to serve."""
        if code not in {0, -signal.SIGTERM}:
            self._failed = True
            self.log.warning(f"The process at port {port} {how_it_ended(code)}")

    async def _wait(self, port: int, code: int, delay_s: float) -> None:
        """A process has ended by itself: wait before it is started again, unless all shall stop."""
        when = f"in {delay_s:.1f} s" if delay_s else "at once"
        self.log.warning(f"The process at port {port} {how_it_ended(code)}. It is started again {when}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stop.wait()


def relay(text: str) -> None:
    """Write a line of a process to standard output; where nobody takes it, it is lost."""
    data = text.encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError):
        os.write(1, data)
