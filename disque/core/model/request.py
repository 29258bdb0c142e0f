"""What one ADDJOB asks for."""

from typing import Final

from mypy_extensions import mypyc_attr

from disque.core.model.spec import Row, Rows, Value

DEFAULT_TTL: Final = 86400
#: Ending of the ID, TTL, RETRY.
Kind = tuple[bytes, int, int]


@mypyc_attr(acyclic=True)
class Request:
    """The words of one ADDJOB as values.

    ``retry`` is -1 until it follows from the TTL, ``delay_ms`` until it is known that nobody said it. ``at_ms`` is when
    the job is to be queued by the wall clock; -1: nobody said that. Other times are seconds. ``kind`` is None where TTL
    and RETRY are not known beforehand. ``rows`` are options of the job's spec beside TTL, RETRY and REPLICATE.
    ``headers`` go with the job alone. ``keepers`` is on how many nodes a UNIQUE key lies at least.
    """

    __slots__ = (
        "asynchronous",
        "at_ms",
        "body",
        "delay_ms",
        "headers",
        "keepers",
        "key",
        "kind",
        "maxlen",
        "queue",
        "replicate",
        "retry",
        "rows",
        "timeout_ms",
        "ttl",
        "window",
    )

    def __init__(self, queue: bytes, body: bytes, replicate: int) -> None:
        self.queue = queue
        self.body = body
        self.replicate = replicate
        self.timeout_ms = 0
        self.ttl = DEFAULT_TTL
        self.retry = -1
        self.delay_ms = -1
        self.at_ms = -1
        self.maxlen = 0
        self.asynchronous = False
        self.key: bytes | None = None
        self.window = 0
        self.kind: Kind | None = None
        self.rows: Rows | None = None
        #: Names and values in turn.
        self.headers: tuple[bytes, ...] = ()
        self.keepers = 0

    def key_copies(self) -> int:
        """On how many nodes the UNIQUE key is to lie."""
        return max(self.replicate, self.keepers)

    def say(self, row: Row, value: Value) -> None:
        """Take an option of the job's spec that is none of TTL, RETRY and REPLICATE."""
        self.say_number(row.number, value)

    def say_number(self, number: int, value: Value) -> None:
        """The same by the number of the row."""
        if self.rows is None:
            self.rows = {}
        self.rows[number] = value
