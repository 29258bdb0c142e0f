"""How jobs end: RESULT, WAITJOB, CANCEL.

A WAITJOB that waits long is sent again from time to time, so that a node that hangs is noticed, and to another node
when one fails. What is known of some jobs by then is kept, and only the others are asked for again. A job without
RETAIN leaves nothing behind: who asks again after its end hears that it is gone.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from disque.client import replies
from disque.client.config import Config
from disque.client.delivery import Flow, deliver
from disque.client.errors import DisqueError, UnexpectedReplyError
from disque.client.requests import OTHERS_MS, Request, others_ms
from disque.client.router import Router
from disque.client.values import Duration, Name, id_word, id_words, milliseconds

#: A WAITJOB waits at most so long at the server. Each new one is told to all nodes, so it is longer than for GETJOB.
WAIT_MOST_MS: Final = 30_000

#: How a job can end.
DONE: Final = "done"
CANCELLED: Final = "cancelled"
DEAD: Final = "dead"
EXPIRED: Final = "expired"
#: Its queue was too long: `overflow drop-oldest`.
DROPPED: Final = "dropped"
#: It died, and is a job in a queue of dead letters.
DEAD_LETTER: Final = "dead-letter"
#: It has ended, and nobody knows any more how; nobody knows it.
GONE: Final = "gone"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of a job and of what it has come to: ``result`` if it is done, or else the last ``error``."""

    id: str
    status: str
    result: bytes | None
    error: str | None

    @property
    def done(self) -> bool:
        """Whether a consumer has acknowledged it."""
        return self.status == DONE

    def json(self) -> Any:  # noqa: ANN401 - that is what JSON is
        """The result read as JSON. Raises ValueError, also where there is none."""
        return json.loads(self._given())

    def text(self) -> str:
        """The result as UTF-8. Raises ValueError, also where there is none."""
        return self._given().decode()

    def _given(self) -> bytes:
        if self.result is None:
            reason = "" if self.error is None else f": {self.error}"
            raise ValueError(f"job {self.id} has no result, it is {self.status}{reason}")
        return self.result


@dataclass(frozen=True, slots=True)
class Ended(Fate):
    """A job that was waited for (WAITJOB).

    ``status`` is "done", "cancelled", "dead" (it died, and has no queue for dead letters), "expired" (its TTL was over)
    or "dropped" (its queue was too long), and also "dead-letter", "gone" (it has ended, and nothing more is known), or
    "unknown" (to all nodes).
    """


@dataclass(frozen=True, slots=True)
class Result(Fate):
    """What has become of a job (RESULT).

    ``status`` is how it ended: "done", "cancelled", "dead", "expired" or "dropped". For a job that has not ended it
    is "delayed", "queued", "in-flight" or "dead-letter". ``tries`` have ended. ``ended_ms_ago`` is None if it has not
    ended.
    ``progress`` is what its consumer said last.
    """

    queue: str
    tries: int
    ended_ms_ago: int | None
    progress: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.ended_ms_ago is not None


def readable(word: object) -> str | None:
    """What consumers said, or None; it may be cut in the middle of a character."""
    if word is None or isinstance(word, str):
        return word
    if isinstance(word, bytes):
        return word.decode("utf-8", "replace")
    raise UnexpectedReplyError(f"a text was expected, not {replies.shown(word)}")


def body_or_none(word: object) -> bytes | None:
    """A result as bytes, or None."""
    if word is None or isinstance(word, bytes):
        return word
    raise UnexpectedReplyError(f"a result was expected, not {replies.shown(word)}")


def read_result(reply: object) -> Result | None:
    """The map of RESULT, in the shape of either protocol. What a newer node adds is left out."""
    if reply is None:
        return None
    found = {replies.text(name): value for name, value in replies.pairs(reply)}
    ended = found["ended-ms-ago"]
    return Result(
        replies.text(found["id"]),
        replies.text(found["status"]),
        body_or_none(found["result"]),
        readable(found["error"]),
        replies.text(found["queue"]),
        replies.whole(found["tries"]),
        None if ended is None else replies.whole(ended),
        readable(found.get("progress")),
    )


def read_ended(job_id: bytes, reply: object) -> Ended | None:
    """What WAITJOB says of one job: nothing yet, or status and text."""
    if reply is None:
        return None
    status, word = replies.listed(reply)
    name, one = replies.text(status), replies.text(job_id)
    if name == DONE:
        return Ended(one, name, body_or_none(word), None)
    return Ended(one, name, None, readable(word))


def result(config: Config, job_id: Name) -> Request[Result | None]:
    """What has become of a job, whichever nodes know it; None if none does (RESULT).

    A job that has ended is known as long as its RETAIN says.
    """
    del config
    return Request([b"RESULT", id_word(job_id)], read_result, wait_ms=OTHERS_MS)


def cancel(config: Config, *ids: Name, waiting: bool = False) -> Request[int]:
    """End jobs at all nodes, whatever their state; with ``waiting`` not those that consumers have (CANCEL).

    How many this ended; when it had to be sent again, those that it had ended before are not among them. A consumer
    that has such a job hears of it when it says WORKING: `JobCancelledError`.
    """
    del config
    words = [b"CANCEL", *id_words(ids), *[b"WAITING"] * waiting]
    return Request(words, replies.whole, wait_ms=others_ms(len(ids)))


def wait_once(words: Sequence[bytes], wait_ms: int, *, any_one: bool) -> Request[list[Ended | None]]:
    """Wait for jobs for so long, without ids that are there twice: for each how it ended, or None (WAITJOB)."""

    def read(reply: object) -> list[Ended | None]:
        return [read_ended(word, one) for word, one in zip(words, replies.listed(reply), strict=True)]

    return Request([b"WAITJOB", b"%d" % wait_ms, *words, *[b"ANY"] * any_one], read, wait_ms=wait_ms)


def wait_flow(
    router: Router, config: Config, ids: Sequence[Name], timeout: Duration | None, *, any_one: bool
) -> Flow[list[Ended | None]]:
    """Wait until all of these jobs have ended, or with ``any_one`` the first: see `Disque.wait`."""
    words = id_words(ids)
    left_ms = WAIT_MOST_MS if timeout is None else milliseconds(timeout, "timeout")
    if left_ms < 0:
        raise ValueError("timeout must not be negative")
    until_s = router.clock() + left_ms / 1000
    known: dict[bytes, Ended] = {}
    while pending := [word for word in dict.fromkeys(words) if word not in known]:
        wait_ms = max(1, min(left_ms, WAIT_MOST_MS))
        request = wait_once(pending, wait_ms, any_one=any_one)
        try:
            [reply] = yield from deliver(router, config, request.parcel())
            found = request.value(reply)
        except DisqueError as error:
            error.results = [known.get(word) for word in words]
            raise
        known.update({word: one for word, one in zip(pending, found, strict=True) if one is not None})
        if timeout is not None:
            left_ms = min(round((until_s - router.clock()) * 1000), left_ms - wait_ms)
        if (any_one and known) or left_ms <= 0:
            break
    return [known.get(word) for word in words]
