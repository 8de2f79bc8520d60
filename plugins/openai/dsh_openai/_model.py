"""A model behind the chat completions API. Importing this imports the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

import msgspec
import openai
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

from . import OpenAISettings
from ._wire import REASONING_FIELDS, CallPiece, Chunk, Converter

_CONNECT_TIMEOUT_S = 10.0
#: The SDK wants a key; what stands here is sent where none is needed.
_NO_KEY = "no-key"
_STOP_REASONS: Mapping[str, StopReason] = {
    "length": "max-tokens",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "refusal",
}


@define(eq=False)
class ChatCompletions:
    """A model behind the chat completions API. It can serve many sessions at once, in one event loop."""

    _settings: OpenAISettings
    _endpoint: Endpoint
    _sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _client: openai.AsyncOpenAI | None = field(default=None, init=False, repr=False)
    _converter: Converter = field(init=False, repr=False)

    @_converter.default
    def _new_converter(self) -> Converter:
        return Converter(self._settings, self._endpoint.host)

    @property
    def config(self) -> Mapping[str, object]:
        """What changes the answers. Of the URL only the host: a path may hold a secret."""
        settings = {
            "temperature": self._settings.temperature,
            "maxOutputTokens": self._settings.max_output_tokens,
            "reasoningEffort": self._settings.reasoning_effort,
        }
        chosen = {name: value for name, value in settings.items() if value is not None}
        return {"provider": "openai", "model": self._settings.model, "host": self._endpoint.host, **chosen}

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Answer `request`; see `dsh_hookspecs.Model`."""
        body = self._converter.body(request)
        names = tool_names(request.header.tools)
        return with_retries(lambda: self._attempt(body, names), self._settings.retries, self._sleep)

    async def close(self) -> None:
        """Give back connections."""
        if self._client is not None:
            await self._client.close()

    async def _attempt(self, body: bytes, names: Mapping[str, str]) -> AsyncGenerator[ModelDelta, None]:
        answer = _Answer(names)
        failure: ModelError | TryAgain | None = None
        stream: openai.AsyncStream[object] | None = None
        content_type, began = "", False
        try:
            stream = await self._connected().post(
                "/chat/completions", content=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
            )
            content_type = stream.response.headers.get("content-type", "")
            async for event in stream:
                began = True
                for delta in answer.take(msgspec.convert(event, Chunk)):
                    yield delta
        except openai.APIStatusError as error:
            failure = self._endpoint.refusal(
                error.status_code, said(error.body), error.response.headers, error.code or ""
            )
        except openai.APIConnectionError as error:
            failure = self._endpoint.disconnection(error)
        except openai.APIError as error:  # the server reported an error inside the stream
            failure = self._endpoint.refusal(_status(error), said(error.body), code=error.code or "")
        except (ValueError, RecursionError):
            host = self._endpoint.host
            failure = self._endpoint.error(f"{host} sent what is no stream of chat completions: correct model.baseUrl")
        finally:
            if stream is not None:
                await stream.close()
        if answer.stop_reason is None:
            # Raised here, not above: an exception that is chained to the SDK's would carry the key along.
            raise failure or self._endpoint.broke_off(content_type, began=began)
        for delta in answer.finish():
            yield delta

    def _connected(self) -> openai.AsyncOpenAI:
        if self._client is None:
            timeout = openai.Timeout(self._settings.timeout_s, connect=_CONNECT_TIMEOUT_S)
            self._client = openai.AsyncOpenAI(
                api_key=self._endpoint.key or _NO_KEY,
                base_url=self._endpoint.url,
                max_retries=0,
                # Redirects are not followed: the key would go along.
                http_client=openai.DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False),
            )
        return self._client


@define
class _Answer:
    """What has come of an answer. A call's name is held back until its arguments begin: it may come in pieces."""

    _names: Mapping[str, str]
    stop_reason: StopReason | None = None
    _usage: Usage | None = None
    _refused: bool = False
    _reasoning_in: str = ""
    #: By number of the call: the pieces of its name, None once it was given.
    _held: list[str | None] = field(factory=list)
    #: By the server's index: the number and the server's id of the newest call there.
    _at: dict[int, tuple[int, str]] = field(factory=dict)

    def take(self, chunk: Chunk) -> Iterator[ModelDelta]:
        """The deltas of one event."""
        if chunk.usage is not None:
            self._usage = chunk.usage.usage()
        for choice in chunk.choices or ():
            if choice.delta is not None:
                for name in REASONING_FIELDS:
                    if text := getattr(choice.delta, name):
                        yield ReasoningDelta(text, replay="" if self._reasoning_in == name else name)
                        self._reasoning_in = name
                        break  # some servers send the same text under both names
                for text in (choice.delta.content, choice.delta.refusal):
                    if text:
                        self._reasoning_in = ""
                        yield TextDelta(text)
                self._refused |= bool(choice.delta.refusal)
                for piece in choice.delta.tool_calls or ():
                    self._reasoning_in = ""
                    yield from self._call(piece)
            if choice.finish_reason:
                self.stop_reason = _STOP_REASONS.get(choice.finish_reason, "end")

    def _call(self, piece: CallPiece) -> Iterator[ModelDelta]:
        index = piece.index or 0
        number, known = self._at.get(index, (-1, ""))
        if number < 0 or (piece.id and known and piece.id != known):
            number = len(self._held)
            self._held.append("")
        self._at[index] = (number, piece.id or known)
        function = piece.function
        if function is None:
            return
        held = self._held[number]
        if function.name and held is not None:
            self._held[number] = held + function.name
        if function.arguments:
            yield from self._named(number)
            yield ToolCallDelta(number, arguments=function.arguments)

    def _named(self, number: int) -> Iterator[ModelDelta]:
        name = self._held[number]
        if name is not None:
            self._held[number] = None
            yield ToolCallDelta(number, name=self._names.get(name, name))

    def finish(self) -> Iterator[ModelDelta]:
        """What was held back, and the end."""
        for number in range(len(self._held)):
            yield from self._named(number)
        reason: StopReason = self.stop_reason or "end"
        if reason == "end" and self._held:
            reason = "tool-calls"  # some servers say `stop`
        yield Finished("refusal" if self._refused else reason, self._usage)


def _status(error: openai.APIError) -> int:
    """The status that an error inside a stream stands for. Servers that give none had trouble of their own."""
    return int(error.code) if error.code is not None and error.code.isdecimal() and len(error.code) == 3 else 500
