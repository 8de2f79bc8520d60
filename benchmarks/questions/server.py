"""Cached tokens and seconds on a running OpenAI-compatible server that reports them (--server URL)."""

from __future__ import annotations

from typing import Any

from processes import Processes
from report import Answer, Table, figure


def measure(processes: Processes) -> dict[str, Any] | None:
    """Return what the server reported for each variant; None when there is no server to ask."""
    if processes.server is None:
        return None
    arguments = ("cells.server", processes.folder("server"), processes.server, processes.model)
    return processes.ours(*arguments, 6 if processes.plan.repeats > 1 else 3)


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the one answer."""
    rows = [
        [
            name,
            str(figure([request["input"] for request in requests])),
            str(figure([request["cached"] for request in requests])),
            f"{sum(request['cached'] for request in requests) / sum(request['input'] for request in requests):.1%}",
            str(figure([request["first_ms"] / 1000 for request in requests])),
        ]
        for name, requests in results.items()
    ]
    columns = ["", "input tokens", "of these cached", "share cached", "s to the first output"]
    return [Answer("server", "On a server", [Table("Requests after the first, as the server counted", columns, rows)])]
