"""Metrics under any name, in the text format."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from disque.gateway import families as module
from disque.gateway.families import Family


def test_counters_and_gauges() -> None:
    counter, gauge = Family("jobs", "counter", ("pool",)), Family("size", "gauge", ("a", "b"))
    counter.add(("x",))
    counter.add(("x",), 2)
    gauge.set(("1", 'q"\\\n'), 0.5)
    assert counter.lines()[2:] == ['jobs{pool="x"} 3']
    [family] = text_string_to_metric_families("\n".join(gauge.lines()) + "\n")
    assert (family.samples[0].labels, family.samples[0].value) == ({"a": "1", "b": 'q"\\\n'}, 0.5)


def test_histograms_count_up() -> None:
    times = Family("ms", "histogram", ("q",), (15.0, 52.5))
    for value in (1, 20, 1000):
        times.observe(("a",), value)
    assert times.lines()[2:] == [
        'ms_bucket{q="a",le="15"} 1',
        'ms_bucket{q="a",le="52.5"} 2',
        'ms_bucket{q="a",le="+Inf"} 3',
        'ms_sum{q="a"} 1021',
        'ms_count{q="a"} 3',
    ]


def test_there_are_only_so_many_label_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETS_MOST", 2)
    family = Family("jobs", "counter", ("q",))
    for number in range(5):
        family.add((str(number),))
    assert len(family.lines()) == 4
