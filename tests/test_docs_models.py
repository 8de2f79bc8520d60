"""`docs/models.md` is true: each file in it loads and makes a model, and every setting is described."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from dsh_anthropic import Anthropic, AnthropicSettings
from dsh_hookspecs import ModelProvider
from dsh_openai import OpenAI, OpenAISettings
from dsh_time.deployment import load_deployment
from dsh_time.errors import DeploymentError
from dsh_time.structure import camel_case

PAGE = (Path(__file__).parent.parent / "docs" / "models.md").read_text(encoding="utf-8")
FILES = re.findall(r"## (\w[\w. ]*)\n(?:(?!##).)*?```yaml\n(.*?)```", PAGE, re.DOTALL)
PROVIDERS: dict[str, tuple[str, ModelProvider]] = {
    provider.name: (name, provider)
    for name, plugin in (("dsh-anthropic", Anthropic()), ("dsh-openai", OpenAI()))
    for provider in plugin.register_models()
}


def test_the_page_has_a_file_for_each_server() -> None:
    assert [name for name, _ in FILES] == [
        "DeepSeek",
        "OpenAI",
        "Anthropic",
        "Ollama",
        "vLLM",
        "llama.cpp",
        "Several models",
    ]


@pytest.mark.parametrize(("server", "text"), FILES)
async def test_each_file_loads_and_makes_the_model_it_names(
    server: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(variable, "sk-test")
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    deployment = load_deployment(user_file=file, installed=["dsh-anthropic", "dsh-openai"])
    plugin, provider = PROVIDERS[deployment.model["provider"]]
    assert [entry.name for entry in deployment.plugins[2:]] == [plugin]
    model = provider.create(deployment.model_settings(provider.settings))
    assert model.config["model"] == deployment.model["model"]
    await model.close()


@pytest.mark.parametrize("settings", [OpenAISettings, AnthropicSettings])
def test_every_setting_is_described_with_its_default(settings: type[attrs.AttrsInstance]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    for field in attrs.fields(settings):
        assert camel_case(field.name) in rows
        if isinstance(field.default, int | float):
            assert f"{field.default:g}" in rows[camel_case(field.name)]


@pytest.mark.parametrize("key", ["baseUrl: https://evil.example", "apiKeyEnv: OPENAI_API_KEY"])
def test_a_projects_file_cannot_say_where_a_key_goes(key: str, tmp_path: Path) -> None:
    file = tmp_path / "dsh-time.yaml"
    file.write_text(f"model:\n  provider: openai\n  model: m\n  {key}\n", encoding="utf-8")
    with pytest.raises(DeploymentError):
        load_deployment(project_file=file)


@pytest.mark.parametrize(
    "line",
    ["apiKeyEnv: sk-SENTINEL", "baseUrl: https://me:SENTINEL@h.example", "baseUrl: https://h.example?k=SENTINEL"],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(line: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"model:\n  provider: openai\n  model: m\n  {line}\n", encoding="utf-8")
    deployment = load_deployment(user_file=file)
    with pytest.raises(DeploymentError) as caught:
        deployment.model_settings(OpenAISettings)
    assert "SENTINEL" not in str(caught.value)
