"""The server under load: how to connect to it, what it reports, and what CPU and memory it uses.

CPU and memory come from the operating system when the server is a process of this host, because these figures are exact
at any moment. Otherwise they come from INFO. A process ID from INFO means nothing on another machine or in another
container. So it is used only if that process has been up for as long as the server says.
"""

import math
import resource
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from disque.cli.bench_options import Address
from disque.cli.bench_resp import BenchError, ErrorReply, Reply, encode, new_reader, next_reply
from disque.cli.client_tls import reason, secure

_CONNECT_TIMEOUT_S: Final = 5.0
_REPLY_TIMEOUT_S: Final = 30.0
_UPTIME_SLACK_S: Final = 3.0
_ROUNDED_S: Final = 0.025  # by which a sum in hundredths of a second may be too low
_CHUNK_BYTES: Final = 1 << 16


def open_socket(address: Address) -> socket.socket:
    """Connect and log in; the socket is blocking with a timeout.

    Raises BenchError when nobody answers or the password is refused.
    """
    try:
        link = _connect(address)
    except (OSError, UnicodeError) as error:
        raise BenchError(f"Could not connect to {address}: {reason(error)}") from error
    if address.password:
        login = (address.user.encode(), address.password.encode()) if address.user else (address.password.encode(),)
        try:
            Control(link, address).call(b"AUTH", *login)
        except BenchError:
            link.close()
            raise
    return link


def _connect(address: Address) -> socket.socket:
    if not address.unix_path:
        link = socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.trust is not None:
            try:
                link = secure(link, address.host, address.trust)
            except OSError:
                link.close()
                raise
    else:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(_CONNECT_TIMEOUT_S)
        try:
            link.connect(address.unix_path)
        except OSError:
            link.close()
            raise
    link.settimeout(_REPLY_TIMEOUT_S)
    return link


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one, which is often twenty times higher."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Control:
    """A connection for one question at a time, beside the load."""

    __slots__ = ("_address", "_link", "_reader")

    def __init__(self, link: socket.socket, address: Address) -> None:
        self._link = link
        self._address = address
        self._reader = new_reader()

    def call(self, *arguments: bytes) -> Reply:
        """Send one command and wait for its reply.

        Raises BenchError for an error reply, a lost connection, and bytes that are no RESP.
        """
        try:
            self._link.sendall(encode(*arguments))
            reply = self._read()
        except OSError as error:
            raise BenchError(f"{self._address}: {error.strerror or error}") from error
        if isinstance(reply, ErrorReply):
            raise BenchError(f"{self._address} answers {arguments[0].decode()}: {reply}")
        return reply

    def _read(self) -> Reply:
        while (reply := next_reply(self._reader)) is False:
            data = self._link.recv(_CHUNK_BYTES)
            if not data:
                raise BenchError(f"{self._address} closed the connection")
            self._reader.feed(data)
        answer: Reply = reply
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


def parse_info(text: str) -> dict[str, str]:
    """Give the fields of an INFO reply."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}


class Usage(NamedTuple):
    """What a server has used: seconds of CPU since its start, bytes of memory now."""

    cpu_s: float
    rss_bytes: int


class Target:
    """One server: its kind, and a probe of its process."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._control = Control(open_socket(address), address)
        try:
            info = self.info()
        except BenchError:
            self.close()
            raise
        self.kind = "redis" if "redis_version" in info and "disque_version" not in info else "disque"
        self.version = info.get("disque_version") or info.get("redis_version") or "unknown"
        self._process = local_process(address, info)

    @property
    def name(self) -> str:
        """Say what the server is, with its version."""
        return f"{self.kind.capitalize()} {self.version}"

    @property
    def source(self) -> str:
        """Say where the figures of usage() come from."""
        return "process" if self._process else "INFO"

    def call(self, *arguments: bytes) -> Reply:
        """Ask the server something beside the load."""
        return self._control.call(*arguments)

    def info(self) -> dict[str, str]:
        """Give the fields of INFO."""
        reply = self.call(b"INFO")
        return parse_info(reply.decode(errors="replace") if isinstance(reply, bytes) else "")

    def usage(self) -> Usage:
        """Say what the server has used so far.

        Raises BenchError when it is gone.
        """
        if self._process is None:
            return usage_of_info(self.info())
        try:
            return Usage(cpu_s_of(self._process), self._process.memory_info().rss)
        except psutil.Error as error:
            raise BenchError(f"{self.address}: the server's process has ended") from error

    def close(self) -> None:
        """Close the connection for questions."""
        self._control.close()


def cpu_s_of(process: psutil.Process) -> float:
    """Give the seconds of CPU that a process has had; to the nanosecond where the system tells, else in hundredths.

    Linux counts the time of each thread exactly, but of those that have ended it keeps no more than the sum in
    hundredths, rounded down for the user and for the system: where that does not fit, it alone is right.
    """
    times = process.cpu_times()
    coarse_s: float = times.user + times.system
    try:
        counts = [path.read_bytes().split()[0] for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")]
    except (OSError, IndexError):  # a thread has just ended
        return coarse_s
    exact_s = sum(map(int, counts)) / 1e9
    return exact_s if counts and abs(exact_s - coarse_s) < _ROUNDED_S else coarse_s


def usage_of_info(info: dict[str, str]) -> Usage:
    """Read from INFO what a server has used; what it does not tell, or tells in another form, is 0."""
    cpu_s = _field(info, "used_cpu_sys") + _field(info, "used_cpu_user")
    return Usage(cpu_s, int(_field(info, "used_memory_rss")))


def _field(info: dict[str, str], name: str) -> float:
    try:
        value = float(info.get(name, "0"))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def local_process(address: Address, info: dict[str, str]) -> psutil.Process | None:
    """Find the server's process when it runs on this host, else give None."""
    pid, uptime = info.get("process_id", ""), info.get("uptime_in_seconds", "")
    if not (pid.isdigit() and uptime.isdigit()) or not is_local(address):
        return None
    try:
        process = psutil.Process(int(pid))
        age_s = time.time() - process.create_time()
        process.memory_info()
    except psutil.Error:
        return None
    return process if abs(age_s - int(uptime)) <= _UPTIME_SLACK_S else None


def is_local(address: Address) -> bool:
    """Say whether an address belongs to this host."""
    if address.unix_path:
        return True
    own = {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries}
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(str(entry[4][0]) in own or str(entry[4][0]).startswith("127.") for entry in found)
