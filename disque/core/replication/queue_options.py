"""Options of queues (QCONFIG): what they can be, and where they are looked up.

Each option of a queue is one entry of the registry, so all nodes agree on them. What was written in an ADDJOB comes
first, then what is set for its queue, then what is set for the longest beginning of its name, then the default of the
server. A job gets its options when it is added: a later change is for later jobs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from disque.core.base.numbers import SECONDS_MAX, parse_int, parse_seconds
from disque.core.model import backoff
from disque.core.model.defaults import DROP_OLDEST, OVERFLOW, Defaults, QueueDefaults
from disque.core.model.registry import Entry
from disque.core.model.request import DEFAULT_TTL
from disque.core.model.spec import BACKOFF, DEADLETTER, PRIORITY, REPL, RETAIN, TRIES, Row, Value

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of the name of a queue for dead letters.
NAME_MOST: Final = DEADLETTER.most - 1
#: Dead letters live so long at most: 45 days.
DEAD_TTL_MOST: Final = 45 * 86_400
#: A bound of the length of a queue is below.
MAXLEN_END: Final = 1 << 31
#: A queue that is too long takes no more jobs.
REFUSE: Final = b"refuse"
#: Bytes of the name of a queue or of a beginning of names, the star included.
QUEUE_MOST: Final = NAME_MOST + 1


def whole(least: int, most: int) -> Callable[[bytes], Value | None]:
    """Reads a whole number within bounds."""

    def read(word: bytes) -> Value | None:
        value = parse_int(word)
        return value if value is not None and least <= value <= most else None

    return read


def span(least: int, most: int) -> Callable[[bytes], Value | None]:
    """Reads seconds within bounds."""

    def read(word: bytes) -> Value | None:
        value = parse_seconds(word)
        return value if value is not None and least <= value <= most else None

    return read


def back_off(word: bytes) -> Value | None:
    """Reads a BACKOFF; the empty word is none."""
    found = backoff.parse(word) if word else None
    return (found.encoded() if found is not None else None) if word else b""


def queue_name(word: bytes) -> Value | None:
    """Reads the name of a queue for dead letters; the empty word: there is none."""
    return b"=" + word if len(word) <= NAME_MOST else None


def overflow(word: bytes) -> Value | None:
    """Reads what becomes of a queue that is too long."""
    return word.lower() if word.lower() in {REFUSE, DROP_OLDEST} else None


class Option:
    """One option of queues: how its word is read, what it must be, and the row of the job's spec, if it is one."""

    __slots__ = ("default", "means", "read", "row")

    def __init__(
        self, means: bytes, read: Callable[[bytes], Value | None], default: bytes, row: Row | None = None
    ) -> None:
        self.means = means
        self.read = read
        self.default = default
        self.row = row


#: The options, in the order in which they are shown. The defaults are those of the server as a client would write them.
OPTIONS: Final[dict[bytes, Option]] = {
    b"ttl": Option(b"a number of seconds above 0", span(1, SECONDS_MAX), b"%d" % DEFAULT_TTL),
    b"retry": Option(b"a number of seconds", span(0, SECONDS_MAX), b""),
    b"replicate": Option(b"a number between 1 and 65535", whole(1, REPL.most), b""),
    b"tries": Option(b"a number between 0 and 65535", whole(0, TRIES.most), b"0", TRIES),
    b"backoff": Option(b"kind:base[:max[:jitter]], as of ADDJOB, or empty", back_off, b"", BACKOFF),
    b"priority": Option(b"a number from 0 to 255", whole(0, PRIORITY.most), b"0", PRIORITY),
    b"retain": Option(b"a number of seconds between 0 and 31536000", span(0, RETAIN.most), b"0", RETAIN),
    b"deadletter": Option(b"the name of a queue with at most 512 bytes, or empty", queue_name, b"", DEADLETTER),
    b"dead-ttl": Option(b"a number of seconds between 1 and 3888000", span(1, DEAD_TTL_MOST), b"2592000"),
    b"maxlen": Option(b"a number of jobs, or 0 for no bound", whole(0, MAXLEN_END - 1), b"0"),
    OVERFLOW: Option(b"refuse or drop-oldest", overflow, REFUSE),
}


# -- entries of the registry -------------------------------------------------------------------------------------------


def is_option(entry: Entry) -> bool:
    """Whether an entry can be an option of queues. Those of later versions are kept, and mean nothing here."""
    _, name, field = entry.key
    if len(name) > QUEUE_MOST or not field:
        return False
    option = OPTIONS.get(field)
    return bool(entry.deleted) or option is None or option.read(entry.value) is not None


def is_ready(node: "Node", entry: Entry) -> bool:
    """An option of queues can take effect at any time."""
    del node, entry
    return True


def has_changed(node: "Node", entry: Entry, now_ms: int) -> None:
    """An option of queues has changed: the registry has noted that."""
    del node, entry, now_ms


def of(node: "Node", name: bytes) -> QueueDefaults | None:
    """The options of a queue; None if nothing is set for it."""
    defaults = node.registry.defaults
    if not defaults.by_name:
        return None
    if name in defaults.resolved:
        return defaults.resolved[name]
    found = resolve(defaults, name)
    defaults.remember(name, found)
    return found


def resolve(defaults: Defaults, name: bytes) -> QueueDefaults | None:
    """Look up what is set for a queue."""
    layers = defaults.layers(name)
    if not layers:
        return None
    found = QueueDefaults()
    for source, words in layers:
        for option, word in words.items():
            if option in OPTIONS and option not in found.words:
                found.words[option] = word
                found.sources[option] = source
    found.ttl = number(found, b"ttl")
    found.retry = number(found, b"retry")
    found.replicate = number(found, b"replicate")
    found.maxlen = number(found, b"maxlen")
    found.dead_ttl = number(found, b"dead-ttl")
    found.drops = found.words.get(OVERFLOW, REFUSE).lower() == DROP_OLDEST
    for field, kind in OPTIONS.items():
        if kind.row is not None and field in found.words:
            value = kind.read(found.words[field])
            if value is not None and value != kind.row.default:
                found.rows[kind.row.number] = value
    return found


def grows(node: "Node", name: bytes) -> None:
    """A new job is in a queue, or a dead letter: it may be too long now, see `overflow`."""
    defaults = node.registry.defaults
    if not defaults.dropping:
        return
    found = of(node, name)
    if found is not None and found.drops and found.maxlen > 0:
        node.overflowing[name] = None


def number(found: QueueDefaults, option: bytes) -> int:
    """The value of an option that is a number; -1 if it is not set."""
    if option not in found.words:
        return -1
    value = OPTIONS[option].read(found.words[option])
    return value if isinstance(value, int) else -1
