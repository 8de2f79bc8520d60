"""The README: its transcript is what the commands print, its commands and links are true."""

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tzlocal

from ..kit import Clock
from .conftest import CommandLine

README = Path(__file__).parents[2] / "README.md"

#: 2026-10-09T01:03:02+08:00.
FIRST_RUN_MS = 1_791_478_982_000


def block_after(marker: str) -> list[str]:
    """The lines of the code block that follows a comment."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w*\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None, marker
    return found[1].splitlines()


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


@pytest.mark.usefixtures("shanghai")
def test_the_transcript_is_what_the_commands_print(dsh_time: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh_time.store.secrets.token_hex", lambda _: "c0ffee")
    clock = Clock(FIRST_RUN_MS)
    printed: list[str] = []
    for line in block_after("transcript"):
        if not line.startswith("$ "):
            continue
        printed.append(line)
        [program, *arguments] = shlex.split(line.removeprefix("$ "))
        assert program == "dsh-time"
        result = dsh_time.having(now_ms=clock)(*arguments)
        assert result.exit_code == 0
        printed += [re.sub(r"\d+\.\d s\b", "0.0 s", line) for line in result.stdout.splitlines()]
        clock.advance(seconds=20 * 60 + 43)
    assert printed == block_after("transcript")


@pytest.mark.parametrize("name", ["main", "test"])
def test_each_command_is_one_line(name: str) -> None:
    [command] = block_after(f"command: {name}")
    assert command.startswith("python3.11 -m venv .venv && ")


def test_the_test_command_installs_every_plugin() -> None:
    [command] = block_after("command: test")
    plugins = sorted(path.parent.name for path in (README.parent / "plugins").glob("*/pyproject.toml"))
    assert re.findall(r"-e plugins/(\S+)", command) == plugins


def test_each_link_leads_to_a_page() -> None:
    for target in re.findall(r"\]\((docs/[^)#]+)\)", README.read_text("utf-8")):
        assert (README.parent / target).is_file(), target
