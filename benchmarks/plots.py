"""Draws plots as PNG and SVG with matplotlib (benchmarks/requirements.txt)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from report import Figure, Plot

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "dsh-time"  # the same ids each time
mpl.rcParams["svg.fonttype"] = "none"  # text stays text

from matplotlib import pyplot  # noqa: E402 the backend is chosen first

Axes = Any


def draw(plot: Plot, title: str, path: Path) -> None:
    """Write `path`.png and `path`.svg."""
    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    positions = list(dict.fromkeys(position for points in plot.series.values() for position in points))
    if all(isinstance(position, int | float) for position in positions):
        _lines(axes, plot, first=min(positions, key=float))
    else:
        _bars(axes, plot, [str(position) for position in positions])
    axes.set_title(title)
    if len(plot.series) > 1:
        figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


def _lines(axes: Axes, plot: Plot, first: float | str) -> None:
    for name, points in plot.series.items():
        values = list(points.values())
        middle = [value.median for value in values]
        axes.errorbar(list(points), middle, yerr=_spread(values), marker="o", capsize=3, label=name)
    axes.set_xscale("symlog" if first == 0 else "log")
    axes.set_yscale("log" if plot.log else "linear")
    axes.set_xlabel(plot.position)
    axes.set_ylabel(plot.value)
    axes.grid(visible=True, axis="y", alpha=0.3)


def _bars(axes: Axes, plot: Plot, names: list[str]) -> None:
    """Lie down, so that names have room."""
    height = 0.8 / len(plot.series)
    for index, (name, points) in enumerate(plot.series.items()):
        values = list(points.values())
        places = [names.index(str(position)) + (index - (len(plot.series) - 1) / 2) * height for position in points]
        axes.barh(places, [value.median for value in values], height, xerr=_spread(values), capsize=2, label=name)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log" if plot.log else "linear")
    axes.set_xlabel(plot.value)
    axes.grid(visible=True, axis="x", alpha=0.3)


def _spread(values: list[Figure]) -> list[list[float]]:
    return [[value.median - value.low for value in values], [value.high - value.median for value in values]]
