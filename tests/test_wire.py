"""What providers share on the way to the wire: each message converted once, names, arguments and schemas."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import ChatMessage, TextBlock, ToolSchema
from dsh_hookspecs.wire import Histories, object_arguments, object_schema, tool_names, wire_name


def message(text: str) -> ChatMessage:
    return ChatMessage(id=text, role="user", content=(TextBlock(text),), source={"kind": "user"})


class Counting:
    """Converts to `text;` with a count, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, state: int, message: ChatMessage) -> tuple[bytes, int]:
        self.asked += 1
        return f"{state}{message.text};".encode(), state + 1


def test_a_growing_history_converts_only_what_is_new() -> None:
    convert = Counting()
    histories = Histories(convert)
    messages = [message(str(number)) for number in range(100)]
    for length in range(1, 101):
        assert histories.of(messages[:length], 0).data.count(b";") == length
    assert convert.asked == 100


def test_sessions_that_take_turns_do_not_convert_anew() -> None:
    convert = Counting()
    histories = Histories(convert)
    sessions = [[message(f"{letter}{number}") for number in range(20)] for letter in "abc"]
    for length in range(1, 21):
        for session in sessions:
            assert histories.of(session[:length], 0).messages == session[:length]
    assert convert.asked == 60


def test_only_a_bounded_number_of_histories_is_kept() -> None:
    histories = Histories(Counting())
    for number in range(50):
        histories.of([message(str(number))], 0)
    assert len(histories._kept) == 16


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 6), st.integers(0, 1)), max_size=30))
def test_whatever_was_asked_before_the_bytes_are_those_of_a_fresh_conversion(
    steps: list[tuple[int, int, int, int]],
) -> None:
    """Histories grow, are cut, and have messages replaced in the middle, as a compaction does."""
    histories = Histories(Counting())
    sessions = [[message(f"{letter}{number}") for number in range(6)] for letter in "abc"]
    for session, length, replaced, start in steps:
        if replaced < 6:
            sessions[session][replaced] = message(f"new{replaced}")
        messages = sessions[session][:length]
        assert histories.of(messages, start).data == Histories(Counting()).of(messages, start).data


def test_names_that_the_apis_take_stay_and_others_become_ones_they_take() -> None:
    assert wire_name("clock_1-a") == "clock_1-a"
    assert wire_name("a.b") != wire_name("a:b")
    tools = [ToolSchema("clock", "", {}), ToolSchema("a.b", "", {})]
    assert tool_names(tools) == {"clock": "clock", wire_name("a.b"): "a.b"}


@given(st.text())
def test_every_name_on_the_wire_is_one_that_the_apis_take(name: str) -> None:
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", wire_name(name))


@given(st.text() | st.dictionaries(st.text(max_size=3), st.integers()).map(json.dumps))
def test_arguments_on_the_wire_are_an_object_and_a_models_own_object_is_not_touched(arguments: str) -> None:
    shown = object_arguments(arguments)
    assert isinstance(json.loads(shown), dict)
    try:
        if isinstance(json.loads(arguments), dict):
            assert shown in (arguments, json.dumps({"invalid_arguments": arguments}))
    except ValueError:
        assert arguments.strip() == "" or arguments in json.loads(shown).values()


def test_arguments_nested_too_deep_to_read_are_quoted() -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert json.loads(object_arguments(deep)) == {"invalid_arguments": deep}


class Inner(msgspec.Struct):
    day: int


class Arguments(msgspec.Struct):
    zone: str
    inner: Inner | None = None


class Tree(msgspec.Struct):
    children: list[Tree] = []


@pytest.mark.parametrize("struct", [Arguments, Inner, Tree])
def test_a_structs_schema_has_its_object_at_the_top_and_all_that_it_refers_to(struct: type[msgspec.Struct]) -> None:
    schema = object_schema(msgspec.json.schema(struct))
    assert schema["type"] == "object"
    referred = set(re.findall(r"#/\$defs/(\w+)", json.dumps(schema)))
    assert referred <= set(schema.get("$defs", {}))  # type: ignore[call-overload]  # a mapping of schemas


@pytest.mark.parametrize("schema", [{"type": "object"}, {"$ref": "#/$defs/X"}, {"$ref": "#/$defs/X", "$defs": {}}])
def test_other_schemas_stay_as_they_are(schema: dict[str, object]) -> None:
    assert object_schema(schema) == schema
