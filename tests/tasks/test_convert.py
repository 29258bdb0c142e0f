"""Values are sent as what JSON can say, and become again what the annotation says; what does not fit is named."""

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.tasks.convert import ConvertError, loader, plain
from disque.tasks.errors import EncodeError
from tests.conftest import examples

UTC = dt.UTC
DAY = dt.date(2030, 1, 31)


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Row(typing.TypedDict):
    id: int
    name: typing.NotRequired[str]


@dataclasses.dataclass
class Person:
    name: str
    born: dt.date
    friends: "list[Person]" = dataclasses.field(default_factory=list)
    secret: str = dataclasses.field(default="", init=False)


T = typing.TypeVar("T")


@dataclasses.dataclass
class Box(typing.Generic[T]):
    value: T
    more: "list[Box[T]]" = dataclasses.field(default_factory=list)
    maybe: T | None = None


@dataclasses.dataclass
class Days(Box[dt.date]):
    count: int = 1


@dataclasses.dataclass
class Boxes(Box[list[T]], typing.Generic[T]):
    first: T | None = None


def there_and_back(value: object, annotation: object) -> object:
    load = loader(annotation)
    sent = json.loads(json.dumps(value, default=plain))
    return sent if load is None else load(sent)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, int),
        (1.5, float),
        (True, bool),
        ("a", str),
        (None, None),
        (None, int | None),
        (b"\x00\xff", bytes),
        (bytearray(b"x"), bytearray),
        ([1, 2], list[int]),
        ([1], list),
        ({"a": 1}, dict[str, int]),
        ({1: "a"}, dict[int, str]),
        ({1.5: "a"}, Mapping[float, str]),
        ((1, "a"), tuple[int, str]),
        ((1, 2, 3), tuple[int, ...]),
        ({1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ([1], Sequence[int]),
        ("a", Literal["a", 2]),
        (Color.RED, Literal[Color.RED, 2]),
        (2, Literal[Color.RED, 2]),
        (Level.LOW, Literal[Level.LOW]),
        ({True: "a", False: "b"}, dict[bool, str]),
        ({1: "a", None: "b"}, dict[int | None, str]),
        ({2: "a", "b": "b"}, dict[Literal["b", 2], str]),
        ({Level.LOW: 1}, dict[Level, int]),
        (Box(DAY, [Box(DAY)], DAY), Box[dt.date]),
        (Box(Box({DAY})), Box[Box[set[dt.date]]]),
        (Box("a"), Box),
        (Days(DAY, [Box(DAY)], DAY), Days),
        (Boxes([DAY], [Box([DAY])], None, DAY), Boxes[dt.date]),
        ("a", int | str),
        (dt.datetime(2030, 1, 31, 12, tzinfo=UTC), dt.datetime),
        (dt.date(2030, 1, 31), dt.date),
        (dt.time(12, 30), dt.time),
        (dt.timedelta(seconds=1.5), dt.timedelta),
        (uuid.UUID(int=5), uuid.UUID),
        (decimal.Decimal("1.10"), decimal.Decimal),
        (pathlib.Path("/a/b"), pathlib.Path),
        (Color.RED, Color),
        (Color.BLUE, Color),
        (Level.LOW, Level),
        (Point(1, 2.0), Point),
        ({"id": 1}, Row),
        (Person("Ada", dt.date(1815, 12, 10), [Person("Charles", dt.date(1791, 12, 26))]), Person),
        ([{"anything": [1]}], Any),
        (5, Annotated[int, "positive"]),
    ],
)
def test_a_value_comes_back_as_it_was(value: object, annotation: object) -> None:
    back = there_and_back(value, annotation)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "annotation", "reason"),
    [
        ("1", int, "int is expected, not str '1'"),
        (True, int, "int is expected, not bool True"),
        (1, bool, "true or false is expected"),
        (1, str, "str is expected"),
        ("x", float, "a number is expected"),
        (1, None, "null is expected"),
        ("***", bytes, "bytes as base64"),
        ([1, "a"], list[int], r"\[1\]: int is expected, not str 'a'"),
        ({"a": "b"}, dict[str, int], r"\['a'\]: int is expected"),
        ({"a": 1}, dict[int, int], "as text is expected"),
        ({"x": 1}, dict[bool, int], "key 'x': true or false is expected, not str 'x'"),
        ({"3": 1}, dict[Literal[1, 2], int], "key '3': one of 1, 2 is expected, not str '3'"),
        ("green", Literal[Color.RED], "one of <Color.RED: 'red'> is expected"),
        ({"value": "x"}, Box[dt.date], r"\.value: a date such as"),
        ([1], tuple[int, int], "a list of 2"),
        ("c", Literal["a", "b"], "one of 'a', 'b' is expected"),
        ({}, int | str, "int is expected.*; or str is expected"),
        ("soon", dt.datetime, "a date and time such as"),
        ("x", uuid.UUID, "a UUID is expected"),
        ("x", decimal.Decimal, "a decimal number"),
        ("green", Color, "one of 'red', 2"),
        ({"name": "Ada"}, Person, "Person needs born"),
        ({"name": "Ada", "born": "1815-12-10", "x": 1}, Person, "Person has no field 'x'"),
        ({"name": "Ada", "born": "1815-12-10", "friends": [{"name": 3}]}, Person, r"\.friends\[0\]\.name: str"),
        ({"name": "x"}, Row, "Row needs id"),
        ([1, 2, 3], Point, "a list for Point"),
        ([], Point, "a list for Point"),
        (1e300, dt.timedelta, "seconds"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(value: object, annotation: object, reason: str) -> None:
    load = loader(annotation)
    assert load is not None
    with pytest.raises(ConvertError, match=reason):
        load(value)


def test_types_of_which_nothing_is_known_are_refused_at_once() -> None:
    class Odd:
        pass

    with pytest.raises(TypeError, match="Odd cannot be made of JSON"):
        loader(Odd)
    with pytest.raises(TypeError):
        loader(list[Odd])
    with pytest.raises(EncodeError, match="Odd cannot be sent"):
        plain(Odd())


def test_models_of_pydantic_and_structs_of_msgspec() -> None:
    pydantic = pytest.importorskip("pydantic")
    msgspec = pytest.importorskip("msgspec")
    model: Any = pydantic.create_model("Model", id=(int, ...), at=(dt.datetime, ...))
    one = model(id=1, at=dt.datetime(2030, 1, 1, tzinfo=UTC))
    assert there_and_back(one, model) == one
    assert there_and_back([one], list.__class_getitem__(model)) == [one]
    struct = msgspec.defstruct("Struct", [("id", int), ("tags", set[str])])
    two = struct(1, {"a"})
    assert there_and_back(two, struct) == two
    numbers = msgspec.defstruct("Numbers", [("names", dict[int, str]), ("shares", dict[float, bytes])])
    three = numbers({1: "one"}, {0.5: b"\xff"})
    assert there_and_back(three, numbers) == three
    generic: Any = typing.Generic
    fields = {"__annotations__": {"value": T}}
    box: Any = types.new_class("Box", (msgspec.Struct, generic[T]), exec_body=lambda names: names.update(fields))
    assert there_and_back(box(DAY), box[dt.date]) == box(DAY)
    for kind in (model, struct):
        load = loader(kind)
        assert load is not None
        with pytest.raises(ConvertError, match="id"):
            load({"id": "x"})


SIMPLE = st.none() | st.booleans() | st.integers() | st.text()
KINDS = (int, list[int], dict[int, str], tuple[int, str], Person, Row, Point, Color, dt.date, int | None)


@settings(max_examples=examples(200))
@given(st.recursive(SIMPLE, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_json_says_is_a_value_or_an_error(value: object) -> None:
    for annotation in KINDS:
        load = loader(annotation)
        assert load is not None
        with suppress(ConvertError):
            load(value)
