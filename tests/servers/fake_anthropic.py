"""The Messages API's wire: what it refuses, and how it streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fake_server import FakeServer, Reply

_FIELDS = {"model", "max_tokens", "stream", "temperature", "thinking", "output_config", "tools", "system", "messages"}
_BLOCK_FIELDS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}
_NEEDED = {kind: fields - {"content", "is_error"} for kind, fields in _BLOCK_FIELDS.items()}
_OF_ROLE = {"user": {"text", "tool_result"}, "assistant": {"text", "thinking", "redacted_thinking", "tool_use"}}
_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


def server() -> FakeServer:
    def error(message: str) -> object:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    return FakeServer("/v1/messages", refuse, error)


def marks(body: Mapping[str, Any]) -> list[Any]:
    """Everything that bears a cache mark, in order."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [part for part in [*body.get("tools", []), *body.get("system", []), *blocks] if "cache_control" in part]


def refuse(body: Mapping[str, Any]) -> str | None:
    """What is wrong with a request, None if nothing is."""
    if unknown := set(body) - _FIELDS:
        return f"unknown fields {unknown}"
    if not body.get("model") or body.get("stream") is not True or not body.get("max_tokens"):
        return "stream, model or max_tokens missing"
    if len(marks(body)) > 4 or any(mark["cache_control"] != {"type": "ephemeral"} for mark in marks(body)):
        return "too many or bad cache marks"
    names = [tool["name"] for tool in body.get("tools", [])]
    if len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
        return f"bad tool names {names}"
    if any(tool["input_schema"].get("type") != "object" for tool in body.get("tools", [])):
        return "input_schema is no object"
    if any(not block["text"].strip() for block in body.get("system", [])):
        return "system: text content blocks must be non-empty"
    return _refuse_messages(body["messages"])


def _refuse_messages(messages: Sequence[Mapping[str, Any]]) -> str | None:
    seen: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role != ("assistant" if number % 2 else "user") or set(message) != {"role", "content"}:
            return f"messages.{number}: roles must alternate, user first"
        if not message["content"]:
            return f"messages.{number}: empty content"
        if wrong := _refuse_blocks(message["content"], role):
            return f"messages.{number}: {wrong}"
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            return f"messages.{number}: calls {waiting} need results directly after them, there are {results}"
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if seen & set(calls) or len(set(calls)) != len(calls):
            return f"messages.{number}: `tool_use` ids must be unique"
        seen.update(calls)
        waiting = calls
    return "the conversation must end with a user message" if len(messages) % 2 == 0 else None


def _refuse_blocks(blocks: Iterable[Mapping[str, Any]], role: str) -> str | None:
    last = ""
    for block in blocks:
        kind = block["type"]
        if kind not in _OF_ROLE[role]:
            return f"{kind} is not for {role}"
        fields = set(block) - (set() if "thinking" in kind else {"cache_control"})
        if not _NEEDED[kind] <= fields <= _BLOCK_FIELDS[kind]:
            return f"bad fields {fields}"
        if kind == "text" and not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        if kind == "tool_result" and last == "text":
            return "tool results come first"
        if kind == "tool_use" and (not _NAME.fullmatch(block["name"]) or not isinstance(block["input"], dict)):
            return f"bad call {block}"
        if kind == "tool_use" and not _NAME.fullmatch(block["id"]):
            return "bad id"
        last = kind
    return "the final block cannot be thinking" if "thinking" in last else None


def event(kind: str, **data: object) -> bytes:
    """One event of a stream."""
    body = json.dumps({"type": kind, **data}, ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()


def start(index: int, **block: object) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **more: object) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **more})


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


BEGIN = event(
    "message_start",
    message={
        "id": "msg",
        "role": "assistant",
        "content": [],
        "usage": {
            "input_tokens": 2,
            "cache_read_input_tokens": 6,
            "cache_creation_input_tokens": 1,
            "output_tokens": 1,
        },
    },
)
END = event("message_stop")


def end(reason: str) -> bytes:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 4})


#: Reasoning, text and two calls, with everything that makes a stream hard to read.
RICH = [
    BEGIN,
    event("ping"),
    start(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="think \u65f6"),
    delta(0, "signature_delta", signature="SIG"),
    stop(0),
    start(1, type="redacted_thinking", data="SECRET"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, "text_delta", text="It is \u2603 "),
    delta(2, "text_delta", text="late.\u2028"),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="clock", input={}),
    delta(3, "input_json_delta", partial_json=""),
    delta(3, "input_json_delta", partial_json='{"zo'),
    delta(3, "input_json_delta", partial_json='ne": 1}'),
    stop(3),
    start(4, type="tool_use", id="toolu_2", name="clock", input={}),
    stop(4),
    event("something_new", index=4),
    end("tool_use"),
    END,
]


def says(text: str) -> Reply:
    """A whole answer of one text."""
    blocks = [start(0, type="text", text=""), delta(0, "text_delta", text=text), stop(0)]
    return Reply([BEGIN, *blocks, end("end_turn"), END])
