"""Names of channels of the server's pub/sub for what is published to fanout exchanges.

A message goes to the channel of its exchange, with its routing key behind it if it has one. A queue that was bound
without a key hears all of them; one with a key, or a pattern of topics, what fits, as with kombu's transport for Redis.
Long messages go in pieces. What waits for a busy consumer has a bound.
"""

from collections import OrderedDict, deque
from typing import Final, NamedTuple
from uuid import uuid4

from kombu.log import get_logger

LOG: Final = get_logger(__name__)
HEAD: Final = "kombu:fanout:"
#: Nodes take so much at once, less some room for a head; a piece begins with this byte, which no JSON does.
PIECE: Final = 200_000
MARK: Final = 0
#: Bytes of messages that are not whole yet.
INCOMPLETE_MOST: Final = 64 << 20
#: What each of those, and each of its pieces, counts for beside its bytes: empty ones take memory, too.
BEGUN_BYTES: Final = 600
PART_BYTES: Final = 50
#: Bytes of whole messages that wait for a consumer, and what each counts for beside its bytes.
WAITING_MOST: Final = 64 << 20
WAITING_BYTES: Final = 150
FULL: Final = (
    "%d messages from fanout exchanges are dropped, the last one for %r: "
    "the consumer is at its prefetch limit, and more than %d MB wait"
)
#: What patterns of channels give a meaning to.
SPECIAL: Final = frozenset("*?[]\\^")


class Topic(NamedTuple):
    """A channel, or a pattern of channels."""

    name: str
    is_pattern: bool = False


def channel_of(prefix: str, exchange: str, routing_key: str | None) -> str:
    """The channel that a message is published on."""
    name = f"{prefix}{HEAD}{exchange}"
    return f"{name}/{routing_key}" if routing_key else name


def topics_of(prefix: str, exchange: str, routing_key: str | None) -> list[Topic]:
    """What a queue listens to that was bound with this key."""
    head = channel_of(prefix, exchange, None)
    if not routing_key:
        return [Topic(head), Topic(f"{escaped(head)}/*", is_pattern=True)]
    key = routing_key.replace("#", "*")
    if "*" not in key:
        return [Topic(f"{head}/{key}")]
    return [Topic(f"{escaped(head)}/{'*'.join(map(escaped, key.split('*')))}", is_pattern=True)]


def escaped(text: str) -> str:
    """A text as a pattern that only it fits."""
    return "".join(f"\\{one}" if one in SPECIAL else one for one in text)


def cut(payload: bytes) -> list[bytes]:
    """What is published: the payload, or where that is long its pieces, each with a head that says which it is."""
    if len(payload) <= PIECE:
        return [payload]
    ident = uuid4().hex.encode()
    parts = [payload[at : at + PIECE] for at in range(0, len(payload), PIECE)]
    return [b"%c%b %d %d %b" % (MARK, ident, at, len(parts), part) for at, part in enumerate(parts)]


class _Begun:
    """A message that is not whole yet: its pieces, and the bytes that count for them."""

    def __init__(self, size: int) -> None:
        self.parts: list[bytes] = []
        self.size = size


class Joiner:
    """Pieces of long messages until they are whole. Those that never become whole make room for others.

    A piece comes once for each topic that fits its channel, so each topic has a message of its own.
    """

    def __init__(self) -> None:
        self._begun: OrderedDict[tuple[Topic, bytes], _Begun] = OrderedDict()
        self._bytes = 0

    def join(self, topic: Topic, piece: bytes) -> bytes | None:
        """The message that is whole with this piece; None while it is not. Raises ValueError for nonsense."""
        if not piece.startswith(b"%c" % MARK):
            return piece
        ident, at, count, part = piece[1:].split(b" ", 3)
        key = (topic, ident)
        begun = self._begun.pop(key, None)
        if begun is None:
            begun = _Begun(len(topic.name) + len(ident) + BEGUN_BYTES)
        else:
            self._bytes -= begun.size
        if int(at) != len(begun.parts):
            return None  # one was lost: the message is
        begun.parts.append(part)
        begun.size += len(part) + PART_BYTES
        if len(begun.parts) == int(count):
            return b"".join(begun.parts)
        self._begun[key] = begun
        self._bytes += begun.size
        while self._bytes > INCOMPLETE_MOST:
            self._bytes -= self._begun.popitem(last=False)[1].size
        return None


class Backlog:
    """Whole messages that nobody has taken yet, each with the queue that it is for.

    Consumers at their prefetch limit take none. The listener reads on all the same, so that it answers its node and is
    not cut off. So the oldest make room here, as in a queue with a limit in RabbitMQ.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queue: str, payload: bytes) -> None:
        """A message has come."""
        self._waiting.append((queue, payload))
        self._bytes += len(payload) + WAITING_BYTES
        while self._bytes > WAITING_MOST and len(self._waiting) > 1:
            self._drop()

    def _drop(self) -> None:
        """The oldest one goes. The log hears of it at the first, the second, the fourth and so on: it is no flood."""
        queue, _ = self.take()
        self._dropped += 1
        if self._dropped.bit_count() == 1:
            LOG.warning(FULL, self._dropped, queue, WAITING_MOST >> 20)

    def take(self) -> tuple[str, bytes]:
        """The oldest one, with its queue. Raises IndexError if there is none."""
        queue, payload = self._waiting.popleft()
        self._bytes -= len(payload) + WAITING_BYTES
        if not self._waiting:
            self._dropped = 0
        return queue, payload

    def clear(self) -> None:
        """Nobody wants them any more."""
        self._waiting.clear()
        self._bytes = self._dropped = 0
