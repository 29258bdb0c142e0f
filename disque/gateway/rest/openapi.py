"""The OpenAPI 3.1 document, made from the table of operations, and a page that shows it."""

import re
from collections.abc import Iterable
from typing import Any, Final

from disque import VERSION
from disque.gateway.rest.operation import Operation
from disque.gateway.rest.schema import Schema, record, string

PROBLEM: Final[Schema] = record(
    {
        "type": string("a name for what is wrong"),
        "title": string("the same in words"),
        "status": {"type": "integer"},
        "detail": string("what is wrong with this request"),
        "request_id": string("as in X-Request-Id"),
    }
)


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path or "/", {})[operation.method.lower()] = described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Disque", "version": VERSION, "summary": "A cluster of job queues over HTTP"},
        "servers": [{"url": "/api/v1"}],
        "security": [{}, {"basic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"Problem": PROBLEM},
        },
    }


def described(operation: Operation) -> dict[str, Any]:
    """One operation."""
    words = re.findall(r"[a-z]+", operation.path)
    content: dict[str, Any] = {"application/json": {"schema": operation.wants or {"type": "object"}}}
    found: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": "-".join([operation.method.lower(), *words]),
        "tags": [words[0] if words else "about"],
        "parameters": [*path_parameters(operation), *query_parameters(operation)],
        "responses": {
            str(operation.status): {"description": "done", "content": content},
            "default": {
                "description": "what is wrong",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if operation.body is not None:
        bodies: dict[str, Any] = {"application/json": {"schema": operation.body}}
        if operation.raw:
            bodies["application/octet-stream"] = {"schema": {}}
        needed = any(operation.body.get(word) for word in ("required", "minProperties")) or bool(operation.raw)
        found["requestBody"] = {"required": needed, "content": bodies}
    return found


def path_parameters(operation: Operation) -> list[dict[str, Any]]:
    """What stands in braces in its path."""
    names = re.findall(r"\{(\w+)\}", operation.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def query_parameters(operation: Operation) -> list[dict[str, Any]]:
    """Its query. Lists have commas between their elements."""
    return [
        {
            "name": name,
            "in": "query",
            "schema": schema,
            "description": schema.get("description", ""),
            **({"style": "form", "explode": False} if schema["type"] == "array" else {}),
        }
        for name, schema in operation.query.items()
        if schema["type"] != "object"  # headers, of a body that is no JSON
    ]
