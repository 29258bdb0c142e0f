"""Somebody who listens at each node to all that is said there: `news` of clients, and what happens to jobs."""

from typing import TYPE_CHECKING

import hiredis

from disque.core import pubsub
from disque.core.model.pubsub import Event
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

#: What clients of a run publish on.
NEWS = b"news"


class Ears:
    """A listener without a connection."""

    def __init__(self, node: "Node", now_ms: int) -> None:
        self.node = node
        self.session = Session(0, b"ears", b"here", now_ms)
        self.reader = hiredis.Reader()
        node.sessions[self.session.id] = self.session
        pubsub.subscribe(node, self.session, NEWS, is_pattern=False)
        pubsub.subscribe(node, self.session, b"job:*", is_pattern=True)

    def news(self) -> list[bytes]:
        """What clients have said since this was asked last."""
        while self.node.pubsub.said:
            self.node.pubsub.say_next()
        pubsub.tell(self.node)
        for piece in self.session.out:
            self.reader.feed(piece)
        self.session.out.clear()
        found = []
        while (words := self.reader.gets()) is not False:
            found.append(words[2])
        return found

    def events(self) -> list[Event]:
        """What has happened to jobs since this was asked last."""
        events = list(self.node.pubsub.pending)
        self.node.pubsub.pending.clear()
        return events
