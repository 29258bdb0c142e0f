"""Pub/sub: clients listen to channels, and hear what others publish there and what happens to jobs.

A message goes once to whoever listens at that moment, at all nodes, and is not kept: who is not there misses it, and a
link to another node that is far behind takes none. What happens to a job is told at the node where it happens only, on
`job:<event>:<queue>`; the message is the ID of the job. See `disque.core.model.pubsub`.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import PUBLISHED
from disque.core.model.pubsub import CHANNELS, JOB, Topic
from disque.core.model.session import Session, Subscriptions

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of the name of a channel or of a pattern.
NAME_MOST: Final = 4096
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
        node.pubsub.say(channel, text)


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
    """Hand what was gathered to those who listen."""
    pubsub = node.pubsub
    if pubsub.pending:
        pending, pubsub.pending = pubsub.pending, []
        for event, queue, job_id in pending:
            pubsub.say(CHANNELS[event] + queue, job_id)
    if pubsub.dirty:
        dirty, pubsub.dirty = pubsub.dirty, []
        for topic in dirty:
            hand_out(node, topic)


def hand_out(node: "Node", topic: Topic) -> None:
    """Give each subscriber the news of one topic, as one piece that all share."""
    news, topic.news = topic.news, []
    pieces = {2: b"", 3: b""}
    for session in topic.subscribers.values():
        protocol = session.protocol
        if not pieces[protocol]:
            first = b">" if protocol == 3 else b"*"
            pieces[protocol] = first + first.join(news)
        session.out.append(pieces[protocol])
        node.touch(session)
