"""The sockets for clients: TCP on each address of `bind`, and a Unix socket."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path


class ListenError(Exception):
    """An address that cannot be listened on; the text is for the log."""


def tcp_socket(address: str, port: int, backlog: int | None) -> socket.socket | None:
    """A listening socket, with backlog None one that is only bound: connections to it are refused as yet.

    None where an address with a leading "-" does not exist here. Raises ListenError.
    """
    optional = address.startswith("-")
    host = address.removeprefix("-")
    host = {"*": "0.0.0.0", "::*": "::"}.get(host, host)  # noqa: S104 - that is what the user asked for
    try:
        family, kind, proto, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        if optional:
            return None
        raise ListenError(f"Could not create server TCP listening socket {host}:{port}: {reason(error)}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target)
        if backlog is not None:
            sock.listen(backlog)
    except OSError as error:
        sock.close()
        if optional and error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            return None
        raise ListenError(f"Could not create server TCP listening socket {host}:{port}: {reason(error)}") from error
    sock.setblocking(False)
    return sock


def reason(error: OSError) -> str:
    """What the system says, in words."""
    return os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else str(error)


def tcp_sockets(addresses: tuple[str, ...], port: int, backlog: int | None) -> list[socket.socket]:
    """A socket as in `tcp_socket` for each address; without any, all addresses of both families. Raises ListenError."""
    wanted = addresses or ("0.0.0.0", "-::")  # noqa: S104 - the default of the protocol; protected mode stands before it
    sockets: list[socket.socket] = []
    try:
        for address in wanted:
            sock = tcp_socket(address, port, backlog)
            if sock is not None:
                sockets.append(sock)
                port = port or int(sock.getsockname()[1])
    except ListenError:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise ListenError(f"Could not listen on port {port}: this machine has none of the addresses {' '.join(wanted)}")
    return sockets


def absolute(path: str) -> str:
    """The path of a socket, for a time when the working directory is another one."""
    return str(Path(path).absolute())


def clear_stale_socket(path: str) -> None:
    """Remove a socket file that nobody listens on; anything else in its place is an error. Raises ListenError."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ListenError(f"Could not look at the unix socket {path}: {reason(error)}") from error
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"Could not create the unix socket {path}: another kind of file is there")
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(path) == 0:
            raise ListenError(f"Could not create the unix socket {path}: another server listens on it")
    Path(path).unlink()


async def listen_unix(
    loop: asyncio.AbstractEventLoop,
    path: str,
    permissions: int,
    backlog: int,
    factory: Callable[[], asyncio.BaseProtocol],
) -> asyncio.AbstractServer:
    """Listen on a unix socket, with the permissions given (0: those of the umask). Raises ListenError."""
    clear_stale_socket(path)
    try:
        server = await loop.create_unix_server(factory, path, backlog=backlog)
        if permissions:
            Path(path).chmod(permissions)  # noqa: ASYNC240 - one call at the start, before anybody is served
    except OSError as error:
        raise ListenError(f"Could not create the unix socket {path}: {reason(error)}") from error
    return server
