"""What the gateway counts of itself, for Prometheus."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

#: Seconds.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Requests(Collector):
    """Requests and their times: numbers in lists, since each request is counted here."""

    def __init__(self) -> None:
        #: By method, route and status.
        self.counts: dict[tuple[str, str, int], int] = {}
        #: By route: how many took up to each bound, and no less; behind them those beyond, and the sum of all times.
        self.times: dict[str, list[float]] = {}

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one."""
        key = (method, route, status)
        self.counts[key] = self.counts.get(key, 0) + 1
        times = self.times.get(route)
        if times is None:
            times = self.times[route] = [0.0] * (len(BUCKETS) + 2)
        times[bisect_left(BUCKETS, seconds)] += 1
        times[-1] += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """All of it, as the library wants it."""
        counts = CounterMetricFamily("disque_gateway_requests", "HTTP requests.", labels=("method", "route", "code"))
        for (method, route, status), count in self.counts.items():
            counts.add_metric((method, route, str(status)), count)
        yield counts
        seconds = HistogramMetricFamily(
            "disque_gateway_request_seconds",
            "How long HTTP requests took, long polls with their wait.",
            labels=("route",),
        )
        bounds = [*map(str, BUCKETS), "+Inf"]
        for route, (*times, total) in self.times.items():
            seconds.add_metric((route,), list(zip(bounds, accumulate(times), strict=True)), total)
        yield seconds


class Metrics:
    """Counters of one gateway. Names begin with `disque_gateway_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Requests()
        self.registry.register(self._requests)
        self.polls = Gauge("disque_gateway_polls", "Long polls that wait.", registry=self.registry)

    def watch(self, polls: Callable[[], int]) -> None:
        """Ask this for the number of long polls."""
        self.polls.set_function(polls)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. ``route`` is the pattern of its path, so there are few."""
        self._requests.note(method, route, status, seconds)

    def text(self) -> bytes:
        """All of it in the text format."""
        return generate_latest(self.registry)
