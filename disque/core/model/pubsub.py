"""Pub/sub: who listens to which channels, and what they are about to hear.

A topic is one channel, or one pattern of channels, with its subscribers. What is published in one turn of the loop is
gathered by topic, and handed to each subscriber as one piece that others share, so a thousand subscribers cost a
thousand appends a turn, however much happens in it. Which topics a channel concerns is looked up once and kept until
topics come or go.

Channels `job:<event>:<queue>` tell what happens to jobs at this node. `heard` has a bit for each event that somebody
may be listening for: nothing is made of all others.

To find whom a new channel concerns takes a while where there are many patterns. So events, and what other nodes say,
wait in lines until the server has time for them. These have an end: what comes when they are full is not told.
"""

from collections import deque
from typing import Final

from disque.core.base import resp
from disque.core.base.glob import Glob
from disque.core.model.index import Index
from disque.core.model.session import Session

ADDED: Final = 1 << 0
READY: Final = 1 << 1
DELIVERED: Final = 1 << 2
ACKED: Final = 1 << 3
NACKED: Final = 1 << 4
RETRIED: Final = 1 << 5
DEAD: Final = 1 << 6
EXPIRED: Final = 1 << 7
CANCELLED: Final = 1 << 8
MOVED: Final = 1 << 9
DROPPED: Final = 1 << 10

#: The beginning of the channels that are the server's own.
JOB: Final = b"job:"
#: What stands before the name of the queue in the channel of each event.
CHANNELS: Final[dict[int, bytes]] = {
    ADDED: b"job:added:",
    READY: b"job:ready:",
    DELIVERED: b"job:delivered:",
    ACKED: b"job:acked:",
    NACKED: b"job:nacked:",
    RETRIED: b"job:retried:",
    DEAD: b"job:dead:",
    EXPIRED: b"job:expired:",
    CANCELLED: b"job:cancelled:",
    MOVED: b"job:moved:",
    DROPPED: b"job:dropped:",
}

#: What a subscription counts for in memory, beside the bytes of its name.
SUBSCRIPTION_BYTES: Final = 300
#: Channels of which is known whom they concern.
KNOWN_MOST: Final = 4096
#: Longer names of channels fit only patterns that end with their one star: all others would cost too much.
COMPARED: Final = 512
#: Events that may wait until they are told, and messages of other nodes, and the bytes of these.
WAITING_MOST = 100_000  # not Final: tests want fewer, compiled too
WAITING_BYTES: Final = 32 << 20


#: What has happened to a job: one of the numbers above, its queue then, its ID.
Event = tuple[int, bytes, bytes]


class Topic:
    """A channel, or with ``glob`` a pattern of channels, and those who listen to it, by the ID of their session.

    ``news`` are messages of this turn of the loop, each with its number, and without its first byte, which differs
    between protocols. ``number`` is that of a channel in the index of all channels.
    """

    __slots__ = ("events", "glob", "head", "name", "news", "number", "subscribers")

    def __init__(self, name: bytes, *, is_pattern: bool) -> None:
        self.name = name
        self.glob = Glob(name) if is_pattern else None
        self.head = (b"4\r\n$8\r\npmessage\r\n" if is_pattern else b"3\r\n$7\r\nmessage\r\n") + resp.bulk(name)
        self.events = events_of(name, is_pattern=is_pattern)
        self.subscribers: dict[int, Session] = {}
        self.news: list[tuple[int, bytes]] = []
        self.number = 0

    def head_of(self, channel: bytes) -> bytes:
        """What stands before each message of ``channel`` that its subscribers hear."""
        return self.head if self.glob is None else self.head + resp.bulk(channel)


class Pubsub:
    """The topics of a node, and what waits until it is told."""

    __slots__ = (
        "_counts",
        "_known",
        "_numbers",
        "channels",
        "count",
        "dirty",
        "heard",
        "index",
        "missed",
        "patterns",
        "pending",
        "said",
        "said_bytes",
        "size",
    )

    def __init__(self) -> None:
        self.heard = 0
        #: Events of jobs that nobody was told of yet, and what other nodes have said: channels, messages.
        self.pending: deque[Event] = deque()
        self.said: deque[tuple[bytes, bytes]] = deque()
        self.said_bytes = 0
        #: How many of both were not told, since too many waited.
        self.missed = 0
        self.channels: dict[bytes, Topic] = {}
        self.patterns: dict[bytes, Topic] = {}
        #: The channels, for walks through them.
        self.index: Index[Topic] = Index()
        #: Topics that have news.
        self.dirty: list[Topic] = []
        #: How many subscriptions there are.
        self.count = 0
        #: Bytes of memory that all subscriptions count for.
        self.size = 0
        self._numbers = 0
        self._counts = dict.fromkeys(CHANNELS, 0)
        self._known: dict[bytes, list[tuple[Topic, bytes]]] = {}

    def topics(self, *, are_patterns: bool) -> dict[bytes, Topic]:
        """The patterns, or the channels."""
        return self.patterns if are_patterns else self.channels

    def subscribe(self, session: Session, name: bytes, *, is_pattern: bool) -> int:
        """Let ``session`` listen. Returns the bytes that this costs."""
        topics = self.topics(are_patterns=is_pattern)
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = Topic(name, is_pattern=is_pattern)
            if not is_pattern:
                topic.number = self.index.add(topic)
            self._has_changed(topic, 1)
        if session.id in topic.subscribers:
            return 0
        topic.subscribers[session.id] = session
        size = SUBSCRIPTION_BYTES + len(name)
        self.size += size
        self.count += 1
        return size

    def unsubscribe(self, session: Session, name: bytes, *, is_pattern: bool) -> int:
        """Let ``session`` listen no more. Returns the bytes that this frees."""
        topics = self.topics(are_patterns=is_pattern)
        topic = topics.get(name)
        if topic is None or topic.subscribers.pop(session.id, None) is None:
            return 0
        if not topic.subscribers:
            del topics[name]
            if not is_pattern:
                self.index.drop(topic.number)
            self._has_changed(topic, -1)
        size = SUBSCRIPTION_BYTES + len(name)
        self.size -= size
        self.count -= 1
        return size

    def _has_changed(self, topic: Topic, by: int) -> None:
        """A topic has come or gone."""
        self._known.clear()
        for event in CHANNELS:
            if topic.events & event:
                self._counts[event] += by
                if self._counts[event]:
                    self.heard |= event
                else:
                    self.heard &= ~event

    def concerned(self, channel: bytes) -> list[tuple[Topic, bytes]]:
        """The topics that hear of what is said on ``channel``, and what stands before each message."""
        found = self._known.get(channel)
        if found is None:
            topic = self.channels.get(channel)
            topics = [] if topic is None else [topic]
            topics += [one for one in self.patterns.values() if one.glob is not None and fits(one.glob, channel)]
            found = [(one, one.head_of(channel)) for one in topics]
            if len(self._known) >= KNOWN_MOST:
                self._known.clear()
            self._known[channel] = found
        return found

    def say(self, channel: bytes, message: bytes) -> int:
        """Gather a message for all whom it concerns; how many subscriptions that are."""
        count = 0
        for topic, head in self.concerned(channel):
            self.note(topic, head + resp.bulk(message))
            count += len(topic.subscribers)
        return count

    def note(self, topic: Topic, text: bytes) -> None:
        """The subscribers of ``topic`` are to hear this."""
        if not topic.news:
            self.dirty.append(topic)
        self._numbers += 1
        topic.news.append((self._numbers, text))

    def happened(self, event: int, queue: bytes, job_id: bytes) -> None:
        """Something has happened to a job: it is noted if it is `heard`. Where every job passes, look at that first."""
        if not self.heard & event:
            return
        if len(self.pending) < WAITING_MOST:
            self.pending.append((event, queue, job_id))
        else:
            self.missed += 1

    def published(self, channel: bytes, message: bytes) -> None:
        """Another node says this: it is noted if anybody listens here."""
        if not self.count:
            return
        size = len(channel) + len(message)
        if len(self.said) < WAITING_MOST and self.said_bytes + size <= WAITING_BYTES:
            self.said.append((channel, message))
            self.said_bytes += size
        else:
            self.missed += 1

    def say_next(self) -> None:
        """Gather the oldest message of another node for those who listen."""
        channel, message = self.said.popleft()
        self.said_bytes -= len(channel) + len(message)
        self.say(channel, message)

    def tell_next(self) -> None:
        """Gather the oldest event for those who listen: what hangs on it must be as durable as promised by now."""
        event, queue, job_id = self.pending.popleft()
        for topic, head in self.concerned(CHANNELS[event] + queue):
            self.note(topic, b"%b$40\r\n%b\r\n" % (head, job_id))


def fits(glob: Glob, channel: bytes) -> bool:
    """Whether a channel is one of a pattern."""
    return (len(channel) <= COMPARED or glob.is_beginning()) and glob.matches(channel)


def events_of(name: bytes, *, is_pattern: bool) -> int:
    """The events of jobs that may be said on a channel, or on one that fits the pattern."""
    literal = name
    if is_pattern:
        for special in (b"*", b"?", b"[", b"\\"):
            literal = literal.partition(special)[0]
    found = 0
    for event, channel in CHANNELS.items():
        if literal.startswith(channel) or (literal != name and channel.startswith(literal)):
            found |= event
    return found
