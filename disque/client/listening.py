"""Listening to channels, and to what happens to jobs, blocking: a thread for each node reads what it says.

A connection that listens is one of RESP2: all that comes over it is an array. When it breaks, the thread makes another
one, to the same node or, where one node is enough, to the next. What was said meanwhile is missed: `lost` counts how
often that may be. Whoever is slow is not read from, and in the end the node cuts it off, which is the same.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from redis.connection import Connection, SSLConnection

from disque.client.bell import Bell
from disque.client.config import Address, Config
from disque.client.errors import DisqueError, UnavailableError, typed
from disque.client.packing import pack
from disque.client.pool import TROUBLE_AT_FIRST, connection_options, half_close
from disque.client.values import Duration, Name, milliseconds, name_word

if TYPE_CHECKING:
    from disque.client.client import Disque

#: What can happen to a job.
EVENTS: Final = (
    *("added", "ready", "delivered", "acked", "nacked", "retried", "dead", "expired", "cancelled", "dropped", "moved"),
)
#: Messages that are kept for a consumer that is busy, and their bytes, before its nodes are not read from any more.
KEPT_MOST: Final = 10_000
KEPT_BYTES: Final = 16 << 20
#: A node that says nothing for so long is asked whether it is there.
QUIET_S: Final = 15.0
#: So often those who listen at all nodes look whether there are others now.
LOOK_S: Final = 30.0
PING: Final = pack([b"PING"])
#: Errors that pass: another attempt makes sense.
PASSING: Final = frozenset({"LOADING", "LEAVING", "MISCONF", "DENIED", "OOM"})


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody has published. ``pattern`` is the one that the channel fits, if a pattern was asked for."""

    channel: str
    data: bytes
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What has happened to a job: ``event`` is one of `EVENTS`, ``queue`` where the job was, ``id`` its ID."""

    event: str
    queue: str
    id: str
    channel: str


T = TypeVar("T")


def subscriptions(channels: Iterable[Name], patterns: Iterable[Name]) -> list[list[bytes]]:
    """The requests of who listens to these. Raises ValueError if there are none."""
    exact = [name_word(name, "channel") for name in channels]
    alike = [name_word(name, "pattern") for name in patterns]
    if not exact and not alike:
        raise ValueError("no channel and no pattern is given")
    return [[verb, *words] for verb, words in ((b"SUBSCRIBE", exact), (b"PSUBSCRIBE", alike)) if words]


def event_patterns(events: Iterable[str], queue: Name) -> list[bytes]:
    """The patterns of some events, or of all, of queues whose names look like ``queue``. Raises ValueError."""
    wanted = list(dict.fromkeys(events))
    for one in wanted:
        if one not in EVENTS:
            raise ValueError(f"there is no event {one!r}: {', '.join(EVENTS)}")
    return [b"job:%b:%b" % (one.encode(), name_word(queue)) for one in wanted or ["*"]]


def read_message(words: object) -> Message | None:
    """A message out of what a node sends; None for anything else, such as the confirmation of SUBSCRIBE."""
    if not isinstance(words, list) or len(words) < 3 or words[0] not in {b"message", b"pmessage"}:
        return None
    if words[0] == b"pmessage" and len(words) == 4:
        return Message(shown(words[2]), words[3], shown(words[1]))
    return Message(shown(words[1]), words[2])


def read_event(words: object) -> Event | None:
    """An event out of what a node sends; None for anything else."""
    message = read_message(words)
    if message is None:
        return None
    parts = message.channel.split(":", 2)
    if len(parts) != 3 or parts[0] != "job":
        return None
    return Event(parts[1], parts[2], shown(message.data), message.channel)


def size_of(value: object) -> int:
    """Bytes for which something counts that waits for a consumer: events are short."""
    return len(value.data) if isinstance(value, Message) else 0


def shown(word: bytes) -> str:
    """A name as text; bytes that are no UTF-8 are kept as `os.fsdecode` does."""
    return word.decode("utf-8", "surrogateescape")


def refusal(failure: Exception) -> DisqueError | None:
    """The error of a node that says that it makes no sense to try again; None for any other trouble."""
    wrong = typed(failure)
    return None if wrong is None or wrong.code in PASSING else wrong


def wait_s(config: Config, tries: int, random: Random) -> float:
    """How long to wait after so many attempts in vain."""
    most_ms = min(config.backoff_ms << min(tries - 1, 16), config.backoff_max_ms)
    return most_ms / 1000 * (0.5 + random.random() / 2)


class Ear(Generic[T]):
    """Reads what one node says, in a thread of its own. ``choose`` names the node before each connection."""

    def __init__(self, heard: "Listening[T]", choose: Callable[[], Address | None]) -> None:
        self._heard = heard
        self._choose = choose
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._end = Bell()
        self._listened = False
        self._tries = 0
        #: The node has confirmed it.
        self.listens = threading.Event()
        self.thread = threading.Thread(target=self._run, name="disque-listen", daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Listen no more."""
        self._ended = True
        self._end.ring()
        with self._lock:
            if self._connection is not None:
                half_close(self._connection)

    def _run(self) -> None:
        heard = self._heard
        failures: list[tuple[str, Exception]] = []
        while not self.has_ended() and (address := self._choose()) is not None:
            try:
                self._listen(address)
                failure: Exception = ConnectionError("the node has closed the connection")
            except TROUBLE_AT_FIRST as error:
                failure = error
            if self.has_ended():
                return
            wrong = refusal(failure)
            if wrong is not None:
                heard.fail(wrong)
                return
            heard.failed(address, was_heard=self._listened)
            self._tries = 1 if self._listened else self._tries + 1
            self._listened = False
            failures.append((f"{address[0]}:{address[1]}", typed(failure) or failure))
            if heard.is_enough(self._tries):
                heard.fail(UnavailableError.of("no node lets us listen", failures[-20:]))
                return
            self._end.wait(wait_s(heard.config, self._tries, heard.random))

    def _listen(self, address: Address) -> None:
        config = self._heard.config
        kind = SSLConnection if config.tls else Connection
        options = connection_options(config, address) | {"protocol": 2}
        connection = kind(socket_timeout=config.timeout_ms / 1000, **options)
        try:
            connection.connect()
            with self._lock:
                self._connection = connection
                if self.has_ended():
                    return
            for words in self._heard.requests:
                connection.send_packed_command([pack(words)])
            for words in self._heard.requests:
                for _ in words[1:]:
                    self._take(connection.read_response(disconnect_on_error=False))
            self._listened = True
            self.listens.set()
            self._heard.worked(address)
            while not self.has_ended():
                self._take(self._next(connection))
        finally:
            with self._lock:
                self._connection = None
            self.listens.clear()
            connection.disconnect()

    def _next(self, connection: Connection) -> object:
        """What comes next; a node that is silent is asked whether it is there."""
        if not connection.can_read(timeout=QUIET_S):
            connection.send_packed_command([PING])
        return connection.read_response(disconnect_on_error=False)

    def _take(self, words: object) -> None:
        value = self._heard.read(words)
        if value is not None:
            self._heard.put(value, self)

    def has_ended(self) -> bool:
        """Whether nobody wants to hear anything any more."""
        return self._ended


class Listening(Generic[T]):
    """An iteration over what is said, as it comes: see `Disque.listen` and `Disque.events`.

    It ends when nothing came for ``timeout`` (None: never), or when it is closed, by `close`, from another thread too,
    or as a context manager. ``lost`` is how often a connection was lost: something may have been missed each time.
    Raises UnavailableError when no node could be used, another DisqueError when it is refused. One thread may use it.
    """

    def __init__(
        self,
        client: "Disque",
        requests: list[list[bytes]],
        read: Callable[[object], T | None],
        *,
        timeout: Duration | None = None,
        everywhere: bool = False,
    ) -> None:
        self.config: Config = client.config
        self.requests = requests
        self.read = read
        self.lost = 0
        self._client = client
        self._timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        self._everywhere = everywhere
        self.random = SystemRandom()
        self._came: queue.SimpleQueue[T | Exception | None] = queue.SimpleQueue()
        self._room = Bell()
        self._count = threading.Lock()
        self._bytes = 0
        self._ended = False
        self._tried: set[Address] = set()
        self._ears: dict[Address | None, Ear[T]] = {}
        self._looked_s = 0.0
        if everywhere:
            self._look()
        else:
            self._ears[None] = Ear(self, self._choose)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        until_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not self._ended:
            left_s = LOOK_S if until_s is None else until_s - time.monotonic()
            if left_s <= 0 and self._came.empty():
                break
            try:
                value = self._came.get(timeout=max(0.0, min(left_s, LOOK_S)))
            except queue.Empty:
                self._look_again()
                continue
            self._counts(-size_of(value))
            self._room.ring()
            if isinstance(value, Exception):
                self.close()
                raise value
            if value is not None:
                self._look_again()
                return value
        self.close()
        raise StopIteration

    def ready(self, timeout: Duration) -> bool:
        """Wait until all nodes that are there have confirmed that they are listened to; whether they have."""
        until_s = time.monotonic() + milliseconds(timeout, "timeout") / 1000
        ears = list(self._ears.values())
        return all(ear.listens.wait(max(0.0, until_s - time.monotonic())) for ear in ears)

    def close(self) -> None:
        """Listen no more."""
        self._ended = True
        for ear in self._ears.values():
            ear.end()
        self._came.put(None)  # whoever waits
        self._room.ring()
        for ear in self._ears.values():
            if ear.thread is not threading.current_thread():
                ear.thread.join(self.config.connect_timeout_ms / 1000)

    # -- what threads call -----------------------------------------------------------------------------------------

    def put(self, value: T, ear: Ear[T]) -> None:
        """Keep this for the consumer; waits while it has much to do."""
        while not ear.has_ended():
            if self._came.qsize() < KEPT_MOST and self._bytes < KEPT_BYTES:
                self._counts(size_of(value))
                self._came.put(value)
                return
            self._room.wait(1.0)

    def _counts(self, size: int) -> None:
        if size:
            with self._count:
                self._bytes += size

    def fail(self, error: Exception) -> None:
        """It makes no sense to go on."""
        self._came.put(error)

    def failed(self, address: Address, *, was_heard: bool) -> None:
        """A connection to this node was lost, or could not be made."""
        self.lost += was_heard
        self._tried.add(address)
        self._client.router.failed(address)

    def worked(self, address: Address) -> None:
        """This node lets us listen."""
        self._tried.clear()
        self._client.router.worked(address)

    def is_enough(self, tries: int) -> bool:
        """Whether so many attempts in vain are enough. A node among others is tried as long as it is one of them."""
        return not self._everywhere and tries >= max(self.config.attempts, self._client.router.count())

    def _choose(self) -> Address | None:
        """A node that was not tried in vain, or any."""
        chosen = self._client.router.choose(self._tried)
        if chosen is None:
            self._tried.clear()
            chosen = self._client.router.choose(())
        return chosen

    # -- all nodes -------------------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        if self._everywhere and time.monotonic() - self._looked_s >= LOOK_S:
            with suppress(UnavailableError):
                self._look()

    def _look(self) -> None:
        """Listen at all nodes that there are now, and no more at those that there are not."""
        self._looked_s = time.monotonic()
        self._client.look()
        there = self._client.router.addresses()
        for address in there:
            if address not in self._ears or not self._ears[address].thread.is_alive():
                self._ears[address] = Ear(self, self._of(address))
        for address in [one for one in self._ears if one is not None and one not in there]:
            self._ears.pop(address).end()

    def _of(self, address: Address) -> Callable[[], Address | None]:
        return lambda: address if address in self._client.router.addresses() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Listening {b' '.join(b' '.join(words) for words in self.requests)!r}>"
