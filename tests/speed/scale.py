"""How much is measured: quickly, or in full."""

from dataclasses import dataclass
from typing import Final

#: Resident memory that a job may need at most, in bytes, for deciding how many fit.
ROOM_BYTES: Final = 600
#: The part of the free memory that is used at most.
SHARE: Final = 0.7
MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Scale:
    """Numbers of a run. Operations are those without pipelining; with it there are more, see `operations_at`."""

    rounds: int
    operations: int
    depths: tuple[int, ...]
    jobs: int
    levels: tuple[int, ...]
    level_rounds: int
    nodes: tuple[int, ...]
    node_rounds: int
    live_jobs: int
    mixed_s: float
    restart_jobs: int
    cycles: int
    rival_jobs: int
    rival_s: float
    rival_rounds: int
    task_latencies: int
    tasks_done: int
    celery_tasks: int

    def operations_at(self, depth: int) -> int:
        """How many operations make a measurement of about the same time at any depth."""
        return self.operations * min(4, depth)


QUICK: Final = Scale(
    rounds=3,
    operations=15_000,
    depths=(1, 4, 16, 64),
    jobs=400_000,
    levels=(10_000, 100_000, MILLION),
    level_rounds=3,
    nodes=(1, 3, 5, 7),
    node_rounds=2,
    live_jobs=300_000,
    mixed_s=5.0,
    restart_jobs=400_000,
    cycles=1_000_000,
    rival_jobs=1000,
    rival_s=3.0,
    rival_rounds=1,
    task_latencies=3000,
    tasks_done=100_000,
    celery_tasks=2000,
)
FULL: Final = Scale(
    rounds=5,
    operations=40_000,
    depths=(1, 2, 4, 8, 16, 32, 64),
    jobs=MILLION,
    levels=(10_000, 100_000, MILLION, 3 * MILLION, 10 * MILLION),
    level_rounds=5,
    nodes=(1, 3, 5, 7),
    node_rounds=5,
    live_jobs=MILLION,
    mixed_s=20.0,
    restart_jobs=MILLION,
    cycles=10 * MILLION,
    rival_jobs=5000,
    rival_s=8.0,
    rival_rounds=3,
    task_latencies=6000,
    tasks_done=MILLION,
    celery_tasks=10_000,
)


def levels_within(levels: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Give the levels that are not above `most`, and `most` itself where it cuts some off."""
    kept = tuple(level for level in levels if level <= most)
    return kept if kept == levels or (kept and most < 2 * kept[-1]) else (*kept, most)


def jobs_that_fit(free_bytes: int) -> int:
    """Say how many jobs may be made on a machine with so much memory to spare: a round number."""
    jobs = int(free_bytes * SHARE / ROOM_BYTES)
    return jobs - jobs % 10_000
