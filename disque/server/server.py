"""The process.

It puts node, pump, journal and listeners together, handles signals, runs periodic work ten times a second, and stops
cleanly.
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final

from disque.core.auth import users
from disque.core.base import resp
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.host import HostRefusedError
from disque.core.jobs import eviction, queues, sessions
from disque.core.model.session import NOT_WAITING, WAIT_HOST, Session
from disque.core.node import Node
from disque.server import daemon, listen
from disque.server.config_file import ConfigFile
from disque.server.connection import accept
from disque.server.encrypted import TlsListener
from disque.server.facts import NodeClock
from disque.server.host import ServerHost
from disque.server.log import Log
from disque.server.mesh import SETTINGS_OF_THE_MESH, Mesh, bus_port_of
from disque.server.nodes_conf import NodesConf
from disque.server.persistence import Persistence
from disque.server.pump import Pump
from disque.server.segments import JournalError
from disque.server.suspects import Suspects
from disque.server.tls import SETTINGS_OF_TLS, TlsError, client_context, contexts

if TYPE_CHECKING:
    from cluster.membership import Membership
    from disque.server.connection import Connection

CRON_S: Final = 0.1
#: Seconds that other nodes have at a clean stop to say that they have heard of it.
PARTING_S: Final = 1.0
#: Seconds that messages to other nodes have to leave then.
GOODBYE_S: Final = 1.0
#: Seconds that clients have at a clean stop to take the replies that are on their way to them, and how often to look.
REPLIES_S: Final = 1.0
LOOK_S: Final = 0.01
REWRITTEN: Final = "CONFIG REWRITE executed with success."
#: A maxmemory below it is noted in the log: most likely a unit is missing.
LITTLE_MEMORY: Final = 1 << 20
#: nodes.conf is written every so many crons, if there is something new.
NODES_EVERY: Final = 3
#: Seconds that a client in MONITOR may stay above the soft limit of unread output.
MONITOR_S: Final = 1


class Server:
    """One node as a process. `run` serves until it is told to stop; ``exit_code`` says how that went."""

    def __init__(
        self,
        config: Config,
        log: Log,
        membership: "Membership",
        nodes_conf: NodesConf,
        clock: NodeClock,
        config_path: str,
        started_in: str = ".",
    ) -> None:
        self.config = config
        self.log = log
        self.clock = clock
        self.config_path = config_path
        self.nodes_conf = nodes_conf
        self.host = ServerHost()
        self.host.server = self
        seed = SystemRandom().getrandbits(256)
        random = Random(seed)  # noqa: S311 - to spread what nodes do; IDs use urandom
        self.node = Node(membership, config, random, self.host, ROWS, clock.now_ms())
        self.loop = asyncio.get_running_loop()
        users.reload(self.node)
        self.pump = Pump(self.node, clock, log, self.loop)
        boot_id = self.host.process.boot_id
        self.persistence = Persistence(self.pump, boot_id, lambda: SystemRandom().getrandbits(32))
        self.suspects = Suspects(log)
        #: Where clients come in: the port that they are told.
        self.port = config.number("port")
        #: The other nodes, once this one may talk to them.
        self.mesh: Mesh | None = None
        self.exit_code = 0
        self.restart_argv: list[str] | None = None
        #: Where the process was started: words of its command line may be relative to it.
        self.started_in = started_in
        self._listeners: list[asyncio.AbstractServer | TlsListener] = []
        self._goodbye: asyncio.Task[None] | None = None
        self._socket_file = ""  # the unix socket, once it is this process that listens there
        self._finished: asyncio.Future[None] = self.loop.create_future()
        self._writer = ThreadPoolExecutor(1, "config")  # one thread: who asked first writes first
        self._interrupts = 0
        self._ticks = 0
        self._stopped = False

    # -- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Listen, load, serve, stop. Returns the exit code of the process."""
        sys.setswitchinterval(0.001)  # the thread that fsyncs does not wait long for the loop when the disk is done
        self.loop.set_exception_handler(self._on_fault)
        gc.disable()  # the core makes no reference cycles, and a full collection stops everybody
        self._take_signals()
        self._set_maxclients(self.config.number("maxclients"))
        self._warn_of_little_memory()
        self.node.loading = True  # who connects from here on may be somebody whom the journal does not let in
        try:
            await self._listen()
            self._cron()
            await self._load()
            if self.mesh is not None and not self._finished.done():
                await self.mesh.start()
        except (listen.ListenError, JournalError, HostRefusedError, TlsError) as wrong:
            self.log.warning(str(wrong))
            self.node.loading = True  # the journal may be read and yet not open: what clients still say is not kept
            self._close_listeners()
            if not self._ticks:  # it does not even listen: the ID that was drawn is known to nobody
                self.nodes_conf.discard()
            return 1
        if not self._finished.done():
            self.log.notice(f"The server is now ready to accept connections on {self._where()}")
            gc.freeze()
        await self._finished
        return self.exit_code

    def _where(self) -> str:
        """Where clients can connect, for the log."""
        tls_port = self.config.number("tls-port")
        ports = [f"port {self.port}"] if self.port != tls_port else []
        ports += [f"TLS port {tls_port}"] if tls_port else []
        return " and ".join(ports) or f"the unix socket {self.config.text('unixsocket')}"

    async def _listen(self) -> None:
        config = self.config
        backlog = config.number("tcp-backlog")
        tls_port = config.number("tls-port")
        if tls_port:
            listener = TlsListener(self.pump, client_context(config))
            self._listeners.append(listener)
            await listener.listen(config.words("bind"), tls_port, backlog)
        if self.port or not (tls_port or config.text("unixsocket")):
            for sock in listen.tcp_sockets(config.words("bind"), self.port, backlog):
                self.port = self.port or int(sock.getsockname()[1])
                server = await self.loop.create_server(lambda: accept(self.pump, ""), sock=sock, backlog=backlog)
                self._listeners.append(server)
        path = config.text("unixsocket")
        if path:
            permissions = config.number("unixsocketperm")
            factory = lambda: accept(self.pump, path)  # noqa: E731 - said once, used once
            self._listeners.append(await listen.listen_unix(self.loop, path, permissions, backlog, factory))
            self._socket_file = listen.absolute(path)  # the working directory may change
        self.port = self.port or tls_port
        bus_port = bus_port_of(config)
        if bus_port:
            self.mesh = self.pump.mesh = Mesh(self.pump, self.port, bus_port)
            self._share_files()
            self.mesh.bind()

    async def _load(self) -> None:
        """Read the journal, if the settings say so; else see that none is forgotten."""
        once = self.config.flag("aof-enqueue-jobs-once")
        wanted = self.config.flag("appendonly") or once
        if once and not self.config.flag("appendonly") and not self.persistence.files().segments:
            path = f"{self.config.text('dir')}/{self.config.text('appendfilename')}.00000001"
            raise JournalError(f"Fatal error: can't open the append log file {path}: No such file or directory")
        for pause_s in self.persistence.load(at_start=True) if wanted else self.persistence.pass_by():
            await asyncio.sleep(pause_s)
            if self._finished.done():
                return
        self.node.loading = False
        if once:
            # All jobs that are not held come back queued anyway: the option has done its work.
            self.config.set_text("aof-enqueue-jobs-once", "no")
            if self.config_path:
                self.rewrite_config()
        self.pump.schedule()

    def _on_fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback has failed: where the log goes, not where the standard error of a daemon goes."""
        fault = context.get("exception")
        lines = traceback.format_exception(fault) if isinstance(fault, BaseException) else []
        self.log.warning("\n".join([str(context.get("message")), *lines]))

    def _take_signals(self) -> None:
        self.loop.add_signal_handler(signal.SIGTERM, self._on_stop_signal, "SIGTERM")
        self.loop.add_signal_handler(signal.SIGINT, self._on_stop_signal, "SIGINT")
        self.loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _on_hangup(self) -> None:
        """Open the log file anew, and read certificates anew."""
        self.log.reopen()
        try:
            if self._read_certificates():
                self.log.notice("The certificates were read anew")
        except TlsError as wrong:
            self.log.warning(f"{wrong}. Those that were read before stay in use")

    def _read_certificates(self) -> bool:
        """Read the files of TLS anew, for connections that come later; whether there are any. Raises TlsError."""
        listeners = [one for one in self._listeners if isinstance(one, TlsListener)]
        for_clients = client_context(self.config) if listeners else None
        bus = self.mesh.bus if self.mesh is not None and self.config.flag("tls-cluster") else None
        for_nodes = contexts(self.config) if bus is not None else None
        for one in listeners:
            assert for_clients is not None
            one.context = for_clients
        if bus is not None and for_nodes is not None:
            bus.use_tls(*for_nodes)
        return bool(listeners or bus)

    def _on_stop_signal(self, name: str) -> None:
        self._interrupts += 1
        if self._interrupts > 1 and name == "SIGINT":
            self.log.warning("You insist... exiting now.")
            os._exit(1)
        self.log.warning(f"Received {name} scheduling shutdown...")
        self.stop(None, rewrite=False)

    # -- cron ------------------------------------------------------------------------------------------------------

    def _cron(self) -> None:
        """Ten times a second: the clock, the journal, clients that idle or do not read, memory."""
        if self._stopped:
            return
        self.loop.call_later(CRON_S, self._cron)
        self.pump.begin_turn()
        self._ticks += 1
        self.clock.slew()
        if self.mesh is not None:
            self.mesh.beat(self.clock.now_ms())
        node = self.node
        stats = node.stats
        self.host.rates.sample(self.loop.time(), stats.commands, stats.net_in, stats.net_out)
        node.peak = max(node.peak, node.used)
        self.persistence.cron()
        self._watch_outputs()
        if self._ticks % 10 == 0:
            self._close_idle()
            self.suspects.cron(self.loop.time())
            if not node.membership.dirty and self.nodes_conf.is_gone():
                self.log.warning(f"{self.nodes_conf.path} was removed. It is written again")
                node.membership.dirty = True
        if node.used > node.limits.warn:
            queues.drop_idle(node, self.clock.now_ms(), 1000)
            eviction.make_room(node)
        if node.membership.dirty and self._ticks % NODES_EVERY == 0:
            self.nodes_conf.save_soon(self.loop, node.membership, self.clock.now_ms())
        if node.outbox.records or node.touched:
            self.pump.schedule()
        self.pump.end_turn()

    def _watch_outputs(self) -> None:
        """Cut clients that do not take their replies (`client-output-buffer-limit`)."""
        hard, soft, soft_s = usual = self.config.output_limits("normal")
        of_subscribers = self.config.output_limits("pubsub")
        now_ms = self.clock.now_ms()
        for walk in list(self.node.walks):
            walking = self.pump.connections.get(walk.session.id)
            if hard and walk.size >= hard and walking is not None:
                self._cut(walking, walk.size)
        for connection in [*self.pump.choked, *self.pump.listeners]:
            connection.join_output()
            size = connection.output_bytes()
            hard, soft, soft_s = usual if connection.session.subscriptions is None else of_subscribers
            if not soft or size <= soft:
                connection.over_since_ms = 0
            elif not connection.over_since_ms:
                connection.over_since_ms = now_ms
            # A monitor that does not read is no sender of requests that could wait: what it misses grows without end.
            most_s = min(soft_s, MONITOR_S) if connection.session.monitoring else soft_s
            too_long = connection.over_since_ms and now_ms - connection.over_since_ms > most_s * 1000
            if (hard and size >= hard) or too_long:
                self._cut(connection, size)
        self._bound_outputs(self.config.number("maxmemory-clients"))

    def _bound_outputs(self, most: int) -> None:
        """Cut clients while the unread replies of all together have more than ``most`` bytes (0: any).

        Those that have the most are cut first, but those that read, whose long replies are leaving, behind all others.
        """
        behind = [*self.pump.choked, *self.pump.listeners] if most else []
        unread = {connection: connection.output_bytes() for connection in behind}
        reads = {connection: connection.takes_some() for connection in unread}
        total = sum(unread.values())
        for connection in sorted(unread, key=lambda one: (reads[one], -unread[one])):
            if total <= most:
                return
            total -= unread[connection]
            self._cut(connection, unread[connection])

    def _cut(self, connection: "Connection", size: int) -> None:
        """End a client whose replies take too much memory."""
        address = connection.session.address.decode("latin-1")
        self.log.warning(
            f"Client id={connection.session.id} addr={address} omem={size} scheduled "
            "to be closed ASAP for overcoming of output buffer limits."
        )
        connection.abort()

    def _close_idle(self) -> None:
        limit_ms = self.config.number("timeout") * 1000
        if limit_ms:
            now_ms = self.clock.now_ms()
            for connection in list(self.pump.connections.values()):
                session = connection.session
                watches = session.monitoring or session.subscriptions is not None
                if session.waiting == NOT_WAITING and not watches and now_ms - session.active_ms > limit_ms:
                    self.log.verbose(f"Closing idle client id={session.id}")
                    connection.abort()

    # -- settings --------------------------------------------------------------------------------------------------

    def _set_maxclients(self, wanted: int) -> int:
        """Raise the limit of open files as far as needed and possible; returns how many clients there is room for."""
        room = daemon.fit_fd_limit(wanted)
        if room < wanted:
            self.log.warning(daemon.fd_limit_warning(wanted, room))
            self.config.put("maxclients", (str(max(1, room)),))
        self.pump.maxclients = min(wanted, room)
        return room

    def configure(self, name: str) -> None:
        """Act on a setting that was changed at run time. Raises HostRefusedError."""
        act = {
            "appendonly": self._configure_appendonly,
            "appendfsync": self.persistence.policy_changed,
            "dir": self._configure_dir,
            "maxclients": self._configure_maxclients,
            "maxmemory": self._warn_of_little_memory,
            "loglevel": lambda: self.log.set_level(self.config.text("loglevel")),
            "aof-segment-size": self._configure_segment_size,
            **dict.fromkeys(SETTINGS_OF_TLS, self._configure_certificates),
        }.get(name)
        if act is not None:
            act()
        self.pump.configure()
        if self.mesh is not None and name in SETTINGS_OF_THE_MESH:
            self.mesh.configure()

    def _configure_appendonly(self) -> None:
        try:
            if self.config.flag("appendonly"):
                self.persistence.switch_on()
            else:
                self.persistence.switch_off()
        except JournalError as wrong:
            self.log.warning(str(wrong))
            raise HostRefusedError("ERR Unable to turn on AOF. Check server logs.") from wrong

    def _configure_dir(self) -> None:
        wanted = self.config.text("dir")
        try:
            if self.persistence.journal is not None and not Path(wanted).samefile("."):
                raise HostRefusedError(
                    "ERR dir cannot change while appendonly is yes: the journal stays where it is, and the next start "
                    "would not find it. Stop the node, move the directory, and start it with another dir"
                )
            os.chdir(wanted)
        except OSError as error:
            raise HostRefusedError(f"ERR Changing directory: {error.strerror}") from error
        self.config.put("dir", (str(Path.cwd()),))

    def _configure_maxclients(self) -> None:
        wanted = self.config.number("maxclients")
        room = daemon.fit_fd_limit(wanted)
        if room < wanted:
            raise HostRefusedError(
                f"ERR The operating system is not able to handle the specified number of clients, try with {room}"
            )
        self.pump.maxclients = wanted
        self._share_files()

    def _share_files(self) -> None:
        """What may be open and is no client's must do for strangers at the bus, and leave files for the journal."""
        if self.mesh is not None:
            self.mesh.bus.strangers_most = daemon.fds_for_strangers(self.pump.maxclients)

    def _warn_of_little_memory(self) -> None:
        """Somebody who says 10 may have meant megabytes; as in Redis, it counts all the same."""
        most = self.config.number("maxmemory")
        if 0 < most < LITTLE_MEMORY:
            self.log.warning(f"maxmemory is {most} bytes, less than 1 MB: almost no job fits. Is this intended?")

    def _configure_certificates(self) -> None:
        try:
            self._read_certificates()
        except TlsError as wrong:
            self.log.warning(f"{wrong}. Those that were read before stay in use")
            raise HostRefusedError(f"ERR {wrong}") from wrong

    def _configure_segment_size(self) -> None:
        if self.pump.journal is not None:
            self.pump.journal.segment_size = self.config.number("aof-segment-size")

    def rewrite_config(self) -> None:
        """Write the configuration file, here and now. Raises HostRefusedError."""
        ConfigFile(self.config_path, self.config).prepare()()
        self.log.warning(REWRITTEN)

    def rewrite_config_soon(self, session: Session) -> None:
        """CONFIG REWRITE: the disk may take its time, so it is waited for beside the loop. Raises HostRefusedError."""
        writing = self.loop.run_in_executor(self._writer, ConfigFile(self.config_path, self.config).prepare())
        session.waiting = WAIT_HOST
        writing.add_done_callback(lambda done: self._config_written(session, done))

    def _config_written(self, session: Session, done: "asyncio.Future[None]") -> None:
        wrong = done.exception()
        if wrong is None:
            self.log.warning(REWRITTEN)
        connection = self.pump.connections.get(session.id)
        if connection is not None:
            connection.wait_ended(resp.OK if wrong is None else resp.error(str(wrong).encode("utf-8", "replace")))
            connection.process()

    def save_nodes(self) -> None:
        """Write nodes.conf. Raises HostRefusedError."""
        try:
            self.nodes_conf.save(self.node.membership, self.clock.now_ms())
        except OSError as error:
            raise HostRefusedError(error.strerror or str(error)) from error

    # -- slow acts for clients -------------------------------------------------------------------------------------

    def rewrite_journal(self) -> bool:
        """BGREWRITEAOF; with the journal off, a snapshot is written as Disque did. Raises HostRefusedError."""
        if self.pump.journal is not None:
            return self.persistence.rewrite_soon()
        wrong = self.persistence.rewrite_now()
        self.persistence.switch_off()
        if wrong:
            raise HostRefusedError(f"ERR {wrong}")
        return True

    def reload_soon(self, session: Session) -> None:
        """DEBUG LOADAOF, after what is under way has been flushed."""
        self.loop.call_soon(self._reload, session)

    def _reload(self, session: Session) -> None:
        connection = self.pump.connections.get(session.id)
        self.pump.flush()
        try:
            for _ in self._reload_steps():
                pass
            reply = resp.OK
        except JournalError as wrong:
            self.log.warning(str(wrong))
            reply = resp.error(b"ERR")
            if self.node.loading or (self.config.flag("appendonly") and self.pump.journal is None):
                self._refuse_writes()
        if connection is not None:
            connection.wait_ended(reply)
            connection.process()

    def _refuse_writes(self) -> None:
        """The journal could not be read again: neither what is in memory nor what would be added can be relied on."""
        self.node.loading = False
        self.persistence.loading = None
        self.node.misconf = b"MISCONF The journal could not be loaded again. See the log, then restart the server"

    def _reload_steps(self) -> Iterator[float]:
        """Close the journal without the list of a clean stop, forget everything, read it again."""
        if not self.persistence.files().segments:
            raise JournalError("There is no journal to load")
        writer = self.pump.journal
        if writer is not None and (not writer.sync() or writer.rebuilding):
            raise JournalError(f"The journal is not complete: {writer.failing or 'a rewrite is going on'}")
        self.persistence.close_for_reload()
        sessions.flush_all(self.node, self.clock.now_ms())
        self.node.outbox.take()
        yield from self.persistence.load()

    def stop_soon(self, session: Session, *, rewrite: bool) -> None:
        """SHUTDOWN, after what is under way has been flushed."""
        self.log.warning("User requested shutdown...")
        self.loop.call_soon(lambda: self.stop(session, rewrite=rewrite))

    def restart_soon(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        """DEBUG RESTART or CRASH-AND-RECOVER. Raises HostRefusedError."""
        if self.config_path and clean:
            self.rewrite_config()
        self.loop.call_later(delay_ms / 1000, self._restart, session, clean)

    def _restart(self, session: Session, clean: bool) -> None:
        self.restart_argv = list(sys.orig_argv)
        if clean:
            self.stop(session, rewrite=False)
            if not self._stopped:
                self.restart_argv = None
        else:
            self.start_again()

    def start_again(self) -> None:
        """Become a fresh process with the same words, if a restart was asked for."""
        if self.restart_argv is not None:
            os.chdir(self.started_in)
            os.execv(sys.executable, self.restart_argv)  # noqa: S606 - this program again

    # -- stop ------------------------------------------------------------------------------------------------------

    def stop(self, session: Session | None, *, rewrite: bool) -> None:
        """Stop cleanly; if the journal cannot be written, a client that asked is told so and the server goes on."""
        if self._stopped:
            return
        self.pump.flush()
        wrong = self._secure(rewrite=rewrite)
        connection = self.pump.connections.get(session.id) if session is not None else None
        if wrong:
            self.log.warning(f"Errors trying to shut down: {wrong}")
            if session is not None:
                if connection is not None:
                    connection.wait_ended(resp.error(b"ERR Errors trying to SHUTDOWN. Check logs."))
                return
            self.exit_code = 1
        self._stopped = True
        self.pump.stopping = True
        self._close_listeners()
        self.pump.release()
        self._let_replies_leave(self.loop.time() + REPLIES_S)

    def _owes_replies(self) -> bool:
        """Whether replies that may leave have not left. What a MONITOR has missed is no reply."""
        safe = self.pump.safe
        return any(
            connection.unsent_bytes() or (connection.session.out and connection.ticket <= safe)
            for connection in self.pump.connections.values()
            if not connection.session.monitoring
        )

    def _let_replies_leave(self, until_s: float) -> None:
        """Clients that read get what is on its way to them, and what is behind it; others delay the stop a little."""
        if self._owes_replies() and self.loop.time() < until_s:
            self.loop.call_later(LOOK_S, self._let_replies_leave, until_s)
        else:
            self._part()

    def _part(self) -> None:
        """Part from clients and other nodes."""
        self._dismiss_clients()
        if self.mesh is not None and self.mesh.started:
            self._goodbye = self.loop.create_task(self._take_leave(self.mesh))
        else:
            self._end()
            self._finish()

    async def _take_leave(self, mesh: Mesh) -> None:
        """Part from the other nodes: take what they have sent, leave jobs to them, give what is said time to leave."""
        try:
            await mesh.part(PARTING_S)
            mesh.take_leave()
            self._end()
            await mesh.close(GOODBYE_S)
        finally:
            self._finish()

    def _end(self) -> None:
        """Close the journal, with the list of a clean stop: what comes from here on is not taken any more."""
        unsafe = "" if self.node.loading else self.persistence.stop()
        if unsafe:
            self.log.warning(f"The journal is not complete: {unsafe}")
            self.exit_code = 1
        else:
            self.pump.release_all()
        self.pump.end()
        with contextlib.suppress(HostRefusedError):
            self.save_nodes()

    def _finish(self) -> None:
        self.log.warning("Disque is now ready to exit, bye bye...")
        if not self._finished.done():
            self._finished.set_result(None)

    def _secure(self, *, rewrite: bool) -> str:
        """Bring everything to the disk that was answered; "" or why that failed."""
        if self.node.loading:
            return ""
        if rewrite:
            return self.persistence.rewrite_now()
        writer = self.pump.journal
        if writer is None or writer.sync():
            return ""
        return writer.failing or "a rewrite is going on"

    def _dismiss_clients(self) -> None:
        """Let replies leave that are ready; take back what was handed out in those that cannot.

        An ADDJOB that still waits for copies did not fail, so it gets no error: its connection ends, as for all
        clients, who then ask another node.
        """
        for connection in list(self.pump.connections.values()):
            session = connection.session
            if session.out and not connection.choked and connection.ticket <= self.pump.safe:
                connection.write_out()
            connection.disconnect()
            connection.hurry()
            connection.transport.close()

    def _close_listeners(self) -> None:
        for server in self._listeners:
            server.close()
        self._listeners.clear()
        if self.mesh is not None:
            self.mesh.unbind()
        if self._socket_file:
            with contextlib.suppress(OSError):
                Path(self._socket_file).unlink()
            self._socket_file = ""
