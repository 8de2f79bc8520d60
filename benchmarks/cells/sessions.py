"""Many sessions in one process: `python -m cells.sessions ROOT SESSIONS TURNS PAUSE_S sync|nosync async|function`.

All sessions are open and run turns one after the other, with so many seconds on average between two (from none to twice
as many, evenly distributed), and a model that takes 200 ms on average for each of a turn's two answers; their
beginnings are spread. The tool is async, or a plain function, which runs in a thread. Harness time is what a turn takes
beyond its model. The collector looks less often than it does by default, as docs/performance.md advises for many
sessions.
Prints ms of harness time for each turn, turns per second, memory and descriptors per session, and what closing and
reopening an idle session costs.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path

import workload
from driver import emit, resident
from dsh_hookspecs import ModelDelta, ModelRequest
from dsh_time.log import FILES
from dsh_time.recorder import OpenTurns
from ours import AsyncSearch, Bench, InstantModel, NoSync, Search

MODEL_S = 0.2
REQUESTS_PER_TURN = 2

#: How long the model took for each answer of the turn.
_model_times: ContextVar[list[float]] = ContextVar("model_times")


class SlowModel(InstantModel):
    """Takes 200 ms on average, from 150 to 250.

    With the same time for all, sessions that were once ready together would stay together for ever, as no real model
    makes them do.
    """

    chance = random.Random(0)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Answer after a while."""
        seconds = self.chance.uniform(0.75 * MODEL_S, 1.25 * MODEL_S)
        _model_times.get().append(seconds)
        await asyncio.sleep(seconds)
        async for delta in super().stream(request):
            yield delta


class NoThreads(OpenTurns):
    """Lets every session sync inline: threads are for waiting, and without syncs there is nothing to wait for."""

    @property
    def several(self) -> bool:
        """Never."""
        return False


async def run(root: Path, sessions: int, turns: int, pause_s: float, *, sync: bool, search: type) -> None:
    """Measure."""
    harness = Bench(root, FILES if sync else NoSync(), SlowModel(), search=search).harness()
    if not sync:
        harness._open_turns = NoThreads()
    _model_times.set([])
    warm = harness.create("warm")
    await warm.prompt(workload.question(0))
    gc.collect()
    memory, descriptors = resident(), _descriptors()
    agents = [harness.create(f"s{number}") for number in range(sessions)]
    open_descriptors = _descriptors() - descriptors
    taken: list[float] = []

    async def user(number: int) -> None:
        chance = random.Random(number)
        await asyncio.sleep(number / sessions * (MODEL_S * REQUESTS_PER_TURN + pause_s))
        for turn in range(turns):
            _model_times.set([])
            began = time.perf_counter()
            await agents[number].prompt(workload.question(turn))
            taken.append((time.perf_counter() - began - sum(_model_times.get())) * 1000)
            await asyncio.sleep(chance.uniform(0, 2 * pause_s))

    used, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*map(user, range(sessions)))
    seconds, used = time.perf_counter() - started, time.process_time() - used
    gc.collect()
    grown = resident() - memory
    reopening = []
    for number in range(min(sessions, 50)):
        began = time.perf_counter()
        await harness.close_session(f"s{number}")
        harness.open(f"s{number}")
        reopening.append((time.perf_counter() - began) * 1000)
    await harness.close()
    emit(
        ms=taken,
        per_second=len(taken) / seconds,
        cpu_ms=used / len(taken) * 1000,
        memory=grown / sessions,
        descriptors=open_descriptors / sessions,
        reopen=reopening,
    )


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 only their number counts


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    root, sessions, turns, pause_s, mode, tool = sys.argv[1:]
    search = AsyncSearch if tool == "async" else Search
    asyncio.run(run(Path(root), int(sessions), int(turns), float(pause_s), sync=mode == "sync", search=search))
