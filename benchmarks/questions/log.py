"""What the log costs beside the system calls and the decoding it cannot do without."""

from __future__ import annotations

from typing import Any

from processes import Processes
from report import Answer, Bar, Figure, Plot, Table, figure

#: Events that a turn of the workload logs.
EVENTS_PER_TURN = 11
MESSAGES_PER_TURN = 4
_READERS = {
    "untyped": "untyped decoding into a list that is kept",
    "scan": "scan: every line verified, nothing kept",
    "open": "open: verified and folded (host and time-reminder)",
}


def measure(processes: Processes) -> dict[str, Any]:
    """Return times of writing and reading."""
    plan = processes.plan
    root = processes.work / "stored-log"
    processes.ours("cells.turn", "written", "seed", root, plan.events // EVENTS_PER_TURN * MESSAGES_PER_TURN)
    found: dict[str, Any] = {
        mode: processes.ours("cells.log", mode, processes.work / f"log-{mode}", plan.turns * 20)
        for mode in ("append", "sync")
    }
    for _ in range(plan.reads):
        for reader in _READERS:
            found.setdefault(reader, []).append(processes.ours("cells.log", reader, root))
    return found


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the one answer."""
    writing = {
        what: {mode: figure(results[mode][side]) for mode in ("append", "sync")}
        for what, side in (("ours", "ours"), ("bare system calls", "bare"))
    }
    rows = [
        ["append one event of 400 bytes (bare: os.write)", *(str(writing[name]["append"]) for name in writing)],
        ["the same and sync (bare: and fdatasync)", *(str(writing[name]["sync"]) for name in writing)],
    ]
    reading = {reader: figure([run["ms"] for run in results[reader]]) for reader in _READERS}
    events = results["open"][0]["events"]
    grown = {reader: figure([run["grown"] / run["bytes"] for run in results[reader]]) for reader in _READERS}
    read_rows = [
        [text, str(reading[reader]), str(_per_event(reading[reader], events)), str(grown[reader])]
        for reader, text in _READERS.items()
    ]
    tables = [
        Table("Writing (µs)", ["", *writing], rows),
        Table(
            f"Reading {events:,} events, {results['open'][0]['bytes'] / 1e6:.1f} MB, the collector on",
            ["", "ms", "µs per event", "memory after it / file"],
            read_rows,
        ),
    ]
    bars = [
        Bar(
            f"cold open of {events:,} events / untyped decoding",
            reading["open"].median / reading["untyped"].median,
            2.5,
        ),
        Bar("memory after that open / file", grown["open"].median, 2),
    ]
    plot = Plot(
        "µs per event", "", {"": {name: _per_event(value, events) for name, value in reading.items()}}, log=False
    )
    return [Answer("log", "The log", tables, plot, bars)]


def _per_event(value: Figure, events: int) -> Figure:
    return Figure(value.median * 1000 / events, value.low * 1000 / events, value.high * 1000 / events)
