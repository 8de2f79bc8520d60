"""The settings of the provider `anthropic`, where its key goes, and how it is found."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from dsh_anthropic import Anthropic, AnthropicSettings
from dsh_hookspecs import ENTRY_POINT_GROUP, ModelError

KEY = "sk-SENTINEL-0123456789"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


def test_the_default_key_goes_to_the_default_url_only() -> None:
    endpoint = AnthropicSettings("m").endpoint()
    assert (endpoint.url, endpoint.key) == ("https://api.anthropic.com", KEY)
    assert AnthropicSettings("m", base_url="http://localhost:8080").endpoint().key is None


def test_a_missing_key_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    [provider] = Anthropic().register_models()
    with pytest.raises(ModelError, match="set the environment variable ANTHROPIC_API_KEY"):
        provider.create(AnthropicSettings("m"))


async def test_the_models_config_is_what_changes_its_answers_without_the_key() -> None:
    [provider] = Anthropic().register_models()
    model = provider.create(AnthropicSettings("m", reasoning_effort="low"))
    assert model.config == {
        "provider": "anthropic",
        "model": "m",
        "host": "api.anthropic.com",
        "maxOutputTokens": 32_000,
        "reasoningEffort": "low",
    }
    assert KEY not in repr(model)
    await model.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"base_url": "http://example.com"},
        {"api_key_env": "sk-abc"},
        {"temperature": 1.1},
        {"max_output_tokens": 0},
        {"reasoning_effort": "extreme"},
        {"timeout_s": 0.0},
        {"retries": 11},
    ],
)
def test_settings_outside_their_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        AnthropicSettings(**{"model": "m", **wrong})  # type: ignore[arg-type]  # wrong on purpose


def test_the_plugin_is_found_under_the_name_of_its_distribution() -> None:
    [entry] = [entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name == "dsh-anthropic"]
    assert entry.load() is Anthropic


@pytest.mark.process
def test_importing_the_plugin_imports_neither_sdk_nor_http_library() -> None:
    heavy = "('anthropic', 'httpx2', 'pydantic', 'asyncio')"
    code = f"import sys, dsh_anthropic; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
