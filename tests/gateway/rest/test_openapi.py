"""The OpenAPI document is that of the operations that there are."""

import json
import re
from typing import Any

import pytest

from disque.gateway.rest.api import OPERATIONS
from disque.gateway.rest.openapi import document
from tests.gateway.support import Gateway


@pytest.fixture
def found() -> Any:
    return json.loads(json.dumps(document(OPERATIONS)))


def test_each_operation_is_in_it_once(found: Any) -> None:
    rows = [(path, method) for path, methods in found["paths"].items() for method in methods]
    assert len(rows) == len(OPERATIONS)
    ids = [found["paths"][path][method]["operationId"] for path, method in rows]
    assert sorted(set(ids)) == sorted(ids)
    assert all(re.fullmatch(r"[a-z-]+", one) for one in ids)


def test_what_is_in_braces_is_a_parameter_of_the_path(found: Any) -> None:
    for path, methods in found["paths"].items():
        for operation in methods.values():
            named = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
            assert named == re.findall(r"\{(\w+)\}", path)
            assert operation["responses"]["default"]["content"]["application/problem+json"]


def test_schemas_name_fields_that_they_have(found: Any) -> None:
    def look(schema: Any) -> None:
        if isinstance(schema, dict):
            assert set(schema.get("required", ())) <= set(schema.get("properties", {})) or "required" not in schema
            for one in schema.values():
                look(one)
        elif isinstance(schema, list):
            for one in schema:
                look(one)

    for methods in found["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                look(content["schema"])


def test_it_says_what_must_not_be_empty(found: Any) -> None:
    def body(method: str, path: str) -> Any:
        asked = found["paths"][path][method]["requestBody"]
        assert asked["required"]
        return asked["content"]["application/json"]["schema"]

    assert body("post", "/take")["properties"]["queues"]["minItems"] == 1
    assert body("post", "/wait")["properties"]["ids"]["minItems"] == 1
    assert body("patch", "/queues/{queue}/options")["minProperties"] == 1


def test_it_is_served_for_programs_and_for_people(gateway: Gateway, found: Any) -> None:
    assert gateway.ask("GET", "/api/v1/openapi.json").json() == found
    html = gateway.ask("GET", "/api").text
    assert all(f"{one.method} {one.path}" in html for one in OPERATIONS)
