"""Requests about queues, connections, nodes and the cluster: every command that is not about the life of jobs.

Most of these concern one node: use `Disque.at` to choose it. Those that change a node are not sent twice.
"""

from disque.client import replies
from disque.client.config import Config
from disque.client.packing import as_word, as_words
from disque.client.replies import History, JobInfo, NodeInfo
from disque.client.requests import OTHERS_MS, Request
from disque.client.schedules import RUN_MS
from disque.client.sweeps import SWEEP_MS
from disque.client.values import Body, Name, Value, body_word, name_word, number_word


def queue_length(config: Config, queue: Name, *, cluster: bool = False) -> Request[int]:
    """How many jobs are queued at the node, or with ``cluster`` at all that it reaches (QLEN)."""
    del config
    return Request([b"QLEN", name_word(queue), *[b"CLUSTER"] * cluster], replies.whole, wait_ms=OTHERS_MS * cluster)


def queue_stat(config: Config, queue: Name, *, cluster: bool = False) -> Request[JobInfo | None]:
    """Figures of a queue at the node, or with ``cluster`` at all that it reaches; None where it has none (QSTAT)."""
    del config
    words = [b"QSTAT", name_word(queue), *[b"CLUSTER"] * cluster]
    return Request(words, replies.job_info, wait_ms=OTHERS_MS * cluster)


def queue_history(config: Config, queue: Name, unit: str, *, cluster: bool = False) -> Request[History | None]:
    """What happened in the last 60 "minute", 168 "hour" or 90 "day", as lists of counts, the oldest first (QHISTORY).

    ``begin`` is when the first one began, in seconds since 1970, and ``seconds`` how long each lasts. None where the
    node has none, with ``cluster`` all that it reaches.
    """
    words = [b"QHISTORY", name_word(queue), name_word(unit, "unit"), *[b"CLUSTER"] * cluster]
    del config
    return Request(words, replies.history, wait_ms=OTHERS_MS * cluster)


def find(config: Config, queue: Name, key: Value) -> Request[str | None]:
    """The ID of the job that has this UNIQUE key, or None (FIND)."""
    del config
    return Request([b"FIND", name_word(queue), as_word(key)], replies.text_or_none, wait_ms=OTHERS_MS)


def scan_queues(
    config: Config,
    cursor: int = 0,
    *,
    count: int | None = None,
    busyloop: bool = False,
    minlen: int | None = None,
    maxlen: int | None = None,
    importrate: int | None = None,
) -> Request[tuple[int, list[str]]]:
    """The next cursor and some names of queues; it is over when the cursor is 0, at once with ``busyloop`` (QSCAN)."""
    del config
    numbers = {"COUNT": count, "MINLEN": minlen, "MAXLEN": maxlen, "IMPORTRATE": importrate}
    words = [b"QSCAN", number_word(cursor, "cursor"), *optional(numbers)]
    return Request([*words, *[b"BUSYLOOP"] * busyloop], replies.scanned, again=False)


def scan_jobs(
    config: Config,
    cursor: int = 0,
    *,
    count: int | None = None,
    busyloop: bool = False,
    queue: Name | None = None,
    states: tuple[str, ...] = (),
) -> Request[tuple[int, list[str]]]:
    """The next cursor and the IDs of some jobs, of one queue and in some states if wanted (JSCAN)."""
    del config
    return Request(scan_words(cursor, count, busyloop, queue, states), replies.scanned, again=False)


def scan_job_infos(
    config: Config,
    cursor: int = 0,
    *,
    count: int | None = None,
    busyloop: bool = False,
    queue: Name | None = None,
    states: tuple[str, ...] = (),
) -> Request[tuple[int, list[JobInfo]]]:
    """The same with all that is known of each job, as `show` gives it (JSCAN ... REPLY ALL)."""
    del config
    words = [*scan_words(cursor, count, busyloop, queue, states), b"REPLY", b"ALL"]
    return Request(words, replies.scanned_jobs, again=False)


def scan_words(
    cursor: int, count: int | None, busyloop: bool, queue: Name | None, states: tuple[str, ...]
) -> list[bytes]:
    """The words of JSCAN."""
    words = [b"JSCAN", number_word(cursor, "cursor"), *optional({"COUNT": count}), *[b"BUSYLOOP"] * busyloop]
    if queue is not None:
        words += (b"QUEUE", name_word(queue))
    for state in states:
        words += (b"STATE", state.encode())
    return words


def optional(numbers: dict[str, int | None]) -> list[bytes]:
    """Names and values of those that are given."""
    given = [(name, value) for name, value in numbers.items() if value is not None]
    return [word for name, value in given for word in (name.encode(), number_word(value, name.lower()))]


def pause(config: Config, queue: Name, *how: str) -> Request[str]:
    """Pause a queue: "in", "out", "all", "none", "bcast" for all nodes, or only ask: "state". How it stands (PAUSE)."""
    del config
    return Request([b"PAUSE", name_word(queue), *[word.encode() for word in how or ("state",)]], replies.text)


def queue_options(config: Config, queue: Name) -> Request[dict[str, tuple[str, str]]]:
    """What counts for jobs of a queue where `add` says nothing (QCONFIG GET).

    By option its value, and the name for which it was set, or "default".
    """
    del config
    return Request([b"QCONFIG", b"GET", name_word(queue)], replies.queue_options)


def set_queue_options(config: Config, /, queue: Name, **options: Value) -> Request[None]:
    """Set options at all nodes, of a queue or, if the name ends in ``*``, of all that begin so (QCONFIG SET).

    They are ttl, retry, replicate, tries, backoff, priority, retain, deadletter, dead_ttl, maxlen and overflow
    ("refuse" or "drop-oldest").
    """
    del config
    words = [word for name, value in options.items() for word in (name.replace("_", "-").encode(), as_word(value))]
    return Request([b"QCONFIG", b"SET", name_word(queue), *words], replies.nothing)


def unset_queue_options(config: Config, queue: Name, *names: str) -> Request[int]:
    """Take options back that were set for this name, or all of them; how many it were (QCONFIG UNSET)."""
    del config
    words = [name.replace("_", "-").encode() for name in names]
    return Request([b"QCONFIG", b"UNSET", name_word(queue), *words], replies.whole)


def publish(config: Config, channel: Name, message: Body) -> Request[int]:
    """Say something to all who listen to a channel, at all nodes; to how many subscriptions of this node (PUBLISH).

    It is said once, or not at all if the node is lost: a message that may have been heard is not sent again.
    """
    del config
    words = [b"PUBLISH", name_word(channel, "channel"), body_word(message, "message")]
    return Request(words, replies.whole, again=False)


def ping(config: Config, message: Name | None = None) -> Request[str]:
    """PONG, or the message (PING)."""
    del config
    return Request([b"PING", *([] if message is None else [name_word(message, "message")])], replies.text)


def nodes(config: Config) -> Request[list[NodeInfo]]:
    """The nodes of the cluster as one of them sees them (HELLO)."""
    del config
    return Request([b"HELLO"], replies.nodes)


def node_time(config: Config) -> Request[float]:
    """The wall clock of the node, in seconds since 1970 (TIME)."""
    del config
    return Request([b"TIME"], replies.moment)


def info(config: Config, section: str | None = None) -> Request[dict[str, str | int | float]]:
    """Facts and figures of the node; numbers are numbers (INFO)."""
    del config
    return Request([b"INFO", *([] if section is None else [section.encode()])], replies.info)


def config_get(config: Config, pattern: str = "*") -> Request[dict[str, str]]:
    """Settings of the node (CONFIG GET)."""
    del config
    return Request([b"CONFIG", b"GET", pattern.encode()], replies.dictionary)


def config_set(config: Config, name: str, value: Value) -> Request[None]:
    """Change a setting of the node (CONFIG SET)."""
    del config
    return Request([b"CONFIG", b"SET", *as_words([name, value])], replies.nothing, again=False)


def cluster_info(config: Config) -> Request[dict[str, str | int | float]]:
    """Numbers of the cluster as the node sees it (CLUSTER INFO)."""
    del config
    return Request([b"CLUSTER", b"INFO"], replies.info)


def cluster_nodes(config: Config) -> Request[str]:
    """A line for each node (CLUSTER NODES)."""
    del config
    return Request([b"CLUSTER", b"NODES"], replies.text)


def cluster_id(config: Config) -> Request[str]:
    """The ID of the node (CLUSTER MYID)."""
    del config
    return Request([b"CLUSTER", b"MYID"], replies.text)


def cluster_meet(config: Config, host: str, port: int) -> Request[None]:
    """Make the node's cluster and that of another node one cluster (CLUSTER MEET)."""
    del config
    words = [b"CLUSTER", b"MEET", host.encode(), number_word(port, "port")]
    return Request(words, replies.nothing, again=False)


def cluster_forget(config: Config, node_id: str) -> Request[None]:
    """Remove a node that will not come back. Send it to every other node (CLUSTER FORGET)."""
    del config
    return Request([b"CLUSTER", b"FORGET", node_id.encode()], replies.nothing, again=False)


def cluster_repair(config: Config, node_id: str) -> Request[int]:
    """Have all nodes copy the jobs of a node again that will not come back; how many begin (CLUSTER REPAIR)."""
    del config
    return Request([b"CLUSTER", b"REPAIR", node_id.encode()], replies.whole, again=False)


def cluster_leaving(config: Config, leaving: bool | None = None) -> Request[str]:
    """Say that the node goes, or stays, or only ask: "yes", "no", or "OK" to what was said (CLUSTER LEAVING)."""
    del config
    said = [] if leaving is None else [b"yes" if leaving else b"no"]
    return Request([b"CLUSTER", b"LEAVING", *said], replies.text, again=False, alone=bool(said))


#: Commands that may be sent to another node when it is not known whether the first has done them.
REPEATABLE = frozenset({
    *(b"ADDJOB", b"GETJOB", b"ACKJOB", b"FASTACK", b"NACK", b"WORKING", b"ENQUEUE", b"DEQUEUE", b"SHOW"),
    *(b"CANCEL", b"RESULT", b"WAITJOB", b"QHISTORY"),
    *(b"QLEN", b"QPEEK", b"QSTAT", b"FIND", b"PING", b"ECHO", b"TIME", b"HELLO", b"INFO", b"COMMAND"),
})  # fmt: skip

#: What a node asks all others about, and what it does with all jobs of a queue.
OF_OTHERS = frozenset({b"CANCEL", b"FIND", b"MOVE", b"RESULT", b"REVIVEJOB"})
SWEEPS = frozenset({b"QMOVE", b"REVIVE", b"QFLUSH"})

#: What changes a connection, which goes back into a pool, or answers other than once.
OF_A_CONNECTION = frozenset({b"AUTH", b"MONITOR", b"QUIT", b"RESET", b"SELECT"})


def any_command(config: Config, *args: Value) -> Request[object]:
    """Any command, in words as redis-py takes them; its reply as it comes. See `Disque.execute_command`."""
    words = as_words(args)
    name = words[0].upper()
    second = words[1].upper() if len(words) > 1 else b""
    if name in OF_A_CONNECTION or (name, second) == (b"CLIENT", b"REPLY") or (name == b"HELLO" and second):
        raise ValueError(f"{name.decode()} is about one connection, and a client has many: use redis() for it")
    wait_ms = waits_ms(name, words, config)
    return Request(words, replies.same, again=name in REPEATABLE, wait_ms=wait_ms)


def waits_ms(name: bytes, words: list[bytes], config: Config) -> int | None:
    """How long the server may wait with its reply; None: without end."""
    del config
    text = b""
    if name == b"ADDJOB" and len(words) > 3:
        text = words[3]
    elif name == b"WAITJOB":
        text = words[1] if len(words) > 1 else b""
    elif name == b"GETJOB":
        options = [word.upper() for word in words[: words_before_from(words)]]
        if b"NOHANG" in options:
            return 0
        text = options[options.index(b"TIMEOUT") + 1] if b"TIMEOUT" in options[:-1] else b"0"
    elif name in OF_OTHERS or (name in {b"QLEN", b"QSTAT"} and len(words) > 2):
        return OTHERS_MS
    elif name == b"CRON":
        return RUN_MS if words[1:2] and words[1].upper() == b"RUN" else 0
    else:
        return SWEEP_MS if name in SWEEPS else 0
    return (int(text) or None) if text.isdigit() else 0


def words_before_from(words: list[bytes]) -> int:
    """How many words of GETJOB are no names of queues."""
    upper = [word.upper() for word in words]
    return upper.index(b"FROM") if b"FROM" in upper else len(words)
