"""The transcript in `docs/subagents.md` is what the commands print."""

import re
from pathlib import Path

import pytest

from .conftest import CommandLine

TEXT = (Path(__file__).parents[2] / "docs" / "subagents.md").read_text("utf-8")


@pytest.mark.usefixtures("shanghai")
def test_the_transcript_is_what_the_commands_print(dsh_time: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["c0ffee", "9b1d07"])
    monkeypatch.setattr("dsh_time.store.secrets.token_hex", lambda _: next(tokens))
    [transcript] = re.findall(r"^```console\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert dsh_time.play(transcript.splitlines()) == transcript.splitlines()
