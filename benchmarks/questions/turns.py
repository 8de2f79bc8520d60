"""What a turn costs as a session grows, what opening it again costs, and what it keeps on disk; with the peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

import workload
from processes import Processes
from report import Answer, Bar, Figure, Plot, Table, figure, short

OURS, DURABLE, REMINDER = "dsh-time, no sync", "dsh-time", "dsh-time + time-reminder, no sync"
FLOOR, FLOOR_SYNCED = "floor: JSONL", "floor: JSONL + 4 fdatasync"
PEERS = {
    "openai-agents, SQLiteSession": ("openai-agents", "peers.openai_agents"),
    "pydantic-ai, history file": ("pydantic-ai", "peers.pydantic_ai"),
    "LangGraph, SqliteSaver": ("langgraph", "peers.langgraph"),
    "llm, log store": ("llm", "peers.llm"),
}
#: Variant, and the one that stores its session.
_VARIANTS = {
    OURS: ("written", "written"),
    DURABLE: ("synced", "written"),
    REMINDER: ("reminder", "written"),
    FLOOR: ("floor", "floor"),
    FLOOR_SYNCED: ("floor-synced", "floor"),
}

#: A turn that calls no tool stores the user's message and the answer.
_MESSAGES_WITHOUT_TOOL = 2

Cells = dict[str, dict[str, Any]]


@frozen
class _Contender:
    run: Callable[..., dict[str, Any]]
    #: Whose stored sessions it runs on.
    stored: str
    sizes: tuple[int, ...]


def _contenders(processes: Processes) -> dict[str, _Contender]:
    plan = processes.plan
    found = {
        name: _Contender(partial(processes.ours, "cells.turn", variant), stored, plan.our_sizes)
        for name, (variant, stored) in _VARIANTS.items()
    }
    for name, (requirements, module) in PEERS.items() if processes.peers_wanted else ():
        python = processes.peer(requirements)
        found[name] = _Contender(partial(processes.run, python, module), requirements, plan.sizes)
    return found


def measure(processes: Processes) -> dict[str, Any]:
    """Return, for each contender and size, what each turn and each cold open took."""
    plan = processes.plan
    contenders = _contenders(processes)
    cells: Cells = {name: {} for name in contenders}
    stored: dict[tuple[str, int], Path] = {}
    for name, contender in contenders.items():
        for size in contender.sizes:
            root = processes.work / f"stored-{contender.stored}-{size}"
            if (contender.stored, size) not in stored:
                contender.run("seed", root, size)
            stored[contender.stored, size] = root
            cells[name][str(size)] = {"ms": [], "written": [], "disk": [], "cold": []}
    for _ in range(plan.repeats):
        for name, contender in contenders.items():
            for size in contender.sizes:
                cell = cells[name][str(size)]
                source = stored[contender.stored, size]
                turns = contender.run("turns", processes.copy(source, "turns"), plan.turns, plan.seconds)
                cell["ms"] += turns["ms"]
                cell["written"] += turns["written"]
                cell["disk"].append(turns["disk"])
                cell["cold"].append(contender.run("cold", processes.copy(source, "cold"))["ms"])
    durable = processes.ours("cells.durable", processes.folder("durable"), plan.turns * 3)
    source = stored[_VARIANTS[OURS][1], max(plan.our_sizes)]
    others = {
        variant: processes.ours(
            "cells.turn", variant, "turns", processes.copy(source, "turns"), plan.turns, plan.seconds
        )
        for variant in ("plain", "short-query")
    }
    parts = processes.ours("cells.bytes", source)
    return {"cells": cells, "durable": durable, "others": others, "bytes": parts}


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the three answers."""
    cells: Cells = results["cells"]
    return [_turn(cells, results["durable"]), _cold(cells), _disk(cells, results["others"], results["bytes"])]


def _figures(cells: Cells, what: str) -> dict[str, dict[float | str, Figure]]:
    return {name: {int(size): figure(cell[what]) for size, cell in sizes.items()} for name, sizes in cells.items()}


def _sizes(cells: Cells) -> list[int]:
    return sorted({int(size) for sizes in cells.values() for size in sizes})


def _turn(cells: Cells, durable: dict[str, Any]) -> Answer:
    took, written = _figures(cells, "ms"), _figures(cells, "written")
    sizes = _sizes(cells)
    rows = [
        [name, *(str(took[name].get(size, "")) for size in sizes), _growth(took[name]), _kilobytes(written[name])]
        for name in cells
    ]
    columns = ["", *(f"ms at {size:,} messages" for size in sizes), "µs per stored message", "kB written per turn"]
    parts = {name: figure(values) for name, values in durable["ms"].items()}
    part_rows = [
        ["durable turn", str(parts["synced"])],
        ["the same without sync", str(parts["written"])],
        [f"its {durable['barriers']} barriers: write and fdatasync, nothing else", str(parts["bare"])],
    ]
    tables = [
        Table("A turn, in a session of so many stored messages", columns, rows),
        Table("A durable turn and its parts (ms, interleaved)", ["", "ms"], part_rows),
    ]
    least, most = min(sizes), max(sizes)
    ours = took[OURS]
    ratio = parts["synced"].median / (parts["written"].median + parts["bare"].median)
    bars = [
        Bar("durable turn / (its barriers + turn without sync)", ratio, 1.3),
        Bar(f"turn at {most:,} / turn at {least:,} messages", ours[most].median / ours[least].median, 1.5),
    ]
    if (10_000 in ours) and (peers := [took[name][10_000] for name in PEERS if name in took]):
        fastest = min(peer.median for peer in peers)
        bars += [
            Bar("turn at 10,000 messages / the fastest peer's", ours[10_000].median / fastest, 1 / 300),
            Bar(f"turn at 10,000 / turn at {least:,} messages", ours[10_000].median / ours[least].median, 1.3),
        ]
    plot = Plot("ms per turn", "messages stored before it", took)
    return Answer("turn", "A turn as the session grows", tables, plot, bars)


def _growth(points: dict[float | str, Figure]) -> str:
    if len(points) < 2:
        return ""
    (first, low), *_, (last, high) = ((float(size), value) for size, value in points.items())
    return short((high.median - low.median) * 1000 / (last - first))


def _kilobytes(points: dict[float | str, Figure]) -> str:
    return " / ".join(short(value.median / 1000) for value in points.values())


def _cold(cells: Cells) -> Answer:
    took = _figures(cells, "cold")
    sizes = _sizes(cells)
    rows = [[name, *(str(took[name].get(size, "")) for size in sizes)] for name in cells]
    table = Table(
        "Opening a stored session and running one turn, imports done before (ms)",
        ["", *(f"{size:,} messages" for size in sizes)],
        rows,
    )
    plot = Plot("ms", "stored messages", took)
    return Answer("cold", "Cold open plus one turn", [table], plot)


def _disk(cells: Cells, others: dict[str, Any], parts: dict[str, float]) -> Answer:
    kept = {
        name: {size: _per_message(value) for size, value in points.items()}
        for name, points in _figures(cells, "disk").items()
    }
    sizes = _sizes(cells)
    rows = [
        [name, *(short(kept[name][size].median) if size in kept[name] else "" for size in sizes)]
        for name in cells
        if name not in (OURS, FLOOR_SYNCED)
    ]
    left = [""] * (len(sizes) - 1)
    rows.append(
        ["dsh-time, call with 40 characters", *left, short(others["short-query"]["disk"] / workload.MESSAGES_PER_TURN)]
    )
    rows.append(["dsh-time, no tool call", *left, short(others["plain"]["disk"] / _MESSAGES_WITHOUT_TOOL)])
    table = Table(
        "Bytes that stay on disk per message of 300 characters",
        ["", *(f"at {size:,} messages" for size in sizes)],
        rows,
    )
    shares = sorted(parts.items(), key=lambda part: -part[1])
    anatomy = Table(
        "What the bytes of one message in dsh-time's log are",
        ["", "bytes per message"],
        [[name, short(size)] for name, size in shares],
    )
    plot = Plot("bytes per message", "stored messages", {name: kept[name] for name in cells if name != OURS})
    largest = kept[DURABLE][max(kept[DURABLE], key=float)]
    bars = [Bar("bytes on disk per message", largest.median, 720)]
    return Answer("disk", "Disk per message", [table, anatomy], plot, bars)


def _per_message(value: Figure) -> Figure:
    each = workload.MESSAGES_PER_TURN
    return Figure(value.median / each, value.low / each, value.high / each)
