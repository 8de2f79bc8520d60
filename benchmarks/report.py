"""What a question comes to: tables, plots and bars, from lists of measured values."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from attrs import field, frozen


@frozen
class Figure:
    """The median of measured values, and the quartiles around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.median)} ({short(self.low)} to {short(self.high)})"


def figure(values: Sequence[float]) -> Figure:
    """Return the median and quartiles."""
    if len(values) == 1:
        return Figure(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(median, low, high)


def short(value: float) -> str:
    """Write a number with about three significant digits, and a thousands separator."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 5
    return f"{value:,.{digits}f}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the values do not pass."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


@frozen
class Table:
    """Rows of text under columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [f"### {self.title}", "", *map(_row, [self.columns, ["---"] * len(self.columns), *self.rows])]
        return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@frozen
class Bar:
    """What a figure should be: at most `limit` (at least, when `least`)."""

    text: str
    value: float
    limit: float
    unit: str = ""
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether it is so."""
        return self.value >= self.limit if self.least else self.value <= self.limit


def bars_table(bars: Sequence[Bar]) -> Table:
    """Return all bars in one table."""
    rows = [
        [bar.text, f"{'≥' if bar.least else '≤'} {short(bar.limit)} {bar.unit}".strip(), short(bar.value), _met(bar)]
        for bar in bars
    ]
    return Table("Bars", ["figure", "bar", "measured", "met"], rows)


def _met(bar: Bar) -> str:
    return "yes" if bar.met else "**no**"


@frozen
class Plot:
    """Series of figures over the same positions: lines over numbers, bars over names.

    `value` and `position` say what the axes are, `log` makes that of the figures logarithmic.
    """

    value: str
    position: str
    series: Mapping[str, Mapping[float | str, Figure]]
    log: bool = True


@frozen
class Answer:
    """What one question came to."""

    key: str
    title: str
    tables: Sequence[Table]
    plot: Plot | None = None
    bars: Sequence[Bar] = field(factory=tuple)
    notes: Sequence[str] = field(factory=tuple)
