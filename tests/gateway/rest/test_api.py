"""How requests find their operation, and what is said of those that find none."""

import base64
import logging
from collections.abc import Iterator
from typing import Final

import pytest

from disque.gateway.rest.api import find
from disque.gateway.sessions import Session
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.rest.conftest import Api

PASSWORD: Final = "open sesame"


class TestRoutes:
    @pytest.mark.parametrize(
        ("method", "path", "names"),
        [
            ("GET", ["queues", "a"], ["a"]),
            ("POST", ["jobs", "x", "ack"], ["x"]),
            ("POST", ["ack"], []),
            ("GET", [], []),
            ("GET", ["queues", ""], None),
            ("GET", ["queues", "a", "b"], None),
            ("PATCH", ["queues"], None),
        ],
    )
    def test_words_are_found(self, method: str, path: list[str], names: list[str] | None) -> None:
        found = find(method, path)
        assert (found and found[1]) == names

    def test_a_slash_in_a_name_is_none_between_words(self, api: Api) -> None:
        api.add("a%2Fjobs")
        assert api("GET", "/queues/a%2Fjobs")["len"] == 1
        assert api.refused("GET", "/queues/a%2Fjobs/..", status=404)

    def test_what_there_is_not(self, api: Api) -> None:
        assert "openapi.json" in api.refused("GET", "/nothing", status=404)
        assert api.refused("GET", "/queues/", status=404)
        assert api.refused("GET", "/queues?x=1").startswith("unknown parameter 'x'")
        assert api.refused("GET", "/queues?limit=0") == "'limit' must be at least 1"
        assert "too many" in api.refused("GET", "/queues?" + "&".join(["limit=1"] * 101))

    def test_other_methods_are_told_which_there_are(self, api: Api) -> None:
        assert api.refused("PUT", "/queues", status=405) == "there is GET, HEAD"
        assert api.ask("PUT", "/queues").headers["allow"] == "GET, HEAD"
        assert api.ask("POST", "/queues/a%2Fb/options").headers["allow"] == "DELETE, GET, HEAD, PATCH"
        answer = api.ask("DELETE", "/openapi.json")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")

    def test_head_is_get_without_its_body(self, api: Api) -> None:
        for path in ("/queues", "/openapi.json", "/queues/none", "/events?event=x"):
            asked, looked = api.ask("GET", path), api.ask("HEAD", path)
            assert looked.status == asked.status
            assert looked.headers.keys() == asked.headers.keys()
        assert api.ask("HEAD", "/take").headers["allow"] == "POST"

    def test_bodies_must_be_what_they_say(self, api: Api) -> None:
        assert api.refused("POST", "/take", b"{}", status=415, content_type="text/plain") == "it is text/plain"
        kind = "application/json"
        assert api.refused("POST", "/take", b"", content_type=kind) == "a JSON object is expected as the body"
        assert api.refused("POST", "/take", b"[" * 200_000, content_type=kind) == "the body is no JSON"
        assert api.refused("POST", "/take", b'{"queues":["\xff"]}', content_type=kind) == "the body is no JSON"
        packed = {"content_type": kind, "content_encoding": "gzip"}
        assert api.refused("POST", "/take", b"x", status=415, **packed) == "its encoding is gzip"

    def test_lmstfys_paths_are_not_ours(self, api: Api) -> None:
        assert api.gateway.ask("GET", "/api/v2/queues").json() == {"error": "token not found"}
        assert api.gateway.ask("GET", "/api/v1").status == 200

    def test_requests_are_counted_by_operation(self, api: Api) -> None:
        api.add("hidden-name")
        text = api.gateway.ask("GET", "/metrics/gateway").text
        assert 'code="201",method="POST",route="/api/v1/queues/{queue}/jobs"' in text
        assert "hidden-name" not in text

    def test_a_failure_of_ours_hides_why(self, api: Api, caplog: pytest.LogCaptureFixture) -> None:
        async def fails(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a secret")

        cluster = api.gateway.run(api.gateway.hub.clusters.of(None, None))
        cluster.client.queue_stat = fails  # type: ignore[method-assign,assignment]  # fails
        assert api.refused("GET", "/queues/a", status=500) == "the reason is in its log"
        assert "a secret" in caplog.text


class TestLogins:
    @pytest.fixture
    def locked(self, node: Node, make_gateway: MakeGateway) -> Iterator[Api]:
        gateway = make_gateway(password=PASSWORD, secret=b"x" * 32)
        assert node.ask("CONFIG", "SET", "requirepass", PASSWORD) == b"OK"
        yield Api(gateway)
        gateway.run(gateway.hub.clusters.own.client.config_set("requirepass", ""))

    @staticmethod
    def basic(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    def test_users_of_the_nodes_come_with_their_password(self, locked: Api) -> None:
        words = [{"authorization": word} for word in ("Basic x", "Basic \xe9", self.basic("default:wrong"))]
        for header in ({}, *words):
            answer = locked.ask("GET", "/queues", None, **header)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="disque"')
        for user in ("default", ""):
            found = locked("GET", "/queues", authorization=self.basic(f"{user}:{PASSWORD}"))
            assert found == {"queues": [], "next": None}

    def test_a_session_reads_and_changes_only_with_its_token(self, locked: Api) -> None:
        session = Session("default", PASSWORD)
        cookie = f"disque={locked.gateway.hub.sessions.cookie(session)}"
        assert locked("GET", "/queues", cookie=cookie)
        job = {"body": "x"}
        assert "too old" in locked.refused("POST", "/queues/a/jobs", job, status=403, cookie=cookie)
        locked("POST", "/queues/a/jobs", job, status=201, cookie=cookie, x_csrf_token=session.csrf)

    def test_other_sites_change_nothing(self, api: Api, node: Node) -> None:
        job = {"body": "x"}
        assert api.refused("POST", "/queues/a/jobs", job, status=403, sec_fetch_site="cross-site")
        assert api.refused("POST", "/queues/a/jobs", job, status=403, origin="https://evil.example")
        assert node.ask("QLEN", "a") == 0

    def test_passwords_are_not_logged(self, locked: Api, caplog: pytest.LogCaptureFixture) -> None:
        locked.gateway.hub.access_log = True
        with caplog.at_level(logging.DEBUG):
            locked.ask("GET", "/queues", None, authorization=self.basic("default:a-secret"))
        assert "a-secret" not in caplog.text
        assert self.basic("default:a-secret") not in caplog.text

    def test_without_a_node_all_are_told_to_come_again(self, make_gateway: MakeGateway) -> None:
        api = Api(make_gateway(nodes=(("127.0.0.1", 1),)))
        answer = api.ask("GET", "/queues")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["type"] == "urn:disque:unavailable"
