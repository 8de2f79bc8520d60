"""Hooks: `python -m cells.hooks ROOT TURNS`. One step with 0, 1, 2 and 8 plugins, and the calls beside plain pluggy's.

Each plugin gives a section of the system prompt and looks at each step. The harness calls hooks one by one, so that one
that raises costs nobody else's answer; a plain pluggy call is the floor of that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pluggy
from attrs import frozen

from driver import emit
from dsh_hookspecs import Hooks, Message, Prompt, Section, SessionView, Step, hookimpl
from dsh_time.harness import Harness
from dsh_time.plugin_host import PluginHost
from ours import InstantModel, NoSync, plugin_host

COUNTS = (0, 1, 2, 8)


@frozen(eq=False)
class Watcher:
    """A plugin that has a section and adds no message."""

    @hookimpl
    def system_prompt_section(self, prompt: Prompt) -> Section:
        """Give the section."""
        return Section(type(self).__name__, 10, "Be brief.")

    @hookimpl
    def before_step(self, step: Step) -> list[Message]:
        """Add nothing."""
        return []


def watchers(count: int) -> dict[str, type]:
    """Return so many plugin classes by name."""
    return {f"watcher-{n}": type(f"Watcher{n}", (Watcher,), {}) for n in range(count)}


def microseconds(work: Callable[[], object], repeats: int) -> list[float]:
    """Time `work`, repeated; µs of each."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e6)
    return times


async def run(root: Path, turns: int) -> None:
    """Measure."""
    step_ms: dict[str, list[float]] = {}
    ours_us: dict[str, list[float]] = {}
    pluggy_us: dict[str, list[float]] = {}
    hosts = {count: plugin_host(watchers(count)) for count in COUNTS}
    model = InstantModel(with_tool=False)
    harnesses = {
        count: Harness(host.deployment, root=root / str(count), plugins=host, model=model, io=NoSync())
        for count, host in hosts.items()
    }
    agents = {count: harness.create("hooks") for count, harness in harnesses.items()}
    for _ in range(turns):
        for count, agent in agents.items():
            started = time.perf_counter()
            await agent.prompt("Hello.")
            step_ms.setdefault(str(count), []).append((time.perf_counter() - started) * 1000)
    for count, host in hosts.items():
        view: SessionView = agents[count].session
        step = Step(view, 1, 1, datetime(2026, 7, 14, tzinfo=UTC), None)
        prompt = Prompt(step)
        loadout = host.loadout

        def ours() -> None:
            loadout.before_step(step, print)  # noqa: B023 called at once
            loadout.sections(prompt, print)  # noqa: B023 called at once

        manager = pluggy.PluginManager("dsh_time")
        manager.add_hookspecs(Hooks)
        for cls in watchers(count).values():
            manager.register(cls())

        def plain() -> None:
            manager.hook.before_step(step=step)  # noqa: B023 called at once
            manager.hook.system_prompt_section(prompt=prompt)  # noqa: B023 called at once

        ours_us[str(count)] = microseconds(ours, turns * 10)
        pluggy_us[str(count)] = microseconds(plain, turns * 10)
    for harness in harnesses.values():
        await harness.close()
    emit(step=step_ms, ours=ours_us, pluggy=pluggy_us, swap=swaps(max(10, turns // 10)))


def swaps(count: int) -> list[float]:
    """Swap one plugin for another and back; ms of each."""
    classes = watchers(2)
    host: PluginHost = plugin_host(classes)
    one, two = classes
    host.disable(two)
    times = []
    for number in range(count):
        out, into = (one, two) if number % 2 == 0 else (two, one)
        started = time.perf_counter()
        host.swap(out, into)
        times.append((time.perf_counter() - started) * 1000)
    return times


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
