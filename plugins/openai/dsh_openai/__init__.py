"""dsh-time plugin: models behind the chat completions API.

For OpenAI, DeepSeek, Ollama, vLLM, llama.cpp's server and anything else that speaks it. The SDK is imported when a
model is made, not before.
"""

from __future__ import annotations

import os

from attrs import field, frozen
from attrs.validators import ge, gt, le, matches_re, min_len, optional

from dsh_hookspecs import Model, ModelError, ModelProvider, hookimpl
from dsh_hookspecs.remote import Endpoint, check_base_url, check_variable, read_key

__all__ = ["OpenAI", "OpenAISettings"]

_DEFAULT_URL = "https://api.openai.com/v1"
_DEFAULT_VARIABLE = "OPENAI_API_KEY"


@frozen
class OpenAISettings:
    """The deployment file's `model:` for the provider `openai`.

    `base_url`: without it, the environment's OPENAI_BASE_URL, else OpenAI's own. `api_key_env` names the environment
    variable of the key; the default, OPENAI_API_KEY, is for a URL that is not from the deployment file, so that this
    key reaches no other server: with a `base_url` and no `api_key_env`, no key is sent. What is None is left to the
    server. `timeout_s`: seconds of silence after which a request fails. `retries`: how often one is sent again.
    """

    model: str = field(validator=min_len(1))
    base_url: str | None = field(default=None, validator=optional(check_base_url))
    api_key_env: str | None = field(default=None, validator=optional(check_variable))
    temperature: float | None = field(default=None, validator=optional([ge(0), le(2)]))
    max_output_tokens: int | None = field(default=None, validator=optional(ge(1)))
    reasoning_effort: str | None = field(default=None, validator=optional(matches_re("[a-z]+")))
    timeout_s: float = field(default=600.0, validator=gt(0))
    retries: int = field(default=3, validator=[ge(0), le(10)])


def _endpoint(settings: OpenAISettings) -> Endpoint:
    url, variable = settings.base_url, settings.api_key_env
    if url is None:
        url, variable = os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL, variable or _DEFAULT_VARIABLE
        try:
            check_base_url(None, None, url)
        except ValueError as error:
            raise ModelError(f"the environment variable OPENAI_BASE_URL cannot be used: {error}") from None
    key = read_key(variable) if variable else None
    return Endpoint(url.rstrip("/"), settings.model, settings.timeout_s, variable, key)


def _create(settings: OpenAISettings) -> Model:
    endpoint = _endpoint(settings)
    from ._model import ChatCompletions  # imports the SDK

    return ChatCompletions(settings, endpoint)


@frozen(eq=False)
class OpenAI:
    """The plugin. Its provider is `openai`."""

    @hookimpl
    def register_models(self) -> list[ModelProvider]:
        """Give the provider."""
        return [ModelProvider(name="openai", settings=OpenAISettings, create=_create)]
