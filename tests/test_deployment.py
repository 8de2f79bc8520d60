"""Layers become one effective deployment: later ones win, every problem is reported at once, with its file and line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs import validators
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.deployment import (
    BUILT_IN,
    Deployment,
    Limits,
    Sessions,
    load_deployment,
    user_config_file,
)
from dsh_time.deployment_layers import merge
from dsh_time.errors import DeploymentError
from dsh_time.yaml_reader import Origin, make_node, plain

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the working directory and return its relative path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str) -> Path:
        Path(name).write_text(content, encoding="utf-8")
        return Path(name)

    return write_file


def refusals(**sources: Any) -> list[str]:
    with pytest.raises(DeploymentError) as caught:
        load_deployment(**sources)
    return [str(problem) for problem in caught.value.problems]


def listed(deployment: Deployment) -> list[tuple[str, str, bool]]:
    return [(entry.id, entry.name, entry.disabled) for entry in deployment.plugins]


# Built in


def test_without_files_the_built_in_deployment_applies() -> None:
    deployment = load_deployment()
    assert listed(deployment) == [
        ("time-context", "dsh-time-context", True),
        ("time-reminder", "dsh-time-reminder", False),
    ]
    assert deployment.model == {"provider": "demo"}
    assert deployment.limits == Limits(50, 120, 65_536, 262_144, 50)
    assert deployment.sessions == Sessions(None)
    assert deployment.plugins[0].origin == BUILT_IN


def test_user_and_project_files_need_not_exist() -> None:
    nowhere = Path("/nonexistent/config.yaml")
    assert load_deployment(user_file=nowhere, project_file=nowhere) == load_deployment()


def test_a_config_or_patch_file_must_exist_and_all_that_do_not_are_named() -> None:
    assert refusals(config_file=Path("/none/c.yaml"), patches=[Path("/none/p.yaml")]) == [
        "/none/c.yaml: there is no such file",
        "--patch /none/p.yaml: there is no such file",
    ]


@pytest.mark.parametrize("content", ["", "# nothing\n", "plugins:\nmodel:\nlimits:\nsessions:\n", "{}"])
def test_a_file_that_says_nothing_changes_nothing(write: Write, content: str) -> None:
    assert load_deployment(config_file=write("c.yaml", content)) == load_deployment()


def test_the_user_file_stands_in_the_config_folder_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert user_config_file().name == "config.yaml"
    assert user_config_file().parent.name == "dsh-time"


# Layers


def test_later_layers_win_value_by_value(write: Write) -> None:
    deployment = load_deployment(
        user_file=write("user.yaml", "limits: {maxSteps: 1, slowHookMs: 1, toolTimeoutS: 1, argumentBytes: 2000}"),
        project_file=write("dsh-time.yaml", "limits: {maxSteps: 2, slowHookMs: 2, toolTimeoutS: 2}"),
        config_file=write("config.yaml", "limits: {maxSteps: 3, slowHookMs: 3}"),
        patches=[write("a.yaml", "- set: {limits: {maxSteps: 4}}"), write("b.yaml", "- set: {limits: {maxSteps: 5}}")],
    )
    assert deployment.limits == Limits(5, 2, 65_536, 2000, 3)


def test_a_list_of_plugins_replaces_the_one_below(write: Write) -> None:
    deployment = load_deployment(
        user_file=write("u.yaml", "plugins: [{name: dsh-one}, {name: dsh-two}]"),
        project_file=write("p.yaml", "plugins: [{name: other, id: mine, disabled: true, config: {a: 1}}]"),
    )
    assert listed(deployment) == [("mine", "other", True)]
    assert deployment.plugins[0].config == {"a": 1}
    assert load_deployment(config_file=write("c.yaml", "plugins: []")).plugins == ()


def test_an_id_defaults_to_the_name_without_dsh(write: Write) -> None:
    deployment = load_deployment(config_file=write("c.yaml", "plugins: [{name: dsh-one}, {name: two}]"))
    assert listed(deployment) == [("one", "dsh-one", False), ("two", "two", False)]


def test_settings_of_one_provider_merge_and_those_of_another_do_not_stay(write: Write) -> None:
    user = write("u.yaml", "model: {provider: openai, apiKeyEnv: KEY, name: big, extra: {a: 1, b: [1]}}")
    same = load_deployment(user_file=user, config_file=write("c.yaml", "model: {name: small, extra: {b: [2], c: 3}}"))
    assert same.model == {
        "provider": "openai",
        "apiKeyEnv": "KEY",
        "name": "small",
        "extra": {"a": 1, "b": [2], "c": 3},
    }
    other = load_deployment(user_file=user, config_file=write("d.yaml", "model: {provider: demo, pace: 1}"))
    assert other.model == {"provider": "demo", "pace": 1}


def test_a_relative_folder_for_sessions_starts_at_the_file_that_names_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    config = write("sub/c.yaml", "sessions: {root: ./logs}")
    assert load_deployment(config_file=config).sessions.root == tmp_path / "sub" / "logs"
    assert load_deployment(config_file=write("d.yaml", "sessions: {root: /var/logs}")).sessions.root == Path(
        "/var/logs"
    )
    assert (
        load_deployment(config_file=write("e.yaml", "sessions: {root: ~/logs}")).sessions.root == Path.home() / "logs"
    )


# What is refused


def test_every_problem_of_every_file_is_reported_with_its_place(write: Write) -> None:
    found = refusals(
        user_file=write("user.yaml", "limits:\n  maxStep: 5\n  toolTimeoutS: true\n"),
        project_file=write("dsh-time.yaml", "plugins:\n  - name: dsh-x\n    enabled: true\n  - disabled: 'off'\n"),
        config_file=write("config.yaml", "a: 1\na: 2\n"),
        patches=[write("p.yaml", "- {id: 5}\n")],
    )
    assert found == [
        "user.yaml:2:3: limits.maxStep: unknown key; did you mean maxSteps?",
        "user.yaml:3:3: limits.toolTimeoutS: must be a number, not true",
        "dsh-time.yaml:3:5: plugins[0].enabled: unknown key; did you mean disabled?",
        "dsh-time.yaml:4:5: plugins[1]: the key name is missing",
        "dsh-time.yaml:4:5: plugins[1].disabled: must be true or false, not 'off'",
        "config.yaml:2:1: the key 'a' stands here twice, first on line 1",
        "--patch p.yaml:1:4: [0].id: must be text, not 5",
    ]


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("maxSteps", ["0", "10001", "1.0", "true", "'5'", "-1"], ["1", "10000"]),
        ("toolTimeoutS", ["0", "86401", "true", ".inf", "'5'"], ["0.1", "1", "86400"]),
        ("toolOutputBytes", ["1023", "4194305", "1e4"], ["1024", "4194304"]),
        ("argumentBytes", ["1023", "4194305"], ["1024", "4194304"]),
        ("slowHookMs", ["0", "600001"], ["1", "600000"]),
    ],
)
def test_limits_have_bounds(write: Write, key: str, bad: list[str], good: list[str]) -> None:
    for value in bad:
        (message,) = refusals(config_file=write("c.yaml", f"limits: {{{key}: {value}}}"))
        assert message.startswith(f"c.yaml:1:10: limits.{key}: must be ")
    for value in good:
        load_deployment(config_file=write("c.yaml", f"limits: {{{key}: {value}}}"))


def test_ids_are_unique_and_a_name_is_enabled_once(write: Write) -> None:
    base = write(
        "c.yaml",
        "plugins:\n- {name: dsh-a}\n- {name: dsh-b, id: a}\n- {name: dsh-a, id: c}\n"
        "- {name: dsh-a, id: d, disabled: true}\n",
    )
    assert refusals(config_file=base) == [
        "c.yaml:3:3: plugins[1].id: the id a is taken by the entry at c.yaml:2:3; give one of them another id",
        "c.yaml:4:3: plugins[2].name: dsh-a is already enabled by the entry at c.yaml:2:3; disable one of the two",
    ]


@pytest.mark.parametrize("key", ["baseUrl", "apiKey", "apiKeyEnv", "base_url", "API-KEY"])
def test_keys_and_addresses_are_not_taken_from_the_project_file(write: Write, key: str) -> None:
    content = f"model: {{provider: x, {key}: hunter2}}\nplugins: [{{name: p, config: {{deep: [{{{key}: hunter2}}]}}}}]"
    path = write("dsh-time.yaml", content)
    found = refusals(project_file=path)
    assert [message.split(": ")[1] for message in found] == [f"model.{key}", f"plugins[0].config.deep[0].{key}"]
    assert all(f"{key} is not taken from a project file; put it into your user config file" in text for text in found)
    assert not any("hunter2" in text for text in found)
    assert load_deployment(user_file=path).model[key] == "hunter2"
    assert load_deployment(config_file=path).model[key] == "hunter2"


def test_the_config_of_an_entry_is_not_looked_into(write: Write) -> None:
    base = write("c.yaml", "plugins: [{name: dsh-time-context, disabled: true, config: {anything: [1, {x: y}]}}]")
    assert load_deployment(config_file=base).plugins[0].config == {"anything": [1, {"x": "y"}]}


def test_a_secret_is_in_no_repr(write: Write) -> None:
    base = write("c.yaml", "model: {apiKey: hunter2}\nplugins: [{name: p, config: {apiKey: hunter2}}]")
    assert "hunter2" not in repr(load_deployment(config_file=base))


# Plugins and providers take their settings from it


@attrs.frozen(eq=False)
class TimeContext:
    refresh_interval_ms: int = attrs.field(default=60_000, validator=validators.ge(0))
    time_zone: str = "UTC"


@attrs.frozen
class Provider:
    pace: Literal["slow", "fast"] = "fast"
    api_key: str | None = None


def test_a_plugin_is_structured_from_its_config(write: Write) -> None:
    patch = write("p.yaml", "- {id: time-context, config: {refreshIntervalMs: 5}}")
    deployment = load_deployment(patches=[patch])
    plugin = deployment.configure(deployment.plugins[0], TimeContext)
    assert (plugin.refresh_interval_ms, plugin.time_zone) == (5, "UTC")


def test_a_plugins_problems_name_the_file_that_said_each_value(write: Write) -> None:
    base = write("c.yaml", "plugins:\n- name: dsh-x\n- name: dsh-time-context\n  config:\n    timeZone: 8\n")
    patch = write("p.yaml", "- id: time-context\n  config:\n    refreshIntervalMs: -1\n    refreshIntervallMs: 1\n")
    deployment = load_deployment(config_file=base, patches=[patch])
    with pytest.raises(DeploymentError) as caught:
        deployment.configure(deployment.plugins[1], TimeContext)
    assert [str(problem) for problem in caught.value.problems] == [
        "--patch p.yaml:4:5: plugins[1].config.refreshIntervallMs: unknown key; did you mean refreshIntervalMs?",
        "c.yaml:5:5: plugins[1].config.timeZone: must be text, not 8",
        "--patch p.yaml:3:5: plugins[1].config.refreshIntervalMs: must be >= 0: -1",
    ]


def test_model_settings_are_structured_without_the_provider(write: Write) -> None:
    config = write("c.yaml", "model: {provider: x, pace: slow}")
    assert load_deployment(config_file=config).model_settings(Provider) == Provider("slow")
    broken = load_deployment(config_file=write("d.yaml", "model:\n  provider: x\n  apiKey: [hunter2]\n  pace: slo\n"))
    with pytest.raises(DeploymentError) as caught:
        broken.model_settings(Provider)
    assert [str(problem) for problem in caught.value.problems] == [
        "d.yaml:4:3: model.pace: must be one of slow, fast, not 'slo'",
        "d.yaml:3:3: model.apiKey: must be text",
    ]


# Properties

_words = st.sampled_from(["a", "b", "c", "off"])
_config = st.recursive(
    st.booleans() | st.integers(-5, 5) | _words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner),
)
_mapping = st.dictionaries(_words, _config)


def _merged(*layers: dict[str, Any]) -> Any:
    tree = make_node({}, BUILT_IN)
    for number, layer in enumerate(layers):
        tree = merge(tree, make_node(layer, Origin(f"{number}")))
    return plain(tree)


@given(_mapping, _mapping)
def test_merging_keeps_what_the_later_layer_does_not_say_and_takes_all_that_it_says(
    below: dict[str, Any], above: dict[str, Any]
) -> None:
    merged = _merged(below, above)
    assert set(merged) == set(below) | set(above)
    for key, value in merged.items():
        if key not in above:
            assert value == below[key]
        elif isinstance(above[key], dict) and isinstance(below.get(key), dict):
            assert value == _merged(below[key], above[key])
        else:
            assert value == above[key]


@given(_mapping, _mapping)
def test_merging_the_same_layer_twice_is_merging_it_once(below: dict[str, Any], above: dict[str, Any]) -> None:
    assert _merged(below, above, above) == _merged(below, above)
    assert _merged(above) == above


# Imports


@pytest.mark.process
def test_importing_the_module_loads_neither_ruamel_nor_cattrs() -> None:
    code = (
        "import sys, dsh_time.deployment, dsh_time.structure;"
        "print([name for name in ('ruamel.yaml', 'cattrs', 'platformdirs', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
