"""dsh-time plugin: models behind the chat completions API.

For OpenAI, DeepSeek, Ollama, vLLM, llama.cpp's server and anything else that speaks it. The SDK is imported when a
model is made, not before.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, le, matches_re, min_len, optional

from dsh_hookspecs import Model, ModelProvider, hookimpl
from dsh_hookspecs.remote import Defaults, Endpoint, check_base_url, check_variable

__all__ = ["OpenAI", "OpenAISettings"]

_DEFAULTS = Defaults("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY")


@frozen
class OpenAISettings:
    """The deployment file's `model:` for the provider `openai`.

    `base_url`: without it the environment's OPENAI_BASE_URL, else OpenAI's own. `api_key_env` names the environment
    variable of the key: without it OPENAI_API_KEY, or no key at all if there is a `base_url`. What is None is left to
    the server. `timeout_s`: seconds of silence after which a request fails. `retries`: how often one is sent again.
    """

    model: str = field(validator=min_len(1))
    base_url: str | None = field(default=None, validator=optional(check_base_url))
    api_key_env: str | None = field(default=None, validator=optional(check_variable))
    temperature: float | None = field(default=None, validator=optional([ge(0), le(2)]))
    max_output_tokens: int | None = field(default=None, validator=optional(ge(1)))
    reasoning_effort: str | None = field(default=None, validator=optional(matches_re("[a-z]+")))
    timeout_s: float = field(default=600.0, validator=gt(0))
    retries: int = field(default=3, validator=[ge(0), le(10)])

    def key_variable(self) -> str | None:
        """The environment variable of the key, None when none is sent."""
        return _DEFAULTS.variable(self.base_url, self.api_key_env)

    def endpoint(self) -> Endpoint:
        """Where requests go, with the key read. Raises ModelError."""
        return _DEFAULTS.endpoint(self.model, self.timeout_s, self.base_url, self.api_key_env)


def _create(settings: OpenAISettings) -> Model:
    endpoint = settings.endpoint()
    from ._model import ChatCompletions  # imports the SDK

    return ChatCompletions(settings, endpoint)


@frozen(eq=False)
class OpenAI:
    """The plugin. Its provider is `openai`."""

    @hookimpl
    def register_models(self) -> list[ModelProvider]:
        """Give the provider."""
        return [ModelProvider("openai", OpenAISettings, _create, OpenAISettings.key_variable)]
