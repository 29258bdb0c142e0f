"""Typed errors: one class for each code that an error reply of a node can begin with.

All are `redis.exceptions.ResponseError`. If redis-py has a class for the code, they are of that class, too, so code for
redis-py keeps working. If no node can be asked, the error is `UnavailableError`.
"""

from collections.abc import Sequence
from typing import Final, Self, TypeGuard

from redis import exceptions


class DisqueError(exceptions.ResponseError):
    """An error reply. ``code`` is its first word, ``message`` what follows; it is a class of its own for each code.

    ``results`` is set where a batch was answered in part: what came of each job, in the order given.
    """

    code: str = "ERR"

    def __init__(self, message: str = "", *, status_code: str | None = None) -> None:
        super().__init__(message, status_code=status_code)
        self.results: Sequence[object] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def message(self) -> str:
        """The text without its code."""
        return str(self).removeprefix(f"{self.code} ")


class CommandError(DisqueError):
    """ERR: syntax, a number out of range, an unknown command."""


class TooLongError(CommandError):
    """The request is too long for the nodes that were asked. Nothing of it was done."""


class UnknownCodeError(DisqueError):
    """A code that this version of the client does not know; ``code`` has it."""


class BadIdError(DisqueError):
    """BADID: not the ID of a job; nothing of the command was done."""

    code = "BADID"


class NoJobError(DisqueError):
    """NOJOB: the nodes that were asked do not know the job."""

    code = "NOJOB"


class TooLateError(DisqueError):
    """TOOLATE: half of the job's TTL is over, so WORKING is refused."""

    code = "TOOLATE"


class JobCancelledError(DisqueError):
    """CANCELLED: somebody has cancelled the job, so nobody wants it any more."""

    code = "CANCELLED"


class NoReplError(DisqueError):
    """NOREPL: not enough nodes for the copies, or not in time. The job may still be delivered after a timeout."""

    code = "NOREPL"


class OomError(DisqueError, exceptions.OutOfMemoryError):
    """OOM: the memory of the node is full."""

    code = "OOM"


class MaxlenError(DisqueError):
    """MAXLEN: the queue is as long as MAXLEN allows."""

    code = "MAXLEN"


class PausedError(DisqueError):
    """PAUSED: the queue takes no jobs in."""

    code = "PAUSED"


class LeavingError(DisqueError):
    """LEAVING: the node is leaving the cluster and has nothing to give."""

    code = "LEAVING"


class LoadingError(DisqueError, exceptions.BusyLoadingError):
    """LOADING: the node is reading its journal."""

    code = "LOADING"


class MisconfError(DisqueError):
    """MISCONF: the node cannot write its journal."""

    code = "MISCONF"


class NoAuthError(DisqueError, exceptions.AuthenticationError):
    """NOAUTH: the node wants a password, and none was given."""

    code = "NOAUTH"


class WrongPassError(DisqueError, exceptions.AuthenticationError):
    """WRONGPASS: wrong user or password."""

    code = "WRONGPASS"


class NoPermError(DisqueError, exceptions.NoPermissionError):
    """NOPERM: the user may not run this command, or not on this queue or channel."""

    code = "NOPERM"

    @property
    def is_of_command(self) -> bool:
        """Whether the user may not run the command at all, whatever it is about."""
        return "permissions to run the" in str(self)


class DeniedError(DisqueError):
    """DENIED: protected mode, a node without a password that was asked from another machine."""

    code = "DENIED"


class NoProtoError(DisqueError):
    """NOPROTO: the node does not speak the protocol that was asked for."""

    code = "NOPROTO"


class NoCronError(DisqueError):
    """NOCRON: there is no schedule of this name."""

    code = "NOCRON"


class UnavailableError(DisqueError, exceptions.ConnectionError):
    """No node could do it; the message lists each that was tried, and why. ``failures`` has the same as pairs.

    ``maybe_done``: it was sent to a node that did not answer, and may have done it.
    """

    code = "UNAVAILABLE"

    def __init__(self, message: str = "", *, status_code: str | None = None) -> None:
        super().__init__(message, status_code=status_code)
        self.failures: list[tuple[str, Exception]] = []
        self.maybe_done = False

    @classmethod
    def of(cls, what: str, failures: Sequence[tuple[str, Exception]]) -> Self:
        """Make one out of (address, cause), the last cause of each address."""
        last = dict(failures)
        listed = "; ".join(f"{address}: {cause_text(cause)}" for address, cause in last.items())
        error = cls(f"{what}: {listed}" if listed else what)
        error.failures = list(last.items())
        return error


class IncompleteError(DisqueError, exceptions.ConnectionError):
    """The connection was lost after a command was sent that must not be sent twice: whether it was done is unknown."""

    code = "INCOMPLETE"


class UnexpectedReplyError(DisqueError):
    """A reply that no node gives: at that address is something else, perhaps a Redis or a proxy."""

    code = "UNEXPECTED"


BY_CODE: Final[dict[str, type[DisqueError]]] = {
    kind.code: kind
    for kind in (
        *(CommandError, BadIdError, NoJobError, TooLateError, NoReplError, OomError, MaxlenError, PausedError),
        JobCancelledError,
        *(LeavingError, LoadingError, MisconfError, NoAuthError, WrongPassError, DeniedError, NoProtoError),
        *(NoCronError, NoPermError),
    )
}


def is_out_of_reach(answer: object) -> TypeGuard[NoPermError]:
    """Whether an answer says that a job is in a queue to which the user has no right, maybe since it was moved."""
    return isinstance(answer, NoPermError) and not answer.is_of_command


def cause_text(cause: Exception) -> str:
    """What went wrong, in one line; the class where there is no text."""
    return " ".join(str(cause).split()) or type(cause).__name__


def typed(error: Exception) -> DisqueError | None:
    """The error of this module for an error reply as redis-py gives it; None if it is no error reply.

    redis-py takes the codes that it knows out of the text, and leaves those that it does not know in it.
    """
    if isinstance(error, DisqueError):
        return error
    if not isinstance(error, exceptions.RedisError):
        return None
    text = str(error)
    code = error.status_code
    if code is None:
        if not isinstance(error, exceptions.ResponseError):
            return None
        first, _, rest = text.partition(" ")
        code, text = (first, rest) if is_code(first) else ("ERR", text)
    if isinstance(error, exceptions.AuthenticationError) and code == "ERR":
        return WrongPassError(text, status_code=code)
    return make(code, text)


def is_code(word: str) -> bool:
    """Whether ``word`` looks like the code of an error reply."""
    return word.isalpha() and word.isupper() and word.isascii()


def make(code: str, text: str) -> DisqueError:
    """The error for a code and the text behind it. The code stays in the text, but for ERR, as in redis-py."""
    kind = BY_CODE.get(code)
    if kind is None:
        error: DisqueError = UnknownCodeError(f"{code} {text}", status_code=code)
        error.code = code
        return error
    return kind(text if code == "ERR" else f"{code} {text}".rstrip(), status_code=code)
