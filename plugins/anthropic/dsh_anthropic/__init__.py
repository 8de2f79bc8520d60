"""dsh-time plugin: models behind Anthropic's Messages API.

The SDK is imported when a model is made, not before.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, in_, le, min_len, optional

from dsh_hookspecs import Model, ModelProvider, hookimpl
from dsh_hookspecs.remote import Defaults, Endpoint, check_base_url, check_variable

__all__ = ["Anthropic", "AnthropicSettings"]

_DEFAULTS = Defaults("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")


@frozen
class AnthropicSettings:
    """The deployment file's `model:` for the provider `anthropic`.

    `base_url`, without the `/v1`: else the environment's ANTHROPIC_BASE_URL, else Anthropic's own. `api_key_env` names
    the environment variable of the key: without it ANTHROPIC_API_KEY, or no key at all if there is a `base_url`.
    `reasoning_effort` also asks for a summary of the reasoning; without it the model thinks as it does by itself.
    `timeout_s`: seconds of silence after which a request fails. `retries`: how often one is sent again.
    """

    model: str = field(validator=min_len(1))
    base_url: str | None = field(default=None, validator=optional(check_base_url))
    api_key_env: str | None = field(default=None, validator=optional(check_variable))
    temperature: float | None = field(default=None, validator=optional([ge(0), le(1)]))
    max_output_tokens: int = field(default=32_000, validator=ge(1))
    reasoning_effort: str | None = field(
        default=None, validator=optional(in_(["low", "medium", "high", "xhigh", "max"]))
    )
    timeout_s: float = field(default=600.0, validator=gt(0))
    retries: int = field(default=3, validator=[ge(0), le(10)])

    def key_variable(self) -> str | None:
        """The environment variable of the key, None when none is sent."""
        return _DEFAULTS.variable(self.base_url, self.api_key_env)

    def endpoint(self) -> Endpoint:
        """Where requests go, with the key read. Raises ModelError."""
        return _DEFAULTS.endpoint(self.model, self.timeout_s, self.base_url, self.api_key_env)


def _create(settings: AnthropicSettings) -> Model:
    endpoint = settings.endpoint()
    from ._model import Messages  # imports the SDK

    return Messages(settings, endpoint)


@frozen(eq=False)
class Anthropic:
    """The plugin. Its provider is `anthropic`."""

    @hookimpl
    def register_models(self) -> list[ModelProvider]:
        """Give the provider."""
        return [ModelProvider("anthropic", AnthropicSettings, _create, AnthropicSettings.key_variable)]
