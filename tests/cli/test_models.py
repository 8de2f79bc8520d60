"""`models`, and `--model` where it can stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dsh_time.plugin_loading import scan_plugins

from .conftest import CommandLine

FILE = """
model: fast
models:
  fast: {provider: openai, model: small, apiKeyEnv: FAST_KEY}
  smart: {provider: anthropic, model: large}
  local: {provider: openai, model: qwen3, baseUrl: "http://localhost:1/v1"}
  wrong: {provider: openai, modle: x}
  absent: {provider: opnai, model: x}
"""
KEY = "sk-SENTINEL"


@pytest.fixture
def with_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line whose user file names models."""
    file = tmp_path / "user" / "config" / "dsh-time" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("FAST_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return CommandLine(tmp_path / "home")


def test_models_lists_what_is_configured_and_whether_keys_are_there_but_never_a_key(with_file: CommandLine) -> None:
    result = with_file("models")
    assert result.exit_code == 0
    assert [line.split(maxsplit=4) for line in result.stdout.splitlines()[1:4]] == [
        ["demo", "demo", "demo-1", "none", "needed"],
        ["*", "fast", "openai", "small", "FAST_KEY, set"],
        ["smart", "anthropic", "large", "ANTHROPIC_API_KEY,", "not set"],
    ]
    assert "unknown key; did you mean model?" in result.stdout
    assert "nobody offers this provider. Did you mean openai?" in result.stdout
    assert KEY not in result.output


def test_json_of_models_has_the_same(with_file: CommandLine) -> None:
    shown = json.loads(with_file("--model", "smart", "models", "--json").stdout)
    assert [(row["name"], row["used"], row["keyVariable"], row["keyPresent"]) for row in shown] == [
        ("demo", False, None, None),
        ("fast", False, "FAST_KEY", True),
        ("smart", True, "ANTHROPIC_API_KEY", False),
        ("local", False, None, None),
        ("wrong", False, None, None),
        ("absent", False, None, None),
    ]
    assert [bool(row["problem"]) for row in shown] == [False] * 4 + [True] * 2


def test_a_model_without_a_name_is_listed_too(with_file: CommandLine) -> None:
    shown = json.loads(with_file("--model", "openai:big", "models", "--json").stdout)
    assert [(row["name"], row["model"], row["used"]) for row in shown if row["used"]] == [("", "big", True)]
    assert shown[0]["keyVariable"] == "FAST_KEY"


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "demo", "run", "hi"],
        ["run", "--model", "demo", "hi"],
        ["--model", "smart", "run", "--model", "demo", "x"],
    ],
)
def test_model_stands_before_or_after_run_and_the_later_one_counts(with_file: CommandLine, words: list[str]) -> None:
    assert with_file(*words).stdout.startswith("I am the demo model")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "smrt"], "there is no model 'smrt' (any other is named as PROVIDER:MODEL); did you mean smart?"),
        (["--model", "opnai:x"], "there is no model provider 'opnai'. Known: demo. Did you mean openai?"),
        (["--model", "smart"], "The model provider anthropic is not ready: no API key: set the environment variable"),
        (["--model", "demo:x"], "--model demo:x: model.model: must be one of demo-1, not 'x'"),
        (["--disable", "openai"], "Its plugin dsh-openai is disabled (--disable openai): enable it, or choose a model"),
    ],
)
def test_a_model_that_cannot_be_asked_is_one_message_and_makes_no_session(
    with_file: CommandLine, options: list[str], said: str
) -> None:
    result = with_file("run", *options, "hi")
    assert result.exit_code == 1
    assert said in result.stderr
    assert not with_file.sessions.exists()


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({}, "It comes with the plugin dsh-anthropic; to install it, in a clone of dsh-time: pip install ./plugins/"),
        ({"dsh-openai": scan_plugins()["dsh-openai"]}, "It comes with the plugin dsh-anthropic"),
    ],
)
def test_a_provider_whose_plugin_is_not_installed_names_the_command(
    with_file: CommandLine, sources: dict[str, object], said: str
) -> None:
    line = with_file.having(given_sources=sources)
    result = line("run", "--model", "smart", "hi")
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_library_that_knows_no_installed_plugins_is_told_the_line_to_add(with_file: CommandLine) -> None:
    from dsh_time.deployment import load_deployment
    from dsh_time.plugin_host import PluginHost

    assert (
        PluginHost(load_deployment()).advice("openai")
        == "Its plugin is installed: add `- name: dsh-openai` to `plugins:`."
    )
    assert PluginHost(load_deployment()).advice("xyzzy").startswith("A provider is known when its plugin is installed")


@pytest.mark.process
def test_no_sdk_and_no_plugin_that_nobody_named_is_imported(with_file: CommandLine) -> None:
    code = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from dsh_time.cli import main; sys.argv[1:] = {}; main()"
    )

    def imported(*words: str) -> set[str]:
        arguments = [sys.executable, "-c", code.format(["--home", str(with_file.home), *words])]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        return set(done.stderr.split()) & {"openai", "anthropic", "dsh_openai", "dsh_anthropic", "httpx", "httpx2"}

    assert imported("--version") == set()
    assert imported("--model", "demo", "run", "hi") == set()
    assert imported("models") == {"dsh_openai", "dsh_anthropic"}
    assert imported("plugins") == {"dsh_openai"}
