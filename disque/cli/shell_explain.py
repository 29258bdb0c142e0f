"""The meaning of each word of a command: a line for `help`, beside the usage and the summary of the command table.

A word is found by the command (and subcommand), and by the first word of its part of the usage: `REPLICATE` explains
`[REPLICATE n]`. A test checks that no word of any usage is left out.
"""

from collections.abc import Mapping
from typing import Final

_ID: Final = {"id": "ID of a job, as ADDJOB and GETJOB give it"}
_NODE_WIDE: Final = "here, on this node"
_ON_OFF: Final = {"ON|OFF": "any; it changes nothing"}
_COUNT: Final = "about this many at a time (100)"

EXPLAINED: Final[Mapping[str, Mapping[str, str]]] = {
    "addjob": {
        "queue": "name of the queue, which need not exist before",
        "body": "what consumers get: any bytes",
        "ms-timeout": "wait at most this many milliseconds for the copies; 0: no limit",
        "REPLICATE": "how many nodes have the job before its ID is answered",
        "DELAY": "seconds before it is delivered for the first time (0)",
        "RETRY": "seconds until it is delivered again, unless acknowledged; 0: never (a tenth of the TTL, at most 300)",
        "TTL": "seconds that it lives, delivered or not (86400)",
        "MAXLEN": f"refuse the job if the queue has n jobs or more {_NODE_WIDE}",
        "UNIQUE": "add nothing while a job with this key was added less than s seconds ago; 0: while it is alive",
        "ASYNC": "answer at once, and make the copies afterwards",
    },
    "getjob": {
        "NOHANG": "answer at once, also when there is no job",
        "TIMEOUT": "wait at most this many milliseconds (for ever)",
        "COUNT": "up to this many jobs (1)",
        "BYTES": "end with the job with which their bodies come to n bytes",
        "NOBODY": "sizes instead of bodies",
        "WITHCOUNTERS": "say also how often each was given back, and delivered again",
        "FROM": "queues, in the order in which they are asked; this comes last",
        "queue": "name of a queue",
    },
    "ackjob": _ID,
    "fastack": _ID,
    "deljob": _ID,
    "nack": {
        **_ID,
        "DELAY": "seconds before it is in its queue again (0)",
        "NOCOUNT": "do not count this: nobody has begun to work on it",
    },
    "working": _ID,
    "enqueue": _ID,
    "dequeue": _ID,
    "show": _ID,
    "qlen": {"queue": "name of a queue", "CLUSTER": "all nodes that can be reached together"},
    "find": {"queue": "name of a queue", "key": "what ADDJOB named behind UNIQUE"},
    "qpeek": {"queue": "name of a queue", "count": "this many jobs, oldest first; negative: newest first"},
    "qstat": {"queue": "name of a queue", "CLUSTER": "all nodes that can be reached together"},
    "qscan": {
        "cursor": "0 to begin, then what the last reply began with, until that is 0 (0)",
        "COUNT": _COUNT,
        "BUSYLOOP": "all in one reply",
        "MINLEN": "only queues with n jobs or more",
        "MAXLEN": "only queues with n jobs or fewer",
        "IMPORTRATE": "only queues that get n jobs a second or more from other nodes",
    },
    "jscan": {
        "cursor": "0 to begin, then what the last reply began with, until that is 0 (0)",
        "COUNT": _COUNT,
        "BUSYLOOP": "all in one reply",
        "QUEUE": "only jobs of this queue",
        "STATE": "only jobs in this state: wait-repl, active, queued, acked; may come several times",
        "REPLY": "ALL: what SHOW gives for each; ID: only the IDs (ID)",
    },
    "pause": {"queue": "name of a queue"},
    "auth": {"user": "name of the user; there is only `default`", "password": "that of requirepass"},
    "hello": {
        "2|3": "version of RESP that this connection speaks from now on; without it, list the nodes",
        "AUTH": "log in as well",
        "SETNAME": "name the connection as well",
    },
    "ping": {"message": "answer this instead of PONG"},
    "echo": {"message": "any bytes"},
    "select": {"0": "the only database"},
    "client list": {"TYPE": "connections of this kind; there is no other", "ID": "only connections with these numbers"},
    "client kill": {
        "ip:port": "the one connection from this address",
        "ID": "the connection with this number",
        "ADDR": "the connection from this address",
        "LADDR": "connections to this address of the node",
        "TYPE": "all of them; there is no other kind",
        "SKIPME": "spare this connection (yes)",
    },
    "client setname": {"name": "without spaces; shown by CLIENT LIST"},
    "client setinfo": {"LIB-NAME|LIB-VER": "what is told: the name or the version", "value": "without spaces"},
    "client pause": {"ms": "for this many milliseconds"},
    "client reply": {"ON|OFF|SKIP": "always, never, or not the next time"},
    "client no-evict": _ON_OFF,
    "client no-touch": _ON_OFF,
    "info": {
        "section": "server, clients, memory, jobs, queues, cluster, persistence, stats, cpu, commandstats, or all",
    },
    "config get": {"pattern": "names, with * and ?"},
    "config set": {"name": "name of a setting", "value": "as CONFIG GET shows it"},
    "debug sleep": {"seconds": "for this long; decimals are possible"},
    "debug error": {"text": "of the error"},
    "debug restart": {"ms": "wait this long before"},
    "debug crash-and-recover": {"ms": "wait this long before"},
    "shutdown": {"REWRITE-AOF": "compact the journal before; write it if it is off"},
    "loadjob": {"blob": "a job as Disque 1.0 writes it"},
    "slowlog get": {"n": "this many (10)"},
    "latency history": {"event": "as LATENCY LATEST names it"},
    "latency reset": {"event": "as LATENCY LATEST names it (all)"},
    "latency graph": {"event": "as LATENCY LATEST names it"},
    "command info": {"name": "of a command (all)"},
    "command docs": {"name": "of a command (all)"},
    "cluster leaving": {"yes|no": "no takes it back; without a word, show the state"},
    "cluster meet": {
        "ip": "address or host name",
        "port": "where clients reach that node",
        "bus-port": "where nodes reach it (port + 10000)",
    },
    "cluster forget": {"id": "ID of the node, as CLUSTER NODES shows it"},
    "cluster reset": {"SOFT|HARD": "keep the ID of this node, or take a new one (SOFT)"},
}
