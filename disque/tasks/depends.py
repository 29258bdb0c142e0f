"""Arguments that a task does not get from its caller: `Depends(open_db)` as a default.

A provider is a function, plain or asynchronous, or a generator of either kind that gives one value and cleans up behind
its ``yield``. It may have parameters with `Depends` of its own. Each provider is called once a job, whoever asks for
it, and what it opened is closed in the opposite order when the job is over.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final, TypeVar, cast, overload

T = TypeVar("T")

Provider = Callable[..., Any]


class Dependency:
    """What stands in the place of a default until the job runs."""

    __slots__ = ("provider",)

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def __repr__(self) -> str:
        return f"Depends({getattr(self.provider, '__name__', self.provider)!s})"


@overload
def Depends(provider: Callable[..., AsyncIterator[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., AbstractAsyncContextManager[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., AbstractContextManager[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., Awaitable[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., T], /) -> T: ...
def Depends(provider: Provider, /) -> Any:  # noqa: N802 - the same; it has the type of what is provided
    """The default of a parameter that the worker provides: what ``provider`` gives. Callers do not give it."""
    if not callable(provider):
        raise TypeError(f"Depends takes a function, not {type(provider).__name__}")
    return Dependency(provider)


def dependencies(function: Callable[..., Any]) -> dict[str, Provider]:
    """The parameters of a function that are provided, and by whom. Raises TypeError for one that cannot be called."""
    found: dict[str, Provider] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Dependency):
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise TypeError(f"parameter {name!r} is provided, so it cannot be positional only")
            found[name] = parameter.default.provider
    return found


class Plan:
    """How the provided arguments of one function are made: worked out once. Raises TypeError for a circle."""

    def __init__(self, function: Callable[..., Any], above: tuple[Provider, ...] = ()) -> None:
        self.function = function
        if function in above:
            raise TypeError(f"{getattr(function, '__name__', function)} depends on itself")
        self.parts: Final = {
            name: Plan(provider, (*above, function)) for name, provider in dependencies(function).items()
        }

    async def fill(self, stack: AsyncExitStack, known: dict[Provider, object]) -> dict[str, object]:
        """The provided arguments by name. What must be closed is left to ``stack``, what was made is in ``known``."""
        return {name: await part.value(stack, known) for name, part in self.parts.items()}

    async def value(self, stack: AsyncExitStack, known: dict[Provider, object]) -> object:
        """What this provider gives."""
        if self.function not in known:
            known[self.function] = await self._make(stack, await self.fill(stack, known))
        return known[self.function]

    async def _make(self, stack: AsyncExitStack, words: dict[str, object]) -> object:
        provider = self.function
        if inspect.isasyncgenfunction(provider):
            return await stack.enter_async_context(asynccontextmanager(provider)(**words))
        if inspect.isgeneratorfunction(provider):
            return stack.enter_context(contextmanager(provider)(**words))
        made = provider(**words)
        if inspect.isawaitable(made):
            made = await made
        if hasattr(made, "__aenter__") and hasattr(provider, "__wrapped__"):  # a function with @asynccontextmanager
            return await stack.enter_async_context(made)
        if hasattr(made, "__enter__") and hasattr(provider, "__wrapped__"):
            return stack.enter_context(made)
        return cast("object", made)
