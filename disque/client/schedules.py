"""Requests about schedules: CRON. All nodes know each schedule, so any of them can be asked.

None of them is sent twice but SET, which changes nothing the second time, and what only looks.
"""

from typing import Final, NamedTuple

from disque.client import replies
from disque.client.config import Config
from disque.client.newjob import NewJob
from disque.client.requests import Request
from disque.client.values import Name, body_word, name_word, number_word

#: How long a node that adds the job of a schedule now waits for copies, in ms.
RUN_MS: Final = 10_000


class Schedule(NamedTuple):
    """A schedule: jobs that are added at certain times (CRON GET, CRON LIST).

    ``last`` and ``next`` are ticks in seconds since 1970, or None. ``node`` adds its jobs now. ``body`` and ``options``
    are known of a schedule that was asked for by its name.
    """

    name: str
    spec: str
    tz: str
    catchup: str
    paused: bool
    queue: str
    last: int | None
    next: int | None
    node: str | None = None
    body: bytes | None = None
    options: str | None = None


def set_schedule(
    config: Config, name: Name, spec: str, job: NewJob, *, tz: str | None = None, catchup: str | None = None
) -> Request[None]:
    """Add ``job`` at each time of ``spec``, by the clock of the time zone ``tz`` (CRON SET).

    A spec has five fields, "minute hour day month weekday", or is "@hourly" and its like, or "@every 30s". ``catchup``
    says what becomes of ticks that passed while no node was up: "none", "last" or "all". A job that is unique or is
    added in the background cannot be scheduled.
    """
    del config
    words = [b"CRON", b"SET", name_word(name, "name"), spec.encode(), name_word(job.queue), body_word(job.body)]
    words += [b"TZ", tz.encode()] if tz is not None else []
    words += [b"CATCHUP", catchup.encode()] if catchup is not None else []
    return Request([*words, *job.options()], replies.nothing)


def schedule(config: Config, name: Name) -> Request[Schedule | None]:
    """All about one schedule, or None (CRON GET)."""
    del config
    words = [b"CRON", b"GET", name_word(name, "name")]
    return Request(words, lambda reply: None if reply is None else read(reply))


def schedules(config: Config, cursor: int = 0) -> Request[tuple[int, list[Schedule]]]:
    """The next cursor and some schedules, without bodies and options; it is over when the cursor is 0 (CRON LIST)."""
    del config
    return Request([b"CRON", b"LIST", number_word(cursor, "cursor")], listed)


def delete_schedule(config: Config, name: Name) -> Request[bool]:
    """Delete a schedule: whether it was there (CRON DEL)."""
    return _change(config, b"DEL", name)


def pause_schedule(config: Config, name: Name) -> Request[bool]:
    """Add no jobs from now on: whether that changed something (CRON PAUSE)."""
    return _change(config, b"PAUSE", name)


def resume_schedule(config: Config, name: Name) -> Request[bool]:
    """Go on, from now: whether that changed something (CRON RESUME)."""
    return _change(config, b"RESUME", name)


def run_schedule(config: Config, name: Name) -> Request[str]:
    """Add its job now, whatever the time is: the ID. That counts as no tick (CRON RUN)."""
    del config
    return Request([b"CRON", b"RUN", name_word(name, "name")], replies.job_id, wait_ms=RUN_MS, again=False)


def next_ticks(config: Config, spec: str, count: int = 1, *, tz: str | None = None) -> Request[list[int]]:
    """When a spec is due next, in seconds since 1970 (CRON NEXT)."""
    del config
    words = [b"CRON", b"NEXT", spec.encode(), number_word(count, "count")]
    words += [b"TZ", tz.encode()] if tz is not None else []
    return Request(words, lambda reply: [replies.whole(one) for one in replies.listed(reply)])


def _change(config: Config, word: bytes, name: Name) -> Request[bool]:
    del config
    words = [b"CRON", word, name_word(name, "name")]
    return Request(words, lambda reply: bool(replies.whole(reply)), again=False)


def listed(reply: object) -> tuple[int, list[Schedule]]:
    """Cursor and schedules of CRON LIST."""
    cursor, found = replies.listed(reply)
    return int(replies.text(cursor)), [read(one) for one in replies.listed(found)]


def read(reply: object) -> Schedule:
    """The map of one schedule, in the shape of either protocol. What a newer node adds is left out."""
    found = {replies.text(name): value for name, value in replies.pairs(reply)}
    options = found.get("options")
    return Schedule(
        replies.text(found["name"]),
        replies.text(found["spec"]),
        replies.text(found["tz"]),
        replies.text(found["catchup"]),
        bool(found["paused"]),
        replies.text(found["queue"]),
        _tick(found.get("last")),
        _tick(found.get("next")),
        replies.text_or_none(found.get("node")),
        found["body"] if isinstance(found.get("body"), bytes) else None,  # type: ignore[arg-type]  # looked at here
        shown(options) if options is not None else None,
    )


def _tick(word: object) -> int | None:
    return None if word is None else replies.whole(word)


def shown(options: object) -> str:
    """Options as one text, whether they come as words or as a text."""
    return " ".join(replies.texts(options)) if isinstance(options, list) else replies.text(options)
