"""What only the operating system knows: memory, processor time, names, and the clock of the node.

Linux answers through /proc and `getrusage`. Elsewhere (macOS) only `getrusage` is used. The memory in use is then given
as the largest so far, because no cheap call gives more. Each answer costs microseconds, since INFO may be called often.

The clock of a node never jumps and never goes back, even if the clock of the machine is changed: delays, retries and
the order of jobs depend on it. It starts at the wall clock and goes on with monotonic time. On its own it would drift
from the wall clock by some milliseconds an hour. So `slew()`, which the server calls regularly, moves it towards the
wall clock by at most 0.5 ms for each second that has passed. If the clock of a machine is set by an hour while the node
runs, the node stays an hour off until its next start. That does no harm, since only durations travel between nodes.
Time in which the machine sleeps does not count: monotonic time stands still then. Only while the journal is read may
the clock begin anew, earlier: nothing hangs on it yet (see `start_time`).
"""

import os
import platform
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

NS_PER_MS: Final = 1_000_000
SLEW_DIVISOR: Final = 2000  # 0.5 ms a second
SLEW_STEP_MAX_NS: Final = 500_000  # what one call may add after a long pause: a slew is never seen as a jump
RUSAGE_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes on macOS, kilobytes elsewhere


class NodeClock:
    """Node time in milliseconds since 1970: from max(wall clock, `start_ms`) on, never back, never in jumps.

    Pass as `start_ms` the last time that the journal knows, so that time does not go back over a restart either.
    `wall_ns` and `monotonic_ns` are the clocks of the machine, in nanoseconds.
    """

    __slots__ = ("_floor_ms", "_monotonic_ns", "_offset_ns", "_slewed_ns", "_wall_ns")

    def __init__(
        self,
        start_ms: int = 0,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self.begin(start_ms)

    def now_ms(self) -> int:
        """Give the time of the node, in milliseconds since 1970."""
        now_ms = (self._monotonic_ns() + self._offset_ns) // NS_PER_MS
        return now_ms if now_ms > self._floor_ms else self._floor_ms  # noqa: FURB136 - max() takes half as long again

    def wall_ms(self) -> int:
        """Give the time of the wall clock, in milliseconds since 1970."""
        return self._wall_ns() // NS_PER_MS

    def begin(self, start_ms: int = 0) -> None:
        """Begin at the wall clock, or at `start_ms` if that is later. Anew only while nothing hangs on the time."""
        self._slewed_ns = self._monotonic_ns()
        start_ns = max(self._wall_ns(), start_ms * NS_PER_MS)
        self._offset_ns = start_ns - self._slewed_ns
        self._floor_ms = start_ns // NS_PER_MS

    def advance(self, time_ms: int) -> None:
        """Go on from `time_ms` if it is later than now: what was promised before a restart is not in the future."""
        ahead_ns = time_ms * NS_PER_MS - (self._monotonic_ns() + self._offset_ns)
        if ahead_ns > 0:
            self._offset_ns += ahead_ns

    def slew(self) -> None:
        """Move the clock towards the wall clock, by at most 0.5 ms a second since the last call and 0.5 ms in all.

        What was told before a move back is told again until time has caught up: nobody sees time go back.
        """
        monotonic_ns = self._monotonic_ns()
        step_ns = min((monotonic_ns - self._slewed_ns) // SLEW_DIVISOR, SLEW_STEP_MAX_NS)
        now_ns = monotonic_ns + self._offset_ns
        self._floor_ms = max(self._floor_ms, now_ns // NS_PER_MS)
        self._offset_ns += max(-step_ns, min(step_ns, self._wall_ns() - now_ns))
        self._slewed_ns = monotonic_ns


class CpuSeconds(NamedTuple):
    """Processor time in seconds: of this process, and of its children that have ended."""

    user: float
    system: float
    user_children: float
    system_children: float


def cpu_seconds() -> CpuSeconds:
    """Give the processor time used so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuSeconds(own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Facts:
    """Facts of this process and its machine. Make it after daemonize(): `pid` is read once.

    `proc` is where Linux tells what it knows of processes.
    """

    __slots__ = ("_statm", "_status", "arch_bits", "boot_id", "executable", "os_name", "page_size", "pid")

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._statm = proc / "self" / "statm"
        self._status = proc / "self" / "status"
        self.pid = os.getpid()
        self.page_size = resource.getpagesize()
        self.arch_bits = 8 * struct.calcsize("P")
        self.os_name = f"{platform.system()} {platform.release()} {platform.machine()}"
        self.executable = sys.executable
        self.boot_id = _read(proc / "sys" / "kernel" / "random" / "boot_id").decode("ascii", "replace").strip()
        """Another one means that the machine has started anew since; "" where the system has none."""

    def rss(self) -> int:
        """Give the memory in use (resident set), in bytes; the largest so far where the system does not tell."""
        pages = _read(self._statm).split()
        return int(pages[1]) * self.page_size if len(pages) > 1 else self.peak_rss()

    def peak_rss(self) -> int:
        """Give the largest memory in use so far, in bytes."""
        _, found, rest = _read(self._status).partition(b"VmHWM:")
        if found:
            return int(rest.split(None, 1)[0]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT
