"""A short simulation, and what the simulator itself must be able to do. A long one: make simulate SEEDS=2000."""

import os
import re
import subprocess
import sys
from random import Random

import pytest

from tests.conftest import ROOT
from tests.simulation.clock import Clock
from tests.simulation.disk import Disk
from tests.simulation.links_log import LinksLog
from tests.simulation.options import FAULTS, draw
from tests.simulation.runner import span
from tests.simulation.world import World, shown

#: Runs that together have every kind of fault, with one to nine nodes.
SEEDS = "1-40"


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the simulator in a process of its own: the order of sets must not differ from run to run."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_all_promises_are_kept() -> None:
    done = simulate("--seeds", SEEDS, "--nodes", "1-9", "-j", "2")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_these_runs_have_every_kind_of_fault() -> None:
    first, last = span(SEEDS)
    drawn = {kind for seed in range(first, last + 1) for kind in draw(seed, 3).faults}
    assert drawn == set(FAULTS)


def test_the_same_seed_gives_the_same_run_to_the_byte() -> None:
    runs = [simulate("--seed", "7", "--nodes", "3").stdout for _ in range(2)]
    digests = [re.search(r"digest (\w+)", run) for run in runs]
    assert digests[0] is not None
    assert digests[1] is not None
    assert digests[0][1] == digests[1][1]


def world() -> World:
    return World(draw(1, 1))


def test_a_clock_is_off_and_drifts_but_never_goes_back() -> None:
    time = world()
    clock = Clock(time, -3_600_000, 200)
    begin = clock.now_ms()
    time.now = 10_000
    assert clock.now_ms() == begin + 10_002
    due_ms = clock.now_ms() + 5000
    time.now = clock.world_ms(due_ms) - 1
    assert clock.now_ms() < due_ms
    time.now += 1
    assert clock.now_ms() >= due_ms
    now_ms = clock.now_ms()
    clock.advance(due_ms - 50)
    assert clock.now_ms() == now_ms


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_loss_of_power_spares_what_is_durable_and_a_prefix_of_the_rest(policy: str) -> None:
    left = set()
    for seed in range(50):
        disk = Disk(Random(seed), policy)
        for number in range(6):
            disk.append(1, b"%d" % number)
            if number == 2:
                disk.sync()
        disk.failing = True
        disk.append(1, b"never written")
        disk.power_failed()
        assert [payload for _, payload in disk.kept] == [b"%d" % number for number in range(len(disk.kept))]
        left.add(len(disk.kept))
    assert left == {3, 4, 5, 6}


def test_the_death_of_a_process_spares_what_was_written() -> None:
    disk = Disk(Random(1), "no")
    disk.append(1, b"written")
    disk.failing = True
    disk.append(1, b"not written")
    disk.process_died()
    assert disk.kept == [(1, b"written")]


def test_times_in_which_two_can_talk_are_cut_to_what_is_asked_about() -> None:
    log = LinksLog(world())
    log.past[0, 1] = [(100, 200), (300, 400)]
    assert log.up(1, 0, 150, 350) == [(150, 200), (300, 350)]
    assert log.longest_gap(0, 1, 150, 350) == 100
    assert log.longest_gap(0, 1, 0, 1000) == 600
    assert log.longest_gap(0, 2, 0, 1000) == 1000


def test_a_line_of_the_trace_names_jobs_and_nodes_shortly() -> None:
    job_id = b"D-0123abcd-ABCDEFGHIJKLMNOPQRSTUVWX-05a1"
    line = shown(12, "send", (b"0123abcd" * 5, (5, (job_id,))))
    assert line.split() == ["12", "send", "0123ab", "(5", "(ABCDEF))"]
