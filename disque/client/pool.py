"""Connections of redis-py to many nodes, and exchanges over them, blocking.

A connection is used by one thread at a time. It returns to the pool when all its replies were read; otherwise it is
closed. An idle connection is checked before it is used again. So a node that was restarted meanwhile is not taken for
one that fails. In a child process the connections of the parent are dropped, not used.
"""

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from redis.connection import Connection, SSLConnection
from redis.exceptions import RedisError, ResponseError

from disque.client.config import Address, Config
from disque.client.delivery import HELLO, Exchange, Outcome
from disque.client.packing import pieces

#: Idle connections that are kept to one node.
IDLE_MOST: Final = 64
#: What can go wrong with a connection; ValueError comes from names that cannot be looked up, TypeError from a reply
#: that is a map whose keys are lists.
TROUBLE: Final = (RedisError, OSError, ValueError, TypeError)
#: What else redis-py raises when what answers its handshake is no node.
TROUBLE_AT_FIRST: Final = (*TROUBLE, AttributeError)

Learn = Callable[[Address, object], None]


def connection_options(config: Config, address: Address) -> dict[str, Any]:
    """What redis-py must know to connect; the same for both of its kinds of connections."""
    options: dict[str, Any] = {
        "host": address[0],
        "port": address[1],
        "username": config.user,
        "password": config.password,
        "socket_connect_timeout": config.connect_timeout_ms / 1000,
        "protocol": config.protocol,
        "client_name": config.client_name,
        "driver_info": None,
    }
    if config.tls:
        options |= {
            "ssl_ca_certs": config.ca,
            "ssl_certfile": config.cert,
            "ssl_keyfile": config.key,
            "ssl_cert_reqs": "required" if config.verify else "none",
            "ssl_check_hostname": config.verify,
        }
    return options


class Interrupt:
    """Ends the wait of another thread for jobs, without losing one.

    The connection is half closed: a node that gets the end of what a client sends takes it out of its lines, and what
    it has given already still arrives. `ended` says whether that was wanted, since the wait then ends in a failure.
    """

    def __init__(self) -> None:
        self.ended = False
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def enter(self, connection: Connection) -> None:
        """This connection is about to wait."""
        with self._lock:
            self._connection = connection
            if self.ended:
                half_close(connection)

    def leave(self) -> None:
        """It does not wait any more."""
        with self._lock:
            self._connection = None

    def end(self) -> None:
        """End the wait, and those that would follow."""
        with self._lock:
            self.ended = True
            if self._connection is not None:
                half_close(self._connection)


def half_close(connection: Connection) -> None:
    """Send nothing more on a connection that another thread reads."""
    sock: socket.socket | None = getattr(connection, "_sock", None)  # redis-py has no other way to its socket
    if sock is not None:
        with suppress(OSError):
            # Of the class, since a TLS socket would drop its state, which the reader needs.
            socket.socket.shutdown(sock, socket.SHUT_WR)


class Pool:
    """Connections to all nodes. ``learn`` gets what a node says to HELLO when a connection is made."""

    def __init__(self, config: Config, learn: Learn) -> None:
        self.config = config
        self.learn = learn
        self.timeout_s = config.timeout_ms / 1000
        self._idle: dict[Address, deque[Connection]] = {}
        self._pid = os.getpid()

    def exchange(self, step: Exchange, interrupt: Interrupt | None = None) -> Outcome:
        """Send and read. Raises nothing of what goes wrong with the node: that is part of the outcome.

        ``interrupt`` can end the wait from another thread.
        """
        outcome = Outcome()
        try:
            connection = self._take(step.address)
        except TROUBLE_AT_FIRST as error:
            outcome.failure = error
            return outcome
        try:
            outcome.sent = True
            connection.send_packed_command(pieces(step.data))
            if interrupt is not None:
                interrupt.enter(connection)
            self._read(connection, step, outcome.replies)
        except TROUBLE as error:
            outcome.failure = error
            connection.disconnect()
        except BaseException:
            connection.disconnect()
            raise
        finally:
            if interrupt is not None:
                interrupt.leave()
        if interrupt is not None and interrupt.ended:
            connection.disconnect()
        elif outcome.failure is None:
            self._give_back(step.address, connection)
        return outcome

    def close(self) -> None:
        """Close what is idle; what is in use is closed by its user when it comes back."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            while connections:
                connections.pop().disconnect()

    def _read(self, connection: Connection, step: Exchange, replies: list[object]) -> None:
        # A timeout of its own costs two system calls for each read.
        options = {} if step.timeout_s == self.timeout_s else {"timeout": step.timeout_s}
        read = connection.read_response
        for _ in range(step.replies):
            try:
                replies.append(read(**options))
            except ResponseError as error:
                replies.append(error)

    def _take(self, address: Address) -> Connection:
        if self._pid != os.getpid():
            self._drop_parents()
        idle = self._idle.get(address)
        while idle:
            with suppress(IndexError):  # another thread was faster
                connection = idle.pop()
                if usable(connection):
                    return connection
                connection.disconnect()
        return self._open(address)

    def _open(self, address: Address) -> Connection:
        kind = SSLConnection if self.config.tls else Connection
        connection = kind(socket_timeout=self.timeout_s, **connection_options(self.config, address))
        try:
            connection.connect()
            connection.send_packed_command([HELLO])
            with suppress(ResponseError):
                self.learn(address, connection.read_response())
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def _give_back(self, address: Address, connection: Connection) -> None:
        idle = self._idle.setdefault(address, deque())
        if len(idle) < IDLE_MOST:
            idle.append(connection)
        else:
            connection.disconnect()

    def _drop_parents(self) -> None:
        """Close our copies of the sockets of the parent process; its own stay open."""
        self._pid = os.getpid()
        self.close()


def usable(connection: Connection) -> bool:
    """Whether an idle connection is open and has nothing to read."""
    try:
        return connection.is_connected and not connection.can_read()
    except TROUBLE:
        return False
