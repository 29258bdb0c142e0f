"""On what a run was made: the machine, and the versions of everything that took part. Names of hosts are left out."""

import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

from disque.cli.bench_options import processors
from tests.speed.server import Form

GIGABYTE: Final = 1e9
#: Processors that others may have on average before the figures are doubted.
BUSY: Final = 0.2
LIBRARIES: Final = ("uvloop", "hiredis", "msgpack", "redis", "psutil", "matplotlib")
#: How each program says its version.
PROGRAMS: Final = {"redis-server": "--version", "redis-benchmark": "--version", "beanstalkd": "-v"}
RIVALS: Final = ("rq", "celery", "kombu", "dramatiq", "taskiq", "taskiq-redis", "huey", "redis")


class Work:
    """Who else had the processors, from when this is made until it is asked."""

    def __init__(self) -> None:
        self._begin = self._now()

    def shares(self) -> tuple[float, float]:
        """Give what was not there for the run on average, in processors: for other programs, other virtual machines."""
        begin, now = self._begin, self._now()
        return shares(*(after - before for before, after in zip(begin, now, strict=True)))

    @staticmethod
    def _now() -> tuple[float, float, float, float]:
        """Time, and seconds of CPU: of all programs, of this one and those that it has waited for, taken by others."""
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        stolen_s = getattr(times, "steal", 0.0)
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own_s = sum(one.ru_utime + one.ru_stime for one in used)
        return time.monotonic(), sum(times[:8]) - idle_s - stolen_s, own_s, stolen_s


def shares(elapsed_s: float, busy_s: float, own_s: float, stolen_s: float) -> tuple[float, float]:
    """Give what other programs and other virtual machines had, in processors."""
    return max(0.0, busy_s - own_s) / elapsed_s, stolen_s / elapsed_s


def meanwhile(programs: float, machines: float) -> str:
    """Say it in words."""
    return f"other programs had {programs:.2f} processors on average, other virtual machines {machines:.2f}"


def doubt(programs: float, machines: float) -> str:
    """Say what that makes of the figures; nothing where it does not matter."""
    if programs + machines < BUSY:
        return ""
    return (
        f"The machine was busy: {meanwhile(programs, machines)}. Rates, latencies and times of this run say little, "
        "and ratios of them not much more; CPU and memory hold."
    )


def facts(forms: Sequence[Form], rivals: Path) -> dict[str, str]:
    """Give everything by name."""
    memory = psutil.virtual_memory().total
    found = {
        "processors": f"{processors()} x {cpu_model(read('/proc/cpuinfo')) or platform.processor() or 'unknown'}",
        "memory": f"{memory / GIGABYTE:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "system": pretty_name(read("/etc/os-release")) or "unknown",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "this server": f"{own_version()}, forms measured: {', '.join(form.name for form in forms)}",
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES if installed(name)),
    }
    found |= {name: number for name, word in PROGRAMS.items() if (number := program_version(name, word))}
    others = rival_versions(rivals / "bin" / "python")
    return found | ({"alternatives": others} if others else {})


def read(path: str) -> str:
    """Give the text of a file of the system, or nothing where there is none."""
    place = Path(path)
    return place.read_text(encoding="utf-8", errors="replace") if place.exists() else ""


def cpu_model(text: str) -> str:
    """Find the model in what /proc/cpuinfo says."""
    found = re.search(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1] if found else ""


def pretty_name(text: str) -> str:
    """Find the name of the system in what /etc/os-release says."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', text, re.MULTILINE)
    return found[1] if found else ""


def version_in(text: str) -> str:
    """Find the first number that looks like a version."""
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else ""


def program_version(name: str, word: str) -> str:
    """Ask a program for its version; nothing where it is not installed."""
    if shutil.which(name) is None:
        return ""
    done = subprocess.run([name, word], capture_output=True, text=True, check=False)
    return version_in(done.stdout + done.stderr)


def installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def own_version() -> str:
    return version("disque-server") if installed("disque-server") else "from the sources"


def rival_versions(python: Path) -> str:
    """Ask an environment for the versions of what is compared, where there is one."""
    if not python.exists():
        return ""
    script = (
        "from importlib.metadata import distributions as d; "
        f"print(', '.join(sorted(x.name + ' ' + x.version for x in d() if x.name.lower() in {RIVALS!r})))"
    )
    done = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def core_of(form: Form, folder: Path) -> str:
    """Say in which form an interpreter has this server installed: `compiled`, `plain`, or nothing if it has not."""
    words = [*form.words, "-m", "disque.cli.serve", "--version"]
    done = subprocess.run(words, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False)
    found = re.search(r"\b(compiled|plain)\b", done.stdout)
    return found[1] if found else ""
