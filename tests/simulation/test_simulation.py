"""A short simulation, and what the simulator itself must be able to do. A long one: make simulate SEEDS=2000."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from random import Random
from shlex import split

import pytest

from tests.conftest import ROOT, rarely
from tests.simulation.clock import Clock
from tests.simulation.disk import NAME, Disk
from tests.simulation.links_log import LinksLog
from tests.simulation.options import FAULTS, draw
from tests.simulation.run import Outcome
from tests.simulation.runner import arguments, span
from tests.simulation.world import World, shown
from tests.support.disk import FOLDER

#: Runs that together have every kind of fault, with one to nine nodes; and some of them, for those who cannot wait.
SEEDS, FEW_SEEDS = "1-40", "8-10"


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the simulator in a process of its own: the order of sets must not differ from run to run."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seeds", [FEW_SEEDS, *rarely(SEEDS)])
def test_all_promises_are_kept(seeds: str) -> None:
    done = simulate("--seeds", seeds, "--nodes", "1-9", "-j", "2")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_these_runs_have_every_kind_of_fault() -> None:
    first, last = span(SEEDS)
    drawn = {kind for seed in range(first, last + 1) for kind in draw(seed, 3).faults}
    assert drawn == set(FAULTS)


def test_the_same_seed_gives_the_same_run_to_the_byte() -> None:
    runs = [simulate("--seed", "8", "--nodes", "3", "--set", "active_ms=4000").stdout for _ in range(2)]
    digests = [re.search(r"digest (\w+)", run) for run in runs]
    assert digests[0] is not None
    assert digests[1] is not None
    assert digests[0][1] == digests[1][1]


def test_a_run_with_options_of_its_own_says_how_to_see_it_again() -> None:
    outcome = Outcome(replace(draw(7, 3), forget_s=5), {"forget_s": 5, "faults": {"away": 6000}})
    words = split(outcome.report().partition("run it again")[2].partition(": ")[2])
    assert words[:6] == ["python", "-m", "tests.simulation", "--seed", "7", "--nodes"]
    assert dict(arguments(words[3:]).set) == outcome.changed


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(SystemExit):
        arguments(["--set", "colour=1"])


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


def written(disk: Disk, seed: int) -> bytes:
    """A file of which the first half is fsynced."""
    file = disk.files.create(f"{FOLDER}/{NAME}.00000001")
    data = Random(seed).randbytes(200)
    disk.files.write(file, [data[:100]], 0)
    disk.files.fdatasync(file)
    disk.files.fsync_dir(FOLDER)
    disk.files.write(file, [data[100:]], 100)
    return data


def content(disk: Disk) -> bytes:
    """What the file holds now."""
    return bytes(disk.files.names[f"{FOLDER}/{NAME}.00000001"].data)


def test_a_loss_of_power_spares_what_is_durable_and_tears_the_rest() -> None:
    torn = whole = 0
    for seed in range(50):
        disk = Disk(Random(seed), "always")
        data = written(disk, seed)
        disk.power_failed()
        left = content(disk)
        assert left.startswith(data[:100])
        torn += not data.startswith(left)
        whole += left == data[: len(left)] and len(left) in {100, 200}
    assert torn > 10
    assert whole > 3


def test_the_death_of_a_process_spares_what_was_written() -> None:
    disk = Disk(Random(1), "no")
    data = written(disk, 1)
    disk.process_died(forgiving=False)
    assert content(disk) == data


def test_a_full_disk_stays_full_until_somebody_makes_room() -> None:
    disk = Disk(Random(1), "no")
    written(disk, 1)
    disk.full = True
    disk.power_failed()
    with pytest.raises(OSError, match="No space left"):
        disk.files.create(f"{FOLDER}/{NAME}.00000002")
    disk.full = False
    disk.files.create(f"{FOLDER}/{NAME}.00000002")


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
