"""The command `disque-server [configuration file] [--option value ...]`."""

import asyncio
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from errno import EFBIG
from pathlib import Path
from random import SystemRandom
from typing import Final

import uvloop

from disque import VERSION
from disque.cli import processes, streams
from disque.core.auth.rules import fault, name_fault
from disque.core.commands import COMMANDS, ROWS
from disque.core.config import conffile
from disque.core.config.kinds import as_bytes, as_text
from disque.core.config.settings import BY_NAME, MAX_NAME, Config, SettingError
from disque.core.model.catalog import Catalog
from disque.core.model.user import User
from disque.server import daemon
from disque.server.facts import NodeClock
from disque.server.log import LEVELS, Log, open_syslog
from disque.server.mesh import bus_port_of, client_port_of
from disque.server.nodes_conf import NodesConfError, open_nodes_conf
from disque.server.server import Server

USAGE: Final = """\
Usage: disque-server [/path/to/disque.conf] [--option value ...]
       disque-server - [--option value ...]        (read the configuration from standard input)
       disque-server -v | --version
       disque-server -h | --help

Options are those of the configuration file, for example:
       disque-server --port 7711 --dir /var/lib/disque --appendonly yes
       disque-server /etc/disque.conf --loglevel verbose
       disque-server /etc/disque.conf --processes 4  (nodes at four ports in a row, for four cores)
"""

PORT_MOST: Final = 65535
#: Characters of a configuration file.
FILE_MOST: Final = 16 << 20


def version_line() -> str:
    """What `--version` prints."""
    from disque.server.host import core_is_compiled  # noqa: PLC0415 - after the core is imported

    core = "compiled" if core_is_compiled() else "plain"
    return f"Disque server v={VERSION} core={core} python={sys.version.split()[0]} bits=64"


def read_config(argv: Sequence[str]) -> tuple[Config, str]:
    """The settings and the absolute path of their file ("" without one). Raises ConfigError, OSError."""
    config = Config()
    arguments = conffile.from_argv(list(argv))
    path = arguments.path
    shown = ""
    if path == "-":
        conffile.load(sys.stdin.read(), "standard input", config, read_text, check_option)
    elif path:
        shown = str(Path(path).resolve())
        conffile.load(read_text(path), shown, config, read_text, check_option)
    conffile.load_options(arguments.options, config, read_text, check_option)
    check_bus_port(config)
    check_renames(config)
    check_users(config)
    return config, shown


def check_option(name: str, words: tuple[str, ...]) -> None:
    """`rename-command` must name a command, and `user` have rules that make sense. Raises SettingError."""
    if name == conffile.RENAME and as_bytes(words[0]).lower() not in COMMANDS:
        raise SettingError("No such command in rename-command", "Expected: rename-command <command> <new name>")

    if name == "user":
        user = as_bytes(words[0])
        wrong = name_fault(user) or fault(User(user), list(map(as_bytes, words[1:])), Catalog(ROWS))
        if wrong:
            raise SettingError(
                as_text(wrong.removeprefix(b"ERR ")), "Expected: user <name> [<rule of ACL SETUSER> ...]"
            )


def check_users(config: Config) -> None:
    """Each user has one line. Raises ConfigError."""
    names = [line.split("\0")[0] for line in config.words("user")]
    for name in names:
        if names.count(name) > 1:
            wrong = SettingError(f"There are two lines for user {name}", "Expected: one line with all rules of a user")
            raise conffile.ConfigError(conffile.COMMAND_LINE, 0, f"user {name}", wrong)


def check_renames(config: Config) -> None:
    """No command has two new names, or takes that of another one, which could not be called. Raises ConfigError."""
    names = set(COMMANDS)
    given: dict[str, str] = {}
    for old, new in config.renames():
        names.discard(as_bytes(old).lower())
        why = ""
        if new and as_bytes(new).lower() in names:
            why = f"There is a command with the name {new} already"
        elif given.setdefault(old.lower(), new.lower()) != new.lower():
            why = f"There are two lines for command {old}, with different names"
        if why:
            wrong = SettingError(why, "Expected: rename-command <command> <new name>")
            raise conffile.ConfigError(conffile.COMMAND_LINE, 0, f"{conffile.RENAME} {old} {new}", wrong)
        names.add(as_bytes(new).lower())


def check_bus_port(config: Config) -> None:
    """The port for other nodes must be one, and not that of clients. Raises ConfigError."""
    bus_port = bus_port_of(config)
    for name in ("port", "tls-port"):
        if bus_port and bus_port == config.number(name):
            wrong = SettingError(
                f"Other nodes and clients cannot both come to port {bus_port}, which is the {name}",
                "Expected: a port of its own, or 0 for port + 10000",
            )
            raise conffile.ConfigError(conffile.COMMAND_LINE, 0, f"cluster-bus-port {bus_port}", wrong)
    if bus_port > PORT_MOST:
        name = "port" if config.number("port") else "tls-port"
        wrong = SettingError(
            f"The bus port would be {name} + 10000, which is {bus_port}: there is no such port",
            "Expected: a port up to 55535, or a cluster-bus-port of its own",
        )
        raise conffile.ConfigError(conffile.COMMAND_LINE, 0, f"{name} {config.number(name)}", wrong)


def read_text(path: str) -> str:
    """A configuration file as text; bytes that are no UTF-8 survive. Raises OSError, also for one without an end."""
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:
        text = file.read(FILE_MOST + 1)
    if len(text) > FILE_MOST:
        raise OSError(EFBIG, f"It has more than {FILE_MOST >> 20} MB", path)
    return text


def explained(wrong: conffile.ConfigError) -> str:
    """What is written about a line that cannot be followed; on the command line that is one about the wrong word."""
    if wrong.source != conffile.COMMAND_LINE:
        return str(wrong)
    name = wrong.line.removeprefix("--").partition(" ")[0]
    if not wrong.line.startswith("--"):
        return f"disque-server: '{wrong.line}': {wrong.reason}\n{wrong.hint}"
    if not name:
        words = wrong.line.removeprefix("--").strip()
        return f"disque-server: '{words or '--'}' is no option: options are --name value (see disque-server --help)"
    if conffile.known_name(name) in {*BY_NAME, conffile.INCLUDE}:
        return "\n".join(filter(None, [f"disque-server: '{wrong.line}': {wrong.reason}", wrong.hint]))
    close = get_close_matches(name.lower(), BY_NAME, 1) if len(name) <= MAX_NAME else []
    hint = f"Did you mean '--{close[0]}'?" if close else "Options are those of disque.conf"
    return f"disque-server: unknown option '--{name}'. {hint} (see disque-server --help)"


def make_log(config: Config) -> Log:
    """The log that the settings ask for. Raises OSError."""
    syslog = None
    if config.flag("syslog-enabled"):
        syslog = open_syslog(config.text("syslog-ident"), config.text("syslog-facility"))
    return Log(config.text("logfile"), LEVELS[config.text("loglevel")], syslog=syslog)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until it is stopped; returns the exit code."""
    streams.open_missing()
    words = sys.argv[1:] if argv is None else list(argv)
    if words and words[0] in {"-v", "--version"}:
        print(version_line())
        return 0
    if words and words[0] in {"-h", "--help"}:
        print(USAGE, end="", file=sys.stderr)
        return 1
    try:
        config, path = read_config(words)
    except conffile.ConfigError as wrong:
        print(explained(wrong), file=sys.stderr)
        return 1
    except OSError as error:
        where = Path(error.filename or ".").absolute()
        print(f"Fatal error, can't open config file '{where}': {error.strerror}", file=sys.stderr)
        return 1
    if config.number("processes") == 1:
        return start(config, path, words)
    number = processes.number_of(os.environ)
    return start_service(config, words) if number < 0 else start_process(config, words, number)


def start_process(config: Config, words: list[str], number: int) -> int:
    """Serve as one of several nodes. The file is no one's to write, so it has no path here."""
    try:
        processes.become(config, number)
    except OSError as error:
        print(f"Can't make the directory '{error.filename}': {error.strerror}", file=sys.stderr)
        return 1
    return start(config, "", words)


def start_service(config: Config, words: list[str]) -> int:
    """Run several nodes; this process looks after them. Gives the exit code."""
    wrong = processes.objection(config)
    if words[:1] == ["-"]:
        wrong = "with several processes, the configuration cannot come from standard input: each of them reads it"
    if wrong:
        print(f"disque-server: {wrong}", file=sys.stderr)
        return 1
    ports = range(client_port_of(config), client_port_of(config) + config.number("processes"))
    command = [sys.executable, "-m", "disque.cli.serve", *words]
    started_in = str(Path.cwd())
    prepared = prepare(config)
    if prepared is None:
        return 1
    log, pid_file = prepared
    if pid_file is not None:
        write_pid(pid_file, log)
    daemon.set_process_name("disque-service")

    async def serve_all() -> int:
        return await processes.Service(ports, command, log, started_in).run()

    try:
        return asyncio.run(serve_all())
    finally:
        if pid_file is not None:
            pid_file.remove()


def start(config: Config, path: str, words: list[str]) -> int:
    """Go to the directory, into the background if asked to, lock nodes.conf, and serve."""
    started_in = str(Path.cwd())
    prepared = prepare(config)
    if prepared is None:
        return 1
    log, pid_file = prepared
    if not words:
        log.warning("Warning: no config file specified, using the defaults. Use: disque-server /path/to/disque.conf")
    try:
        return uvloop.run(serve(config, log, path, pid_file, started_in))
    except NodesConfError as wrong:
        log.warning(str(wrong))
        return 1
    finally:
        if pid_file is not None:
            pid_file.remove()


def prepare(config: Config) -> tuple[Log, daemon.PidFile | None] | None:
    """Go to the directory and into the background if asked to: the log and the pid file, or None if that cannot be."""
    try:
        os.chdir(config.text("dir") or ".")
    except OSError as error:
        print(f"Can't chdir to '{Path(config.text('dir')).absolute()}': {error.strerror}", file=sys.stderr)
        return None
    config.put("dir", (str(Path.cwd()),))
    try:
        log = make_log(config)  # first, while there is somebody to tell that it cannot be opened
    except OSError as error:
        path = Path(config.text("logfile") or error.filename or ".").absolute()
        print(f"Can't open the log file: {error.strerror}: {path}", file=sys.stderr)
        return None
    if config.flag("daemonize"):
        daemon.daemonize()
    return log, daemon.PidFile(config.text("pidfile")) if wants_pid_file(config) else None


def wants_pid_file(config: Config) -> bool:
    """Whether a pid file is to be written: for a daemon, or when its path was given; "" is none."""
    return config.text("pidfile") != "" and (config.flag("daemonize") or not config.is_default("pidfile"))


def write_pid(pid_file: daemon.PidFile, log: Log) -> None:
    """Write the pid file. It may belong to another server until this one holds nodes.conf."""
    try:
        pid_file.write()
    except OSError as error:
        log.warning(f"Failed to write PID file {pid_file.path}: {error.strerror}")


async def serve(
    config: Config, log: Log, path: str, pid_file: daemon.PidFile | None = None, started_in: str = "."
) -> int:
    """Assemble the server in the running loop and let it run."""
    clock = NodeClock()
    nodes_conf, membership = open_nodes_conf(
        config.text("cluster-config-file"),
        ip=as_bytes(config.text("cluster-announce-ip")),
        port=config.number("cluster-announce-port") or client_port_of(config),
        bus_port=config.number("cluster-announce-bus-port") or bus_port_of(config),
        now_ms=clock.now_ms(),
        random=SystemRandom(),
        log=log,
    )
    if pid_file is not None:
        write_pid(pid_file, log)
    daemon.set_process_name("disque-server")
    log.notice(f"Server started, Disque version {VERSION}")
    if not config.flag("appendonly"):
        log.notice("Jobs are in memory only: with appendonly yes they survive the process")
    server = Server(config, log, membership, nodes_conf, clock, path, started_in)
    code = await server.run()
    nodes_conf.close()
    server.start_again()
    return code


if __name__ == "__main__":
    sys.exit(main())
