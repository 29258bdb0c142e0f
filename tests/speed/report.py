"""BENCHMARKS.md out of a book: tables and the places of the plots, and how to do it again."""

from typing import Final

from tests.speed.book import Book, Cell, Spread
from tests.speed.celery_brokers import DONE, ON_OURS, ON_REDIS, PROCESSES, PUBLISHED
from tests.speed.goals import judged
from tests.speed.server import BEANSTALKD, REDIS

Rows = list[tuple[str, ...]]

TITLES: Final = {
    "compiled": "ours, compiled",
    "plain": "ours, plain",
    REDIS: "Redis",
    BEANSTALKD: "beanstalkd",
}
SPOKEN: Final = {
    "add": "add (ADDJOB, LPUSH, put)",
    "get": "get (GETJOB, RPOP, reserve)",
    "ack": "ack (ACKJOB, DEL, delete)",
}
PERCENTILES: Final = ("p50", "p95", "p99", "p99.9", "max")
GUARANTEES: Final[Rows] = [
    ("disque.client", "at least once: a job that is not acknowledged comes again; here one copy, no journal"),
    ("disque.tasks", "the same, with tries, back-off and a lease that is renewed"),
    ("RQ", "a job whose worker dies goes to the registry of failed jobs; nothing brings it back by itself"),
    ("Celery", "at most once as it is: a task counts as done when it begins (`acks_late` changes that)"),
    ("dramatiq", "at least once: acknowledged after the work; jobs of a worker that dies come again in a minute"),
    ("taskiq", "at most once as it is: the list is popped before the work"),
    ("huey", "at most once: a task of a worker that dies is lost"),
    ("arq", "at least once: a job whose worker dies comes again after its timeout"),
]
COMMANDS: Final = """\
    make bench                                  # everything in this file
    make bench QUICK=yes                        # smaller, some minutes
    make bench ARGS="--only depth,nodes"        # some scenes: {scenes}
    make bench ARGS="--jobs 3000000"            # no more than so many standing jobs
    disque bench -P 16 -n 500000 add get ack    # the load of a single figure, on any server of this kind
    disque bench -p 6379 -P 16 -n 500000 lpush rpop del
"""


def table(head: tuple[str, ...], rows: Rows) -> list[str]:
    """Give a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def shown(value: Spread | None, form: str = ",.0f") -> str:
    return "-" if value is None else value.text(form)


def title(server: str) -> str:
    return TITLES.get(server, server)


def picture(name: str, what: str) -> list[str]:
    return [f"![{what}](docs/bench/{name}.svg)", ""]


def speed(book: Book) -> list[str]:
    """Operations a second and CPU by depth, and ratios to Redis."""
    lines = ["## Speed against pipeline depth", "", *picture("depth", "operations a second against pipeline depth")]
    lines += [
        (
            "50 connections, bodies of 100 bytes, no journal. Each connection sends so many requests at once and "
            "waits for all replies. Operations a second, in brackets the lowest and the highest round; the ratio is "
            "ours to Redis within a round; CPU is that of the server for an operation. Without pipelining a request "
            "costs any client as much as it costs Redis (see the driver below), so that on two processors Redis may "
            "wait for its client: there, and on a busy machine, CPU says more than the rate."
        ),
        "",
    ]
    for what in book.whats("depth"):
        servers = book.servers("depth", what)
        names = [title(server) for server in servers]
        head = ("depth", *names, *ratio_heads(servers), f"CPU in us: {' / '.join(names)}")
        lines += [f"### {SPOKEN.get(what, what)}", ""]
        lines += table(head, [speed_row(book, what, servers, depth) for depth in book.sizes("depth", what=what)])
    return lines


def ratio_heads(servers: list[str]) -> list[str]:
    return [f"{title(server)} : Redis" for server in servers if REDIS in servers and server in {"compiled", "plain"}]


def speed_row(book: Book, what: str, servers: list[str], depth: int) -> tuple[str, ...]:
    cells = {server: Cell("depth", server, what, depth) for server in servers}
    rates = [shown(book.spread(cell, "rate")) for cell in cells.values()]
    own = [cell for server, cell in cells.items() if REDIS in cells and server in {"compiled", "plain"}]
    ratios = [shown(book.ratio(cell, cells[REDIS], "rate"), ".2f") for cell in own]
    cpu = [book.spread(cell, "cpu_us") for cell in cells.values()]
    return (str(depth), *rates, *ratios, " / ".join("-" if one is None else f"{one.middle:.2f}" for one in cpu))


def latency(book: Book) -> list[str]:
    """Percentiles of a request on its own."""
    lines = ["## Latency", "", *picture("latency", "latency percentiles")]
    lines += ["Milliseconds for a request of one of 50 connections that all ask as fast as they are answered.", ""]
    rows: Rows = []
    for what in book.whats("depth"):
        for server in book.servers("depth", what):
            cell = Cell("depth", server, what, 1)
            found = [shown(book.spread(cell, f"{name}_ms"), ".3f") for name in PERCENTILES]
            rows.append((what, title(server), *found))
    return lines + table(("", "server", *PERCENTILES), rows)


def memory(book: Book) -> list[str]:
    lines = ["## Memory", "", *picture("memory", "memory of a job")]
    lines += [
        "Growth of the resident memory of a fresh server for each job of 100 bytes; delays spread over an hour.",
        "",
    ]
    rows: Rows = []
    for what in book.whats("memory"):
        for server in book.servers("memory", what):
            for jobs in book.sizes("memory", server, what):
                rows.append(
                    (
                        what,
                        title(server),
                        f"{jobs:,}",
                        shown(book.spread(Cell("memory", server, what, jobs), "job_bytes")),
                    )
                )
    return lines + table(("jobs", "server", "how many", "bytes a job"), rows)


def standing(book: Book) -> list[str]:
    lines = ["## Cost against the number of jobs", "", *picture("standing", "cost against the number of jobs")]
    lines += [
        (
            "One operation is a job's life, from ADDJOB through GETJOB to ACKJOB, 16 at a time on 50 connections, "
            "while so many other jobs of 20 bytes stand in the same queue, or wait in the same node for delays spread "
            "over an hour. Memory is what the process has grown by them."
        ),
        "",
    ]
    rows: Rows = []
    for server in book.servers("standing"):
        for what in book.whats("standing", server):
            for jobs in book.sizes("standing", server, what):
                cell = Cell("standing", server, what, jobs)
                grown = book.spread(cell, "rss_bytes")
                size = "-" if grown is None else f"{grown.middle / 1e6:,.0f} MB"
                rows.append(
                    (
                        what,
                        f"{jobs:,}",
                        shown(book.spread(cell, "cpu_us"), ".2f"),
                        shown(book.spread(cell, "rate")),
                        size,
                    )
                )
    return lines + table(("others", "how many", "CPU a job, us", "jobs a second", "memory"), rows)


def nodes(book: Book) -> list[str]:
    lines = ["## Cost against the number of nodes", "", *picture("nodes", "cost against the number of nodes")]
    lines += [
        (
            "All nodes on this one machine, all load at one of them, no journals. R3 is REPLICATE 3: an ADDJOB is "
            "answered when three nodes have the job. CPU is that of all nodes together, for a job; a cycle is add, "
            "get and ack."
        ),
        "",
    ]
    rows: Rows = []
    for server in book.servers("nodes"):
        for what in book.whats("nodes", server):
            for size in book.sizes("nodes", server, what):
                cell = Cell("nodes", server, what, size)
                rows.append(
                    (
                        title(server),
                        what,
                        str(size),
                        shown(book.spread(cell, "rate")),
                        shown(book.spread(cell, "cpu_us"), ".1f"),
                    )
                )
    return lines + table(("server", "what", "nodes", "jobs a second", "CPU a job, us"), rows)


def journal(book: Book) -> list[str]:
    lines = ["## Journal", "", "`appendonly yes` with `appendfsync everysec`, beside the same node without.", ""]
    rows: Rows = []
    for what in book.whats("journal"):
        for depth in book.sizes("journal", what=what):
            on, off = (Cell("journal", kind, what, depth) for kind in ("everysec", "off"))
            rates = [shown(book.spread(cell, "rate")) for cell in (on, off)]
            rows.append((what, str(depth), *rates, shown(book.ratio(on, off, "rate"), ".2f")))
    return lines + table(("what", "depth", "everysec", "off", "ratio"), rows)


def rivals(book: Book) -> list[str]:
    lines = ["## Beside libraries for the same purpose", "", *picture("rivals", "jobs a second of several libraries")]
    lines += [
        (
            "Jobs a second that one producer process adds, and that one worker process finishes, one at a time, when "
            "a job does nothing and has 100 bytes. The libraries keep their jobs in a redis-server, our client in one "
            "node of the best form; neither writes to disk. They do more for a job than our client does (names of "
            "functions, results, middleware), and promise different things:"
        ),
        "",
        *table(("", "promises as measured"), GUARANTEES),
    ]
    whats = book.whats("rivals")
    rows = [
        (server, *(shown(book.spread(Cell("rivals", server, what, 1), "rate")) for what in whats))
        for server in book.servers("rivals")
    ]
    return lines + table(("", *whats), rows)


def tasks(book: Book) -> list[str]:
    """How soon tasks begin, and whether a worker grows."""
    lines = ["## Tasks", "", "`disque.tasks` on one node, tasks that do nothing, one worker process.", ""]
    rows: Rows = []
    for rate in book.sizes("tasks", what="latency"):
        cell = Cell("tasks", "disque.tasks", "latency", rate)
        p50, p99 = (shown(book.spread(cell, key), ".2f") for key in ("p50_ms", "p99_ms"))
        rows.append((f"from enqueue to start, {rate:,} a second", f"p50 {p50} ms, p99 {p99} ms"))
    for done in book.sizes("tasks", what="done"):
        found = book.spread(Cell("tasks", "disque.tasks", "done", done), "rss_bytes")
        if found is not None:
            rows.append((f"memory of the worker after {done:,} tasks", f"{found.middle / 1e6:.1f} MB"))
    return lines + table(("what", "measured"), rows)


def celery(book: Book) -> list[str]:
    """Celery with two brokers."""
    lines = ["## Celery", ""]
    lines += [
        (
            "Tasks a second that do nothing, of one producer and of one worker with two processes, in the same "
            "environment: with a node of the best form as its broker, and with a redis-server. Neither writes to disk. "
            "The ratio is that of a round."
        ),
        "",
    ]
    rows: Rows = []
    for what in (PUBLISHED, DONE):
        ours, theirs = (Cell("celery", name, what, PROCESSES) for name in (ON_OURS, ON_REDIS))
        rates = [shown(book.spread(cell, "rate")) for cell in (ours, theirs)]
        rows.append((what, *rates, shown(book.ratio(ours, theirs, "rate"), ".2f")))
    return lines + table(("what", ON_OURS, ON_REDIS, "ratio"), rows)


def driver(book: Book) -> list[str]:
    lines = ["## The driver", ""]
    lines += [
        (
            "Whether `disque bench`, which makes the load of all the above, is the limit: beside redis-benchmark, in "
            "turn, on the same redis-server. CPU for an operation, of the server and of the driver."
        ),
        "",
    ]
    rows: Rows = []
    for what in book.whats("driver"):
        for depth in book.sizes("driver", what=what):
            for name in book.servers("driver", what):
                cell = Cell("driver", name, what, depth)
                figures = (
                    shown(book.spread(cell, key), form)
                    for key, form in (("rate", ",.0f"), ("cpu_us", ".2f"), ("client_us", ".2f"))
                )
                rows.append((what, str(depth), name, *figures))
    return lines + table(("what", "depth", "driver", "a second", "server, us", "driver, us"), rows)


def gateway(book: Book) -> list[str]:
    lines = ["## HTTP", ""]
    lines += [
        (
            "The gateway at 32 connections: lmstfy's publish and consume routes, a job of 100 bytes, one gateway "
            "process, one node of the best form, and the load in Python on the same machine; beside a route of "
            "Starlette that does nothing. CPU is that of the HTTP process for each publish, or each job consumed and "
            "acknowledged. lmstfy itself, with Redis and its own client, had 6,600 and 3,400 a second on another "
            "machine of this size."
        ),
        "",
    ]
    rows: Rows = []
    for name in book.servers("gateway"):
        for what in book.whats("gateway"):
            for depth in book.sizes("gateway", name, what):
                cell = Cell("gateway", name, what, depth)
                figures = (shown(book.spread(cell, key)) for key in ("rate", "cpu_us"))
                rows.append((name, what, *figures))
    return lines + table(("", "what", "a second", "CPU, us"), rows)


def dashboard(book: Book) -> list[str]:
    lines = ["## The dashboard", ""]
    lines += [
        (
            "One node of the best form with 10,000 queues, and a gateway of its own for each round. The first page of "
            "all has the gateway learn the names of all queues. The last row is how busy the node is while somebody "
            "has the overview open, in percent of a processor."
        ),
        "",
    ]
    rows: Rows = []
    for name in book.servers("dashboard"):
        for what in book.whats("dashboard"):
            for jobs in book.sizes("dashboard", name, what):
                cell = Cell("dashboard", name, what, jobs)
                figures = (
                    shown(book.spread(cell, key), form) for key, form in (("ms", ",.0f"), ("node_percent", ".1f"))
                )
                rows.append((what, f"{jobs:,}", *figures))
    return lines + table(("page", "jobs", "ms", "CPU of the node, %"), rows)


SECTIONS: Final = {
    "depth": (speed, latency),
    "memory": (memory,),
    "standing": (standing,),
    "nodes": (nodes,),
    "journal": (journal,),
    "rivals": (rivals,),
    "tasks": (tasks,),
    "celery": (celery,),
    "gateway": (gateway,),
    "dashboard": (dashboard,),
    "driver": (driver,),
}


def document(book: Book, ours: str, scenes: list[str]) -> str:
    """Give the whole text; `ours` is the form that is judged."""
    lines = [
        "# Benchmarks",
        "",
        (
            f"Made by `{book.facts['command']}` on {book.facts['date']}. All figures are of this one run, but for what "
            "is named below as measured later; contenders took turns within each round, and a figure is the median of "
            "the rounds with the lowest and the highest in brackets. Machines differ and drift: ratios are worth more "
            "than figures. The samples are in [docs/bench/samples.json](docs/bench/samples.json)."
        ),
        "",
        *table(("on what", ""), [(name, text) for name, text in book.facts.items() if name not in {"command", "date"}]),
        *[f"- {note}" for note in book.notes],
        *([""] if book.notes else []),
        "## Figures to reach",
        "",
        f"Of the {ours} form. Ratios to Redis are those of a round.",
        "",
        *table(("what", "asked", "measured", ""), list(judged(book, ours))),
    ]
    for scene, sections in SECTIONS.items():
        if book.sizes(scene):
            lines += [line for section in sections for line in section(book)]
    lines += ["## Again", "", COMMANDS.format(scenes=", ".join(scenes))]
    return "\n".join(lines)
