"""A request as the chat completions API wants it, and what comes back, as far as it is read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from attrs import field, frozen
from msgspec import Struct

from dsh_hookspecs import (
    ChatMessage,
    ModelRequest,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    Usage,
)
from dsh_hookspecs.wire import Histories, object_arguments, object_schema, wire_name

from . import OpenAISettings

#: The fields servers stream reasoning in. A block's `replay` starts with the one it came in, and goes back in it.
REASONING_FIELDS = ("reasoning_content", "reasoning")
#: The API refuses a message without text.
_EMPTY = "(empty message)"

_encode = msgspec.json.encode


class _CalledFunction(Struct, frozen=True):
    name: str
    arguments: str


class _Call(Struct, frozen=True, tag_field="type", tag="function"):
    id: str
    function: _CalledFunction


class _OfferedFunction(Struct, frozen=True):
    name: str
    description: str
    parameters: object


class _Tool(Struct, frozen=True, tag_field="type", tag="function"):
    function: _OfferedFunction


class _Message(Struct, frozen=True, omit_defaults=True):
    role: str
    content: str | None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] = []
    tool_call_id: str = ""


class _StreamOptions(Struct, frozen=True):
    include_usage: bool = True


class _Request(Struct, frozen=True, omit_defaults=True):
    model: str
    stream: bool
    stream_options: _StreamOptions
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    tools: list[_Tool] = []


@frozen
class Converter:
    """Turns requests into bytes; `host` decides between the dialects of the API."""

    settings: OpenAISettings
    host: str
    _histories: Histories[bool] = field(init=False)

    @_histories.default
    def _new_histories(self) -> Histories[bool]:
        return Histories(self._convert)

    def body(self, request: ModelRequest) -> bytes:
        """The request's body. Messages stand last, so that a longer conversation begins with the shorter's bytes."""
        head = _encode(self._head(request.header.tools))[:-1]
        system = "\n\n".join(section.text for section in request.header.system if section.text)
        first = _encode(_Message("system", system)) if system else b""
        history = self._histories.of(request.messages, start=bool(system))
        return b"".join((head, b',"messages":[', first, history.data, b"]}"))

    def _head(self, tools: Sequence[ToolSchema]) -> _Request:
        limit = self.settings.max_output_tokens
        # OpenAI's reasoning models refuse `max_tokens`; other servers do not all know its successor.
        successor = self.host.endswith("openai.com")
        return _Request(
            model=self.settings.model,
            stream=True,
            stream_options=_StreamOptions(),
            max_tokens=None if successor else limit,
            max_completion_tokens=limit if successor else None,
            temperature=self.settings.temperature,
            reasoning_effort=self.settings.reasoning_effort,
            tools=[
                _Tool(_OfferedFunction(wire_name(tool.name), tool.description, object_schema(tool.parameters)))
                for tool in tools
            ],
        )

    def _convert(self, preceded: bool, message: ChatMessage) -> tuple[bytes, bool]:
        converted = b",".join(_encode(part) for part in self._parts(message))
        if not converted:
            return b"", preceded
        return b"," + converted if preceded else converted, True

    def _parts(self, message: ChatMessage) -> list[_Message]:
        if message.role == "tool":
            results = [block for block in message.content if isinstance(block, ToolResultBlock)]
            return [_Message("tool", result.text, tool_call_id=result.id) for result in results]
        text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
        if message.role == "user":
            return [_Message("user", text or _EMPTY)]
        calls = [
            _Call(block.id, _CalledFunction(wire_name(block.name), object_arguments(block.arguments)))
            for block in message.content
            if isinstance(block, ToolCallBlock)
        ]
        if not text and not calls:
            return []  # an interrupted answer that had only begun to think
        reasoning = self._reasoning(message, called=bool(calls))
        return [_Message("assistant", text or None, tool_calls=calls, **reasoning)]

    def _reasoning(self, message: ChatMessage, *, called: bool) -> dict[str, str]:
        fields: dict[str, str] = {}
        for block in message.content:
            if isinstance(block, ReasoningBlock):
                name = next((name for name in REASONING_FIELDS if block.replay.startswith(name)), None)
                if name is not None:
                    fields[name] = fields.get(name, "") + block.text
        if called and self.host.endswith("deepseek.com"):
            fields.setdefault("reasoning_content", "")  # refused without it where a tool was called
        return fields


class Function(Struct, frozen=True):
    """A piece of a called function."""

    name: str | None = None
    arguments: str | None = None


class CallPiece(Struct, frozen=True):
    """A piece of a tool call. Servers that send each call whole leave out `index` or let it be 0 for all."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(Struct, frozen=True):
    """What a chunk adds to the answer."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(Struct, frozen=True):
    """One of the answers; only one was asked for."""

    delta: Delta | None = None
    finish_reason: str | None = None


class PromptDetails(Struct, frozen=True):
    """Where OpenAI, vLLM and llama.cpp count cached tokens."""

    cached_tokens: int | None = None


class TokenCounts(Struct, frozen=True):
    """The usage, in OpenAI's spelling and DeepSeek's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def usage(self) -> Usage:
        """The counts in the log's terms; what the server does not count is 0."""
        details = self.prompt_tokens_details
        cached = (details.cached_tokens if details is not None else None) or self.prompt_cache_hit_tokens or 0
        return Usage(
            input_tokens=self.prompt_tokens or 0, cached_tokens=cached, output_tokens=self.completion_tokens or 0
        )


class Chunk(Struct, frozen=True):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: TokenCounts | None = None
