"""I14: all nodes agree on the registry, and the newest entry has won."""

from typing import Final

from cluster.capabilities import REGISTRY
from disque.core.model.registry import Entry, Key
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: With a shorter `cluster-forget-after`, in s, a run lasts until deletions are purged.
PURGED_S: Final = 1000


class Agreed:
    """Some seconds after healing, all nodes that keep entries have the same, and of each the newest that was set."""

    promise = "I14"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def end(self) -> None:
        """The time is over."""
        known = [(process, entries_of(process)) for process in self.cluster.processes() if keeps(process)]
        newest: dict[Key, Entry] = {}
        for _, entries in known:
            for key, entry in entries.items():
                newest[key] = max(entry, newest.get(key, entry), key=Entry.stamp)
        for _ in newest:
            self.cluster.world.count("entries that all agree on")
        for process, entries in known:
            for key, entry in newest.items():
                found = entries.get(key)
                if found is None and entry.deleted and self.cluster.world.options.forget_s < PURGED_S:
                    continue  # it may be purged already
                if found is None or (found.value, found.stamp()) != (entry.value, entry.stamp()):
                    said = None if found is None else (found.value, found.stamp())
                    raise Violation("I14", f"{process.name} has {said} for {key}, not {entry.value!r} {entry.stamp()}")


def keeps(process: Process) -> bool:
    """Whether a node is of a version that keeps entries."""
    return bool(process.node.membership.myself.capabilities & REGISTRY)


def entries_of(process: Process) -> dict[Key, Entry]:
    """What a node knows."""
    return {entry.key: entry for entry in process.node.registry.entries()}
