"""The one table of options, and the values that a node runs with.

Theory. An option is written once, as a row of `SETTINGS`. The configuration file, the command line, CONFIG GET, SET and
REWRITE and the text of conf/disque.conf all follow from the row, so none of them can disagree. The order of the rows is
the order of CONFIG GET: first that of Disque 1.0, then the options that it lacked.

A `Config` holds a value for every row. Values change in two ways: `put` takes the words of a line of the file or of the
command line, `set_text` takes the value of a CONFIG SET and refuses what cannot change in a running node. Neither has
an effect of its own: whoever calls them (the command, the server) acts on the new value.

Where Disque 1.0 treats an option differently in the file, in GET and in SET (`tcp-keepalive`, negative
`slowlog-log-slower-than`, `no-appendfsync-on-rewrite`, `cluster-node-timeout 0`, `maxmemory 0`), here all are alike.
"""

from typing import Final

from disque.core.base.glob import Glob
from disque.core.config.kinds import (
    GB,
    KB,
    MAX_INT32,
    MAX_INT64,
    MAX_SIZE,
    MB,
    Addresses,
    Clamped,
    Directory,
    FileName,
    HostName,
    KeepAlive,
    Label,
    NeededPath,
    OneOf,
    OutputLimits,
    Path,
    Permissions,
    Renames,
    Size,
    Switch,
    Text,
    UserLines,
    Value,
    Whole,
    YesNo,
    as_text,
)
from disque.core.config.seeds import Seeds
from disque.core.config.setting import (
    CLUSTER,
    GENERAL,
    JOURNAL,
    LIMITS,
    NETWORK,
    OLD,
    SECURITY,
    TLS,
    WATCHING,
    Setting,
)

MAX_NAME: Final = 64  # no option has a longer name; longer words are not compared with any


class SettingError(ValueError):
    """A name or a value that was refused; `hint` says what would have been accepted, or is empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message: Final = message
        self.hint: Final = hint


# One row an option, its values on one line, its help below.
# fmt: off
SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "requirepass", Text(512, "a password"), "", SECURITY,
        "The password that clients must give with AUTH before anything else. Without one, everybody who can connect "
        "may do everything. That is why protected-mode then accepts only clients on this machine. Passwords can be "
        "tried very fast, so use a long one.",
        mutable=True, example='"a long password"', secret=True,
    ),
    Setting(
        "unixsocket", Path(), "", NETWORK,
        "The path of a Unix socket to listen on besides TCP.",
        example='"/run/disque/disque.sock"',
    ),
    Setting(
        "logfile", Path(), "", GENERAL,
        'The file for log lines. SIGHUP opens it anew. "" is standard output.',
    ),
    Setting(
        "pidfile", Path(), "/var/run/disque.pid", GENERAL,
        "The file for the number of the process. It is written if the process is daemonized, or if this is set to "
        'another path. "" is none.',
    ),
    Setting(
        "maxmemory", Size(0, MAX_SIZE), 1 * GB, LIMITS,
        "The memory that jobs, queues and UNIQUE keys may take, in bytes, as used_memory of INFO estimates it. The "
        "process needs some more. Over 75 % of it, a node keeps no new jobs (alone it answers -NOREPL). Over 95 %, "
        "maxmemory-policy decides, and commands that add jobs may answer -OOM. 0 is no limit.",
        mutable=True,
    ),
    Setting(
        "maxmemory-samples", Whole(1, MAX_INT32), 5, OLD,
        "How many jobs were examined to find one to evict.",
        mutable=True,
    ),
    Setting(
        "timeout", Whole(0, MAX_INT32, "seconds"), 0, NETWORK,
        "Seconds after which an idle client is disconnected. This does not count for clients that wait in a blocking "
        "command. 0 is never.",
        mutable=True,
    ),
    Setting(
        "auto-aof-rewrite-percentage", Whole(0, MAX_INT32, "percent"), 100, JOURNAL,
        "The journal is compacted when it has grown by this many percent since the last compaction. 0 compacts only on "
        "BGREWRITEAOF.",
        mutable=True,
    ),
    Setting(
        "auto-aof-rewrite-min-size", Size(0, MAX_SIZE), 64 * MB, JOURNAL,
        "The size below which the journal is not compacted automatically, in bytes.",
        mutable=True,
    ),
    Setting(
        "slowlog-log-slower-than", Whole(-MAX_INT64, MAX_INT64, "microseconds"), 10000, WATCHING,
        "SLOWLOG keeps commands that run for at least this many microseconds. 0 keeps every command, a negative number "
        "none.",
        mutable=True,
    ),
    Setting(
        "latency-monitor-threshold", Whole(0, MAX_INT32, "milliseconds"), 0, WATCHING,
        "LATENCY keeps events that take at least this many milliseconds. 0 keeps none.",
        mutable=True,
    ),
    Setting(
        "slowlog-max-len", Whole(0, 1_000_000), 128, WATCHING,
        "How many commands SLOWLOG keeps.",
        mutable=True,
    ),
    Setting(
        "port", Whole(0, 65535), 7711, NETWORK,
        "The TCP port for clients, without TLS. 0 listens on none.",
    ),
    Setting(
        "tcp-backlog", Whole(1, MAX_INT32), 511, NETWORK,
        "How many connections may wait to be accepted. The system's own limit (net.core.somaxconn on Linux) may be "
        "lower.",
    ),
    Setting(
        "databases", Whole(1, MAX_INT32), 16, OLD,
        "Queues have no numbered databases.",
    ),
    Setting(
        "maxclients", Whole(1, 1_000_000), 10000, LIMITS,
        "How many clients may be connected at once. One more gets an error and is disconnected. The number is lowered "
        "at start when the system allows fewer open files.",
        mutable=True,
    ),
    Setting(
        "watchdog-period", Whole(0, MAX_INT32, "milliseconds"), 0, OLD,
        "Milliseconds between checks for a stuck process.",
        mutable=True,
    ),
    Setting(
        "hz", Clamped(1, 500, also=" (others are moved to the nearer of the two)"), 10, OLD,
        "Timers are exact without it.",
        mutable=True,
    ),
    Setting(
        "cluster-node-timeout", Whole(1, MAX_INT32, "milliseconds"), 15000, CLUSTER,
        "Milliseconds without an answer after which another node is marked as failed.",
        mutable=True,
    ),
    Setting(
        "tcp-keepalive", KeepAlive(0, 32767, "seconds", ", yes (300) or no (0)"), 300, NETWORK,
        "Seconds of silence on a connection before the system asks whether the other end is still there. So "
        "connections of dead clients are closed. 0 never asks.",
        mutable=True,
    ),
    Setting(
        "no-appendfsync-on-rewrite", YesNo(), False, JOURNAL,
        "Whether to skip fsync while the journal is being compacted. This means fewer delays on slow disks, but jobs "
        "of that time may be lost when the machine fails.",
        mutable=True,
    ),
    Setting(
        "daemonize", YesNo(), False, GENERAL,
        "Whether to run in the background and write the pidfile.",
    ),
    Setting(
        "activerehashing", YesNo(), True, OLD,
        "Hash tables always grow in small steps.",
        mutable=True,
    ),
    Setting(
        "aof-rewrite-incremental-fsync", YesNo(), True, OLD,
        "Compaction is always written in small steps.",
        mutable=True,
    ),
    Setting(
        "aof-load-truncated", YesNo(), True, JOURNAL,
        "Whether to start when the journal ends in the middle of a record, as it may after a crash. With yes, the torn "
        "end is reported and cut off. With no, the node does not start, and `disque check-aof --fix` repairs the "
        "journal.",
        mutable=True,
    ),
    Setting(
        "aof-enqueue-jobs-once", YesNo(), False, JOURNAL,
        "Whether to put the jobs that were queued back into their queues at the next start, even if appendonly is no. "
        "The option then sets itself to no in this file, so it cannot be used with several processes.",
        mutable=True,
    ),
    Setting(
        "maxmemory-policy", OneOf("acks", "noeviction"), "acks", LIMITS,
        "What may be evicted over 95 % of maxmemory. acks: acknowledgements that other nodes have not confirmed, and "
        "jobs with RETRY 0 that were delivered. noeviction: nothing.",
        mutable=True,
    ),
    Setting(
        "loglevel", OneOf("debug", "verbose", "notice", "warning"), "notice", GENERAL,
        "How much is logged: debug, verbose, notice, or warning, from most to least.",
        mutable=True,
    ),
    Setting(
        "appendfsync", OneOf("always", "everysec", "no"), "everysec", JOURNAL,
        "When the journal is forced to the disk. always: before a command is answered, so nothing that was promised is "
        "lost even if the machine fails. everysec: once a second. no: when the system does it.",
        mutable=True,
    ),
    Setting(
        "syslog-facility", OneOf("user", *[f"local{number}" for number in range(8)]), "local0", GENERAL,
        "The facility for the system log: user, or local0 to local7.",
    ),
    Setting(
        "appendonly", YesNo(), False, JOURNAL,
        "Whether jobs are kept in a journal (the append-only file, AOF), from which they come back after a restart or "
        "a crash. With no, they are gone when the node stops.",
        mutable=True,
    ),
    Setting(
        "dir", Directory(), ".", GENERAL,
        'The directory that the process changes into at this line. The journal and the nodes file are there, and '
        'relative paths after this line count from it. "." is where the process was started. It cannot be changed '
        'while appendonly is yes.',
        mutable=True,
    ),
    Setting(
        "client-output-buffer-limit", OutputLimits(),
        ("normal", str(1 * GB), str(32 * MB), "60", "pubsub", str(32 * MB), str(8 * MB), "60"), LIMITS,
        "Bounds for the replies that a client does not read. The client is disconnected when they reach the hard "
        "limit, or stay above the soft limit for that many seconds. 0 is no limit. A client with unread replies is not "
        "served, so little more than one reply collects. The hard limit must hold the largest reply: twice "
        "proto-max-bulk-len. The soft limit keeps many such clients from using up the memory of the node: 32mb unread "
        "for a minute means that nobody reads. Raise it for very large bodies over slow networks. A client in MONITOR "
        "gets what all others do, and may be above the soft limit for one second. The class pubsub is of clients that "
        "have subscribed to channels: what they miss grows without end. Each class is set by itself, or both at once.",
        mutable=True,
    ),
    Setting(
        "unixsocketperm", Permissions(), 0, NETWORK,
        "Permissions of the Unix socket, in octal. 0 keeps those that the system gives.",
    ),
    Setting(
        "bind", Addresses(16), (), NETWORK,
        "The addresses to listen on, at most 16. One that begins with - may be missing on this machine. Without any "
        "address, the node listens on all, IPv6 and IPv4.",
        example="127.0.0.1 -::1",
    ),
    Setting(
        "appendfilename", FileName(), "disque.aof", JOURNAL,
        "The name of the journal's files, in dir. A number follows it.",
    ),
    Setting(
        "aof-segment-size", Size(64 * KB, 64 * GB), 64 * MB, JOURNAL,
        "The journal is a row of segment files of about this many bytes. Compaction frees one at a time, so small "
        "segments give space back sooner.",
        mutable=True,
    ),
    Setting(
        "cluster-config-file", NeededPath(), "nodes.conf", CLUSTER,
        "The file, in dir, for the ID of the node and the nodes that it knows. The node writes it. Do not edit it. "
        "Every node needs its own.",
    ),
    Setting(
        "syslog-enabled", YesNo(), False, GENERAL,
        "Whether log lines also go to the system log.",
    ),
    Setting(
        "syslog-ident", Text(128, "a name"), "disque", GENERAL,
        "The name of this process in the system log.",
    ),
    Setting(
        "protected-mode", YesNo(), True, SECURITY,
        "Whether a node without a password refuses clients from other machines.",
        mutable=True,
    ),
    Setting(
        "enable-debug-command", OneOf("no", "yes", "local"), "local", SECURITY,
        "Who may use DEBUG, which can drop all jobs, block the node or crash it. local: clients on this machine, and "
        "those of the Unix socket. yes: everybody who may connect. no: nobody.",
    ),
    Setting(
        "proto-max-bulk-len", Size(1 * KB, 1000 * MB), 64 * MB, LIMITS,
        "The longest argument of a command, in bytes, and so the largest body of a job. At most 1000mb, since a job is "
        "one record of the journal. Nodes tell each other their value: a job is copied and moved only to nodes that "
        "take its body. 512mb, the value of Disque 1.0, is possible. Large bodies cost memory on each node and for "
        "each connection that they pass, and some seconds at a restart, when the journal is read.",
        mutable=True,
    ),
    Setting(
        "maxmemory-clients", Size(0, MAX_SIZE), 1 * GB, LIMITS,
        "The memory for replies that clients do not read, in bytes, all clients together. Beyond it, those with the "
        "most are disconnected. 0 is no limit.",
        mutable=True,
    ),
    Setting(
        "client-query-buffer-limit", Size(64 * KB, 1024 * GB), 1 * GB, LIMITS,
        "The bytes of requests of one client that may be in memory before they are served. A client with more is "
        "disconnected. It must exceed proto-max-bulk-len.", mutable=True,
    ),
    Setting(
        "rename-command", Renames(), (), SECURITY,
        "Gives a command another name, or removes it if the new name is empty. May be given several times. The order "
        "of the lines counts.",
        gettable=False, example='DEBUG ""',
    ),
    Setting(
        "cluster-bus-port", Whole(0, 65535), 0, CLUSTER,
        "The TCP port for other nodes, on the addresses of bind. 0 is port + 10000, or tls-port + 10000 with port 0. "
        "Without either there is no bus port, and the node stays alone.",
    ),
    Setting(
        "cluster-announce-ip", HostName(), "", CLUSTER,
        "The address that other nodes and clients use for this node, if it is not the one that they see, as behind "
        "NAT.",
        mutable=True, example="192.0.2.10",
    ),
    Setting(
        "cluster-announce-port", Whole(0, 65535), 0, CLUSTER,
        "The port that is announced to clients. 0 is port, or tls-port with port 0.", mutable=True,
    ),
    Setting(
        "cluster-announce-bus-port", Whole(0, 65535), 0, CLUSTER,
        "The port that is announced to other nodes. 0 is cluster-bus-port.", mutable=True,
    ),
    Setting(
        "cluster-seeds", Seeds(64), (), CLUSTER,
        "Nodes to join. Write @busport after the port where that is not port + 10000. As long as this node knows no "
        "others, except those of its zone, it introduces itself to each of them. When it has reached none of the "
        "others for cluster-node-timeout, it looks for them there, in case that all have got other addresses. All "
        "nodes of a cluster can have the same list.", mutable=True, example="disque-1:7711 disque-2:7711 disque-3:7711",
    ),
    Setting(
        "cluster-secret", Text(512, "a secret"), "", CLUSTER,
        "A secret that all nodes of a cluster share, and nobody else knows. Links between nodes begin with a proof of "
        "it. Without one, the node links only to nodes on the same machine. Use a long random text. It encrypts "
        "nothing: see tls-cluster.",
        mutable=True, example='"a long secret"', secret=True,
    ),
    Setting("processes", Whole(1, 64), 1, GENERAL,
        "How many nodes to run as one service. Each is a process and uses one core. They listen on port and those "
        "after it. Each has a directory of its own in dir, named after its port. They share this file, so CONFIG "
        "REWRITE is refused. maxmemory is for each of them. Older files call this option workers."),
    Setting("cluster-zone", Label(), "", CLUSTER,
        "A label for what fails together with this node, such as its host, rack or power supply. Nodes with the same "
        "label are a zone. Copies of a job go to different zones. Two copies in one zone count as two only when no "
        "other zone without a copy can be reached and takes one. Without a label, a node is a zone of its own. The "
        "processes of one service are one zone.", example="rack-1"),
    Setting(
        "default-replicate", Whole(0, 65535, "copies"), 0, CLUSTER,
        "How many nodes have a copy of a job if its ADDJOB does not say REPLICATE. 0 is 3, or as many as there are "
        "nodes, including those that are down. 2 suits three nodes, since one of them may be away.", mutable=True,
    ),
    Setting(
        "restart-grace", Whole(0, 86400, "seconds"), 60, CLUSTER,
        "For this many seconds a node that stopped or died still counts for REPLICATE, unless it announced that it "
        "leaves. ADDJOB waits until the node is back or another node takes the copy, up to its own timeout. After "
        "that, and at once with 0, the answer is -NOREPL. Jobs that wait take memory, so over 75 % of maxmemory there "
        "is no such wait.",
        mutable=True,
    ),
    Setting(
        "history-queues", Whole(0, 1_000_000, "queues"), 10_000, LIMITS,
        "For how many queues QHISTORY knows what happened. A further queue replaces one that had no traffic for an "
        "hour. Each takes 2 KB to 16 KB, which count for maxmemory. 0 keeps nothing.", mutable=True,
    ),
    Setting(
        "cluster-forget-after", Whole(1, MAX_INT32, "seconds"), 86400, CLUSTER,
        "Seconds after which a node that cannot be reached is forgotten, as by CLUSTER FORGET.", mutable=True,
    ),
    Setting(
        "cluster-repair-after", Whole(0, MAX_INT32, "seconds"), 600, CLUSTER,
        "Seconds after which the copies of jobs on a node that cannot be reached count as lost. Then the other nodes "
        "that have these jobs make copies elsewhere, until there are as many as REPLICATE says. 0 never does that by "
        "itself; CLUSTER REPAIR, CLUSTER FORGET and CLUSTER LEAVING still do.", mutable=True,
    ),
    Setting(
        "max-result-bytes", Size(0, 64 * MB), 1 * MB, LIMITS,
        "The longest result of a job, in bytes, that ACKJOB RESULT takes. A result is copied to the nodes that have "
        "the job, and kept in memory and in the journal for the RETAIN of the job. 0 takes none but the empty one.",
        mutable=True,
    ),
    Setting(
        "registry-max-bytes", Size(64 * KB, MAX_SIZE), 64 * MB, CLUSTER,
        "The bytes of settings that all nodes share, such as queues that are paused at all of them. Beyond it no more "
        "can be set. Those that other nodes have set are accepted up to twice as much. Give all nodes the same value.",
        mutable=True,
    ),
    Setting(
        "tls-cluster", YesNo(), False, CLUSTER,
        "Whether links between nodes are encrypted with TLS. All nodes must have the same value. Each needs a "
        "certificate of tls-ca-cert-file. Names in certificates are not checked. cluster-secret is needed as well.",
    ),
    Setting(
        "tls-cert-file", Path(), "", TLS,
        "The certificate of this node, and those between it and the authority. It is for clients and, with "
        "tls-cluster, for other nodes. SIGHUP reads all files of certificates anew. If they cannot be used, those that "
        "were read before stay in use.",
        mutable=True,
        example='"/etc/disque/node.crt"',
    ),
    Setting(
        "tls-key-file", Path(), "", TLS, "The private key of this node, without a passphrase.",
        mutable=True,
        example='"/etc/disque/node.key"',
    ),
    Setting(
        "tls-ca-cert-file", Path(), "", TLS,
        "The authority whose certificates are trusted: those of nodes, with tls-cluster, and those of clients, unless "
        "tls-auth-clients is no. Use one of your own that signs nothing else.",
        mutable=True, example='"/etc/disque/ca.crt"',
    ),
    Setting(
        "tls-port", Whole(0, 65535), 0, TLS,
        "The TCP port for clients with TLS, on the addresses of bind. 0 is none. With port 0 it is the only port for "
        "clients: it is announced to clients, and the bus port follows from it.",
    ),
    Setting(
        "tls-auth-clients", OneOf("yes", "no", "optional"), "yes", TLS,
        "Whether clients must show a certificate of tls-ca-cert-file on tls-port. yes: clients without one are "
        "refused. optional: a certificate that is shown must be valid. no: none is asked for. A certificate does not "
        "replace the password: see requirepass and tls-auth-clients-user.",
        mutable=True,
    ),
    Setting(
        "ignore-journal", Switch(), False, JOURNAL,
        "Whether to start beside a journal with appendonly no, without its jobs. By default such a start stops, since "
        "the jobs would seem to be lost. The files are not changed. If the journal is switched on later, they are "
        "first renamed to <file>.ignored. This option has no effect with appendonly yes.",
    ),
    Setting(
        "user", UserLines(), (), SECURITY,
        "A user of this node, with the rules of ACL SETUSER: on or off, >password or #sha256, ~queues, &channels, "
        "+command, -command, +@category. May be given several times, for another user each. ACL cannot change these "
        "users at this node, and other nodes do not learn of them. All nodes keep users of ACL SETUSER instead.",
        gettable=False, example='alice on ">a long password" ~mails* +@consume +ping',
    ),
    Setting(
        "tls-auth-clients-user", OneOf("off", "CN"), "off", TLS,
        "Whether the certificate of a client names its user. CN: the common name of its subject does, and the client "
        "is logged in as that user without a password. If there is no such user, or it is off, the client is what it "
        "would be without a certificate.",
        mutable=True,
    ),
    Setting(
        "acllog-max-len", Whole(0, 10_000), 128, SECURITY,
        "How many entries ACL LOG keeps.",
        mutable=True,
    ),
)
# fmt: on

BY_NAME: Final[dict[str, Setting]] = {setting.name: setting for setting in SETTINGS}
#: Former names of options: files, the command line and CONFIG GET know them still.
ALIASES: Final[dict[str, str]] = {"workers": "processes"}
#: Settings whose values are not shown to those who watch.
SECRETS: Final = frozenset({setting.name for setting in SETTINGS if setting.secret})
_GETTABLE: Final = tuple((setting.name, setting.name.encode()) for setting in SETTINGS if setting.gettable)


class Config:
    """A value for every setting: the defaults at first, then what file, command line and CONFIG SET made of them.

    The accessors take the name of a row of `SETTINGS`; another name is a KeyError, another type a failed assertion.
    """

    __slots__ = ("_included", "_values")

    def __init__(self) -> None:
        self._values: Final[dict[str, Value]] = {setting.name: setting.default for setting in SETTINGS}
        self._included: Final[set[str]] = set()

    def number(self, name: str) -> int:
        """Give the value of a number, a size in bytes, or permissions."""
        value = self._values[name]
        assert isinstance(value, int)
        assert not isinstance(value, bool)
        return value

    def flag(self, name: str) -> bool:
        """Give the value of a switch."""
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def text(self, name: str) -> str:
        """Give the value of a text, path or choice; `kinds.as_bytes` makes its bytes."""
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Give the value of a list of words."""
        value = self._values[name]
        assert isinstance(value, tuple)
        return value

    def output_limits(self, kind: str) -> tuple[int, int, int]:
        """Give hard bytes, soft bytes and soft seconds of client-output-buffer-limit for a class; 0 is no limit."""
        words = self.words("client-output-buffer-limit")
        at = words.index(kind) + 1
        hard, soft, seconds = words[at : at + 3]
        return int(hard), int(soft), int(seconds)

    def renames(self) -> tuple[tuple[str, str], ...]:
        """Give the pairs (old name, new name or "") of rename-command, in their order."""
        names = self.words("rename-command")
        return tuple(zip(names[::2], names[1::2], strict=True))

    def put(self, name: str, words: tuple[str, ...], *, included: bool = False) -> None:
        """Take a line of the file or of the command line, its name in lower case.

        `included` says that the line is from an included file, which CONFIG REWRITE must know.
        Raises SettingError, with the text of Disque 1.0 and a hint, if the words are none for this option.
        """
        setting = BY_NAME[name]
        kind = setting.kind
        if not kind.min_words <= len(words) <= kind.max_words:
            raise SettingError("Bad directive or wrong number of arguments", setting.usage())
        value = kind.parse(words)
        if value is None:
            raise SettingError(kind.complaint(name, words), setting.usage())
        self._values[name] = kind.merge(self._values[name], value)
        if included:
            self._included.add(name)

    def set_text(self, name: str, value: str) -> None:
        """Do what CONFIG SET does: the name in any case, the value as one text.

        Raises SettingError with the text of Disque 1.0, and changes nothing then.
        """
        setting, parsed = self._checked(name, value)
        self._values[setting.name] = setting.kind.merge(self._values[setting.name], parsed)

    def check_text(self, name: str, value: str) -> None:
        """Raise what `set_text` would raise, and change nothing: for options that need an act before they count."""
        self._checked(name, value)

    def _checked(self, name: str, value: str) -> tuple[Setting, Value]:
        setting = BY_NAME.get(name.lower())
        if setting is None:
            raise SettingError(f"Unsupported CONFIG parameter: {name}")
        if not setting.mutable:
            raise SettingError(
                f"CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config: "
                "it is read when the server starts"
            )
        parsed = setting.kind.parse((value,))
        if parsed is None:
            raise SettingError(f"Invalid argument '{value}' for CONFIG SET '{name}'", setting.usage())
        return setting, parsed

    def get_text(self, name: str) -> str:
        """Give the value as CONFIG GET shows it."""
        return BY_NAME[name].kind.show(self._values[name])

    def file_text(self, name: str) -> str:
        """Give the value as it stands behind the name in a configuration file."""
        return BY_NAME[name].kind.write(self._values[name])

    def matching(self, pattern: bytes) -> list[tuple[str, str]]:
        """Give names and values that CONFIG GET shows for a glob pattern (case-sensitive), in its order."""
        alias = as_text(pattern).lower()
        if alias in ALIASES:
            return [(alias, self.get_text(ALIASES[alias]))]
        glob = Glob(pattern)
        return [(name, self.get_text(name)) for name, raw in _GETTABLE if glob.matches(raw)]

    def is_default(self, name: str) -> bool:
        """Say whether the value is the default one."""
        return self._values[name] == BY_NAME[name].default

    def is_unset(self, name: str) -> bool:
        """Say whether the value is nothing, for an option that may be left out of a file altogether."""
        return bool(BY_NAME[name].example) and not self._values[name]

    def is_included(self, name: str) -> bool:
        """Say whether an included file had a line of this option."""
        return name in self._included

    def changed(self) -> dict[str, str]:
        """Give the options that differ from their default, with their text (passwords too: not for a log)."""
        return {name: self.get_text(name) for name in self._values if not self.is_default(name)}
