"""The command `dsh-time cron`: the truth table through its front door, and what it says of bad input."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dsh_time_reminder import TimeReminder

CASES = json.loads((Path(__file__).parents[3] / "tests/cases/cron.json").read_text("utf-8"))["cases"]


def run(*arguments: str) -> Result:
    group = click.Group()
    TimeReminder().register_commands(group)
    return CliRunner().invoke(group, ["cron", *arguments])


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES])
def test_table(case: dict[str, Any]) -> None:
    """With --json the command gives the table's fires, or refuses with exit code 1."""
    number = str(len(case.get("next") or [1]))
    result = run("--json", "--zone", case["zone"], "--after", case["after"], "-n", number, "--", case["expr"])
    said = json.loads(result.stdout)
    if case.get("refused"):
        assert (result.exit_code, list(said)) == (1, ["refused"])
    else:
        assert (result.exit_code, said) == (0, {"next": case["next"]})


def test_the_fires_for_a_person() -> None:
    """One stamp a line; that two day fields are an OR is said beside them."""
    result = run("0 0 1 * MON", "--zone", "Asia/Shanghai", "--after", "2026-07-14T00:00", "-n", "2")
    assert result.stdout == "2026-07-20T00:00:00+08:00[Asia/Shanghai]\n2026-07-27T00:00:00+08:00[Asia/Shanghai]\n"
    assert "either of them" in result.stderr


def test_an_expression_that_begins_with_a_minus_is_no_option() -> None:
    """It is refused like any other bad expression; a misspelt option is still a usage error."""
    result = run("-5 * * * *", "--json")
    assert (result.exit_code, list(json.loads(result.stdout))) == (1, ["refused"])
    result = run("@daily", "--jsn")
    assert result.exit_code == 2
    assert "--jsn" in result.stderr


def test_five_fires_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options: the next five in this process's zone."""
    monkeypatch.setattr("dsh_time_reminder.commands.process_zone", lambda: "Asia/Tokyo")
    lines = run("@hourly").stdout.splitlines()
    assert len(lines) == 5
    assert all(line.endswith("[Asia/Tokyo]") for line in lines)


def test_a_refusal_for_a_person() -> None:
    """The reason stands on stderr, and the exit code is 1."""
    result = run("0 0 30 2 *")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("refused: '0 0 30 2 *' never fires")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--zone", "Asia/Shangai"], "did you mean Asia/Shanghai"),
        (["--after", "tomorrow"], "'tomorrow' is no ISO time"),
        (["--zone", "Asia/Tokyo", "--after", "9999-12-31T23:59:59+00:00"], "outside the years 0001 to 9999"),
        (["-n", "0"], "is not in the range 1<=x<=1000"),
    ],
)
def test_bad_options(arguments: list[str], said: str) -> None:
    """An option that cannot be is a usage error that names it; no traceback."""
    result = run("@daily", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert arguments[-2].removeprefix("-") in result.stderr
