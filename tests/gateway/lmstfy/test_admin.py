"""lmstfy's admin routes, line by line as the real server answers."""

import base64
import json
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from disque import VERSION
from disque.gateway.lmstfy.admin import Admin
from disque.gateway.lmstfy.tokens import Limit
from tests.gateway.conftest import MakeGateway
from tests.gateway.lmstfy.conftest import Door
from tests.gateway.support import Answer, Client, Gateway

LONG: Final = "a-token-of-somebodys-own"
JSON: Final = "application/json; charset=utf-8"
FORM: Final = "application/x-www-form-urlencoded"


class Desk:
    """The admin port of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.client = Client(Admin(gateway.hub))

    def __call__(self, method: str, path: str, body: bytes = b"", /, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.gateway.run(self.client.ask(method, path, body, given))

    def token(self, token: str = LONG) -> None:
        self.gateway.run(self.gateway.hub.tokens.add("ns", token, "x"))


@pytest.fixture
def desk(gateway: Gateway) -> Desk:
    return Desk(gateway)


class TestTokens:
    def test_a_new_token_opens_its_namespace(self, desk: Desk) -> None:
        answer = desk("POST", "/token/client-ns?description=client")
        assert answer.status == 201
        assert answer.headers["content-type"] == JSON
        token = answer.json()["token"]
        assert answer.text == f'{{\n    "token": "{token}"\n}}'
        assert len(token) == 26
        assert desk.gateway.ask("GET", "/api/client-ns/q/size", x_token=token).status == 200

    def test_form_and_query_are_taken(self, desk: Desk) -> None:
        body = f"description=of+the+form&token={LONG}".encode()
        assert desk("POST", "/token/ns?description=of+the+query", body, content_type=FORM).status == 201
        assert desk("GET", "/token/ns").json() == {"tokens": {LONG: "of the form"}}

    def test_the_default_pool_may_be_named(self, desk: Desk) -> None:
        assert desk("POST", f"/token/ns?description=x&token=default:{LONG}").json() == {"token": LONG}
        assert desk("POST", "/token/ns?description=x&pool=default").status == 201
        assert desk("GET", "/token/ns?pool=default").json()["tokens"][LONG] == "x"
        assert desk("DELETE", f"/token/ns/default:{LONG}").status == 204

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("/token/ns", "invalid description"),
            ("/token/ns?description=", "invalid description"),
            ("/token/ns?description=x&token=nineteen-characters", "the user token was too short"),
            (f"/token/{'n' * 256}?description=x", "the namespace name was too long"),
            ("/token/n%20s?description=x", "namespace name contains forbidden characters"),
            ("/token/ns?description=x&pool=other", "the pool was not exists"),
            (f"/token/ns?description=x&token=other:{LONG}", "the pool was not exists"),
        ],
    )
    def test_what_makes_no_token(self, desk: Desk, path: str, said: str) -> None:
        answer = desk("POST", path)
        assert (answer.status, answer.json()) == (400, {"error": said})

    def test_a_token_is_there_once(self, desk: Desk) -> None:
        desk.token()
        answer = desk("POST", f"/token/ns?description=x&token={LONG}")
        assert (answer.status, answer.body) == (400, b'{"error":"the token has already existed"}')

    def test_they_are_listed_with_what_they_are_for(self, desk: Desk) -> None:
        assert desk("GET", "/token/ns").text == '{\n    "tokens": {}\n}'
        desk("POST", f"/token/ns?description=b%3C&token={LONG}")
        assert desk("GET", "/token/ns").text == f'{{\n    "tokens": {{\n        "{LONG}": "b<"\n    }}\n}}'
        assert desk("GET", "/token/ns?pool=other").status == 400

    def test_a_deleted_token_is_none(self, desk: Desk) -> None:
        desk.token()
        for _ in range(2):
            answer = desk("DELETE", f"/token/ns/{LONG}")
            assert (answer.status, answer.body) == (204, b"")
        assert desk.gateway.ask("GET", "/api/ns/q", x_token=LONG).status == 401
        assert desk("DELETE", "/token/ns/other:x").body == b'{"error":"the pool was not exists"}'

    def test_they_survive_and_are_known_to_all_gateways_with_the_same_file(
        self, desk: Desk, make_gateway: MakeGateway, tmp_path: Path
    ) -> None:
        del desk
        first, second = (Desk(make_gateway(tokens=tmp_path / "tokens")) for _ in range(2))
        token = first("POST", "/token/ns?description=x").json()["token"]
        assert second.gateway.ask("GET", "/api/ns/q", x_token=token).status == 404

    def test_no_token_is_ever_logged(self, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
        desk.gateway.hub.access_log = True
        desk.token()
        with caplog.at_level(logging.DEBUG):
            for method, path in (("POST", f"/token/ns?description=x&token={LONG}"), ("GET", f"/token/ns/{LONG}/limit")):
                desk(method, path)
            desk("DELETE", f"/token/ns/{LONG}")
        assert LONG not in caplog.text
        assert "DELETE admin /token/:namespace/:token 204" in caplog.text

    def test_a_file_that_cannot_be_written_is_an_error_of_ours(self, make_gateway: MakeGateway, tmp_path: Path) -> None:
        desk = Desk(make_gateway(tokens=tmp_path / "nowhere" / "tokens"))
        answer = desk("POST", "/token/ns?description=x")
        assert (answer.status, answer.body) == (500, b'{"error":"internal error"}')


class TestLimits:
    PATH: Final = f"/token/ns/{LONG}/limit"
    BODY: Final = b'{"read":1,"write":2,"interval":3}'

    def test_a_limit_is_added_once_and_set_any_time(self, desk: Desk) -> None:
        desk.token()
        added = desk("POST", self.PATH, self.BODY)
        assert (added.status, added.body) == (201, b'{"limiter":{"read":1,"write":2,"interval":3}}')
        again = desk("POST", self.PATH, self.BODY)
        assert again.status == 500
        assert again.json() == {"error": f"throttler token({LONG}) has already exists"}
        put = desk("PUT", self.PATH, b'{"read":5,"interval":1}')
        assert (put.status, put.body) == (200, b'{"limiter":{"read":5,"write":0,"interval":1}}')
        assert desk("GET", self.PATH).body == b'{"read":5,"write":0,"interval":1}'
        listed = desk("GET", "/limits?force_update=true")
        expected = f'[{{"namespace":"ns","token":"{LONG}","limiter":{{"read":5,"write":0,"interval":1}}}}]'
        assert (listed.status, listed.text) == (200, expected)

    def test_a_limit_that_there_is_not(self, desk: Desk) -> None:
        answer = desk("GET", self.PATH)
        assert (answer.status, answer.body, answer.headers["content-type"]) == (404, b"null", JSON)
        assert desk("GET", "/limits").body == b"[]"

    def test_a_limit_is_deleted_with_or_without_its_token(self, desk: Desk) -> None:
        desk.token()
        desk.gateway.run(desk.gateway.hub.tokens.limit("ns", LONG, Limit(1, 1, 1)))
        answer = desk("DELETE", self.PATH)
        assert (answer.status, answer.body) == (200, b'{"msg":"success"}')
        assert desk("GET", self.PATH).status == 404
        desk("PUT", self.PATH, self.BODY)
        desk("DELETE", f"/token/ns/{LONG}")
        assert desk("GET", "/limits").body == b"[]"

    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            (b'{"read":0,"write":0,"interval":1}', 400, {"limiter": {"read": 0, "write": 0, "interval": 1}}),
            (b"{}", 400, {"limiter": {"read": 0, "write": 0, "interval": 0}}),
            (b'{"read":1}', 400, {"error": "interval should be > 0"}),
            (b'{"read":1,"interval":-1}', 500, {"error": "limiter interval should be >= 0"}),
            (b"", 400, {"error": {}}),
            (b"[]", 400, {"error": {}}),
            (b'{"read":"1","interval":1}', 400, {"error": {}}),
            (b'{"read":true,"interval":1}', 400, {"error": {}}),
            (b'{"read":1e3,"interval":1}', 400, {"error": {}}),
            (b'{"read":99999999999999999999,"interval":1}', 400, {"error": {}}),
            (b"[" * 60_000, 400, {"error": {}}),
        ],
    )
    def test_what_is_no_limit(self, desk: Desk, body: bytes, status: int, said: Any) -> None:
        desk.token()
        for method in ("POST", "PUT"):
            answer = desk(method, self.PATH, body)
            assert (answer.status, answer.json()) == (status, said)


class TestWhatThereIs:
    def test_queues_are_listed_by_namespace_as_text(self, desk: Desk, door: Door) -> None:
        for path in ("ns/b", "ns/a"):
            door.publish(path)
        client = door.gateway.hub.clusters.own.client
        for name in ("other/q", "plain", "ns/a:dead"):
            door.gateway.run(client.add(name, "x"))
        answer = desk("GET", "/info")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text == json.dumps({"ns": ["a", "b"], "other": ["q"]}, indent=4) + "\n"
        assert desk("GET", "/info?pool=default").text == answer.text
        assert desk("GET", "/info?pool=other").body == b""

    def test_where_there_is_nothing(self, desk: Desk) -> None:
        assert desk("GET", "/info").text == "{}\n"

    def test_the_rest(self, desk: Desk) -> None:
        assert desk("GET", "/pools").json() == ["default"]
        assert desk("GET", "/version").json() == {"build_commit": "", "build_date": "", "version": VERSION}
        assert desk("GET", "/metrics").text.startswith("# HELP")
        assert desk("GET", "/debug/pprof/").status == 200
        assert desk("GET", "/debug/pprof/heap").status == 200
        for method, path in (("GET", "/"), ("GET", "/nothing"), ("PUT", "/version"), ("GET", "/token/")):
            answer = desk(method, path)
            assert (answer.status, answer.body) == (404, b"404 page not found")
            assert answer.headers["content-type"] == "text/plain"

    def test_the_access_log_is_switched(self, desk: Desk) -> None:
        assert desk("GET", "/accesslog").body == b'{"status":"disabled"}'
        assert desk("POST", "/accesslog?status=enable").body == b'{"status":"enabled"}'
        assert desk("GET", "/accesslog").body == b'{"status":"enabled"}'
        assert desk("POST", "/accesslog?status=disable").body == b'{"status":"disabled"}'
        answer = desk("POST", "/accesslog?status=x")
        assert (answer.status, answer.body) == (400, b'{"error":"invalid status"}')


class TestAccounts:
    @pytest.fixture
    def guarded(self, make_gateway: MakeGateway, desk: Desk) -> Desk:
        del desk
        return Desk(make_gateway(accounts={"ada": "secret", "bob": "other"}))

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/limits"),
            ("GET", "/token/ns"),
            ("POST", "/token/ns?description=x"),
            ("POST", "/accesslog?status=enable"),
        ],
    )
    def test_they_guard_some_routes(self, guarded: Desk, method: str, path: str) -> None:
        wrong = base64.b64encode(b"ada:other").decode()
        for said in ("", "Basic !", f"Basic {wrong}", "x"):
            answer = guarded(method, path, authorization=said)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == 'Basic realm="Authorization Required"'
        for account in (b"ada:secret", b"bob:other"):
            right = base64.b64encode(account).decode()
            assert guarded(method, path, authorization=f"Basic {right}").status in {200, 201}

    @pytest.mark.parametrize("path", ["/info", "/pools", "/version", "/metrics", "/accesslog"])
    def test_the_rest_is_open(self, guarded: Desk, path: str) -> None:
        assert guarded("GET", path).status == 200
