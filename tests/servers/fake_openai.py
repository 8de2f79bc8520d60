"""The chat completions API's wire: what it refuses, and how it streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fake_server import FakeServer, Reply

_FIELDS = {
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
}
_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content", "reasoning"},
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


def server() -> FakeServer:
    return FakeServer("/v1/chat/completions", refuse, lambda message: {"error": {"message": message, "code": "bad"}})


def refuse(body: Mapping[str, Any]) -> str | None:
    """What is wrong with a request, None if nothing is."""
    if unknown := set(body) - _FIELDS:
        return f"unknown fields {unknown}"
    if body.get("stream") is not True or not body.get("model") or not body.get("messages"):
        return "stream, model or messages missing"
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
        return f"bad tool names {names}"
    if "tools" in body and not body["tools"]:
        return "tools is empty"
    for tool in body.get("tools", []):
        if set(tool) != {"type", "function"} or tool["function"]["parameters"].get("type") != "object":
            return f"bad tool {tool}"
    return _refuse_messages(body["messages"])


def _refuse_messages(messages: Iterable[Mapping[str, Any]]) -> str | None:
    waiting: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in _MESSAGE_FIELDS or (role == "system" and number):
            return f"messages[{number}]: wrong role {role}"
        if unknown := set(message) - _MESSAGE_FIELDS[role]:
            return f"messages[{number}]: unknown fields {unknown}"
        if waiting and role != "tool":
            return f"messages[{number}]: calls {waiting} have no result"
        content = message["content"]
        if role == "tool":
            if message["tool_call_id"] not in waiting or not isinstance(content, str):
                return f"messages[{number}]: a result without its call, or without text"
            waiting.remove(message["tool_call_id"])
            continue
        calls = message.get("tool_calls", [])
        if not (isinstance(content, str) and content) and not (content is None and calls):
            return f"messages[{number}]: empty content"
        for call in calls:
            if set(call) != {"type", "id", "function"} or set(call["function"]) != {"name", "arguments"}:
                return f"messages[{number}]: bad call {call}"
            if call["id"] in seen or not _NAME.fullmatch(call["function"]["name"]):
                return f"messages[{number}]: id used twice, or bad name: {call}"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"messages[{number}]: arguments are no object"
            seen.add(call["id"])
            waiting.append(call["id"])
    return f"calls {waiting} have no result" if waiting else None


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: Mapping[str, object] | None = None, finish: str | None = None, **more: object) -> bytes:
    """One event of a stream."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event({**base, "choices": choices, **more})


def call(index: int, *, id: str = "", name: str = "", arguments: str = "") -> dict[str, object]:  # noqa: A002 - the API's name
    """A delta with a piece of a tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value}
    return {"tool_calls": [{"index": index, **({"id": id, "type": "function"} if id else {}), "function": function}]}


DONE = b"data: [DONE]\n\n"
USAGE = chunk(usage={"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}})
#: Reasoning, text and two calls, with everything that makes a stream hard to read.
RICH = [
    b": keep-alive\n\n",
    chunk({"role": "assistant", "content": "", "reasoning_content": ""}),
    chunk({"reasoning_content": "think \u65f6"}),
    chunk({"content": "It is \u2603 "}),
    chunk({"content": "late.\u2028"}),
    chunk(call(0, id="x", name="clock", arguments='{"zo')),
    chunk(call(1, id="y", name="clock")),
    chunk(call(0, arguments='ne": 1}')),
    chunk(call(1, arguments="{}")),
    chunk(finish="tool_calls"),
    USAGE,
    DONE,
]


def says(text: str) -> Reply:
    """A whole answer of one text."""
    return Reply([chunk({"content": text}), chunk(finish="stop"), USAGE, DONE])
