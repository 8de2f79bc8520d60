"""The settings of the provider `openai`, where its key goes, and how it is found."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from dsh_hookspecs import ENTRY_POINT_GROUP, ModelError
from dsh_openai import OpenAI, OpenAISettings

KEY = "sk-SENTINEL-0123456789"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_the_default_key_goes_to_the_default_url() -> None:
    endpoint = OpenAISettings("m").endpoint()
    assert (endpoint.url, endpoint.key, endpoint.variable) == ("https://api.openai.com/v1", KEY, "OPENAI_API_KEY")
    assert KEY not in repr(endpoint)


def test_the_default_key_does_not_go_to_a_url_of_the_deployment_file() -> None:
    endpoint = OpenAISettings("m", base_url="http://localhost:11434/v1/").endpoint()
    assert (endpoint.url, endpoint.key) == ("http://localhost:11434/v1", None)


def test_the_environments_url_is_checked_like_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/v1")
    assert OpenAISettings("m").endpoint().url == "https://proxy.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.example/v1")
    with pytest.raises(ModelError, match=r"OPENAI_BASE_URL cannot be used: .*unencrypted"):
        OpenAISettings("m").endpoint()


def test_a_missing_key_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    [provider] = OpenAI().register_models()
    with pytest.raises(ModelError, match="set the environment variable OPENAI_API_KEY"):
        provider.create(OpenAISettings("m"))


async def test_the_models_config_is_what_changes_its_answers_without_the_key() -> None:
    [provider] = OpenAI().register_models()
    settings = OpenAISettings(
        "m", base_url="https://h.example/secret/v1", api_key_env="OPENAI_API_KEY", temperature=1.0
    )
    model = provider.create(settings)
    assert model.config == {"provider": "openai", "model": "m", "host": "h.example", "temperature": 1.0}
    assert KEY not in repr(model)
    await model.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"base_url": "http://example.com/v1"},
        {"api_key_env": "sk-abc"},
        {"temperature": 2.1},
        {"max_output_tokens": 0},
        {"reasoning_effort": "LOW!"},
        {"timeout_s": 0.0},
        {"retries": -1},
    ],
)
def test_settings_outside_their_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        OpenAISettings(**{"model": "m", **wrong})  # type: ignore[arg-type]  # wrong on purpose


def test_the_plugin_is_found_under_the_name_of_its_distribution() -> None:
    [entry] = [entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name == "dsh-openai"]
    assert entry.load() is OpenAI


@pytest.mark.process
def test_importing_the_plugin_imports_neither_sdk_nor_http_library() -> None:
    code = "import sys, dsh_openai; print([m for m in ('openai', 'httpx2', 'pydantic', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
