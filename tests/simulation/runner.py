"""Many runs: their summary, their failures, and how the command line asks for them."""

import argparse
import gc
import os
import sys
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from tests.simulation.mutants import MUTANTS
from tests.simulation.options import Options, draw_nodes
from tests.simulation.run import Outcome, simulate

#: A seed, the number of nodes, and options that are not drawn from the seed.
Task = tuple[int, int, dict[str, Any]]

#: So many new objects between two looks for cycles: a run makes few, and each look takes time.
MANY_OBJECTS = 100_000


def one(task: Task) -> Outcome:
    """Run one seed."""
    seed, nodes, changed = task
    return simulate(seed, nodes, changed=changed)


def outcomes(tasks: list[Task], workers: int) -> Iterator[Outcome]:
    """The outcome of each task, in order, from one process or several."""
    if workers <= 1:
        yield from map(one, tasks)
        return
    with get_context("fork").Pool(workers) as pool:
        yield from pool.imap(one, tasks, chunksize=1)


class Summary:
    """What many runs came to."""

    def __init__(self) -> None:
        self.runs = 0
        self.events = 0
        self.counts: Counter[str] = Counter()
        self.broken: dict[str, list[int]] = {}
        self.started = perf_counter()

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.runs += 1
        self.events += outcome.events
        self.counts.update({str(name): count for name, count in outcome.counts.items()})
        if outcome.promise:
            self.broken.setdefault(outcome.promise, []).append(outcome.options.seed)

    def text(self) -> str:
        """The summary for people."""
        spent = perf_counter() - self.started
        faults = sorted(name for name in self.counts if name.startswith("fault "))
        lines = [
            f"{self.runs} seeds, {self.events} events in {spent:.1f} s, {self.events / max(spent, 0.001):.0f} a second",
            f"jobs {self.counts['jobs']}, deliveries {self.counts['deliveries']}, frames {self.counts['frames']}",
            f"jobs that got copies again {self.counts['jobs repaired']}",
            "faults: " + (", ".join(f"{name[6:]} {self.counts[name]}" for name in faults) or "none"),
        ]
        for promise, seeds in sorted(self.broken.items()):
            lines.append(f"BROKEN {promise}: {len(seeds)} seeds: {' '.join(map(str, seeds[:30]))}")
        lines.append(f"violations: {sum(map(len, self.broken.values()))}")
        return "\n".join(lines)


def look_for(name: str) -> tuple[str, list[int], str]:
    """Run a breakage on its seeds until a checker notices it: its name, the seeds tried, and what was noticed."""
    found = next(mutant for mutant in MUTANTS if mutant.name == name)
    tried, others = [], []
    with found.apply():
        for seed in found.seeds:
            tried.append(seed)
            outcome = simulate(seed, found.nodes, changed=found.options)
            if outcome.promise in found.promises:
                return name, tried, f"{outcome.promise}: {outcome.text.splitlines()[-1]}"
            if outcome.promise:
                others.append(outcome.promise)
    return name, tried, f"UNNOTICED, but {others}"


def hunt(names: list[str], workers: int) -> int:
    """Show for each breakage which checker notices it, on which seed; 1 if one goes unnoticed."""
    missed = 0
    with get_context("fork").Pool(workers) as pool:
        for name, tried, noticed in pool.imap(look_for, names, chunksize=1):
            missed += noticed.startswith("UNNOTICED")
            sys.stdout.write(f"{name}: seed {tried[-1]}: {noticed[:160]}\n")
    sys.stdout.write(f"{len(names)} breakages, {missed} unnoticed\n")
    return int(missed > 0)


def span(text: str) -> tuple[int, int]:
    """`3` or `1-9` as two numbers."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def pair(text: str) -> tuple[str, Any]:
    """`name=value`: an option of `Options`, and what Python reads there. ValueError for anything else."""
    name, _, value = text.partition("=")
    if name not in Options.__dataclass_fields__:
        raise ValueError(name)
    return name, literal_eval(value)


def arguments(argv: list[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=span, help="A-B: run all of these seeds")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--nodes", type=span, default=(1, 9), help="number of nodes, or A-B: drawn from the seed")
    parser.add_argument("--set", type=pair, action="append", default=[], help="name=value: an option that is not drawn")
    parser.add_argument("--trace", action="store_true", help="show everything that happens")
    parser.add_argument("--digest", action="store_true", help="show the hash of each run")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--mutants", nargs="*", help="break the code on purpose: all ways, or those named")
    parser.add_argument("-j", type=int, default=1, dest="workers", help="processes")
    return parser.parse_args(argv)


def settled(argv: list[str]) -> None:
    """Start again with a fixed seed for hashes: the order of sets must not differ from run to run."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *argv])


def main(argv: list[str]) -> int:
    """Run what the command line says; the exit code is 1 when a promise was broken."""
    settled(argv)
    gc.set_threshold(MANY_OBJECTS)
    options = arguments(argv)
    write = sys.stdout.write
    changed = dict(options.set)
    if options.mutants is not None:
        return hunt(options.mutants or [mutant.name for mutant in MUTANTS], options.workers)
    if options.seed is not None:
        nodes = draw_nodes(options.seed, *options.nodes)
        show = (lambda line: void(write(line + "\n"))) if options.trace else None
        outcome = simulate(options.seed, nodes, show=show, changed=changed)
        write(f"{outcome.report()}\n" if outcome.promise else f"seed {options.seed}: {outcome.options}\nfine\n")
        write(f"{outcome.events} events, digest {outcome.digest}\n")
        return 1 if outcome.promise else 0
    first, last = options.seeds or (1, 20)
    summary = Summary()
    tasks = [(seed, draw_nodes(seed, *options.nodes), changed) for seed in range(first, last + 1)]
    for outcome in outcomes(tasks, options.workers):
        summary.add(outcome)
        if options.digest:
            write(f"{outcome.options.seed} {outcome.options.nodes} {outcome.digest}\n")
        if outcome.promise:
            write(f"{outcome.report()}\n\n")
            if not options.keep_going:
                break
    write(summary.text() + "\n")
    return 1 if summary.broken else 0


def void(value: object) -> None:
    """Nothing."""
    del value
