"""The nodes of a cluster, asked one by one about jobs that only some of them know.

ADDJOB, GETJOB and ACKJOB may go to any node. SHOW, NACK and WORKING work only at a node that has a copy. So they are
sent first to the node that most likely has it, which delivered or made the job. If it does not know the job, the other
nodes are asked in turn.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from disque.client import Disque, DisqueError, NoPermError, UnavailableError
from disque.client.config import Address
from disque.client.delivery import Parcel, Reply, deliver
from disque.client.packing import pack
from disque.spark.connection import alone, impatient
from disque.spark.doors import PlainError

T = TypeVar("T")

#: Before nodes that did not answer are asked again, in seconds.
PAUSE_S: Final = 0.3
#: How long a node that failed is not asked again.
COOLDOWN_S: Final = 3.0

#: Makes of a client and IDs one reply for each ID.
Ask = Callable[[Disque, Sequence[str]], Sequence[Reply]]


class NodeError(PlainError, RuntimeError):
    """Something that is no node of Disque."""


class Answers(NamedTuple):
    """What was answered about each job that some node knows, and the addresses of nodes that did not answer."""

    known: dict[str, Reply]
    silent: list[Address]


class Nodes:
    """All nodes that a client knows of, each with a client of its own. For one thread.

    ``patience_ms``, if given, is the most that one node is waited for, instead of what the client says.
    """

    def __init__(
        self, client: Disque, clock: Callable[[], float] = time.monotonic, patience_ms: int | None = None
    ) -> None:
        self.client = client
        self._clock = clock
        self._patience_ms = patience_ms
        self._single: dict[Address, Disque] = {}
        self._silent_until_s: dict[Address, float] = {}

    def addresses(self) -> list[Address]:
        """All nodes that are known now. Raises UnavailableError if none answers while none was asked before."""
        if not self._single:
            greet(self.client)
        return self.client.router.addresses()

    def answering(self) -> list[tuple[Address, Disque]]:
        """The nodes that have not failed just now; all of them if that were none."""
        now_s = self._clock()
        every = self.addresses()
        well = [address for address in every if self._silent_until_s.get(address, 0.0) <= now_s]
        return [(address, self.one(address)) for address in well or every]

    def one(self, address: Address) -> Disque:
        """The client of one node."""
        client = self._single.get(address)
        if client is None:
            config = alone(self.client.config, address)
            chosen = config if self._patience_ms is None else impatient(config, self._patience_ms)
            client = self._single[address] = Disque(chosen)
        return client

    def failed(self, address: Address) -> None:
        """This node did not answer: it is left alone for a while."""
        self._silent_until_s[address] = self._clock() + COOLDOWN_S

    def ask_each(self, *command: bytes) -> dict[Address, Reply]:
        """Send one command to all nodes; errors and nodes that do not answer are left out."""
        replies = self.ask_all([command])
        return {address: reply for address, [reply] in replies.items() if not isinstance(reply, DisqueError)}

    def ask_all(self, commands: Sequence[tuple[bytes, ...]]) -> dict[Address, list[Reply]]:
        """Send some commands to all nodes: the replies of those that answer, errors among them."""
        replies: dict[Address, list[Reply]] = {}
        for address, client in self.answering():
            try:
                replies[address] = send(client, commands)
            except DisqueError:
                self.failed(address)
        return replies

    def about(
        self, ids: Iterable[str], ask: Ask, known: Callable[[Reply], bool], first: Callable[[str], Address | None]
    ) -> Answers:
        """Ask about jobs: ``first`` the node that probably knows, then the others about what was not ``known``.

        Raises NoPermError if the user may not ask that: a node that says so is not silent.
        """
        reachable = dict(self.answering())
        silent = [address for address in self.addresses() if address not in reachable]
        found: dict[str, Reply] = {}
        left = list(dict.fromkeys(ids))
        for turn in range(len(reachable)):
            for address, group in grouped(left, list(reachable), first, turn).items():
                if address in silent:  # it may hang, and whoever waits for it holds no claims meanwhile
                    continue
                try:
                    replies = ask(reachable[address], group)
                except NoPermError:
                    raise
                except DisqueError:
                    self.failed(address)
                    silent.append(address)
                    continue
                found.update({one: reply for one, reply in zip(group, replies, strict=True) if known(reply)})
            left = [one for one in left if one not in found]
        return Answers(found, list(dict.fromkeys(silent)))

    def maker(self) -> Callable[[str], Address | None]:
        """What tells the node that made a job, by the digits of its ID that are those of the node."""
        made = {str(node_id)[:8]: address for address, node_id in self._ids().items()}
        return lambda job_id: made.get(job_id[2:10])

    def _ids(self) -> dict[Address, str]:
        replies = self.ask_each(b"CLUSTER", b"MYID")
        return {address: reply.decode() for address, reply in replies.items() if isinstance(reply, bytes)}

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self.close_others()

    def close_others(self) -> None:
        """Close all connections but those of the client that was given."""
        for client in self._single.values():
            client.close()


def grouped(
    ids: Iterable[str], addresses: Sequence[Address], first: Callable[[str], Address | None], turn: int
) -> dict[Address, list[str]]:
    """Which node to ask about which job in this turn: each turn another one, beginning with the one of ``first``."""
    groups: dict[Address, list[str]] = {}
    for one in ids:
        home = first(one)
        start = addresses.index(home) if home in addresses else 0
        groups.setdefault(addresses[(start + turn) % len(addresses)], []).append(one)
    return groups


def greet(client: Disque) -> None:
    """Learn the nodes. Raises NodeError where something else answers, such as a Redis."""
    request = [pack((b"HELLO",))]
    parcel = Parcel(request)
    [reply] = client.drive(deliver(client.router, client.config, parcel))
    if isinstance(reply, list) and reply[:1] == [1]:
        client.router.learned(parcel.answered_by or ("", 0), reply)
    elif not isinstance(reply, DisqueError) or "unknown command" in str(reply):
        where = "{}:{}".format(*(parcel.answered_by or ("", 0)))
        raise NodeError(f"the server at {where} is not a Disque node; is it a Redis? See the option 'hosts'")
    else:
        raise reply


def send(client: Disque, commands: Iterable[tuple[bytes, ...]], wait_ms: int = 0) -> list[Reply]:
    """Send commands in one pipeline: their replies, errors among them. Raises DisqueError if no node answers.

    ``wait_ms`` is how long a node may wait by itself before it answers one.
    """
    requests = [pack(command) for command in commands]
    return client.drive(deliver(client.router, client.config, Parcel(requests, wait_ms))) if requests else []


def patiently(
    work: Callable[[], T],
    patience_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Do ``work``, and do it anew for ``patience_s`` while no node can be used. Raises what it raises."""
    until_s = clock() + patience_s
    while True:
        try:
            return work()
        except UnavailableError:
            if clock() >= until_s:
                raise
        pause(PAUSE_S)


def nobody(job_id: str) -> Address | None:
    """No node is more likely than another."""
    del job_id
    return None
