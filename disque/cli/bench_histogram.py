"""Latencies in bounded memory: how long things took, to better than one part in a hundred.

A value of up to 256 ns has a slot of its own. Above that every power of two is cut into 128 slots, so a slot is never
wider than 1/128 of the values in it, whatever their size. All of the 63 bits that a clock can give fit into 7,424
slots: a run of a minute and a run of a week need the same memory, and two histograms add up slot by slot.
"""

from typing import Final

_SUB_BITS: Final = 7
_LINEAR: Final = 1 << (_SUB_BITS + 1)
_SLOTS: Final = (63 - _SUB_BITS) * (1 << _SUB_BITS) + (1 << _SUB_BITS)
_NS_PER_MS: Final = 1e6

PERCENTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999))


def slot_of(value_ns: int) -> int:
    """Say which slot counts `value_ns`, which must be 0 or more and below 2**63."""
    if value_ns < _LINEAR:
        return value_ns
    shift = value_ns.bit_length() - _SUB_BITS - 1
    return (shift << _SUB_BITS) + (value_ns >> shift)


def middle_of(slot: int) -> float:
    """Give the value in the middle of a slot, in nanoseconds."""
    if slot < _LINEAR:
        return float(slot)
    shift = (slot >> _SUB_BITS) - 1
    mantissa = (1 << _SUB_BITS) + (slot & ((1 << _SUB_BITS) - 1))
    return (mantissa + 0.5) * (1 << shift)


class Histogram:
    """Counts of durations in nanoseconds. The maximum is kept exactly, the rest to within 0.8 %."""

    __slots__ = ("count", "max_ns", "slots")

    def __init__(self) -> None:
        self.slots: list[int] = [0] * _SLOTS
        self.count = 0
        self.max_ns = 0

    def record(self, value_ns: int) -> None:
        """Count one duration; one below zero (clocks of two processes) counts as zero."""
        # Once a request, so neither slot_of() nor max() is called: the two would be a twentieth of the client's cost.
        shift = value_ns.bit_length() - _SUB_BITS - 1
        if shift > 0:
            self.slots[(shift << _SUB_BITS) + (value_ns >> shift)] += 1
        else:
            self.slots[value_ns if value_ns > 0 else 0] += 1  # noqa: FURB136 - see above
        self.count += 1
        if value_ns > self.max_ns:  # noqa: PLR1730 - see above
            self.max_ns = value_ns

    def merge(self, other: "Histogram") -> None:
        """Add the counts of another histogram to this one."""
        self.slots = [mine + theirs for mine, theirs in zip(self.slots, other.slots, strict=True)]
        self.count += other.count
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ns(self, share: float) -> float:
        """Give the duration that `share` (0 to 1) of all stayed within; 0 when nothing was counted."""
        wanted = max(1, -int(-share * self.count // 1))
        seen = 0
        for slot, count in enumerate(self.slots):
            seen += count
            if count and seen >= wanted:
                return min(middle_of(slot), float(self.max_ns))
        return 0.0

    def summary_ms(self) -> dict[str, float]:
        """Give the percentiles of PERCENTILES and the maximum, in milliseconds."""
        summary = {name: self.percentile_ns(share) / _NS_PER_MS for name, share in PERCENTILES}
        summary["max"] = self.max_ns / _NS_PER_MS
        return {name: round(value, 4) for name, value in summary.items()}
