"""A world in which sessions have children: two processes' worth of harnesses, one disk in memory, one clock."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

from dsh_hookspecs import ModelRequest, Reject, Step, ToolCallDelta, hookimpl
from dsh_subagents import Subagents
from dsh_time.agent import Agent
from dsh_time.errors import LogError
from dsh_time.harness import Harness
from dsh_time.models.scripted import Answer, ScriptedModel, call, say
from dsh_time.plugin_host import PluginHost
from tests.kit import START_MS
from tests.log.memory_disk import MemoryDisk, Tree

from .loop_kit import quiet, reminder
from .oracle import Session, check, read_all

ROOT: Final = Path("/sessions")
#: Sessions that a world may have before nobody makes new ones.
MOST: Final = 9


class Clock:
    """Epoch ms; each look is a millisecond after the last."""

    def __init__(self) -> None:
        self.now = START_MS

    def __call__(self) -> int:
        self.now += 1
        return self.now


@frozen(eq=False)
class Gate:
    """A plugin that rejects a step while its class says so, after others had their say."""

    @hookimpl
    def before_step(self, step: Step) -> Reject | None:
        return Reject("closed") if CLOSED else None


#: Holds something while the gate is closed.
CLOSED: Final[list[str]] = []


def hosts(folder: Path, count: int = 2, **config: Any) -> list[PluginHost]:
    """Plugins for as many processes."""
    others: dict[str, type] = {"dsh-gate": Gate, "dsh-subagents": Subagents}
    return [reminder(folder, others=others, **config) for _ in range(count)]


class World:
    """Sessions `s0`, `s1`, …, each open in at most one of the processes."""

    def __init__(self, plugins: Sequence[PluginHost], tree: Tree | None = None) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk(tree or {ROOT: None})
        self.plugins = plugins
        self._names = itertools.count(len(self.ids()))
        #: What happens after so many more changes of the disk.
        self.due: list[tuple[int, Callable[[], None]]] = []
        self._after_power_loss: Tree | None = None
        self._all_well()
        self._boot()

    def _all_well(self) -> None:
        CLOSED.clear()
        for host in self.plugins:
            if "time-reminder" not in [plugin.id for plugin in host.loadout.plugins]:
                host.enable("time-reminder")

    def _boot(self) -> None:
        self.disk.after = self._changed
        #: What the models of a process answer, whoever asks, before they are done.
        self.scripts: list[Iterator[Answer]] = [iter(()) for _ in self.plugins]
        self.processes = [self._process(number, host) for number, host in enumerate(self.plugins)]

    def _process(self, number: int, host: PluginHost) -> Harness:
        def answer(request: ModelRequest) -> Answer:
            return next(self.scripts[number], say("done"))

        harness = Harness(
            host.deployment,
            root=ROOT,
            plugins=host,
            model=ScriptedModel(then=answer),
            now_ms=self.clock,
            monotonic=lambda: 0.0,
            new_id=lambda: f"s{next(self._names)}",
            io=self.disk,
        )
        harness._open_turns.count = -1_000_000  # every sync inline: one thing after the other
        return harness

    def ids(self) -> list[str]:
        """All sessions, in the order they were made."""
        found = (path.parent.name for path in self.disk.tree() if path.name == "log.jsonl")
        return sorted(found, key=lambda name: int(name[1:]))

    def sessions(self) -> dict[str, Session]:
        return read_all((ROOT / name for name in self.ids()), self.disk)

    def agent(self, session: str, process: int = 0) -> Agent:
        """The session's agent where it is open, else opened in this process."""
        return self.processes[self.place(session, process)].open(session)

    def place(self, session: str, process: int) -> int:
        """The process where the session is open, else this one."""
        return next((number for number, harness in enumerate(self.processes) if session in harness.live), process)

    async def turn(self, session: str, *answers: Answer, process: int = 0) -> None:
        """Prompt a session; the answers are its and its children's, in the order in which they ask."""
        place = self.place(session, process)
        self.scripts[place] = iter(answers)
        await self.processes[place].open(session).prompt("go")
        await quiet(self.processes[place])

    async def call(self, session: str, answer: Answer, process: int = 0) -> None:
        """Call a tool as the user of a session."""
        place = self.place(session, process)
        name, arguments = (item for item in answer.items if isinstance(item, ToolCallDelta))
        await self.processes[place].open(session).call_tool(name.name, arguments.arguments)
        await quiet(self.processes[place])

    async def close(self, session: str) -> None:
        for harness in self.processes:
            await harness.close_session(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close everything; nothing happens any more."""
        self.forget()
        for harness in self.processes:
            await harness.close()

    async def settle(self) -> int:
        """Let everybody hear what there is to hear, then check who was told what; returns how much that was."""
        self._all_well()
        for _ in range(2):  # one that ran without the plugin is heard of after its own next step
            for session in self.ids():
                await self.turn(session)
        return check(self.sessions(), one_clock=True)

    # Between two changes of the disk

    def _changed(self, _: str) -> None:
        self.due = [(left - 1, action) for left, action in self.due]
        while self.due and self.due[0][0] <= 0:
            self.due.pop(0)[1]()

    def after(self, changes: int, action: Callable[[], None]) -> None:
        """Do this when the disk was changed so many times from now; 0 in an action: when it has ended."""
        self.due.append((changes, action))
        self.due.sort(key=itemgetter(0))

    def forget(self) -> None:
        """Let nothing happen that has not happened yet."""
        self.due.clear()

    def meanwhile(self, process: int, session: str, *answers: Answer) -> None:
        """Prompt a session in this process, in the middle of what the other one does."""
        if self.place(session, process) == process:
            with suppress(LogError), ThreadPoolExecutor(1) as thread:  # SessionLocked: the other one has it
                thread.submit(asyncio.run, self.turn(session, *answers, process=process)).result()

    def power_fails(self, state: int) -> None:
        """Remember what the disk may show if the power goes now: one of the states."""
        self._after_power_loss = self._survivor(state)

    async def power_is_back(self) -> None:
        """Go on with what was remembered; what happened since then did not."""
        tree, self._after_power_loss = self._after_power_loss or self._survivor(0), None
        self.disk.after = lambda operation: None
        await self.stop()
        self.disk = MemoryDisk(tree)
        self._boot()

    def _survivor(self, state: int) -> Tree:
        first, *rest = itertools.islice(self.disk.after_power_loss(), state + 1)
        return rest[-1] if rest else first


def joined(answers: Iterable[Answer]) -> Answer:
    """One answer with all the calls."""
    first, *rest = answers
    return sum(rest, first)


def counter(**arguments: Any) -> Answer:
    return call("time_counter", **arguments)
