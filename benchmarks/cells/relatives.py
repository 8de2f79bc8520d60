"""Looking for news of relatives: `python -m cells.relatives ROOT REPEATS`. µs of time-reminder's hook without any news.

A parent looks at 0, 1, 10 and 100 children, all open in this process, or all at rest.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from cells.clock import microseconds
from driver import emit
from dsh_hookspecs import Message, Step, hookimpl
from dsh_time.harness import Harness
from dsh_time_reminder import TimeReminder
from ours import InstantModel, NoSync, plugin_host

CHILDREN = (0, 1, 10, 100)


@frozen(eq=False)
class Keeper:
    """Keeps the newest step, so that the benchmark can hand it to a hook itself."""

    step: ClassVar[Step]

    @hookimpl
    def before_step(self, step: Step) -> list[Message]:
        """Keep it."""
        Keeper.step = step
        return []


async def run(root: Path, repeats: int) -> None:
    """Measure."""
    hook = TimeReminder(default_mode="off").before_step
    found: dict[str, dict[str, list[float]]] = {"live": {}, "at rest": {}}
    for count in CHILDREN:
        host = plugin_host({"keeper": Keeper}, ("dsh-time-reminder",))
        model = InstantModel(with_tool=False)
        async with Harness(host.deployment, root=root / str(count), plugins=host, model=model, io=NoSync()) as harness:
            parent = harness.create("parent")
            children = [(await parent.spawn("Say hello.")).session for _ in range(count)]
            await parent.prompt("Hello.")
            step = Keeper.step
            assert len(step.lineage.descendants(1)) == count
            for state in ("at rest", "live"):
                if state == "live":
                    for child in children:
                        harness.open(child)
                hook(step)
                found[state][str(count)] = [microseconds(lambda: hook(step)) for _ in range(repeats)]  # noqa: B023
    emit(**{"live": found["live"], "at rest": found["at rest"]})


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
