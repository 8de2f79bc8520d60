"""The log is the only state: restarts, swaps, other plugins' events, and hosts without the plugin."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dsh_hookspecs import (
    Message,
    ModelRequest,
    PluginError,
    Reject,
    Step,
    Tool,
    ToolResult,
    hookimpl,
)
from dsh_time.models.scripted import Answer, ScriptedModel, call, say
from dsh_time_reminder.fold import TimeState
from tests.kit import Clock, logged, make_harness, payloads, plugin_host

from .loop_kit import MODES, Nothing, messages, ours, reminder


async def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Another process folds the same state from the log, and no reading comes twice."""
    clock = Clock()
    answers = [
        call("time_mode", mode="cron", cron="@hourly") + call("time_counter", action="start", name="a"),
        say("ok"),
    ]
    async with make_harness(tmp_path, *answers, clock=clock, plugins=reminder(tmp_path)) as harness:
        agent = harness.create("s")
        await agent.prompt("go")
        before = agent.session.fold(TimeState)
    model = ScriptedModel(say("again"))
    async with make_harness(tmp_path, model=model, clock=clock, plugins=reminder(tmp_path)) as harness:
        agent = harness.open("s")
        assert agent.session.fold(TimeState) == before
        await agent.prompt("still there?")
        assert len(ours(messages(model))) == 1


async def test_swapped_out_and_in_again(tmp_path: Path) -> None:
    """Without it there are no readings and no tools; with it again mode and counters are there as they were."""
    clock = Clock()
    model = ScriptedModel(
        call("time_mode", mode="fine") + call("time_counter", action="start", name="deploy", inject=True),
        say("ok"),
        call("time_counter", action="remove", name="deploy") + call("time_mode", mode="off"),
        say("no tools"),
        say("back"),
    )
    plugins = reminder(tmp_path)
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins) as harness:
        agent = harness.create("s")
        await agent.prompt("go")
        plugins.disable("time-reminder")
        clock.advance(seconds=60)
        await agent.prompt("without")
        with pytest.raises(KeyError):
            agent.session.fold(TimeState)
        assert [tool.name for tool in model.requests[2].request.header.tools] == []
        assert len(ours(messages(model))) == 2
        plugins.enable("time-reminder")
        clock.advance(seconds=60)
        await agent.prompt("with it again")
    text = ours(messages(model))[-1]
    assert "Time mode: fine (every step; previous reading 2026-07-14T" in text
    assert "[counters] deploy=2m" in text


async def test_the_log_opens_without_it(tmp_path: Path) -> None:
    """A host that does not have the plugin opens, shows and continues its sessions."""
    answers = (call("time_counter", action="start", name="deploy"), say("ok"))
    async with make_harness(tmp_path, *answers, plugins=reminder(tmp_path)) as harness:
        await harness.create("s").prompt("go")
    model = ScriptedModel(say("fine"))
    async with make_harness(tmp_path, model=model) as harness:
        await harness.open("s").prompt("and without?")
    assert any("Time sampled" in text for text in ours(messages(model)))
    assert not any(event.data.type.startswith("time") for event in logged(tmp_path / "s"))


async def test_another_plugins_tools_of_the_same_names_are_not_adopted(tmp_path: Path) -> None:
    """What a plugin that had these tool names before did is nothing to this one."""

    class Anything(Struct):
        action: str = ""
        name: str = ""
        mode: str = ""

    @frozen(eq=False)
    class Impostor:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [Tool(name, "…", Anything, lambda *_: "done") for name in ("time_counter", "time_mode")]

    answers = (call("time_counter", action="start", name="theirs") + call("time_mode", mode="off"), say("ok"))
    async with make_harness(tmp_path, *answers, plugins=plugin_host({"dsh-impostor": Impostor})) as harness:
        await harness.create("s").prompt("go")
    assert [result.result.is_error for result in payloads(tmp_path / "s", ToolResult)] == [False, False]
    async with make_harness(tmp_path, say("ok"), plugins=reminder(tmp_path)) as harness:
        state = harness.open("s").session.fold(TimeState)
        assert (state.counters, state.mode) == ({}, None)


async def test_a_call_by_the_user_counts_like_the_models(tmp_path: Path) -> None:
    """A user sets the mode and a counter beside the conversation; the model sees it in the next reading."""
    model = ScriptedModel(say("ok"))
    async with make_harness(tmp_path, model=model, plugins=reminder(tmp_path)) as harness:
        agent = harness.create("s")
        await agent.call_tool("time_mode", '{"mode": "turn"}')
        result = await agent.call_tool("time_counter", '\u3000{"action": "start", "name": "tea", "inject": true}\n')
        assert "Started: tea=0s" in result.result.text
        await agent.prompt("hi")
    (text,) = ours(messages(model))
    assert "Time mode: turn" in text
    assert "[counters] tea=0s" in text


async def test_a_step_that_another_plugin_rejects_has_no_reading(tmp_path: Path) -> None:
    """A reading that was not logged was not made: the next step owes it still."""
    refuse = [True]

    @frozen(eq=False)
    class Gate:
        @hookimpl
        def before_step(self, step: Step) -> Reject | None:
            return Reject("closed") if refuse else None

    model = ScriptedModel(say("ok"))
    async with make_harness(tmp_path, model=model, plugins=reminder(tmp_path, others={"dsh-gate": Gate})) as harness:
        agent = harness.create("s")
        await agent.prompt("hi")
        assert agent.session.fold(TimeState).reading is None
        refuse.clear()
        await agent.prompt("again")
        assert agent.session.fold(TimeState).reading is not None


@frozen(eq=False)
class Noise:
    """Another plugin with tools and messages of its own, and a tool that fails."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("noise", "…", Nothing, lambda *_: 1 / 0)]  # type: ignore[arg-type]  # it fails

    @hookimpl
    def before_step(self, step: Step) -> Any:
        if step.number == 2:
            raise RuntimeError("no")
        return Message("[counters] x", form="notice", data={"sampledAt": 5, "mode": "off"})


CALLS = st.one_of(
    st.builds(
        lambda mode, cron: call("time_mode", **{k: v for k, v in (("mode", mode), ("cron", cron)) if v}),
        st.sampled_from(["", *MODES, "never"]),
        st.sampled_from(["", "@hourly", "61 * * * *"]),
    ),
    st.builds(
        lambda action, name: call("time_counter", action=action, name=name),
        st.sampled_from(["start", "reset", "remove", "lapse", "list", "note"]),
        st.sampled_from(["a", "b", "a b"]),
    ),
    st.sampled_from([call("noise"), call("nothing"), call("time_counter", "{nonsense")]),
)
#: Turns of steps of calls; None swaps the plugin out, or in again.
SESSIONS = st.lists(st.none() | st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=2), min_size=1, max_size=5)


@settings(max_examples=25)
@given(SESSIONS, st.data())
def test_live_replayed_and_resumed_folds_agree(
    tmp_path_factory: pytest.TempPathFactory, session: list[list[list[Answer]] | None], data: st.DataObject
) -> None:
    """However calls, failures, swaps and other plugins' events alternate: one log, one state."""
    root, clock = tmp_path_factory.mktemp("s"), Clock()
    script: Iterator[Answer] = iter(())

    def answer(request: ModelRequest) -> Answer:
        clock.advance(seconds=1_000)
        return next(script, say("ok"))

    async def run() -> TimeState:
        nonlocal script
        plugins = reminder(root, others={"dsh-noise": Noise})
        async with make_harness(root, model=ScriptedModel(then=answer), clock=clock, plugins=plugins) as harness:
            agent, loaded = harness.create("s"), True
            for turn in (*session, []):
                if turn is None:
                    (plugins.disable if loaded else plugins.enable)("time-reminder")
                    loaded = not loaded
                    continue
                script = iter([sum(calls[1:], calls[0]) for calls in turn])
                await agent.prompt("go")
            if not loaded:
                plugins.enable("time-reminder")
                await agent.prompt("back")
            return agent.session.fold(TimeState)

    live = asyncio.run(run())
    events = [event for event in logged(root / "s") if isinstance(event.data, TimeState.reads)]
    cut = data.draw(st.integers(0, len(events)))
    replayed = prefix = TimeState()
    for number, event in enumerate(events):
        prefix = replayed if number == cut else prefix
        replayed = replayed.apply(event)
    rest = prefix if cut < len(events) else replayed
    for event in events[cut:]:
        rest = rest.apply(event)
    assert live == replayed == rest
    assert any(isinstance(event.data, PluginError) for event in logged(root / "s")) == any(filter(None, session))
