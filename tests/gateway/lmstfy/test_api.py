"""lmstfy's public routes, line by line as the real server answers."""

import logging
from pathlib import Path
from typing import Final

import pytest

from disque.client import UnavailableError
from disque.gateway.lmstfy.tokens import Limit
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.lmstfy.conftest import TOKEN, Door

JSON: Final = "application/json; charset=utf-8"
LONG: Final = "q" * 256
SEVENTEEN: Final = {f"job_attr_{number}": "x" for number in range(17)}

#: Method, path and query, body; status and body of the answer.
ERRORS: Final = [
    # no such route
    *[
        (method, path, b"", 404, b'{"error":"api not found"}')
        for method, path in (
            ("GET", "ns"),
            ("GET", ""),
            ("GET", "/q"),
            ("GET", "ns/"),
            ("PUT", "ns/q/"),
            ("POST", "ns/q"),
            ("HEAD", "ns/q"),
            ("PATCH", "ns/q/bulk"),
            ("GET", "ns/q/bulk"),
            ("GET", "ns/q/job"),
            ("GET", "ns/q/job/"),
            ("GET", "ns/q/job/x/y"),
            ("DELETE", "ns/q/peek"),
            ("PUT", "ns/q/deadletter/size"),
            ("GET", "ns/q/../peek"),
        )
    ],
    # names
    ("PUT", f"{LONG}/q", b"", 400, b'{"error":"namespace or queue name too long"}'),
    ("PUT", f"ns/{LONG}", b"", 400, b'{"error":"namespace or queue name too long"}'),
    ("PUT", "n%20s/q", b"", 400, b'{"error":"namespace name contains forbidden characters"}'),
    ("PUT", "ns/q,r", b"", 400, b'{"error":"queue name contains forbidden characters"}'),
    ("PUT", "ns/_q", b"", 400, b'{"error":"queue name contains forbidden characters"}'),
    ("GET", "ns/q%3Bdead", b"", 400, b'{"error":"queue name contains forbidden characters"}'),
    ("GET", "n%00/q", b"", 400, b'{"error":"namespace name contains forbidden characters"}'),
    ("GET", "ns/,,", b"", 400, b'{"error":"invalid queue name(s)"}'),
    # publish
    ("PUT", "ns/q?delay=-1", b"", 400, b'{"error":"invalid delay"}'),
    ("PUT", "ns/q?delay=", b"", 400, b'{"error":"invalid delay"}'),
    ("PUT", "ns/q?delay=4294967296", b"", 400, b'{"error":"invalid delay"}'),
    ("PUT", "ns/q?ttl=x", b"", 400, b'{"error":"invalid ttl"}'),
    ("PUT", "ns/q?delay=2&ttl=1", b"", 400, b'{"error":"ttl is shorter than delay"}'),
    ("PUT", "ns/q?tries=65536", b"", 400, b'{"error":"invalid tries"}'),
    ("PUT", "ns/q?tries=0", b"", 400, b'{"error":"tries shouldn\'t be zero"}'),
    ("PUT", "ns/q?delay=x&ttl=x&tries=x", b"", 400, b'{"error":"invalid delay"}'),
    ("PUT", "ns/q", b"x" * ((1 << 20) + 1), 413, b'{"error":"body too large"}'),
    # bulk
    ("PUT", "ns/q/bulk", b"", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"{}", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[1", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[1,]", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[NaN]", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[1]x", 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[" * 100_000, 400, b'{"error":"request body should be an array of objects"}'),
    ("PUT", "ns/q/bulk", b"[]", 400, b'{"error":"no jobs"}'),
    ("PUT", "ns/q/bulk", b"null", 400, b'{"error":"no jobs"}'),
    ("PUT", "ns/q/bulk", b"[" + b"1," * 64 + b"1]", 400, b'{"error":"too many jobs"}'),
    ("PUT", "ns/q/bulk", b'["' + b"x" * (1 << 20) + b'"]', 413, b'{"error":"job too large"}'),
    ("PUT", "ns/q/bulk?tries=0", b"[1]", 400, b'{"error":"tries shouldn\'t be zero"}'),
    # consume
    ("GET", "ns/q?ttr=x", b"", 400, b'{"error":"invalid ttr"}'),
    ("GET", "ns/q?timeout=x", b"", 400, b'{"error":"invalid timeout"}'),
    ("GET", "ns/q?count=0", b"", 400, b'{"error":"invalid count"}'),
    ("GET", "ns/q?count=101", b"", 400, b'{"error":"invalid count"}'),
    ("GET", "ns/q", b"", 404, b'{"msg":"no job available"}'),
    ("GET", "ns/q,r?count=2&freeze_tries=true", b"", 404, b'{"msg":"no job available"}'),
    # looking
    ("GET", "ns/q/peek", b"", 404, b'{"error":"the queue is empty"}'),
    ("GET", "ns/q/job/x", b"", 404, b'{"error":"job not found"}'),
    ("GET", "ns/q/job/D-b74f6fa1-2OszQKFx7ZBCnO8eLUAZ4dWd-05a1", b"", 404, b'{"error":"job not found"}'),
    # dead letters
    ("PUT", "ns/q/deadletter?limit=0", b"", 400, b'{"error":"invalid limit"}'),
    ("PUT", "ns/q/deadletter?limit=x", b"", 400, b'{"error":"invalid limit"}'),
    ("PUT", "ns/q/deadletter?ttl=-1", b"", 400, b'{"error":"invalid ttl"}'),
    ("DELETE", "ns/q/deadletter?limit=-1", b"", 400, b'{"error":"invalid limit"}'),
]
#: What is answered where there is nothing.
EMPTY: Final = [
    ("GET", "ns/q/size", 200, b'{"namespace":"ns","queue":"q","size":0}'),
    ("GET", "ns/q/deadletter/size", 200, b'{"namespace":"ns","queue":"q","size":0}'),
    ("GET", "ns/q/deadletter", 200, b'{"deadletter_head":"","deadletter_size":0,"namespace":"ns","queue":"q"}'),
    ("PUT", "ns/q/deadletter", 200, b'{"count":0,"msg":"respawned"}'),
    ("DELETE", "ns/q/deadletter", 204, b""),
    ("DELETE", "ns/q/job/x", 204, b""),
    ("DELETE", "ns/other/job/D-b74f6fa1-2OszQKFx7ZBCnO8eLUAZ4dWd-05a1", 204, b""),
    ("DELETE", "ns/q", 204, b""),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "text"), ERRORS)
def test_errors(door: Door, method: str, path: str, body: bytes, status: int, text: bytes) -> None:
    answer = door(method, path, body)
    assert (answer.status, answer.body) == (status, text)
    assert answer.headers["content-type"] == JSON
    assert len(answer.headers["x-request-id"]) == 26


@pytest.mark.parametrize(("method", "path", "status", "text"), EMPTY)
def test_where_there_is_nothing(door: Door, method: str, path: str, status: int, text: bytes) -> None:
    answer = door(method, path)
    assert (answer.status, answer.body) == (status, text)
    assert answer.headers.get("content-type") == (None if status == 204 else JSON)
    assert ("content-length" in answer.headers) == (status != 204)


class TestTokens:
    @pytest.mark.parametrize(
        ("token", "status", "text"),
        [
            ("", 401, b'{"error":"token not found"}'),
            ("default:", 401, b'{"error":"token not found"}'),
            ("wrong", 401, b'{"error":"invalid token"}'),
            (f"other:{TOKEN}", 404, b'{"error":"pool not found"}'),
            (f":{TOKEN}", 404, b'{"msg":"no job available"}'),
            (":", 401, b'{"error":"token not found"}'),
            (f"default:{TOKEN}:", 401, b'{"error":"invalid token"}'),
            (f"default:{TOKEN}", 404, b'{"msg":"no job available"}'),
        ],
    )
    def test_where_it_comes_from_and_what_it_must_be(self, door: Door, token: str, status: int, text: bytes) -> None:
        answer = door("GET", "ns/q", token=token)
        assert (answer.status, answer.body) == (status, text)

    def test_it_may_stand_in_the_query(self, door: Door) -> None:
        assert door("GET", f"ns/q?token=default:{TOKEN}", token="").status == 404
        assert door("GET", "ns/q?token=wrong", token="").status == 401
        assert door("GET", "ns/q?token=wrong").status == 404, "the header counts first"

    def test_it_is_for_one_namespace(self, door: Door) -> None:
        assert door("GET", "other/q").body == b'{"error":"invalid token"}'

    def test_names_are_looked_at_first_then_the_pool(self, door: Door) -> None:
        assert door("PUT", "ns/_q", token="other:x").status == 400
        assert door("PUT", "ns/q?delay=x", token="other:x").status == 404
        assert door("PUT", "ns/q?delay=x", token="wrong").status == 401

    def test_sizes_want_one_unless_they_are_open_as_lmstfys(self, door: Door, open_door: Door) -> None:
        for path in ("ns/q/size", "ns/q/deadletter/size"):
            assert door("GET", path, token="").status == 401
            assert open_door("GET", path, token="").status == 200
            assert open_door("GET", path, token="other:x").status == 404
        assert open_door("GET", "ns/q/deadletter", token="").status == 401

    def test_no_token_is_ever_logged(self, door: Door, caplog: pytest.LogCaptureFixture) -> None:
        door.gateway.hub.access_log = True
        with caplog.at_level(logging.DEBUG):
            door("GET", "ns/q")
            door("GET", f"ns/q?token={TOKEN}", token="")
            door("PUT", f"{TOKEN}/{TOKEN}/{TOKEN}/{TOKEN}")
        assert TOKEN not in caplog.text
        assert "GET /api/:namespace/:queue 404" in caplog.text


class TestLimits:
    @pytest.fixture
    def limited(self, door: Door) -> Door:
        door.gateway.run(door.gateway.hub.tokens.limit("ns", TOKEN, Limit(1, 2, 3600)))
        return door

    def test_who_produces_too_much_is_told_to_retry(self, limited: Door) -> None:
        assert [limited("PUT", "ns/q", b"x").status for _ in range(2)] == [201, 201]
        answer = limited("PUT", "ns/q/bulk", b"[1]")
        said = f'{{"msg":"token({TOKEN}) produce reach the limit rate, please retry later"}}'
        assert (answer.status, answer.text) == (429, said)
        assert limited("PUT", "ns/q/job/x", b"x").status == 201, "publishing again is not limited"

    def test_only_what_succeeds_counts(self, limited: Door) -> None:
        for _ in range(3):
            assert limited("PUT", "ns/q?ttl=x").status == 400
            assert limited("GET", "ns/q").status == 404
        limited.publish()
        assert limited("GET", "ns/q").status == 200
        answer = limited("GET", "ns/q")
        said = f'{{"msg":"token({TOKEN}) consume reach the limit rate, please retry later"}}'
        assert (answer.status, answer.text) == (429, said)

    def test_looking_is_not_limited(self, limited: Door) -> None:
        for _ in range(3):
            assert limited("GET", "ns/q/peek").status == 404
            assert limited("GET", "ns/q/size").status == 200


class TestTroubles:
    def test_without_a_node_clients_are_told_to_come_again(self, make_gateway: MakeGateway) -> None:
        door = Door(make_gateway(nodes=(("127.0.0.1", 1),)))

        async def gone(*_: object) -> None:
            raise UnavailableError("no node could be used")

        door.gateway.hub.clusters.own.client.drive = gone  # type: ignore[method-assign,assignment]  # without its pauses
        for method, path in (("PUT", "ns/q"), ("GET", "ns/q"), ("GET", "ns/q?timeout=5"), ("GET", "ns/q/size")):
            answer = door(method, path)
            assert (answer.status, answer.body) == (503, b'{"error":"internal error"}')
            assert answer.headers["retry-after"] == "1"

    def test_what_the_cluster_refuses_otherwise_is_an_error_of_ours(self, door: Door, node: Node) -> None:
        assert node.ask("PAUSE", "ns/q", "in") == b"in"
        assert door("PUT", "ns/q", b"x").status == 503
        assert node.ask("PAUSE", "ns/q", "none") == b"none"
        assert node.ask("CONFIG", "SET", "proto-max-bulk-len", "1mb") == b"OK"
        assert door("PUT", "ns/q", b"x" * (1 << 20)).status == 201

    def test_tokens_that_cannot_be_read_are_an_error_of_ours(self, make_gateway: MakeGateway, tmp_path: Path) -> None:
        (tmp_path / "tokens").write_text("[]")
        answer = make_gateway(tokens=tmp_path / "tokens").ask("GET", "/api/ns/q", x_token=TOKEN)
        assert (answer.status, answer.body) == (500, b'{"error":"internal error"}')

    def test_a_route_that_fails_hides_why(self, door: Door, caplog: pytest.LogCaptureFixture) -> None:
        door.gateway.hub.clusters.own.client.queue_length = lambda *_, **__: 1 // 0  # type: ignore[method-assign,assignment]  # fails
        answer = door("GET", "ns/q/size")
        assert (answer.status, answer.body) == (500, b'{"error":"internal error"}')
        assert answer.headers["x-request-id"] in caplog.text
