"""Standard input, output and error of a process, where whoever started it has closed them or their disk is full."""

import contextlib
import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_missing() -> None:
    """Let closed ones lead nowhere.

    Otherwise a file or a socket that is opened later has the number of one. What is written to standard error would go
    into that file, and libuv ends the process when that socket is closed. Call it before anything is opened.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        os.set_inheritable(fd, True)
    os.close(fd)
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115  # it stays


def drop_output() -> None:
    """Forget what could not be written to standard output, so that Python does not try again at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
