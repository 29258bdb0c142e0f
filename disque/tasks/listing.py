"""`disque queues`, `jobs`, `dead`, `cron`, `workers`, `top`: looks at what tasks do, and puts jobs right.

Each command is a function of an inspector and its options that gives lines. With --json a line is an object.
"""

import argparse
import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from disque.client import AsyncDisque, Config, DisqueError
from disque.client.url import DEFAULT_PORT
from disque.tasks.inspector import STATES, Inspector
from disque.tasks.terminal import printable
from disque.tasks.top import watch

#: How the ID of a job begins, and how long it is.
ID_HEAD: Final = "D-"
ID_LENGTH: Final = 40
#: Errors and arguments are cut in tables.
CELL_MOST: Final = 60

Rows = list[dict[str, Any]]


def main(argv: list[str] | None = None) -> int:
    """Run a command, whose name is the first word: its exit code."""
    words = sys.argv[1:] if argv is None else argv
    flag = unknown_flag(words)
    if flag:
        print(
            f"{flag} is for commands of the server: queues, jobs, dead, workers, cron and top do not take it",
            file=sys.stderr,
        )
        return 1
    options = parser().parse_args(words)
    try:
        config = config_of(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        return asyncio.run(run(options, config))
    except (DisqueError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


async def run(options: argparse.Namespace, config: Config) -> int:
    """Ask, and print."""
    async with AsyncDisque(config) as client:
        inspector = Inspector(client)
        if options.command == "top":
            await watch(inspector, options.interval, once=options.once or not sys.stdout.isatty())
            return 0
        rows = await COMMANDS[options.command](inspector, options)
    if options.json:
        for row in rows:
            print(json.dumps(row, default=shown))
    else:
        print("\n".join(table(rows)) if rows else "none")
    for text in inspector.left_out:
        print(printable(text), file=sys.stderr)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of all commands."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    add_common(common)
    found = argparse.ArgumentParser(prog="disque", add_help=False)
    add_common(found)
    commands = found.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, add_help=False, parents=[common])

    queues = command("queues", "figures of queues")
    queues.add_argument("pattern", nargs="?", default="*", help="names, such as mail*")
    queues.add_argument("--pause", action="store_true", help="give out no jobs of this queue")
    queues.add_argument("--resume", action="store_true", help="give out its jobs again")
    jobs = command("jobs", "jobs of a queue, or one job")
    jobs.add_argument("what", nargs="?", help="a queue, or the ID of a job")
    jobs.add_argument("--status", choices=STATES, metavar="STATE", help=", ".join(STATES))
    jobs.add_argument("--count", type=int, default=20)
    action(jobs, "run-now", "revive", "cancel", "delete")
    dead = command("dead", "dead letters with their errors")
    dead.add_argument("queue", nargs="?", help="the queue in which they died")
    dead.add_argument("--count", type=int, help="this many (20), or with --revive and --delete all")
    action(dead, "revive", "delete")
    command("cron", "schedules; to change one: disque [-p PORT ...] cron pause NAME, resume, run, del")
    command("workers", "processes that take jobs")
    top = command("top", "all of it, live")
    top.add_argument("--interval", type=seconds, default=1.0, help="seconds (1), 0.1 at least")
    top.add_argument("--once", action="store_true", help="print it once")
    return found


#: What `add_common` adds.
FLAGS: Final = frozenset([
    *("-h", "-p", "-u", "-a", "--help", "--pass", "--user", "--tls", "--cacert", "--cert", "--key", "--insecure"),
    "--json",
])  # fmt: skip


def add_common(found: argparse.ArgumentParser) -> None:
    """Where the nodes are, and how lines look: before a command, or behind it."""
    found.add_argument("--help", action="help", help="print this text")
    found.add_argument("-h", dest="host", help="a node (127.0.0.1)")
    found.add_argument("-p", dest="port", type=int, help=f"its port ({DEFAULT_PORT})")
    found.add_argument("-u", dest="url", help="disque://host:port,host:port in place of them; or DISQUE_URL")
    found.add_argument("-a", "--pass", dest="password", help="password; or DISQUE_AUTH")
    found.add_argument("--user")
    found.add_argument("--tls", action="store_true")
    found.add_argument("--cacert")
    found.add_argument("--cert")
    found.add_argument("--key")
    found.add_argument("--insecure", action="store_true")
    found.add_argument("--json", action="store_true", help="an object a line")


def action(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options that do something."""
    group = parser.add_mutually_exclusive_group()
    for name in names:
        group.add_argument(f"--{name}", dest="action", action="store_const", const=name)


def seconds(text: str) -> float:
    """How long to wait between two screens: each asks all nodes about all queues."""
    return max(0.1, float(text))


def unknown_flag(words: Sequence[str]) -> str:
    """The first flag before the command that is one of the shell, and not of these; "" if there is none."""
    for word in words:
        if word in COMMANDS or word == "top":
            break
        flag = word.partition("=")[0]
        if word.startswith("-") and flag not in FLAGS and word[:2] not in FLAGS:
            return flag
    return ""


def config_of(options: argparse.Namespace) -> Config:
    """Where the nodes are: what the URL says, and what is given beside it. Raises ValueError."""
    url = options.url or (None if options.host or options.port else os.environ.get("DISQUE_URL"))
    if url:
        said = Config.from_url(url)
        return replace(
            said,
            user=options.user or said.user,
            password=options.password or said.password or os.environ.get("DISQUE_AUTH"),
            tls=options.tls or said.tls,
            ca=options.cacert or said.ca,
            cert=options.cert or said.cert,
            key=options.key or said.key,
            verify=said.verify and not options.insecure,
        )
    return Config(
        nodes=((options.host or "127.0.0.1", options.port or DEFAULT_PORT),),
        user=options.user,
        password=options.password or os.environ.get("DISQUE_AUTH"),
        tls=options.tls,
        ca=options.cacert,
        cert=options.cert,
        key=options.key,
        verify=not options.insecure,
    )


# -- commands ----------------------------------------------------------------------------------------------------------


async def queues(inspector: Inspector, options: argparse.Namespace) -> Rows:
    """Figures of queues, or of one that is paused."""
    if options.pause or options.resume:
        name = options.pattern
        if "*" in name or (options.pause and options.resume):
            raise ValueError("which queue? one at a time is paused, or resumed")
        await (inspector.pause(name) if options.pause else inspector.resume(name))
    return [one._asdict() for one in await inspector.queues(options.pattern)]


async def jobs(inspector: Inspector, options: argparse.Namespace) -> Rows:
    """Jobs, one job, or what was done with it."""
    what: str | None = options.what
    if what is not None and what.startswith(ID_HEAD) and len(what) == ID_LENGTH:
        return await one_job(inspector, what, options.action)
    if options.action is not None:
        raise ValueError(f"--{options.action} needs the ID of a job, which has {ID_LENGTH} characters")
    found = await inspector.jobs(what, options.status, options.count)
    if not found and what is not None and what.startswith(ID_HEAD):
        raise ValueError(f"{what} is no ID of a job, which has {ID_LENGTH} characters, and no queue that has such jobs")
    return [brief(one._asdict()) for one in found]


async def one_job(inspector: Inspector, job_id: str, done: str | None) -> Rows:
    """All about a job, or what was done with it."""
    if done is not None:
        orders = {
            "run-now": inspector.run_now,
            "revive": inspector.revive,
            "cancel": inspector.cancel,
            "delete": inspector.delete,
        }
        return [{"job": job_id, done: await orders[done](job_id)}]
    found = await inspector.job(job_id)
    if found is None:
        raise ValueError(f"no node knows the job {job_id}: it may have ended, and nothing is retained of it")
    return [{"what": name, "value": value} for name, value in found._asdict().items()]


async def dead(inspector: Inspector, options: argparse.Namespace) -> Rows:
    """Queues that have dead letters, the dead letters of one, or what was done with them."""
    if options.queue is None:
        if options.action is not None:
            raise ValueError(f"--{options.action} needs a queue")
        found = await inspector.queues("*:dead")
        return [{"queue": one.name.removesuffix(":dead"), "dead": one.length} for one in found if one.length]
    if options.action is not None:
        name = f"{options.queue.removesuffix(':dead')}:dead"
        order = inspector.revive_all if options.action == "revive" else inspector.delete_all
        swept = await order(name, options.count)
        return [{"queue": name, options.action: swept.jobs, "unreachable": len(swept.unreachable)}]
    found_jobs = await inspector.jobs(options.queue, "dead-letter", options.count or 20)
    keys = ("id", "task", "args", "error")
    return [brief({key: value for key, value in one._asdict().items() if key in keys}) for one in found_jobs]


async def cron(inspector: Inspector, _options: argparse.Namespace) -> Rows:
    """Schedules, with their times."""
    keys = ("name", "spec", "tz", "queue", "paused", "last", "next")
    rows = [{key: value for key, value in one._asdict().items() if key in keys} for one in await inspector.schedules()]
    for row in rows:
        row |= {key: None if row[key] is None else moment(row[key]) for key in ("last", "next")}
    return rows


async def workers(inspector: Inspector, _options: argparse.Namespace) -> Rows:
    """Processes that take jobs."""
    return [one._asdict() | {"nodes": ",".join(one.nodes)} for one in await inspector.workers()]


COMMANDS: Final[dict[str, Callable[[Inspector, argparse.Namespace], Awaitable[Rows]]]] = {
    "queues": queues,
    "jobs": jobs,
    "dead": dead,
    "cron": cron,
    "workers": workers,
}


# -- how it is shown ---------------------------------------------------------------------------------------------------


def brief(row: dict[str, Any]) -> dict[str, Any]:
    """A job for a table: without body and result."""
    return {name: value for name, value in row.items() if name not in {"body", "result", "progress"}}


def moment(seconds: int) -> str:
    """A time in UTC, which it says."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown(value: object) -> object:
    """What JSON cannot say."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


def cell(value: object) -> str:
    """A value in a table: one line, not too long."""
    text = "" if value is None else printable(" ".join(str(shown(value)).split()))
    return text if len(text) <= CELL_MOST else text[: CELL_MOST - 3] + "..."


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as lines with titles; numbers to the right."""
    titles = list(rows[0])
    cells = [[cell(row.get(title)) for title in titles] for row in rows]
    widths = [max(len(title), *(len(line[at]) for line in cells)) for at, title in enumerate(titles)]
    right = [all(isinstance(row.get(title), int) for row in rows) for title in titles]

    def line(words: Sequence[str]) -> str:
        columns = zip(words, widths, right, strict=True)
        return "  ".join(word.rjust(width) if far else word.ljust(width) for word, width, far in columns).rstrip()

    return [line([title.replace("_", "-") for title in titles]), *map(line, cells)]
