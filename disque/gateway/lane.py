"""Requests of many clients that travel to the cluster together.

What is asked within one iteration of the event loop leaves as one parcel, over one connection. While some parcels are
under way the next one grows, so the busier the gateway is, the less a request costs. Replies come in the order of
requests: one that a node lets wait holds back those behind it in its parcel. So what may wait long does not belong
here. If a node hangs, the parcels that wait for it do not hold up others.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from disque.client import AsyncDisque, DisqueError, UnavailableError
from disque.client.config import Address
from disque.client.delivery import Parcel, Reply, deliver
from disque.client.errors import typed
from disque.client.packing import pack
from disque.gateway.circuit import Circuit

#: Parcels that are under way at one time.
PARCELS: Final = 4
#: Requests of one parcel.
REQUESTS: Final = 256


#: Told of requests that were answered: the node, the name of the command, whether it was no error, and seconds.
Watch = Callable[[str, str, bool, float], None]
#: A request as it travels, and who waits for its reply.
Asked = tuple[bytes, "asyncio.Future[Reply]", bytes]


class Lane:
    """A way to the cluster. ``wait_ms`` is how long nodes may take by themselves for each of its requests."""

    def __init__(self, client: AsyncDisque, wait_ms: int = 0, circuit: Circuit | None = None) -> None:
        self.client = client
        self.wait_ms = wait_ms
        self.circuit = circuit or Circuit(client.config)
        self.watch: Watch | None = None
        self._waiting: list[Asked] = []
        self._under_way: dict[asyncio.Task[None], Parcel] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._called = False

    def ask(self, words: list[bytes]) -> "asyncio.Future[Reply]":
        """Send a request; what it becomes is the reply, or the `DisqueError`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((pack(words), answer, words[0]))
        if not self._called and len(self._under_way) < PARCELS:
            self._called = True
            loop.call_soon(self._leave)
        return answer

    def _leave(self) -> None:
        """Let those that wait travel, as far as there is a parcel for them."""
        self._called = False
        while self._waiting and len(self._under_way) < PARCELS:
            asked, self._waiting = self._waiting[:REQUESTS], self._waiting[REQUESTS:]
            parcel = Parcel([request for request, _, _ in asked], self.wait_ms)
            task = asyncio.get_running_loop().create_task(self._travel(asked, parcel))
            task.add_done_callback(self._arrived)
            if self.circuit.spare(self.client.router):
                self._under_way[task] = parcel
            else:
                self._aside.add(task)

    def step_aside(self, address: Address) -> None:
        """This node hangs: parcels that wait for it count no more as ones under way."""
        for task, parcel in list(self._under_way.items()):
            if parcel.answered_by in {address, None}:
                del self._under_way[task]
                self._aside.add(task)
        self._leave()

    def _arrived(self, task: "asyncio.Task[None]") -> None:
        self._under_way.pop(task, None)
        self._aside.discard(task)
        self._leave()

    async def _travel(self, asked: list[Asked], parcel: Parcel) -> None:
        client = self.client
        begun_s = time.monotonic()
        try:
            replies = await client.drive(deliver(client.router, client.config, parcel))
        except DisqueError as error:
            replies = [error if reply is None else reply for reply in error.results] or [error] * len(asked)
        except BaseException:
            for _, answer, _ in asked:
                if not answer.done():
                    answer.set_exception(UnavailableError("the request was given up"))
            raise
        if self.watch is not None:
            node, took_s = "{}:{}".format(*(parcel.answered_by or ("", 0))), time.monotonic() - begun_s
            for (_, _, name), reply in zip(asked, replies, strict=True):
                self.watch(node, name.decode("ascii").lower(), not isinstance(reply, Exception), took_s)
        for (_, answer, _), reply in zip(asked, replies, strict=True):
            if answer.done():
                continue
            wrong = typed(reply) if isinstance(reply, Exception) else None
            if wrong is None:
                answer.set_result(reply)
            else:
                answer.set_exception(wrong)
