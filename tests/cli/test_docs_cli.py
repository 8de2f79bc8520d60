"""`docs/cli.md` is true: commands, options, exit codes, the chat's commands and the JSON."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dsh_hookspecs import Usage
from dsh_time.cli import command_line
from dsh_time.cli.chat_loop import _HELP
from dsh_time.cli.exit_codes import ExitCode
from dsh_time.models.scripted import ScriptedModel, finish, say

from .conftest import CommandLine

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
TOP, *_SECTIONS = TEXT.split("\n## ")
SECTIONS = {section.partition("\n")[0]: section for section in _SECTIONS}
COMMANDS = [name for name in SECTIONS if name.islower()]


def documented(section: str) -> set[str]:
    """The options in the first column of a section's tables."""
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return {option for cell in cells for option in re.findall(r"`(--?[a-z][a-z-]*)", cell)}


def real(*command: str) -> set[str]:
    """The options that the real `--help` lists."""
    text = CliRunner().invoke(command_line, [*command, "--help"]).stdout
    lines = re.findall(r"^  (--?[a-z].*?)(?:  |$)", text.partition("Options:")[2], re.MULTILINE)
    return {option for line in lines for option in re.findall(r"--?[a-z][a-z-]*", line)}


def json_of(section: str) -> object:
    """The JSON example of a section."""
    example = re.search(r"```json\n(.*?)```", SECTIONS[section], re.DOTALL)
    assert example is not None
    return json.loads(example[1])


def test_the_options_before_the_command_are_those_of_the_help() -> None:
    assert documented(TOP) == real()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_each_command_are_those_of_its_help(name: str) -> None:
    assert documented(SECTIONS[name]) == real(name) - {"-h", "--help"}


def test_every_command_has_a_section_with_its_usage_and_no_other_does() -> None:
    context = click.Context(command_line, info_name="dsh-time")
    assert command_line.list_commands(context) == [*COMMANDS, "cron"]  # a plugin's, which is on its own page
    for name in COMMANDS:
        usage = CliRunner().invoke(command_line, [name, "--help"], prog_name="dsh-time").stdout.splitlines()[0]
        assert f"```text\n{usage.removeprefix('Usage: ')}\n```" in SECTIONS[name]


def test_the_exit_codes_are_those_there_are() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", SECTIONS["Exit codes"], re.MULTILINE)] == list(ExitCode)


def test_the_commands_of_the_chat_are_those_it_has() -> None:
    documented_commands = re.findall(r"^\| `(/.*?)`", SECTIONS["chat"], re.MULTILINE)
    assert documented_commands == re.findall(r"^(/.*?)  ", _HELP, re.MULTILINE)


def test_the_json_of_run_has_these_keys(dsh_time: CommandLine) -> None:
    model = ScriptedModel(say("hi") + finish(usage=Usage(1, 0, 1)))
    shown, example = json.loads(dsh_time.having(model=model)("run", "--json", "hi").stdout), json_of("run")
    assert isinstance(example, dict)
    assert list(shown) == list(example)
    assert list(shown["usage"]) == list(example["usage"])


def test_the_json_of_plugins_is_what_is_printed(dsh_time: CommandLine) -> None:
    shown = json.loads(dsh_time("--enable", "time-context", "plugins", "--json").stdout)
    assert shown[:1] == json_of("plugins")


def test_the_json_of_sessions_verify_and_doctor_has_these_keys(dsh_time: CommandLine) -> None:
    assert dsh_time("run", "What time is it?").exit_code == 0
    for command in (["sessions"], ["verify", "--all"], ["doctor"]):
        shown, example = json.loads(dsh_time(*command, "--json").stdout), json_of(command[0])
        assert isinstance(example, dict)
        assert list(shown) == list(example)


def test_the_json_of_models_has_these_keys(dsh_time: CommandLine) -> None:
    [shown], example = json.loads(dsh_time("models", "--json").stdout), json_of("models")
    assert isinstance(example, list)
    assert list(shown) == list(example[0])
