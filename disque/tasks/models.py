"""Models of pydantic, which it writes and reads itself: as JSON on both sides.

What it writes is not always what it reads: secrets are stars, fields may be left out, or have one name when they are
written and another one when they are read. Such a model is refused when it is sent, and the error says what would help.
Who only reads models that another program sends needs none of that.
"""

import dataclasses
import functools
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from disque.tasks.errors import EncodeError

#: Whether fields are sent by their aliases. Their own names come first: older versions of this program read those.
WAYS: Final = (False, True)
#: What of pydantic's stands in Annotated, and writes a value in another way.
SERIALIZERS: Final = frozenset({"PlainSerializer", "WrapSerializer"})


class Field(NamedTuple):
    """A field of a model. ``info`` is what pydantic knows of it."""

    owner: Any
    name: str
    info: Any

    def __str__(self) -> str:
        return f"{self.owner.__qualname__}.{self.name}"

    def sent_as(self, by_alias: bool) -> str:
        """The name by which it is written."""
        return (by_alias and self.info.serialization_alias) or self.name

    def read_as(self) -> list[str]:
        """The names by which it is read."""
        alias, config = self.info.validation_alias, config_of(self.owner)
        if alias is None:
            return [self.name]
        names = [one for one in getattr(alias, "choices", [alias]) if isinstance(one, str)]
        if not config.get("validate_by_alias", True):
            names = []
        by_name = config.get("populate_by_name") or config.get("validate_by_name")
        return [*names, self.name] if by_name else names

    def is_pydantics(self) -> bool:
        """Whether pydantic writes its value: it is not left out, and the program does not say how it is written."""
        names = {
            one for each in self.owner.__pydantic_decorators__.field_serializers.values() for one in each.info.fields
        }
        own = config_of(self.owner).get("json_encoders") or has_serializer(self.info.metadata)
        return not self.info.exclude and not own and names.isdisjoint({self.name, "*"})


def dump(model: Any) -> object:  # noqa: ANN401 - a model
    """A model as what JSON can say. Raises EncodeError."""
    kind: Any = type(model)
    try:
        return model.model_dump(mode="json", by_alias=by_alias(kind), round_trip=True)
    except UnicodeDecodeError as error:
        config = 'ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")'
        raise EncodeError(f"{kind.__qualname__} cannot be sent: {error}. Give it model_config = {config}") from error


def reader(kind: Any) -> Callable[[object], object]:  # noqa: ANN401 - the class of a model
    """A function that makes models of this class as of JSON, where a date is a text even for a strict one."""

    def read(value: object) -> object:
        try:
            text = json.dumps(value)
        except TypeError:  # another program has sent in msgpack what JSON cannot say
            return kind.model_validate(value)
        return kind.model_validate_json(text)

    return read


@functools.lru_cache(maxsize=1024)
def by_alias(kind: Any) -> bool:  # noqa: ANN401 - the class of a model
    """How models of this class are sent. Raises EncodeError for those that would not arrive as they are."""
    ways = list(WAYS)
    for field in fields_in(kind, kind.__qualname__, set()):
        if field.info.exclude:
            if field.info.is_required():
                raise EncodeError(f"{field} cannot be sent: it has exclude=True, and no default")
            continue
        names = field.read_as()
        ways = [one for one in ways if field.sent_as(one) in names]
        if not ways:
            reason = "it is written by one name, and read by another. Give it one alias for both"
            raise EncodeError(f"{field} cannot be sent: {reason}")
    return ways[0]


def fields_in(annotation: Any, place: str, seen: set[object]) -> Iterator[Field]:  # noqa: ANN401 - any type
    """The fields of all models that a type is made of. Raises EncodeError for a secret."""
    kind = typing.get_origin(annotation) or annotation
    if hasattr(kind, "get_secret_value"):
        reason = "pydantic hides secrets. Send where it is kept, or give it a field_serializer that writes it"
        raise EncodeError(f"{place} cannot be sent: {reason}")
    if kind is typing.Annotated and has_serializer(annotation.__metadata__):
        return
    stands_for = getattr(kind, "__value__", None) or getattr(kind, "__supertype__", None)  # `type` and NewType
    if stands_for is not None and kind not in seen:
        seen.add(kind)
        yield from fields_in(stands_for, place, seen)
    parts = [(place, one) for one in typing.get_args(annotation)]
    if isinstance(kind, type) and kind not in seen:
        seen.add(kind)
        fields = own_fields(kind)
        yield from fields
        parts += [(str(one), one.info.annotation) for one in fields if one.is_pydantics()]
        parts += [(f"{kind.__qualname__}.{name}", hint) for name, hint in plain_hints(kind).items()]
    for where, one in parts:
        yield from fields_in(one, where, seen)


def own_fields(kind: Any) -> list[Field]:  # noqa: ANN401 - a class
    """The fields of a model or a dataclass of pydantic, if its program does not say itself how it is written."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None or decorators.model_serializers:
        return []
    infos = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", {})
    return [Field(kind, name, info) for name, info in infos.items()]


def plain_hints(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a class
    """The annotations of dataclasses, TypedDicts and NamedTuples that pydantic writes, though they are not its own."""
    is_own = hasattr(kind, "__pydantic_decorators__")
    with suppress(NameError, TypeError):  # what is not known yet
        if not is_own and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")):
            return typing.get_type_hints(kind, include_extras=True)
    return {}


def has_serializer(metadata: typing.Iterable[object]) -> bool:
    """Whether one of these writes the value."""
    return any(type(one).__name__ in SERIALIZERS for one in metadata)


def config_of(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - the class of a model
    """What a model or a dataclass says of itself."""
    config: Mapping[str, Any] = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    return config


def call_names(kind: Any) -> dict[str, str]:  # noqa: ANN401 - a dataclass
    """The names by which a dataclass of pydantic takes its fields, where they are not their own."""
    names = {one.name: one.read_as() for one in own_fields(kind)}
    return {name: read[0] for name, read in names.items() if read and name not in read}
