"""What a gateway does with each request: IDs, counts, log lines, failures; health."""

import logging

import pytest

from disque.gateway.hub import printable
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Gateway


class TestHealth:
    def test_a_gateway_that_reaches_a_node_is_ready(self, gateway: Gateway) -> None:
        assert gateway.ask("GET", "/healthz").text == "ok\n"
        assert gateway.ask("GET", "/readyz").text == "ok\n"

    def test_without_a_node_it_is_healthy_and_not_ready(self, make_gateway: MakeGateway) -> None:
        alone = make_gateway(nodes=(("127.0.0.1", 1),))
        assert alone.ask("GET", "/healthz").status == 200
        answer = alone.ask("GET", "/readyz")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")

    def test_one_that_stops_is_not_ready(self, gateway: Gateway) -> None:
        gateway.run(gateway.hub.stop())
        assert gateway.ask("GET", "/readyz").text == "stopping\n"

    def test_pages_say_when_no_node_can_be_reached(self, make_gateway: MakeGateway) -> None:
        answer = make_gateway(nodes=(("127.0.0.1", 1),)).ask("GET", "/")
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert "No node could be reached" in answer.text


class TestRequests:
    def test_each_has_an_id_of_its_own(self, gateway: Gateway) -> None:
        ids = {gateway.ask("GET", "/healthz").headers["x-request-id"] for _ in range(3)}
        assert len(ids) == 3

    def test_they_are_counted_by_the_pattern_of_their_route(self, gateway: Gateway) -> None:
        for path in ("/healthz", "/login", "/one", "/two"):
            gateway.ask("GET", path)
        text = gateway.ask("GET", "/metrics/gateway").text
        assert 'disque_gateway_requests_total{code="200",method="GET",route="/healthz"} 1.0' in text
        assert 'disque_gateway_requests_total{code="404",method="GET",route="other"} 2.0' in text

    def test_the_log_has_no_query_and_no_more_than_one_line(
        self, gateway: Gateway, caplog: pytest.LogCaptureFixture
    ) -> None:
        gateway.ask("GET", "/healthz?token=hidden")
        assert caplog.text == "", "it is off at first"
        gateway.hub.access_log = True
        with caplog.at_level(logging.INFO):
            gateway.ask("GET", "/healthz?token=hidden")
            gateway.ask("GET", "/login%0aGET /faked?token=hidden")
        assert len(caplog.records) == 2
        assert "hidden" not in caplog.text
        assert "GET /healthz 200" in caplog.text
        assert printable("a\nb\x7f\u00e9") == "a\\x0ab\\x7f\\xe9"

    def test_a_method_that_a_route_does_not_have_is_refused(self, gateway: Gateway) -> None:
        assert gateway.ask("DELETE", "/healthz").status == 405

    def test_a_route_that_fails_is_a_line_of_the_log_and_an_answer_without_reasons(
        self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(gateway.hub.metrics, "text", lambda: 1 // 0)
        answer = gateway.ask("GET", "/metrics/gateway")
        assert (answer.status, answer.text) == (500, "internal error\n")
        assert answer.headers["x-request-id"] in caplog.text
