"""What a node takes at most. It refuses a longer request while that still arrives, and closes the connection.

So the client seldom reads the reply, and sees a connection that breaks, which another attempt would mend. Only then it
asks for the limits of the node, and so knows which it was.
"""

from collections.abc import Sequence
from typing import Final

from redis.exceptions import ResponseError

from disque.client import replies
from disque.client.errors import DisqueError, TooLongError
from disque.client.packing import pack

#: Shorter requests have left before the node closes the connection, so its reply is read.
LONG_BYTES: Final = 64 << 10
#: Where the reply is read, it begins so.
REFUSED: Final = "Protocol error"
#: The longest word, and the longest request.
WORD: Final = "proto-max-bulk-len"
REQUEST: Final = "client-query-buffer-limit"
#: Asks for both: so many requests.
QUESTION: Final = b"".join(pack([b"CONFIG", b"GET", name.encode()]) for name in (WORD, REQUEST))
QUESTIONS: Final = 2


def too_long(request: bytes, told: Sequence[object], where: str) -> TooLongError | None:
    """Why the node at ``where`` takes no such request; None if it does. ``told`` is what it answered to QUESTION.

    A user may have no right to ask, and the command may be renamed. Then nothing is known, and None is given, too.
    """
    for name, size in ((WORD, longest(request)), (REQUEST, len(request))):
        most = told_of(name, told)
        if most is not None and size > most:
            return TooLongError(f"too long: {size} bytes, and {where} takes {most} at most ({name})")
    return None


def is_refusal(reply: object) -> bool:
    """Whether a node has read no further than to this request."""
    return isinstance(reply, ResponseError) and str(reply).startswith(REFUSED)


def told_of(name: str, told: Sequence[object]) -> int | None:
    """The value of a setting in replies to CONFIG GET, None if it is not there."""
    for reply in told:
        try:
            return int(replies.dictionary(reply)[name])
        except (DisqueError, TypeError, ValueError, LookupError, AttributeError):
            continue
    return None


def longest(request: bytes) -> int:
    """The length of the longest word of a packed request."""
    most, at = 0, request.index(b"\n") + 1
    while at < len(request):
        end = request.index(b"\r", at)
        size = int(request[at + 1 : end])
        most = max(most, size)
        at = end + size + 4  # both ends of lines
    return most
