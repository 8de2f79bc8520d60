"""What of its surroundings a process's readings depend on: with a configured zone nothing, else the zone of `TZ`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, locale, sys
from pathlib import Path
from dsh_time.deployment import load_deployment
from dsh_time.harness import Harness
from dsh_time.models.scripted import ScriptedModel, call, say
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass

async def main(root, *patches):
    model = ScriptedModel(call("time_mode"), say("ok"))
    deployment = load_deployment(patches=patches)
    async with Harness(deployment, root=root, model=model, now_ms=lambda: 1_784_017_800_000) as harness:
        await harness.create("s").prompt("hi")
    sys.stdout.buffer.write(model.requests[-1].encoded)

asyncio.run(main(*map(Path, sys.argv[1:])))
"""


def sent(folder: Path, **environment: str) -> str:
    """The last request that a session with the folder's patch sends, in a process of its own."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("TZ", "LC_ALL", "LANG", "PYTHONTZPATH")}
    root = folder / str(len(list(folder.iterdir())))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, root, *folder.glob("*.yaml")],
        env={**inherited, **environment},
        capture_output=True,
        check=True,
    )
    return run.stdout.decode()


@pytest.mark.process
def test_with_a_configured_zone_the_surroundings_change_nothing(tmp_path: Path) -> None:
    """Neither TZ nor missing zone files of the system nor the locale change a byte of what is sent."""
    patch = tmp_path / "patch.yaml"
    patch.write_text("- {id: time-reminder, config: {timeZone: Asia/Shanghai}}\n", encoding="utf-8")
    plain = sent(tmp_path)
    assert "2026-07-14T16:30:00+08:00[Asia/Shanghai]" in plain
    assert sent(tmp_path, TZ="America/New_York", PYTHONTZPATH="", LC_ALL="C") == plain
    assert sent(tmp_path, TZ="nonsense", LC_ALL="de_DE.UTF-8", LANG="th_TH.UTF-8") == plain


@pytest.mark.process
def test_without_one_tz_chooses_the_zone_and_nothing_else(tmp_path: Path) -> None:
    """Two zones of one offset differ in the name alone; zone files and locale change nothing."""
    tokyo = sent(tmp_path, TZ="Asia/Tokyo")
    assert "2026-07-14T17:30:00+09:00[Asia/Tokyo]" in tokyo
    seoul = sent(tmp_path, TZ="Asia/Seoul", PYTHONTZPATH="", LC_ALL="C")
    assert seoul.replace("Asia/Seoul", "Asia/Tokyo") == tokyo
