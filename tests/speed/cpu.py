"""CPU of the core for one operation, beside what it was: `make cpu`; `make cpu ARGS=--write` notes it anew.

A node alone, in this process, without sockets: what a change of the core costs shows here first. Machines differ, so
each figure is given in units of a small fixed piece of work in Python that is measured beside it, round by round; the
best round counts, which is the one that nobody disturbed. Not a test: noise is no fault, so what is worse is reported
and nothing fails.
"""

import argparse
import gc
import json
import sys
from pathlib import Path
from time import process_time
from typing import Final

from disque.core import step
from tests.conftest import FORM
from tests.core.support import Bench

BASELINE: Final = Path(__file__).with_name("cpu.json")
JOBS: Final = 20_000
ROUNDS: Final = 15
#: So much more than noted is reported.
WORSE: Final = 1.10


def measure() -> dict[str, float]:
    """CPU of ADDJOB, GETJOB and ACKJOB, one job each, with their settle: multiples of the unit."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, spent_s in one_round().items():
            best[name] = min(best.get(name, spent_s), spent_s)
    unit_s = best.pop("unit")
    return {name: round(spent_s / unit_s, 3) for name, spent_s in best.items()}


def one_round() -> dict[str, float]:
    """Seconds of CPU for JOBS operations of each kind, and for as many units."""
    bench = Bench()
    node, session, now_ms = bench.node, bench.client().session, bench.now_ms
    gc.collect()
    gc.disable()
    spent: dict[str, float] = {}
    requests = [[b"ADDJOB", b"queue", b"x" * 100, b"0"]] * JOBS
    for name in ("add", "get", "ack"):
        begun_s = process_time()
        for request in requests:
            step.command(node, session, request, now_ms)
            step.settle(node, now_ms)
        spent[name] = process_time() - begun_s
        replies = list(session.out)
        session.out.clear()
        session.handed.clear()
        if name == "add":
            requests = [[b"GETJOB", b"FROM", b"queue"]] * JOBS
            ids = [reply[1:41] for reply in replies]
            assert len(set(ids)) == JOBS
        elif name == "get":
            requests = [[b"ACKJOB", job_id] for job_id in ids]
    assert not bench.node.jobs_registered()
    begun_s = process_time()
    for number in range(JOBS):
        unit(number)
    spent["unit"] = process_time() - begun_s
    gc.enable()
    return spent


def unit(number: int) -> int:
    """Some of what an interpreter does all day."""
    found = {key: number + at for at, key in enumerate(("a", "b", "c", "d"))}
    return sum(found.values()) + len(b"%d:%b" % (number, b"x" * 20))


def main() -> None:
    """Print what an operation costs now and cost when it was noted, and say what is worse."""
    parser = argparse.ArgumentParser("tests.speed.cpu", description="CPU of the core for one operation.")
    parser.add_argument("--write", action="store_true", help="note the figures, to compare with them from here on")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="the file with what was noted")
    options = parser.parse_args()
    path: Path = options.baseline
    known: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    now, before = measure(), known.get(FORM, {})
    worse = []
    print(f"CPU of the {FORM} core, in units of a fixed piece of Python: now, noted, ratio")
    for name, figure in now.items():
        ratio = figure / before[name] if name in before else 1.0
        print(f"{name:>5} {figure:8.3f} {before.get(name, figure):8.3f} {ratio:6.2f}")
        if ratio > WORSE:
            worse.append(name)
    if worse:
        print(f"WORSE by more than {WORSE - 1:.0%}: {', '.join(worse)}. Measure again; then mend it or say why.")
    if options.write:
        path.write_text(json.dumps({**known, FORM: now}, indent=2, sort_keys=True) + "\n")
        print(f"noted in {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
