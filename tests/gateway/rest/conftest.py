"""The REST API of a gateway."""

import json
from typing import Any
from urllib.parse import unquote

import pytest

from tests.gateway.support import Answer, Gateway


class Api:
    """Asks it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def ask(self, method: str, path: str, body: object = None, /, **headers: str) -> Answer:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if isinstance(body, dict | list):
            headers = {"content_type": "application/json", **headers}
        return self.gateway.ask(method, f"/api/v1{path}", data, **headers)

    def __call__(self, method: str, path: str, body: object = None, /, status: int = 200, **headers: str) -> Any:
        """Ask, and give the value that is answered."""
        answer = self.ask(method, path, body, **headers)
        assert answer.status == status, answer
        kind = "application/problem+json" if status >= 400 else "application/json"
        assert answer.headers["content-type"] == kind
        value = answer.json()
        self.hold(method, path, status, value)
        return value

    @staticmethod
    def hold(method: str, path: str, status: int, value: object) -> None:
        """Hold an answer against what the OpenAPI document says of it."""
        from disque.gateway.rest import api, openapi, schema  # noqa: PLC0415 - the extra may be missing

        found = api.find(method, [unquote(word) for word in path.partition("?")[0].split("/")[1:]])
        if found is not None and status < 400:
            content = openapi.described(found[0])["responses"][str(status)]["content"]
            wanted = content["application/json"]["schema"]
            said = [schema.wrong(value, one, "the answer") for one in wanted.get("oneOf", [wanted])]
            assert said.count("") == 1, (method, path, said)
        elif status >= 400:
            assert schema.wrong(value, openapi.PROBLEM, "the answer") == ""

    def refused(self, method: str, path: str, body: object = None, /, status: int = 400, **headers: str) -> str:
        """Ask for what is refused, and give the reason."""
        found = self(method, path, body, status=status, **headers)
        assert set(found) == {"type", "title", "status", "detail", "request_id"}
        assert found["status"] == status
        detail: str = found["detail"]
        return detail

    def add(self, queue: str = "mails", **given: Any) -> str:
        job_id: str = self("POST", f"/queues/{queue}/jobs", {"body": "hello", **given}, status=201)["id"]
        return job_id

    def take(self, *queues: str, **given: Any) -> Any:
        return self("POST", "/take", {"queues": queues or ["mails"], **given})["jobs"]


@pytest.fixture
def api(gateway: Gateway) -> Api:
    return Api(gateway)
