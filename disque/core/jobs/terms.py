"""Options of ADDJOB that say how a job may fail, and what goes with it: TRIES, BACKOFF, DEADLETTER, HEADER, RETAIN."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.capabilities import JOBS
from cluster.member import HANDSHAKE, MYSELF
from disque.core.base import errors
from disque.core.base.numbers import parse_int, parse_seconds
from disque.core.model import backoff
from disque.core.model.extra import HEADER_NAME_MOST, HEADERS_BYTES, HEADERS_MOST
from disque.core.model.spec import BACKOFF, DEADLETTER, RETAIN, TRIES
from disque.core.replication.queue_options import NAME_MOST

if TYPE_CHECKING:
    from disque.core.model.request import Request
    from disque.core.node import Node

#: What a name or a value of a header must not have.
CONTROLS: Final = bytes([*range(32), 127])


def tries(request: "Request", word: bytes) -> bytes:
    """TRIES n."""
    value = parse_int(word)
    if value is None or not TRIES.fits(value):
        return errors.BAD_TRIES
    request.say(TRIES, value)
    return b""


def back_off(request: "Request", word: bytes) -> bytes:
    """BACKOFF kind:base[:max[:jitter]]."""
    found = backoff.parse(word)
    if found is None:
        return errors.BAD_BACKOFF
    request.say(BACKOFF, found.encoded())
    return b""


def dead_letter(request: "Request", word: bytes) -> bytes:
    """DEADLETTER name."""
    if len(word) > NAME_MOST:
        return errors.BAD_DEADLETTER
    request.say(DEADLETTER, b"=" + word)
    return b""


def retain(request: "Request", word: bytes) -> bytes:
    """RETAIN s. It is kept in whole seconds, as TTL and RETRY are."""
    value = parse_seconds(word)
    if value is None or not RETAIN.fits(value):
        return errors.BAD_RETAIN
    request.say(RETAIN, value)
    return b""


#: Options with one word. Each can be said once.
TERMS: Final[dict[bytes, tuple[int, Callable[["Request", bytes], bytes]]]] = {
    b"TRIES": (TRIES.number, tries),
    b"BACKOFF": (BACKOFF.number, back_off),
    b"DEADLETTER": (DEADLETTER.number, dead_letter),
    b"RETAIN": (RETAIN.number, retain),
}


#: Those that make no sense for a job that is delivered once.
OF_TRIES: Final = frozenset({TRIES.number, BACKOFF.number, DEADLETTER.number})


def take(request: "Request", option: bytes, word: bytes) -> bytes:
    """Take one of `TERMS`; returns the text of an error, or nothing."""
    number, setter = TERMS[option]
    if request.rows is not None and number in request.rows:
        return errors.TWICE % option
    return setter(request, word)


def header(request: "Request", name: bytes, value: bytes) -> bytes:
    """HEADER name value; returns the text of an error, or nothing."""
    if not 0 < len(name) <= HEADER_NAME_MOST or b" " in name or has_controls(name) or has_controls(value):
        return errors.BAD_HEADER
    if name in request.headers[::2]:
        return errors.SAME_HEADER
    headers = (*request.headers, name, value)
    if len(headers) > 2 * HEADERS_MOST or sum([len(word) for word in headers]) > HEADERS_BYTES:
        return errors.MANY_HEADERS
    request.headers = headers
    return b""


def has_controls(word: bytes) -> bool:
    """Whether there are control characters in it."""
    return len(word.translate(None, CONTROLS)) < len(word)


def check(node: "Node", request: "Request") -> bytes:
    """What these options say together with the others; returns the text of an error, or nothing."""
    rows = request.rows
    if rows is None and not request.headers:
        return b""
    if request.retry == 0 and rows is not None and not OF_TRIES.isdisjoint(rows):
        return errors.ONE_DELIVERY
    return lacking(node, b"ADDJOB with these options")


def lacking(node: "Node", what: bytes, capability: int = JOBS) -> bytes:
    """The error for ``what``, which needs a capability of all nodes, while a node is known that lacks it; else nothing.

    Not only nodes that can be reached count: an older one that is away would skip what it must know, and go on with
    what it has. What it understood last is known, also over a restart of this node. One that is half met counts when a
    link to it stands: it has said what it understands, and is one of the cluster in a moment.
    """
    mine = node.membership.myself.capabilities
    for member in node.membership.nodes.values():
        if not capability & ~(member.capabilities & mine) or member.flags & MYSELF:
            continue
        if member.linked or not member.flags & HANDSHAKE:
            peer = node.peers.get(member.id)
            is_heard = member.linked or member.capabilities or (peer is not None and peer.start)
            return (errors.LACKING if is_heard else errors.UNHEARD) % (what, member.id)
    return b""
