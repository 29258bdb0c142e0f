"""What a task takes from its callers: which arguments there are, and how each is read from a message."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from disque.client.failure import described
from disque.tasks.convert import ConvertError, Load, check_for_json, loader, part
from disque.tasks.depends import Dependency
from disque.tasks.errors import MessageError
from disque.tasks.message import Format

KINDS: Final = inspect.Parameter


class Shape:
    """The signature of a function as callers see it: without what `Depends` provides.

    Raises TypeError for annotations that cannot be read from a message in its ``form``, or not be resolved.
    """

    def __init__(self, function: Callable[..., Any], name: str, form: Format = "msgpack") -> None:
        signature = inspect.signature(function)
        parameters = [one for one in signature.parameters.values() if not isinstance(one.default, Dependency)]
        self.name = name
        self.signature = signature.replace(parameters=parameters)
        hints = self._hints(function, parameters, signature.return_annotation)
        if form == "json":
            self._check_for_json(hints)
        self.result = self._loader(hints.get("return", Any), "what it returns", strict=False)
        #: Whether it may return something: all may that do not say ``-> None``.
        self.returns = hints.get("return", Any) is not types.NoneType
        loads = {one.name: self._loader(hints.get(one.name, Any), f"parameter {one.name!r}") for one in parameters}
        positional = (KINDS.POSITIONAL_ONLY, KINDS.POSITIONAL_OR_KEYWORD)
        self.positional = [(one.name, loads[one.name]) for one in parameters if one.kind in positional]
        named = (KINDS.POSITIONAL_OR_KEYWORD, KINDS.KEYWORD_ONLY)
        self.by_name = {one.name: loads[one.name] for one in parameters if one.kind in named}
        more = [one.name for one in parameters if one.kind is KINDS.VAR_POSITIONAL]
        others = [one.name for one in parameters if one.kind is KINDS.VAR_KEYWORD]
        self.more = loads[more[0]] if more else None
        self.names = loads[others[0]] if others else None
        needed = [one for one in parameters if one.default is KINDS.empty and one.kind in positional]
        self._least = len(needed)
        self._is_plain = not any(one.kind is KINDS.KEYWORD_ONLY and one.default is KINDS.empty for one in parameters)

    def _hints(
        self, function: Callable[..., Any], parameters: list[inspect.Parameter], returned: object
    ) -> dict[str, Any]:
        """The annotations of callers' parameters; those of provided ones may name what is not imported."""
        wanted = {one.name: one.annotation for one in parameters if one.annotation is not KINDS.empty}
        if returned is not inspect.Signature.empty:
            wanted["return"] = returned
        function = inspect.unwrap(function)
        scope = getattr(function, "__globals__", {})
        try:
            holder: Any = types.SimpleNamespace(__annotations__=wanted)
            return typing.get_type_hints(holder, globalns=scope, include_extras=True)
        except NameError as error:
            reason = f"task {self.name}: {error}, in an annotation. Is it imported for type checking only?"
            raise TypeError(reason) from error

    def _check_for_json(self, hints: Mapping[str, Any]) -> None:
        for name, hint in hints.items():
            try:
                check_for_json(hint, set())
            except TypeError as error:
                what = "what it returns" if name == "return" else f"parameter {name!r}"
                raise TypeError(f"task {self.name}: {what}: {error}") from error

    def _loader(self, hint: object, what: str, *, strict: bool = True) -> Load | None:
        try:
            return loader(hint)
        except TypeError as error:
            if not strict:
                return None  # what is returned need not be read by anybody
            raise TypeError(f"task {self.name}: {what}: {error}") from error

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Check that a call fits. Raises TypeError as the call itself would."""
        if not kwargs and self._is_plain and self._least <= len(args) <= len(self.positional):
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"task {self.name}: {error}") from None

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, with defaults."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def read(self, args: list[object], kwargs: dict[str, object]) -> tuple[list[object], dict[str, object]]:
        """The arguments of a message as what the annotations say. Raises MessageError."""
        try:
            if kwargs or not self._is_plain or not self._least <= len(args) <= len(self.positional):
                self.bind(tuple(args), kwargs)
        except TypeError as error:
            raise MessageError(f"the arguments do not fit {error}") from None
        try:
            return self._args(args), {name: self._named(name, value) for name, value in kwargs.items()}
        except ConvertError as error:
            raise MessageError(f"the arguments do not fit task {self.name}: {error}") from None
        except BaseException as error:  # classes of the program look at their values, and raise anything
            raise MessageError(f"the arguments do not fit task {self.name}: {described(error)}") from error

    def _args(self, args: list[object]) -> list[object]:
        found = [
            value if load is None else part(load, value, name)
            for (name, load), value in zip(self.positional, args, strict=False)
        ]
        known = len(self.positional)
        if len(args) > known:
            found += [part(self.more, value, f"argument {at}") for at, value in enumerate(args[known:], known + 1)]
        return found

    @classmethod
    def of_items(cls, function: Callable[..., Any], name: str) -> "Shape":
        """What callers of a batch task give: one item of the list that its function takes. Raises TypeError."""
        whole = cls(function, name)
        hint = typing.get_type_hints(function).get(next(iter(whole.signature.parameters), ""), None)
        items = typing.get_args(hint)
        if len(whole.signature.parameters) != 1 or typing.get_origin(hint) is not list or len(items) != 1:
            raise TypeError(f"task {name}: a batch task has one parameter, annotated as a list, such as list[int]")

        def one(item: object) -> None:
            del item

        parameter = inspect.Parameter("item", KINDS.POSITIONAL_OR_KEYWORD, annotation=items[0])
        one.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]  # inspect looks for it
        shape = cls(one, name)
        shape.returns = whole.returns
        return shape

    def _named(self, name: str, value: object) -> object:
        return part(self.by_name.get(name, self.names), value, name)
