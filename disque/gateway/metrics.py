"""What the gateway counts of itself, for Prometheus."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types

#: Seconds.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one gateway. Names begin with `disque_gateway_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "disque_gateway_requests", "HTTP requests.", ("method", "route", "code"), registry=self.registry
        )
        self.seconds = Histogram(
            "disque_gateway_request_seconds",
            "How long HTTP requests took, long polls with their wait.",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.polls = Gauge("disque_gateway_polls", "Long polls that wait.", registry=self.registry)
        self._requests: dict[tuple[str, str, int], Counter] = {}
        self._seconds: dict[str, Histogram] = {}

    def watch(self, polls: Callable[[], int]) -> None:
        """Ask this for the number of long polls."""
        self.polls.set_function(polls)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. ``route`` is the pattern of its path, so there are few."""
        key = (method, route, status)
        counter = self._requests.get(key)
        if counter is None:
            counter = self._requests[key] = self.requests.labels(method, route, str(status))
            self._seconds.setdefault(route, self.seconds.labels(route))
        counter.inc()
        self._seconds[route].observe(seconds)

    def text(self) -> bytes:
        """All of it in the text format."""
        return generate_latest(self.registry)
