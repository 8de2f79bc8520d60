"""Runs one contender in a process of its own and prints what it measured as one JSON object.

    python -m peers.llm seed ROOT MESSAGES        store so many messages, not measured
    python -m peers.llm turns ROOT MOST SECONDS   turns on the stored session: ms, bytes written and kept
    python -m peers.llm cold ROOT                 open the stored session and run one turn: ms (imports done before)

Only the standard library is used, because the peers' environments run this too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

#: Runs the turn of this number.
Turn = Callable[[int], Awaitable[None]]


class Contender(Protocol):
    """What each contender gives."""

    async def seed(self, root: Path, messages: int) -> None:
        """Store a session of so many messages below `root`."""
        ...

    async def open(self, root: Path) -> Turn:
        """Open the session that was stored below `root`."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...


def written() -> int:
    """Return how many bytes this process has passed to write calls."""
    rows = dict(row.split(": ") for row in Path("/proc/self/io").read_text().splitlines())
    return int(rows["wchar"])


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    rows = dict(row.split(":") for row in Path("/proc/self/status").read_text().splitlines())
    return int(rows["VmRSS"].split()[0]) * 1024


def on_disk(root: Path) -> int:
    """Return the bytes of all files below `root`, write-ahead logs of databases left out."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm"))
    return sum(path.stat().st_size for path in files)


def emit(**values: object) -> None:
    """Print the result of this process."""
    print(json.dumps(values))


async def _turns(contender: Contender, root: Path, most: int, seconds: float) -> None:
    before = on_disk(root)
    turn = await contender.open(root)
    await turn(0)
    times: list[float] = []
    sizes: list[int] = []
    end = time.perf_counter() + seconds
    while len(times) < most and (len(times) < 3 or time.perf_counter() < end):
        bytes_before, started = written(), time.perf_counter()
        await turn(len(times) + 1)
        times.append((time.perf_counter() - started) * 1000)
        sizes.append(written() - bytes_before)
    await contender.close()
    emit(ms=times, written=sizes, disk=(on_disk(root) - before) / (len(times) + 1), rss=resident())


async def _cold(contender: Contender, root: Path) -> None:
    started = time.perf_counter()
    turn = await contender.open(root)
    await turn(1)
    taken = (time.perf_counter() - started) * 1000
    await contender.close()
    emit(ms=taken, rss=resident())


def main(contender: Contender) -> None:
    """Do what the command line says."""
    mode, root = sys.argv[1], Path(sys.argv[2])
    if mode == "seed":
        root.mkdir(parents=True, exist_ok=True)
        asyncio.run(contender.seed(root, int(sys.argv[3])))
    elif mode == "turns":
        asyncio.run(_turns(contender, root, int(sys.argv[3]), float(sys.argv[4])))
    else:
        asyncio.run(_cold(contender, root))
