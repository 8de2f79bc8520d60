"""Starts, hears and kills the processes of `victims.py`, or of a program like it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


class Victims:
    """The program whose children are killed. One lives at a time."""

    def __init__(self, *program: str) -> None:
        root = Path(__file__).parents[2]
        self.program = subprocess.Popen(
            [sys.executable, *(program or ("-m", "tests.log.victims"))],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = 0
        self.kills = 0

    def start(self, role: str, *arguments: object) -> None:
        assert self.program.stdin is not None
        self.program.stdin.write(json.dumps([role, *map(_plain, arguments)]).encode() + b"\n")
        self.program.stdin.flush()
        said = self.line()
        assert said[0] == "start"
        self.pid = int(said[1])

    def line(self) -> list[str]:
        assert self.program.stdout is not None
        words = self.program.stdout.readline().decode().split()
        assert words, "the program of the victims is gone"
        assert words[0] != "error", words
        return words

    def kill(self) -> list[list[str]]:
        """Kill the child; returns what it had said that was not read yet."""
        os.kill(self.pid, signal.SIGKILL)
        said, status = self.end()
        assert status == -signal.SIGKILL
        return said

    def end(self) -> tuple[list[list[str]], int]:
        """Wait for the child's end; returns what it said, and its status."""
        said = []
        while (words := self.line())[0] != "end":
            said.append(words)
        status = int(words[1])
        self.kills += status == -signal.SIGKILL
        return said, status

    def close(self) -> None:
        self.program.kill()
        self.program.communicate()


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
