"""The command line as a test calls it: in this process, or as a process of its own; never with the user's settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tzlocal
from attrs import evolve, field, frozen
from click.testing import CliRunner, Result

from dsh_time.cli import command_line
from dsh_time.cli.invocation import Invocation

from ..kit import Clock

#: When the first command of a transcript in the documentation runs: 2026-10-09T01:03:02+08:00.
FIRST_RUN_MS = 1_791_478_982_000

#: The script that an installer made of the entry point.
SCRIPT = Path(sys.executable).parent / "dsh-time"


@frozen
class CommandLine:
    """Calls `dsh-time --home HOME ARGUMENTS…` in this process."""

    home: Path
    invocation: Invocation = field(factory=Invocation)

    @property
    def sessions(self) -> Path:
        return self.home / "sessions"

    def having(self, **given: Any) -> CommandLine:
        """This command line with another model, clock or other installed plugins; see Invocation."""
        return evolve(self, invocation=evolve(self.invocation, **given))

    def __call__(self, *arguments: str, env: dict[str, str] | None = None, color: bool = False) -> Result:
        given = ["--home", str(self.home), *arguments]
        return CliRunner().invoke(command_line, given, obj=self.invocation, env=env, color=color)

    def play(self, lines: Iterable[str]) -> list[str]:
        """Call the commands of a transcript in the documentation, which are 20 minutes and 43 seconds apart.

        Returns the commands with what they print; how long the model took stands there as `0.0 s`.
        """
        clock = Clock(FIRST_RUN_MS)
        printed: list[str] = []
        for line in lines:
            if line.startswith("$ "):
                [program, *arguments] = shlex.split(line.removeprefix("$ "))
                assert program == "dsh-time"
                result = self.having(now_ms=clock)(*arguments)
                assert result.exit_code == 0, result.stderr
                printed.append(line)
                printed += [re.sub(r"\d+\.\d s\b", "0.0 s", line) for line in result.stdout.splitlines()]
                clock.advance(seconds=20 * 60 + 43)
        return printed


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's: an empty home, an empty working directory, UTC."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    for name, value in {"HOME": "user", "XDG_CONFIG_HOME": "user/config", "XDG_DATA_HOME": "user/data"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("DSH_TIME_HOME", "DSH_TIME_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def dsh_time(tmp_path: Path) -> CommandLine:
    """The command line in this process, with a home that does not exist yet."""
    return CommandLine(tmp_path / "home")


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process is in Asia/Shanghai."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        tzlocal.reload_localzone()  # it remembers what an earlier test's process zone was
        yield
    time.tzset()
    tzlocal.reload_localzone()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start `dsh-time --home HOME ARGUMENTS…` as a process, with pipes for its output; ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def popen(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [SCRIPT, "--home", tmp_path / "home", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
