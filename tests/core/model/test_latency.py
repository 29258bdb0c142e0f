import pytest

from disque.core.model.latency import SAMPLES_MAX, LatencyMonitor, age

NOW_S = 10_000


def monitor(*samples: tuple[int, int], event: bytes = b"command") -> LatencyMonitor:
    latency = LatencyMonitor()
    for time_s, latency_ms in samples:
        latency.add(event, time_s, latency_ms)
    return latency


def drawn(latency: LatencyMonitor, event: bytes = b"command") -> list[str]:
    text = latency.graph(event, NOW_S)
    assert text is not None
    return text.decode().split("\n")


def test_history_is_oldest_first() -> None:
    assert monitor((1, 10), (2, 30), (5, 20)).history(b"command") == [(1, 10), (2, 30), (5, 20)]


def test_an_unknown_event_has_no_history_and_no_graph() -> None:
    latency = monitor((1, 10))
    assert latency.history(b"fork") == []
    assert latency.graph(b"fork", NOW_S) is None


def test_one_second_keeps_its_worst() -> None:
    assert monitor((1, 10), (1, 30), (1, 20), (2, 5)).history(b"command") == [(1, 30), (2, 5)]


def test_an_event_keeps_its_last_160_samples() -> None:
    latency = monitor(*[(second, 1) for second in range(200)])
    history = latency.history(b"command")
    assert len(history) == SAMPLES_MAX == 160
    assert history[0] == (40, 1)
    assert history[-1] == (199, 1)


def test_a_full_event_still_merges_samples_of_one_second() -> None:
    latency = monitor(*[(second, 1) for second in range(160)])
    latency.add(b"command", 159, 7)
    assert latency.history(b"command")[0] == (0, 1)
    assert latency.history(b"command")[-1] == (159, 7)


def test_latest_tells_the_last_sample_and_the_worst_of_all() -> None:
    latency = monitor((1, 90), (2, 30))
    latency.add(b"aof-write", 7, 12)
    assert latency.latest() == [(b"command", 2, 30, 90), (b"aof-write", 7, 12, 12)]


def test_the_worst_is_remembered_when_its_sample_is_gone() -> None:
    latency = monitor((0, 500), *[(second, 1) for second in range(1, 200)])
    assert latency.latest() == [(b"command", 199, 1, 500)]


def test_reset_forgets_the_events_named_and_counts_those_that_were_there() -> None:
    latency = monitor((1, 10))
    latency.add(b"aof-write", 1, 10)
    assert latency.reset([b"command", b"fork", b"command"]) == 1
    assert [event for event, *_ in latency.latest()] == [b"aof-write"]


def test_reset_without_names_forgets_all() -> None:
    latency = monitor((1, 10))
    latency.add(b"aof-write", 1, 10)
    assert latency.reset([]) == 2
    assert latency.latest() == []


def test_the_graph_opens_with_high_and_low() -> None:
    latency = monitor((0, 900), *[(second, 100 + second) for second in range(1, 161)])
    first, rule, *_ = drawn(latency)
    assert first == "command - high 260 ms, low 181 ms (all time high 900 ms)"
    assert rule == "-" * 80


def test_the_graph_rises_from_the_lowest_sample_to_the_highest() -> None:
    latency = monitor((NOW_S - 4, 10), (NOW_S - 3, 20), (NOW_S - 2, 65), (NOW_S - 1, 120))
    assert drawn(latency)[2:] == [
        "   #",
        "   |",
        "  #|",
        "_o||",
        "",
        "4321",
        "ssss",
        "",
    ]


def test_a_graph_of_equal_samples_is_flat() -> None:
    assert drawn(monitor((NOW_S - 60, 30), (NOW_S - 5, 30)))[2:] == ["__", "", "15", "ms", ""]


def test_a_graph_has_at_most_80_columns() -> None:
    latency = monitor(*[(NOW_S - 200 + second, second) for second in range(160)])
    assert max(len(line) for line in drawn(latency)[1:]) == 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, b"0s"),
        (0, b"0s"),
        (59, b"59s"),
        (60, b"1m"),
        (3599, b"59m"),
        (3600, b"1h"),
        (86400, b"1d"),
        (900000, b"10d"),
    ],
)
def test_an_age_is_told_in_its_largest_whole_unit(seconds: int, text: bytes) -> None:
    assert age(seconds) == text


def test_the_doctor_says_how_to_begin() -> None:
    assert b"CONFIG SET latency-monitor-threshold" in LatencyMonitor().doctor(NOW_S, 0)


def test_the_doctor_is_content_when_nothing_was_slow() -> None:
    assert LatencyMonitor().doctor(NOW_S, 100) == b"All is well: nothing has taken 100 ms or longer.\n"


def test_the_doctor_tells_how_bad_and_how_often_the_worst_first() -> None:
    latency = monitor((NOW_S - 120, 100), (NOW_S - 60, 300))
    latency.add(b"aof-fsync-always", NOW_S - 7, 900)
    text = latency.doctor(NOW_S, 100)
    assert text.index(b"aof-fsync-always: 1 slow second(s), mean 900 ms") < text.index(b"command: 2 slow second(s)")
    assert b"mean 200 ms (mean deviation 100 ms), worst 300 ms." in text
    assert b"The last one was 1m ago, on average one each 1m." in text
    assert b"The last one was 7s ago.\n" in text


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (b"command", b"SLOWLOG GET"),
        (b"fast-command", b"swapping"),
        (b"aof-fsync-always", b"disk"),
        (b"jobs-processing", b"DELAY"),
        (b"eviction-cycle", b"maxmemory"),
        (b"something-new", b"LATENCY HISTORY"),
    ],
)
def test_the_doctor_has_advice_for_each_event(event: bytes, advice: bytes) -> None:
    assert advice in monitor((1, 10), event=event).doctor(NOW_S, 1)


def test_the_doctor_speaks_of_what_it_knows_after_the_threshold_is_switched_off() -> None:
    assert b"command: 1 slow second(s)" in monitor((1, 10)).doctor(NOW_S, 0)
