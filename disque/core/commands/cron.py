"""CRON: schedules, which add jobs at certain times, whichever nodes are there."""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import SCHEDULES
from disque.core import entries
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int, parse_uint64
from disque.core.commands import jobs
from disque.core.commands.helped import helped
from disque.core.jobs import add, eviction, terms
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import HELP, WRITE, Command
from disque.core.model.registry import LAST_TICK, SCHEDULE
from disque.core.model.session import Session
from disque.core.schedule import firing, keeping, ticks
from disque.core.schedule.keeping import CATCHUP_NAMES, CATCHUPS, NAME_MOST, OPTIONS_MOST, Saying
from disque.core.schedule.ticks import Ticks

if TYPE_CHECKING:
    from disque.core.node import Node

#: Schedules that one reply of LIST has at most, and ticks that one of NEXT has.
NAMES: Final = 100
TICKS_MOST: Final = 1000
#: NEXT looks so far ahead, in seconds: ten years. To find rare ticks takes long, and this is one turn.
SPAN: Final = 10 * 366 * 86_400
#: What changes a schedule at all nodes.
SETS: Final = frozenset({b"SET", b"DEL", b"PAUSE", b"RESUME"})
#: Words that ADDJOB options take behind their own; all others take one.
TAKES: Final[dict[bytes, int]] = {b"ASYNC": 0, b"UNIQUE": 2, b"HEADER": 2}
#: A tick with as many digits as one can have, to see whether there is room for it.
LONGEST_TICK: Final = ticks.TIME_END


def cron(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CRON SET, GET, LIST, DEL, PAUSE, RESUME, RUN, NEXT."""
    word = args[1].upper()
    if helped(node, session, args) or (word in SETS and entries.must_wait(node, session, args, now_ms)):
        return
    count = len(args)
    if word == b"SET" and count >= 6:
        wrong = set_one(node, args, now_ms)
        session.out.append(resp.error(wrong) if wrong else resp.OK)
    elif word == b"GET" and count == 3:
        session.out.append(shown(node, session, args[2]))
    elif word == b"LIST" and count <= 3:
        cursor = parse_uint64(args[2]) if count == 3 else 0
        session.out.append(resp.error(errors.BAD_CURSOR) if cursor is None else listed(node, cursor, session))
    elif word in {b"DEL", b"PAUSE", b"RESUME"} and count == 3:
        session.out.append(change(node, session, word, args[2], now_ms))
    elif word == b"RUN" and count == 3:
        run(node, session, args, now_ms)
    elif word == b"NEXT" and (count == 4 or (count == 6 and args[4].upper() == b"TZ")):
        session.out.append(upcoming(node, args[2], args[3], args[5] if count == 6 else b""))
    else:
        session.out.append(resp.error(errors.SYNTAX))


def claimed(args: list[bytes]) -> Claims:
    """A schedule adds jobs to its queue: who changes it needs that right, also to the queue that it has had until now.

    GET shows the body, which is for who may look at such jobs.
    """
    word = args[1].upper() if len(args) > 2 else b""
    claims = Claims()
    if word == b"SET":
        claims.overwritten.append(args[2])
    elif word not in {b"", b"LIST", b"NEXT", b"HELP"}:
        claims.schedules.append((args[2], may.READ if word == b"GET" else may.WRITE))
    if word == b"SET" and len(args) >= 6:
        claims.queues.append((args[4], may.WRITE))
        words = Words()
        if not words.read(args[6:]):
            claims.queues += jobs.dead_letters([b"", args[4], b"", b"0", *words.options])
    return claims


# -- SET ---------------------------------------------------------------------------------------------------------------


def set_one(node: "Node", args: list[bytes], now_ms: int) -> bytes:
    """Set a schedule; returns the text of an error, or nothing.

    What is there and says the same stays as it is: programs may set their schedules at each start.
    """
    name = args[2]
    if not 0 < len(name) <= NAME_MOST or terms.has_controls(name):
        return errors.BAD_CRON_NAME
    saying = parse(node, args)
    if isinstance(saying, bytes):
        return saying
    known = keeping.find(node, name)
    saying.since = keeping.wall_s(node)
    if known is not None:
        saying.paused = known.paused
        if (known.spec, known.zone) == (saying.spec, saying.zone):
            saying.since = known.since
        if known.encoded() == saying.encoded():
            return b""
    value = saying.encoded()
    wrong = terms.lacking(node, b"CRON SET", SCHEDULES)
    if not wrong and len(value) > entries.VALUE_MOST:
        wrong = errors.LONG_SCHEDULE
    if not wrong and node.used > node.limits.full and not eviction.make_room(node):
        wrong = errors.OUT_OF_MEMORY
    more = [((SCHEDULE, name, b""), value), ((LAST_TICK, name, b""), b"%d" % LONGEST_TICK)]
    if not wrong and not entries.has_room(node, more):
        wrong = errors.REGISTRY_FULL
    return wrong or firing.put(node, name, saying, now_ms)


class Words:
    """What stands behind the body in CRON SET: TZ and CATCHUP, anywhere among the options of ADDJOB."""

    __slots__ = ("catchup", "options", "zone")

    def __init__(self) -> None:
        self.zone: bytes | None = None
        self.catchup: int | None = None
        self.options: list[bytes] = []

    def read(self, words: list[bytes]) -> bytes:
        """Read all of them; returns the text of an error, or nothing."""
        at = 0
        while at < len(words):
            option = words[at].upper()
            size = 1 + TAKES.get(option, 1)
            wrong = b""
            if option in {b"UNIQUE", b"ASYNC"}:
                wrong = errors.CRON_OPTION % option
            elif at + size > len(words):
                wrong = errors.SYNTAX
            elif option in {b"TZ", b"CATCHUP"}:
                wrong = self.take(option, words[at + 1])
            else:
                self.options += words[at : at + size]
            if wrong:
                return wrong
            at += size
        return errors.SYNTAX if len(self.options) > OPTIONS_MOST else b""

    def take(self, option: bytes, word: bytes) -> bytes:
        """Take TZ or CATCHUP; returns the text of an error, or nothing."""
        if (self.zone if option == b"TZ" else self.catchup) is not None:
            return errors.TWICE % option
        if option == b"TZ":
            self.zone = word
            return b""
        self.catchup = CATCHUPS.get(word.lower())
        return errors.BAD_CATCHUP if self.catchup is None else b""


def parse(node: "Node", args: list[bytes]) -> Saying | bytes:
    """The words of CRON SET, or the text of an error."""
    words = Words()
    wrong = words.read(args[6:])
    if wrong:
        return wrong
    zone = words.zone or b""
    found = ticks.read(args[3], zone)
    if not isinstance(found, Ticks):
        return found
    saying = Saying(args[3], zone, args[4], args[5], tuple(words.options))
    saying.catchup = words.catchup or keeping.NONE
    request = add.parse(node, firing.job_words(args[2], saying, LONGEST_TICK))
    return request if isinstance(request, bytes) else saying


# -- looking -----------------------------------------------------------------------------------------------------------


def visible(node: "Node", session: Session, name: bytes) -> Saying | None:
    """What the schedule of this name says, if there is one of which the client may know."""
    saying = keeping.find(node, name)
    return saying if saying is not None and session.user.sees(saying.queue) else None


def shown(node: "Node", session: Session, name: bytes) -> bytes:
    """All that is known of a schedule; nil if there is none."""
    protocol = session.protocol
    saying = visible(node, session, name)
    if saying is None:
        return resp.null_array(protocol)
    more = [resp.bulk(b"body"), resp.bulk(saying.body), resp.bulk(b"options"), resp.bulks(list(saying.options))]
    return resp.mapping([*facts(node, name, saying, protocol), *more], protocol)


def facts(node: "Node", name: bytes, saying: Saying, protocol: int) -> list[bytes]:
    """What LIST says of each schedule. Ticks are in seconds since 1970; nil: none."""
    wall_s = keeping.wall_s(node)
    last = keeping.last_tick(node, name)
    found = ticks.read(saying.spec, saying.zone)
    following = 0
    if isinstance(found, Ticks) and not saying.paused:
        following = found.after(max(wall_s, last if last <= wall_s + keeping.AHEAD_MOST else 0))
    owner = firing.owner(node, keeping.slot_of(name))
    return [
        *(resp.bulk(b"name"), resp.bulk(name)),
        *(resp.bulk(b"spec"), resp.bulk(saying.spec)),
        *(resp.bulk(b"tz"), resp.bulk(saying.zone or b"UTC")),
        *(resp.bulk(b"catchup"), resp.bulk(CATCHUP_NAMES[saying.catchup])),
        *(resp.bulk(b"paused"), resp.integer(saying.paused)),
        *(resp.bulk(b"queue"), resp.bulk(saying.queue)),
        *(resp.bulk(b"last"), resp.integer(last) if last else resp.null_bulk(protocol)),
        *(resp.bulk(b"next"), resp.integer(following) if following else resp.null_bulk(protocol)),
        *(resp.bulk(b"node"), resp.bulk(owner) if owner else resp.null_bulk(protocol)),
    ]


def listed(node: "Node", cursor: int, session: Session) -> bytes:
    """Some schedules, from a number on; and the number to go on from, or 0.

    Only those whose queue the client may know.
    """
    user, protocol = session.user, session.protocol
    cursor, found = node.schedules.index.look(cursor, NAMES)
    rows: list[bytes] = []
    for schedule in found:
        saying = keeping.find(node, schedule.name)
        if saying is not None and user.sees(saying.queue):
            rows.append(resp.mapping(facts(node, schedule.name, saying, protocol), protocol))
    return resp.array([resp.bulk(b"%d" % cursor), resp.array(rows)])


def upcoming(node: "Node", spec: bytes, count_word: bytes, zone: bytes) -> bytes:
    """The next ticks of a spec, in seconds since 1970."""
    count = parse_int(count_word)
    if count is None or not 1 <= count <= TICKS_MOST:
        return resp.error(errors.BAD_CRON_COUNT)
    found = ticks.read(spec, zone)
    if not isinstance(found, Ticks):
        return resp.error(found)
    return resp.array([resp.integer(tick) for tick in found.some(keeping.wall_s(node), count, SPAN)])


# -- doing -------------------------------------------------------------------------------------------------------------


def change(node: "Node", session: Session, word: bytes, name: bytes, now_ms: int) -> bytes:
    """DEL, PAUSE or RESUME; the reply is 1 if that has changed something."""
    saying = visible(node, session, name)
    if saying is None or (word != b"DEL" and saying.paused == (word == b"PAUSE")):
        return resp.ZERO
    if word == b"DEL":
        firing.delete(node, name, now_ms)
        return resp.ONE
    saying.paused = word == b"PAUSE"
    if not saying.paused:
        saying.since = keeping.wall_s(node)
        firing.forget_ahead(node, name, saying.since, now_ms)
    wrong = firing.put(node, name, saying, now_ms)
    return resp.error(wrong) if wrong else resp.ONE


def run(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """RUN: add the job of a schedule now. The reply is that of ADDJOB."""
    saying = visible(node, session, args[2])
    if saying is None:
        session.out.append(resp.error(errors.NO_SCHEDULE))
    elif node.used > node.limits.full and not eviction.make_room(node):
        session.out.append(resp.error(errors.OUT_OF_MEMORY))
    else:
        add.add(node, session, firing.job_words(args[2], saying, keeping.wall_s(node)), now_ms)


COMMANDS: Final = (
    Command(
        "cron",
        -2,
        WRITE,
        cron,
        "queues",
        "SET name spec queue body [option ...] | GET name | LIST [cursor] | DEL name | PAUSE name | RESUME name | "
        "RUN name | NEXT spec count [option ...]",
        "Schedules: jobs that are added at certain times, whichever nodes are there.",
        (
            (
                "SET",
                "name spec queue body [TZ zone] [CATCHUP none|last|all] [option ...]",
                "Add a job at each time of a cron spec.",
            ),
            ("GET", "name", "All about one schedule."),
            ("LIST", "[cursor]", "Walk through the schedules."),
            ("DEL", "name", "Delete a schedule."),
            ("PAUSE", "name", "Add no jobs from now on."),
            ("RESUME", "name", "Go on, from now."),
            ("RUN", "name", "Add its job now, whatever the time is."),
            ("NEXT", "spec count [TZ zone]", "When a spec is due next."),
            HELP,
        ),
        touches=claimed,
        tame=frozenset({"GET", "LIST", "NEXT", "HELP"}),
    ),
)
