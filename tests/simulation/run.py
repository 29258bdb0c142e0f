"""One run: from its seed to its outcome."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from typing import Any

from disque.core.model.job import COMPILED
from tests.simulation.checks.acknowledged import Acknowledged
from tests.simulation.checks.agreed import Agreed
from tests.simulation.checks.answers import Answers
from tests.simulation.checks.at_most_once import AtMostOnce
from tests.simulation.checks.bounded import Bounded
from tests.simulation.checks.collected import Collected
from tests.simulation.checks.counted import Counted
from tests.simulation.checks.delivered import Delivered, Orderly
from tests.simulation.checks.durable import Durable
from tests.simulation.checks.ended import Ended
from tests.simulation.checks.fired import Fired
from tests.simulation.checks.guarded import Guarded
from tests.simulation.checks.heard import Heard
from tests.simulation.checks.kept import Kept
from tests.simulation.checks.moved import Moved
from tests.simulation.checks.prompt import Prompt
from tests.simulation.checks.remembered import Remembered
from tests.simulation.checks.repaired import Repaired
from tests.simulation.checks.retry import Retry
from tests.simulation.checks.sized import Sized
from tests.simulation.checks.tried import Tried
from tests.simulation.checks.understood import Understood
from tests.simulation.checks.unique import Unique
from tests.simulation.checks.urgent import Urgent
from tests.simulation.checks.zoned import Zoned
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Faults
from tests.simulation.healing import Healing
from tests.simulation.options import Options, draw
from tests.simulation.workload import Workload
from tests.simulation.world import Violation, World

#: Time for the nodes to find each other before the load begins.
GATHER_MS = 3000
LAST_LINES = 60


class Outcome:
    """How a run went. ``promise`` is empty when it went well, else what was broken, or "error" for an exception."""

    def __init__(self, options: Options, changed: dict[str, Any]) -> None:
        self.options = options
        self.changed = changed
        self.promise = ""
        self.text = ""
        self.last: list[str] = []
        self.events = 0
        self.digest = ""
        self.counts: Counter[str] = Counter()

    def report(self) -> str:
        """What went wrong, and how to see it again."""
        options = self.options
        lines = "\n".join(self.last)
        again = f"python -m tests.simulation --seed {options.seed} --nodes {options.nodes} --trace"
        again += "".join(f" --set {quote(f'{name}={value!r}')}" for name, value in self.changed.items())
        form = ", in the compiled form, which counts memory otherwise" if COMPILED else ""
        return f"{lines}\nseed {options.seed}: {options}\n{self.text}\nrun it again{form}: {again}"


def simulate(
    seed: int, nodes: int, *, show: Callable[[str], None] | None = None, changed: dict[str, Any] | None = None
) -> Outcome:
    """Run one seed. ``changed`` are options that are not drawn from it."""
    options = replace(draw(seed, nodes), **(changed or {}))
    outcome = Outcome(options, changed or {})
    world = World(options, show)
    try:
        whole_run(world)
    except Violation as violation:
        outcome.promise, outcome.text = violation.promise, str(violation)
    except Exception as error:  # noqa: BLE001 - whatever the core raises is a finding, with its seed
        outcome.promise, outcome.text = "error", traced(error)
    if outcome.promise:
        outcome.last = world.tail(LAST_LINES)
    outcome.events, outcome.digest, outcome.counts = world.events, world.digest, world.counts
    return outcome


def traced(error: Exception) -> str:
    """An exception with where it came from."""
    import traceback  # noqa: PLC0415 - only a failure needs it

    return "".join(traceback.format_exception(error)).rstrip()


def whole_run(world: World) -> None:
    """Start, load and faults, healing, the last look."""
    cluster = Cluster(world)
    watch = cluster.watch
    kept = Kept(cluster)
    checkers: list[object] = [kept, Delivered(cluster, kept), Orderly(cluster, kept), Repaired(cluster, kept)]
    checkers.append(Remembered(cluster, kept))
    checkers += [kind(cluster) for kind in (AtMostOnce, Retry, Acknowledged, Collected)]
    checkers += [
        kind(cluster)
        for kind in (
            Unique,
            Answers,
            Counted,
            Durable,
            Zoned,
            Sized,
            Understood,
            Agreed,
            Prompt,
            Tried,
            Moved,
            Urgent,
            Ended,
            Fired,
            Bounded,
            Heard,
            Guarded,
        )
    ]
    for checker in checkers:
        watch.add(checker)
    cluster.begin()
    world.run(world.now + (GATHER_MS if world.options.nodes > 1 else 10))
    load, faults = Workload(cluster), Faults(cluster)
    load.begin()
    faults.begin()
    world.run(world.now + world.options.active_ms)
    Healing(cluster, load, faults).run()
    watch.finished()
    world.counts["frames"] = cluster.network.frames
