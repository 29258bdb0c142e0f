"""--stat and --latency, with a clock and a server that do as they are told."""

from collections.abc import Iterable
from typing import cast

import pytest

from disque.cli.client import Connection
from disque.cli.shell_reply import ErrorReply
from disque.cli.watch import (
    Clockwork,
    Latency,
    WatchError,
    latency_line,
    latency_lines,
    latency_live,
    measure,
    parse_info,
    stat,
    stat_row,
)

INFO = (
    b"# Jobs\r\nregistered_jobs:5\r\nregistered_queues:2\r\nused_memory_human:1.5M\r\nconnected_clients:3\r\n"
    b"blocked_clients:1\r\ntotal_commands_processed:%d\r\ntotal_connections_received:7\r\n"
)


class Server:
    """Stands for a connection: INFO counts ten requests a time, PING takes the next of `round_trips_s`."""

    def __init__(self, outside: "Outside", round_trips_s: Iterable[float] = ()) -> None:
        self.requests = 0
        self.error = b""
        self._outside = outside
        self._round_trips_s = iter(round_trips_s)

    def call(self, args: list[bytes]) -> object:
        if self.error:
            return ErrorReply(self.error)
        if args == [b"PING"]:
            self._outside.now_s += next(self._round_trips_s)
            return b"PONG"
        self.requests += 10
        return INFO % self.requests

    def connection(self) -> Connection:
        return cast("Connection", self)


class Outside:
    """Time that passes only when somebody sleeps or waits; everything written is in `text`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.text = ""
        self.slept_s: list[float] = []

    def write(self, text: str) -> None:
        self.text += text

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds

    def clockwork(self) -> Clockwork:
        return Clockwork(self.write, lambda: self.now_s, self.sleep)


def test_info_is_read_by_field() -> None:
    assert parse_info(b"# Jobs\r\na:1\r\nb:x:y\r\n\r\n") == {"a": "1", "b": "x:y"}


def test_a_row_shows_what_came_since_the_last() -> None:
    outside = Outside()
    stat(Server(outside).connection(), 2.0, outside.clockwork(), rows=3)
    header, *rows = outside.text.splitlines()
    assert header.split() == ["jobs", "queues", "mem", "clients", "blocked", "requests", "connections"]
    assert rows[0].split() == ["5", "2", "1.5M", "3", "1", "10", "(+0)", "7"]
    assert [row.split()[6] for row in rows] == ["(+0)", "(+10)", "(+10)"]
    assert outside.slept_s == [2.0, 2.0]


def test_columns_stand_below_their_titles() -> None:
    outside = Outside()
    stat(Server(outside).connection(), 1.0, outside.clockwork(), rows=1)
    header, row = outside.text.splitlines()
    assert [header.index(title) for title in ("queues", "connections")] == [row.index("2"), row.rindex("7")]


def test_the_header_comes_again_after_twenty_rows() -> None:
    outside = Outside()
    stat(Server(outside).connection(), 1.0, outside.clockwork(), rows=41)
    lines = outside.text.splitlines()
    assert [number for number, line in enumerate(lines) if line.startswith("jobs")] == [0, 21, 42]


def test_fields_that_a_server_has_not_are_dashes() -> None:
    assert stat_row({}, None).split() == ["-", "-", "-", "-", "-", "-", "(+0)", "-"]


def test_an_error_reply_ends_the_watch() -> None:
    outside = Outside()
    server = Server(outside)
    server.error = b"NOAUTH Authentication required."
    with pytest.raises(WatchError, match="NOAUTH"):
        stat(server.connection(), 1.0, outside.clockwork())


def test_latency_is_minimum_maximum_average_and_99th_percentile() -> None:
    latency = Latency()
    for milliseconds in range(1, 101):
        latency.add(milliseconds / 1000)
    assert latency.numbers() == {"min": 1.0, "max": 100.0, "avg": 50.5, "p99": 99.0, "samples": 100}


FORMS = [
    ("", "min: 0.250, max: 0.250, avg: 0.250, p99: 0.250 ms (1 samples)"),
    ("raw", "0.250 0.250 0.250 0.250 1"),
    ("csv", "0.250,0.250,0.250,0.250,1"),
    ("json", '{"min_ms":0.250,"max_ms":0.250,"avg_ms":0.250,"p99_ms":0.250,"samples":1}'),
]


@pytest.mark.parametrize(("form", "line"), FORMS)
def test_latency_has_forms_for_programs(form: str, line: str) -> None:
    latency = Latency()
    latency.add(0.00025)
    assert latency_line(latency, form) == line


def test_a_ping_every_ten_milliseconds_for_the_interval() -> None:
    outside = Outside()
    latency = measure(Server(outside, [0.001] * 200).connection(), 1.0, outside.clockwork())
    assert latency.samples == 91  # 11 ms each
    assert latency.numbers()["max"] == 1.0


def test_at_least_one_sample_is_taken() -> None:
    outside = Outside()
    assert measure(Server(outside, [0.001]).connection(), 0.0, outside.clockwork()).samples == 1


def test_history_prints_a_line_each_interval() -> None:
    outside = Outside()
    latency_lines(Server(outside, [0.5] * 9).connection(), 0.1, outside.clockwork(), "raw", rounds=2)
    assert outside.text == "500.000 500.000 500.000 500.000 1\n" * 2


def test_on_a_terminal_one_line_is_rewritten() -> None:
    outside = Outside()
    latency_live(Server(outside, [0.001, 0.003]).connection(), 0.02, outside.clockwork(), rounds=1)
    first, second = outside.text.split("\r\x1b[2K")[1:]
    assert first.startswith("min: 1.000, max: 1.000")
    assert second == "min: 1.000, max: 3.000, avg: 2.000, p99: 3.000 ms (2 samples)\n"
