"""The client with which a gateway asks nodes: it does not wait for one that hangs.

A request whose node falls silent (see `circuit`) is waited for another `HUNG_S`: most nodes that do not answer a PING
are only busy for a moment. Then its connection is given up, as if it had been lost: what is not answered yet goes to
another node, as `disque.client` always does it. So it may be done twice, unless it must not be sent twice.

The results of many jobs are waited for under a ration (see `rations`).
"""

import asyncio
from typing import Final

from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client import AsyncDisque, Config
from disque.client.async_pool import AsyncInterrupt
from disque.client.delivery import Exchange, Outcome, Step
from disque.client.ends import Ended
from disque.gateway import circuit as limits
from disque.gateway.circuit import Circuit
from disque.gateway.rations import RATION, Ration, RationedPool

#: Who waits long looks at its node so often, in seconds.
LOOKS_S: Final = 2.0


class PatientDisque(AsyncDisque):
    """A client that gives up nodes that hang. ``circuit`` knows which do."""

    def __init__(self, config: Config, circuit: Circuit) -> None:
        super().__init__(config)
        self.circuit = circuit
        self._pool = RationedPool(self.config, self.router.learned)

    async def ends(self, ids: list[bytes], most: int, timeout_s: float, *, any_one: bool) -> list[Ended | None]:
        """The same as `wait`; about ``most`` bytes of results are told, and LEFT_OUT stands for the others."""
        ration = Ration(most)
        token = RATION.set(ration)
        try:
            return await self.wait(*ids, timeout=timeout_s, any=any_one)
        finally:
            RATION.reset(token)
            ration.back_to(0)

    async def perform(
        self, step: Step, interrupt: AsyncInterrupt | None = None, outcome: Outcome | None = None
    ) -> Outcome:
        """Do one step of a flow, until its node is known to hang."""
        outcome = Outcome() if outcome is None else outcome
        doing = asyncio.ensure_future(super().perform(step, interrupt, outcome))
        if not isinstance(step, Exchange):
            return await doing
        try:
            if await self._hangs(step, doing):
                doing.cancel()
                await asyncio.wait([doing])
                outcome.failure = RedisTimeoutError("it does not answer")
            return outcome
        finally:
            doing.cancel()

    async def _hangs(self, step: Exchange, doing: "asyncio.Future[Outcome]") -> bool:
        """Wait until an exchange is done, or its node has been silent for long enough: True."""
        clock_s = asyncio.get_running_loop().time
        wait_s, since_s = limits.PATIENCE_S, None
        while not (await asyncio.wait([doing], timeout=wait_s))[0]:
            await self.circuit.look_at([step.address])
            if not self.circuit.is_silent(step.address):
                wait_s, since_s = min(2 * wait_s, LOOKS_S), None
            elif since_s is None:
                wait_s, since_s = limits.PATIENCE_S, clock_s()
            elif clock_s() - since_s >= limits.HUNG_S:
                return True
        doing.result()  # it raises nothing, but for what is our own mistake
        return False
