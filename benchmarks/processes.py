"""Starts every measurement in a process of its own, in this environment or in a peer's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from attrs import define, field

HERE = Path(__file__).parent


@define
class Plan:
    """How much is measured: sizes are stored messages, `repeats` fresh processes per cell."""

    sizes: tuple[int, ...]
    our_sizes: tuple[int, ...]
    repeats: int
    reads: int  #: fresh processes that read one log, or start one program
    turns: int
    seconds: float  #: at most spent on the turns of one process
    events: int  #: of the log that is opened whole
    sessions: tuple[int, int]  #: at the same time, without sync and with
    session_turns: int


FULL = Plan((10, 1_000, 10_000), (10, 1_000, 10_000, 100_000), 5, 15, 100, 4, 100_000, (1_000, 200), 15)
QUICK = Plan((10, 1_000, 10_000), (10, 1_000, 10_000, 100_000), 1, 3, 40, 1.5, 100_000, (1_000, 200), 6)
#: For a test that everything still runs; its figures mean nothing.
TINY = Plan((8,), (8,), 1, 1, 3, 0.1, 110, (4, 2), 1)


@define
class Processes:
    """Runs cells. `work` is a folder for what they write; `peers_wanted` off leaves the peers out.

    `server` is the URL of an OpenAI-compatible server to measure on, if there is one, `model` a model's name on it.
    """

    plan: Plan
    work: Path
    peers_wanted: bool = True
    server: str | None = None
    model: str = "default"
    done: int = field(default=0, init=False)
    _started: float = field(factory=time.monotonic, init=False)

    def say(self, what: str) -> None:
        """Show progress."""
        self.done += 1
        print(f"[{time.monotonic() - self._started:5.0f} s] {what}", file=sys.stderr, flush=True)

    def ours(self, *arguments: object) -> dict[str, Any]:
        """Run `python -m ARGUMENTS` in this environment and return what it printed."""
        return self.run(Path(sys.executable), *arguments)

    def run(self, python: Path, *arguments: object) -> dict[str, Any]:
        """Run `python -m ARGUMENTS` and return the JSON it printed; empty when it printed nothing."""
        words = [str(argument) for argument in arguments]
        self.say(" ".join(word for word in words if not word.startswith("/")))
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONPATH", None)
        ended = subprocess.run(
            [python, "-m", *words], cwd=HERE, env=environment, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{ended.stderr}")
        return dict(json.loads(ended.stdout.splitlines()[-1])) if ended.stdout else {}

    def peer(self, name: str) -> Path:
        """Return the interpreter of a peer's environment, which is made once and kept in the cache."""
        requirements = HERE / "peers" / f"{name}.txt"
        digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
        folder = Path(tempfile.gettempdir(), "dsh-time-benchmarks", f"{name}-{digest}")
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            self.say(f"installing {name} into {folder}")
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True, stderr=sys.stderr)
            (folder / "ready").touch()
        return python

    def copy(self, source: Path, name: str) -> Path:
        """Return a fresh copy of a stored session, so that no cell finds what another one left."""
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        os.sync()  # else the first sync that is measured would write the copy
        return target

    def folder(self, name: str) -> Path:
        """Return an empty folder."""
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        return target
