"""Several processes of one worker, and the one that is started anew when its code changes.

The supervisor imports nothing of the app. It starts each process, passes signals on, starts again what died by itself
(not what ended with exit code 0 or could never begin), and ends when all of them have ended.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

LOG: Final = logging.getLogger("disque.tasks")

#: How often it looks at its processes, and at files.
LOOK_S: Final = 0.1
FILES_S: Final = 1.0
#: A process that ended by itself sooner than this after its start could never begin. One that was killed could.
AT_ONCE_S: Final = 3.0
#: The exit code of one that says so itself, however long it took: its app is not there, or its password is wrong.
NOT_BEGUN: Final = 78  # EX_CONFIG
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT)
#: So long a process may take until it hears signals.
LISTENS_S: Final = 60.0
#: In the environment of a process: who its supervisor is. It stops when that is gone.
PARENT: Final = "DISQUE_WORKER_SUPERVISOR"
#: And whether it is to take no jobs until SIGCONT: others were told so before it was there.
QUIET: Final = "DISQUE_WORKER_QUIET"
#: Folders whose files are not looked at.
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Place:
    """One of the processes."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.since_s = 0.0
        #: It was told to be quiet at its start. A SIGCONT that comes before it listens is lost, so it is said again.
        self.quiet = False

    def start(self, *, quiet: bool = False) -> None:
        """Begin it; ``quiet``: it is to take no jobs for now."""
        self.since_s = time.monotonic()
        self.quiet = quiet
        environment = {**os.environ, PARENT: str(os.getpid()), QUIET: "yes" if quiet else ""}
        # A group of its own: what the terminal says is passed on, once.
        self.process = subprocess.Popen(self.command, env=environment, process_group=0)  # noqa: S603 - this very command

    def could_not_begin(self, code: int) -> bool:
        """Whether it is in vain to start it again after it has ended so."""
        return code == NOT_BEGUN or (code > 0 and time.monotonic() - self.since_s < AT_ONCE_S)

    def signal(self, number: int) -> None:
        """Tell it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps ``count`` processes of `disque worker` with these words."""

    def __init__(self, words: Sequence[str], count: int, *, reload: bool, health: int | None) -> None:
        self.reload = reload
        self.places = [Place(command(words, health + at if health else health)) for at in range(count)]  # 0: any
        self._is_stopping = False
        self._is_quiet = False
        self._exit_code = 0

    def run(self) -> int:
        """Serve until all have ended: the exit code."""
        for number in PASSED_ON:
            signal.signal(number, self._signalled)
        for place in self.places:
            place.start()
        files = snapshot(Path.cwd()) if self.reload else {}
        looked_s = time.monotonic()
        while any(place.process is not None for place in self.places):
            time.sleep(LOOK_S)
            self._look()
            if self.reload and time.monotonic() - looked_s >= FILES_S:
                looked_s = time.monotonic()
                files = self._changed(files)
        return self._exit_code

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number in {signal.SIGTERM, signal.SIGINT}:
            self._is_stopping = True
            number = signal.SIGTERM
        else:
            self._is_quiet = number == signal.SIGTSTP
        for place in self.places:
            place.signal(number)

    def _look(self) -> None:
        """See who has ended."""
        for place in self.places:
            if place.quiet and not self._is_quiet:
                place.signal(signal.SIGCONT)
                place.quiet = time.monotonic() - place.since_s < LISTENS_S
            code = None if place.process is None else place.process.poll()
            if code is None:
                continue
            if self._is_stopping or code == 0:
                place.process = None
            elif place.could_not_begin(code) and not self.reload:
                LOG.error("a process could not begin, exit code %d", code)
                place.process = None
                self._exit_code = 1
            elif self.reload:
                if place.since_s:
                    LOG.error("the worker has ended with exit code %d: it begins again when a file changes", code)
                    place.since_s = 0.0
            else:
                LOG.error("a process has died (%s): started again", f"signal {-code}" if code < 0 else f"code {code}")
                self._start(place)

    def _start(self, place: Place) -> None:
        """Begin a process, unless the end has been asked for meanwhile."""
        if self._is_stopping:
            place.process = None
        else:
            place.start(quiet=self._is_quiet)

    def _changed(self, before: dict[str, int]) -> dict[str, int]:
        """Start anew if files have changed; how they are now."""
        now = snapshot(Path.cwd())
        if now != before and not self._is_stopping:
            LOG.info("files have changed: starts anew")
            for place in self.places:
                place.signal(signal.SIGTERM)
                if place.process is not None:
                    place.process.wait()
                self._start(place)
        return now


def command(words: Sequence[str], health: int | None) -> list[str]:
    """The command line of one process."""
    more = [] if health is None else ["--health", str(health)]
    return [sys.executable, "-m", "disque.tasks.command", *words, *more]


def snapshot(folder: Path) -> dict[str, int]:
    """When each Python file below a folder was changed."""
    found: dict[str, int] = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(root, name)  # noqa: PTH118 - thousands of them, once a second
                try:
                    found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - the same
                except OSError:
                    continue
    return found
