"""For tests of the commands that read sessions: sessions made by a scripted model, and one call of the command line."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from attrs import frozen
from click.testing import CliRunner, Result

from dsh_time.agent import Agent
from dsh_time.cli import command_line
from dsh_time.cli.invocation import Invocation
from dsh_time.models.scripted import Played, ScriptedModel

from ..kit import Clock, make_harness, source_of


@frozen
class Home:
    """A `--home`: sessions are made in it, and commands are run on it."""

    path: Path
    clock: Clock

    @property
    def root(self) -> Path:
        return self.path / "sessions"

    def log(self, session_id: str) -> Path:
        return self.root / session_id / "log.jsonl"

    def make(
        self, session_id: str, *prompts: str, answers: tuple[Played, ...], plugins: Mapping[str, type] | None = None
    ) -> ScriptedModel:
        """Make a session, give it the prompts one after the other, and close it. Returns its model."""
        model = ScriptedModel(*answers)

        async def run() -> None:
            async with make_harness(self.root, model=model, clock=self.clock, plugins=plugins) as harness:
                agent = harness.create(session_id)
                for prompt in prompts:
                    self.clock.advance(seconds=60)
                    await agent.prompt(prompt)

        asyncio.run(run())
        return model

    def live(self, session_id: str, use: Callable[[Agent], object], plugins: Mapping[str, type] | None = None) -> None:
        """Call `use` with the agent of a session that is made and open for writing meanwhile."""

        async def run() -> None:
            async with make_harness(self.root, clock=self.clock, plugins=plugins) as harness:
                use(harness.create(session_id))

        asyncio.run(run())

    def run(
        self, *words: str, plugins: Mapping[str, type] | None = None, env: Mapping[str, str] | None = None
    ) -> Result:
        """Run `dsh-time --home … WORDS`."""
        sources = {name: source_of(name, cls) for name, cls in (plugins or {}).items()}
        enable = [word for name in sources for word in ("--enable", name)]
        invocation = Invocation(now_ms=self.clock, given_sources=sources)
        arguments = ["--home", str(self.path), *enable, *words]
        return CliRunner().invoke(command_line, arguments, obj=invocation, env=env)

    def copy(self, source: str, target: str) -> Path:
        """Copy a session's files under another directory's name; the header stays the source's."""
        shutil.copytree(self.root / source, self.root / target)
        return self.log(target)

    def contents(self, session_id: str) -> dict[str, bytes]:
        """All files of a session."""
        return {path.name: path.read_bytes() for path in (self.root / session_id).iterdir()}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """An empty home, with UTC as the local zone."""
    time.tzset()  # `own_settings` has set TZ
    yield Home(tmp_path / "home", Clock())
    time.tzset()
