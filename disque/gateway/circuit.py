"""Nodes that hang: noticed within half a second, and not waited for again until they answer.

Who waits for a node looks after `PATIENCE_S` whether it still answers a PING. One that does is only slow, and is
waited for as long as it takes. One that does not is silent: it is told of as such at once, by all parts of a gateway,
and asked again behind the scenes, once a second at most and only while somebody wants it. `patient` has the client that
does not wait for it longer than `HUNG_S`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from disque.client import AsyncDisque, Config, DisqueError, UnavailableError
from disque.client.config import Address
from disque.client.router import Router

#: After so many seconds without an answer it is looked whether the node hangs; a PING may take so long.
PATIENCE_S = 0.3  # not Final: tests on a busy machine want more
PING_S = 0.25  # not Final: the same
#: What was sent to a node that is silent is waited for so long: it may only have been busy for a moment.
HUNG_S = 2.0  # not Final: the same
#: A node that has answered less than so many seconds ago does not hang.
HEARD_S: Final = 0.3
#: A silent node is asked again after so many seconds at the soonest; that PING may take so long.
AGAIN_S: Final = 1.0
SLOWLY_S: Final = 3.0

T = TypeVar("T")


class SilentError(UnavailableError):
    """A node does not answer, and is left alone for a moment."""


class LostError(Exception):
    """Work was given up, since a node that it may wait for hangs."""


class Circuit:
    """Which nodes are silent. One for a gateway; ``config`` is how it reaches nodes, ``clock_s`` monotonic seconds.

    ``told`` is called with the address of each node that falls silent (False), or answers again (True).
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock_s = clock_s
        self.told: Callable[[Address, bool], None] = lambda _, __: None
        #: Whether there is one node only. It has longer, since there is no other that could be asked.
        self.is_alone: Callable[[], bool] = lambda: False
        #: How often a node fell silent.
        self.falls = 0
        #: When each silent node is to be asked again.
        self._silent: dict[Address, float] = {}
        #: When nodes have answered a PING last.
        self._heard: dict[Address, float] = {}
        self._clients: dict[Address, AsyncDisque] = {}
        self._looking: dict[Address, asyncio.Task[bool]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def is_silent(self, address: Address) -> bool:
        """Whether a node did not answer the last time; if that was some time ago, it is asked again meanwhile."""
        again_s = self._silent.get(address)
        if again_s is not None and self._clock_s() >= again_s:
            self._silent[address] = self._clock_s() + AGAIN_S
            self._look(address, SLOWLY_S)
        return again_s is not None

    def quiet(self) -> list[Address]:
        """The nodes that are silent."""
        return [address for address in list(self._silent) if self.is_silent(address)]

    def spare(self, router: Router) -> bool:
        """Have a client ask nodes that answer, if there is one, which is said."""
        quiet = self.quiet()
        if quiet and set(router.addresses()) <= set(quiet):
            return False
        for address in quiet:
            router.failed(address)
        return True

    def keep(self, addresses: Iterable[Address]) -> None:
        """These are all nodes that there are: forget others, which have left."""
        gone = (self._silent.keys() | self._clients.keys()) - set(addresses) - self._looking.keys()
        for address in gone:
            self._silent.pop(address, None)
            self._heard.pop(address, None)
            if (client := self._clients.pop(address, None)) is not None:
                self.close_soon(client)

    def close_soon(self, client: AsyncDisque) -> None:
        """Close a client that nobody uses any more."""
        task = asyncio.get_running_loop().create_task(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def ask(self, address: Address, work: Callable[[], Awaitable[T]]) -> T:
        """Do what asks one node. Raises SilentError if that hangs, and what ``work`` raises."""
        if self.is_silent(address):
            raise silent(address)

        async def hangs() -> bool:
            await self.look_at([address])
            return address in self._silent

        try:
            return await unless(work(), hangs)
        except LostError:
            raise silent(address) from None

    async def look_at(self, addresses: Iterable[Address]) -> None:
        """Find out which of these nodes hang: they are silent from now on."""
        lately_s = self._clock_s() - HEARD_S
        unsure = [one for one in addresses if one not in self._silent and self._heard.get(one, 0.0) <= lately_s]
        patience_s = HUNG_S if unsure and self.is_alone() else PING_S
        if unsure:  # others wait for the same looks: whoever is cancelled must not cancel them, as `gather` does
            await asyncio.wait([self._look(one, patience_s) for one in unsure])

    async def is_back(self, addresses: Iterable[Address]) -> bool:
        """Whether one of these nodes, which are silent, answers now; those that are being asked are waited for."""
        there = list(addresses)
        looking = [self._looking[one] for one in there if one in self._looking]
        if looking:
            await asyncio.wait(looking, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
        return any(one not in self._silent for one in there)

    def _look(self, address: Address, patience_s: float) -> "asyncio.Task[bool]":
        """Begin to ask a node, unless that is under way."""
        task = self._looking.get(address)
        if task is None:
            task = self._looking[address] = asyncio.get_running_loop().create_task(self._answers(address, patience_s))
            task.add_done_callback(lambda _: self._looking.pop(address, None))
        return task

    async def _answers(self, address: Address, patience_s: float) -> bool:
        """Whether a node answers. One that refuses a connection does not hang: whoever asks it hears that at once."""
        client = self._clients.get(address)
        if client is None:
            client = AsyncDisque(replace(self._config, nodes=(address,), discover=False, attempts=1))
            self._clients[address] = client
        try:
            async with asyncio.timeout(patience_s):
                await client.ping()
        except TimeoutError:
            if address not in self._silent:
                self.falls += 1
                self.told(address, False)
            self._silent[address] = self._clock_s() + AGAIN_S
            return False
        except DisqueError:
            pass  # it says that, or its machine does
        self._heard[address] = self._clock_s()
        if self._silent.pop(address, None) is not None:
            self.told(address, True)
        return True

    async def close(self) -> None:
        """Close all connections."""
        for task in list(self._looking.values()):
            task.cancel()
        if self._closing:
            await asyncio.wait(self._closing)
        for client in self._clients.values():
            await client.aclose()


def silent(address: Address) -> SilentError:
    """The error for a node that hangs."""
    return SilentError(f"{address[0]}:{address[1]} does not answer")


async def unless(work: Awaitable[T], is_lost: Callable[[], Awaitable[bool]]) -> T:
    """Do something for as long as it takes, unless it is found to be lost. Raises LostError, and what it raises."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=PATIENCE_S))[0]:
            if await is_lost() and not task.done():
                raise LostError
        return task.result()
    finally:
        task.cancel()
