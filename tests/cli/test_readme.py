"""The README: its transcript is what the commands print, its commands and links are true."""

import re
from pathlib import Path

import pytest

from .conftest import CommandLine

README = Path(__file__).parents[2] / "README.md"


def block_after(marker: str) -> list[str]:
    """The lines of the code block that follows a comment."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w*\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None, marker
    return found[1].splitlines()


@pytest.mark.usefixtures("shanghai")
def test_the_transcript_is_what_the_commands_print(dsh_time: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh_time.store.secrets.token_hex", lambda _: "c0ffee")
    transcript = block_after("transcript")
    assert dsh_time.play(transcript) == transcript


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
