"""`plugins`, `config` and `init`."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

from ruamel.yaml import YAML

from .conftest import CommandLine


def test_plugins_lists_what_is_enabled_in_order_what_failed_and_what_else_is_there(
    dsh_time: CommandLine, install: Callable[..., None]
) -> None:
    install("dsh-good", "@frozen(eq=False)\nclass Sample:\n    pass\n", version="1.2")
    install("dsh-bad", "raise ImportError('no such\\x1b[2J thing')\n")
    install("dsh-other")
    Path("dsh-time.yaml").write_text(
        "plugins: [{name: dsh-good}, {name: dsh-bad}, {name: dsh-off, disabled: true}]\n", encoding="utf-8"
    )
    result = dsh_time("plugins")
    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["order", "name", "version", "state", "reason", "hooks"]
    assert lines[1] == ["1", "dsh-good", "1.2", "enabled", "dsh-time.yaml:1:11"]
    assert lines[2][:3] == ["dsh-bad", "1.0", "failed"]
    assert "no such\\x1b[2J thing" in result.stdout
    assert lines[3][:3] == ["dsh-off", "not", "installed"]
    assert ["dsh-other", "1.0", "not", "listed"] in lines
    states = {status["name"]: status["state"] for status in json.loads(dsh_time("plugins", "--json").stdout)}
    assert (states["dsh-good"], states["dsh-bad"], states["dsh-other"]) == ("enabled", "failed", "not listed")


def test_a_plugin_of_the_environment_is_found_by_its_entry_point(dsh_time: CommandLine) -> None:
    [status] = [
        status
        for status in json.loads(dsh_time("--enable", "time-context", "plugins", "--json").stdout)
        if status["name"] == "dsh-time-context"
    ]
    assert (status["state"], status["order"], status["hooks"]) == ("enabled", 1, ["system_prompt_section"])


def test_config_prints_a_file_that_says_where_each_value_comes_from_and_no_secret(dsh_time: CommandLine) -> None:
    Path("mine.yaml").write_text("limits: {maxSteps: 7}\nmodel: {provider: openai, apiKey: sk-secret}\n")
    result = dsh_time("--config", "mine.yaml", "config")
    assert result.exit_code == 0
    assert "sk-secret" not in result.output
    [line] = [line for line in result.stdout.splitlines() if "maxSteps" in line]
    assert line.split() == ["maxSteps:", "7", "#", "mine.yaml:1:10"]
    assert YAML(typ="safe").load(result.stdout)["limits"]["maxSteps"] == 7


def test_config_works_while_a_plugin_cannot_be_loaded(dsh_time: CommandLine) -> None:
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-gone}]\n")
    assert dsh_time("config").exit_code == 0
    assert dsh_time("run", "hi").exit_code == 1
    assert dsh_time("--no-plugins", "run", "hi").exit_code == 0


def test_init_writes_a_file_that_changes_nothing_and_never_overwrites_one(dsh_time: CommandLine) -> None:
    before = dsh_time("config").stdout
    result = dsh_time("init")
    assert (result.exit_code, result.stdout) == (0, "Wrote dsh-time.yaml. All settings in it are commented out.\n")
    assert dsh_time("config").stdout == before
    Path("dsh-time.yaml").write_text("limits: {maxSteps: 7}\n")
    result = dsh_time("init")
    assert result.exit_code == 1
    assert "dsh-time.yaml: exists already and is left as it is" in result.stderr
    assert Path("dsh-time.yaml").read_text() == "limits: {maxSteps: 7}\n"


def test_init_user_writes_the_user_config_file(dsh_time: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "user/config/dsh-time/config.yaml"
    assert str(path) in dsh_time("init", "--user").stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
