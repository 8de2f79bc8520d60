"""The contract: what is logged encodes and decodes to itself, and hookspecs say what a plugin author needs."""

import inspect

import msgspec
import pytest

from dsh_hookspecs import PAYLOADS, ChatMessage, Header, Hooks, ModelRequest, TextBlock, ToolResult, UserMessage


def message(text: str, number: int = 0) -> ChatMessage:
    return ChatMessage(id=f"m{number}", role="user", content=(TextBlock(text),), source={"kind": "user"})


def test_a_prompt_is_logged_as_the_whole_message() -> None:
    prompt = UserMessage(id="m1", role="user", content=(TextBlock("hi"),), source={"kind": "user"})
    assert msgspec.json.encode(prompt) == (
        b'{"id":"m1","role":"user","content":[{"type":"text","text":"hi"}],"source":{"kind":"user"}}'
    )


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_each_event_type_names_its_struct(name: str) -> None:
    assert PAYLOADS[name].type == name


def test_a_tool_result_says_whether_it_stands_in_for_a_real_one() -> None:
    data = b"""{"message": {"id": "m9", "role": "tool", "source": {"kind": "tool"},
        "content": [{"type": "tool-result", "id": "c1", "text": "?", "isError": true}]},
        "error": {"name": "Interrupted", "code": "TOOL_OUTCOME_UNKNOWN"}}"""
    result = msgspec.json.decode(data, type=ToolResult)
    assert (result.result.id, result.stands_in) == ("c1", True)


def test_a_longer_request_starts_with_the_bytes_of_the_shorter() -> None:
    shorter = ModelRequest(Header(), [message("a", 1)])
    longer = ModelRequest(Header(), [message("a", 1), message("b", 2)])
    assert longer.encode().startswith(shorter.encode())


@pytest.mark.parametrize("name", [name for name in vars(Hooks) if not name.startswith("_")])
def test_each_hookspec_says_when_it_is_called_what_none_means_and_what_a_failure_does(name: str) -> None:
    text = inspect.getdoc(getattr(Hooks, name)) or ""
    assert "Called" in text
    assert "On failure" in text
    assert "None" in text or name.startswith("register_")
