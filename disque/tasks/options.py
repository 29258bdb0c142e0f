"""What can be said of the jobs of a task: by the app for all, by a task for its own, by `using` for one call.

The nearest that says something counts. What is None is left to the next, and at last to the queue and the server.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from string import Formatter
from typing import Any, Final, TypedDict

from disque.client import Backoff, NewJob
from disque.client.terms import backoff_word, moment_s
from disque.client.values import Duration, Name, ttl_beyond
from disque.tasks.convert import plain
from disque.tasks.errors import seconds
from disque.tasks.message import TIME_MOST, dump, is_time

#: A job lives for so long from when it may begin unless something else is said.
TTL_S: Final = 30 * 86_400
#: Nodes take no longer keys: of a longer one its digest counts.
KEY_BYTES: Final = 512


class CallOptions(TypedDict, total=False):
    """What `using` takes: see `Options`."""

    queue: str
    delay: Duration
    at: datetime | float
    tries: int
    backoff: Backoff | str
    timeout: Duration
    deadline: datetime | float
    retain: Duration
    unique: str | bool
    unique_for: Duration
    priority: int
    ttl: Duration
    replicate: int
    deadletter: str
    headers: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is said of jobs.

    - ``queue``: where they wait. ``priority``: 0 to 255, higher ones leave their queue first.
    - ``delay``, ``at``: when they may begin.
    - ``tries``: how often they are tried before they are dead letters (0: without end), ``backoff``: how long a failure
      holds them back, ``deadletter``: the queue where they end up ("": nowhere).
    - ``timeout``: for how long a call may run (0 or inf: without end). ``deadline``: when it must be done.
    - ``retain``: for how long the end and the result are kept; without it, no result is sent.
    - ``unique``: a text with the arguments by name, such as "{user_id}", or True for all arguments: while a job with
      the same key lives, or for ``unique_for`` after it was added, no second one is added.
    - ``ttl``: how long a job lives, run or not. ``replicate``: how many nodes have it.
    - ``headers``: names and values that go with it.
    - ``at_most_once``: it is begun once, and lost if its worker dies.
    """

    queue: str | None = None
    delay: Duration | None = None
    at: datetime | float | None = None
    tries: int | None = None
    backoff: Backoff | str | None = None
    timeout: Duration | None = None
    deadline: datetime | float | None = None
    retain: Duration | None = None
    unique: str | bool | None = None
    unique_for: Duration | None = None
    priority: int | None = None
    ttl: Duration | None = None
    replicate: int | None = None
    deadletter: str | None = None
    headers: Mapping[str, str] | None = None
    at_most_once: bool = False

    def __post_init__(self) -> None:
        if self.backoff is not None:
            object.__setattr__(self, "backoff", backoff_word(self.backoff).decode())
        if not isinstance(self.unique, str | bool | None):
            raise TypeError(f"unique must be a text, True or False, not {self.unique!r}")
        if self.at is not None and self.delay is not None:
            raise ValueError("at and delay cannot be used together")

    def over(self, other: "Options") -> "Options":
        """These, and what they do not say from ``other``."""
        said = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
        if "delay" in said or "at" in said:
            other = replace(other, delay=None, at=None)
        return replace(other, **{**said, "at_most_once": self.at_most_once or other.at_most_once})

    def deadline_s(self) -> float | None:
        """The deadline in seconds since 1970. Raises TypeError, and ValueError for what no worker would take."""
        if self.deadline is None:
            return None
        deadline_s = moment_s(self.deadline, "deadline")
        if not is_time(deadline_s):
            raise ValueError(f"deadline is no time: {self.deadline}")
        return deadline_s

    def timeout_s(self) -> float | None:
        """For how long a call may run; 0 is without end, and so is what is longer than anybody can reckon with."""
        if self.timeout is None:
            return None
        timeout_s = seconds(self.timeout, "timeout")
        return timeout_s if timeout_s <= TIME_MOST else 0.0

    def delay_s(self) -> float:
        """How far from now the job may begin."""
        if self.at is None:
            return 0.0 if self.delay is None else seconds(self.delay, "delay")
        return max(0.0, moment_s(self.at, "at") - time.time())

    def keeps(self) -> bool:
        """Whether the result is kept."""
        return self.retain is not None and seconds(self.retain, "retain") > 0

    def life(self) -> Duration:
        """How long the job lives, run or not."""
        if self.ttl is not None:
            return self.ttl
        return TTL_S if self.delay is None and self.at is None else ttl_beyond(TTL_S, self.delay_s())

    def job(self, queue: Name, body: bytes, lease_s: int, key: str | None) -> NewJob:
        """The job that these say."""
        once = self.at_most_once
        return NewJob(
            queue,
            body,
            delay=self.delay,
            at=self.at,
            retry=0 if once else lease_s,
            ttl=self.life(),
            replicate=1 if once else self.replicate,
            unique=key,
            window=self.unique_for if key is not None else None,
            tries=None if once else self.tries,
            backoff=None if once else self.backoff,
            deadletter=None if once else self.deadletter,
            priority=self.priority,
            headers=self.headers,  # type: ignore[arg-type]  # names of texts are names
            retain=self.retain,
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _ordered(arguments: object) -> str:
    """Arguments, or one of them, as JSON in one order, whatever that of their maps is here. Raises EncodeError."""
    try:
        return json.dumps(arguments, default=plain, sort_keys=True)
    except TypeError:  # names of several kinds have no order: in JSON all are texts
        return json.dumps(json.loads(dump(arguments, "json")), sort_keys=True)


class Keys(Formatter):
    """Fills in the rule of a key, with texts that tell values apart, and are the same in each process."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The value that a part of the rule names."""
        value, name = super().get_field(field_name, args, kwargs)
        value = plain(value) if isinstance(value, set | frozenset) else value
        return (_ordered(value) if is_vague(value) else value), name


def is_vague(value: object) -> bool:
    """Whether the text of a value is not the same in each process, or not another one for each: sets, secrets."""
    if isinstance(value, set | frozenset) or hasattr(value, "get_secret_value"):
        return True
    if isinstance(value, Mapping):
        return any(is_vague(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(is_vague(one) for one in value)
    if is_dataclass(value):
        return any(is_vague(getattr(value, one.name)) for one in fields(value))
    return hasattr(value, "model_dump") and is_vague(vars(value))


def key_of(task: str, rule: str | bool | None, arguments: Mapping[str, Any]) -> str | None:
    """The UNIQUE key of a call. Raises EncodeError, and ValueError where the rule names what is no argument."""
    if rule is None or rule is False:
        return None
    if rule is True:
        return f"{task}:{_digest(_ordered(arguments))}"
    try:
        key = f"{task}:{Keys().vformat(rule, (), arguments)}"
        return key if len(key.encode()) <= KEY_BYTES else f"{task[:200]}:{_digest(key)}"
    except (KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"unique={rule!r} of task {task} names what is no argument: {error}") from None
