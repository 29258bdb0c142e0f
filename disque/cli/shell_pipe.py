"""`--pipe`: standard input goes to the server as it is, at full speed, and replies are only counted.

A sentinel marks the end: after the last byte of input comes `PING <random word>`, and the reply with this word is the
last. Both directions are served at once. Otherwise a server with full buffers and this program would wait for each
other.
"""

import secrets
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from io import BufferedReader
from typing import Final, cast

import hiredis

from disque.cli.client import pack

CHUNK_BYTES: Final = 65536


class PipeError(Exception):
    """The transfer could not be completed; the message says why."""


class Pipe:
    """One transfer. `errors` and `replies` count what came back, the sentinel's reply not included."""

    def __init__(self, connected: socket.socket, source: BufferedReader, complain: Callable[[str], None]) -> None:
        self.errors = 0
        self.replies = 0
        self._socket = connected
        self._source = source
        self._complain = complain
        self._magic = secrets.token_hex(20).encode()
        self._reader = hiredis.Reader(protocolError=PipeError)
        self._unsent = memoryview(b"")
        self._input_ended = False
        self._finished = False

    def run(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Transfer everything. Raises PipeError when the server leaves, or is silent for `timeout_s` after the end."""
        self._socket.setblocking(False)
        heard_s = clock()
        while not self._finished:
            self._refill()
            readable, writable, _ = select.select([self._socket], [self._socket] if self._unsent else [], [], 1.0)
            if writable:
                self._write()
            if readable:
                self._read()
            if readable or self._unsent:
                heard_s = clock()
            elif timeout_s and clock() - heard_s > timeout_s:
                raise PipeError(f"No replies for {timeout_s:g} seconds: exiting.")

    def _refill(self) -> None:
        if self._unsent or self._input_ended:
            return
        data = self._source.read1(CHUNK_BYTES)
        if not data:
            self._input_ended = True
            self._complain("All data transferred. Waiting for the last reply...")
            data = b"\r\n" + pack([b"PING", self._magic])
        self._unsent = memoryview(data)

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise PipeError(f"Error writing to the server: {error.strerror}") from None

    def _read(self) -> None:
        try:
            data = self._socket.recv(
                CHUNK_BYTES
            )  # more than a record of TLS, so nothing is left that select does not see
        except ssl.SSLWantReadError:
            return
        except OSError as error:
            raise PipeError(f"Error reading from the server: {error.strerror}") from None
        if not data:
            raise PipeError("The server closed the connection.")
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._count(reply)

    def _count(self, reply: object) -> None:
        if reply == self._magic:
            self._finished = True
            return
        self.replies += 1
        if isinstance(reply, hiredis.ReplyError):
            self.errors += 1
            self._complain(str(reply))


def run_pipe(connected: socket.socket, timeout_s: float, complain: Callable[[str], None]) -> int:
    """Transfer standard input and report; give 1 if the server replied with an error or something went wrong."""
    pipe = Pipe(connected, cast("BufferedReader", sys.stdin.buffer), complain)
    problem = ""
    try:
        pipe.run(timeout_s)
    except PipeError as error:
        problem = str(error)
    complain(problem or "Last reply received from server.")
    print(f"errors: {pipe.errors}, replies: {pipe.replies}", flush=True)
    return 1 if problem or pipe.errors else 0
