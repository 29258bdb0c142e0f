"""What a gateway counts of itself."""

from prometheus_client.parser import text_string_to_metric_families

from disque.gateway.metrics import Metrics


def test_requests_are_counted_by_method_route_and_code() -> None:
    metrics = Metrics()
    metrics.watch(lambda: 7)
    metrics.note("GET", "/queues", 200, 0.002)
    metrics.note("GET", "/queues", 200, 0.002)
    metrics.note("GET", "/queues", 503, 3.0)
    families = {family.name: family for family in text_string_to_metric_families(metrics.text().decode())}
    counted = {sample.labels["code"]: sample.value for sample in families["disque_gateway_requests"].samples}
    assert counted == {"200": 2.0, "503": 1.0}
    times = {(one.name, one.labels.get("le")): one.value for one in families["disque_gateway_request_seconds"].samples}
    assert times["disque_gateway_request_seconds_bucket", "0.0025"] == 2.0
    assert times["disque_gateway_request_seconds_count", None] == 3.0
    assert families["disque_gateway_polls"].samples[0].value == 7.0
    assert not any("created" in name for name in families), "times of creation are of no use to anybody"
