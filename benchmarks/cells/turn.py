"""Turns of this project, and of the floor under it: `python -m cells.turn VARIANT MODE ROOT ...`, see `driver`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from attrs import define, field

import ours
import workload
from driver import Contender, Turn, main
from dsh_time.harness import Harness
from dsh_time.log import FILES, FileIo


@define
class Ours:
    """A harness with one tool, and the installed plugins asked for."""

    io: FileIo = FILES
    installed: tuple[str, ...] = ()
    model: ours.InstantModel = field(factory=ours.InstantModel)
    _harness: Harness = field(init=False)

    async def seed(self, root: Path, messages: int) -> None:
        """Store a session by running its turns."""
        await ours.seed(root, messages, self.installed)

    async def open(self, root: Path) -> Turn:
        """Open the session."""
        self._harness = ours.Bench(root, self.io, self.model, self.installed).harness()
        agent = self._harness.open(ours.SESSION)

        async def turn(number: int) -> None:
            await agent.prompt(workload.question(number))

        return turn

    async def close(self) -> None:
        """Close it."""
        await self._harness.close()


@define
class Floor:
    """The least a turn can do: four lines of JSON, each written at once; `barriers` has the disk wait after each.

    Opening decodes all of them. There is no tool, no plugin, no lock and no checksum.
    """

    barriers: bool = False
    _descriptor: int = field(init=False)

    async def seed(self, root: Path, messages: int) -> None:
        """Write the lines."""
        turns = range(messages // workload.MESSAGES_PER_TURN)
        (root / "log.jsonl").write_bytes(b"".join(line for turn in turns for line in self._lines(turn)))

    async def open(self, root: Path) -> Turn:
        """Read them all."""
        path = root / "log.jsonl"
        messages = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

        async def turn(number: int) -> None:
            for line in self._lines(number):
                messages.append(line)
                os.write(self._descriptor, line)
                if self.barriers:
                    os.fdatasync(self._descriptor)

        return turn

    async def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _lines(self, turn: int) -> list[bytes]:
        texts = {
            "user": workload.question(turn),
            "assistant": workload.query(turn),
            "tool": workload.found(turn),
            "answer": workload.answer(turn),
        }
        return [msgspec.json.encode({"role": role, "content": text}) + b"\n" for role, text in texts.items()]


VARIANTS: dict[str, Callable[[], Contender]] = {
    "written": lambda: Ours(ours.NoSync()),
    "synced": Ours,
    "reminder": lambda: Ours(ours.NoSync(), ("dsh-time-reminder",)),
    "plain": lambda: Ours(ours.NoSync(), model=ours.InstantModel(with_tool=False)),
    "short-query": lambda: Ours(ours.NoSync(), model=ours.InstantModel(query_length=28)),
    "floor": Floor,
    "floor-synced": lambda: Floor(barriers=True),
}

if __name__ == "__main__":
    main(VARIANTS[sys.argv.pop(1)]())
