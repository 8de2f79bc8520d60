"""Print what a step costs in a session of 100,000 events beside one of 100: `python benchmarks/step_cost.py`.

A step is one model request (the model answers at once) with what it logs; nothing is synced, so that the disk's speed
is left out. The two sessions take turns, one turn each, and the medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import workload
from ours import SESSION, Bench, NoSync, seed

#: A turn of the workload logs so many events and has so many steps.
EVENTS_PER_TURN, STEPS_PER_TURN = 11, 2


async def measure(sizes: tuple[int, int], turns: int, installed: tuple[str, ...]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each step, for a session of either number of events."""
    with tempfile.TemporaryDirectory() as folder:
        harnesses = []
        for events in sizes:
            root = Path(folder, str(events))
            await seed(root, events // EVENTS_PER_TURN * workload.MESSAGES_PER_TURN, installed)
            harnesses.append(Bench(root, NoSync(), installed=installed).harness())
        agents = [harness.open(SESSION) for harness in harnesses]
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(turns):
            for agent, times in zip(agents, taken, strict=True):
                started = time.perf_counter()
                await agent.prompt(workload.question(turn))
                times.append((time.perf_counter() - started) * 1000 / STEPS_PER_TURN)
        for harness in harnesses:
            await harness.close()
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=300, help="turns per session (default: %(default)s)")
    parser.add_argument("--small", type=int, default=100, help="events of the short session (default: %(default)s)")
    parser.add_argument("--large", type=int, default=100_000, help="events of the long session (default: %(default)s)")
    parser.add_argument("--plugin", action="append", default=[], help="an installed plugin to enable besides the tool")
    options = parser.parse_args()
    small, large = asyncio.run(measure((options.small, options.large), options.turns, tuple(options.plugin)))
    for events, times in ((options.small, small), (options.large, large)):
        low, _, high = statistics.quantiles(times, n=4)
        median = statistics.median(times)
        print(f"{events:>9,} events: {median:.3f} ms per step (half of all between {low:.3f} and {high:.3f})")
    print(f"ratio: {statistics.median(large) / statistics.median(small):.2f}")


if __name__ == "__main__":
    main()
