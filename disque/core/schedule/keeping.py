"""Schedules as entries of the registry: what they can be, and what this node knows because of them.

A schedule is one value: its spec, zone, CATCHUP, whether it is paused, since when it counts, queue, body and the
options of ADDJOB. The last tick that was fired is an entry of its own, set by the node that fired it. Nothing takes
effect when such an entry comes: the registry notes its name, and the next turn looks what is there (`refresh`). So it
is the same whether an entry was set here, told by another node, or read from the journal.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgpack import Packer, unpackb

from disque.core.model.registry import LAST_TICK, SCHEDULE, Entry
from disque.core.model.schedules import Schedule
from disque.core.schedule import ticks
from disque.core.schedule.ticks import SPEC_MOST, ZONE_MOST, Ticks

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of a name: a UNIQUE key is made of it.
NAME_MOST: Final = 256
#: What CATCHUP says of ticks that passed while no node was up.
NONE: Final = 0
LAST: Final = 1
ALL: Final = 2
CATCHUPS: Final[dict[bytes, int]] = {b"none": NONE, b"last": LAST, b"all": ALL}
CATCHUP_NAMES: Final[dict[int, bytes]] = {number: name for name, number in CATCHUPS.items()}
#: Words of options.
OPTIONS_MOST: Final = 1000
#: A last tick that is so many seconds ahead was set by a clock that was wrong.
AHEAD_MOST: Final = 86_400
#: One that is so many seconds ahead is told of, and RESUME has it forgotten.
SOON: Final = 60
#: Names that one turn looks at.
REFRESH_MOST: Final = 500

_packer: Final = Packer(use_bin_type=True)


class Saying:
    """What a schedule says."""

    __slots__ = ("body", "catchup", "options", "paused", "queue", "since", "spec", "zone")

    def __init__(self, spec: bytes, zone: bytes, queue: bytes, body: bytes, options: tuple[bytes, ...]) -> None:
        self.spec = spec
        self.zone = zone
        self.queue = queue
        self.body = body
        self.options = options
        self.catchup = NONE
        self.paused = False
        self.since = 0

    def encoded(self) -> bytes:
        """As the registry keeps it."""
        row = (
            *(self.spec, self.zone, self.catchup, int(self.paused), self.since),
            *(self.queue, self.body, self.options),
        )
        return bytes(_packer.pack(row))


#: The types of what stands in the value of a schedule, in order.
TYPES: Final = (bytes, bytes, int, int, int, bytes, bytes, tuple)


def decode(value: bytes) -> Saying | None:
    """What the value of an entry says; None if no schedule says that. Fields of later versions are left aside."""
    try:
        row = unpackb(value, use_list=False, raw=False, max_array_len=OPTIONS_MOST, max_map_len=0, max_ext_len=0)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, tuple) or tuple([type(one) for one in row[:8]]) != TYPES:
        return None
    spec, zone, catchup, paused, since, queue, body, options = row[:8]
    if len(spec) > SPEC_MOST or len(zone) > ZONE_MOST or catchup not in CATCHUP_NAMES or paused not in {0, 1}:
        return None
    if not 0 <= since < ticks.TIME_END or set(map(type, options)) - {bytes}:
        return None
    saying = Saying(spec, zone, queue, body, options)
    saying.catchup, saying.paused, saying.since = catchup, paused == 1, since
    return saying


def is_schedule(entry: Entry) -> bool:
    """Whether an entry can be a schedule. One whose spec or zone is not known here is kept, and does not fire here."""
    _, name, field = entry.key
    return 0 < len(name) <= NAME_MOST and not field and (bool(entry.deleted) or decode(entry.value) is not None)


def is_tick(entry: Entry) -> bool:
    """Whether an entry can be the last tick of a schedule."""
    _, name, field = entry.key
    if not 0 < len(name) <= NAME_MOST or field:
        return False
    return bool(entry.deleted) or (entry.value.isdigit() and len(entry.value) <= 12)


def is_ready(node: "Node", entry: Entry) -> bool:
    """It can take effect at any time."""
    del node, entry
    return True


def has_changed(node: "Node", entry: Entry, now_ms: int) -> None:
    """The registry has noted the name."""
    del node, entry, now_ms


def find(node: "Node", name: bytes) -> Saying | None:
    """What the schedule of this name says, if there is one."""
    entry = node.registry.get((SCHEDULE, name, b""))
    return None if entry is None or entry.deleted else decode(entry.value)


def slot_of(name: bytes) -> bytes:
    """What the order of nodes for a schedule follows from."""
    return blake2b(name, digest_size=8).digest()


def wall_s(node: "Node") -> int:
    """The time of the wall clock in seconds."""
    return node.host.wall_us() // 1_000_000


def last_tick(node: "Node", name: bytes) -> int:
    """The last tick that was fired, as all nodes know it; 0: none."""
    entry = node.registry.get((LAST_TICK, name, b""))
    return 0 if entry is None or entry.deleted else int(entry.value)


def refresh(node: "Node") -> None:
    """Look at the schedules whose entries have changed, so many at once."""
    names = node.registry.schedules
    for _ in range(min(len(names), REFRESH_MOST)):
        take(node, names.popitem(last=False)[0])


def take(node: "Node", name: bytes) -> None:
    """Have this node know what the entries of this name say."""
    schedules = node.schedules
    saying = find(node, name)
    if saying is None:
        schedules.drop(name)
        return
    schedule = schedules.by_name.get(name)
    if schedule is None:
        schedule = Schedule(name, slot_of(name), node.beat_ms)
        schedules.add(schedule)
    found = ticks.read(saying.spec, saying.zone)
    schedule.ticks = found if isinstance(found, Ticks) else None
    if schedule.said_since != saying.since:
        # The clock of the node that has set it may be ahead. Here it was set now, at the latest.
        schedule.said_since, schedule.skipped, schedule.done = saying.since, 0, 0
        schedule.since = min(saying.since, wall_s(node))
    schedule.catchup, schedule.paused = saying.catchup, saying.paused
    schedules.look_at(schedule)
