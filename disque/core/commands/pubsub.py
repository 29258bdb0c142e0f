"""The commands of pub/sub: SUBSCRIBE, PSUBSCRIBE, their opposites, PUBLISH, PUBSUB.

PUBSUB CHANNELS is done in slices where there are many channels, as walks of QSCAN are (see `scan`).
"""

from typing import TYPE_CHECKING, Final

from disque.core import pubsub as channels
from disque.core.auth import access, users
from disque.core.base import errors, resp
from disque.core.base.glob import Glob
from disque.core.commands import scan
from disque.core.commands.helped import helped
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import DENYOOM, FAST, HELP, LISTENING, READONLY, Command
from disque.core.model.patterns import NAME_COMPARED
from disque.core.model.pubsub import JOB, fits
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

#: Channels that are looked at together, and bytes of names that are compared with a pattern in the time of one look.
LOOKS: Final = 25
COMPARED_A_LOOK: Final = 4


def subscribe(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """SUBSCRIBE channel [channel ...]."""
    del now_ms
    listen(node, session, args[1:], is_pattern=False)


def psubscribe(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PSUBSCRIBE pattern [pattern ...]."""
    del now_ms
    listen(node, session, args[1:], is_pattern=True)


def listen(node: "Node", session: Session, names: list[bytes], *, is_pattern: bool) -> None:
    """Listen to channels or patterns; one answer for each, unless one of them cannot be."""
    wrong = pattern_fault(node, names) if is_pattern else b""
    if max(map(len, names)) > channels.NAME_MOST:
        wrong = errors.LONG_CHANNEL
    if wrong:
        session.out.append(resp.error(wrong))
        return
    known = session.subscriptions
    new = len(names) if known is None else len(set(names) - known.names(are_patterns=is_pattern).keys())
    if new + count(session) > channels.SUBSCRIPTIONS_MOST:
        session.out.append(resp.error(errors.TOO_MANY_SUBSCRIPTIONS))
        return
    verb = b"psubscribe" if is_pattern else b"subscribe"
    for name in names:
        channels.subscribe(node, session, name, is_pattern=is_pattern)
        confirm(session, verb, resp.bulk(name))


def pattern_fault(node: "Node", names: list[bytes]) -> bytes:
    """What is wrong with these patterns: the text of an error, or nothing."""
    if max(map(len, names)) > channels.PATTERN_MOST:
        return errors.LONG_PATTERN
    patterns = node.pubsub.patterns
    new = {name for name in names if name not in patterns}
    return errors.TOO_MANY_PATTERNS if new and len(patterns) + len(new) > channels.PATTERNS_MOST else b""


def unsubscribe(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """UNSUBSCRIBE [channel ...]."""
    del now_ms
    listen_no_more(node, session, args[1:], is_pattern=False)


def punsubscribe(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PUNSUBSCRIBE [pattern ...]."""
    del now_ms
    listen_no_more(node, session, args[1:], is_pattern=True)


def listen_no_more(node: "Node", session: Session, names: list[bytes], *, is_pattern: bool) -> None:
    """Listen no more to these channels or patterns, or to all; one answer for each."""
    verb = b"punsubscribe" if is_pattern else b"unsubscribe"
    known = session.subscriptions
    if not names and known is not None:
        names = list(known.names(are_patterns=is_pattern))
    for name in names:
        channels.unsubscribe(node, session, name, is_pattern=is_pattern)
        confirm(session, verb, resp.bulk(name))
    if not names:
        confirm(session, verb, resp.null_bulk(session.protocol))


def confirm(session: Session, verb: bytes, name: bytes) -> None:
    """Say to what a connection listens now: the verb, the channel, and how many there are of both kinds."""
    session.out.append(resp.push([resp.bulk(verb), name, resp.integer(count(session))], session.protocol))


def count(session: Session) -> int:
    """How many channels and patterns a connection listens to."""
    return 0 if session.subscriptions is None else len(session.subscriptions)


def publish(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PUBLISH channel message. How many subscriptions of this node it was for."""
    del now_ms
    _, channel, message = args
    if channel.startswith(JOB):
        session.out.append(resp.error(errors.OWN_CHANNEL))
    elif len(channel) > channels.NAME_MOST:
        session.out.append(resp.error(errors.LONG_CHANNEL))
    elif len(message) > channels.MESSAGE_MOST:
        session.out.append(resp.error(errors.LONG_MESSAGE))
    else:
        session.out.append(resp.integer(channels.publish(node, channel, message)))


class Channels(scan.Listing):
    """A PUBSUB CHANNELS under way: the cursor is the number of the next channel."""

    __slots__ = ("_glob",)

    def __init__(self, session: Session, pattern: bytes) -> None:
        super().__init__(session)
        self._glob = Glob(pattern)

    def look(self, node: "Node", now_ms: int) -> int:
        """As in `Walk`. What patterns are compared with counts by its bytes."""
        del now_ms
        glob, user = self._glob, self.session.user
        patterns = (not glob.is_beginning()) + user.globs() + user.channel_globs()
        self.cursor, some = node.pubsub.index.look(self.cursor, max(1, LOOKS // max(1, patterns)))
        names = [topic.name for topic in some]
        self.take([resp.bulk(name) for name in names if fits(glob, name) and users.may_listen(user, name)])
        compared = patterns * sum([len(name) for name in names if len(name) <= NAME_COMPARED])
        return len(some) + 1 + compared // COMPARED_A_LOOK


def pubsub(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PUBSUB CHANNELS [pattern] | NUMSUB [channel ...] | NUMPAT."""
    if helped(node, session, args):
        return
    word = args[1].upper()
    if word == b"CHANNELS" and len(args) <= 3:
        scan.begin(node, Channels(session, args[2] if len(args) == 3 else b"*"), now_ms)
    elif word == b"NUMSUB":
        session.out.append(numbers_of(node, session, args[2:]))
    elif word == b"NUMPAT" and len(args) == 2:
        session.out.append(resp.integer(len(node.pubsub.patterns)))
    else:
        session.out.append(resp.error(errors.SYNTAX))


def numbers_of(node: "Node", session: Session, names: list[bytes]) -> bytes:
    """The reply of PUBSUB NUMSUB: channels and how many listen to them; nobody, where the client may not know."""
    claims = Claims()
    claims.channels = names
    wrong = access.too_much(session.user, claims)
    if wrong:
        return resp.error(wrong)
    pairs: list[bytes] = []
    for name in names:
        topic = node.pubsub.channels.get(name) if users.may_listen(session.user, name) else None
        pairs += [resp.bulk(name), resp.integer(0 if topic is None else len(topic.subscribers))]
    return resp.array(pairs)


def listened(args: list[bytes]) -> Claims:
    """SUBSCRIBE names channels."""
    claims = Claims()
    claims.channels = args[1:]
    return claims


def listened_to_all(args: list[bytes]) -> Claims:
    """PSUBSCRIBE names patterns."""
    claims = Claims()
    claims.patterns = args[1:]
    return claims


def published(args: list[bytes]) -> Claims:
    """PUBLISH names one channel."""
    claims = Claims()
    claims.channels = args[1:2]
    return claims


COMMANDS: Final = (
    Command(
        "subscribe",
        -2,
        READONLY | DENYOOM | LISTENING,
        subscribe,
        "pubsub",
        "channel [channel ...]",
        "Listen to channels.",
        touches=listened,
    ),
    Command(
        "psubscribe",
        -2,
        READONLY | DENYOOM | LISTENING,
        psubscribe,
        "pubsub",
        "pattern [pattern ...]",
        "Listen to all channels that fit a pattern.",
        touches=listened_to_all,
    ),
    Command(
        "unsubscribe",
        -1,
        READONLY | LISTENING,
        unsubscribe,
        "pubsub",
        "[channel ...]",
        "Listen no more to channels, or to any.",
        touches=may.nothing,
    ),
    Command(
        "punsubscribe",
        -1,
        READONLY | LISTENING,
        punsubscribe,
        "pubsub",
        "[pattern ...]",
        "Listen no more to patterns, or to any.",
        touches=may.nothing,
    ),
    Command(
        "publish",
        3,
        READONLY | FAST,
        publish,
        "pubsub",
        "channel message",
        "Say something to all who listen to a channel, at all nodes.",
        touches=published,
    ),
    Command(
        "pubsub",
        -2,
        READONLY,
        pubsub,
        "pubsub",
        "CHANNELS [pattern] | NUMSUB [channel ...] | NUMPAT",
        "Who listens at this node.",
        (
            ("CHANNELS", "[pattern]", "The channels that somebody listens to."),
            ("NUMSUB", "[channel ...]", "How many connections listen to each of these channels."),
            ("NUMPAT", "", "How many patterns somebody listens to."),
            HELP,
        ),
        touches=may.nothing,
    ),
)
