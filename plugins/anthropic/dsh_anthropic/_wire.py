"""A request as the Messages API wants it: roles that alternate, and marks for its prompt cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Literal

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
)
from dsh_hookspecs.wire import Histories, History, object_arguments, object_schema, wire_name

from . import AnthropicSettings

#: The API refuses text without a visible character, and a conversation that the model begins.
_EMPTY = "(empty message)"
_CUT = "(earlier messages are left out)"
_CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
#: Who messages are from that no plugin put there.
_CONVERSATION = ("user", "model", "tool")

_encode = msgspec.json.encode


class _Mark(Struct, frozen=True, tag_field="type", tag="ephemeral"):
    pass


class _Text(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    text: str
    cache_control: _Mark | None = None


class _Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class _RedactedThinking(Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    data: str


class _ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: msgspec.Raw


class _ToolResult(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str = ""
    is_error: bool = False


_WireBlock = _Text | _Thinking | _RedactedThinking | _ToolUse | _ToolResult


class _Tool(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    input_schema: object
    cache_control: _Mark | None = None


class _ThinkingConfig(Struct, frozen=True, tag_field="type", tag="adaptive"):
    display: str = "summarized"


class _OutputConfig(Struct, frozen=True):
    effort: str


class _Request(Struct, frozen=True, omit_defaults=True):
    model: str
    max_tokens: int
    stream: bool
    temperature: float | None = None
    thinking: _ThinkingConfig | None = None
    output_config: _OutputConfig | None = None
    tools: list[_Tool] = []
    system: list[_Text] = []


class Thought(Struct, frozen=True, omit_defaults=True, tag_field="provider", tag="anthropic"):
    """What a thinking block needs to go back: one line of JSON in a reasoning block's `replay`.

    `length`: how many characters of the reasoning block are this one's. `prefix` stands for all that was sent before
    the answer: the API takes the block back only after exactly the same.
    """

    prefix: str
    length: int = 0
    signature: str = ""
    redacted: str = ""


_read_thoughts = msgspec.json.Decoder(Thought).decode_lines


@frozen
class State:
    """How far a conversion is: `head` and `digest` stand for the bytes before the messages and those of them."""

    head: bytes
    digest: bytes = b""
    role: Literal["", "user", "assistant"] = ""

    @property
    def prefix(self) -> str:
        """What `Thought.prefix` is for an answer to all this."""
        return blake2b(self.head + self.digest, digest_size=8).hexdigest()


@frozen
class Converter:
    """Turns requests into bytes."""

    settings: AnthropicSettings
    _histories: Histories[State] = field(init=False)

    @_histories.default
    def _new_histories(self) -> Histories[State]:
        return Histories(_convert)

    def body(self, request: ModelRequest) -> tuple[bytes, str]:
        """The request's body, and what `Thought.prefix` is for its answer.

        But for the cache marks and the closing brackets, a longer conversation begins with the shorter's bytes.
        """
        head = _encode(self._head(request))[:-1]
        history = self._histories.of(request.messages, State(blake2b(head, digest_size=16).digest()))
        parts = [head, b',"messages":[']
        done = 0
        for index in _marked(history):
            inside = history.ends[index] - 1  # before the last block's closing brace
            parts += [bytes(history.data[done:inside]), _CACHE_MARK]
            done = inside
        return b"".join([*parts, bytes(history.data[done:]), b"]}]}"]), history.state.prefix

    def _head(self, request: ModelRequest) -> _Request:
        tools, system = request.header.tools, [section.text for section in request.header.system]
        system = [text for text in system if text.strip()]
        effort = self.settings.reasoning_effort
        return _Request(
            model=self.settings.model,
            max_tokens=self.settings.max_output_tokens,
            stream=True,
            temperature=self.settings.temperature,
            thinking=None if effort is None else _ThinkingConfig(),
            output_config=None if effort is None else _OutputConfig(effort),
            tools=[
                _Tool(wire_name(tool.name), tool.description, object_schema(tool.parameters), _last(number, len(tools)))
                for number, tool in enumerate(tools, 1)
            ],
            system=[_Text(text, _last(number, len(system))) for number, text in enumerate(system, 1)],
        )


def _last(number: int, of: int) -> _Mark | None:
    return _Mark() if number == of else None


def _marked(history: History[State]) -> list[int]:
    """The messages to mark for the cache: the newest that no plugin added, and the same in the request before.

    What a plugin put at the end stands after the mark. The API looks only 20 blocks back from a mark for what it has
    cached, and one step can add more; the older mark is where it cached last.
    """
    marked: list[int] = []
    after_answer = True
    for index in range(len(history.messages) - 1, -1, -1):
        message = history.messages[index]
        begins = history.ends[index - 1] if index else 0
        if message.role == "assistant" and marked:
            after_answer = True
        elif after_answer and begins < history.ends[index] and message.source.get("kind") in _CONVERSATION:
            marked.insert(0, index)
            after_answer = False
            if len(marked) == 2:
                break
    return marked


def _convert(state: State, message: ChatMessage) -> tuple[bytes, State]:
    role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
    blocks = _assistant_blocks(message, state) if role == "assistant" else _user_blocks(message)
    if not blocks:
        return b"", state
    piece = b",".join(map(_encode, blocks))
    if state.role == role:
        piece = b"," + piece
    else:
        if role == "assistant" and not state.role:
            piece = b'{"role":"user","content":[' + _encode(_Text(_CUT)) + b"]}," + _opening(role) + piece
        else:
            piece = (b"]}," if state.role else b"") + _opening(role) + piece
    return piece, State(state.head, blake2b(state.digest + piece, digest_size=16).digest(), role)


def _opening(role: str) -> bytes:
    return b'{"role":"' + role.encode() + b'","content":['


def _user_blocks(message: ChatMessage) -> Sequence[_WireBlock]:
    blocks: list[_WireBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            blocks.append(_ToolResult(block.id, block.text if block.text.strip() else "", block.is_error))
        elif isinstance(block, TextBlock) and block.text.strip():
            blocks.append(_Text(block.text))
    return blocks or [_Text(_EMPTY)]


def _assistant_blocks(message: ChatMessage, state: State) -> Sequence[_WireBlock]:
    blocks: list[_WireBlock] = []
    for block in message.content:
        if isinstance(block, ToolCallBlock):
            arguments = msgspec.Raw(object_arguments(block.arguments).encode())
            blocks.append(_ToolUse(block.id, wire_name(block.name), arguments))
        elif isinstance(block, TextBlock) and block.text.strip():
            blocks.append(_Text(block.text))
        elif isinstance(block, ReasoningBlock):
            blocks += _thinking(block, state)
    while blocks and isinstance(blocks[-1], _Thinking | _RedactedThinking):
        blocks.pop()  # refused at the end: an answer that was cut off while the model thought
    return blocks


def _thinking(block: ReasoningBlock, state: State) -> Iterator[_WireBlock]:
    """The block as the API gave it. One that is another provider's, or was given after something else, is left out."""
    if not block.replay:
        return
    try:
        thoughts = _read_thoughts(block.replay.encode())
    except ValueError:
        return
    begins = 0
    for thought in thoughts:
        text = block.text[begins : begins + thought.length]
        begins += thought.length
        if thought.prefix != state.prefix:
            continue
        if thought.redacted:
            yield _RedactedThinking(thought.redacted)
        elif thought.signature and len(text) == thought.length:
            yield _Thinking(text, thought.signature)
