"""Measure everything beside everything and write BENCHMARKS.md: `make bench`, or `python -m tests.speed.bench`.

Servers are started for it on free ports of 127.0.0.1, in a temporary folder, and are gone afterwards. A contender that
is not installed is left out; a scene that fails is noted, and the others go on. Not a test: nothing here passes or
fails.
"""

import argparse
import datetime as dt
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from tests.end_to_end.node import ROOT
from tests.speed import celery_brokers, cluster, dashboard, gateway, machine, rival, scenes, task_scene
from tests.speed.book import Book
from tests.speed.report import document
from tests.speed.scale import FULL, QUICK, jobs_that_fit
from tests.speed.server import BEANSTALKD, PLAIN, REDIS, Form, missing
from tests.speed.setting import Setting

PROGRAMS: Final = {"redis-server": REDIS, "beanstalkd": BEANSTALKD}
SCENES: Final[dict[str, Callable[[Setting], None]]] = {
    "driver": scenes.driver,
    "depth": scenes.depth,
    "nodes": cluster.nodes,
    "journal": scenes.journal,
    "memory": scenes.memory,
    "mixed": scenes.mixed,
    "restart": scenes.restart,
    "rivals": rival.rivals,
    "tasks": task_scene.tasks,
    "celery": celery_brokers.celery,
    "gateway": gateway.gateway,
    "dashboard": dashboard.dashboard,
    "standing": scenes.standing,
    "flat": scenes.flat,
}


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    found = argparse.ArgumentParser(prog="python -m tests.speed.bench", description="Measure, and write BENCHMARKS.md.")
    found.add_argument("--quick", action="store_true", help="smaller, in some minutes")
    found.add_argument("--only", type=scenes_named, default=list(SCENES), metavar="scene,...", help=", ".join(SCENES))
    found.add_argument("--jobs", type=int, help="standing jobs at most (what fits into free memory)")
    found.add_argument("--compiled", type=Path, metavar="python", help="the interpreter that has the compiled form")
    found.add_argument("--rivals", type=Path, default=ROOT / ".venv-bench", metavar="venv", help="RQ and the others")
    found.add_argument("--out", type=Path, default=ROOT, help="where BENCHMARKS.md and docs/bench go (the project)")
    found.add_argument("--report", action="store_true", help="write it again from docs/bench/samples.json")
    return found


def scenes_named(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCENES]:
        raise argparse.ArgumentTypeError(f"no scene is called {unknown[0]}: {', '.join(SCENES)}")
    return names


def forms(compiled: Path | None, folder: Path) -> list[Form]:
    """Give the forms of this server that are here, the plain one first."""
    if compiled is None or not compiled.exists():
        return [PLAIN]
    form = Form("compiled", str(compiled.absolute()))
    return [PLAIN, form] if machine.core_of(form, folder) == "compiled" else [PLAIN]


def measure(run: Setting, names: list[str]) -> None:
    """Do scenes one after the other; what fails is noted. Ctrl-C ends that: what was measured is kept."""
    for at, name in enumerate(names):
        run.say(f"--- {name}")
        try:
            SCENES[name](run)
        except KeyboardInterrupt:
            run.book.notes.append(f"It was interrupted. Not or not all measured: {', '.join(names[at:])}.")
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the other figures are worth having
            run.say(f"{name} failed: {error!r}")
            run.book.notes.append(f"Scene `{name}` was not finished: {type(error).__name__}.")


def write(book: Book, ours: str, out: Path) -> None:
    """Write samples, plots and text."""
    from tests.speed.plots import draw  # noqa: PLC0415 - half a second, and only now is it needed

    folder = samples(out).parent
    folder.mkdir(parents=True, exist_ok=True)
    samples(out).write_text(book.dumps(), encoding="utf-8")
    draw(book, folder)
    (out / "BENCHMARKS.md").write_text(document(book, ours, list(SCENES)), encoding="utf-8")


def again(out: Path) -> None:
    """Write text and plots from samples that are there."""
    book = Book.loads(samples(out).read_text(encoding="utf-8"))
    write(book, book.facts["judged form"], out)


def samples(out: Path) -> Path:
    """Where the samples are, or come to."""
    return out / "docs" / "bench" / "samples.json"


def kept(book: Book, chosen: argparse.Namespace, absent: list[str]) -> Book:
    """With the scenes that were left out as they were before. Notes on what is ``absent`` say nothing of these."""
    if chosen.only == list(SCENES) or not samples(chosen.out).exists():
        return book
    before = Book.loads(samples(chosen.out).read_text(encoding="utf-8"))
    return before.renewed(book, chosen.only, [note for note in book.notes if note not in absent])


def prepare(chosen: argparse.Namespace, folder: Path) -> Setting:
    """Find out what is here, and say what is not."""
    found = forms(chosen.compiled, folder)
    absent = missing(list(PROGRAMS))
    scale = QUICK if chosen.quick else FULL
    most = min(chosen.jobs or max(scale.levels), jobs_that_fit(psutil.virtual_memory().available))
    others = [name for program, name in PROGRAMS.items() if program not in absent]
    run = Setting(folder, scale, found, others, chosen.rivals, most)
    book = run.book
    if len(found) == 1:
        book.notes.append("The compiled form is not here: the plain one is judged.")
    book.notes += [f"{program} is not installed (apt-get install {program}): left out." for program in absent]
    for one in rival.RIVALS:
        if one.package and not rival.program(run, one).exists():
            book.notes.append(f"{one.name} is not installed: left out.")
    if most < max(scale.levels):
        book.notes.append(f"No more than {most:,} standing jobs: that is what was asked for, or what fits.")
    book.facts = machine.facts(found, chosen.rivals) | {
        "judged form": run.best,
        "date": dt.datetime.now(dt.UTC).strftime("%d %B %Y"),
        "command": command(chosen),
    }
    return run


def command(chosen: argparse.Namespace) -> str:
    """Give what to type to do the same."""
    words = ["QUICK=yes"] if chosen.quick else []
    own = [f"--only {','.join(chosen.only)}"] if chosen.only != list(SCENES) else []
    own += [f"--jobs {chosen.jobs}"] if chosen.jobs else []
    words += [f'ARGS="{" ".join(own)}"'] if own else []
    return " ".join(["make bench", *words])


def main() -> int:
    """Read the options, measure, write."""
    chosen = parser().parse_args()
    if chosen.report:
        again(chosen.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(chosen, Path(folder))
        absent = list(run.book.notes)
        for note in absent:
            run.say(note)
        work = machine.Work()
        measure(run, chosen.only)
        others = work.shares()
        run.book.facts["meanwhile"] = machine.meanwhile(*others)
        run.book.notes += [text for text in [machine.doubt(*others)] if text]
        book = kept(run.book, chosen, absent)
        write(book, book.facts["judged form"], chosen.out)
        run.say(f"written: {chosen.out / 'BENCHMARKS.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
