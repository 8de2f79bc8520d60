"""The benchmarks run; what they measure is not asserted here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.process


def test_every_question_is_measured_and_reported(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--tiny", "--no-peers", "--no-plots", "--out", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"machine", "turns", "startup", "log", "hooks", "clock", "sessions"}
    assert (tmp_path / "report.md").read_text().count("\n## ") == 11
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["report.md", "results.json"]


def test_the_cost_of_a_step_is_printed_for_two_sizes_of_a_session(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "step_cost.py"), "--turns", "3", "--small", "11", "--large", "110"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line.split(":")[0].strip() for line in ended.stdout.splitlines()] == ["11 events", "110 events", "ratio"]
