"""What the user sees: a progress bar while it runs, a table or a JSON document at the end."""

import json
import sys
import time
from typing import Any, Final, TextIO

from disque.cli.bench_histogram import PERCENTILES
from disque.cli.bench_options import Amount, Options
from disque.cli.bench_run import Figures, ratio

_BAR: Final = 30
_REDRAW_S: Final = 0.2
_BUSY: Final = 0.9
_IDLE: Final = 0.7
_KEPT: Final = 0.98
_NAN: Final = float("nan")
_COLUMNS: Final = (
    ("workload", 10),
    ("server", 22),
    ("ops/s", 9),
    *((name, 8) for name, _share in PERCENTILES),
    ("max", 8),
    ("srv s/kop", 10),
    ("cli s/kop", 10),
    ("RSS MB", 14),
    ("B/job", 7),
)


class ProgressBar:
    """One line on a terminal that is drawn over and over; on anything else nothing at all."""

    def __init__(self, stream: TextIO, wanted: bool) -> None:
        self._stream = stream
        self._shown = wanted and stream.isatty()
        self._label = ""
        self._since_s = 0.0
        self._drawn_s = 0.0

    def __call__(self, label: str, operations: int, amount: Amount) -> bool:
        """Draw how far `label` has come; always says to go on."""
        now_s = time.monotonic()
        if label != self._label:
            self._label, self._since_s, self._drawn_s = label, now_s, 0.0
        if self._shown and now_s - self._drawn_s >= _REDRAW_S:
            self._drawn_s = now_s
            self._stream.write("\r\x1b[K" + bar_line(label, operations, amount, now_s - self._since_s))
            self._stream.flush()
        return True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def bar_line(label: str, operations: int, amount: Amount, elapsed_s: float) -> str:
    """Give the text of a progress bar."""
    done = [operations / amount.operations] if amount.operations else []
    done += [elapsed_s / amount.seconds] if amount.seconds else []
    share = min(1.0, max(done, default=0.0))
    filled = round(share * _BAR)
    rate = operations / elapsed_s if elapsed_s > 0 else 0.0
    return f"{label:32} [{'#' * filled}{'.' * (_BAR - filled)}] {share:4.0%} {rate:11,.0f}/s"


def _latency_of(options: Options, workload: str) -> str:
    what = {"cycle": "a cycle", "mixed": "an ADDJOB"}.get(workload, "a request")
    what = what if options.pipeline == 1 else f"a batch of {options.pipeline}"
    return what if options.rate is None else f"{what}, from when it was due"


def as_dict(figures: Figures, options: Options) -> dict[str, Any]:
    """Give the figures of a workload for JSON; CPU in seconds for a thousand operations and in cores."""
    tally = figures.tally
    thousands = tally.operations / 1000 or _NAN
    elapsed_s = tally.elapsed_s or _NAN
    server_cpu_s = _NAN if figures.server_cpu_s is None else figures.server_cpu_s
    document: dict[str, Any] = {
        "workload": figures.workload,
        "address": figures.address,
        "server": figures.server,
        "operations": tally.operations,
        "requests": tally.requests,
        "jobs": tally.jobs,
        "empty_replies": tally.empty,
        "elapsed_s": round(tally.elapsed_s, 6),
        "operations_per_s": round(tally.rate, 1),
        "latency_of": _latency_of(options, figures.workload),
        "latency_ms": tally.latency.summary_ms(),
        "server_figures_from": figures.source,
        "server_cpu_s_per_1000": _number(server_cpu_s / thousands),
        "server_cores": _number(server_cpu_s / elapsed_s),
        "client_cpu_s_per_1000": _number(tally.client_cpu_s / thousands),
        "client_cores": _number(tally.client_cpu_s / elapsed_s),
        "client_processes": figures.clients,
        "asked_per_s": options.rate,
        "rss_before_bytes": figures.rss_before_bytes,
        "rss_after_bytes": figures.rss_after_bytes,
        "errors": dict(tally.errors),
        "complete": not (tally.fatal or tally.interrupted),
    }
    if figures.workload in {"add", "lpush"}:
        grown = figures.rss_after_bytes - figures.rss_before_bytes
        document["rss_bytes_per_job"] = _number(grown / (thousands * 1000), 1) if figures.rss_after_bytes else None
    if tally.delivered is not None:
        document["delivery_ms"] = tally.delivered.summary_ms()
        document |= {"added": tally.added, "lost": tally.lost, "twice": tally.twice, "foreign": tally.foreign}
    return document


def _number(value: float, digits: int = 6) -> float | None:
    return round(value, digits) if value == value else None  # noqa: PLR0124 - NaN is not itself


def as_document(run: list[Figures], options: Options) -> dict[str, Any]:
    """Give the whole run for JSON."""
    document: dict[str, Any] = {
        "options": {
            "connections": options.connections,
            "pipeline": options.pipeline,
            "body_bytes": options.body_bytes,
            "clients": options.clients,
            "queues": options.queues,
            "count": options.count,
            "job": [word.decode() for word in options.addjob_words()],
            "seed": options.seed,
            "rate": options.rate,
        },
        "workloads": [as_dict(figures, options) for figures in run],
    }
    if options.compare:
        document["ratios"] = [
            {"workload": first.workload, "against": second.workload, **ratio(first, second)}
            for first, second in _pairs(run)
        ]
    return document


def _pairs(run: list[Figures]) -> list[tuple[Figures, Figures]]:
    return list(zip(run[0::2], run[1::2], strict=False))


def _cells(row: dict[str, Any]) -> list[str]:
    def number(key: str, form: str) -> str:
        return "-" if row.get(key) is None else format(row[key], form)

    before, after = (f"{size / 1e6:.1f}" if size else "-" for size in (row["rss_before_bytes"], row["rss_after_bytes"]))
    return [
        row["workload"],
        row["address"],
        number("operations_per_s", ",.0f"),
        *(f"{value:.3f}" for value in row["latency_ms"].values()),
        number("server_cpu_s_per_1000", ".5f"),
        number("client_cpu_s_per_1000", ".5f"),
        f"{before}->{after}",
        number("rss_bytes_per_job", ".0f"),
    ]


def _line(cells: list[str]) -> str:
    pairs = zip(cells, _COLUMNS, strict=True)
    texts = [cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, (_, width)) in enumerate(pairs)]
    return " ".join(texts).rstrip()


def warnings_of(row: dict[str, Any]) -> list[str]:
    """Say what makes the figures of a workload doubtful, or wrong."""
    name = f"{row['workload']} {row['address']}"
    client, server = (row["client_cores"] or 0) / row["client_processes"], row["server_cores"] or 0
    texts = [f"{name}: {times} x {text}" for text, times in row["errors"].items()]
    if row["empty_replies"]:
        texts.append(f"{name}: {row['empty_replies']} replies brought nothing")
    if client > _BUSY > server:
        texts.append(
            f"{name}: the client was busy for {client:.0%} of the time, the server for {server:.0%} of a core: "
            f"this measures the client; try --clients {row['client_processes'] + 1}"
        )
    if row["asked_per_s"] and row["operations_per_s"] < row["asked_per_s"] * _KEPT:
        texts.append(f"{name}: {row['operations_per_s']:,.0f} operations a second of {row['asked_per_s']:,.0f} asked")
    if row["server_cores"] is not None and max(client, server) < _IDLE and not row["asked_per_s"]:
        texts.append(
            f"{name}: neither the client ({client:.0%} of a core) nor the server ({server:.0%}) was busy: "
            "few connections, a shared machine, a slow disk or network set the pace"
        )
    if row.get("lost") or row.get("twice") or row.get("foreign"):
        texts.append(f"{name}: {row['lost']} jobs lost, {row['twice']} came twice, {row['foreign']} of unknown origin")
    return texts


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    what = ", ".join(dict.fromkeys(f"{row['workload']}: {row['latency_of']}" for row in rows))
    notes = [
        f"Latency in ms, of {what}. srv, cli: CPU seconds of server and client for 1000 operations.",
        f"Server figures from its {' or '.join(sorted({row['server_figures_from'] for row in rows}))}.",
    ]
    if any("rss_bytes_per_job" in row for row in rows):
        notes.append("B/job: growth of the server's RSS for each job; body, queue entry and timers are all in it.")
        notes.append("B/job is too low on a server that had freed memory to use again: measure on a fresh one.")
    for row in rows:
        if "delivery_ms" in row:
            times = ", ".join(f"{name} {value:.3f}" for name, value in row["delivery_ms"].items())
            notes.append(f"{row['workload']}: from ADDJOB to delivery in ms: {times}")
            notes.append(f"{row['workload']}: {row['added']} added, {row['lost']} lost, {row['twice']} came twice")
    return notes


def table(run: list[Figures], options: Options) -> str:
    """Give the table, the ratios, and what must be said about them."""
    document = as_document(run, options)
    rows = document["workloads"]
    lines = [_line([name for name, _width in _COLUMNS]), *(_line(_cells(row)) for row in rows)]
    lines += [_ratio_line(pair) for pair in document.get("ratios", ()) if pair["slices"]]
    lines += _notes(rows)
    lines += [f"warning: {text}" for row in rows for text in warnings_of(row)]
    return "\n".join(lines)


def _ratio_line(pair: dict[str, Any]) -> str:
    return (
        f"{pair['workload']} / {pair['against']}: {pair['median']:.3f} of the other's rate "
        f"({pair['min']:.3f} to {pair['max']:.3f} over {len(pair['slices'])} slices)"
    )


def print_report(run: list[Figures], options: Options) -> None:
    """Print table or JSON on standard output; nothing when nothing was measured."""
    if options.json:
        print(json.dumps(as_document(run, options), indent=2))
    elif run:
        print(table(run, options))
    sys.stdout.flush()
