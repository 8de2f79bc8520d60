"""Each request begins with the one before, in every mode; only time-context makes a server read again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def rows(table: str) -> list[list[str]]:
    return [re.split(r" *\| *", line)[1:-1] for line in table.splitlines() if line.startswith("| ")]


@pytest.mark.process
def test_a_session_of_thirty_steps_loses_nothing_but_closing_brackets_in_every_mode() -> None:
    """The table that the page shows is the one that the script prints, but for bytes that a reworded tool moves."""
    script = ROOT / "benchmarks" / "prefix.py"
    printed = rows(subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout)
    page = rows((ROOT / "docs" / "models.md").read_text("utf-8").partition("## What the prompt cache keeps")[2])
    assert [row[:2] for row in page] == [row[:2] for row in printed]
    for shown, row in zip(page[1:], printed[1:], strict=True):
        if row[0] == "time-context":
            assert float(row[3].rstrip("%")) < 60
            assert float(row[4].rstrip("%")) < 5
        else:
            assert (row[3], row[5:]) == (shown[3], shown[5:]) == ("100.0%", ["2", "2"])
