"""Which model a deployment asks: names, `--model`, and the plugin that naming a provider enables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_time.deployment import Deployment, load_deployment
from dsh_time.errors import DeploymentError

Load = Callable[..., Deployment]

MODELS = """
models:
  fast: {provider: openai, model: small, apiKeyEnv: FAST_KEY}
  smart: {provider: anthropic, model: large}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a user file and a config file of these contents."""
    monkeypatch.chdir(tmp_path)

    def load(user: str = "", config: str = "", **options: Any) -> Deployment:
        Path("u.yaml").write_text(user, encoding="utf-8")
        Path("c.yaml").write_text(config, encoding="utf-8")
        return load_deployment(user_file=Path("u.yaml"), config_file=Path("c.yaml"), **options)

    return load


def problems(load: Load, *contents: str, **options: Any) -> list[str]:
    with pytest.raises(DeploymentError) as caught:
        load(*contents, **options)
    return [str(problem) for problem in caught.value.problems]


# Names


def test_models_have_names_and_model_may_be_one_of_them_from_any_layer(load: Load) -> None:
    deployment = load("model: fast", MODELS)
    assert deployment.model == {"provider": "openai", "model": "small", "apiKeyEnv": "FAST_KEY"}
    assert list(deployment.models) == ["demo", "fast", "smart"]
    assert load(MODELS, "model: smart").model == deployment.models["smart"]


def test_the_settings_of_a_name_merge_like_those_of_model(load: Load) -> None:
    assert load(MODELS, "models: {fast: {temperature: 0}}").models["fast"] == {
        "provider": "openai",
        "model": "small",
        "apiKeyEnv": "FAST_KEY",
        "temperature": 0,
    }
    assert load(MODELS, "models: {fast: {provider: other}, smart: }").models == {
        "demo": {"provider": "demo"},
        "fast": {"provider": "other"},
        "smart": {"provider": "anthropic", "model": "large"},
    }


def test_the_effective_file_loads_again_as_the_same(load: Load) -> None:
    deployment = load("model: fast", MODELS, installed=["dsh-openai"])
    assert load("", deployment.to_yaml()) == deployment


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("model: fats" + MODELS, "u.yaml:1:1: model: there is no model 'fats' in models; did you mean fast?"),
        ("model: x", "u.yaml:1:1: model: there is no model 'x' in models; the names are: demo"),
        ("model: 5", "u.yaml:1:1: model: must be a mapping or text, not 5"),
        (
            "models: {a b: {provider: x}}",
            "u.yaml:1:1: models: the name of a model must be at most 128 letters, digits, d",
        ),
        ("models: {a: {provider: 5}}", "u.yaml:1:1: models: provider must be text, not 5"),
        ("models: {a: x}", "u.yaml:1:10: models.a: must be a mapping, not 'x'"),
        ("models: {a: {model: x}}", "u.yaml:1:10: models.a: the key provider is missing; it says who offers the mod"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(load: Load, content: str, said: str) -> None:
    [problem] = problems(load, content)
    assert problem.startswith(said)


def test_settings_without_a_provider_do_not_go_onto_a_name(load: Load) -> None:
    assert problems(load, "model: fast" + MODELS, "model: {temperature: 0}") == [
        "c.yaml:1:1: model: the key provider is missing; a layer below says only the name of a model"
    ]


# --model


def test_the_switch_takes_a_name(load: Load) -> None:
    assert load(MODELS, model="smart").model == {"provider": "anthropic", "model": "large"}
    assert load("model: no-such" + MODELS, model="demo").model == {"provider": "demo"}


def test_the_switch_takes_provider_and_model_and_keeps_the_settings_of_the_same_provider(load: Load) -> None:
    named = load("model: fast" + MODELS, model="openai:qwen3:8b")
    assert named.model == {"provider": "openai", "model": "qwen3:8b", "apiKeyEnv": "FAST_KEY"}
    assert named.models["fast"]["model"] == "small"
    assert load("model: fast" + MODELS, model="anthropic:m").model == {"provider": "anthropic", "model": "m"}


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("smrt", "; did you mean smart?"),
        ("xyz", "; the names are: demo, fast, smart"),
        ("openai:", "; the names are: demo, fast, smart"),
        (":m", "; the names are: demo, fast, smart"),
        ("", "; the names are: demo, fast, smart"),
    ],
)
def test_a_word_that_is_neither_is_an_error_with_suggestions(load: Load, word: str, hint: str) -> None:
    [problem] = problems(load, MODELS, model=word)
    assert problem == f"--model {word}: there is no model {word!r} (any other is named as PROVIDER:MODEL){hint}"


# The provider's plugin


def test_naming_a_provider_enables_its_plugin_and_says_where(load: Load) -> None:
    installed = ["dsh-anthropic", "dsh-openai"]
    deployment = load("model:\n  provider: openai" + MODELS, installed=installed)
    *_, added = deployment.plugins
    assert (added.name, added.id, added.disabled, added.place) == ("dsh-openai", "openai", False, "u.yaml:2:3")
    assert "dsh-anthropic" not in [entry.name for entry in deployment.plugins]
    *_, added = load(MODELS, model="anthropic:m", installed=installed).plugins
    assert (added.name, added.place) == ("dsh-anthropic", "--model anthropic:m")
    assert [entry.name for entry in load(MODELS, installed=installed).plugins[2:]] == []


@pytest.mark.parametrize(
    "plugins",
    [
        "[{name: dsh-openai, disabled: true}]",
        "[{name: dsh-openai, id: mine}]",
        "[{name: corporate-models, id: openai}]",
    ],
)
def test_a_plugin_that_is_listed_is_left_as_it_is(load: Load, plugins: str) -> None:
    content = f"plugins: {plugins}\nmodel: {{provider: openai}}\n"
    assert load(content, installed=["dsh-openai"]).plugins == load(content).plugins


def test_a_plugin_that_is_not_installed_is_not_added_and_switches_find_one_that_was(load: Load) -> None:
    content = "model: {provider: openai}"
    assert load(content).plugins == load().plugins
    disabled = load(content, installed=["dsh-openai"], disable=["openai"]).plugins[-1]
    assert (disabled.name, disabled.disabled) == ("dsh-openai", True)


def test_all_providers_can_be_asked_for(load: Load) -> None:
    installed = ["dsh-anthropic", "dsh-openai"]
    deployment = load(MODELS, installed=installed).with_all_providers(installed)
    assert [entry.name for entry in deployment.plugins[2:]] == ["dsh-openai", "dsh-anthropic"]


# Keys


@pytest.mark.parametrize("key", ["baseUrl", "apiKey", "apiKeyEnv", "base_url"])
def test_a_projects_file_gives_no_model_an_address_or_a_key(load: Load, tmp_path: Path, key: str) -> None:
    project = tmp_path / "dsh-time.yaml"
    project.write_text(f"models:\n  fast: {{model: other, {key}: https://evil.example}}\n", encoding="utf-8")
    [problem] = problems(load, MODELS, project_file=project)
    assert f"models.fast.{key}: {key} is not taken from a project file" in problem


def test_a_secret_of_a_model_is_shown_nowhere(load: Load) -> None:
    deployment = load("models: {a: {provider: x, apiKey: hunter2}}\nmodel: a")
    assert "hunter2" not in deployment.to_yaml() + repr(deployment) + repr(deployment.explain())
