"""The log: lines such as `4711:P 20 Nov 16:43:15.479 * The server is now ready to accept connections on port 7711`.

The sign before the text is the level: `.` debug, `-` verbose, `*` notice, `#` warning. A line has at most 1,024
characters. Texts can come from the network, so characters that cannot be printed are escaped: no line can control a
terminal.

The log never stops the server. Only opening the file at the start may fail. Later, a full disk or a file that cannot be
written costs lines. They are counted, and reported as soon as writing works again. The file may be renamed or removed
at any time. It is opened again when `reopen()` is called (SIGHUP), and without a call within a second of logging.
"""

import contextlib
import os
import syslog as system_log
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

DEBUG: Final = 0
VERBOSE: Final = 1
NOTICE: Final = 2
WARNING: Final = 3

LEVELS: Final[dict[str, int]] = {"debug": DEBUG, "verbose": VERBOSE, "notice": NOTICE, "warning": WARNING}
SIGNS: Final = ".-*#"
LINE_MAX: Final = 1024
STDOUT: Final = 1
#: O_NONBLOCK: to open a pipe that nobody reads, or to write to one that is full, must not stop the node.
OPEN_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
MONTHS: Final = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

SYSLOG_LEVELS: Final = (system_log.LOG_DEBUG, system_log.LOG_INFO, system_log.LOG_NOTICE, system_log.LOG_WARNING)
SYSLOG_FACILITIES: Final[dict[str, int]] = {
    "user": system_log.LOG_USER,
    **{f"local{number}": getattr(system_log, f"LOG_LOCAL{number}") for number in range(8)},
}

SyslogWriter = Callable[[int, str], None]


def open_syslog(ident: str, facility: str) -> SyslogWriter:
    """Open the system log and give the function that writes to it. `facility`: user, or local0 to local7."""
    options = system_log.LOG_PID | system_log.LOG_NDELAY
    system_log.openlog(ident, options, SYSLOG_FACILITIES[facility])
    return system_log.syslog


def escaped(text: str) -> str:
    r"""Give `text` with everything that is no printable character shown as an escape (`\n`, `\x1b`, `\u2028`)."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def printable(data: bytes) -> str:
    r"""Give bytes from the network as text for a log line: UTF-8 where it is, `\xff` where it is not."""
    return data[:LINE_MAX].decode("utf-8", "backslashreplace")


class Log:
    """Writes lines to standard output, or to the file `path`, and to the system log if one is given.

    `level` is the least level that is written; set it with `set_level`. `lost` counts the lines that could not be
    written since the last one that could. Raises OSError if the file cannot be opened at the start, and never
    afterwards.
    """

    __slots__ = ("_clock", "_fd", "_stamp", "_stamp_s", "_syslog", "_torn", "level", "lost", "path", "role")

    def __init__(
        self,
        path: str = "",
        level: int = NOTICE,
        *,
        syslog: SyslogWriter | None = None,
        role: str = "P",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute() if path else None  # absolute: the working directory may change later
        self.level = level
        self.role = role
        self.lost = 0
        self._syslog = syslog
        self._clock = clock
        self._stamp = ""
        self._stamp_s = -1
        self._torn = False
        self._fd = os.open(self.path, OPEN_FLAGS, 0o644) if self.path else STDOUT

    def enabled(self, level: int) -> bool:
        """Tell whether lines of `level` are written: ask before making a text that costs something."""
        return level >= self.level

    def set_level(self, name: str) -> None:
        """Set the least level that is written: debug, verbose, notice or warning. Raises KeyError for another name."""
        self.level = LEVELS[name]

    def debug(self, text: str) -> None:
        """Log what helps to find a fault in the server."""
        self.log(DEBUG, text)

    def verbose(self, text: str) -> None:
        """Log what happens often and is rarely wanted."""
        self.log(VERBOSE, text)

    def notice(self, text: str) -> None:
        """Log what an operator wants to see."""
        self.log(NOTICE, text)

    def warning(self, text: str) -> None:
        """Log what an operator should act upon."""
        self.log(WARNING, text)

    def log(self, level: int, text: str) -> None:
        """Write a line if `level` is enabled."""
        if level < self.level:
            return
        text = escaped(text[:LINE_MAX])
        if self._syslog is not None:
            self._syslog(SYSLOG_LEVELS[level], text)
        line = f"{os.getpid()}:{self.role} {self._time()} {SIGNS[level]} {text}"
        self._write(line[:LINE_MAX].encode() + b"\n")

    def raw(self, text: str) -> None:
        """Write `text` as it is, at level notice: for a banner, never for a text from outside."""
        if self.level <= NOTICE:
            self._write(text.encode() + b"\n")

    def reopen(self) -> None:
        """Open the file again, for SIGHUP. If that fails, the old one goes on being used and says so."""
        try:
            self._open_again()
        except OSError as error:
            self.warning(f"Can't open the log file: {error.strerror}")

    def close(self) -> None:
        """Close the file. Lines that come later are lost."""
        if self._fd > STDOUT:
            os.close(self._fd)
            self._fd = -1

    def _time(self) -> str:
        now = self._clock()
        second = int(now)
        if second != self._stamp_s:
            part = time.localtime(second)
            self._stamp = f"{part.tm_mday:02} {MONTHS[part.tm_mon]} {part.tm_hour:02}:{part.tm_min:02}:{part.tm_sec:02}"
            self._stamp_s = second
            self._follow()
        return f"{self._stamp}.{int(now * 1000) % 1000:03}"

    def _open_again(self) -> None:
        if self.path is not None and self._fd >= 0:
            fd = os.open(self.path, OPEN_FLAGS, 0o644)
            os.close(self._fd)
            self._fd = fd
            self._torn = False

    def _follow(self) -> None:
        """Open the file again if another one, or none, has come to stand at its path; stay if that fails."""
        if self._moved():
            with contextlib.suppress(OSError):
                self._open_again()

    def _moved(self) -> bool:
        if self.path is None or self._fd < 0:
            return False
        try:
            return not os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except OSError:
            return True

    def _write(self, line: bytes) -> None:
        if self.lost:
            line = b"%d:%s # %d log lines could not be written\n" % (os.getpid(), self.role.encode(), self.lost) + line
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError:
            self.lost += 1
            return
        self._torn = written < len(line)
        self.lost = self.lost + 1 if self._torn else 0
