"""What plugins cost: a step with 0 to 8 of them, their calls beside plain pluggy's, and a swap."""

from __future__ import annotations

from typing import Any

from processes import Processes
from report import Answer, Figure, Plot, Table, figure


def measure(processes: Processes) -> dict[str, Any]:
    """Return all times."""
    return processes.ours("cells.hooks", processes.folder("hooks"), processes.plan.turns)


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the one answer."""
    counts = list(results["step"])
    rows = [
        ["one step, not synced (ms)", *(str(figure(results["step"][count])) for count in counts)],
        ["its two hooks, called our way (µs)", *(str(figure(results["ours"][count])) for count in counts)],
        ["its two hooks, a plain pluggy call (µs)", *(str(figure(results["pluggy"][count])) for count in counts)],
    ]
    swap = figure(results["swap"])
    tables = [
        Table(
            "A step with plugins, each with a section and before_step", ["", *(f"{n} plugins" for n in counts)], rows
        ),
        Table("Swapping one plugin for another (ms)", ["", "ms"], [["swap", str(swap)]]),
    ]
    series: dict[str, dict[float | str, Figure]] = {
        name: {int(count): figure(results[key][count]) for count in counts if count != "0"}
        for name, key in (("ours", "ours"), ("plain pluggy", "pluggy"))
    }
    return [Answer("hooks", "Hooks", tables, Plot("µs for both hooks", "plugins", series))]
