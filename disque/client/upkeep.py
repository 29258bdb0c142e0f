"""Requests about the process of a node: its journal, slow log, latencies, connections, settings, shutdown.

All of them concern one node: use `Disque.at` to choose it. Those that would harm a wrong node require that. Those that
change something are not sent twice.
"""

from typing import NamedTuple

from disque.client import replies
from disque.client.config import Config
from disque.client.requests import Request
from disque.client.values import Duration, Name, milliseconds, name_word, number_word


class SlowCommand(NamedTuple):
    """A command that took long: its number, when it ran (seconds since 1970), how long, and its words."""

    number: int
    at: int
    microseconds: int
    words: list[str]


class Latency(NamedTuple):
    """What cost time: the event, when it was last (seconds since 1970), how long then and at worst."""

    event: str
    at: int
    last_ms: int
    worst_ms: int


def slow_commands(reply: object) -> list[SlowCommand]:
    """The entries of SLOWLOG GET."""
    rows = [replies.listed(row) for row in replies.listed(reply)]
    whole = replies.whole
    return [SlowCommand(whole(row[0]), whole(row[1]), whole(row[2]), replies.texts(row[3])) for row in rows]


def latencies(reply: object) -> list[Latency]:
    """The rows of LATENCY LATEST."""
    rows = [replies.listed(row) for row in replies.listed(reply)]
    return [Latency(replies.text(row[0]), *map(replies.whole, row[1:4])) for row in rows]


def pairs(reply: object) -> list[tuple[int, int]]:
    """The pairs of LATENCY HISTORY."""
    rows = [replies.listed(row) for row in replies.listed(reply)]
    return [(replies.whole(at), replies.whole(ms)) for at, ms in rows]


def connections(reply: object) -> list[dict[str, str]]:
    """The lines of CLIENT LIST."""
    lines = replies.text(reply).splitlines()
    return [dict(word.partition("=")[::2] for word in line.split()) for line in lines]


def echo(config: Config, message: Name) -> Request[str]:
    """The message (ECHO)."""
    del config
    return Request([b"ECHO", name_word(message, "message")], replies.text)


def commands(config: Config) -> Request[list[str]]:
    """The names of all commands (COMMAND LIST)."""
    del config
    return Request([b"COMMAND", b"LIST"], replies.texts)


def compact(config: Config) -> Request[str]:
    """Compact the journal in the background (BGREWRITEAOF)."""
    del config
    return Request([b"BGREWRITEAOF"], replies.text, again=False)


def flush_all(config: Config) -> Request[None]:
    """Drop all jobs, queues and keys of the node, without asking (DEBUG FLUSHALL).

    Nodes allow it only from their own machine, unless their `enable-debug-command` is yes.
    """
    del config
    return Request([b"DEBUG", b"FLUSHALL"], replies.nothing, again=False, alone=True)


def end(config: Config, *, compact: bool = False) -> Request[None]:
    """Stop the node cleanly; there is no reply (SHUTDOWN)."""
    del config
    return Request([b"SHUTDOWN", *[b"REWRITE-AOF"] * compact], replies.nothing, again=False, alone=True)


def config_rewrite(config: Config) -> Request[None]:
    """Write the settings of the node into its file (CONFIG REWRITE)."""
    del config
    return Request([b"CONFIG", b"REWRITE"], replies.nothing, again=False)


def config_resetstat(config: Config) -> Request[None]:
    """Let the counters of the node start again (CONFIG RESETSTAT)."""
    del config
    return Request([b"CONFIG", b"RESETSTAT"], replies.nothing, again=False)


def cluster_reset(config: Config, *, hard: bool = False) -> Request[None]:
    """Drop all jobs and forget all other nodes; ``hard`` takes a new ID, too (CLUSTER RESET)."""
    del config
    words = [b"CLUSTER", b"RESET", b"HARD" if hard else b"SOFT"]
    return Request(words, replies.nothing, again=False, alone=True)


def cluster_save(config: Config) -> Request[None]:
    """Write nodes.conf now (CLUSTER SAVECONFIG)."""
    del config
    return Request([b"CLUSTER", b"SAVECONFIG"], replies.nothing, again=False)


def slowlog(config: Config, count: int = 10) -> Request[list[SlowCommand]]:
    """The newest commands that took long; a negative count gives all (SLOWLOG GET)."""
    del config
    return Request([b"SLOWLOG", b"GET", number_word(count, "count")], slow_commands)


def slowlog_length(config: Config) -> Request[int]:
    """How many there are (SLOWLOG LEN)."""
    del config
    return Request([b"SLOWLOG", b"LEN"], replies.whole)


def slowlog_reset(config: Config) -> Request[None]:
    """Forget them (SLOWLOG RESET)."""
    del config
    return Request([b"SLOWLOG", b"RESET"], replies.nothing, again=False)


def latency_latest(config: Config) -> Request[list[Latency]]:
    """When time was lost (LATENCY LATEST)."""
    del config
    return Request([b"LATENCY", b"LATEST"], latencies)


def latency_history(config: Config, event: str) -> Request[list[tuple[int, int]]]:
    """When and how long, for one event: seconds since 1970, milliseconds (LATENCY HISTORY)."""
    del config
    return Request([b"LATENCY", b"HISTORY", event.encode()], pairs)


def latency_graph(config: Config, event: str) -> Request[str]:
    """The same as a drawing (LATENCY GRAPH)."""
    del config
    return Request([b"LATENCY", b"GRAPH", event.encode()], replies.text)


def latency_doctor(config: Config) -> Request[str]:
    """What to do about it (LATENCY DOCTOR)."""
    del config
    return Request([b"LATENCY", b"DOCTOR"], replies.text)


def latency_reset(config: Config, *events: str) -> Request[int]:
    """Forget these events, or all; how many (LATENCY RESET)."""
    del config
    return Request([b"LATENCY", b"RESET", *[event.encode() for event in events]], replies.whole, again=False)


def client_list(config: Config) -> Request[list[dict[str, str]]]:
    """All connections of the node, by name and value (CLIENT LIST)."""
    del config
    return Request([b"CLIENT", b"LIST"], connections)


def client_kill(
    config: Config, *, number: int | None = None, address: str | None = None, skip_me: bool = True
) -> Request[int]:
    """Close connections: those with this ID, from this ip:port; how many (CLIENT KILL)."""
    del config
    words = [b"CLIENT", b"KILL", b"SKIPME", b"yes" if skip_me else b"no"]
    if number is not None:
        words += (b"ID", number_word(number, "number"))
    if address is not None:
        words += (b"ADDR", address.encode())
    return Request(words, replies.whole, again=False)


def client_pause(config: Config, duration: Duration) -> Request[None]:
    """Let the node execute no requests of clients for this long (CLIENT PAUSE)."""
    del config
    return Request([b"CLIENT", b"PAUSE", b"%d" % milliseconds(duration, "duration")], replies.nothing, again=False)


def client_unpause(config: Config) -> Request[None]:
    """End that (CLIENT UNPAUSE)."""
    del config
    return Request([b"CLIENT", b"UNPAUSE"], replies.nothing, again=False)
