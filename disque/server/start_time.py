"""The time of a node that starts: the wall clock, unless that is in doubt.

The last record of the journal tells how late it was at least when the node ran. A wall clock that is far ahead of it is
right if the node was off for so long, and wrong if somebody, or a dead battery, has set it wrong. A node that believes
a wrong one drops the jobs whose TTL seems over, and writes the wrong time into its journal: no later start could tell.

So before such a start drops a job it waits for one node timeout. Meanwhile it is still loading: it serves nobody and
writes nothing, so if it is stopped, or killed, nothing has happened. It looks at the wall clock all the time, and goes
on at once when that is set right. When the time is over, the clock is believed.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final

from disque.core.model.job import ACKED

if TYPE_CHECKING:
    from disque.core.node import Node
    from disque.server.facts import NodeClock
    from disque.server.log import Log

#: A clock that is so far from the last record, in ms, may be wrong.
FAR_MS: Final = 3_600_000
#: Seconds between two looks at the wall clock.
LOOK_S: Final = 0.1
#: A wall clock that is so far behind the clock of the node, in ms, was set back.
STEP_MS: Final = 1000
UNITS: Final = ((86_400_000, "days"), (3_600_000, "hours"), (1000, "seconds"))


class StartTime:
    """Chooses the time at which ``node`` starts, whose journal is read and ends at ``journal_ms``."""

    __slots__ = ("_clock", "_journal_ms", "_log", "_node", "_seconds")

    def __init__(
        self, node: "Node", clock: "NodeClock", log: "Log", seconds: Callable[[], float], journal_ms: int
    ) -> None:
        self._node = node
        self._clock = clock
        self._log = log
        self._seconds = seconds
        self._journal_ms = journal_ms

    def settle(self, grace_ms: int) -> Iterator[float]:
        """Bring the clock to where it is to go on, after ``grace_ms`` if it is in doubt and jobs depend on it.

        Yields seconds that the caller may do something else.
        """
        ahead_ms = self._clock.now_ms() - self._journal_ms if self._journal_ms else 0
        if ahead_ms > FAR_MS:
            self._log.warning(
                f"The clock is {_said(ahead_ms)} ahead of the last record of the journal. That is right only if the "
                "node did not run for so long"
            )
            yield from self._wait(grace_ms)
        elif ahead_ms < -FAR_MS:
            self._log.warning(
                f"The clock is {_said(-ahead_ms)} behind the last record of the journal: one of both is wrong. The "
                "time of this node goes on from that record"
            )
        self._clock.advance(self._journal_ms)
        self._node.stats.started_ms = max(self._node.stats.started_ms, self._journal_ms)

    def _wait(self, grace_ms: int) -> Iterator[float]:
        """Wait while jobs would be dropped, at most so long."""
        first_ms, ended = yield from self._ends()
        if not ended:
            return
        self._log.warning(
            f"The TTL of {ended} jobs seems over. They are kept, and clients are told LOADING, for "
            f"{_said(grace_ms)}. If the clock is wrong, set it right or stop the node before: then nothing is lost"
        )
        until_s = self._seconds() + grace_ms / 1000
        while self._seconds() < until_s:
            yield LOOK_S
            self._follow_back()
            now_ms = self._clock.now_ms()
            if now_ms < first_ms or now_ms - self._journal_ms <= FAR_MS:
                self._log.warning("The clock was set right, and the node goes on at once")
                return
        self._log.warning("The clock is taken to be right: jobs whose TTL is over are dropped")

    def _follow_back(self) -> None:
        """Begin anew at the wall clock, if that was set back: nothing hangs on the time of a node that is loading."""
        wall_ms = max(self._clock.wall_ms(), self._journal_ms)
        if wall_ms < self._clock.now_ms() - STEP_MS:
            self._clock.begin(wall_ms)
            self._node.beat_ms = self._node.stats.started_ms = wall_ms

    def _ends(self) -> Generator[float, None, tuple[int, int]]:
        """When the first of the jobs ends that end before now and behind the last record, and how many jobs do."""
        now_ms = first_ms = self._clock.now_ms()
        ended = 0
        for shard in self._node.shards:
            ends = [job.expires_ms for job in shard.values() if job.state != ACKED]
            lost = [end_ms for end_ms in ends if self._journal_ms < end_ms <= now_ms]
            first_ms = min([first_ms, *lost])
            ended += len(lost)
            yield 0.0
        return first_ms, ended


def _said(span_ms: int) -> str:
    """A span of time in the largest unit of which there are two."""
    for unit_ms, name in UNITS:
        if span_ms >= 2 * unit_ms:
            return f"{span_ms / unit_ms:.1f} {name}"
    return f"{span_ms} ms"
