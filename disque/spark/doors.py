"""How errors leave this package for Spark: without stack frames, except the one that cannot be avoided.

Spark puts the traceback of a Python process before the text of its error, and most tools show only the first lines. So
an error that is complete in itself is raised anew here. Unexpected errors keep their frames.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PlainError(Exception):
    """An error that says all that there is to say: where it was raised helps nobody."""


def is_plain(error: Exception) -> bool:
    """Whether the text of an error is all that a user needs: ours, and those of the client."""
    return isinstance(error, PlainError | ImportError) or type(error).__module__.startswith("disque.client.")


def door(call: Callable[P, T]) -> Callable[P, T]:
    """What Spark calls: plain errors leave it without their frames."""

    @wraps(call)
    def opened(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if not is_plain(error):
                raise
            found = error
        raise bare(found)

    return opened


def rows_door(rows: Iterable[T]) -> Iterator[T]:
    """The same for rows that Spark takes one after the other."""
    try:
        yield from rows
    except Exception as error:
        if not is_plain(error):
            raise
        found = error
    else:
        return
    raise bare(found)


def bare(error: Exception) -> Exception:
    """The error without where it came from."""
    error.__context__ = None
    return error.with_traceback(None)
