"""`docs/time-reminder.md` is true: its settings, its example, its tables and its command."""

import re
import shlex
from pathlib import Path
from typing import get_args

import click
from attrs import fields
from click.testing import CliRunner

from dsh_time.deployment import load_deployment
from dsh_time.plugin_host import PluginHost
from dsh_time.structure import camel_case
from dsh_time_reminder import TimeReminder
from dsh_time_reminder.tools import Action

from .test_reading import SEED

TEXT = (Path(__file__).parents[3] / "docs" / "time-reminder.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)```", TEXT, re.DOTALL | re.MULTILINE)


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without code marks."""
    table = re.findall(r"(?:^\|.*\n)+", TEXT.split(f"\n{heading}\n")[1], re.MULTILINE)[0]
    return [[cell.strip().strip("`'") for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


def test_the_reading_is_the_one_that_is_made() -> None:
    """The page shows what the plugin writes."""
    assert f"```\n{SEED.text}\n```" in TEXT
    assert SEED.summary in TEXT


def test_every_setting_is_described_with_its_default() -> None:
    """The table has each key of the class, in its order, and its default."""
    described = [(key, default) for key, default, _ in rows("## Settings")]
    shown = {"None": "not set", "False": "false"}
    defaults = {camel_case(field.name): str(field.default) for field in fields(TimeReminder)}
    assert described == [(key, shown.get(default, default)) for key, default in defaults.items()]


def test_the_example_says_the_defaults(tmp_path: Path) -> None:
    """As a patch it changes nothing."""
    (example,) = blocks("yaml")
    patch = tmp_path / "patch.yaml"
    patch.write_text(example, encoding="utf-8")
    (plugin,) = PluginHost(load_deployment(patches=[patch])).loadout.plugins
    made = plugin.instance
    assert all(getattr(made, field.name) == field.default for field in fields(TimeReminder))


def test_every_action_is_described() -> None:
    """The table has each action once."""
    actions = [row[0] for row in rows("## Tools")]
    assert sorted(actions) == sorted(get_args(Action))


def test_the_command_prints_what_the_page_says() -> None:
    """Run as it stands there."""
    (command,) = blocks("sh")
    program, *arguments = shlex.split(command)
    group = click.Group()
    TimeReminder().register_commands(group)
    result = CliRunner().invoke(group, arguments)
    assert (program, result.stdout) == ("dsh-time", blocks("text")[0])
