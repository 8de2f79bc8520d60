"""The scripted model: it plays what a test wrote, in order, and keeps every request."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from dsh_hookspecs import (
    ChatMessage,
    Finished,
    Header,
    Model,
    ModelDelta,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Retrying,
    TextBlock,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from dsh_time.models.scripted import (
    Answer,
    ScriptedModel,
    ScriptExhausted,
    call,
    deltas,
    fail,
    finish,
    pause,
    reason,
    say,
    truncated,
)


def request(*texts: str) -> ModelRequest:
    messages = [ChatMessage(f"m{n}", "user", (TextBlock(text),), {"kind": "user"}) for n, text in enumerate(texts)]
    return ModelRequest(Header(), messages)


async def stream(model: Model, *texts: str) -> list[ModelDelta]:
    return [delta async for delta in model.stream(request(*texts))]


@pytest.mark.parametrize(
    ("answer", "streamed"),
    [
        (say("It is ", "noon."), [TextDelta("It is "), TextDelta("noon."), Finished("end")]),
        (say(), [Finished("end")]),
        (reason("hm", "m", replay="x"), [ReasoningDelta("hm"), ReasoningDelta("m", "x"), Finished("end")]),
        (truncated("too lo"), [TextDelta("too lo"), Finished("max-tokens")]),
        (
            say("hi") + finish(usage=Usage(input_tokens=3)),
            [TextDelta("hi"), Finished("end", Usage(input_tokens=3))],
        ),
        (finish("refusal"), [Finished("refusal")]),
        (deltas(Retrying(2, 0.5, "busy"), TextDelta("a")), [Retrying(2, 0.5, "busy"), TextDelta("a"), Finished()]),
    ],
)
async def test_an_answer_streams_its_pieces_and_ends_once(answer: Answer, streamed: list[ModelDelta]) -> None:
    assert await stream(ScriptedModel(answer), "go") == streamed


async def test_a_call_streams_its_name_and_its_arguments_as_json() -> None:
    assert await stream(ScriptedModel(call("clock", zone="UTC", note="中")), "go") == [
        ToolCallDelta(0, name="clock"),
        ToolCallDelta(0, arguments='{"zone":"UTC","note":"中"}'),
        Finished("tool-calls"),
    ]


async def test_a_call_can_carry_arguments_that_are_no_json() -> None:
    assert (await stream(ScriptedModel(call("clock", "{oops")), "go"))[1] == ToolCallDelta(0, arguments="{oops")


async def test_joined_calls_are_numbered_in_order() -> None:
    joined = say("Look:") + (call("a") + call("b")) + (call("c") + call("d"))
    calls = [delta for delta in await stream(ScriptedModel(joined), "go") if isinstance(delta, ToolCallDelta)]
    assert [(delta.index, delta.name) for delta in calls if delta.name] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert [delta.index for delta in calls if delta.arguments] == [0, 1, 2, 3]


async def test_steps_are_played_in_order_then_the_standing_answer_for_ever() -> None:
    model = ScriptedModel(say("one"), say("two"), then=say("more"))
    heard = []
    for left in (1, 0, 0, 0):
        heard.append((await stream(model, "go"))[0])
        assert model.remaining == left
    assert heard == [TextDelta("one"), TextDelta("two"), TextDelta("more"), TextDelta("more")]


async def test_a_step_can_be_made_from_the_request() -> None:
    model = ScriptedModel(lambda asked: say(asked.messages[-1].text.upper()))
    assert (await stream(model, "first", "loud"))[0] == TextDelta("LOUD")


async def test_every_request_is_kept_with_its_bytes_at_the_moment_of_the_call() -> None:
    model = ScriptedModel(then=say("ok"))
    history = list(request("a").messages)
    asked = ModelRequest(Header(), history)
    unread = cast(AsyncGenerator[ModelDelta], model.stream(asked))
    before = asked.encode()
    history.extend(request("b").messages)
    await stream(model, "a", "b")
    assert model.requests[0].request is asked
    assert (model.requests[0].encoded, len(model.requests)) == (before, 2)
    await unread.aclose()


@pytest.mark.parametrize("error", [ModelError("gone"), ValueError("bug"), KeyboardInterrupt()])
async def test_a_failure_is_raised_after_what_was_streamed_before(error: BaseException) -> None:
    model = ScriptedModel(say("half") + fail(error))
    reading = model.stream(request("go"))
    assert await anext(reading) == TextDelta("half")
    with pytest.raises(type(error)) as raised:
        await anext(reading)
    assert (raised.value, model.open_streams) == (error, 0)


async def test_a_paused_answer_goes_on_when_it_is_released() -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(say("par") + pause(release, reached) + say("tial"))
    reading = asyncio.create_task(stream(model, "go"))
    await reached.wait()
    assert (reading.done(), model.open_streams) == (False, 1)
    release.set()
    assert await reading == [TextDelta("par"), TextDelta("tial"), Finished()]
    assert model.open_streams == 0


async def test_a_paused_answer_can_be_cancelled() -> None:
    reached = asyncio.Event()
    model = ScriptedModel(say("par") + pause(asyncio.Event(), reached))
    reading = asyncio.create_task(stream(model, "go"))
    await reached.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert model.open_streams == 0


async def test_a_stream_that_is_closed_early_counts_as_closed() -> None:
    model = ScriptedModel(say("a", "b"))
    reading = cast(AsyncGenerator[ModelDelta], model.stream(request("go")))
    await anext(reading)
    assert model.open_streams == 1
    await reading.aclose()
    assert model.open_streams == 0


async def test_a_request_past_the_script_says_which_and_what_it_asked() -> None:
    model = ScriptedModel(say("one"))
    await stream(model, "a")
    with pytest.raises(ScriptExhausted, match=r"request 2 came, but the script has 1 step; .* user message 'what now"):
        await stream(model, "what now?" + "x" * 1000)
    with pytest.raises(AssertionError, match="the script has 0 steps; the request ends with no message"):
        await stream(ScriptedModel())


async def test_sessions_at_the_same_time_are_each_answered_from_their_own_request() -> None:
    model = ScriptedModel(then=lambda asked: say(asked.messages[-1].text))
    texts = [f"session {number}" for number in range(50)]
    heard = await asyncio.gather(*(stream(model, text) for text in texts))
    assert [deltas_[0] for deltas_ in heard] == [TextDelta(text) for text in texts]
    assert len(model.requests) == 50


async def test_it_shows_its_config_and_remembers_being_closed() -> None:
    model: Model = ScriptedModel()
    assert model.config == {"provider": "scripted", "model": "scripted"}
    plain = ScriptedModel(config={"model": "other"})
    await plain.close()
    assert (plain.config, plain.closed) == ({"model": "other"}, True)
