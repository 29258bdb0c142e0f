"""Metrics under names that others have chosen, which the usual library would change: it ends counters in `_total`."""

from typing import Final

#: Label sets of one family; what comes beyond them is not counted.
SETS_MOST: Final = 10_000


class Family:
    """One family: counters, gauges, or a histogram if it has ``buckets``."""

    def __init__(self, name: str, kind: str, labels: tuple[str, ...], buckets: tuple[float, ...] = ()) -> None:
        self.name = name
        self.kind = kind
        self.labels = labels
        self.buckets = buckets
        self._values: dict[tuple[str, ...], list[float]] = {}

    def add(self, labels: tuple[str, ...], value: float = 1.0) -> None:
        """Count."""
        self._of(labels)[0] += value

    def set(self, labels: tuple[str, ...], value: float) -> None:
        """This is how it stands."""
        self._of(labels)[0] = value

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """Sort a value into the buckets: sum, count, then one number for each bucket."""
        found = self._of(labels)
        found[0] += value
        found[1] += 1
        for at, bound in enumerate(self.buckets, 2):
            found[at] += value <= bound

    def _of(self, labels: tuple[str, ...]) -> list[float]:
        found = self._values.get(labels)
        if found is None:
            found = [0.0] * (2 + len(self.buckets))
            if len(self._values) < SETS_MOST:
                self._values[labels] = found
        return found

    def lines(self) -> list[str]:
        """All of it in the text format."""
        head = [f"# HELP {self.name} {self.name}", f"# TYPE {self.name} {self.kind}"]
        return [*head, *[line for labels, values in self._values.items() for line in self._samples(labels, values)]]

    def _samples(self, labels: tuple[str, ...], values: list[float]) -> list[str]:
        if not self.buckets:
            return [f"{self.name}{self._shown(labels)} {number(values[0])}"]
        bounds = [*[number(bound) for bound in self.buckets], "+Inf"]
        counts = [*values[2:], values[1]]
        return [
            *[
                f"{self.name}_bucket{self._shown(labels, le)} {number(one)}"
                for le, one in zip(bounds, counts, strict=True)
            ],
            f"{self.name}_sum{self._shown(labels)} {number(values[0])}",
            f"{self.name}_count{self._shown(labels)} {number(values[1])}",
        ]

    def _shown(self, values: tuple[str, ...], le: str = "") -> str:
        pairs = [*zip(self.labels, values, strict=True), *([("le", le)] if le else [])]
        return "{" + ",".join([f'{name}="{escaped(value)}"' for name, value in pairs]) + "}"


def number(value: float) -> str:
    """A number without a fraction that says nothing."""
    return str(int(value)) if value == int(value) else repr(value)


def escaped(value: str) -> str:
    """The value of a label."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
