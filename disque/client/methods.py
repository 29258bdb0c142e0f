"""Makes methods of both clients from the functions that make requests, so that each command is written once."""

import inspect
from collections.abc import Callable
from typing import Any


def describe(method: Callable[..., Any], build: Callable[..., Any]) -> None:
    """Give a method the name, the documentation and the signature of the function that makes its request."""
    signature = inspect.signature(build)
    _, *rest = signature.parameters.values()
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    result = inspect.signature(build).return_annotation
    method.__name__ = build.__name__
    method.__qualname__ = build.__qualname__
    method.__doc__ = build.__doc__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect and help() read it
        parameters=[myself, *rest], return_annotation=getattr(result, "__args__", (result,))[0]
    )
