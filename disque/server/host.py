"""The process as the core sees it: it implements `core.host.Host`, and does what only a process can do."""

import os
import platform
import signal
import sys
import time
from collections import deque
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from disque.core.model.session import WAIT_HOST, Session
from disque.server.facts import Facts, cpu_seconds

if TYPE_CHECKING:
    from disque.server.server import Server

#: Samples of which INFO's instantaneous figures are the mean, taken ten times a second.
SAMPLES: Final = 16


class Rates:
    """Operations and bytes per second, lately."""

    __slots__ = ("_last", "_samples")

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=SAMPLES)
        self._last = (0.0, 0, 0, 0)

    def sample(self, now_s: float, commands: int, net_in: int, net_out: int) -> None:
        """Take the counters as they are at ``now_s``."""
        before_s, before_commands, before_in, before_out = self._last
        self._last = (now_s, commands, net_in, net_out)
        span_s = now_s - before_s
        if before_s and span_s > 0 and commands >= before_commands:
            self._samples.append(
                ((commands - before_commands) / span_s, (net_in - before_in) / span_s, (net_out - before_out) / span_s)
            )

    def mean(self, which: int) -> float:
        """The mean of operations (0), bytes in (1) or bytes out (2) a second."""
        return sum(sample[which] for sample in self._samples) / len(self._samples) if self._samples else 0.0


class ServerHost:
    """`Host` for a running server."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.process = Facts()
        self.run_id = f"{SystemRandom().getrandbits(160):040x}"
        self.rates = Rates()

    def _server(self) -> "Server":
        assert self.server is not None
        return self.server

    def facts(self) -> dict[str, int | float | str]:
        """Everything that INFO wants to know from outside the core."""
        server = self._server()
        cpu = cpu_seconds()
        connections = list(server.pump.connections.values())
        facts: dict[str, int | float | str] = {
            "build_id": "0",
            "core": "compiled" if core_is_compiled() else "plain",
            "os": self.process.os_name,
            "arch_bits": self.process.arch_bits,
            "multiplexing_api": "uvloop",
            "compiler": platform.python_compiler(),
            "python": platform.python_version(),
            "pid": self.process.pid,
            "run_id": self.run_id,
            "tcp_port": server.port,
            "executable": self.process.executable,
            "config_file": server.config_path,
            "longest_output": max((len(one.session.out) for one in connections), default=0),
            "biggest_input": max((one.reader.unparsed_bytes for one in connections), default=0),
            "rss_bytes": self.process.rss(),
            "allocator": "pymalloc",
            "ops_per_s": int(self.rates.mean(0)),
            "input_kbps": f"{self.rates.mean(1) / 1024:.2f}",
            "output_kbps": f"{self.rates.mean(2) / 1024:.2f}",
            "cpu_user_s": cpu.user,
            "cpu_sys_s": cpu.system,
            "cpu_user_children_s": cpu.user_children,
            "cpu_sys_children_s": cpu.system_children,
        }
        facts.update({f"persist:{key}": value for key, value in server.persistence.facts().items()})
        if server.mesh is not None:
            facts.update({f"bus:{key}": value for key, value in server.mesh.facts().items()})
        return facts

    def client_facts(self, session: Session) -> dict[str, int | str]:
        """What CLIENT LIST shows of a connection beside its session."""
        connection = self._server().pump.connections.get(session.id)
        if connection is None:
            return {"fd": -1, "qbuf": 0, "qbuf_free": 0, "obl": 0, "oll": 0, "omem": 0, "events": "", "unix": 0}
        sock = connection.transport.get_extra_info("socket")
        waiting = connection.unsent_bytes()
        return {
            "fd": sock.fileno() if sock is not None else -1,
            "qbuf": connection.reader.unparsed_bytes,
            "qbuf_free": 0,
            "obl": waiting,
            "oll": len(session.out),
            "omem": connection.output_bytes(),
            "events": "rw" if waiting else "r",
            "unix": int(bool(connection.unix_path)),
        }

    def kill(self, session: Session) -> None:
        """Close a connection: at once, or behind its reply when it is the one that asks."""
        connection = self._server().pump.connections.get(session.id)
        session.closing = True
        if connection is None:
            return
        if connection.choked:
            connection.abort()
        else:
            connection.pump.loop.call_soon(connection.pump.touch, connection)

    def suspect(self, session: Session, what: str) -> None:
        """A client has done what attackers do: for the log."""
        server = self._server()
        server.suspects.add(what, session.address, server.loop.time())

    def warn(self, text: str) -> None:
        """Write a line to the log."""
        self._server().log.warning(text)

    def configure(self, name: str) -> None:
        """Act on a changed setting. Raises HostRefusedError."""
        self._server().configure(name)

    def rewrite_config(self, session: Session) -> None:
        """CONFIG REWRITE: the session is answered when the file is written. Raises HostRefusedError."""
        self._server().rewrite_config_soon(session)

    def save_cluster(self) -> None:
        """Write nodes.conf. Raises HostRefusedError."""
        server = self._server()
        server.save_nodes()
        server.persistence.id_taken()

    def shutdown(self, session: Session, *, rewrite: bool) -> None:
        """Stop cleanly after this turn of the loop; the session is answered only if that fails."""
        session.waiting = WAIT_HOST
        self._server().stop_soon(session, rewrite=rewrite)

    def rewrite_journal(self) -> bool:
        """BGREWRITEAOF."""
        return self._server().rewrite_journal()

    def reload_journal(self, session: Session) -> None:
        """DEBUG LOADAOF."""
        session.waiting = WAIT_HOST
        self._server().reload_soon(session)

    def sleep(self, seconds: float) -> None:
        """DEBUG SLEEP."""
        time.sleep(seconds)

    def restart(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        """DEBUG RESTART and CRASH-AND-RECOVER."""
        self._server().restart_soon(session, delay_ms, clean=clean)
        session.waiting = WAIT_HOST

    def crash(self, how: str) -> None:
        """DEBUG SEGFAULT, ASSERT, OOM: die with the signal that fits."""
        number = {"segfault": signal.SIGSEGV, "assert": signal.SIGABRT, "oom": signal.SIGKILL}[how]
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)

    def entropy(self, size: int) -> bytes:
        """Bytes of the system's random source."""
        return os.urandom(size)

    def wall_us(self) -> int:
        """The wall clock."""
        return time.time_ns() // 1000


def core_is_compiled() -> bool:
    """Whether the core runs as compiled modules or as plain Python."""
    module = sys.modules["disque.core.step"]
    return not str(getattr(module, "__file__", "")).endswith(".py")
