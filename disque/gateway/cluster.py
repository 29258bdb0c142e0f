"""The cluster as the gateway sees it: one client for the gateway itself, and one for each user who has logged in.

Rights are the servers' business. Who comes with a user and a password is served by connections of that user, so what
the user may not do is refused where it is known. Who comes without is served by connections without a password, which
nodes that want one refuse.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Final, TypeVar

from starlette.types import Receive

from disque.client import AsyncDisque, Config, DisqueError, NodeInfo
from disque.client.config import Address
from disque.gateway.asgi import unless_gone
from disque.gateway.circuit import Circuit, LostError, SilentError, unless
from disque.gateway.lane import Lane
from disque.gateway.patient import PatientDisque
from disque.gateway.polls import Polls, Terms
from disque.gateway.taken import WITHMETA, Taken, jobs_of

#: Users whose connections are kept.
USERS: Final = 64
#: With several nodes, a take that does not wait still lets other nodes answer for so long, in ms.
OTHERS_S: Final = 0.1

#: Names of queues of one node that a list looks at; seconds for which such a list counts.
NAMES_MOST: Final = 500_000
FRESH_S: Final = 2.0
#: After so many seconds nodes are asked again whether they let a user in; how they say that they do not.
ASKED_AGAIN_S: Final = 30.0
REFUSED: Final = frozenset({"NOAUTH", "WRONGPASS"})

T = TypeVar("T")


class Cluster:
    """All that is asked with the rights of one user."""

    def __init__(self, config: Config, circuit: Circuit) -> None:
        self.client = PatientDisque(config, circuit)
        self.circuit = circuit
        self.adding = Lane(self.client, config.timeout_ms, circuit)
        self.asking = Lane(self.client, 0, circuit)
        self.polls = Polls(self.client)
        self._single: dict[tuple[str, int], AsyncDisque] = {}
        #: What is to be done when it is closed.
        self.ends: list[Callable[[], None]] = []
        self._names: list[str] = []
        self._names_at_s = -FRESH_S
        #: When nodes let its user in last, in seconds of the clock of `Clusters`.
        self.let_in_s = 0.0

    async def take(
        self,
        queues: tuple[bytes, ...],
        count: int,
        how: tuple[bytes, ...],
        wait_s: float,
        receive: Receive | None = None,
    ) -> list[Taken]:
        """Up to ``count`` jobs as nodes give them; if there are none, wait so long for one.

        With ``receive`` the wait ends when the HTTP client leaves: GoneError. Raises DisqueError.
        """
        words = [b"GETJOB", b"NOHANG", b"COUNT", b"%d" % count, *how, WITHMETA, b"FROM", *queues]
        jobs = jobs_of(await self.asking.ask(words))
        if jobs:
            return jobs
        if not wait_s and self.client.router.count() > 1:
            wait_s = OTHERS_S
        if not wait_s:
            return []
        terms: Terms = (queues, how)
        wait = self.polls.wait(terms, wait_s)
        job = await (wait if receive is None else unless_gone(receive, wait))
        return [] if job is None else [job]

    async def soon(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what somebody waits for, and begin again if a node hangs meanwhile: it must only look, not change.

        Raises DisqueError, SilentError if no node answers.
        """
        router, circuit = self.client.router, self.circuit
        while True:
            if not circuit.spare(router) and not await circuit.is_back(router.addresses()):
                raise SilentError("no node answers")
            addresses, falls = router.addresses(), circuit.falls

            async def is_lost(addresses: list[Address] = addresses, falls: int = falls) -> bool:
                await circuit.look_at(addresses)
                current = router.current
                return circuit.falls != falls or (current is not None and circuit.is_silent(current))

            try:
                return await unless(work(), is_lost)
            except LostError:
                continue

    async def of_all(self, ask: Callable[[], Awaitable[T]], instead: Callable[[], Awaitable[T]]) -> T:
        """Have one node ask all others, and do something else while one of them hangs: it would be waited for.

        Raises DisqueError.
        """
        if self.circuit.quiet():
            return await instead()
        try:
            return await unless(ask(), self._one_hangs)
        except LostError:
            return await instead()

    async def _one_hangs(self) -> bool:
        await self.circuit.look_at([(node.host, node.port) for node in await self.nodes()])
        return bool(self.circuit.quiet())

    async def nodes(self) -> list[NodeInfo]:
        """All nodes, as one of them knows them. Raises DisqueError.

        A node that is alone may not know its own address: it is where it was asked. What is kept for the addresses of
        others is forgotten.
        """
        told = await self.client.nodes()
        host = (self.client.router.current or self.client.config.nodes[0])[0]
        nodes = [node if node.host else node._replace(host=host) for node in told]
        addresses = {(node.host, node.port) for node in nodes}
        self.circuit.keep([*self.client.router.addresses(), *addresses])
        for address in self._single.keys() - addresses:
            self.circuit.close_soon(self._single.pop(address))
        return nodes

    async def at_each(self, ask: Callable[[AsyncDisque], Awaitable[T]]) -> list[tuple[NodeInfo, T | DisqueError]]:
        """Ask all nodes at once; of each what it said. Raises DisqueError if no node tells who they are."""
        nodes = await self.nodes()
        answers = await asyncio.gather(*[self._at(node, ask) for node in nodes])
        return list(zip(nodes, answers, strict=True))

    async def _at(self, node: NodeInfo, ask: Callable[[AsyncDisque], Awaitable[T]]) -> T | DisqueError:
        try:
            return await self.ask_at(node, ask)
        except DisqueError as error:
            return error

    async def ask_at(self, node: NodeInfo, ask: Callable[[AsyncDisque], Awaitable[T]]) -> T:
        """Ask one node, once: one that is down or hangs must not hold up a page. Raises DisqueError."""
        return await self.circuit.ask((node.host, node.port), lambda: ask(self._client_of(node)))

    async def queue_names(self) -> list[str]:
        """The names of all queues, sorted, as they were a moment ago: pages of one list agree. Raises DisqueError."""
        now_s = time.monotonic()
        if now_s - self._names_at_s >= FRESH_S:
            answers = await self.at_each(scan_names)
            self._names = sorted(set[str]().union(*[found for _, found in answers if isinstance(found, set)]))
            self._names_at_s = now_s
        return self._names

    def _client_of(self, node: NodeInfo) -> AsyncDisque:
        address = (node.host, node.port)
        if address not in self._single:
            config = replace(self.client.config, nodes=(address,), discover=False, attempts=1)
            self._single[address] = AsyncDisque(config)
        return self._single[address]

    async def close(self) -> None:
        """End what waits, and close all connections."""
        for end in self.ends:
            end()
        await self.polls.close()
        for client in (self.client, *self._single.values()):
            await client.aclose()


async def scan_names(client: AsyncDisque) -> set[str]:
    """The names of the queues of a node."""
    found: set[str] = set()
    cursor = 0
    while len(found) < NAMES_MOST:
        cursor, names = await client.scan_queues(cursor, count=5000)
        found.update(names)
        if not cursor:
            break
    return found


class Clusters:
    """The cluster with the rights of whoever asks. ``own`` is the gateway itself."""

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock_s = clock_s
        self.circuit = Circuit(config)
        self.circuit.told = self._heard
        self.circuit.is_alone = self._is_alone
        self.own = Cluster(config, self.circuit)
        self._users: OrderedDict[bytes, Cluster] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def of(self, user: str | None, password: str | None, *, now: bool = False) -> Cluster:
        """The cluster for a user, or for somebody without a password.

        Raises DisqueError if the nodes do not let them in. Connections outlive a change of the password, so nodes are
        asked again from time to time, and with ``now`` at once. Who has not come for long is forgotten.
        """
        key = blake2b(repr((user, password)).encode(), digest_size=16).digest()
        found = self._users.get(key)
        if found is not None and (now or self._clock_s() - found.let_in_s >= ASKED_AGAIN_S):
            await self._look_again(key, found)
            found = self._users.get(key)
        if found is None:
            new = await self._let_in(replace(self.config, user=user, password=password))
            found = self._users.setdefault(key, new)
            if found is not new:  # somebody else with this password came at the same time
                self._retire(new)
            elif len(self._users) > USERS:
                self._retire(self._users.popitem(last=False)[1])
        self._users.move_to_end(key)
        return found

    async def _look_again(self, key: bytes, known: Cluster) -> None:
        """Whether nodes still let a user in, by a new connection. Raises DisqueError if they do not."""
        before_s, known.let_in_s = known.let_in_s, self._clock_s()
        try:
            self._retire(await self._let_in(known.client.config))
        except DisqueError as error:
            if error.code in REFUSED:
                if self._users.get(key) is known:
                    del self._users[key]
                    self._retire(known)
                raise
            known.let_in_s = before_s

    async def _let_in(self, config: Config) -> Cluster:
        """Ask a node once, so that those with a wrong password push nobody else out; any that other clients know."""
        cluster = Cluster(config, self.circuit)
        for other in (self.own, *self._users.values()):
            cluster.client.router.hear_of(other.client.router.addresses())
        try:
            await cluster.soon(cluster.client.ping)
        except BaseException:
            await cluster.close()
            raise
        cluster.let_in_s = self._clock_s()
        return cluster

    def _is_alone(self) -> bool:
        """Whether there is one node only."""
        return all(cluster.client.router.count() == 1 for cluster in (self.own, *self._users.values()))

    def _heard(self, address: Address, answers: bool) -> None:
        """A node has fallen silent, so others are asked from now on; or it answers again, and may be asked as well."""
        for cluster in (self.own, *self._users.values()):
            router = cluster.client.router
            if answers:
                router.worked(address)
                continue
            router.failed(address)
            for lane in (cluster.adding, cluster.asking):
                lane.step_aside(address)

    def _retire(self, cluster: Cluster) -> None:
        task = asyncio.get_running_loop().create_task(cluster.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @property
    def polls(self) -> int:
        """Long polls that wait at this moment."""
        return sum(cluster.polls.waiting for cluster in (self.own, *self._users.values()))

    async def end_polls(self) -> None:
        """Let all long polls end without a job."""
        await asyncio.gather(*[cluster.polls.close() for cluster in (self.own, *self._users.values())])

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self.own.close(), *[cluster.close() for cluster in self._users.values()])
        await self.circuit.close()
