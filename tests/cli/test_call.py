"""`dsh-time call`: a tool run by hand, its arguments typed by the tool."""

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from dsh_hookspecs import Tool, ToolCall, ToolContext, ToolError, ToolResult, hookimpl
from dsh_time.cli.call import encode_arguments
from dsh_time.log import Log
from dsh_time.models.scripted import say

from ..kit import payloads
from .reading_kit import Home, home

__all__ = ["home"]


class Everything(Struct, rename="camel", omit_defaults=True):
    depth: Annotated[int, Meta(ge=1)] = 1
    inject: bool = False
    note: str = ""
    ratio: float = 0.0
    kind: Literal["start", "stop"] = "start"
    maybe: int | None = None
    some_names: list[str] = []
    nested: dict[str, int] = {}


@frozen(eq=False)
class Echo:
    @hookimpl
    def register_tools(self) -> list[Tool]:
        def fails(_: Everything, __: ToolContext) -> str:
            raise ToolError("not \x1b[2J today")

        return [
            Tool("echo", "", Everything, lambda arguments, _: repr(arguments)),
            Tool("fails", "", Everything, fails),
        ]


PLUGINS: Mapping[str, type] = {"echo": Echo}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("depth=2", {"depth": 2}),
        ("inject=true", {"inject": True}),
        ("inject=false", {"inject": False}),
        ("note=5", {"note": "5"}),
        ("note=true", {"note": "true"}),
        ("note=null", {"note": "null"}),
        ("note=", {"note": ""}),
        ("note=a=b c", {"note": "a=b c"}),
        ("ratio=1.5", {"ratio": 1.5}),
        ("kind=stop", {"kind": "stop"}),
        ("maybe=3", {"maybe": 3}),
        ("maybe=null", {"maybe": None}),
        ('someNames=["a","b"]', {"someNames": ["a", "b"]}),
        ('nested={"a":1}', {"nested": {"a": 1}}),
        # What does not fit is left for the tool to refuse, in its own words.
        ("depth=0", {"depth": 0}),
        ("depth=two", {"depth": "two"}),
        ("depth=99999999999999999999", {"depth": 99999999999999999999}),
        ("kind=5", {"kind": 5}),
    ],
)
def test_a_value_is_what_the_tools_argument_says_it_is(word: str, value: dict[str, Any]) -> None:
    assert json.loads(encode_arguments(Everything, [word])) == value


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_text_argument_arrives_as_it_was_typed(text: str) -> None:
    assert json.loads(encode_arguments(Everything, [f"note={text}"])) == {"note": text}


@given(key=st.sampled_from(["depth", "inject", "ratio", "kind", "maybe", "someNames", "nested"]), text=st.text())
def test_no_value_breaks_the_typing(key: str, text: str) -> None:
    assert key in json.loads(encode_arguments(Everything, [f"{key}={text}"]))


def test_bytes_of_the_command_line_that_are_no_text_are_replaced() -> None:
    assert json.loads(encode_arguments(Everything, ["note=a\udcff"])) == {"note": "a\ufffd"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["depth"], "write KEY=VALUE"),
        (["deep=1"], "no argument 'deep'. It has: depth, inject"),
        (["some_names=[]"], "no argument 'some_names'"),
        (["depth=1", "depth=2"], "given twice"),
    ],
)
def test_words_that_are_no_arguments_are_usage_errors_and_nothing_is_logged(
    home: Home, words: list[str], message: str
) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    before = home.contents("one")
    result = home.run("call", "one", "echo", *words, plugins=PLUGINS)
    assert result.exit_code == 2
    assert message in result.stderr
    assert home.contents("one") == before


def test_a_call_is_run_logged_as_the_users_and_its_result_printed(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    result = home.run("call", "one", "echo", "depth=2", "inject=true", "note=5", plugins=PLUGINS)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Everything(depth=2, inject=True, note='5',")
    called, answered = payloads(home.root / "one", ToolCall, ToolResult)
    assert (called.name, called.arguments) == ("echo", '{"depth":2,"inject":true,"note":"5"}')
    assert (called.issuer, answered.issuer) == ("user", "user")


def test_json_is_passed_on_as_it_was_written(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    written = '{ "depth" : 3 }'
    assert home.run("call", "last", "echo", "--json", written, plugins=PLUGINS).exit_code == 0
    assert payloads(home.root / "one", ToolCall)[0].arguments == written
    assert home.run("call", "one", "echo", "--json", "{", plugins=PLUGINS).exit_code == 1
    assert home.run("call", "one", "echo", "--json", written, "depth=2", plugins=PLUGINS).exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fails"], "not \\x1b[2J today"),
        (["echo", "depth=0"], "Wrong arguments for echo: Expected `int` >= 1"),
        (["echo", "depth=two"], "Wrong arguments for echo: Expected `int`, got `str`"),
    ],
)
def test_a_call_that_fails_prints_why_and_exits_with_1(home: Home, words: list[str], said: str) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    result = home.run("call", "one", *words, plugins=PLUGINS)
    assert result.exit_code == 1
    assert said in result.stdout


def test_an_unknown_tool_is_a_usage_error_that_names_those_there_are(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    result = home.run("call", "one", "ecko", plugins=PLUGINS)
    assert result.exit_code == 2
    assert "There is no tool 'ecko'. Tools: echo, fails." in result.stderr
    assert "Tools: none." in home.run("call", "one", "echo").stderr


def test_a_session_in_use_is_refused(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    with Log.open(home.root / "one", lambda _: None):
        result = home.run("call", "one", "echo", plugins=PLUGINS)
    assert result.exit_code == 1
    assert f"being written by process {os.getpid()} on" in result.stderr
