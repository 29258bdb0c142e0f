"""A job that is to be added."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from disque.client.terms import Backoff, backoff_word, header_words, moment_word
from disque.client.values import (
    Body,
    Duration,
    Name,
    body_word,
    duration_word,
    name_word,
    number_word,
    seconds_word,
)


class NewJob(NamedTuple):
    """What `Disque.add` takes, as a value; None stands for the default of the batch, or else of the server."""

    queue: Name
    body: Body
    delay: Duration | None = None
    retry: Duration | None = None
    ttl: Duration | None = None
    replicate: int | None = None
    maxlen: int | None = None
    background: bool = False
    unique: Name | None = None
    window: Duration | None = None
    tries: int | None = None
    backoff: Backoff | str | None = None
    deadletter: Name | None = None
    priority: int | None = None
    headers: Mapping[Name, Name] | None = None
    at: datetime | float | None = None
    retain: Duration | None = None

    def words(self, timeout_ms: int) -> list[bytes]:
        """The words of ADDJOB. Raises TypeError, ValueError."""
        return [
            b"ADDJOB",
            name_word(self.queue),
            body_word(self.body),
            number_word(timeout_ms, "timeout_ms"),
            *self.options(),
        ]

    def options(self) -> list[bytes]:
        """The words behind the timeout. Raises TypeError, ValueError."""
        words: list[bytes] = []
        if self.at is not None and self.delay is not None:
            raise ValueError("at and delay cannot be used together")
        if self.replicate is not None:
            words += (b"REPLICATE", number_word(self.replicate, "replicate"))
        if self.delay is not None:
            words += (b"DELAY", duration_word(self.delay, "delay"))
        if self.retry is not None:
            words += (b"RETRY", seconds_word(self.retry, "retry"))
        if self.ttl is not None:
            words += (b"TTL", seconds_word(self.ttl, "ttl"))
        if self.maxlen is not None:
            words += (b"MAXLEN", number_word(self.maxlen, "maxlen"))
        if self.unique is not None:
            window = b"0" if self.window is None else seconds_word(self.window, "window")
            words += (b"UNIQUE", name_word(self.unique, "unique"), window)
        elif self.window is not None:
            raise ValueError("window needs a key: unique=...")
        if self.background:
            words.append(b"ASYNC")
        return words + self.terms()

    def terms(self) -> list[bytes]:
        """The words that few jobs have. Raises TypeError, ValueError."""
        words: list[bytes] = []
        if self.at is not None:
            words += (b"AT", moment_word(self.at))
        if self.priority is not None:
            words += (b"PRIORITY", number_word(self.priority, "priority"))
        if self.tries is not None:
            words += (b"TRIES", number_word(self.tries, "tries"))
        if self.backoff is not None:
            words += (b"BACKOFF", backoff_word(self.backoff))
        if self.deadletter is not None:
            words += (b"DEADLETTER", name_word(self.deadletter, "deadletter"))
        if self.retain is not None:
            words += (b"RETAIN", seconds_word(self.retain, "retain"))
        if self.headers is not None:
            words += header_words(self.headers)
        return words
