"""What a task takes from its callers."""

import asyncio
import datetime as dt
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import pytest

from disque.tasks import App, Depends, MessageError
from disque.tasks.shape import Shape

if TYPE_CHECKING:
    from nowhere import Db  # type: ignore[import-not-found]  # that is the point


def provider() -> int:
    return 1


def test_what_is_provided_is_not_the_callers() -> None:
    def task(user: int, *, db: "Db" = Depends(provider), again: bool = False) -> str:
        del user, db, again
        return ""

    shape = Shape(task, "t")
    assert list(shape.signature.parameters) == ["user", "again"]
    shape.bind((1,), {"again": True})
    for args, kwargs in (((), {}), ((1, 2), {}), ((1,), {"db": 5}), ((1,), {"other": 5})):
        with pytest.raises(TypeError, match="task t: "):
            shape.bind(args, kwargs)


def test_arguments_are_read_by_annotation() -> None:
    def task(a: int, b: set[str], *rest: float, c: bytes = b"", **more: int) -> None: ...

    shape = Shape(task, "t")
    assert shape.read([1, ["x"], 2, 3.5], {"c": "AA==", "d": 5}) == ([1, {"x"}, 2.0, 3.5], {"c": b"\0", "d": 5})
    cases: list[tuple[list[object], dict[str, object], str]] = [
        (["1", []], {}, "a: int is expected, not str '1'"),
        ([1, [2]], {}, r"b\[0\]: str is expected"),
        ([1, [], "x"], {}, "argument 3: a number"),
        ([1, []], {"c": 5}, "c: bytes"),
        ([1, []], {"d": "x"}, "d: int"),
        ([1], {}, "missing a required argument: 'b'"),
    ]
    for args, kwargs, reason in cases:
        with pytest.raises(MessageError, match=reason):
            shape.read(args, kwargs)


@dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low == 0:
            raise SystemExit(7)
        if self.low > self.high:
            raise ValueError("low is above high")


def test_whatever_reading_an_argument_raises_is_told() -> None:
    def task(a: Range | None = None, b: float = 0.0, c: set[object] | None = None) -> None: ...

    shape = Shape(task, "t")
    cases: list[tuple[dict[str, object], str]] = [
        ({"a": {"low": 3, "high": 1}}, "ValueError: low is above high"),
        ({"a": {"low": 0, "high": 1}}, "SystemExit: 7"),
        ({"b": 10**400}, "OverflowError: int too large"),
        ({"c": [[1]]}, "TypeError: unhashable type"),
    ]
    for kwargs, reason in cases:
        with pytest.raises(MessageError, match=f"the arguments do not fit task t: .*{reason}"):
            shape.read([], kwargs)


def test_a_type_that_cannot_be_read_is_refused_when_the_task_is_made() -> None:
    def odd(a: object, b: "complex") -> None: ...

    with pytest.raises(TypeError, match=r"task odd: parameter 'b': .*complex cannot be made of JSON"):
        Shape(odd, "odd")

    def unknown(a: "Db") -> None: ...

    with pytest.raises(TypeError, match="imported for type checking only"):
        Shape(unknown, "unknown")

    def returns(a: int) -> complex:
        return complex(a)

    assert Shape(returns, "returns").result is None, "whoever does not ask for a result need not read it"
    assert Shape(returns, "returns").returns


@dataclass
class Page:
    body: "list[bytes | str]"
    after: "Page | None" = None


def test_unions_that_json_cannot_tell_apart_are_refused_when_the_task_is_made() -> None:
    def takes(page: Page) -> None: ...

    def gives(number: int) -> str | bytearray | None: ...

    def dates(when: bytes | dt.date | None, pages: "list[Page | None]" = []) -> None: ...  # noqa: B006 - never used

    assert Shape(takes, "takes", "msgpack").read([{"body": [b"user", "user"]}], {}) == ([Page([b"user", "user"])], {})
    with pytest.raises(TypeError, match=r"task takes: parameter 'page': bytes \| str cannot be read: JSON has bytes"):
        Shape(takes, "takes", "json")
    with pytest.raises(TypeError, match=r"task gives: what it returns: .* Say one of them, or App\(format=.msgpack"):
        App().task(gives)
    with pytest.raises(TypeError, match=r"parameter 'pages': bytes \| str"):
        Shape(dates, "dates", "json")


def test_msgpack_tells_bytes_and_texts_apart() -> None:
    app = App(format="msgpack")
    got: list[object] = []

    @app.task(retain=60)
    def first(value: bytes | str) -> str | bytes:
        got.append(value)
        return value

    @app.task(retain=60)
    def second(value: Path | bytearray | None) -> None:
        got.append(value)

    async def scene() -> None:
        async with app.testing() as t:
            jobs = [await first.enqueue(value) for value in ("user", b"hi")]
            for value in (Path("user"), bytearray(b"hi"), None):
                await second.enqueue(value)
            await t.run()
            assert got == ["user", b"hi", Path("user"), bytearray(b"hi"), None]
            assert [await job.result() for job in jobs] == ["user", b"hi"]

    asyncio.run(scene())


class Kind(enum.Enum):
    USER = "user"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (bytes | Annotated[str, "a name"], "user"),
        (Annotated[bytes, "raw"] | str, "user"),
        (bytes | Kind, Kind.USER),
        (bytes | Literal["user", 1], "user"),
        (bytes | Annotated[int | str, "either"], "user"),
    ],
)
def test_texts_and_bytes_may_be_described(annotation: Any, text: object) -> None:
    def takes(value: Any) -> None: ...

    takes.__annotations__["value"] = annotation
    shape = Shape(takes, "takes", "msgpack")
    assert shape.read(["user"], {}) == ([text], {})
    assert shape.read([b"user"], {}) == ([b"user"], {})
    with pytest.raises(TypeError, match="JSON has bytes as a text"):
        Shape(takes, "takes", "json")


def test_beside_them_there_may_be_what_has_no_bound() -> None:
    def takes(value: Any) -> None: ...

    takes.__annotations__["value"] = bytes | str | TypeVar("T")  # as of a generic task
    assert Shape(takes, "takes", "msgpack").read([{"a": 1}], {}) == ([{"a": 1}], {})


def test_arguments_by_name_with_defaults() -> None:
    def task(a: int, b: str = "x", *, c: int = 3) -> None: ...

    assert Shape(task, "t").arguments((1,), {"c": 4}) == {"a": 1, "b": "x", "c": 4}


def test_the_items_of_a_batch() -> None:
    def batch(items: list[int], db: Any = Depends(provider)) -> None: ...

    shape = Shape.of_items(batch, "batch")
    assert shape.read([1], {}) == ([1], {})
    assert not shape.returns
    with pytest.raises(MessageError, match="item: int"):
        shape.read(["x"], {})

    def no_list(items: int) -> None: ...

    def two(items: list[int], other: int) -> None: ...

    for wrong in (no_list, two):
        with pytest.raises(TypeError, match="one parameter, annotated as a list"):
            Shape.of_items(wrong, "wrong")
