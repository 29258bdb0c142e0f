"""The part of JSON Schema that is checked."""

import pytest

from disque.gateway.rest.schema import (
    anything,
    array,
    boolean,
    filled,
    integer,
    nullable,
    number,
    read,
    record,
    string,
    texts,
    whole,
    wrong,
)

THING = record({"name": string(maxLength=3), "size": integer("", 1, 5), "tags": array(string(), 2)}, "name")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "abc"}, ""),
        ({"name": "abc", "size": 5, "tags": ["a", "b"]}, ""),
        ([], "the body must be of type object"),
        (None, "the body must be of type object"),
        ({}, "the body lacks 'name'"),
        ({"name": "abcd"}, "'name' must have at most 3 characters"),
        ({"name": 1}, "'name' must be of type string"),
        ({"name": "a", "size": 0}, "'size' must be at least 1"),
        ({"name": "a", "size": 6}, "'size' must be at most 5"),
        ({"name": "a", "size": 1.5}, "'size' must be of type integer"),
        ({"name": "a", "size": True}, "'size' must be of type integer"),
        ({"name": "a", "tags": ["a", 1]}, "'tags', element 1 must be of type string"),
        ({"name": "a", "tags": ["a"] * 3}, "'tags' must have at most 2 elements"),
        ({"name": "a", "Size": 1}, "the body has an unknown field 'Size'; there are name, size, tags"),
    ],
)
def test_what_is_wrong_is_named(value: object, said: str) -> None:
    assert wrong(value, THING) == said


def test_other_kinds() -> None:
    assert wrong(float("nan"), number("", 0)) != ""
    assert wrong(1, number("", 0)) == ""
    assert wrong("x", string(enum=["a", "b"])) == "the body must be one of a, b"
    assert wrong({"a": "b"}, texts("")) == ""
    assert wrong({"a": 1}, texts("")) == "'a' must be of type string"
    assert wrong(object(), {}) == "", "anything"


def test_what_must_not_be_empty_says_so() -> None:
    some, any_field = filled(array(string(), 2)), filled(record({"size": integer()}))
    assert (some["minItems"], any_field["minProperties"]) == (1, 1)
    assert wrong([], some) == wrong({}, any_field) == "the body is empty"
    assert wrong(["a"], some) == wrong({"size": 1}, any_field) == ""


def test_three_point_zero_is_an_integer() -> None:
    schema = record({"size": integer("", 1, 5), "delay": number(), "sizes": array(integer()), "json": anything("")})
    given = {"size": 3.0, "delay": 3.0, "sizes": [4.0, 5], "json": {"size": 3.0}}
    assert wrong(given, schema) == ""
    assert repr(whole(given, schema)) == repr({"size": 3, "delay": 3.0, "sizes": [4, 5], "json": {"size": 3.0}})
    assert wrong({"size": 6.0}, schema) == "'size' must be at most 5"
    assert wrong(float("inf"), integer()) == "the body must be of type integer"


def test_null_is_a_value_only_where_it_may_be_one() -> None:
    assert wrong(None, nullable(integer("", 1))) == ""
    assert wrong(0, nullable(integer("", 1))) == "the body must be at least 1"
    assert wrong("x", nullable(integer("", 1))) == "the body must be of type integer or null"
    assert wrong(None, integer("", 1)) == "the body must be of type integer"


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", integer(), 5),
        ("-5", integer(), -5),
        ("0.5", number(), 0.5),
        ("true", boolean(), True),
        ("0", boolean(), False),
        ("a,b", array(string()), ["a", "b"]),
        ("x", string(), "x"),
    ],
)
def test_parameters_are_read(text: str, schema: dict[str, object], value: object) -> None:
    assert read(text, schema) == value


@pytest.mark.parametrize(
    ("text", "schema"),
    [(text, integer()) for text in ("", "1.0", "1_0", "9" * 30)]
    + [("x", number()), ("yes", boolean()), ("", boolean())],
)
def test_what_is_none_is_refused(text: str, schema: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read(text, schema)
