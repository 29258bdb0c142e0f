"""Says what has become of jobs: acknowledgements and failures gather while others are on their way, and leave together.

One flush at a time. What gathered meanwhile leaves with the next one: plain acknowledgements as few ACKJOBs with many
IDs, those with a result and NACKs one by one, all of one node in one exchange. So a fast worker pays little for each,
and a slow one waits for nothing.

What no node takes is kept, and sent again. An acknowledgement counts at any time, also when its lease is long over:
then nobody begins the job once more. A NACK is dropped with its lease: it could hit the try of another worker.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, cast

from disque.client import AsyncDisque, DisqueError
from disque.client.config import Address, Config
from disque.client.requests import Request, ack, nack, say
from disque.tasks.held import Held
from disque.tasks.outcome import Back, Done, Gone, Outcome

LOG: Final = logging.getLogger("disque.tasks")
#: What is said in one request.
Said: TypeAlias = Sequence[tuple[Held, Outcome]]

#: IDs in one ACKJOB, and requests in one exchange.
IDS_MOST: Final = 1000
#: What no node took is sent again after so long.
AGAIN_S: Final = 0.5
#: Words of ACKJOB and NACK do not depend on it.
CONFIG: Final = Config()


class Settler:
    """What is to be said of jobs. ``refused`` counts what the nodes did not want to hear."""

    def __init__(self, client: AsyncDisque, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._pile: list[tuple[Held, Outcome]] = []
        self._leaving: list[tuple[Held, Outcome]] = []
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._leaving) + len(self._pile)

    def waiting(self) -> Iterator[Held]:
        """The jobs of which no node has heard yet: their leases must be renewed."""
        return (held for held, _ in (*self._leaving, *self._pile))

    def put(self, held: Held, outcome: Outcome) -> None:
        """Say this soon."""
        if isinstance(outcome, Gone):
            return
        self._pile.append((held, outcome))
        if self._task is None:
            self._idle.clear()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="disque-settle")

    async def flushed(self, timeout_s: float) -> bool:
        """Wait until all was said; False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            if self._task is not None:
                self._task.cancel()
            return False
        return True

    async def _run(self) -> None:
        try:
            while self._pile:
                self._leaving, self._pile = self._pile, []
                left = await self._flush(self._leaving)
                self._leaving = []
                if left:
                    self._pile = left + self._pile
                    await asyncio.sleep(AGAIN_S)
        finally:
            self._task = None
            self._leaving = []
            self._idle.set()

    async def _flush(self, pile: list[tuple[Held, Outcome]]) -> list[tuple[Held, Outcome]]:
        """Send all of these: what must be sent again."""
        left: list[tuple[Held, Outcome]] = []
        now_s = self._clock()
        for node, all_said in by_node(pile).items():
            said = [one for one in all_said if not isinstance(one[1], Back) or one[0].lease_until_s > now_s]
            batches = list(gathered(said))
            if not batches:
                continue
            try:
                answers = await self._say(node, batches)
            except DisqueError as error:
                LOG.warning("what became of %d jobs cannot be said now: %s", len(said), error)
                known = cast("Sequence[tuple[Said, int | DisqueError | None]]", error.results)
                answers = list(known) or [(batch, None) for batch in batches]
            left += self._answered(answers)
        return left

    async def _say(self, node: Address | None, batches: Sequence[Said]) -> list[tuple[Said, int | DisqueError | None]]:
        client = self._client
        return await client.drive(say(client.router, client.config, batches, lambda said: request(said).to(node)))

    def _answered(self, answers: Sequence[tuple[Said, int | DisqueError | None]]) -> list[tuple[Held, Outcome]]:
        left: list[tuple[Held, Outcome]] = []
        for said, answer in answers:
            if answer is None:
                left += said
            elif isinstance(answer, DisqueError):
                left += self._refusal(said, answer)
        return left

    def _refusal(self, said: Said, error: DisqueError) -> list[tuple[Held, Outcome]]:
        """A node does not take what was said: a result or a delay that is too long is a failure of its job."""
        self.refused += len(said)
        LOG.error("what became of %d jobs was refused: %s", len(said), error)
        left: list[tuple[Held, Outcome]] = []
        for held, outcome in said:
            if isinstance(outcome, Done) and outcome.result is not None:
                left.append((held, Back(f"the function has ended, but its result was refused: {error}", dead=True)))
            elif isinstance(outcome, Back) and outcome.delay_s is not None:
                left.append((held, Back(f"the job cannot be held back for {outcome.delay_s:g} s: {error}")))
        return left


def by_node(pile: list[tuple[Held, Outcome]]) -> dict[Address | None, list[tuple[Held, Outcome]]]:
    """What is said to each node."""
    groups: dict[Address | None, list[tuple[Held, Outcome]]] = {}
    for one in pile:
        groups.setdefault(one[0].node, []).append(one)
    return groups


def gathered(said: Said) -> Iterator[Said]:
    """What each request says."""
    plain = [one for one in said if isinstance(one[1], Done) and one[1].result is None]
    uncounted = [one for one in said if isinstance(one[1], Back) and not one[1].counts and one[1].delay_s is None]
    for some in (plain, uncounted):
        for at in range(0, len(some), IDS_MOST):
            yield some[at : at + IDS_MOST]
    for held, outcome in said:
        if isinstance(outcome, Done):
            if outcome.result is not None:
                yield [(held, outcome)]
        elif isinstance(outcome, Back) and (outcome.counts or outcome.delay_s is not None):
            yield [(held, outcome)]


def request(said: Said) -> Request[int]:
    """What says this of one job, or the same of several."""
    ids = [held.id for held, _ in said]
    outcome = said[0][1]
    if isinstance(outcome, Back):
        error = outcome.error if outcome.counts else None
        return nack(CONFIG, *ids, delay=outcome.delay_s, count=outcome.counts, error=error, dead=outcome.dead)
    return ack(CONFIG, *ids, result=outcome.result if isinstance(outcome, Done) else None)
