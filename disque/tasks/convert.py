"""Values of Python into what JSON or msgpack can say, and back by annotation.

What is sent has no types: a date is a text, a dataclass a map. The annotation of the parameter says what is made of it
when the job runs. So the sender may be another program, or an older version of this one, and what arrives is checked:
`loader` makes a function out of an annotation, once, which gives the value or raises ConvertError with the place and
what was expected there. None stands for "as it is": no call where there is nothing to check.

Plain types are taken strictly (``1`` is no str, "1" no int, True no number; an int is a float). Models of pydantic and
structs of msgspec are read by these packages. A class that nothing is known of is refused when the task is looked at,
not when its first job comes.
"""

import base64
import binascii
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, TypeAlias

from disque.tasks import models
from disque.tasks.errors import EncodeError

Load: TypeAlias = Callable[[object], object]


class ConvertError(ValueError):
    """A value that does not fit. ``path`` is where, the innermost place first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []

    def __str__(self) -> str:
        place = "".join(reversed(self.path))
        return f"{place}: {self.args[0]}" if place else str(self.args[0])

    def at(self, place: str) -> "ConvertError":
        """The same, one place further out."""
        self.path.append(place)
        return self


def wrong(expected: str, value: object) -> ConvertError:
    """The error for a value of another kind."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ConvertError(f"{expected} is expected, not {type(value).__name__} {shown}")


# -- from values -------------------------------------------------------------------------------------------------------


def plain(value: object) -> object:
    """What JSON says for a value that it does not know by itself: ``default=`` of an encoder. Raises EncodeError."""
    for kinds, make in PLAIN:
        if isinstance(value, kinds):
            return make(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    if hasattr(value, "model_dump"):  # pydantic
        return models.dump(value)
    if hasattr(value, "__struct_fields__"):
        import msgspec  # noqa: PLC0415 - it is there, since its struct is

        return msgspec.to_builtins(value, str_keys=True)
    kind = type(value)
    raise EncodeError(f"{kind.__module__}.{kind.__qualname__} cannot be sent: use plain types, a dataclass or a model")


def _of_bytes(value: Any) -> str:  # noqa: ANN401 - bytes of any kind
    return base64.b64encode(value).decode()


def _order(value: object) -> str:
    """Sets have no order that is the same in each process; what is sent has that of their items' JSON."""
    return json.dumps(value, default=plain)


PLAIN: Final[tuple[tuple[Any, Callable[[Any], object]], ...]] = (
    ((dt.datetime, dt.date, dt.time), lambda value: value.isoformat()),
    (dt.timedelta, lambda value: value.total_seconds()),
    ((uuid.UUID, decimal.Decimal, pathlib.PurePath), str),
    (enum.Enum, lambda value: value.value),
    ((bytes, bytearray, memoryview), _of_bytes),
    ((set, frozenset), lambda value: sorted(value, key=_order)),
)


# -- into values -------------------------------------------------------------------------------------------------------


def loader(annotation: object) -> Load | None:
    """A function that makes a value of this type, or None if any value will do. Raises TypeError for unknown types."""
    if annotation in SIMPLE:
        return SIMPLE[annotation]
    if isinstance(annotation, typing.TypeVar):
        return loader(annotation.__bound__) if annotation.__bound__ is not None else None
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _of_generic(origin, typing.get_args(annotation))
    if isinstance(annotation, type):
        return _of_class(annotation)
    raise TypeError(f"{annotation!r} cannot be made of JSON")


def exact(kind: type, expected: str) -> Load:
    """Values of just this type."""

    def load(value: object) -> object:
        if type(value) is kind:
            return value
        raise wrong(expected, value)

    return load


def _float(value: object) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise wrong("a number", value)


def _none(value: object) -> None:
    if value is not None:
        raise wrong("null", value)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):  # msgpack can say bytes
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            pass
    raise wrong("bytes as base64", value)


def _of_text(make: Callable[[str], object], expected: str) -> Load:
    """Values that are sent as a text."""

    def load(value: object) -> object:
        if isinstance(value, str):
            try:
                return make(value)
            except (ValueError, ArithmeticError):
                pass
        raise wrong(expected, value)

    return load


def _timedelta(value: object) -> dt.timedelta:
    try:
        return dt.timedelta(seconds=_float(value))
    except (OverflowError, ConvertError):
        raise wrong("seconds", value) from None


SIMPLE: Final[dict[object, Load | None]] = {
    Any: None,
    object: None,
    None: _none,
    types.NoneType: _none,
    bool: exact(bool, "true or false"),
    int: exact(int, "int"),
    float: _float,
    str: exact(str, "str"),
    bytes: _bytes,
    bytearray: lambda value: bytearray(_bytes(value)),
    list: exact(list, "a list"),
    dict: exact(dict, "a map"),
    dt.datetime: _of_text(dt.datetime.fromisoformat, "a date and time such as 2030-01-31T12:00:00+00:00"),
    dt.date: _of_text(dt.date.fromisoformat, "a date such as 2030-01-31"),
    dt.time: _of_text(dt.time.fromisoformat, "a time such as 12:00:00"),
    dt.timedelta: _timedelta,
    uuid.UUID: _of_text(uuid.UUID, "a UUID"),
    decimal.Decimal: _of_text(decimal.Decimal, "a decimal number as text"),
    pathlib.Path: _of_text(pathlib.Path, "a path"),
    pathlib.PurePath: _of_text(pathlib.PurePath, "a path"),
}


def _of_class(kind: type) -> Load:  # noqa: PLR0911 - one for each kind of class
    if issubclass(kind, enum.Enum):
        return _of_enum(kind)
    if dataclasses.is_dataclass(kind):
        return _of_fields(kind, _required(kind), {})
    if hasattr(kind, "model_validate"):
        return _by_package(models.reader(kind))
    if hasattr(kind, "__struct_fields__"):
        return _of_struct(kind)
    if typing.is_typeddict(kind):
        return _of_fields(kind, dict.fromkeys(kind.__required_keys__), {})  # type: ignore[attr-defined]  # it has
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _of_named_tuple(kind)
    if kind in {tuple, set, frozenset}:
        return _of_sequence(kind, None)
    name = f"{kind.__module__}.{kind.__qualname__}"
    raise TypeError(f"{name} cannot be made of JSON: use plain types, a dataclass or a model")


def _by_package(make: Callable[[object], object]) -> Load:
    """Pydantic's and msgspec's errors are ValueErrors with a text that says where."""

    def load(value: object) -> object:
        try:
            return make(value)
        except ValueError as error:
            raise ConvertError(str(error)) from error

    return load


def _of_struct(kind: object) -> Load:
    """A struct of msgspec, or one with parameters. Names in JSON are texts, of which it makes numbers again."""
    import msgspec  # noqa: PLC0415 - it is there, since its struct is

    return _by_package(lambda value: msgspec.convert(value, kind, str_keys=True))


def _of_enum(kind: type[enum.Enum]) -> Load:
    def load(value: object) -> object:
        try:
            return kind(value)
        except ValueError:
            raise wrong(f"one of {', '.join(repr(one.value) for one in kind)}", value) from None

    return load


def _required(kind: Any) -> dict[str, None]:  # noqa: ANN401 - a dataclass
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return {one.name: None for one in fields if one.init and one.default is missing and one.default_factory is missing}


def _of_fields(kind: Any, required: Mapping[str, None], given: Mapping[Any, Any]) -> Load:  # noqa: ANN401 - a class
    """A dataclass or a TypedDict, of a map. Made when it is used first, for a type may contain itself.

    ``given`` says what stands for the parameters of a generic one.
    """
    fields: dict[str, Load | None] = {}
    called = models.call_names(kind)

    def learn() -> None:
        names = {one.name for one in dataclasses.fields(kind) if one.init} if dataclasses.is_dataclass(kind) else None
        for name, hint in hints_of(kind, given).items():
            if names is None or name in names:
                fields[name] = loader(hint)

    def load(value: object) -> object:
        if not fields:
            learn()
        if not isinstance(value, dict):
            raise wrong(f"a map for {kind.__name__}", value)
        found: dict[Any, object] = {}
        for name, one in value.items():
            if name not in fields:
                raise ConvertError(f"{kind.__name__} has no field {name!r}")
            found[called.get(name, name)] = part(fields[name], one, f".{name}")
        missing = [name for name in required if name not in value]
        if missing:
            raise ConvertError(f"{kind.__name__} needs {', '.join(missing)}")
        return kind(**found)

    return load


def hints_of(kind: Any, given: Mapping[Any, Any]) -> dict[str, Any]:  # noqa: ANN401 - a class
    """The annotations of a class, with what stands for its parameters, and for those of the classes that it extends."""
    hints = typing.get_type_hints(kind)
    found = {name: filled(hints[name], given) for name in inspect.get_annotations(kind)}
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin is not typing.Generic:
            args = [filled(one, given) for one in typing.get_args(base)]
            found = hints_of(origin, dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))) | found
    return {name: found.get(name, hint) if parameters_of(hint) else hint for name, hint in hints.items()}


def parameters_of(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any type
    """Those of an annotation for which something may stand."""
    if isinstance(hint, typing.TypeVar):
        return (hint,)
    found: tuple[Any, ...] = getattr(hint, "__parameters__", ()) if typing.get_origin(hint) is not None else ()
    return found


def filled(hint: Any, given: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - any type
    """An annotation with what stands for its parameters: ``list[T]`` as ``list[date]``."""
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    names = parameters_of(hint)
    return hint[tuple(given.get(one, one) for one in names)] if names else hint


def _of_named_tuple(kind: Any) -> Load:  # noqa: ANN401 - a NamedTuple
    hints = typing.get_type_hints(kind)
    loads = [loader(hints.get(name, Any)) for name in kind._fields]

    def load(value: object) -> object:
        if not isinstance(value, list) or len(value) > len(loads):
            raise wrong(f"a list for {kind.__name__}", value)
        try:
            return kind(*[part(one, item, f"[{at}]") for at, (one, item) in enumerate(zip(loads, value, strict=False))])
        except TypeError:
            raise wrong(f"a list for {kind.__name__}", value) from None

    return load


def part(load: Load | None, value: object, place: str) -> object:
    """One part of a value; an error says where it is."""
    if load is None:
        return value
    try:
        return load(value)
    except ConvertError as error:
        raise error.at(place) from None


def _of_generic(origin: object, args: tuple[Any, ...]) -> Load | None:
    if origin is typing.Annotated or origin in WRAPPERS:
        return loader(args[0])
    if origin is typing.Union or origin is types.UnionType:
        return _of_union(args)
    if origin is typing.Literal:
        return _of_literal(args)
    if isinstance(origin, type):
        return _of_generic_class(origin, args)
    raise TypeError(f"{origin!r} cannot be made of JSON")


def _of_generic_class(origin: Any, args: tuple[Any, ...]) -> Load | None:  # noqa: ANN401 - a class
    if issubclass(origin, tuple):
        return _of_tuple(args)
    if issubclass(origin, Mapping):
        return _of_mapping(args)
    if issubclass(origin, AbstractSet):
        return _of_sequence(frozenset if origin is frozenset else set, args[0])
    if origin in {list, Sequence, Iterable} or issubclass(origin, Sequence):
        return _of_sequence(list, args[0])
    if hasattr(origin, "__struct_fields__"):
        return _of_struct(origin[args])
    if dataclasses.is_dataclass(origin):
        names: tuple[Any, ...] = getattr(origin, "__parameters__", ())
        return _of_fields(origin, _required(origin), dict(zip(names, args, strict=False)))
    raise TypeError(f"{origin!r} cannot be made of JSON")


WRAPPERS: Final = {typing.Final, typing.Required, typing.NotRequired, typing.ClassVar}


#: What is sent as a text that may also be base64, as which JSON has bytes.
TEXTS: Final = (str, decimal.Decimal, pathlib.Path, pathlib.PurePath)
BYTES: Final = (bytes, bytearray)


def mixes(args: Iterable[object]) -> bool:
    """Whether the members of a union are such that a text may be one or bytes: only msgpack can tell which."""
    members = [one for arg in args for one in bare(arg)]
    return any(is_text(one) for one in members) and any(one in BYTES for one in members)


def bare(annotation: object) -> list[object]:
    """What an annotation stands for, without what is around it: several for a union."""
    if isinstance(annotation, typing.TypeVar):
        return [annotation] if annotation.__bound__ is None else bare(annotation.__bound__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated or origin in WRAPPERS:
        return bare(parts[0])
    if origin in {typing.Union, types.UnionType}:
        return [one for part in parts for one in bare(part)]
    return [annotation]


def is_text(annotation: object) -> bool:
    """Whether values of this type are sent as a text that may also be base64."""
    if typing.get_origin(annotation) is typing.Literal:
        return any(isinstance(getattr(one, "value", one), str) for one in typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return any(isinstance(one.value, str) for one in annotation)
    return annotation in TEXTS


def check_for_json(annotation: object, seen: set[object]) -> None:
    """Look for unions that JSON cannot tell apart, in all that a type is made of. Raises TypeError."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType} and mixes(parts):
        reason = "JSON has bytes as a text, and cannot tell which of the two was meant"
        raise TypeError(f'{annotation} cannot be read: {reason}. Say one of them, or App(format="msgpack")')
    if isinstance(annotation, type) and annotation not in seen and has_fields(annotation):
        seen.add(annotation)
        with suppress(NameError, TypeError, AttributeError):  # what is not known yet is told when it is used
            parts = tuple(typing.get_type_hints(annotation).values())
    for one in parts:
        check_for_json(one, seen)


def has_fields(kind: type) -> bool:
    """Whether values of this class are made of parts that have annotations."""
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")


def _just_bytes(kind: Callable[[bytes], object]) -> Load:
    """Bytes where a text is a text."""

    def load(value: object) -> object:
        if isinstance(value, bytes):
            return kind(value)
        raise wrong("bytes", value)

    return load


def _of_union(args: tuple[Any, ...]) -> Load | None:
    loads: list[Load | None]
    if mixes(args):
        members: list[Any] = [one for arg in args for one in bare(arg)]
        loads = [_just_bytes(one) if one in BYTES else loader(one) for one in members]
    else:
        loads = [loader(one) for one in args]
    if None in loads:
        return None

    def load(value: object) -> object:
        reasons = []
        for one in loads:
            assert one is not None
            try:
                return one(value)
            except ConvertError as error:
                reasons.append(str(error))
        raise ConvertError("; or ".join(dict.fromkeys(reasons)))

    return load


def _of_literal(args: tuple[Any, ...]) -> Load:
    sent = [(one.value if isinstance(one, enum.Enum) else one, one) for one in args]

    def load(value: object) -> object:
        for said, one in sent:
            if value == said and type(value) is type(said):
                return one
        raise wrong(f"one of {', '.join(map(repr, args))}", value)

    return load


def _of_sequence(kind: Callable[[list[object]], object], item: object) -> Load:
    one = None if item is None else loader(item)

    def load(value: object) -> object:
        if not isinstance(value, list):
            raise wrong("a list", value)
        if one is None:
            return value if kind is list else kind(value)
        found = [part(one, item, f"[{at}]") for at, item in enumerate(value)]
        return found if kind is list else kind(found)

    return load


def _of_tuple(args: tuple[Any, ...]) -> Load:
    if len(args) == 2 and args[1] is ...:
        return _of_sequence(tuple, args[0])
    loads = [loader(one) for one in args]

    def load(value: object) -> object:
        if not isinstance(value, list) or len(value) != len(loads):
            raise wrong(f"a list of {len(loads)}", value)
        return tuple(part(one, item, f"[{at}]") for at, (one, item) in enumerate(zip(loads, value, strict=True)))

    return load


def _of_mapping(args: tuple[Any, ...]) -> Load:
    key, item = _of_key(args[0]), loader(args[1])

    def load(value: object) -> object:
        if not isinstance(value, dict):
            raise wrong("a map", value)
        return {part(key, name, f" key {name!r}"): part(item, one, f"[{name!r}]") for name, one in value.items()}

    return load


def _of_key(kind: object) -> Load | None:
    """Names in JSON are texts: numbers, true, false and null are made of them again where a text does not fit."""
    load = loader(kind)
    if load is None or kind is str:
        return load
    if kind is int or kind is float:
        return _of_number(kind, load)

    def read(value: object) -> object:
        try:
            return load(value)
        except ConvertError:
            if isinstance(value, str):
                with suppress(ValueError):
                    return load(json.loads(value))
            raise

    return read


def _of_number(kind: type[int | float], load: Load) -> Load:
    """A number that is a name, without the detour of others."""

    def read(value: object) -> object:
        if isinstance(value, str):
            try:
                return kind(value)
            except ValueError:
                raise wrong(f"{kind} as text", value) from None
        return load(value)

    return read
