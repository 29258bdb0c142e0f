"""Several nodes on this machine, in one terminal: what `make run` starts.

Each node is a process with a directory of its own, as it would be on a machine of its own. All get the same list of
seeds, so they find each other. Their logs come out here, each line with the port of its node in front. A node that ends
is reported and not started again, so that you can kill one and see what happens without it.

Ctrl-C, SIGTERM and SIGHUP stop the nodes cleanly, one after the other. So each can hand its jobs to those that are
still up, and the last one knows best what is queued. The nodes are in sessions of their own: signals of the terminal
reach them only through this program. A second signal kills them.

Beside them runs a gateway, where its libraries are installed: one more process, which serves them over HTTP.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import hiredis

from disque.cli import children
from disque.cli.children import Child, how_it_ended

LOOPBACK: Final = "127.0.0.1"
NODES_MOST: Final = 9
PORT_MOST: Final = 65535
BUS_DISTANCE: Final = 10_000
GATEWAY_PORT: Final = 7780
#: What only the gateway needs, and is missing where it cannot run.
GATEWAY_NEEDS: Final = ("starlette", "uvicorn", "prometheus_client", "cryptography")
#: Between two looks at whether the nodes have found each other, in seconds.
LOOK_EVERY_S: Final = 0.2
#: How long a node has to answer such a look.
ANSWER_S: Final = 2.0
#: After so many looks in vain, people are told how to find out more.
LOOKS: Final = 50
#: The exit code when nodes ended as they should not.
FAILED: Final = 2
#: What is said of the form of the core, plain and compiled.
FORMS: Final = (
    "The core runs as plain Python. `make run COMPILED=yes` compiles it first, for about twice the speed.",
    "The core runs compiled.",
)
COLOURS: Final = ("36", "33", "35", "32", "34", "31")

Say = Callable[[str], None]


class Plan(NamedTuple):
    """What is to be run: nodes at these ports, with their directories in `data` and these further options.

    `gateway` is the port of a gateway; 0: there is none.
    """

    ports: tuple[int, ...]
    data: Path
    options: tuple[str, ...] = ()
    gateway: int = 0

    def command(self, port: int) -> list[str]:
        """Give the words that start the node at `port`."""
        words = [sys.executable, "-m", "disque.cli.serve", "--bind", LOOPBACK, "--port", str(port)]
        words += ["--dir", str(self.data / str(port)), "--appendonly", "yes", "--appendfsync", "everysec"]
        if len(self.ports) > 1:
            words += ["--default-replicate", "2", "--cluster-seeds", *[f"{LOOPBACK}:{each}" for each in self.ports]]
        return [*words, *self.options]

    def gateway_command(self) -> list[str]:
        """Give the words that start the gateway. Its admin port is the next one."""
        nodes = ",".join(f"{LOOPBACK}:{port}" for port in self.ports)
        words = [sys.executable, "-m", "disque.gateway.main", "--nodes", nodes]
        words += ["--listen", f"{LOOPBACK}:{self.gateway}", "--admin-listen", f"{LOOPBACK}:{self.gateway + 1}"]
        return [*words, "--tokens-file", str(self.data / "tokens.json")]


def parse(argv: Sequence[str]) -> Plan:
    """Read the command line. Raises SystemExit with a message for what is none."""
    parser = argparse.ArgumentParser("disque.cli.local", description="Run some nodes on this machine, in one terminal.")
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help=f"how many, 1 to {NODES_MOST} (default: 3)")
    parser.add_argument("--port", type=int, default=7711, help="port of the first, the others count on (default: 7711)")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where their directories are (default: ./data)")
    parser.add_argument("--gateway", type=int, default=GATEWAY_PORT, metavar="PORT", help="of HTTP; 0: none (7780)")
    parser.add_argument("options", nargs="*", metavar="-- --option value", help="options of disque-server for each")
    words = parser.parse_args(argv)
    if not 1 <= words.nodes <= NODES_MOST:
        parser.error(f"--nodes must be from 1 to {NODES_MOST}, not {words.nodes}")
    if not 1 <= words.port <= PORT_MOST - BUS_DISTANCE - words.nodes + 1:
        parser.error(f"--port {words.port}: each node needs its port and, for the other nodes, port + {BUS_DISTANCE}")
    if not 0 <= words.gateway < PORT_MOST:
        parser.error(f"--gateway {words.gateway}: it needs its port and the next one")
    ports = tuple(range(words.port, words.port + words.nodes))
    return Plan(ports, words.data.resolve(), tuple(words.options), words.gateway)


def why_no_gateway(plan: Plan) -> str:
    """Tell why there will be no gateway; nothing if there will be one, or if nobody wants one."""
    missing = [name for name in GATEWAY_NEEDS if importlib.util.find_spec(name) is None]
    if plan.gateway and missing:
        return f"No gateway: it needs {', '.join(missing)}. pip install 'disque-server[gateway]' brings them."
    used = [port for port in (plan.gateway, plan.gateway + 1) if plan.gateway and not is_free(port)]
    if used:
        return f"No gateway: port {used[0]} is in use. make run GATEWAY={plan.gateway + 10} takes others."
    return ""


def taken(ports: Sequence[int]) -> list[int]:
    """Which of the ports that nodes at `ports` need, those of the bus included, somebody else uses."""
    return [port for first in ports for port in (first, first + BUS_DISTANCE) if not is_free(port)]


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def shown(path: Path) -> str:
    """Give a path as people would type it here."""
    with contextlib.suppress(ValueError):
        return f"./{path.relative_to(Path.cwd())}"
    return str(path)


def guide(plan: Plan, pids: Sequence[int]) -> str:
    """Tell how to talk to the nodes."""
    first, last = plan.ports[0], plan.ports[-1]
    many = len(plan.ports) > 1
    lines = [
        (f"redis-cli -p {first} ADDJOB myqueue hello 1000", "answered when 2 nodes have it" if many else ""),
        (f"redis-cli -p {last} GETJOB FROM myqueue", "any node will do" if many else ""),
        (f"redis-cli -p {first} ACKJOB <the ID that both have shown>", ""),
        (f"redis-cli -p {first} CLUSTER NODES", ""),
        (f"{shown(Path(sys.executable).parent)}/disque -p {first}", "a shell that knows every command"),
        (f"kill -9 {pids[-1]}", f"the node at {last}: nothing is lost" if many else ""),
    ]
    if plan.gateway:
        page = f"http://{LOOPBACK}:{plan.gateway}"
        lines.insert(4, (page, "the gateway: dashboard, REST and lmstfy's API, /metrics"))
    width = max(len(command) for command, why in lines if why)
    rows = [f"    {command:<{width}}  {f'({why})' if why else ''}".rstrip() for command, why in lines]
    where = f"Journals are in {shown(plan.data)}. Ctrl-C stops. From another terminal:"
    return "\n".join([FORMS[is_compiled()], where, *rows])


def is_compiled() -> bool:
    """Whether the nodes run the compiled core. Nothing of it is imported here."""
    found = importlib.util.find_spec("disque.core.step")
    return found is not None and not str(found.origin).endswith(".py")


def have_met(infos: Sequence[dict[str, str]]) -> bool:
    """Whether each node reaches all others, by what their CLUSTER INFO says."""
    return all(int(info.get("cluster_reachable_nodes", "0")) >= len(infos) - 1 for info in infos)


class NeedsPasswordError(Exception):
    """The nodes tell nothing to those who have not given a password."""


async def cluster_info(port: int) -> dict[str, str]:
    """Ask a node for CLUSTER INFO. Raises OSError while it gives no answer, and NeedsPasswordError."""
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        try:
            writer.write(b"CLUSTER INFO\r\n")
            replies = hiredis.Reader()
            while (reply := replies.gets()) is False:
                if not (data := await reader.read(4096)):
                    raise ConnectionResetError
                replies.feed(data)
        finally:
            writer.close()
    if isinstance(reply, hiredis.ReplyError):
        if str(reply).startswith("NOAUTH"):
            raise NeedsPasswordError
        raise ConnectionRefusedError(str(reply))  # LOADING, most likely
    return dict(line.split(":", 1) for line in bytes(reply).decode().split())


class Terminal:
    """What people see. `gone` is called when nobody can see anything any more."""

    def __init__(self, ports: Sequence[int], *, colours: bool, gone: Callable[[], None]) -> None:
        self._prefixes = {port: f"{port} | " for port in ports}
        if colours:
            pairs = zip(ports, COLOURS * 2, strict=False)
            self._prefixes = {port: f"\x1b[{colour}m{port} |\x1b[0m " for port, colour in pairs}
        self._gone = gone

    def say(self, text: str) -> None:
        """Write what this program itself has to say."""
        self._write(text)

    def relay(self, port: int, line: str) -> None:
        """Write a line of the log of a node."""
        self._write(self._prefixes[port] + line)

    def _write(self, text: str) -> None:
        try:
            print(text, flush=True)
        except OSError:
            self._gone()


class Crew:
    """All nodes, from their start to their end."""

    def __init__(self, plan: Plan, *, colours: bool = False) -> None:
        self.plan = plan
        self.children: list[Child] = []
        self.gateway: Child | None = None
        ports = [*plan.ports, *[plan.gateway] * bool(plan.gateway)]
        self.terminal = Terminal(ports, colours=colours, gone=self.stop)
        self._stop = asyncio.Event()
        self._signals = 0
        #: Ports of nodes that ended before anybody wanted that.
        self._lost: list[int] = []

    def stop(self) -> None:
        """Let the nodes stop; called again, kill them."""
        self._signals += 1
        self._stop.set()
        if self._signals > 1:
            for child in self._all():
                child.signal(signal.SIGKILL)

    def _all(self) -> list[Child]:
        return [*self.children, *([self.gateway] if self.gateway is not None else [])]

    async def run(self) -> int:
        """Start the nodes and stay until they have ended. The exit code: see `_report`."""
        for port in self.plan.ports:
            self.children.append(await self._start(port))
        relays = [asyncio.create_task(self._relay(child)) for child in self.children]
        if self.plan.gateway:
            command = self.plan.gateway_command()
            self.gateway = await children.start(self.plan.gateway, command, own_session=True)
            beside = asyncio.create_task(self._relay_gateway(self.gateway))
        watch = asyncio.create_task(self._watch())
        told = asyncio.create_task(self._stop.wait())
        everybody = asyncio.gather(*relays)
        ends: list[asyncio.Future[Any]] = [told, everybody]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        watch.cancel()
        if self._stop.is_set():
            await self._stop_all()
        told.cancel()
        await everybody
        if self.gateway is not None:
            await children.stop_in_turn([self.gateway])
            await beside
        return self._report()

    async def _relay_gateway(self, child: Child) -> None:
        """Show the log of the gateway until it ends. Nodes go on without it."""
        async for line in child.lines():
            self.terminal.relay(child.port, line)
        code = await child.process.wait()
        if not self._stop.is_set() and any(node.alive for node in self.children):
            self.terminal.say(f"*** The gateway {how_it_ended(code)}. The nodes go on.")

    async def _start(self, port: int) -> Child:
        directory = self.plan.data / str(port)
        directory.mkdir(parents=True, exist_ok=True)
        return await children.start(port, self.plan.command(port), own_session=True)

    async def _relay(self, child: Child) -> None:
        """Show the log of a node until it ends, and how it ends."""
        async for line in child.lines():
            self.terminal.relay(child.port, line)
        code = await child.process.wait()
        if not self._stop.is_set():
            self._lost.append(child.port)
            self._tell_of_end(child, code)

    def _tell_of_end(self, child: Child, code: int) -> None:
        self.terminal.say(f"*** The node at {child.port} {how_it_ended(code)}.")
        if any(other.alive for other in self.children):
            again = shlex.join(child.command)
            self.terminal.say(
                "*** The others go on. This program does not start it again. You can do so in another terminal. There "
                f"you then see its log, and Ctrl-C stops it.\n    {again}"
            )

    async def _watch(self) -> None:
        """Tell how to talk to the nodes as soon as they have found each other."""
        met = await self._meeting()
        alive = [child for child in self.children if child.alive]
        if len(alive) < len(self.children):
            return  # which has been told, and is what matters
        if not met:
            self.terminal.say("*** The nodes run, but have not found each other yet: ask them for CLUSTER NODES.")
        elif len(alive) > 1:
            self.terminal.say(f"*** {len(alive)} nodes run and have found each other.")
        self.terminal.say(guide(self.plan, [child.process.pid for child in alive]))

    async def _meeting(self) -> bool:
        """Wait until the nodes have found each other; False when that takes long, or a node has ended."""
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_EVERY_S)
            if not all(child.alive for child in self.children):
                return False
            try:
                infos = [await cluster_info(port) for port in self.plan.ports]
            except OSError:  # TimeoutError is one
                continue
            except NeedsPasswordError:
                return True
            if have_met(infos):
                return True
        return False

    async def _stop_all(self) -> None:
        self.terminal.say("*** Stopping the nodes, one after the other. Ctrl-C again kills them.")
        if self.gateway is not None:
            await children.stop_in_turn([self.gateway])
        await children.stop_in_turn(self.children)

    def _report(self) -> int:
        """Say how it ended, and give the exit code.

        0 when the user stopped it and all nodes that ran then stopped cleanly: of those that ended before, people
        know, and mostly did it themselves. FAILED when a node did not stop cleanly, or none was left to be stopped.
        """
        ends = {child.port: how_it_ended(child.process.returncode or 0) for child in self.children}
        if not self._stop.is_set():
            return FAILED if any(child.process.returncode for child in self.children) else 0
        failed = [child.port for child in self.children if child.process.returncode and child.port not in self._lost]
        notes = [f"*** The node at {port} {ends[port]}, before the others were stopped." for port in self._lost]
        notes += [f"*** The node at {port} {ends[port]}." for port in failed]
        if not failed:
            whom = "All other nodes have" if self._lost else "All nodes have" if len(ends) > 1 else "The node has"
            notes.append(f"*** {whom} stopped cleanly. The jobs are in {shown(self.plan.data)}, for the next time.")
        self.terminal.say("\n".join(notes))
        return FAILED if failed else 0


async def run(plan: Plan, *, colours: bool) -> int:
    """Run the nodes of a plan until they are stopped; gives the exit code."""
    crew = Crew(plan, colours=colours)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, crew.stop)
    return await crew.run()


def main(argv: Sequence[str] | None = None, start: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run) -> int:
    """Run some nodes; gives the exit code."""
    plan = parse(sys.argv[1:] if argv is None else argv)
    used = taken(plan.ports)
    if used:
        names = f"{'port' if len(used) == 1 else 'ports'} {', '.join(map(str, used))}"
        hint = f"make run PORT={plan.ports[-1] + 1} takes others, with directories of their own."
        print(f"Not started: {names} in use. Do these nodes run in another terminal? {hint}", file=sys.stderr)
        return 1
    reason = why_no_gateway(plan)
    if reason:
        print(reason, file=sys.stderr)
        plan = plan._replace(gateway=0)
    return start(run(plan, colours=sys.stdout.isatty() and "NO_COLOR" not in os.environ))


if __name__ == "__main__":
    sys.exit(main())
