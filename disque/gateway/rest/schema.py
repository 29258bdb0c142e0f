"""The part of JSON Schema that the API uses: what is written in the OpenAPI document is what is checked.

A schema is a dict with `type` (or a list of types) and, as they fit, `enum`, `minimum`, `maximum`, `maxLength`,
`properties`, `required`, `items`, `maxItems`, and `minItems` and `minProperties`, which are 1 where they are there. An
object has no other fields than those it names, unless it names none.
"""

from typing import Any, Final

Schema = dict[str, Any]

#: Python's types of JSON's; a truth value is no number.
TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def string(text: str = "", **more: object) -> Schema:
    """A text."""
    return {"type": "string", **({"description": text} if text else {}), **more}


def integer(text: str = "", least: int | None = None, most: int | None = None, **more: object) -> Schema:
    """A whole number."""
    return {**number(text, least, most, **more), "type": "integer"}


def number(text: str = "", least: float | None = None, most: float | None = None, **more: object) -> Schema:
    """A number."""
    bounds = {name: value for name, value in (("minimum", least), ("maximum", most)) if value is not None}
    return {"type": "number", **({"description": text} if text else {}), **bounds, **more}


def boolean(text: str = "", **more: object) -> Schema:
    """Yes or no."""
    return {"type": "boolean", **({"description": text} if text else {}), **more}


def array(items: Schema, most: int | None = None) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **({"maxItems": most} if most is not None else {})}


def filled(schema: Schema) -> Schema:
    """The same list or object, and not an empty one."""
    return {**schema, ("minItems" if schema["type"] == "array" else "minProperties"): 1}


def record(properties: dict[str, Schema], *required: str) -> Schema:
    """An object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def anything(text: str) -> Schema:
    """Any value."""
    return {"description": text}


def texts(text: str) -> Schema:
    """An object whose values are texts."""
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": text}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def wrong(value: object, schema: Schema, where: str = "the body") -> str:
    """What is wrong with a value, in words; empty if nothing is."""
    kind = schema.get("type")
    if kind is None:
        return ""
    kinds: list[str] = kind if isinstance(kind, list) else [kind]
    if not any(is_of(value, one) for one in kinds):
        return f"{where} must be of type {' or '.join(kinds)}"
    if isinstance(value, dict):
        return wrong_object(value, schema, where)
    if isinstance(value, list):
        return wrong_list(value, schema, where)
    return wrong_plain(value, schema, where)


def is_of(value: object, kind: str) -> bool:
    """Whether a value is of a type of JSON."""
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return isinstance(value, TYPES[kind])


def whole(value: Any, schema: Schema) -> Any:  # noqa: ANN401 - what JSON has
    """A checked value, with an int for each integer: 3.0 is one in JSON, and some languages have no other number."""
    kind = schema.get("type")
    if kind == "integer":
        return int(value)
    if kind == "array":
        return [whole(one, schema["items"]) for one in value]
    if kind == "object":
        known: dict[str, Schema] = schema.get("properties", {})
        return {name: whole(one, known.get(name, {})) for name, one in value.items()}
    return value


def wrong_plain(value: object, schema: Schema, where: str) -> str:
    """The same for what is neither an object nor a list."""
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema.get("minimum"), schema.get("maximum")
        if value != value or (least is not None and value < least):  # noqa: PLR0124 - NaN is not equal to itself
            return f"{where} must be at least {least}"
        if most is not None and value > most:
            return f"{where} must be at most {most}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"{where} must have at most {schema['maxLength']} characters"
    return ""


def wrong_list(value: list[object], schema: Schema, where: str) -> str:
    """The same for a list."""
    if not value and schema.get("minItems"):
        return f"{where} is empty"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} must have at most {schema['maxItems']} elements"
    for at, one in enumerate(value):
        found = wrong(one, schema["items"], f"{where}, element {at}")
        if found:
            return found
    return ""


def wrong_object(value: dict[str, object], schema: Schema, where: str) -> str:
    """The same for an object."""
    if not value and schema.get("minProperties"):
        return f"{where} is empty"
    known: dict[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name not in known and others is False:
            return f"{where} has an unknown field {name[:100]!r}; there are {', '.join(known)}"
        wanted = known.get(name) or (others if isinstance(others, dict) else {})
        found = wrong(one, wanted, f"{name[:100]!r}")
        if found:
            return found
    missing = [name for name in schema.get("required", ()) if name not in value]
    return f"{where} lacks {', '.join(map(repr, missing))}" if missing else ""


def read(text: str, schema: Schema) -> object:
    """The value of a parameter of the query, as its schema wants it. Raises ValueError for what is none."""
    kind = schema["type"]
    if kind == "boolean":
        if text not in {"true", "false", "1", "0"}:
            raise ValueError(text)
        return text in {"true", "1"}
    if kind == "integer":
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
            raise ValueError(text)
        return int(text)
    if kind == "number":
        if not text.isascii() or "_" in text:
            raise ValueError(text)
        return float(text)
    if kind == "array":
        return text.split(",")
    return text
