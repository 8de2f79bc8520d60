"""Answers of chat completions servers, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import fake_openai
import pytest
from fake_openai import DONE, USAGE, call, chunk
from fake_server import FakeServer, Reply
from remote_faults import Naps, RemoteFaults, Wire

from dsh_hookspecs import (
    Finished,
    Model,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from dsh_openai import OpenAISettings


def make(settings: Mapping[str, Any], naps: Naps) -> Model:
    from dsh_openai._model import ChatCompletions

    chosen = OpenAISettings(**settings)
    return ChatCompletions(chosen, chosen.endpoint(), naps)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with fake_openai.server().running() as running:
        yield running


class TestFaults(RemoteFaults):
    wire = Wire(
        make=make,
        rich=fake_openai.RICH,
        quiet=2,
        needed=10,
        says=fake_openai.says,
        url_path="/v1",
        default_url_variable="OPENAI_BASE_URL",
        key_variable="OPENAI_API_KEY",
    )

    async def test_reasoning_text_calls_and_usage_come_as_they_are_streamed(self, server: FakeServer) -> None:
        deltas, error = await self.answer(server, [Reply(fake_openai.RICH)])
        assert error == ""
        assert deltas == [
            ReasoningDelta("think 时", replay="reasoning_content"),
            TextDelta("It is ☃ "),
            TextDelta("late.\u2028"),
            ToolCallDelta(0, name="clock"),
            ToolCallDelta(0, arguments='{"zo'),
            ToolCallDelta(0, arguments='ne": 1}'),
            ToolCallDelta(1, name="clock"),
            ToolCallDelta(1, arguments="{}"),
            Finished("tool-calls", Usage(input_tokens=9, cached_tokens=6, output_tokens=4)),
        ]

    async def test_the_key_goes_in_the_authorization_header(self, server: FakeServer) -> None:
        await self.answer(server, [fake_openai.says("hi")])
        assert server.requests[0].headers["authorization"] == "Bearer sk-SENTINEL-0123456789"

    async def test_deepseeks_count_of_cached_tokens_is_read(self, server: FakeServer) -> None:
        usage = {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_cache_hit_tokens": 5,
            "prompt_cache_miss_tokens": 4,
        }
        deltas, _ = await self.answer(server, [Reply([chunk({"content": "a"}), chunk(finish="stop", usage=usage)])])
        assert deltas[-1] == Finished("end", Usage(input_tokens=9, cached_tokens=5, output_tokens=4))

    @pytest.mark.parametrize(
        ("finish", "reason"),
        [("stop", "end"), ("length", "max-tokens"), ("content_filter", "refusal"), ("something_new", "end")],
    )
    async def test_finish_reasons_become_stop_reasons(self, server: FakeServer, finish: str, reason: str) -> None:
        deltas, _ = await self.answer(server, [Reply([chunk({"content": "a"}), chunk(finish=finish), DONE])])
        assert deltas[-1] == Finished(reason)  # type: ignore[arg-type]  # one of the literals

    async def test_a_refusal_is_text_with_the_stop_reason_refusal(self, server: FakeServer) -> None:
        deltas, _ = await self.answer(server, [Reply([chunk({"refusal": "No."}), chunk(finish="stop"), DONE])])
        assert deltas == [TextDelta("No."), Finished("refusal")]

    async def test_calls_that_share_an_index_but_not_an_id_are_different_calls(self, server: FakeServer) -> None:
        whole = [call(0, id="a", name="f", arguments="{}"), call(0, id="b", name="g", arguments="{}")]
        deltas, _ = await self.answer(server, [Reply([*map(chunk, whole), chunk(finish="stop"), DONE])])
        calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
        assert [(d.index, d.name, d.arguments) for d in calls] == [
            (0, "f", ""),
            (0, "", "{}"),
            (1, "g", ""),
            (1, "", "{}"),
        ]
        assert deltas[-1] == Finished("tool-calls")

    async def test_a_call_without_arguments_and_a_name_in_pieces_arrive(self, server: FakeServer) -> None:
        pieces = [call(0, id="a", name="get_"), call(0, name="time")]
        deltas, _ = await self.answer(server, [Reply([*map(chunk, pieces), chunk(finish="tool_calls"), DONE])])
        assert deltas == [ToolCallDelta(0, name="get_time"), Finished("tool-calls")]

    async def test_arguments_that_are_no_json_arrive_as_the_model_wrote_them(self, server: FakeServer) -> None:
        pieces = [call(0, id="a", name="f", arguments='{"a": '), call(0, arguments="oops")]
        deltas, _ = await self.answer(server, [Reply([*map(chunk, pieces), chunk(finish="tool_calls"), DONE])])
        assert "".join(d.arguments for d in deltas if isinstance(d, ToolCallDelta)) == '{"a": oops'

    async def test_reasoning_in_either_field_is_taken_once(self, server: FakeServer) -> None:
        both = {"reasoning": "hm", "reasoning_content": "hm"}
        replies = [Reply([chunk(both), chunk({"reasoning": "m"}), chunk(finish="stop"), DONE])]
        deltas, _ = await self.answer(server, replies)
        assert deltas[:2] == [ReasoningDelta("hm", "reasoning_content"), ReasoningDelta("m", "reasoning")]

    async def test_an_error_inside_the_stream_is_retried_only_before_the_first_delta(self, server: FakeServer) -> None:
        trouble = fake_openai.event({"error": {"message": "engine stopped"}})
        deltas, error = await self.answer(server, [Reply([trouble]), fake_openai.says("hi")])
        assert error == ""
        assert "engine stopped" in str(deltas[0])
        _, error = await self.answer(server, [Reply([chunk({"content": "a"}), trouble])])
        assert "engine stopped before the answer was complete" in error
        refused = fake_openai.event({"error": {"message": "the context length is 8", "code": 400}})
        _, error = await self.answer(server, [Reply([refused])])
        assert "longer than m can read" in error

    async def test_no_credit_is_not_retried(self, server: FakeServer) -> None:
        body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
        deltas, error = await self.answer(server, [Reply([body], status=429)])
        assert deltas == []
        assert "no credit left" in error

    async def test_usage_may_be_missing(self, server: FakeServer) -> None:
        deltas, _ = await self.answer(server, [Reply([chunk({"content": "a"}), chunk(finish="stop")])])
        assert deltas[-1] == Finished("end", None)
        deltas, _ = await self.answer(
            server, [Reply([chunk({"content": "a"}, usage=None), chunk(finish="stop"), USAGE])]
        )
        assert deltas[-1] == Finished("end", Usage(9, 6, 4))
