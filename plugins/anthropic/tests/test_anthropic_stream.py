"""Answers of the Messages API, over real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import fake_anthropic
import pytest
from fake_anthropic import BEGIN, END, delta, end, event, start, stop
from fake_server import FakeServer, Reply
from remote_faults import KEY, REQUEST, Naps, RemoteFaults, Wire, collect

from dsh_anthropic import AnthropicSettings
from dsh_hookspecs import (
    ChatMessage,
    Finished,
    Model,
    ModelDelta,
    ModelRequest,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallDelta,
    Usage,
)


def make(settings: Mapping[str, Any], naps: Naps) -> Model:
    from dsh_anthropic._model import Messages

    chosen = AnthropicSettings(**settings)
    return Messages(chosen, chosen.endpoint(), naps)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with fake_anthropic.server().running() as running:
        yield running


def without_replay(deltas: list[ModelDelta]) -> list[ModelDelta]:
    return [delta for delta in deltas if not (isinstance(delta, ReasoningDelta) and delta.replay)]


class TestFaults(RemoteFaults):
    wire = Wire(
        make=make,
        rich=fake_anthropic.RICH,
        quiet=3,
        needed=21,
        says=fake_anthropic.says,
        url_path="",
        default_url_variable="ANTHROPIC_BASE_URL",
        key_variable="ANTHROPIC_API_KEY",
    )

    async def test_reasoning_text_calls_and_usage_come_as_they_are_streamed(self, server: FakeServer) -> None:
        deltas, error = await self.answer(server, [Reply(fake_anthropic.RICH)])
        assert error == ""
        assert without_replay(deltas) == [
            ReasoningDelta("think 时"),
            TextDelta("It is ☃ "),
            TextDelta("late.\u2028"),
            ToolCallDelta(0, name="clock"),
            ToolCallDelta(0, arguments='{"zo'),
            ToolCallDelta(0, arguments='ne": 1}'),
            ToolCallDelta(1, name="clock"),
            Finished("tool-calls", Usage(input_tokens=9, cached_tokens=6, output_tokens=4)),
        ]

    async def test_thinking_goes_back_as_it_came_until_something_before_it_changes(self, server: FakeServer) -> None:
        """The host joins texts and replays of a reasoning block; the API wants each thinking block as it was."""
        server.reset([Reply(fake_anthropic.RICH), *[fake_anthropic.says("ok")] * 3])
        model = self.model(server)
        deltas, _ = await collect(model.stream(REQUEST))
        pieces = [delta for delta in deltas if isinstance(delta, ReasoningDelta)]
        block = ReasoningBlock("".join(p.text for p in pieces), "".join(p.replay for p in pieces))
        answer = ChatMessage("m2", "assistant", (block, TextBlock("Late.")), {"kind": "model"})
        follow_up = ChatMessage("m3", "user", (TextBlock("Why?"),), {"kind": "user"})
        other = ChatMessage("m0", "user", (TextBlock("Another prompt"),), {"kind": "user"})
        header = REQUEST.header
        await collect(model.stream(ModelRequest(header, [*REQUEST.messages, answer, follow_up])))
        await collect(model.stream(ModelRequest(header, [other, answer, follow_up])))
        await model.close()
        same, changed = (request.json["messages"][1]["content"] for request in server.requests[1:])
        assert server.refusals == []
        assert same == [
            {"type": "thinking", "thinking": "think 时", "signature": "SIG"},
            {"type": "redacted_thinking", "data": "SECRET"},
            {"type": "text", "text": "Late."},
        ]
        assert changed == [{"type": "text", "text": "Late."}]

    async def test_the_key_goes_in_a_header_and_other_credentials_do_not(
        self, server: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-other")
        for key_variable in ("SENTINEL_KEY", None):
            await self.answer(server, [fake_anthropic.says("hi")], api_key_env=key_variable)
            headers = str(server.requests[0].headers)
            assert "other" not in headers
            assert (KEY in headers) == (key_variable is not None)

    @pytest.mark.parametrize(
        ("stop_reason", "reason"),
        [
            ("end_turn", "end"),
            ("stop_sequence", "end"),
            ("max_tokens", "max-tokens"),
            ("model_context_window_exceeded", "max-tokens"),
            ("refusal", "refusal"),
            ("something_new", "end"),
        ],
    )
    async def test_stop_reasons_are_translated(self, server: FakeServer, stop_reason: str, reason: str) -> None:
        deltas, _ = await self.answer(server, [Reply([BEGIN, end(stop_reason), END])])
        assert deltas == [Finished(reason, Usage(9, 6, 4))]  # type: ignore[arg-type]  # one of the literals

    async def test_arguments_that_are_no_json_arrive_as_the_model_wrote_them(self, server: FakeServer) -> None:
        call = [
            start(0, type="tool_use", id="a", name="f", input={}),
            delta(0, "input_json_delta", partial_json='{"a": '),
            delta(0, "input_json_delta", partial_json="oops"),
            stop(0),
        ]
        deltas, _ = await self.answer(server, [Reply([BEGIN, *call, end("tool_use"), END])])
        assert "".join(d.arguments for d in deltas if isinstance(d, ToolCallDelta)) == '{"a": oops'

    @pytest.mark.parametrize(("kind", "retried"), [("overloaded_error", True), ("invalid_request_error", False)])
    async def test_an_error_inside_the_stream_is_retried_if_it_may_pass_and_nothing_came(
        self, server: FakeServer, kind: str, retried: bool
    ) -> None:
        trouble = event("error", error={"type": kind, "message": "Trouble"})
        deltas, error = await self.answer(server, [Reply([BEGIN, trouble]), fake_anthropic.says("hi")])
        assert (TextDelta("hi") in deltas) == retried
        assert ("Trouble" in error) != retried
        text = [start(0, type="text", text=""), delta(0, "text_delta", text="a")]
        deltas, error = await self.answer(server, [Reply([BEGIN, *text, trouble])])
        assert deltas == [TextDelta("a")]
        assert "Trouble" in error

    async def test_usage_may_be_missing(self, server: FakeServer) -> None:
        replies = [
            Reply([event("message_start", message={}), event("message_delta", delta={"stop_reason": "end_turn"})])
        ]
        deltas, _ = await self.answer(server, replies)
        assert deltas == [Finished("end", None)]

    async def test_a_tool_whose_name_the_api_refuses_is_called_back_by_its_own(self, server: FakeServer) -> None:
        from surfaces import HEADER

        from dsh_hookspecs.wire import wire_name

        call = [start(0, type="tool_use", id="a", name=wire_name("dotted.name"), input={}), stop(0)]
        server.reset([Reply([BEGIN, *call, end("tool_use"), END])])
        model = self.model(server)
        deltas, _ = await collect(model.stream(ModelRequest(HEADER, REQUEST.messages)))
        await model.close()
        assert deltas[0] == ToolCallDelta(0, name="dotted.name")
        assert json.loads(server.requests[0].body)["tools"][1]["name"] == wire_name("dotted.name")
