"""I20: nobody without the right gets a reply with a job of a foreign queue."""

from typing import Any

from disque.core.model.registry import USER
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.process import Process
from tests.simulation.world import Violation

Rights = frozenset[bytes]

#: Requests whose replies name queues, and how.
TAKING = frozenset({b"GETJOB", b"QPEEK"})
SHOWING = frozenset({b"SHOW", b"RESULT"})


class Guarded:
    """What a client of a user gets, beside what that user may do as the registry of its node says it.

    Rights change while requests wait. What is taken out of a queue must be allowed when the reply is made; of what is
    shown, all that was allowed since the request came will do.
    """

    promise = "I20"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        #: By process and user, what the user might do, and from when on.
        self.past: dict[tuple[Process, bytes], list[tuple[int, Rights]]] = {}

    def flushing(self, process: Process) -> None:
        """Nothing has left yet: note who may do what now."""
        for name in self.world.options.user_names:
            past = self.past.setdefault((process, name), [(-1, frozenset())])
            rights = rights_of(process, name)
            if past[-1][1] != rights:
                past.append((self.world.now, rights))

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A request was executed."""
        del request, reply
        self.flushing(process)

    def left(self, process: Process, request: Request, reply: Any) -> None:
        """A reply begins to leave."""
        if request.user not in self.world.options.user_names or not isinstance(reply, list) or not reply:
            return
        if request.verb in TAKING:
            names = [entry[0] for entry in reply]
            since_ms = request.ready_ms
        elif request.verb in SHOWING:
            names = self.shown(reply)
            since_ms = request.ran_ms
        else:
            return
        allowed = self.allowed(process, request.user, since_ms)
        self.world.count("replies to users with some queues")
        for name in names:
            if name not in allowed:
                verb = request.verb.decode()
                text = f"{verb} of {request.user!r} at {process.name} gave a job of {name!r}, and he may {set(allowed)}"
                raise Violation(self.promise, text)

    def shown(self, reply: list[Any]) -> list[bytes]:
        """The queue of a job that is shown. Where only its end is known, that is the one to which it was added."""
        name = reply[reply.index(b"queue") + 1]
        if name is not None:
            return [name]
        known = self.cluster.watch.history.jobs.get(reply[reply.index(b"id") + 1])
        return [known.plan.queue] if known is not None and not known.moved else []

    def allowed(self, process: Process, user: bytes, since_ms: int) -> Rights:
        """The queues that a user might use at some moment from then on."""
        past = self.past.get((process, user), [])
        found: set[bytes] = set()
        for at, (begin_ms, rights) in enumerate(past):
            end_ms = past[at + 1][0] if at + 1 < len(past) else self.world.now
            if end_ms >= since_ms and begin_ms <= self.world.now:
                found |= rights
        return frozenset(found)

    def end(self) -> None:
        """The time is over: each node has the users that the registry says."""
        for process in self.cluster.processes():
            entries = [entry for entry in process.node.registry.entries() if entry.key[0] == USER and not entry.deleted]
            known = {name: user.describe() for name, user in process.node.users.by_name.items() if name != b"default"}
            if known != {entry.key[1]: entry.value for entry in entries}:
                raise Violation(self.promise, f"{process.name} has other users than its registry says: {known}")


def rights_of(process: Process, name: bytes) -> Rights:
    """The queues that the registry of a node allows a user: the rules of these tests name each as it is."""
    entry = process.node.registry.get((USER, name, b""))
    words = [] if entry is None else entry.value.split(b" ")
    return frozenset([word[1:] for word in words if word.startswith(b"~")])
