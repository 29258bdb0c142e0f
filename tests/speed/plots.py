"""The plots of BENCHMARKS.md, as SVG that is the same for the same samples."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt

from tests.speed.book import Book, Cell
from tests.speed.goals import middle
from tests.speed.report import PERCENTILES, title
from tests.speed.server import BEANSTALKD, REDIS

COLOURS: Final = {"compiled": "#0b5fa5", "plain": "#6db3e8", REDIS: "#c0392b", BEANSTALKD: "#7f8c8d"}
NONE: Final = "none"
STYLE: Final[dict[Any, Any]] = {  # matplotlib types each name of a setting
    "svg.fonttype": NONE,  # text stays text: small files, and words that can be searched
    "svg.hashsalt": "disque",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def colour(server: str) -> str | None:
    return COLOURS.get(server)


def curve(axes: Any, book: Book, cells: list[Cell], key: str, label: str, **style: Any) -> None:
    """Draw a line through medians, and a band from the lowest to the highest round."""
    found = [(cell.at, spread) for cell in cells if (spread := book.spread(cell, key)) is not None]
    sizes = [size for size, _ in found]
    [line] = axes.plot(sizes, [spread.middle for _, spread in found], marker="o", markersize=3, label=label, **style)
    low, high = [spread.low for _, spread in found], [spread.high for _, spread in found]
    axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def cells_of(book: Book, scene: str, server: str, what: str) -> list[Cell]:
    return [Cell(scene, server, what, size) for size in book.sizes(scene, server, what)]


def depth(book: Book) -> Any:
    """Operations a second above, CPU of the server for one below."""
    whats, keys = book.whats("depth"), {"rate": "operations a second", "cpu_us": "server CPU an operation, us"}
    shape = (len(keys), len(whats))
    figure, rows = plt.subplots(*shape, figsize=(3.2 * shape[1], 5.4), sharex="col", sharey="row", squeeze=False)
    for panels, (key, name) in zip(rows, keys.items(), strict=True):
        for axes, what in zip(panels, whats, strict=True):
            for server in book.servers("depth", what):
                curve(axes, book, cells_of(book, "depth", server, what), key, title(server), color=colour(server))
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(sizes := book.sizes("depth", what=what), labels=list(map(str, sizes)))
            axes.minorticks_off()
        panels[0].set_ylabel(name)
    for axes, below, what in zip(*rows, whats, strict=True):
        axes.set_title(what)
        below.set_xlabel("pipeline depth")
    rows[0][0].legend(fontsize=7)
    return figure


def latency(book: Book) -> Any:
    whats = book.whats("depth")
    figure, panels = plt.subplots(1, len(whats), figsize=(3.2 * len(whats), 3), sharey=True, squeeze=False)
    for axes, what in zip(panels[0], whats, strict=True):
        for server in book.servers("depth", what):
            cell = Cell("depth", server, what, 1)
            values = [middle(book.spread(cell, f"{name}_ms")) for name in PERCENTILES]
            axes.plot(PERCENTILES, values, marker="o", markersize=3, label=title(server), color=colour(server))
        axes.set(title=f"{what}, one at a time", yscale="log")
    panels[0][0].set_ylabel("milliseconds")
    panels[0][0].legend(fontsize=7)
    return figure


def bars(axes: Any, labels: list[str], values: list[float], colours: list[str | None]) -> None:
    places = range(len(labels))
    drawn = axes.barh(places, values, color=[one or "#0b5fa5" for one in colours])
    axes.bar_label(drawn, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_yticks(places, labels=labels)
    axes.invert_yaxis()


def memory(book: Book) -> Any:
    pairs = [(what, server) for what in book.whats("memory") for server in book.servers("memory", what)]
    figure, axes = plt.subplots(figsize=(6.4, 0.35 * len(pairs) + 0.8))
    values = [middle(book.spread(cells_of(book, "memory", server, what)[-1], "job_bytes")) for what, server in pairs]
    bars(axes, [f"{what}, {title(server)}" for what, server in pairs], values, [colour(server) for _, server in pairs])
    axes.set_xlabel("bytes of resident memory for a job of 100 bytes")
    return figure


def standing(book: Book) -> Any:
    figure, axes = plt.subplots(figsize=(5, 3))
    for server in book.servers("standing"):
        for what in book.whats("standing", server):
            curve(axes, book, cells_of(book, "standing", server, what), "cpu_us", f"among {what} jobs")
    axes.set(xscale="log", xlabel="other jobs in the node", ylabel="CPU of a job's life, us")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    return figure


def nodes(book: Book) -> Any:
    figure, axes = plt.subplots(figsize=(5, 3))
    for server in [name for name in book.servers("nodes") if name != REDIS]:
        for what in [name for name in book.whats("nodes", server) if name.startswith("add")]:
            curve(axes, book, cells_of(book, "nodes", server, what), "cpu_us", what)
    axes.set(xlabel="nodes", ylabel="CPU of an ADDJOB, all nodes, us", xticks=book.sizes("nodes"))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    return figure


def rivals(book: Book) -> Any:
    pairs = [(what, server) for what in book.whats("rivals") for server in book.servers("rivals", what)]
    figure, axes = plt.subplots(figsize=(6.4, 0.3 * len(pairs) + 0.8))
    values = [middle(book.spread(Cell("rivals", server, what, 1), "rate")) for what, server in pairs]
    colours = [COLOURS["compiled"] if server.startswith("disque.") else COLOURS[BEANSTALKD] for _, server in pairs]
    bars(axes, [f"{what}: {server}" for what, server in pairs], values, list(colours))
    axes.set(xscale="log", xlabel="jobs a second, one process")
    axes.margins(x=0.15)
    return figure


PLOTS: Final = {
    "depth": ("depth", depth),
    "latency": ("depth", latency),
    "memory": ("memory", memory),
    "standing": ("standing", standing),
    "nodes": ("nodes", nodes),
    "rivals": ("rivals", rivals),
}


def draw(book: Book, folder: Path) -> None:
    """Write all plots that there are samples for, and remove the others."""
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for name, (scene, plot) in PLOTS.items():
            path = folder / f"{name}.svg"
            path.unlink(missing_ok=True)
            if book.sizes(scene):
                figure = plot(book)
                figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
                plt.close(figure)
