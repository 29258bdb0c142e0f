"""Time, chance and order: what happens in a run, when, and in which order.

World time is a number of ms that begins at 0. Whatever happens is an event in one heap; events of the same ms happen in
the order in which they were planned. Every concern draws from a generator of its own that follows from the seed, so
that a change in one place moves as little as possible elsewhere.

The trace is all that left or reached anybody. Its hash names a run: the same seed gives the same hash.
"""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from tests.simulation.options import Options

#: The wall clock of a machine whose clock is right, at world time 0.
WALL_MS: Final = 1_800_000_000_000
#: A process looks after itself so often, in ms.
BEAT_MS: Final = 100
#: Last lines of the trace that are kept.
LAST: Final = 400


class Violation(AssertionError):  # noqa: N818 - it is what is looked for, not an error of the simulator
    """A promise is broken. ``promise`` is its name in the protocol."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise


class World:
    """The heap of events and the trace."""

    def __init__(self, options: Options, show: Callable[[str], None] | None = None) -> None:
        self.options = options
        self.now = 0
        self.events = 0
        self.show = show
        self.counts: Counter[str] = Counter()
        self.last: deque[tuple[int, str, tuple[Any, ...]]] = deque(maxlen=LAST)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._hash = blake2b(digest_size=8)

    def random(self, concern: str) -> Random:
        """The generator of one concern."""
        return Random(f"{self.options.seed} {concern}")

    def at(self, at_ms: int, call: Callable[..., None], *args: Any) -> None:
        """Let ``call(*args)`` happen at ``at_ms``, or now if that is past."""
        self._serial += 1
        heappush(self._heap, (max(at_ms, self.now), self._serial, call, args))

    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        """Let ``call(*args)`` happen in ``delay_ms``."""
        self._serial += 1
        heappush(self._heap, (self.now + delay_ms, self._serial, call, args))

    def run(self, until_ms: int) -> None:
        """Let everything happen up to and including ``until_ms``."""
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            self.now, _, call, args = heappop(heap)
            self.events += 1
            call(*args)
        self.now = until_ms

    def note(self, what: str, *values: Any) -> None:
        """A line of the trace. Bytes among ``values`` count for the hash as they are."""
        self.last.append((self.now, what, values))
        line = "%d %s" % (self.now, what)  # noqa: UP031 - the fastest way, on the path of every event
        digest = self._hash
        digest.update(line.encode())
        for value in values:
            digest.update(value if type(value) is bytes else str(value).encode())
        if self.show is not None:
            self.show(shown(self.now, what, values))

    def count(self, what: str) -> None:
        """Count something for the summary."""
        self.counts[what] += 1

    @property
    def digest(self) -> str:
        """The name of the run so far."""
        return self._hash.hexdigest()

    def tail(self, lines: int) -> list[str]:
        """The last lines of the trace as text."""
        return [shown(*entry) for entry in list(self.last)[-lines:]]


def shown(now: int, what: str, values: tuple[Any, ...]) -> str:
    """One line of the trace as text."""
    return f"{now:>7} {what:<10} " + " ".join(short(value) for value in values)


def short(value: Any) -> str:
    """A value for people: IDs by the part that tells them apart, nothing longer than a line."""
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        if len(value) == 40 and value.startswith(b"D-"):
            return text[11:17]
        if len(value) == 40:
            return text[:6]
        return repr(text)[1:-1][:160]
    if isinstance(value, tuple | list):
        return "(" + " ".join(short(one) for one in value[:12]) + (" ..." if len(value) > 12 else "") + ")"
    return str(value)
