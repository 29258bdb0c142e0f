"""When a schedule is due: its spec and its time zone as a row of ticks. A tick is a second of UTC.

A spec has five fields (minute, hour, day of the month, month, day of the week), or is one of `NAMES`, or `@every` with
a duration. `cronsim` reads the fields. A spec that names hours means local time: a time that comes twice, as clocks are
set back, counts once, at first; one that clocks skip counts at the first valid time after it. A spec for every hour
means each hour that passes, so it goes on evenly whatever clocks do. `@every` counts from 1970 in UTC, so that all
nodes agree.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

#: Bytes of a spec, and of the name of a zone.
SPEC_MOST: Final = 256
ZONE_MOST: Final = 64
#: Specs with a name.
NAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY: Final = "@every"
UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
DURATION: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
#: The longest duration of @every, in seconds: a year.
EVERY_MOST: Final = 366 * 86_400
#: Times of day that a spec with fields can have are so far apart at least, in seconds.
FIELDS_LEAST: Final = 60
#: Times from here on, in seconds since 1970, are beyond what calendars here know (the year 9000).
TIME_END: Final = 221_845_392_000
#: Whoever looks for ticks in the past looks back so far, in seconds.
LOOK_BACK: Final = 30 * 366 * 86_400
#: The zone, with its names, whose clocks are set by half an hour.
HALF_HOURS: Final = frozenset({b"Australia/Lord_Howe", b"Australia/LHI"})
#: Specs that are remembered.
KNOWN_MOST: Final = 20_000

BAD_SPEC: Final = b"ERR the spec must have five fields (minute hour day month weekday), or be @hourly or its like: '%b'"
BAD_FIELD: Final = b"ERR %b in the spec '%b'"
BAD_EVERY: Final = b"ERR @every needs a duration such as 30s, 5m or 1h30m: from 1s to 366d"
BAD_ZONE: Final = b"ERR unknown time zone '%b': it must be a name such as Europe/Berlin"
NEVER_DUE: Final = b"ERR this spec is never due"


class Ticks:
    """The ticks of one spec in one zone, in seconds since 1970. All that have the same spec share one object.

    ``least_s`` is the least time between two ticks: what is known without looking. ``minute``: of what the fields say,
    only this minute of each hour counts.
    """

    __slots__ = ("_asked_s", "_fields", "_found_s", "_minute", "_zone", "every_s", "least_s")

    def __init__(self, fields: str, zone: tzinfo, every_s: int, minute: int | None = None) -> None:
        self._fields = fields
        self._minute = minute
        self._zone = zone
        self.every_s = every_s
        self.least_s = every_s or FIELDS_LEAST
        self._asked_s = -1
        self._found_s = 0

    def after(self, time_s: int) -> int:
        """The first tick after ``time_s``; 0: there is none.

        What was found last is the answer for all times up to it: a spec that is rarely due costs its long search once.
        """
        if not (0 <= self._asked_s <= time_s and (time_s < self._found_s or not self._found_s)):
            self._found_s = next(self.walk(time_s), 0)
            self._asked_s = time_s
        return self._found_s

    def walk(self, time_s: int) -> Iterator[int]:
        """All ticks after ``time_s``, in order."""
        if not 0 <= time_s < TIME_END:
            return
        if self.every_s:
            tick = time_s - time_s % self.every_s
            while True:
                tick += self.every_s
                yield tick
        yield from self._walk_fields(time_s)

    def _walk_fields(self, time_s: int) -> Iterator[int]:
        last = time_s
        try:
            for moment in CronSim(self._fields, datetime.fromtimestamp(time_s, self._zone)):
                tick = int(moment.timestamp())
                if tick > last and self._minute in {None, moment.minute}:
                    last = tick
                    yield tick
        except (OverflowError, ValueError):  # the end of the calendar
            return

    def back(self, time_s: int, count: int) -> int:
        """The ``count``-th of the ticks before ``time_s``, counted backwards; the earliest if they are fewer; 0: none.

        Looks back over some decades at most.
        """
        if self.every_s:
            last = (time_s - 1) // self.every_s
            return max(last - count + 1, min(last, 1)) * self.every_s
        span = self.least_s * count
        while True:
            begin = max(time_s - span, 0)
            found: list[int] = []
            for tick in self.walk(begin):
                if tick >= time_s:
                    break
                found.append(tick)
                if len(found) > 2 * count:
                    del found[:count]
            if len(found) >= count:
                return found[-count]
            if not begin or span > LOOK_BACK:
                return found[0] if found else 0
            span *= 2

    def some(self, time_s: int, count: int, span_s: int) -> list[int]:
        """Up to ``count`` ticks after ``time_s``, none of them later than ``span_s`` after it but the first."""
        ticks = list(islice(self.walk(time_s), 1))
        for tick in islice(self.walk(ticks[0]), count - 1) if ticks else ():
            if tick > time_s + span_s:
                break
            ticks.append(tick)
        return ticks


_known: dict[tuple[bytes, bytes], Ticks] = {}


def read(spec: bytes, zone: bytes) -> Ticks | bytes:
    """What a spec says in this zone (nothing: UTC), or the text of an error."""
    known = _known.get((spec, zone))
    if known is not None:
        return known
    found = _read(spec, zone)
    if isinstance(found, Ticks):
        if len(_known) >= KNOWN_MOST:
            _known.clear()
        _known[spec, zone] = found
    return found


def _read(spec: bytes, zone: bytes) -> Ticks | bytes:
    place = zone_of(zone)
    if place is None:
        return BAD_ZONE % printable(zone)
    if len(spec) > SPEC_MOST or not spec.isascii():
        return BAD_SPEC % printable(spec)
    words = spec.decode("ascii").split()
    first = words[0].lower() if words else ""
    if first == EVERY:
        every_s = duration(words[1:])
        return Ticks("", UTC, every_s) if every_s else BAD_EVERY
    if len(words) == 1:
        words = NAMES.get(first, "").split()
    try:
        return _of_fields(words, place, is_halved=zone in HALF_HOURS) if len(words) == 5 else BAD_SPEC % printable(spec)
    except (CronSimError, ValueError, AssertionError) as wrong:
        what = str(wrong).encode()  # such as "Bad minute"
        return BAD_FIELD % (printable(what).lower() or b"a bad field", printable(spec))


def _of_fields(words: list[str], place: tzinfo, *, is_halved: bool) -> Ticks | bytes:
    """Five fields as ticks. What begins with a star is written out: `cronsim` would not take it for local time.

    With one minute of each hour `cronsim` goes on by whole hours, past clocks that are set back by half of one. With
    two it looks at each minute, which takes longer.
    """
    minute, hour = words[0], words[1]
    only = None
    now = datetime.fromtimestamp(0, UTC)
    seen = CronSim(" ".join(words), now)
    if len(seen.hours) == 24:
        hour = "*"
        if len(seen.minutes) == 1 and is_halved:
            [only] = seen.minutes
            minute = f"{only},{(only + 30) % 60}"
    else:
        minute = "0-59" + minute[1:] if minute.startswith("*") else minute
        hour = "0-23" + hour[1:] if hour.startswith("*") else hour
    ticks = Ticks(" ".join([minute, hour, *words[2:]]), place, 0, only)
    return ticks if next(CronSim(" ".join(words), now), None) is not None else NEVER_DUE


def duration(words: list[str]) -> int:
    """The seconds of @every; 0 if this is no duration, or too long."""
    found = DURATION.fullmatch("".join(words).lower())
    if found is None:
        return 0
    seconds = sum([int(number or 0) * unit for number, unit in zip(found.groups(), UNITS.values(), strict=True)])
    return seconds if seconds <= EVERY_MOST else 0


def zone_of(name: bytes) -> tzinfo | None:
    """The time zone with this name; None if there is none."""
    if name in {b"", b"UTC"}:
        return UTC
    if len(name) > ZONE_MOST:
        return None
    try:
        return ZoneInfo(name.decode("ascii"))
    except (KeyError, ValueError, OSError):
        return None


def printable(words: bytes) -> bytes:
    """What somebody has sent, fit for an error reply."""
    return bytes([byte if 32 <= byte < 127 else 63 for byte in words[:80]])
