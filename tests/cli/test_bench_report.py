"""Figures as text and as JSON, and the warnings that belong to them."""

import io
import json

import pytest

from disque.cli.bench_options import Address, Amount, Options
from disque.cli.bench_report import ProgressBar, as_dict, as_document, bar_line, table, warnings_of
from disque.cli.bench_run import Figures, ratio
from disque.cli.bench_tally import Tally


def tally(operations: int = 1000, elapsed_s: float = 2.0, client_cpu_s: float = 0.5) -> Tally:
    measured = Tally()
    measured.operations, measured.elapsed_s, measured.client_cpu_s = operations, elapsed_s, client_cpu_s
    measured.latency.record(3_000_000)
    return measured


def figures(workload: str = "add", rates: tuple[float, ...] = (), measured: Tally | None = None) -> Figures:
    row = Figures(workload, "127.0.0.1:7711", "Disque 1", "process", measured or tally(), clients=1)
    row.server_cpu_s, row.rss_before_bytes, row.rss_after_bytes, row.rates = 1.5, 10_000_000, 10_500_000, list(rates)
    return row


OPTIONS = Options(Address())


def test_figures_of_a_workload() -> None:
    row = as_dict(figures(), OPTIONS)
    assert row["operations_per_s"] == 500
    assert row["server_cpu_s_per_1000"] == 1.5
    assert row["client_cpu_s_per_1000"] == 0.5
    assert (row["server_cores"], row["client_cores"]) == (0.75, 0.25)
    assert row["rss_bytes_per_job"] == 500
    assert row["latency_ms"]["max"] == 3.0


def test_only_adding_has_bytes_per_job() -> None:
    assert "rss_bytes_per_job" not in as_dict(figures("get"), OPTIONS)


def test_a_run_that_did_nothing_has_no_figures_per_operation() -> None:
    row = as_dict(figures(measured=Tally()), OPTIONS)
    assert row["server_cpu_s_per_1000"] is None
    assert json.dumps(row, allow_nan=False)
    assert "-" in table([figures(measured=Tally())], OPTIONS)


def test_the_table_says_whose_latency_it_is() -> None:
    assert "add: a request" in table([figures()], OPTIONS)
    assert "add: a batch of 16" in table([figures()], Options(Address(), pipeline=16))
    assert "cycle: a cycle" in table([figures("cycle")], OPTIONS)


def test_the_table_says_what_bytes_per_job_include() -> None:
    assert "timers" in table([figures()], OPTIONS)
    assert "timers" not in table([figures("get")], OPTIONS)


class TestWarnings:
    def test_a_client_that_is_the_bottleneck(self) -> None:
        [text] = warnings_of(as_dict(figures(measured=tally(client_cpu_s=1.9)), OPTIONS))
        assert "this measures the client" in text
        assert "--clients 2" in text

    def test_a_client_as_busy_as_its_server_is_fine(self) -> None:
        row = as_dict(figures(measured=tally(client_cpu_s=1.9)), OPTIONS) | {"server_cores": 0.95}
        assert warnings_of(row) == []

    def test_a_rate_that_was_not_kept(self) -> None:
        row = as_dict(figures(measured=tally(client_cpu_s=0.1)), Options(Address(), rate=600.0))
        assert warnings_of(row) == ["add 127.0.0.1:7711: 500 operations a second of 600 asked"]
        assert warnings_of(as_dict(figures(), Options(Address(), rate=500.0))) == [], "nobody need be busy"

    def test_errors_losses_and_empty_replies(self) -> None:
        measured = tally()
        measured.complain("PAUSED x")
        measured.empty, measured.lost, measured.delivered = 4, 2, measured.latency
        texts = "\n".join(warnings_of(as_dict(figures("mixed", measured=measured), OPTIONS)))
        assert "1 x PAUSED x" in texts
        assert "4 replies brought nothing" in texts
        assert "2 jobs lost" in texts


class TestRatio:
    def test_median_and_spread_over_the_slices(self) -> None:
        pair = ratio(figures(rates=(10, 20, 30)), figures(rates=(20, 20, 20)))
        assert (pair["median"], pair["min"], pair["max"]) == (1.0, 0.5, 1.5)

    def test_slices_that_are_missing_are_left_out(self) -> None:
        assert ratio(figures(rates=(10, 20)), figures(rates=(10,)))["slices"] == [1.0]
        assert ratio(figures(), figures())["median"] is None

    def test_it_is_printed(self) -> None:
        options = Options(Address(), compare=Address("h", 1))
        rows = [figures(rates=(10,)), figures("lpush", rates=(20,))]
        assert "add / lpush: 0.500" in table(rows, options)
        assert as_document(rows, options)["ratios"][0]["against"] == "lpush"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def test_a_terminal_gets_a_bar(self) -> None:
        stream = Terminal()
        bar = ProgressBar(stream, wanted=True)
        assert bar("add", 50, Amount(100, None))
        bar.clear()
        assert "[###############...............]  50%" in stream.getvalue()
        assert stream.getvalue().endswith("\r\x1b[K")

    @pytest.mark.parametrize(("stream", "wanted"), [(io.StringIO(), True), (Terminal(), False)])
    def test_others_get_nothing(self, stream: io.StringIO, wanted: bool) -> None:
        bar = ProgressBar(stream, wanted)
        bar("add", 50, Amount(100, None))
        bar.clear()
        assert stream.getvalue() == ""

    def test_it_shows_what_is_nearer_the_end(self) -> None:
        assert " 75%" in bar_line("add", 50, Amount(100, 4.0), 3.0)
        assert "100%" in bar_line("add", 500, Amount(100, None), 3.0)
        assert "  0%" in bar_line("cleaning up", 0, Amount(None, None), 3.0)


def test_tallies_of_slices_and_of_processes_add_up() -> None:
    serial, parallel = tally(), tally()
    serial.merge(tally(500, 3.0), parallel=False)
    parallel.merge(tally(500, 3.0), parallel=True)
    assert (serial.rate, parallel.rate) == (300, 500)
    assert serial.latency.count == 2
