"""Requests to chat completions servers: what the API takes, and stable bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from fake_openai import refuse
from hypothesis import given
from surfaces import HEADER, conversation, surfaces

from dsh_hookspecs import (
    Block,
    ChatMessage,
    Header,
    ModelRequest,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from dsh_openai import OpenAISettings
from dsh_openai._wire import Converter

CALL = ToolCallBlock("t1s1c1", "clock", "{}")
RESULT = ChatMessage("m3", "tool", (ToolResultBlock("t1s1c1", "12:00"),), {"kind": "tool"})


def user(text: str) -> ChatMessage:
    return ChatMessage("m1", "user", (TextBlock(text),), {"kind": "user"})


def assistant(*blocks: Block) -> ChatMessage:
    return ChatMessage("m2", "assistant", blocks, {"kind": "model"})


def sent(*messages: ChatMessage, header: Header = HEADER, host: str = "localhost:1", **settings: Any) -> dict[str, Any]:
    """The decoded body of a request, which the API would take."""
    converter = Converter(OpenAISettings(model="m", **settings), host)
    body: dict[str, Any] = json.loads(converter.body(ModelRequest(header, messages)))
    assert refuse(body) is None
    return body


@given(surfaces())
def test_any_history_of_the_host_is_a_request_that_the_api_takes(messages: list[ChatMessage]) -> None:
    sent(*messages)
    sent(*messages, header=Header(), host="api.deepseek.com")


def test_each_request_of_thirty_steps_extends_the_bytes_of_the_one_before() -> None:
    converter = Converter(OpenAISettings(model="m"), "localhost:1")
    bodies = [converter.body(ModelRequest(HEADER, messages)) for messages in conversation(30)]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
        assert len(longer) > len(shorter)
    assert refuse(json.loads(bodies[-1])) is None


def test_system_sections_are_one_first_message_and_an_empty_prompt_is_none() -> None:
    assert sent(user("hi"))["messages"] == [
        {"role": "system", "content": "You are terse.\n\nUse tools."},
        {"role": "user", "content": "hi"},
    ]
    body = sent(user("hi"), header=Header())
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert "tools" not in body


def test_a_tool_whose_name_the_api_refuses_is_offered_and_called_under_another() -> None:
    body = sent(user("hi"), assistant(ToolCallBlock("t1s1c1", "dotted.name", "")), RESULT)
    name = body["tools"][1]["function"]["name"]
    assert name.startswith("dotted_name_")
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": name, "arguments": "{}"}


def test_what_a_cut_off_answer_left_is_sent_only_if_it_has_text_or_calls() -> None:
    thought = ReasoningBlock("hm", "reasoning_content")
    assert [m["role"] for m in sent(user("a"), assistant(thought), user("b"), header=Header())["messages"]] == [
        "user",
        "user",
    ]
    assert sent(user("a"), assistant(), assistant(TextBlock("It is")), user("b"))["messages"][2] == {
        "role": "assistant",
        "content": "It is",
    }


def test_reasoning_goes_back_in_the_field_it_came_in_and_foreign_reasoning_does_not() -> None:
    blocks: list[Block] = [
        ReasoningBlock("a", "reasoning"),
        ReasoningBlock("b", "opaque"),
        ReasoningBlock("c", "reasoning"),
        CALL,
    ]
    message = sent(user("hi"), assistant(*blocks), RESULT)["messages"][2]
    assert message["reasoning"] == "ac"
    assert "reasoning_content" not in message


def test_deepseek_gets_the_field_it_demands_where_a_tool_was_called() -> None:
    called = sent(user("hi"), assistant(CALL), RESULT, host="api.deepseek.com")["messages"][2]
    assert called["reasoning_content"] == ""
    said = sent(user("hi"), assistant(TextBlock("a")), user("b"), host="api.deepseek.com")["messages"][2]
    assert "reasoning_content" not in said


def test_settings_are_sent_only_when_given_and_the_limit_in_the_servers_spelling() -> None:
    assert set(sent(user("hi"), header=Header())) == {"model", "stream", "stream_options", "messages"}
    settings: dict[str, Any] = {"temperature": 0.0, "max_output_tokens": 7, "reasoning_effort": "low"}
    body = sent(user("hi"), **settings)
    assert (body["temperature"], body["max_tokens"], body["reasoning_effort"]) == (0.0, 7, "low")
    assert sent(user("hi"), host="api.openai.com", **settings)["max_completion_tokens"] == 7


@pytest.mark.parametrize("arguments", ['{"a": ', "[]", "text"])
def test_arguments_that_are_no_object_are_quoted_in_one(arguments: str) -> None:
    body = sent(user("hi"), assistant(ToolCallBlock("t1s1c1", "clock", arguments)), RESULT)
    shown = json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"])
    assert shown == {"invalid_arguments": arguments}
