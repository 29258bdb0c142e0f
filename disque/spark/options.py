"""The options of the data source: one table, from which checking, defaults and docs/spark.md follow.

Spark passes options as text, with names in lower case. Each is a field of `Options`, named as in docs/spark.md but in
snake case. Its row says what it takes and where it may be used. An option that is unknown, or not for the current use,
is an error that names the nearest one. Otherwise a mistake in an option would be noticed only in production.
"""

import dataclasses
import difflib
import itertools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from disque.spark.doors import PlainError

#: What can be done with the source, as error messages call it.
ADD: Final = "adding jobs"
ANSWER: Final = "answering jobs (action)"
STREAM: Final = "reading a stream"
DRAIN: Final = "reading a batch"
WRITE: Final = (ADD, ANSWER)
READ: Final = (STREAM, DRAIN)
ALL: Final = (*WRITE, *READ)

#: Where an option may also come from: the environment of whichever process connects, so that no plan shows it.
ENVIRONMENT: Final = {"hosts": "DISQUE_HOSTS", "user": "DISQUE_USER", "password": "DISQUE_PASSWORD"}

#: Options of Spark's own that it leaves among those of a source.
OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})

#: Spark asks for the columns of a table with these among its options. It will read and write the table without any.
OF_TABLES: Final = frozenset({"owner", "provider"})
NO_TABLES: Final = "Spark does not give the options of a table to a source in Python: use CREATE TEMPORARY VIEW"

SECONDS_MAX: Final = 4_294_967_295
WINDOW_MAX_S: Final = 604_800
KEY_MAX_BYTES: Final = 512
MILLISECONDS_MAX: Final = 86_400_000

DEFAULT_PORT: Final = 7711
HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|(?:[A-Za-z0-9_.-]|[^\s\x00-\x7f])+)(?::(?P<port>[0-9]{1,5}))?")

#: What a node takes as BACKOFF.
BACKOFF: Final = re.compile(r"(?:fixed|linear|exponential)(?::[0-9]+(?:\.[0-9]+)?){1,3}", re.IGNORECASE)

ON: Final = "on"
OFF: Final = "off"
ADD_ACTION: Final = "add"
ACK: Final = "ack"
NACK: Final = "nack"
REVIVE: Final = "revive"
CANCEL: Final = "cancel"
#: What can be done with jobs whose IDs are written.
ANSWERS: Final = (ACK, NACK, REVIVE, CANCEL)
#: The end of a job is kept for a year at most.
RETAIN_MAX_S: Final = 31_536_000
COMMIT: Final = "commit"
MANUAL: Final = "manual"
ON_READ: Final = "read"
FAIL: Final = "fail"
SKIP: Final = "skip"
TO_QUEUE: Final = "queue"
ACK_MODES: Final = {STREAM: (COMMIT, MANUAL), DRAIN: (MANUAL, ON_READ)}

T = TypeVar("T")
Parse = Callable[[str], Any]


class OptionError(PlainError, ValueError):
    """An option that cannot be used: its name, its value, or beside the others."""


def whole(least: int, most: int) -> Parse:
    """What takes a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text.strip())
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise OptionError(f"must be a whole number from {least} to {most}, not {text!r}")
        return number

    return parse


def text(value: str) -> str:
    """What takes anything but nothing."""
    if not value:
        raise OptionError("must not be empty")
    return value


def name(value: str) -> str:
    """What takes the name of a queue, or nothing."""
    return value


def backoff(value: str) -> str:
    """What takes the way in which failures hold a job back."""
    word = value.strip()
    if not BACKOFF.fullmatch(word):
        raise OptionError(f"must be kind:base[:max[:jitter]], such as exponential:2:60, not {value!r}")
    return word


def flag(value: str) -> bool:
    """What takes yes or no, in the words that are common for it."""
    word: str = choice("true", "false")(WORDS_OF_FLAGS.get(value.strip().lower(), value))
    return word == "true"


WORDS_OF_FLAGS: Final = {"on": "true", "yes": "true", "1": "true", "off": "false", "no": "false", "0": "false"}


def switch(value: str) -> str:
    """What takes on or off."""
    return ON if flag(value) else OFF


def choice(*words: str) -> Parse:
    """What takes one of these words, in any case."""

    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise OptionError(f"must be {' or '.join(words)}, not {value!r}")
        return word

    return parse


def option(parse: Parse, default: Any, uses: tuple[str, ...], *, name: str = "") -> Any:  # noqa: ANN401 - field() is so
    """One row of the table: a field that text is parsed for."""
    return dataclasses.field(default=default, metadata={"parse": parse, "uses": uses, "name": name})


@dataclasses.dataclass(frozen=True)
class Options:
    """All options of one write or read, checked. None: the server's default. Can be pickled."""

    hosts: str = option(text, "", ALL)
    user: str | None = option(text, None, ALL)
    password: str | None = dataclasses.field(
        default=None, repr=False, metadata={"parse": text, "uses": ALL, "name": ""}
    )
    tls: bool = option(flag, False, ALL)
    ca: str | None = option(text, None, ALL)
    cert: str | None = option(text, None, ALL)
    key: str | None = option(text, None, ALL)
    timeout_ms: int = option(whole(1, MILLISECONDS_MAX), 5000, ALL)
    backoff_ms: int = option(whole(0, MILLISECONDS_MAX), 10_000, ALL)
    queue: str | None = option(text, None, (ADD, STREAM, DRAIN))
    queues: str | None = option(text, None, READ)
    pipeline_size: int = option(whole(1, 1_000_000), 1000, ALL)

    action: str = option(choice(ADD_ACTION, *ANSWERS), ADD_ACTION, WRITE)
    delay: int | None = option(whole(0, SECONDS_MAX), None, WRITE)
    ttl: int | None = option(whole(1, SECONDS_MAX), None, (ADD,))
    retry: int | None = option(whole(0, SECONDS_MAX), None, (ADD,))
    replicate: int | None = option(whole(1, 65_535), None, (ADD,))
    maxlen: int | None = option(whole(1, 2**63 - 1), None, (ADD,))
    tries: int | None = option(whole(0, 65_535), None, (ADD,))
    backoff: str | None = option(backoff, None, (ADD,))
    deadletter: str | None = option(name, None, (ADD,))
    priority: int | None = option(whole(0, 255), None, (ADD,))
    retain: int | None = option(whole(0, RETAIN_MAX_S), None, (ADD,))
    background: bool = option(flag, False, (ADD,), name="async")
    dedup: str = option(switch, ON, (ADD,))
    dedup_window: int = option(whole(0, WINDOW_MAX_S), 600, (ADD,))
    run_id: str | None = option(text, None, (ADD,))
    bad_rows: str = option(choice(FAIL, SKIP, TO_QUEUE), FAIL, (ADD,))
    bad_rows_queue: str | None = option(text, None, (ADD,))

    partitions: int = option(whole(1, 100_000), 4, READ)
    max_jobs_per_trigger: int = option(whole(1, 10_000_000), 1000, (STREAM,))
    max_bytes_per_trigger: int = option(whole(1, 2**50), 0, (STREAM,))
    poison_tries: int = option(whole(1, 1000), 0, (STREAM,))
    max_jobs: int = option(whole(1, 10_000_000), 0, (DRAIN,))
    poll_timeout_ms: int = option(whole(0, MILLISECONDS_MAX), 500, READ)
    fetch_size: int = option(whole(1, 10_000), 1000, READ)
    ack_mode: str = option(choice(COMMIT, MANUAL, ON_READ), "", READ)

    @property
    def sources(self) -> tuple[str, ...]:
        """The queues that are read, in order."""
        names = (self.queues or "").split(",") if self.queue is None else [self.queue]
        return tuple(sorted({name.strip() if self.queue is None else name for name in names} - {""}))

    @property
    def deduplicates(self) -> bool:
        """Whether jobs get keys."""
        return self.dedup == ON


def camel(field: str) -> str:
    """The name of a field as users write it."""
    first, *others = field.split("_")
    return first + "".join(word.capitalize() for word in others)


FIELDS: Final = {(one.metadata["name"] or camel(one.name)): one for one in dataclasses.fields(Options)}
LOWER: Final = {name.lower(): name for name in FIELDS}


def parse_options(given: Mapping[str, str], use: str) -> Options:
    """Check options for one use (ADD, ANSWER, STREAM, DRAIN). Raises OptionError that says what to write instead.

    Where none arrives, the user may have given them to a table.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name.lower() not in OF_SPARK:
            known = known_name(name, use)
            values[FIELDS[known].name] = parse_value(known, value)
    try:
        return check_together(Options(**values), use)
    except OptionError as error:
        if values:
            raise
        raise OptionError(f"{error}. {NO_TABLES}") from None


def check_given(given: Mapping[str, str]) -> None:
    """Check options of which nobody knows yet what they are for. Raises OptionError unless they are for something.

    Spark asks a source for its columns before it says whether it will read or write.
    """
    names = [lower for lower in map(str.lower, given) if lower not in OF_SPARK]
    if {*names} >= OF_TABLES:
        raise OptionError(f"CREATE TABLE cannot be used. {NO_TABLES}")
    for name in names:
        if name not in LOWER:
            raise OptionError(f"unknown option {name!r}{suggestion(name, ALL)}")
    uses = [use for use in ALL if all(use in FIELDS[LOWER[name]].metadata["uses"] for name in names)]
    if use_of_writer(given) == ANSWER and ANSWER in uses:
        uses = [ANSWER]
    if not uses:
        check_pairs(names)
    wrong: list[OptionError] = []
    for use in uses or ALL:
        try:
            parse_options(given, use)
        except OptionError as error:
            wrong.append(error)
        else:
            return
    raise wrong[0]


def check_pairs(names: list[str]) -> None:
    """Raise OptionError if two of these options, in small letters, are never for the same."""
    for one, other in itertools.combinations([LOWER[name] for name in names], 2):
        uses, others = FIELDS[one].metadata["uses"], FIELDS[other].metadata["uses"]
        if not {*uses} & {*others}:
            raise OptionError(
                f"option {one!r} is for {' and '.join(uses)}, {other!r} for {' and '.join(others)}: drop one"
            )


def use_of_writer(given: Mapping[str, str]) -> str:
    """Whether a write adds jobs or answers some; a wrong `action` is complained about as one that adds."""
    actions = [value.strip().lower() for name, value in given.items() if name.lower() == "action"]
    return ANSWER if actions and actions[-1] in ANSWERS else ADD


def known_name(name: str, use: str) -> str:
    """The name of the table for what a user wrote."""
    known = LOWER.get(name.lower())
    if known is None:
        raise OptionError(f"unknown option {name!r}{suggestion(name, (use,))}")
    uses = FIELDS[known].metadata["uses"]
    if use not in uses:
        raise OptionError(f"option {known!r} is for {' and '.join(uses)}, not for {use}")
    return known


def suggestion(name: str, uses: tuple[str, ...]) -> str:
    """What was meant, as the end of an error message; all that there is if nothing is near."""
    if name.lower() == "path":
        return ": name the queue with the option 'queue', or in a column"
    valid = {lower: proper for lower, proper in LOWER.items() if {*uses} & {*FIELDS[proper].metadata["uses"]}}
    near = difflib.get_close_matches(name.lower(), valid, n=1, cutoff=0.5)
    if near:
        return f": did you mean {valid[near[0]]!r}?"
    what = f"those for {uses[0]}" if len(uses) == 1 else "options"
    return f": {what} are {', '.join(sorted(valid.values()))}"


def parse_value(name: str, value: str) -> object:
    """The value of an option. Raises OptionError with its name; a password is never shown."""
    try:
        return FIELDS[name].metadata["parse"](value)
    except OptionError as error:
        raise OptionError(f"option {name!r} {error}") from None


def check_together(options: Options, use: str) -> Options:
    """What options mean for each other."""
    check_place(options)
    if use == DRAIN and not options.max_jobs:
        text = "option 'maxJobs' is required for reading a batch: how many jobs to take at most"
        raise OptionError(f"{text} (a view without it is for INSERT)")
    if use in READ:
        check_sources(options, use)
    if use == ADD:
        check_adding(options)
    if use == ANSWER and options.action != NACK and options.delay is not None:
        raise OptionError(f"option 'delay' is for action=nack and for adding jobs, not for action={options.action}")
    if use in READ:
        modes = ACK_MODES[use]
        if options.ack_mode and options.ack_mode not in modes:
            raise OptionError(f"option 'ackMode' must be {' or '.join(modes)} for {use}, not {options.ack_mode!r}")
        return dataclasses.replace(options, ack_mode=options.ack_mode or modes[0])
    return options


def check_sources(options: Options, use: str) -> None:
    """What is read."""
    if options.queue is not None and options.queues is not None:
        raise OptionError("options 'queue' and 'queues' are both given: drop one")
    if not options.sources:
        raise OptionError(f"option 'queue' is required for {use} (or 'queues', several names with commas)")


def check_adding(options: Options) -> None:
    """What options of jobs that are added mean for each other."""
    if options.background and options.deduplicates:
        raise OptionError("option 'async' needs dedup=off: a job that is unique waits for the nodes that keep its key")
    if options.ttl is not None:  # otherwise it is that of the queue, which the nodes know
        if options.retry is not None and options.retry >= options.ttl:
            text = f"option 'retry' ({options.retry}) must be below 'ttl' ({options.ttl})"
            raise OptionError(f"{text}: such a job would be gone before it comes again")
        if options.delay is not None and options.delay >= options.ttl:
            raise OptionError(f"option 'delay' ({options.delay}) must be below 'ttl' ({options.ttl})")
    of_tries = [name for name in ("tries", "backoff", "deadletter") if getattr(options, name) is not None]
    if options.retry == 0 and of_tries:
        raise OptionError(f"option {of_tries[0]!r} needs a 'retry' above 0: with 0 a job is delivered once")
    if options.bad_rows == TO_QUEUE and options.bad_rows_queue is None:
        raise OptionError("option 'badRowsQueue' is required for badRows=queue: where to put notes of rows left out")
    if options.bad_rows_queue is not None and options.bad_rows != TO_QUEUE:
        raise OptionError("option 'badRowsQueue' needs badRows=queue")


def check_place(options: Options) -> None:
    """What says where the nodes are, and how to talk to them."""
    addresses(from_environment(options).hosts)
    given = [name for name in ("ca", "cert", "key") if getattr(options, name)]
    if given and not options.tls:
        raise OptionError(f"option {given[0]!r} needs tls=true")
    if options.key and not options.cert:
        raise OptionError("option 'key' needs 'cert': the certificate that it belongs to")


def from_environment(options: Options) -> Options:
    """Fill in what the environment of this process gives, for what was not given. Raises OptionError without hosts."""
    found = {field: os.environ.get(variable) for field, variable in ENVIRONMENT.items() if not getattr(options, field)}
    given: dict[str, Any] = {field: value for field, value in found.items() if value}
    filled = dataclasses.replace(options, **given)
    if not filled.hosts:
        raise OptionError("option 'hosts' is required, for example \"node-1:7711,node-2:7711\" (or DISQUE_HOSTS)")
    return filled


def addresses(hosts: str) -> tuple[tuple[str, int], ...]:
    """Hosts as (name, port): "a:7711,b,[::1]:7712"; the port is 7711 unless given. Raises OptionError."""
    found = tuple(address(host.strip()) for host in hosts.split(",") if host.strip())
    if not found:
        raise OptionError(f"option 'hosts' must name a node, such as node-1:7711, not {hosts!r}")
    return found


def address(host: str) -> tuple[str, int]:
    """One of the hosts."""
    found = HOST.fullmatch(host)
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise OptionError(f"option 'hosts' must be names with ports, such as node-1:7711,node-2:7711, not {host!r}")
    return found["name"].strip("[]"), port
