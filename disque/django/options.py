"""The OPTIONS of the backend in the setting TASKS."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Self

from disque.client import Config
from disque.client.terms import backoff_word

DAY_S = 86_400


@dataclass(frozen=True)
class Options:
    """Options, in the setting by their names in capital letters.

    - ``url``: the cluster, as `Config.from_url` takes it.
    - ``prefix``: stands before the names of queues.
    - ``tries``: how often a task may raise an exception before it has failed. ``backoff``: how long it is held back
      after one, such as "exponential:2:60".
    - ``crashes``: how many workers may die of a task before it has failed.
    - ``retain``: how long results are kept, in seconds. ``ttl``: how long a task lives, from when it may run.
    - ``lease``: how long after a worker has died its tasks come to others, in seconds.
    - ``replicate``: how many nodes have each task; None: as the server says.
    """

    url: str = "disque://127.0.0.1:7711"
    prefix: str = ""
    tries: int = 1
    backoff: str | None = None
    crashes: int = 3
    retain: float = DAY_S
    ttl: float = 30 * DAY_S
    lease: float = 60
    replicate: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Those of a setting. Raises ValueError that says what is wrong; see `faults`."""
        for fault in faults(given):
            raise ValueError(fault)
        return cls(**{name.lower(): value for name, value in given.items()})

    @property
    def config(self) -> Config:
        """The configuration of a client."""
        return Config.from_url(self.url)


def faults(given: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the options of a setting."""
    known = [one.name.upper() for one in fields(Options)]
    for name in sorted(given.keys() - set(known)):
        near = get_close_matches(name.upper(), known, 1)
        yield f"unknown option {name!r}, " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
    for name, least in (("TRIES", 1), ("CRASHES", 1), ("RETAIN", 0), ("TTL", 1), ("LEASE", 0.001), ("REPLICATE", 1)):
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < least):
            yield f"{name} must be a number from {least}, not {value!r}"
    yield from _wrong_texts(given)


def _wrong_texts(given: Mapping[str, Any]) -> Iterator[str]:
    try:
        Config.from_url(given.get("URL", Options.url))
    except (AttributeError, TypeError, ValueError) as error:
        yield f"URL: {error}"
    backoff = given.get("BACKOFF")
    try:
        if backoff is not None:
            backoff_word(backoff)
    except (AttributeError, TypeError, ValueError) as error:
        yield f"BACKOFF: {error}"
