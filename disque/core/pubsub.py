"""Pub/sub: clients listen to channels, and hear what others publish there and what happens to jobs.

A message goes once to whoever listens at that moment, at all nodes, and is not kept: who is not there misses it, and a
link to another node that is far behind takes none. What happens to a job is told at the node where it happens only, on
`job:<event>:<queue>`; the message is the ID of the job. As a reply, it waits for the records of the journal on which it
hangs: the pump lets events be told (`Pubsub.tell_next`) when these are safe, and what other nodes say
(`Pubsub.say_next`), a few at a time. See `disque.core.model.pubsub`.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import PUBLISHED
from disque.core.model.pubsub import JOB, Topic
from disque.core.model.session import Session, Subscriptions

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of the name of a channel, and of a pattern.
NAME_MOST: Final = 4096
PATTERN_MOST: Final = 256
#: Different patterns at one node: each is held against each channel on which something is said.
PATTERNS_MOST = 1000  # not Final: tests want fewer, compiled too
#: Bytes of a message.
MESSAGE_MOST: Final = 1 << 20
#: Channels and patterns that one connection may listen to.
SUBSCRIPTIONS_MOST: Final = 4096


def publish(node: "Node", channel: bytes, message: bytes) -> int:
    """Tell all who listen to ``channel``, at all nodes. Returns how many subscriptions here that are."""
    node.tell_all((PUBLISHED, channel, message))
    return node.pubsub.say(channel, message)


def published(node: "Node", peer: bytes, message: tuple[int, bytes, bytes], now_ms: int) -> None:
    """PUBLISHED: a client of ``peer`` says this."""
    del peer, now_ms
    _, channel, text = message
    if len(channel) > NAME_MOST or len(text) > MESSAGE_MOST or channel.startswith(JOB):
        node.messages_skipped += 1
    else:
        node.pubsub.published(channel, text)


def subscribe(node: "Node", session: Session, name: bytes, *, is_pattern: bool) -> None:
    """``session`` listens to a channel or a pattern from now on."""
    tell(node)  # what was said before is not for it
    if session.subscriptions is None:
        session.subscriptions = Subscriptions()
    session.subscriptions.names(are_patterns=is_pattern)[name] = None
    node.used += node.pubsub.subscribe(session, name, is_pattern=is_pattern)


def unsubscribe(node: "Node", session: Session, name: bytes, *, is_pattern: bool) -> None:
    """``session`` listens to that channel or pattern no more."""
    tell(node)  # what was said before still is
    subscriptions = session.subscriptions
    node.used -= node.pubsub.unsubscribe(session, name, is_pattern=is_pattern)
    if subscriptions is not None:
        subscriptions.names(are_patterns=is_pattern).pop(name, None)
        if not len(subscriptions):
            session.subscriptions = None


def leave(node: "Node", session: Session) -> None:
    """``session`` listens to nothing any more."""
    subscriptions = session.subscriptions
    if subscriptions is None:
        return
    for is_pattern in (False, True):
        for name in list(subscriptions.names(are_patterns=is_pattern)):
            unsubscribe(node, session, name, is_pattern=is_pattern)


def tell(node: "Node") -> None:
    """Hand what was said to those who listen: each hears all that concerns it in the order in which it was said."""
    pubsub = node.pubsub
    if not pubsub.dirty:
        return
    topics, pubsub.dirty = pubsub.dirty, []
    hears: dict[int, list[int]] = {}
    for place, topic in enumerate(topics):
        for number in topic.subscribers:
            hears.setdefault(number, []).append(place)
    pieces: dict[tuple[int, ...], bytes] = {}
    for number, places in hears.items():
        session = topics[places[0]].subscribers[number]
        key = (session.protocol, *places)
        piece = pieces.get(key)
        if piece is None:
            piece = pieces[key] = joined(session.protocol, [topics[place] for place in places])
        session.out.append(piece)
        node.touch(session)
    for topic in topics:
        topic.news = []


def joined(protocol: int, topics: list[Topic]) -> bytes:
    """The news of some topics as one piece, which all share who listen to the same of them."""
    first = b">" if protocol == 3 else b"*"
    news = topics[0].news
    if len(topics) > 1:
        news = sorted([one for topic in topics for one in topic.news])
    return first + first.join([text for _, text in news])
