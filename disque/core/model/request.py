"""What one ADDJOB asks for."""

from typing import Final

from mypy_extensions import mypyc_attr

DEFAULT_TTL: Final = 86400
#: Ending of the ID, TTL, RETRY.
Kind = tuple[bytes, int, int]


@mypyc_attr(acyclic=True)
class Request:
    """The words of one ADDJOB as values.

    ``retry`` is -1 until it follows from the TTL; times are seconds but for ``timeout_ms``. ``kind`` is None where TTL
    and RETRY are not known beforehand.
    """

    __slots__ = (
        "asynchronous",
        "body",
        "delay",
        "key",
        "kind",
        "maxlen",
        "queue",
        "replicate",
        "retry",
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
        self.delay = 0
        self.maxlen = 0
        self.asynchronous = False
        self.key: bytes | None = None
        self.window = 0
        self.kind: Kind | None = None
