"""Requests to the Messages API: what it takes, stable bytes, and where the cache marks stand."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from fake_anthropic import marks, refuse
from hypothesis import given
from surfaces import HEADER, conversation, surfaces

from dsh_anthropic import AnthropicSettings
from dsh_anthropic._wire import Converter
from dsh_hookspecs import (
    Block,
    ChatMessage,
    Header,
    ModelRequest,
    PromptSection,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)

MARK = b',"cache_control":{"type":"ephemeral"}'


def message(role: str, kind: str, *blocks: Block) -> ChatMessage:
    return ChatMessage("m", role, blocks, {"kind": kind})  # type: ignore[arg-type]  # one of the roles


def user(text: str, kind: str = "user") -> ChatMessage:
    return message("user", kind, TextBlock(text))


def assistant(*blocks: Block) -> ChatMessage:
    return message("assistant", "model", *blocks)


def call(number: int, arguments: str = "{}", name: str = "clock") -> ToolCallBlock:
    return ToolCallBlock(f"t1s1c{number}", name, arguments)


def result(number: int, text: str = "12:00", *, is_error: bool = False) -> ChatMessage:
    return message("tool", "tool", ToolResultBlock(f"t1s1c{number}", text, is_error))


def sent(*messages: ChatMessage, header: Header = HEADER, **settings: Any) -> dict[str, Any]:
    """The decoded body of a request, which the API would take."""
    converter = Converter(AnthropicSettings(model="m", **settings))
    body: dict[str, Any] = json.loads(converter.body(ModelRequest(header, messages))[0])
    assert refuse(body) is None
    return body


def marked(*messages: ChatMessage) -> list[str]:
    """The texts of the blocks among the messages that bear a cache mark."""
    return [mark.get("text") or mark.get("content") for mark in marks(sent(*messages, header=Header()))]


@given(surfaces())
def test_any_history_of_the_host_is_a_request_that_the_api_takes(messages: list[ChatMessage]) -> None:
    sent(*messages)
    sent(*messages, header=Header(), reasoning_effort="high")


def test_each_request_of_thirty_steps_extends_the_bytes_of_the_one_before() -> None:
    converter = Converter(AnthropicSettings(model="m"))
    bodies = [converter.body(ModelRequest(HEADER, messages))[0] for messages in conversation(30)]
    for shorter, longer in pairwise(body.replace(MARK, b"") for body in bodies):
        assert longer.startswith(shorter.removesuffix(b"]}]}"))
        assert len(longer) > len(shorter)
    assert [refuse(json.loads(body)) for body in bodies] == [None] * 30


def test_the_tools_and_the_system_prompt_end_with_a_cache_mark() -> None:
    body = sent(user("hi"))
    assert ["cache_control" in part for part in body["tools"]] == [False, True]
    assert [(part["text"], "cache_control" in part) for part in body["system"]] == [
        ("You are terse.", False),
        ("Use tools.", True),
    ]
    assert set(sent(user("hi"), header=Header(system=(PromptSection("a", 0, " "),)))) == {
        "model",
        "max_tokens",
        "stream",
        "messages",
    }


def test_the_newest_message_before_a_plugins_readings_bears_a_mark_and_the_one_of_the_request_before() -> None:
    reading = user("<reading>", "dsh-time-reminder")
    assert marked(user("a"), reading) == ["a"]
    asked = [user("a"), reading, assistant(call(1), call(2)), result(1, "one"), result(2, "two")]
    assert marked(*asked, reading) == ["a", "two"]
    assert marked(*asked, reading, assistant(TextBlock("b")), user("c"), reading, reading) == ["two", "c"]
    assert marked(user("x"), assistant(), reading) == ["x"]
    assert marked(reading) == []
    assert marked(assistant(), reading) == []


def test_results_and_what_follows_them_are_one_user_message() -> None:
    body = sent(user("a"), assistant(call(1), call(2)), result(1, " "), result(2, "no", is_error=True), user("b"))
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    results = [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in body["messages"][2]["content"]
    ]
    assert results == [
        {"type": "tool_result", "tool_use_id": "t1s1c1"},
        {"type": "tool_result", "tool_use_id": "t1s1c2", "content": "no", "is_error": True},
        {"type": "text", "text": "b"},
    ]


def test_a_history_whose_head_was_cut_begins_with_a_user_message_all_the_same() -> None:
    body = sent(assistant(TextBlock("a")), user("b"))
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ('{"a": ', {"invalid_arguments": '{"a": '}),
        ("[]", {"invalid_arguments": "[]"}),
    ],
)
def test_past_calls_have_objects_as_input(arguments: str, shown: dict[str, object]) -> None:
    body = sent(user("a"), assistant(call(1, arguments, "dotted.name")), result(1))
    block = body["messages"][1]["content"][0]
    assert block["input"] == shown
    assert block["name"] == body["tools"][1]["name"]


@pytest.mark.parametrize(
    "replay",
    [
        "",
        "reasoning_content",
        "{}\n",
        '{"provider": "anthropic"}\n',
        '{"provider": "anthropic", "prefix": "other", "length": 2, "signature": "S"}\n',
    ],
)
def test_reasoning_that_the_api_could_not_check_is_left_out(replay: str) -> None:
    body = sent(user("a"), assistant(ReasoningBlock("hm", replay), TextBlock("b")), user("c"))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "b"}]


def thought(converter: Converter, header: Header, text: str, length: int, before: list[ChatMessage]) -> ReasoningBlock:
    prefix = converter.body(ModelRequest(header, before))[1]
    return ReasoningBlock(
        text, json.dumps({"provider": "anthropic", "prefix": prefix, "length": length, "signature": "S"}) + "\n"
    )


def test_thinking_that_was_cut_off_is_left_out() -> None:
    """Without an answer after it the API refuses it, and text beyond the signed block was never complete."""
    converter, prompt = Converter(AnthropicSettings(model="m")), user("a")
    unfinished = thought(converter, HEADER, "hm", 3, [prompt])
    whole = thought(converter, HEADER, "hm, and then", 2, [prompt])
    for block, shown in [(unfinished, []), (whole, ["hm"])]:
        messages = [prompt, assistant(block, TextBlock("b")), user("c")]
        body = json.loads(converter.body(ModelRequest(HEADER, messages))[0])
        assert [part["thinking"] for part in body["messages"][1]["content"] if "thinking" in part] == shown
    messages = [prompt, assistant(whole), user("c")]
    assert len(json.loads(converter.body(ModelRequest(HEADER, messages))[0])["messages"]) == 1


def test_thinking_is_left_out_when_the_system_prompt_changed_and_is_back_when_it_is() -> None:
    converter, prompt = Converter(AnthropicSettings(model="m")), user("a")
    other = Header(system=(PromptSection("time", 10, "Later."),))
    messages = [prompt, assistant(thought(converter, HEADER, "hm", 2, [prompt]), TextBlock("b")), user("c")]
    kinds = [
        [
            block["type"]
            for block in json.loads(converter.body(ModelRequest(header, messages))[0])["messages"][1]["content"]
        ]
        for header in (HEADER, other, HEADER)
    ]
    assert kinds == [["thinking", "text"], ["text"], ["thinking", "text"]]


def test_settings_are_sent_only_when_given() -> None:
    assert sent(user("a"))["max_tokens"] == 32_000
    body = sent(user("a"), temperature=0.0, max_output_tokens=7, reasoning_effort="low")
    assert (body["temperature"], body["max_tokens"]) == (0.0, 7)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "low"}
