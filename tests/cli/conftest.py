"""The command line as a test calls it: in this process, or as a process of its own; never with the user's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, field, frozen
from click.testing import CliRunner, Result

from dsh_time.cli import command_line
from dsh_time.cli.invocation import Invocation

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
