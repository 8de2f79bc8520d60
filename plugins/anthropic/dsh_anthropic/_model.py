"""A model behind the Messages API. Importing this imports the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

import anthropic
import httpx2
import msgspec
from attrs import define, field

from dsh_hookspecs import (
    Finished,
    ModelDelta,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from dsh_hookspecs.remote import Endpoint, TryAgain, said, with_retries
from dsh_hookspecs.wire import tool_names

from . import AnthropicSettings
from ._events import Event, TokenCounts
from ._wire import Converter, Thought

_CONNECT_TIMEOUT_S = 10.0
#: Given to the SDK where no key is needed: without one it would look for other credentials of the user, and send them.
_NO_KEY = "no-key"
_STOP_REASONS: Mapping[str, StopReason] = {
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "tool_use": "tool-calls",
    "refusal": "refusal",
}
#: The statuses that errors inside a stream stand for, by their type.
_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


@define(eq=False)
class Messages:
    """A model behind the Messages API. It can serve many sessions at once, in one event loop."""

    _settings: AnthropicSettings
    _endpoint: Endpoint
    _sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _client: anthropic.AsyncAnthropic | None = field(default=None, init=False, repr=False)
    _converter: Converter = field(init=False, repr=False)

    @_converter.default
    def _new_converter(self) -> Converter:
        return Converter(self._settings)

    @property
    def config(self) -> Mapping[str, object]:
        """What changes the answers. Of the URL only the host: a path may hold a secret."""
        settings = {
            "temperature": self._settings.temperature,
            "maxOutputTokens": self._settings.max_output_tokens,
            "reasoningEffort": self._settings.reasoning_effort,
        }
        chosen = {name: value for name, value in settings.items() if value is not None}
        return {"provider": "anthropic", "model": self._settings.model, "host": self._endpoint.host, **chosen}

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Answer `request`; see `dsh_hookspecs.Model`."""
        body, prefix = self._converter.body(request)
        names = tool_names(request.header.tools)
        return with_retries(lambda: self._attempt(body, _Answer(names, prefix)), self._settings.retries, self._sleep)

    async def close(self) -> None:
        """Give back connections."""
        if self._client is not None:
            await self._client.close()

    async def _attempt(self, body: bytes, answer: _Answer) -> AsyncGenerator[ModelDelta, None]:
        failure: ModelError | TryAgain | None = None
        stream: anthropic.AsyncStream[object] | None = None
        content_type, began = "", False
        try:
            stream = await self._connected().post(
                "/v1/messages", content=body, cast_to=object, stream=True, stream_cls=anthropic.AsyncStream[object]
            )
            content_type = stream.response.headers.get("content-type", "")
            async for event in stream:
                began = True
                for delta in answer.take(msgspec.convert(event, Event)):
                    yield delta
        except anthropic.APIStatusError as error:
            status = error.status_code if error.status_code != 200 else _STATUSES.get(error.type or "", 500)
            failure = self._endpoint.refusal(status, said(error.body), error.response.headers, error.type or "")
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            failure = self._endpoint.disconnection(error)
        except (ValueError, RecursionError):
            failure = self._endpoint.error(f"{self._endpoint.host} sent what is no message: correct model.baseUrl")
        finally:
            if stream is not None:
                await stream.close()
        if answer.stop_reason is None:
            # Raised here, not above: an exception that is chained to the SDK's would carry the key along.
            raise failure or self._endpoint.broke_off(content_type, began=began)
        yield Finished(answer.stop_reason, answer.usage)

    def _connected(self) -> anthropic.AsyncAnthropic:
        if self._client is None:
            timeout = anthropic.Timeout(self._settings.timeout_s, connect=_CONNECT_TIMEOUT_S)
            self._client = anthropic.AsyncAnthropic(
                api_key=self._endpoint.key or _NO_KEY,
                base_url=self._endpoint.url,
                max_retries=0,
                # Redirects are not followed: the key would go along.
                http_client=anthropic.DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False),
            )
        return self._client


@define
class _Answer:
    """What has come of an answer. `prefix` stands for the request; see `Thought`."""

    _names: Mapping[str, str]
    _prefix: str
    stop_reason: StopReason | None = None
    _counts: TokenCounts = field(factory=TokenCounts)
    _calls: int = 0
    #: Of the block that is being streamed: characters of thinking, signature, redacted data.
    _length: int = 0
    _signature: str = ""
    _redacted: str = ""

    @property
    def usage(self) -> Usage | None:
        """The counts in the log's terms, None if the server counts nothing."""
        return self._counts.usage()

    def take(self, event: Event) -> Iterator[ModelDelta]:
        """The deltas of one event. Kinds that are not known, of events and of blocks, give none."""
        if event.message is not None:
            self._counts = self._counts.updated(event.message.usage)
        self._counts = self._counts.updated(event.usage)
        if (block := event.content_block) is not None:
            self._length, self._signature, self._redacted = 0, block.signature or "", block.data
            if block.type == "tool_use":
                self._calls += 1
                yield ToolCallDelta(self._calls - 1, name=self._names.get(block.name, block.name))
            yield from self._said(block.text, block.thinking)
        if (delta := event.delta) is not None:
            yield from self._said(delta.text, delta.thinking)
            self._signature += delta.signature
            if delta.partial_json:
                yield ToolCallDelta(self._calls - 1, arguments=delta.partial_json)
            if delta.stop_reason:
                self.stop_reason = _STOP_REASONS.get(delta.stop_reason, "end")
        if event.type == "content_block_stop" and (self._signature or self._redacted):
            thought = Thought(self._prefix, self._length, self._signature, self._redacted)
            yield ReasoningDelta("", replay=msgspec.json.encode(thought).decode() + "\n")
            self._signature = self._redacted = ""

    def _said(self, text: str, thinking: str) -> Iterator[ModelDelta]:
        if text:
            yield TextDelta(text)
        if thinking:
            self._length += len(thinking)
            yield ReasoningDelta(thinking)
