"""A durable turn beside its parts: `python -m cells.durable ROOT TURNS`. Prints ms of each, interleaved in one process.

The parts are the same turn without syncs, and the bare cost of its barriers: as many bytes in as many writes, each
followed by fdatasync, on a file of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import workload
from driver import emit
from ours import SESSION, Bench, CountedSyncs, NoSync, log_bytes


async def run(root: Path, turns: int) -> None:
    """Measure."""
    counted = CountedSyncs()
    synced, written = Bench(root / "synced", counted).harness(), Bench(root / "written", NoSync()).harness()
    agents = {"synced": synced.create(SESSION), "written": written.create(SESSION)}
    for agent in agents.values():
        await agent.prompt(workload.question(0))
    before = log_bytes(root / "synced")
    counted.count = 0
    await agents["synced"].prompt(workload.question(0))
    barriers, size = counted.count, log_bytes(root / "synced") - before
    descriptor = os.open(root / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    times: dict[str, list[float]] = {"synced": [], "written": [], "bare": []}
    for number in range(turns):
        for name, agent in agents.items():
            started = time.perf_counter()
            await agent.prompt(workload.question(number))
            times[name].append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        for _ in range(barriers):
            os.write(descriptor, b"x" * (size // barriers))
            os.fdatasync(descriptor)
        times["bare"].append((time.perf_counter() - started) * 1000)
    os.close(descriptor)
    await synced.close()
    await written.close()
    emit(ms=times, barriers=barriers)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
