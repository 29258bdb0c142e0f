"""The body of a job that is a call of a task: what the sender writes, and what the worker reads.

It is a map, as JSON or, if the app says so, as msgpack; the first byte tells which. Any program can write one:

    {"task": "welcome", "args": [7], "kwargs": {"again": true}}

| name | what |
|---|---|
| ``task`` | the name of the task |
| ``args``, ``kwargs`` | arguments by position and by name; either may be left out |
| ``timeout`` | for how many seconds the call may run, if not as long as the task says |
| ``deadline`` | when it must be done, in seconds since 1970 |
| ``result`` | true: the result is kept (the job has a RETAIN) |
| ``then`` | what is called after it, each with its result: a list of such maps, with ``queue`` and ``options`` |
"""

import json
import math
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgpack

from disque.tasks.convert import plain
from disque.tasks.errors import EncodeError, MessageError

Format: TypeAlias = Literal["json", "msgpack"]

#: Names that a message may have.
NAMES: Final = frozenset({"task", "args", "kwargs", "timeout", "deadline", "result", "then"})

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain).encode


class Message(NamedTuple):
    """One call of a task, as it was sent."""

    task: str
    args: list[object]
    kwargs: dict[str, object]
    timeout: float | None = None
    deadline: float | None = None
    result: bool = False
    then: list[dict[str, Any]] | None = None

    def encode(self, form: Format) -> bytes:
        """The body. Raises EncodeError."""
        words: dict[str, object] = {"task": self.task}
        if self.args:
            words["args"] = self.args
        if self.kwargs:
            words["kwargs"] = self.kwargs
        if self.timeout is not None:
            words["timeout"] = self.timeout
        if self.deadline is not None:
            words["deadline"] = self.deadline
        if self.result:
            words["result"] = True
        if self.then:
            words["then"] = self.then
        return dump(words, form)


def _packed(value: object) -> object:
    """The same as `plain` for msgpack, which asks for tuples, too, and knows bytes."""
    return list(value) if isinstance(value, tuple) else plain(value)


def dump(value: object, form: Format) -> bytes:
    """A value as bytes. Raises EncodeError."""
    try:
        if form == "json":
            return _json(value).encode()
        packed: bytes = msgpack.packb(value, default=_packed)
    except EncodeError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(str(error)) from error
    return packed


def read(data: bytes) -> object:
    """The value of some bytes in either form. Raises MessageError."""
    first = data[:1]
    reader: Callable[[bytes], object] = _parse if first in JSON_BEGINS else _unpack
    try:
        return reader(data)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise MessageError(f"neither JSON nor msgpack: {error}; it begins with {data[:40]!r}") from error


#: How JSON begins: what msgpack begins with in a map, list or text is a byte from 0x80 on. Its small numbers would be
#: mistaken for JSON, so a result that is one is sent as JSON.
JSON_BEGINS: Final = frozenset(bytes([one]) for one in b'{["-0123456789tfnNI \t\r\n')
#: `json.loads` looks for UTF-16 and UTF-32 first, which takes as long as reading a short message.
DECODER: Final = json.JSONDecoder()


def _parse(data: bytes) -> object:
    """The value of JSON in UTF-8. Raises ValueError."""
    text = data.decode("utf-8", "surrogatepass").strip(" \t\r\n")
    value: object
    value, end = DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError(f"something follows after {end} characters")
    return value


def _unpack(data: bytes) -> object:
    value: object = msgpack.unpackb(data, strict_map_key=False)
    return value


def dump_result(value: object, form: Format) -> bytes:
    """What a task has returned, as bytes. Raises EncodeError."""
    data = dump(value, form)
    return dump(value, "json") if form != "json" and data[:1] in JSON_BEGINS else data


def decode(body: bytes) -> Message:
    """The call that a body says. Raises MessageError."""
    words = read(body)
    if not isinstance(words, dict):
        raise MessageError(f"the body is no message of a task: a map is expected, not {type(words).__name__}")
    name = words.get("task")
    args = words.get("args", [])
    kwargs = words.get("kwargs", {})
    if not isinstance(name, str):
        raise MessageError("the body is no message of a task: it has no text 'task'")
    if not isinstance(args, list) or not isinstance(kwargs, dict) or not all(isinstance(one, str) for one in kwargs):
        raise MessageError("the body is no message of a task: 'args' must be a list and 'kwargs' a map of names")
    if len(words) == 1 + ("args" in words) + ("kwargs" in words):
        return Message(name, args, kwargs)
    timeout, deadline, then = words.get("timeout"), words.get("deadline"), words.get("then")
    if not (is_time(timeout) and is_time(deadline)):
        raise MessageError("the body is no message of a task: 'timeout' and 'deadline' must be numbers")
    if then is not None and not (isinstance(then, list) and all(isinstance(one, dict) for one in then)):
        raise MessageError("the body is no message of a task: 'then' must be a list of maps")
    return Message(name, args, kwargs, timeout, deadline, bool(words.get("result")), then)


#: Seconds that can still be reckoned with: a whole number may have any number of digits.
TIME_MOST: Final = 1e15


def is_time(value: object) -> bool:
    """Whether a value is a number of seconds, or is not there."""
    if value is None:
        return True
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value <= TIME_MOST or value == math.inf
