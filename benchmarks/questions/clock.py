"""What knowing the time costs: checks, readings, cron, looks at relatives, tokens, and the prompt cache."""

from __future__ import annotations

from typing import Any

from processes import Processes
from report import Answer, Bar, Figure, Plot, Table, figure, short


def measure(processes: Processes) -> dict[str, Any]:
    """Return all times and shares."""
    turns = processes.plan.turns
    return {
        **processes.ours("cells.clock", turns * 5),
        "relatives": processes.ours("cells.relatives", processes.folder("relatives"), turns * 2),
        "prefix": processes.ours("cells.prefix", processes.folder("prefix"), min(50, turns * 2)),
    }


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the four answers."""
    return [_due(results["due"]), _cron(results["cron"]), _relatives(results["relatives"]), _prefix(results["prefix"])]


def _due(due: dict[str, list[float]]) -> Answer:
    took: dict[float | str, Figure] = {name: figure(times) for name, times in due.items()}
    table = Table(
        "time-reminder's hook in one step (µs)", ["mode", "µs"], [[str(name), str(took[name])] for name in took]
    )
    bars = [
        Bar(f"due check, mode {mode}, no reading (µs)", took[mode].median, 30)
        for mode in ("off", "turn", "fine", "cron")
    ]
    bars.append(Bar("mode cron, reading due (µs)", took["cron: reading due"].median, 1000))
    plot = Plot("µs", "", {"": took})
    return Answer("due", "Due checks and readings", [table], plot, bars)


def _cron(cron: dict[str, dict[str, list[float]]]) -> Answer:
    took = {text: {name: figure(times) for name, times in asked.items()} for text, asked in cron.items()}
    names = list(next(iter(took.values())))
    rows = [[f"`{text}`", *(short(took[text][name].median) for name in names)] for text in took]
    table = Table("Next and previous fire, nothing remembered (µs)", ["expression", *names], rows)
    plot = Plot("µs", "", {name: {text: took[text][name] for text in took} for name in names})
    return Answer("cron", "Cron beside croniter and cronsim", [table], plot)


def _relatives(found: dict[str, dict[str, list[float]]]) -> Answer:
    took: dict[str, dict[float | str, Figure]] = {
        state: {int(count): figure(times) for count, times in counts.items()} for state, counts in found.items()
    }
    counts = list(took["live"])
    rows = [[state, *(str(took[state][count]) for count in counts), short(_each(took[state]))] for state in took]
    table = Table(
        "A step that looks for news of its children and finds none (µs)",
        ["children", *(f"{count}" for count in counts), "per child"],
        rows,
    )
    bars = [
        Bar("a live relative without news (µs)", _each(took["live"]), 20),
        Bar("a relative at rest without news (µs)", _each(took["at rest"]), 100),
    ]
    return Answer("relatives", "News of relatives", [table], Plot("µs per step", "children", took), bars)


def _each(points: dict[float | str, Figure]) -> float:
    """What the dearest child costs, of 1, of 10 or of 100."""
    return max((value.median - points[0].median) / float(count) for count, value in points.items() if count)


def _prefix(prefix: dict[str, Any]) -> Answer:
    counted = {name: figure(values) for name, values in prefix["tokens"].items()}
    rows = [
        [
            name,
            f"{share:.1%}",
            f"{short(counted[name].median)} × {len(prefix['tokens'][name])}" if name in counted else "",
        ]
        for name, share in prefix["share"].items()
    ]
    tokenizer = prefix["tokenizer"] or "no tokenizer installed"
    table = Table(
        f"{prefix['steps']} steps: what of each request the next one begins with, and what is told of the time",
        ["", "bytes that stay a prefix", f"tokens × times in the last request ({tokenizer})"],
        rows,
    )
    bars = [
        Bar(f"prefix kept, {name}", share, 1, least=True)
        for name, share in prefix["share"].items()
        if name.startswith("time-reminder")
    ]
    shares: dict[float | str, Figure] = {name: Figure(share, share, share) for name, share in prefix["share"].items()}
    plot = Plot("share of bytes", "", {"": shares}, log=False)
    return Answer("prefix", "What stays cacheable", [table], plot, bars)
