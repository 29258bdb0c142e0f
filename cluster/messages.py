"""Messages between nodes: the one table of message kinds, and how messages become bytes.

A message is a tuple: the number of its kind, then the fields that `KINDS` names, in that order. Numbers never change.
A kind that the table does not have comes from a later version. It is handed on as it is, so that the receiver can skip
and count it. A frame is a length of four bytes, big-endian, and a msgpack array of messages. It holds whole numbers,
byte strings and arrays, and nothing else: no text, no maps, no extensions.

`decode` checks everything that a peer could get wrong: the types, the number of fields, the length of IDs and lists,
the size of numbers. What passes has the shape that the table promises, so receivers need not check again. What a value
means, whether an address is valid or a job is known, is for the receivers to check.

Versions work side by side. Fields are added at the end only: those that a later version has added are cut off, in the
rows of lists too; those that an earlier version does not have yet (a name with ?) are filled in as 0, b"" or (). A kind
that somebody may not understand has a capability in `NEEDS`, and goes to nobody who lacks it (see `table`).

The time of day never travels: `_ms` and `_s` are durations, `ctime` is the place of a job in the order of all jobs.
"""

from collections.abc import Callable, Sized
from operator import itemgetter
from typing import Final, cast

from msgpack import Packer, unpackb

from cluster.capabilities import ENDS, JOBS, PUBSUB, REGISTRY, REPAIR, SCHEDULES, SIZES, TAKEOVER
from cluster.large import LARGE_BODY, BadFrameError, fill

#: Offered here as well: who decodes frames needs it.
__all__ = ["BadFrameError"]

Message = tuple[object, ...]

PING: Final = 0
PONG: Final = 1
MEET: Final = 2
FAIL: Final = 3
REPLJOB: Final = 4
GOTJOB: Final = 5
ENQUEUE: Final = 6
QUEUED: Final = 7
SETACK: Final = 8
WILLQUEUE: Final = 9
GOTACK: Final = 10
DELJOB: Final = 11
NEEDJOBS: Final = 12
YOURJOBS: Final = 13
WORKING: Final = 14
ENTRIES: Final = 15
ABORT: Final = 16
REFUSED: Final = 17
ANSWER: Final = 18
HOLD: Final = 19
HAVE: Final = 20
BIND: Final = 21
BOUND: Final = 22
KEYHELD: Final = 23
UNBIND: Final = 24
KEEPKEY: Final = 25
KEYKEPT: Final = 26
KEYSAFE: Final = 27
ASKKEY: Final = 28
KEYFREE: Final = 29
OFFER: Final = 30
NEEDNOW: Final = 31
STOPPING: Final = 32
LIMIT: Final = 33
DIGEST: Final = 34
MOVED: Final = 35
GOTMOVE: Final = 36
SURVEY: Final = 37
SURVEYED: Final = 38
MORE: Final = 39
ENDED: Final = 40
WATCH: Final = 41
PUBLISHED: Final = 42
ASKCOPY: Final = 43
COPYIS: Final = 44
UPSINCE: Final = 45
TAKEJOB: Final = 46
ASKEND: Final = 47
KEEPEND: Final = 48

#: `flags` of REPLJOB: whoever takes the copy queues it, nobody else does.
QUEUE_IT: Final = 1
#: `flags` of REPLJOB: the other holders do not know of whoever takes this copy, which tells them (HAVE).
ANNOUNCE: Final = 2
#: `flags` of REPLJOB: a copy was lost, and this one takes its place. So it does not matter whether the queue is paused.
REPLACEMENT: Final = 4

#: `flags` of KEEPKEY: the key ends with its job, after `left_ms` at the latest; all keepers have it.
GOES_WITH_JOB: Final = 1
IS_SETTLED: Final = 2

#: `why` of QUEUED.
BY_TIMER: Final = 0
BY_NACK: Final = 1
BY_ENQUEUE: Final = 2
#: It is in the queue, whatever brought it there.
STILL: Final = 3
#: NACK with NOCOUNT: a consumer gave it back, and that was no failure.
BY_RETURN: Final = 4

#: `reason` of REFUSED.
REFUSED_MEMORY: Final = 0
REFUSED_LEAVING: Final = 1
REFUSED_PAUSED: Final = 2
REFUSED_GONE: Final = 3
REFUSED_JOURNAL: Final = 4
REFUSED_SIZE: Final = 5

#: `round` of HOLD from a node that stops: those who hear it say so to others until it is over; or, the job was handed
#: on, and whoever has it in his queue by now keeps it there. That says a node that is back, too, of what is still out.
#: OUT_IN_MY_STEAD is IN_MY_STEAD of jobs that consumers have, for those who can tell these from what waits.
IN_MY_STEAD: Final = 1
HANDED_ON: Final = 2
OUT_IN_MY_STEAD: Final = 3

#: `what` of STOPPING.
I_STOP: Final = 0
ALL_SENT: Final = 1

#: `what` of DIGEST.
IS_ANSWER: Final = 0
ANSWER_ME: Final = 1
NOTHING_YET: Final = 2

#: `what` of UNBIND.
JOB_IS_DONE: Final = 0
JOB_HAS_MOVED: Final = 1

#: `what` of ENDED: one holder tells another; all holders know, to somebody who wanted to hear it; somebody who never
#: had a copy tells a holder; all holders knew it once, to one that keeps another one.
BY_HOLDER: Final = 0
IS_SURE: Final = 1
BY_STRANGER: Final = 2
WAS_SURE: Final = 3

#: `what` of WATCH.
NO_MORE: Final = 0
TELL_ME: Final = 1

#: `what` of ANSWER.
ANSWER_NO: Final = 0
ANSWER_QUEUED: Final = 1

#: `what` of COPYIS: the jobs are not known; there are copies of them; there are, but nobody knows yet whether they will
#: stay, since their ADDJOB is not answered; they are over, as SETACK says. To ASKEND and KEEPEND: their ends are kept
#: here; they are not, and are not known; they are not, since this node takes none for now.
COPY_UNKNOWN: Final = 0
COPY_THERE: Final = 1
COPY_UNDECIDED: Final = 2
COPY_OVER: Final = 3
END_KEPT: Final = 4
END_UNKNOWN: Final = 5
END_REFUSED: Final = 6

ID_LENGTH: Final = 40
#: The most elements of one list in a frame, such as its messages.
LIST_MOST: Final = 100_000
#: The most IDs, jobs, entries or nodes in one message: five times what nodes say of at once.
ROWS_MOST: Final = 5000
#: The most holders that one message names, times its jobs: each is looked at for each job. See `Shape.beside`.
NAMED_MOST: Final = 110_000
#: The most bytes that one message says of all its jobs beyond their fields: 1000 jobs with as much as can be.
MORE_MOST: Final = 100_000_000
#: Numbers are below these powers of two. The first is wide enough for the longest duration in ms (136 years).
NUMBER_BITS: Final = 43
STAMP_BITS: Final = 62


# What a field may be. Each has a type, which is compared for all fields of a message at once, and a check beyond it.
_NUMBER: Final = "number"  # 0 to 2**43 - 1
_STAMP: Final = "stamp"  # 0 to 2**62 - 1
_BYTES: Final = "bytes"
_ONE_ID: Final = "id"  # 40 bytes: a job or a node
_IDS: Final = "ids"
_NUMBERS: Final = "numbers"  # as many as the list before it has elements
_STAMPS: Final = "stamps"  # as many as the list before it has elements
_BODIES: Final = "bodies"  # byte strings, as many as the list before it has elements
_JOBS: Final = "jobs"
_GOSSIP: Final = "gossip"
_ENTRIES: Final = "entries"
_WORDS: Final = "words"  # byte strings

_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys((_NUMBER, _STAMP), int),
    **dict.fromkeys((_BYTES, _ONE_ID), bytes),
    **dict.fromkeys((_IDS, _NUMBERS, _STAMPS, _BODIES, _JOBS, _GOSSIP, _ENTRIES, _WORDS), tuple),
}

#: The fields of all messages: a name means the same wherever it stands.
FIELDS: Final[dict[str, str]] = {
    "age_ms": _NUMBER,  # so long ago the jobs ended
    "bodies": _BODIES,  # of the jobs `ids`
    "body": _BYTES,
    "body_most": _NUMBER,  # bytes
    "bus_port": _NUMBER,
    "channel": _BYTES,
    "count": _NUMBER,  # jobs wanted; 0 takes the wish back
    "counter": _STAMP,  # with the ID of the node that it began at: the greatest wins
    "ctime": _STAMP,
    "ctimes": _STAMPS,  # of the jobs `ids`
    "delay_ms": _NUMBER,
    "deleted": _NUMBER,  # 0 or 1
    "deliveries": _NUMBER,
    "greatest": _STAMP,  # no entry that I have seen has a greater counter
    "digest": _BYTES,  # a sum for each bucket of the registry; nothing: there are no entries
    "entries": _ENTRIES,  # see `ENTRY_SHAPE`
    "error": _BYTES,  # the last thing that a consumer said of a failure
    "field": _BYTES,
    "flags": _NUMBER,
    "generation": _NUMBER,  # how often the jobs have moved
    "gossip": _GOSSIP,  # (id, ip, port, bus_port, flags) of some nodes
    "held_id": _ONE_ID,  # the job that has the key
    "holders": _IDS,  # node IDs, sorted: who may have a copy
    "id": _ONE_ID,
    "ids": _IDS,  # job IDs
    "ip": _BYTES,
    "jobs": _JOBS,  # see `JOB_FIELDS`
    "key": _BYTES,  # the digest that stands for a UNIQUE key
    "keys": _BODIES,  # those of the jobs `ids`
    "kind": _NUMBER,  # what an entry is about
    "known": _NUMBER,  # 0 or 1
    "left_ms": _NUMBER,  # of the life of the jobs, or of the window of the keys, or so long an end is still kept
    "more": _BYTES,  # what is to be known of the job beyond its fields: see `disque.core.model.extra`
    "ms": _NUMBERS,
    "nacks": _NUMBER,
    "name": _BYTES,
    "node_id": _ONE_ID,
    "port": _NUMBER,
    "queue": _BYTES,
    "reason": _NUMBER,
    "repl": _NUMBER,
    "round": _STAMP,  # a number of the asker's that comes back with the answer; up to OUT_IN_MY_STEAD: nobody asked
    "spec": _BYTES,  # what the job has in common with others: see `disque.core.model.spec`
    "status": _NUMBER,  # how jobs have ended: see `disque.core.model.ends`
    "up_ms": _NUMBER,  # so long the node has been up without a break
    "text": _BYTES,  # a result, why a job died, or what a client publishes
    "tries": _NUMBER,  # that have ended
    "state": _NUMBER,  # 0 undecided, 1 decided, 2 all keepers have it
    "survey": _STAMP,  # the number of a question to all nodes, which comes back with each answer
    "value": _BYTES,
    "what": _NUMBER,
    "why": _NUMBER,
    "window_ms": _NUMBER,  # 0: the key ends with its job
    "words": _WORDS,  # of a question, or of its answer; no word: it cannot be answered
}


#: What stands for a field that the sender does not know yet, by its type; and for what nothing can.
_EMPTY: Final[dict[type, object]] = {int: 0, bytes: b"", tuple: ()}
_NEVER_EMPTY: Final = frozenset({_ONE_ID, _NUMBERS, _STAMPS, _BODIES})


class Shape:
    """The fields of one kind, laid out for a quick check: where the numbers, the IDs and the lists stand.

    A name that ends with ? is that of a field which was added later: who does not send it means 0, b"" or (). Fields
    that belong to the list before them, and IDs, cannot be added so.
    """

    __slots__ = ("added", "checks", "fields", "ids", "numbers", "products", "rows", "stamps", "types")

    def __init__(self, fields: str, first: int) -> None:
        names = fields.split()
        self.fields = tuple([name.rstrip("?") for name in names])
        kinds = [FIELDS[name] for name in self.fields]
        #: What stands for the last fields where the sender does not know them.
        self.added = tuple([_EMPTY[_TYPES[FIELDS[name[:-1]]]] for name in names if name.endswith("?")])
        for at, name in enumerate(names):
            may_miss = at >= len(names) - len(self.added)
            assert name.endswith("?") == may_miss, "fields are added at the end"
            assert not may_miss or kinds[at] not in _NEVER_EMPTY, "nothing can stand for it"
        #: The fields that are lists of rows, and what these are.
        self.rows = tuple([(at, kind) for at, kind in enumerate(kinds, first) if kind in {_JOBS, _GOSSIP, _ENTRIES}])
        self.types = (int,) * first + tuple([_TYPES[kind] for kind in kinds])
        self.numbers = _picker([at for at, kind in enumerate(kinds, first) if kind == _NUMBER])
        self.stamps = tuple([at for at, kind in enumerate(kinds, first) if kind == _STAMP])
        self.ids = tuple([at for at, kind in enumerate(kinds, first) if kind == _ONE_ID])
        self.checks = tuple([(_CHECKS[kind], at) for at, kind in enumerate(kinds, first) if kind in _CHECKS])
        #: Where two fields stand that are long together: what is said of each of the jobs, and these; and how long.
        places = {name: place for place, name in enumerate(self.fields, first)}
        said = (("holders", NAMED_MOST), ("more", MORE_MOST)) if "ids" in places else ()
        self.products = tuple([(places[name], places["ids"], most) for name, most in said if name in places])

    def beside(self, head: Message, most: int) -> int:
        """How many job IDs, ``most`` at most, go into one message behind the fields in ``head``."""
        for one, _, product in self.products:
            said = len(cast("Sized", head[one]))
            if said * most > product:
                most = max(1, product // said)
        return most

    def fits(self, values: Message) -> bool:
        """Tell whether the values are as the shape says."""
        if tuple(map(type, values)) != self.types:
            return False
        if self.numbers is not None:
            numbers = self.numbers(values)
            if min(numbers) < 0 or max(numbers) >> NUMBER_BITS:
                return False
        for at in self.ids:
            if len(cast("bytes", values[at])) != ID_LENGTH:
                return False
        for at in self.stamps:
            if cast("int", values[at]) >> STAMP_BITS:  # -1 for what is negative
                return False
        fine = True
        for check, at in self.checks:
            fine = fine and check(values, at)
        for one, other, most in self.products:
            fine = fine and len(cast("Sized", values[one])) * len(cast("Sized", values[other])) <= most
        return fine

    def levelled(self, values: Message) -> Message | None:
        """Give what another version has sent as this one would have: without further fields, and with those added here.

        None if that does not fit either. Nobody comes here with what fits.
        """
        size = len(self.types)
        missing = size - len(values)
        if 0 < missing <= len(self.added):
            values = values + self.added[-missing:]
        found = list(values[:size])
        for at, kind in self.rows:
            if at < len(found) and isinstance(found[at], tuple):
                shape = JOB_SHAPE if kind == _JOBS else GOSSIP_SHAPE if kind == _GOSSIP else ENTRY_SHAPE
                found[at] = tuple([shape.row(one) for one in cast("tuple[object, ...]", found[at])])
        values = tuple(found)
        return values if self.fits(values) else None

    def row(self, values: object) -> object:
        """Give a row as this version has it, or as it came if it can be none."""
        if not isinstance(values, tuple) or self.fits(values):
            return values
        return self.levelled(values) or values


Numbers = Callable[[Message], tuple[int, ...]]
Check = Callable[[Message, int], bool]


def _picker(places: list[int]) -> Numbers | None:
    """Give what takes the values at these places out of a tuple, as a tuple whatever their number."""
    if not places:
        return None
    return itemgetter(*places, places[0])  # of a single place it would give no tuple


def _are_ids(values: Message, at: int) -> bool:
    if len(cast("tuple[object, ...]", values[at])) > ROWS_MOST:
        return False
    for one in cast("tuple[object, ...]", values[at]):  # compiled, a loop makes no sets and no iterators
        if not isinstance(one, bytes) or len(one) != ID_LENGTH:
            return False
    return True


def _are_numbers(values: Message, at: int) -> bool:
    return _are_below(values, at, NUMBER_BITS)


def _are_stamps(values: Message, at: int) -> bool:
    return _are_below(values, at, STAMP_BITS)


def _are_below(values: Message, at: int, bits: int) -> bool:
    numbers = cast("tuple[int, ...]", values[at])
    if len(numbers) != len(cast("tuple[object, ...]", values[at - 1])):
        return False
    if not numbers:
        return True
    return set(map(type, numbers)) == _ONLY_NUMBERS and min(numbers) >= 0 and not max(numbers) >> bits


def _are_bodies(values: Message, at: int) -> bool:
    bodies = cast("tuple[object, ...]", values[at])
    if len(bodies) != len(cast("tuple[object, ...]", values[at - 1])):
        return False
    return _ONLY_BYTES.issuperset(map(type, bodies))


def _are_words(values: Message, at: int) -> bool:
    return _ONLY_BYTES.issuperset(map(type, cast("tuple[object, ...]", values[at])))


def _are_jobs(values: Message, at: int) -> bool:
    return _all_fit(cast("tuple[Message, ...]", values[at]), JOB_SHAPE)


def _is_gossip(values: Message, at: int) -> bool:
    return _all_fit(cast("tuple[Message, ...]", values[at]), GOSSIP_SHAPE)


def _are_entries(values: Message, at: int) -> bool:
    return _all_fit(cast("tuple[Message, ...]", values[at]), ENTRY_SHAPE)


def _all_fit(rows: tuple[Message, ...], shape: Shape) -> bool:
    return len(rows) <= ROWS_MOST and _ONLY_TUPLES.issuperset(map(type, rows)) and all(map(shape.fits, rows))


_ONLY_BYTES: Final = frozenset({bytes})
_ONLY_NUMBERS: Final = frozenset({int})
_ONLY_TUPLES: Final = frozenset({tuple})
_CHECKS: Final[dict[str, Check]] = {
    _IDS: _are_ids,
    _NUMBERS: _are_numbers,
    _STAMPS: _are_stamps,
    _BODIES: _are_bodies,
    _JOBS: _are_jobs,
    _GOSSIP: _is_gossip,
    _ENTRIES: _are_entries,
    _WORDS: _are_words,
}

#: What stands in the list `jobs` for each job.
JOB_SHAPE: Final = Shape("id body spec left_ms ctime nacks deliveries holders more?", 0)
#: What stands in the list `gossip` for each node.
GOSSIP_SHAPE: Final = Shape("node_id ip port bus_port flags", 0)

#: What stands in the list `entries` for each entry of the registry.
ENTRY_SHAPE: Final = Shape("kind name field value counter node_id deleted", 0)

_GREETING: Final = "flags ip port bus_port gossip"

#: The kinds by number: name and fields.
KINDS: Final[dict[int, tuple[str, Shape]]] = {
    number: (name, Shape(fields, 1))
    for number, name, fields in (
        (PING, "PING", _GREETING),  # are you there?
        (PONG, "PONG", _GREETING),  # the answer to PING and MEET
        (MEET, "MEET", _GREETING),  # PING, and: take me in
        (FAIL, "FAIL", "node_id"),  # the majority cannot reach that node
        # Copies for you, of jobs that differ in three things only. GOTJOB says that they are there, REFUSED that they
        # will not be, ABORT takes them back.
        (REPLJOB, "REPLJOB", "flags queue spec left_ms delay_ms holders ids bodies ctimes more?"),
        (GOTJOB, "GOTJOB", "ids"),
        (ENQUEUE, "ENQUEUE", "id delay_ms"),  # queue your copy now, or after the delay
        (QUEUED, "QUEUED", "why ids"),  # I have queued them
        (SETACK, "SETACK", "holders ids"),  # they are acknowledged; no holders: I never had a copy
        (WILLQUEUE, "WILLQUEUE", "round holders ids"),  # I am about to queue them; ANSWER, HOLD or SETACK comes back
        (GOTACK, "GOTACK", "known holders ids"),  # I know that; holders: those that you did not name
        (DELJOB, "DELJOB", "ids"),  # everybody knows: forget them
        (NEEDJOBS, "NEEDJOBS", "queue count"),  # I could use some
        (YOURJOBS, "YOURJOBS", "queue jobs"),  # have these
        (WORKING, "WORKING", "ids"),  # somebody works on them: begin their RETRY anew
        (ENTRIES, "ENTRIES", "entries"),  # I know these, of what all nodes agree on
        (ABORT, "ABORT", "ids"),
        (REFUSED, "REFUSED", "reason ids"),
        (ANSWER, "ANSWER", "round what holders ids"),
        (HOLD, "HOLD", "round holders ids ms"),  # not before so much time has passed
        (HAVE, "HAVE", "ids"),  # I have a copy now
        # UNIQUE keys
        (BIND, "BIND", "repl window_ms ids keys"),  # keep the keys for these jobs, if they become some
        (BOUND, "BOUND", "ids"),  # I do
        (KEYHELD, "KEYHELD", "state id held_id"),  # I cannot: another one has it
        (UNBIND, "UNBIND", "ids what?"),  # they will be none, are done, or have moved: their keys are free
        (KEEPKEY, "KEEPKEY", "flags repl left_ms ids keys"),  # the jobs are there: they have the keys for certain
        (KEYKEPT, "KEYKEPT", "ids"),  # I know that, and will after a crash
        (KEYSAFE, "KEYSAFE", "ids"),  # all keepers know it
        (ASKKEY, "ASKKEY", "key id"),  # what has become of it? BIND is all that I know
        (KEYFREE, "KEYFREE", "ids"),  # nothing that I know of
        # Jobs that do not go where they are wanted by themselves.
        (OFFER, "OFFER", "queue"),  # I keep some, but somebody may wait for them there: say so then
        (NEEDNOW, "NEEDNOW", "queue count"),  # somebody does, at this moment
        (STOPPING, "STOPPING", "what"),  # I stop: send me no more jobs. Or: what I had sent you before is all
        (LIMIT, "LIMIT", "body_most"),  # from now on, I take bodies of this length at most
        (DIGEST, "DIGEST", "what digest greatest?"),  # all entries that I know add up to this: say what I lack
        # Jobs that are in another queue for good. GOTMOVE says that they are known to be there.
        (MOVED, "MOVED", "queue spec left_ms delay_ms holders more ids"),
        (GOTMOVE, "GOTMOVE", "generation node_id ids"),
        (SURVEY, "SURVEY", "survey what words"),  # I ask all nodes this
        (SURVEYED, "SURVEYED", "survey words"),  # my answer
        (MORE, "MORE", "more ids"),  # what I know of these beyond their fields: tries, errors
        # How jobs have ended; it goes before SETACK, and to those who want to hear it.
        (ENDED, "ENDED", "what status node_id age_ms left_ms text ids tries? error? queue?"),
        (WATCH, "WATCH", "what ids"),  # tell me how they end, or no more
        (PUBLISHED, "PUBLISHED", "channel text"),  # a client says this to all who listen
        (ASKCOPY, "ASKCOPY", "holders ids"),  # have you copies of these jobs? I have
        (COPYIS, "COPYIS", "what holders ids"),  # yes, no, or they are over; holders: those that you did not name
        (UPSINCE, "UPSINCE", "up_ms"),  # I have been up for so long
        # I leave, and have let go of these jobs, which are delivered at most once: they are yours. GOTJOB and REFUSED.
        (TAKEJOB, "TAKEJOB", "flags queue spec left_ms delay_ms holders ids bodies ctimes more"),
        (ASKEND, "ASKEND", "holders ids"),  # do you keep how these jobs have ended? I do; COPYIS says so
        # Keep how this job has ended; it is sure. COPYIS says that it is there.
        (KEEPEND, "KEEPEND", "queue status node_id age_ms left_ms repl tries holders error text body id"),
    )
}

#: The capability that a kind needs, for all that came after the first release: it goes to nobody who lacks that.
NEEDS: Final[dict[int, int]] = {
    LIMIT: SIZES,
    ENTRIES: REGISTRY,
    DIGEST: REGISTRY,
    **dict.fromkeys((MOVED, GOTMOVE, SURVEY, SURVEYED, MORE, ENDED, WATCH), JOBS),
    PUBLISHED: PUBSUB,
    UPSINCE: SCHEDULES,
    **dict.fromkeys((ASKCOPY, COPYIS), REPAIR),
    TAKEJOB: TAKEOVER,
    **dict.fromkeys((ASKEND, KEEPEND), ENDS),
}

#: Kinds that rest on no record of the journal: they ask or offer, and nothing is lost if the sender forgets them. They
#: leave at once; all others wait until the journal is as durable as was promised.
EARLY: Final = frozenset(
    {REPLJOB, REFUSED, WILLQUEUE, ANSWER, NEEDJOBS, NEEDNOW, OFFER, PUBLISHED, ASKCOPY, UPSINCE, ASKEND}
)
#: Kinds that are sent once, to those who take them at that moment: a link that is far behind takes none.
FLEETING: Final = frozenset({PUBLISHED})

#: Where the fields of REPLJOB, of YOURJOBS, and of a job in its list stand.
REPLJOB_FLAGS: Final = 1
REPLJOB_QUEUE: Final = 2
REPLJOB_SPEC: Final = 3
REPLJOB_LEFT_MS: Final = 4
REPLJOB_DELAY_MS: Final = 5
REPLJOB_HOLDERS: Final = 6
REPLJOB_IDS: Final = 7
REPLJOB_BODIES: Final = 8
REPLJOB_CTIMES: Final = 9
REPLJOB_MORE: Final = 10

YOURJOBS_QUEUE: Final = 1
YOURJOBS_JOBS: Final = 2

KEEPEND_TEXT: Final = 10
KEEPEND_BODY: Final = 11

ROW_ID: Final = 0
ROW_BODY: Final = 1
ROW_SPEC: Final = 2
ROW_LEFT_MS: Final = 3
ROW_CTIME: Final = 4
ROW_NACKS: Final = 5
ROW_DELIVERIES: Final = 6
ROW_HOLDERS: Final = 7
ROW_MORE: Final = 8

Ids = tuple[bytes, ...]
#: The same as types.
ReplJob = tuple[int, int, bytes, bytes, int, int, Ids, Ids, tuple[bytes, ...], tuple[int, ...], bytes]
Row = tuple[bytes, bytes, bytes, int, int, int, int, Ids, bytes]
Said = tuple[int, int, int, bytes, int, int, bytes, Ids, int, bytes, bytes]  # ENDED
KeepEnd = tuple[int, bytes, int, bytes, int, int, int, int, Ids, bytes, bytes, bytes, bytes]
YourJobs = tuple[int, bytes, tuple[Row, ...]]


def repljob(
    queue: bytes,
    spec: bytes,
    *,
    flags: int,
    left_ms: int,
    delay_ms: int,
    holders: Ids,
    ids: Ids,
    bodies: tuple[bytes, ...],
    ctimes: tuple[int, ...],
    more: bytes = b"",
) -> Message:
    """REPLJOB."""
    # Said to be of any length: compiled, a tuple of a known one is made anew for each peer, and encoded for each.
    return (REPLJOB, flags, queue, spec, left_ms, delay_ms, holders, ids, bodies, ctimes, more)


def takejob(copy: Message) -> Message:
    """TAKEJOB, whose fields are those of REPLJOB: made of one."""
    return (TAKEJOB, *copy[1:])


def yourjobs_row(
    job_id: bytes,
    body: bytes,
    spec: bytes,
    *,
    left_ms: int,
    ctime: int,
    nacks: int,
    deliveries: int,
    holders: Ids,
    more: bytes = b"",
) -> Row:
    """One job of YOURJOBS."""
    return (job_id, body, spec, left_ms, ctime, nacks, deliveries, holders, more)


_SHAPES: Final[dict[int, Shape]] = {number: shape for number, (_, shape) in KINDS.items()}

_packer: Final = Packer(use_bin_type=True, buf_size=65536)


def encode_message(message: Message) -> bytes:
    """Give one message as msgpack. The same bytes can go into any number of frames."""
    packed: bytes = _packer.pack(message)
    return packed


def frame(parts: list[bytes]) -> bytes:
    """Give the frame, length included, of messages that `encode_message` made: at most `LIST_MOST`."""
    count = len(parts)
    assert count <= LIST_MOST, count
    if count < 16:
        head = b"%c" % (0x90 | count)
    elif count < 65536:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    payload = head + b"".join(parts)
    return len(payload).to_bytes(4, "big") + payload


def decode(payload: bytes, bodies: list[bytes] | None = None) -> list[Message]:
    """Give the messages of a frame, which is handed in without its length, and with what `large` has taken out of it.

    Raises BadFrameError if there is anything in it that no node makes. Nothing of such a frame is to be used.
    """
    messages = _unpack(payload)
    if bodies:
        messages = _fill(messages, bodies)
    if type(messages) is not tuple:
        raise BadFrameError("a frame is not an array")
    found = list(messages)
    for at, message in enumerate(found):
        if type(message) is not tuple or not message or type(message[0]) is not int:
            raise BadFrameError("a message does not begin with its kind")
        shape = _SHAPES.get(message[0])
        if shape is not None and not shape.fits(message):
            levelled = shape.levelled(message)
            if levelled is None:
                raise BadFrameError(f"a {KINDS[message[0]][0]} has the wrong fields")
            found[at] = levelled
    return found


def _fill(messages: object, bodies: list[bytes]) -> object:
    try:
        filled = fill(messages, bodies)
    except RecursionError as error:
        raise BadFrameError("a frame is not msgpack") from error
    if bodies:
        raise BadFrameError("a large frame does not match its head")
    return filled


def has_large(messages: list[Message]) -> bool:
    """Whether one of these messages is large."""
    for message in messages:  # noqa: SIM110 - a loop costs less where it is compiled
        if message[0] in {REPLJOB, YOURJOBS, TAKEJOB, KEEPEND} and is_large(message):
            return True
    return False


def is_large(message: Message) -> bool:
    """Whether a message has a body that is worth to be sent as it is: that of its last job, since then it is full.

    Of an end, its result may be one, too.
    """
    kind = message[0]
    if kind in {REPLJOB, TAKEJOB}:
        bodies = cast("tuple[bytes, ...]", message[REPLJOB_BODIES])
        return len(bodies) > 0 and len(bodies[-1]) >= LARGE_BODY
    if kind == YOURJOBS:
        jobs = cast("tuple[Message, ...]", message[YOURJOBS_JOBS])
        return len(jobs) > 0 and len(cast("bytes", jobs[-1][ROW_BODY])) >= LARGE_BODY
    if kind == KEEPEND:
        text, body = cast("bytes", message[KEEPEND_TEXT]), cast("bytes", message[KEEPEND_BODY])
        return max(len(text), len(body)) >= LARGE_BODY
    return False


def _unpack(payload: bytes) -> object:
    try:
        return unpackb(
            payload,
            use_list=False,
            max_array_len=min(LIST_MOST, len(payload)),
            max_str_len=0,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, RecursionError) as error:
        raise BadFrameError(f"a frame is not msgpack: {error}") from error
