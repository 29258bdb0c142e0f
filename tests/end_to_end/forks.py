"""Servers that begin as copies of a process which has imported all of it: most of what a start costs are its imports.

`start` does what `subprocess.Popen` does with `python -m disque.cli.serve ...`, and gives what tests need of a Popen.
The copy is made by a process of its own (this module, as a program), which has no threads and no files of the tests.
The copy is handed over to the process of the tests as orphans are to a subreaper, so that this hears how it ended.
"""

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of Linux
#: How the command of a server begins.
SERVE: Final = (sys.executable, "-m", "disque.cli.serve")
POLL_S: Final = 0.002
REQUEST_MOST: Final = 1 << 20
#: The copy may begin: whom it makes an orphan, as `daemonize` does, is not handed over.
GO: Final = b"go"


class Forked:
    """A process that was copied, as a Popen."""

    def __init__(self, pid: int, args: list[str]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Nursery:
    """The process that is copied, as the process of the tests sees it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.prctl = ctypes.CDLL(None).prctl
        self._turn = threading.Lock()
        self._link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            words = [sys.executable, "-m", "tests.end_to_end.forks"]
            self._process = subprocess.Popen(words, stdin=other.fileno(), stdout=subprocess.DEVNULL, cwd=ROOT)
        atexit.register(self.close)

    def start(self, words: list[str], cwd: Path, environment: Mapping[str, str], output: int) -> Forked:
        """Begin the server of this command line; what it prints goes to the file descriptor ``output``."""
        request = json.dumps([words, str(cwd), dict(environment)]).encode()
        assert len(request) < REQUEST_MOST
        with self._turn:
            self.prctl(SUBREAPER, 1, 0, 0, 0)  # for this moment: other orphans go where they always do
            socket.send_fds(self._link, [request], [output])
            pid = int(self._link.recv(32))
            self.prctl(SUBREAPER, 0, 0, 0, 0)
            self._link.send(GO)
        return Forked(pid, words)

    def close(self) -> None:
        if os.getpid() == self.owner:
            self._link.close()
            self._process.wait()


@cache
def nursery_of(owner: int) -> Nursery:
    """The nursery of the process ``owner``, which asks: one that was forked needs its own."""
    assert owner == os.getpid()
    return Nursery()


def can_start(words: list[str]) -> bool:
    """Whether the process of this command line can be a copy: a server, under pytest. What is measured is not."""
    is_server = tuple(words[: len(SERVE)]) == SERVE
    return is_server and "PYTEST_VERSION" in os.environ and sys.platform.startswith("linux")


def start(words: list[str], cwd: Path, environment: Mapping[str, str], output: int) -> Forked:
    """Begin the server of this command line, as `Nursery.start` does."""
    return nursery_of(os.getpid()).start(words, cwd, environment, output)


# -- the process that is copied ----------------------------------------------------------------------------------------


def serve_copies(link: socket.socket) -> list[str] | None:
    """Make copies until nobody wants any more. In a copy: its command line."""
    while True:
        request, files, *_ = socket.recv_fds(link, REQUEST_MOST, 1)
        if not request:
            return None
        words, cwd, environment = json.loads(request)
        told, tell = os.pipe()
        held, release = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                os.write(tell, b"%d" % pid)
                os._exit(0)  # the copy is an orphan now
            os.close(release)
            os.read(held, 1)  # until nobody has the other end
            become(words, cwd, environment, files[0])
            for file in (files[0], told, tell, held):
                os.close(file)
            link.close()
            return list(words)
        os.waitpid(between, 0)
        link.send(os.read(told, 32))
        link.recv(len(GO))
        for file in (files[0], told, tell, held, release):
            os.close(file)


def become(words: list[str], cwd: str, environment: dict[str, str], output: int) -> None:
    """Be as a process that has just been started."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.orig_argv = words
    sys.argv = words[len(SERVE) - 1 :]


if __name__ == "__main__":
    from disque.cli import serve

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests decide when it ends
    given = serve_copies(socket.socket(fileno=os.dup(0)))
    sys.exit(0 if given is None else serve.main(given[len(SERVE) :]))
