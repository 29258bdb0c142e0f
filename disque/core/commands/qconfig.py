"""QCONFIG: options of queues, which count at all nodes where ADDJOB says nothing."""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import OVERFLOW, QUEUES
from disque.core import entries
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_uint64
from disque.core.commands.helped import helped
from disque.core.jobs import terms
from disque.core.jobs.add import RETRY_CAP
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import ADMIN, CHANGES, DENYOOM, HELP, READONLY, Command
from disque.core.model.defaults import OVERFLOW as OVERFLOW_OPTION
from disque.core.model.defaults import drops
from disque.core.model.registry import QUEUE_OPTION
from disque.core.model.request import DEFAULT_TTL
from disque.core.model.session import Session
from disque.core.replication import queue_options
from disque.core.replication.queue_options import OPTIONS, QUEUE_MOST

if TYPE_CHECKING:
    from disque.core.node import Node

#: Names that one reply of LIST has at most.
NAMES: Final = 100


def qconfig(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QCONFIG SET, GET, UNSET, LIST."""
    word = args[1].upper()
    if helped(node, session, args):
        return
    if word == b"SET" and len(args) >= 5 and len(args) % 2:
        if not entries.must_wait(node, session, args, now_ms):
            wrong = set_options(node, args[2], args[3:], now_ms)
            session.out.append(resp.error(wrong) if wrong else resp.OK)
    elif word == b"GET" and len(args) == 3:
        session.out.append(shown(node, args[2], session.protocol))
    elif word == b"UNSET" and len(args) >= 3:
        if not entries.must_wait(node, session, args, now_ms):
            unset(node, session, args[2], args[3:], now_ms)
    elif word == b"LIST" and len(args) <= 3:
        cursor = parse_uint64(args[2]) if len(args) == 3 else 0
        session.out.append(resp.error(errors.BAD_CURSOR) if cursor is None else listed(node, cursor, session))
    else:
        session.out.append(resp.error(errors.SYNTAX))


def unknown(word: bytes) -> bytes:
    """The text of the error for an option that there is not."""
    return errors.UNKNOWN_OPTION % (errors.one_line(word[:64]), b" ".join(OPTIONS))


def set_options(node: "Node", name: bytes, words: list[bytes], now_ms: int) -> bytes:
    """Set options, all or none of them; returns the text of an error, or nothing."""
    if len(name) > QUEUE_MOST or (len(name) == QUEUE_MOST and not name.endswith(b"*")):
        return errors.LONG_NAME
    wanted = dict(zip([word.lower() for word in words[::2]], words[1::2], strict=True))
    wrong = trouble(words) or terms.lacking(node, b"QCONFIG SET", QUEUES)
    if not wrong and drops(OVERFLOW_OPTION, wanted.get(OVERFLOW_OPTION, b"")):
        wrong = terms.lacking(node, b"QCONFIG SET overflow drop-oldest", OVERFLOW)
    more = [((QUEUE_OPTION, name, option), value) for option, value in wanted.items()]
    if not wrong and not entries.has_room(node, more):
        wrong = errors.REGISTRY_FULL
    if not wrong:
        for key, value in more:
            entries.set_value(node, key, value, now_ms)
    return wrong


def trouble(words: list[bytes]) -> bytes:
    """What is wrong with these options and values: the text of an error, or nothing."""
    seen: set[bytes] = set()
    for word, value in zip(words[::2], words[1::2], strict=True):
        option = word.lower()
        if option not in OPTIONS:
            return unknown(word)
        if option in seen:
            return errors.TWICE % option
        if OPTIONS[option].read(value) is None:
            return errors.BAD_OPTION % (option, OPTIONS[option].means)
        seen.add(option)
    return b""


def unset(node: "Node", session: Session, name: bytes, words: list[bytes], now_ms: int) -> None:
    """Take options back, or all that were set under this name; the reply is how many were set."""
    options = [word.lower() for word in words]
    wrong = [word for word, option in zip(words, options, strict=True) if option not in OPTIONS]
    if wrong:
        session.out.append(resp.error(unknown(wrong[0])))
        return
    count = 0
    for option in dict.fromkeys(options or OPTIONS):
        entry = node.registry.get((QUEUE_OPTION, name, option))
        if entry is not None and not entry.deleted:
            entries.set_value(node, entry.key, b"", now_ms, deleted=True)
            count += 1
    session.out.append(resp.integer(count))


def shown(node: "Node", name: bytes, protocol: int) -> bytes:
    """What counts for jobs of a queue, and where each option was set: under which name, or nowhere: ``default``."""
    found = queue_options.of(node, name)
    pairs: list[bytes] = []
    for option, row in OPTIONS.items():
        source = b"default"
        word = row.default
        if found is not None and option in found.words:
            word, source = found.words[option], found.sources[option]
        elif option == b"retry":
            ttl = found.ttl if found is not None and found.ttl > 0 else DEFAULT_TTL
            word = b"%d" % (min(ttl // 10, RETRY_CAP) or 1)
        elif option == b"replicate":
            word = b"%d" % node.default_replicate
        elif option == b"deadletter":
            word = name + b":dead"
        pairs += [resp.bulk(option), resp.bulks([word, source])]
    return resp.mapping(pairs, protocol)


def listed(node: "Node", cursor: int, session: Session) -> bytes:
    """The names under which options are set, with these, from a number on; and the number to go on from, or 0.

    Only names that the client may know.
    """
    user, protocol = session.user, session.protocol
    defaults = node.registry.defaults
    cursor, names = defaults.index.look(cursor, NAMES)
    rows: list[bytes] = []
    for name in names:
        if not (user.all_queues or user.sees(name) or (name.endswith(b"*") and user.sees_all(name[:-1]))):
            continue
        words = defaults.by_name[name]
        pairs = [resp.bulk(word) for option in OPTIONS if option in words for word in (option, words[option])]
        rows.append(resp.array([resp.bulk(name), resp.mapping(pairs, protocol)]))
    return resp.array([resp.bulk(b"%d" % cursor), resp.array(rows)])


def configured(args: list[bytes]) -> Claims:
    """Options of queues are for who may do anything with all of them; dead letters go where he may add jobs."""
    word = args[1].upper() if len(args) > 2 else b""
    claims = Claims()
    if word not in {b"SET", b"GET", b"UNSET"}:
        return claims
    accesses = (may.EITHER,) if word == b"GET" else (may.READ, may.WRITE)
    name = args[2]
    if name.endswith(b"*") and word != b"GET":
        claims.beginnings += [(name[:-1], access) for access in accesses]
    else:
        claims.queues += [(name, access) for access in accesses]
    if word == b"SET":
        for option, value in zip(args[3::2], args[4::2], strict=False):
            if option.lower() == b"deadletter" and value:
                claims.queues.append((value, may.WRITE))
    return claims


COMMANDS: Final = (
    Command(
        "qconfig",
        -2,
        READONLY | ADMIN | DENYOOM | CHANGES,
        qconfig,
        "queues",
        "SET queue name value [name value ...] | GET queue | UNSET queue [name ...] | LIST [cursor]",
        "What counts for the jobs of a queue, at all nodes, where ADDJOB says nothing.",
        (
            ("SET", "queue name value [name value ...]", "Set options of a queue, or of all whose names begin so."),
            ("GET", "queue", "What counts for a queue, and under which name it was set."),
            ("UNSET", "queue [name ...]", "Take options back that were set under this name, or all of them."),
            ("LIST", "[cursor]", "Walk through the names under which options are set."),
            HELP,
        ),
        touches=configured,
        tame=frozenset({"GET", "LIST", "HELP"}),
    ),
)
