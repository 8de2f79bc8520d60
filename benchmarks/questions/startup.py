"""How long programs and imports take to start, and the memory they hold then; the peers' imports beside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from processes import HERE, Processes
from report import Answer, Bar, Figure, Plot, Table, figure

BARE = "bare interpreter"
VERSION, RUN = "dsh-time --version", "dsh-time run, demo model"
_IMPORTS = {
    "openai-agents": "from agents import Agent, Runner, SQLiteSession",
    "pydantic-ai": "from pydantic_ai import Agent",
    "langgraph": "from langchain.agents import create_agent; from langgraph.checkpoint.sqlite import SqliteSaver",
    "llm": "import llm",
}


def measure(processes: Processes) -> dict[str, Any]:
    """Return ms, ms of processor time, and peak resident memory (bytes) of each command, taken in turns."""
    python = Path(sys.executable)
    script = python.parent / "dsh-time"
    commands: dict[str, list[str | Path]] = {
        BARE: [python, "-c", "pass"],
        "import dsh_time.harness": [python, "-c", "import dsh_time.harness"],
    }
    if script.exists() and (HERE.parent / "dsh_time" / "cli").exists():
        home = processes.folder("home")
        commands[VERSION] = [script, "--version"]
        commands[RUN] = [script, "--home", home, "run", "What time is it?"]
    if processes.peers_wanted:
        for name, statement in _IMPORTS.items():
            commands[f"import {name}"] = [processes.peer(name), "-c", statement]
    found: dict[str, Any] = {name: {"ms": [], "cpu": [], "memory": []} for name in commands}
    processes.say("start-up of " + ", ".join(commands))
    for _ in range(processes.plan.reads):
        for name, command in commands.items():
            for what, value in _started(command, processes.work).items():
                found[name][what].append(value)
    return found


def _started(command: list[str | Path], folder: Path) -> dict[str, float]:
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    taken = (time.perf_counter() - started) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    return {"ms": taken, "cpu": (usage.ru_utime + usage.ru_stime) * 1000, "memory": usage.ru_maxrss * 1024}


def answers(results: dict[str, Any]) -> list[Answer]:
    """Return the one answer."""
    took: dict[float | str, Figure] = {name: figure(values["ms"]) for name, values in results.items()}
    memory = {name: figure([value / 1e6 for value in values["memory"]]) for name, values in results.items()}
    used = {name: figure(values["cpu"]) for name, values in results.items()}
    rows = [[name, str(took[name]), str(used[name]), str(memory[name])] for name in results]
    table = Table("Starting a process", ["", "ms", "ms of processor time", "peak resident MB"], rows)
    bars = [
        Bar(f"{name}, over the bare interpreter (ms)", took[name].median - took[BARE].median, limit)
        for name, limit in ((VERSION, 120), (RUN, 300))
        if name in took
    ]
    return [Answer("startup", "Import and start-up", [table], Plot("ms", "", {"": took}), bars)]
