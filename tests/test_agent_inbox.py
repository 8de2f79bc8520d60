"""The inbox: followup, steer, inject and wake, while a turn runs, while none does, and after a cancellation."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve, frozen
from msgspec import Struct

from dsh_hookspecs import (
    ContextMessage,
    InboxSpliced,
    Message,
    Reject,
    SteeringMessage,
    Step,
    StepStart,
    Tool,
    ToolContext,
    ToolOutput,
    TurnEnd,
    UserMessage,
    hookimpl,
)
from dsh_time.folds import Inbox
from dsh_time.models.scripted import ScriptedModel, call, pause, say

from .kit import make_harness, payloads, types


def asked(model: ScriptedModel) -> list[list[str]]:
    """The texts of the messages of each request."""
    return [[message.text for message in recorded.request.messages] for recorded in model.requests]


async def test_a_followup_while_a_turn_runs_waits_and_opens_the_next_one(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(pause(release, reached) + say("one"), say("two"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        first = asyncio.create_task(agent.prompt("a"))
        await reached.wait()
        second = asyncio.create_task(agent.prompt("b"))
        await asyncio.sleep(0)
        assert [entry.message.text for entry in agent.session.fold(Inbox).next_turn] == ["b"]
        release.set()
        assert ((await first).text, (await second).text) == ("one", "two")
    assert asked(model) == [["a"], ["a", "one", "b"]]
    messages = payloads(tmp_path / "one", UserMessage)
    (splice, _) = payloads(tmp_path / "one", InboxSpliced)
    assert messages[1].id == splice.inserted[0].message.id


async def test_a_steer_joins_the_next_step_and_keeps_the_turn_open_for_it(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(pause(release, reached) + say("done"), say("also that"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("a"))
        await reached.wait()
        agent.steer("and b")
        release.set()
        assert (await waiting).text == "also that"
    assert asked(model)[1] == ["a", "done", "and b"]
    assert types(tmp_path / "one").count("turn/start") == 1
    (steering,) = payloads(tmp_path / "one", SteeringMessage)
    assert steering.source == {"kind": "user"}


async def test_a_steer_to_an_idle_agent_opens_a_turn(tmp_path: Path) -> None:
    model = ScriptedModel(say("hello"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        agent.steer("wake up", client_time_zone="Asia/Tokyo")
        await agent.idle()
    assert asked(model) == [["wake up"]]
    (steering,) = payloads(tmp_path / "one", SteeringMessage)
    assert steering.source == {"kind": "user", "clientTimeZone": "Asia/Tokyo"}


async def test_an_inject_never_causes_a_request_and_rides_along_with_the_next_one(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(pause(release, reached) + say("done"), say("second"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        agent.inject("early")
        assert not agent.busy
        waiting = asyncio.create_task(agent.prompt("a"))
        await reached.wait()
        agent.inject("by the way")
        release.set()
        await waiting
        assert len(model.requests) == 1
        await agent.prompt("b")
    assert asked(model) == [["a", "early"], ["a", "early", "done", "b", "by the way"]]
    assert len(payloads(tmp_path / "one", ContextMessage)) == 2


async def test_cancelling_keeps_the_inbox_and_kept_entries_wake_nothing(tmp_path: Path) -> None:
    reached = asyncio.Event()
    model = ScriptedModel(pause(asyncio.Event(), reached) + say("x"), say("kept"), say("new"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        first = asyncio.create_task(agent.prompt("a"))
        await reached.wait()
        second = asyncio.create_task(agent.prompt("b"))
        agent.steer("s")
        await asyncio.sleep(0)
        agent.cancel()
        assert (await first).reason.kind == (await second).reason.kind == "aborted"
        await agent.idle()
        assert len(model.requests) == 1
        assert (await agent.prompt("c")).text == "new"
    assert asked(model)[1:] == [["a", "b", "s"], ["a", "b", "s", "kept", "c"]]


async def test_a_prompt_given_after_the_cancelling_runs(tmp_path: Path) -> None:
    reached = asyncio.Event()
    model = ScriptedModel(pause(asyncio.Event(), reached) + say("x"), say("yes"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        first = asyncio.create_task(agent.prompt("a"))
        await reached.wait()
        agent.cancel()
        second = asyncio.create_task(agent.prompt("b"))
        assert ((await first).reason.kind, (await second).text) == ("aborted", "yes")


async def test_kept_entries_survive_a_restart(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, pause(asyncio.Event(), reached) + say("x")) as harness:
        agent = harness.create("one")
        agent.followup("a")
        await reached.wait()
        agent.followup("b")
    model = ScriptedModel(say("to b"), say("to c"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.open("one")
        await asyncio.sleep(0)
        assert not agent.busy
        assert (await agent.prompt("c")).text == "to c"
    assert asked(model) == [["a", "b"], ["a", "b", "to b", "c"]]


class Nothing(Struct):
    """No arguments."""


def waking(*sessions: str) -> type:
    @frozen(eq=False)
    class Waking:
        """Its tool's results wake sessions."""

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [Tool("ring", "Rings.", Nothing, lambda arguments, context: "rung")]

        @hookimpl
        def on_tool_result(self, context: ToolContext, result: ToolOutput) -> ToolOutput:
            return evolve(result, wake=sessions)

    return Waking


def having_news(news: Callable[[Step], Message | Reject | None]) -> type:
    @frozen(eq=False)
    class News:
        """Says what the test wants."""

        @hookimpl
        def before_step(self, step: Step) -> Message | Reject | None:
            return news(step)

    return News


async def test_a_result_wakes_an_idle_session_that_a_plugin_has_news_for(tmp_path: Path) -> None:
    def news(step: Step) -> Message | None:
        return Message(f"news in turn {step.turn}", "notice") if step.session.id == "other" else None

    model = ScriptedModel(call("ring"), say("rang"), say("I hear"))
    plugins = {"waking": waking("other", "stranger", "one"), "news": having_news(news)}
    async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
        other, agent = harness.create("other"), harness.create("one")
        await agent.prompt("Ring")
        await other.idle()
    assert types(tmp_path / "other") == [
        "turn/start",
        "step/start",
        "user/message",
        "request/header",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    (message,) = payloads(tmp_path / "other", UserMessage)
    assert (message.text, message.source) == ("news in turn 1", {"kind": "news", "form": "notice"})


async def test_a_wake_without_news_writes_nothing(tmp_path: Path) -> None:
    for number, answer in enumerate((None, Reject("no"))):
        model = ScriptedModel()
        plugins = {"news": having_news(lambda step, answer=answer: answer)}  # type: ignore[misc]  # mypy: no default in a callable type
        async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
            agent = harness.create(f"s{number}")
            agent.wake()
            await agent.idle()
        assert types(tmp_path / f"s{number}") == []


async def test_two_sessions_do_not_keep_each_other_awake(tmp_path: Path) -> None:
    """Each result wakes the other session, which has news in each step and calls the tool again."""
    model = ScriptedModel(then=lambda request: say("ok") if request.messages[-1].role == "tool" else call("ring"))
    plugins = {"waking": waking("a", "b"), "news": having_news(lambda step: Message("news", "relay"))}
    async with make_harness(tmp_path, model=model, plugins=plugins, limits={"max_steps": 2}) as harness:
        first, second = harness.create("a"), harness.create("b")
        await first.prompt("Go")
        await second.idle()
        await first.idle()
    assert types(tmp_path / "a").count("turn/start") == 1
    assert types(tmp_path / "b").count("turn/start") == 1


async def test_a_wake_does_not_run_what_a_cancellation_left_in_the_inbox(tmp_path: Path) -> None:
    reached = asyncio.Event()
    spoken: list[Message] = []
    model = ScriptedModel(pause(asyncio.Event(), reached) + say("x"), say("heard"), say("kept"), say("new"))
    plugins = {"news": having_news(lambda step: spoken.pop() if spoken else None)}
    async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
        agent = harness.create("one")
        agent.followup("a")
        await reached.wait()
        agent.followup("b")
        agent.cancel()
        await agent.idle()
        for news in ([], [Message("news", "notice")]):
            spoken += news
            agent.wake()
            await agent.idle()
        assert asked(model)[1:] == [["a", "news"]]
        assert (await agent.prompt("c")).text == "new"
    assert asked(model)[2:] == [["a", "news", "heard", "b"], ["a", "news", "heard", "b", "kept", "c"]]


async def test_a_prompt_that_comes_while_an_agent_looks_for_news_opens_a_turn(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("yes")) as harness:
        agent = harness.create("one")
        agent.wake()
        assert (await agent.prompt("a")).text == "yes"


@pytest.mark.parametrize("then", ["steer", "wake", "prompt"])
async def test_a_turn_that_broke_off_is_closed_before_anything_else_opens_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The next step has the number 1 of a turn of its own, and the broken one ends `interrupted`."""
    reached = asyncio.Event()
    model = ScriptedModel(pause(asyncio.Event(), reached) + say("x"), then=lambda request: say("again"))
    plugins = {"news": having_news(lambda step: Message("news", "notice") if step.turn > 1 else None)}
    async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
        agent = harness.create("one")
        agent.followup("a")
        await reached.wait()
        agent.followup("kept")
        assert agent._driver is not None
        agent._driver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await agent.idle()
        if then == "prompt":
            assert (await agent.prompt("b")).text == "again"
        else:
            getattr(agent, then)(*["b"] if then == "steer" else [])
            await agent.idle()
    steps = [(step.turn, step.step) for step in payloads(tmp_path / "one", StepStart)]
    assert steps[:2] == [(1, 1), (2, 1)]
    ends = [(end.turn, end.reason.kind) for end in payloads(tmp_path / "one", TurnEnd)]
    assert ends[:2] == [(1, "interrupted"), (2, "completed")]
