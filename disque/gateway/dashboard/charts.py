"""Charts as SVG, made here: lines over time. The figures of a chart stand in a table behind it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

WIDTH: Final = 720
HEIGHT: Final = 160
#: Room below and at the side for what the axes say.
FOOT: Final = 26
SIDE: Final = 52


class Line(NamedTuple):
    """One line of a chart: its name, its values from left to right, and its place in the order of colours."""

    name: str
    values: Sequence[float]
    colour: int


class Chart(NamedTuple):
    """A chart as its template draws it: lines as points, and marks as (place, text)."""

    title: str
    lines: list[tuple[Line, str]]
    marks: list[tuple[float, str]]
    times: list[tuple[float, str]]
    rows: list[tuple[str, list[float]]]
    width: int = WIDTH
    height: int = HEIGHT
    side: int = SIDE
    foot: int = FOOT


def nice(value: float) -> float:
    """The next round number that is not below ``value``: 1, 2 or 5 times a power of ten."""
    step = 1.0
    while step < value:
        for factor in (2, 2.5, 2):
            if step >= value:
                break
            step *= factor
    return step


def chart(title: str, lines: Sequence[Line], labels: Sequence[str], *, rows_most: int = 60) -> Chart:
    """Lines over the times of ``labels``, from left to right; each line has as many values."""
    most = nice(max([1.0, *(value for line in lines for value in line.values)]))
    steps = max(1, len(labels) - 1)
    inner_w, inner_h = WIDTH - SIDE, HEIGHT - FOOT

    def x(at: int) -> float:
        return SIDE + inner_w * at / steps

    def y(value: float) -> float:
        return 4 + (inner_h - 4) * (1 - value / most)

    drawn = [(line, " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(line.values))) for line in lines]
    marks = [(y(most * part), text_of(most * part)) for part in (0, 0.5, 1)]
    wanted = sorted({0, len(labels) // 2, len(labels) - 1}) if labels else []
    times = [(x(at), labels[at]) for at in wanted]
    rows = [(label, [line.values[at] for line in lines]) for at, label in enumerate(labels)]
    return Chart(title, drawn, marks, times, rows[-rows_most:][::-1])


def text_of(value: float) -> str:
    """A number at an axis."""
    for least, unit in ((1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:g}{unit}"
    return f"{value:g}"
