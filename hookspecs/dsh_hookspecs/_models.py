"""Models: the request a provider is given and the stream it gives back, independent of any one provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from attrs import frozen

from ._events import ChatMessage, Header, Usage

_encode_lines = msgspec.json.Encoder().encode_lines

StopReason = Literal["end", "tool-calls", "max-tokens", "refusal"]


@frozen
class ModelRequest:
    """One request. `messages` grows only at its end from one request of a session to the next."""

    header: Header
    messages: Sequence[ChatMessage]

    def encode(self) -> bytes:
        r"""Return the request as lines of JSON: the header, then one line per message, each ending in `\n`.

        As long as the header and old messages stay, an earlier request is a prefix of a later one, byte for byte.
        """
        return _encode_lines([self.header, *self.messages])


@frozen
class TextDelta:
    """A piece of the answer's text."""

    text: str


@frozen
class ReasoningDelta:
    """A piece of the model's reasoning; `replay` is opaque data its provider wants back with the block.

    Texts and replays of the pieces that make one block are joined, each in their order; a piece may have only one.
    """

    text: str
    replay: str = ""


@frozen
class ToolCallDelta:
    """A piece of a tool call: `name` and `arguments` of the pieces with one `index` are joined."""

    index: int
    name: str = ""
    arguments: str = ""


@frozen
class Retrying:
    """The provider sends the same bytes again after `delay_s` seconds; `attempt` counts from 2."""

    attempt: int
    delay_s: float
    reason: str


@frozen
class Finished:
    """The stream's last item."""

    stop_reason: StopReason = "end"
    usage: Usage | None = None


ModelDelta = TextDelta | ReasoningDelta | ToolCallDelta | Retrying | Finished


class ModelError(Exception):
    """A model request failed. The text is one line for the user and says what to change."""


class Model(Protocol):
    """A model that answers requests."""

    @property
    def config(self) -> Mapping[str, object]:
        """JSON values: provider, model, each setting that changes what the model sees. Logged, so never a secret."""
        ...

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Answer `request`; the last item is `Finished`.

        Raises ModelError. Closing the iterator early closes the connection.
        """
        ...

    async def close(self) -> None:
        """Give back connections. No stream is open any more."""
        ...


def _no_key(_settings: object) -> None:
    pass


@frozen
class ModelProvider:
    """A provider: `create(settings)` makes a model from an instance of `settings`.

    `settings` is a frozen attrs class that is filled from the deployment file's `model:` mapping without its `provider`
    key, camelCase there and snake_case here. `key_variable(settings)` names the environment variable that the key is
    read from, None when none is sent. A provider called `x` comes with a plugin called `dsh-x`, which the host enables
    by itself when a deployment names the provider.
    """

    name: str
    settings: type[Any]
    create: Callable[[Any], Model]
    key_variable: Callable[[Any], str | None] = _no_key
