"""Many sessions in one process: what a turn takes beyond its model, memory, descriptors, and reopening."""

from __future__ import annotations

from typing import Any

from processes import Processes
from report import Answer, Bar, Plot, Table, figure, percentile, short

#: Seconds between two turns of a session: none, and so many that each starts about one turn a second.
_PAUSES = {"turn after turn": 0, "a turn a second": 0.6}

_TOOLS = {"async": "async tool", "function": "plain function"}
#: Whether syncs are real, and what the tool is. Real syncs need threads anyway.
_CASES = (("nosync", "async"), ("nosync", "function"), ("sync", "function"))


def measure(processes: Processes) -> dict[str, Any]:
    """Return each case at each pace."""
    plan = processes.plan
    results = {}
    for mode, tool in _CASES:
        count = plan.sessions[mode == "sync"]
        for pace, pause_s in _PAUSES.items():
            name = f"{count:,} {'durable ' if mode == 'sync' else ''}sessions, {_TOOLS[tool]}, {pace}"
            arguments = (processes.folder("sessions"), count, plan.session_turns, pause_s, mode, tool)
            results[name] = processes.ours("cells.sessions", *arguments)
    return results


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the one answer."""
    rows = [
        [
            name,
            short(case["per_second"]),
            short(percentile(case["ms"], 50)),
            short(percentile(case["ms"], 99)),
            short(case["cpu_ms"]),
            short(case["memory"] / 1000),
            short(case["descriptors"]),
            str(figure(case["reopen"])),
        ]
        for name, case in results.items()
    ]
    columns = [
        "",
        "turns per second",
        "harness ms p50",
        "p99",
        "CPU ms per turn",
        "kB per session",
        "descriptors",
        "reopen ms",
    ]
    table = Table("Sessions at the same time, each turn with two answers of 200 ms on average", columns, rows)
    bars = [Bar(f"harness time p99, {name} (ms)", percentile(case["ms"], 99), 50) for name, case in results.items()]
    plot = Plot(
        "ms of harness time per turn",
        "",
        {"": {name: figure(case["ms"]) for name, case in results.items()}},
        log=False,
    )
    return [Answer("sessions", "Many sessions", [table], plot, bars)]
