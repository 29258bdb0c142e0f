"""Counts how often each content was seen in a partition, in memory that does not grow with the partition.

The number tells equal rows apart. It must not depend on the order of the rows, since a retry may get them in another
order. So all contents have to be remembered. The latest are in a dict. When there are `RECENT` of them they become a
run: a sorted array of fingerprints in a file without a name, beside their counts. A fingerprint is looked up in all
runs. Runs take 12 bytes for a row. The system caches as much of them as it likes.

Fingerprints have 64 bits. Where two contents share one (in a partition of a hundred million rows, with a probability
of 1 to 4,000), their numbers are higher than they need be and depend on the order. Nothing is lost by that.
"""

import tempfile
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

RECENT: Final = 100_000

Fingerprints = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.uint32]


class Run(NamedTuple):
    """Fingerprints in order, and how often each was seen."""

    fingerprints: Fingerprints
    counts: Counts


class Occurrences:
    """Counts contents. ``recent`` is how many are kept in a dict."""

    def __init__(self, recent: int = RECENT) -> None:
        self._limit = recent
        self._recent: dict[int, int] = {}
        self._runs: list[Run] = []

    def numbers(self, fingerprints: Sequence[int]) -> list[int]:
        """For each content, how often it was seen before."""
        recent, seen = self._recent, []
        for fingerprint, before in zip(fingerprints, self._in_runs(fingerprints), strict=True):
            number = recent.get(fingerprint, 0)
            recent[fingerprint] = number + 1
            seen.append(number + before)
        if len(recent) >= self._limit:
            self._runs.append(make_run(recent))
            recent.clear()
        return seen

    def _in_runs(self, fingerprints: Sequence[int]) -> list[int]:
        if not self._runs:
            return [0] * len(fingerprints)
        wanted = np.array(fingerprints, dtype=np.uint64)
        total = np.zeros(len(wanted), dtype=np.uint32)
        for run in self._runs:
            total += found_in(run, wanted)
        numbers: list[int] = total.tolist()
        return numbers


def found_in(run: Run, wanted: Fingerprints) -> Counts:
    """How often a run has each fingerprint."""
    at = np.minimum(np.searchsorted(run.fingerprints, wanted), len(run.fingerprints) - 1)
    return np.where(run.fingerprints[at] == wanted, run.counts[at], np.uint32(0))


def make_run(recent: dict[int, int]) -> Run:
    """Write a dict into files that vanish with the process."""
    fingerprints = np.fromiter(recent.keys(), dtype=np.uint64, count=len(recent))
    counts = np.fromiter(recent.values(), dtype=np.uint32, count=len(recent))
    order = np.argsort(fingerprints)
    return Run(on_disk(fingerprints[order]), on_disk(counts[order]))


def on_disk(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array in a file that has no name any more."""
    with tempfile.TemporaryFile(prefix="disque-") as file:
        array.tofile(file)
        return np.memmap(file, dtype=array.dtype, mode="r", shape=array.shape)
