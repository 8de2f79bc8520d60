"""What the plugin leaves alone in a real loop: history, everybody's text, and sleeping sessions."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve, frozen

from dsh_hookspecs import (
    ModelRequest,
    Tool,
    ToolContext,
    ToolOutput,
    UserMessage,
    hookimpl,
)
from dsh_time.models.scripted import Answer, ScriptedModel, call, say
from dsh_time_reminder.fold import PLUGIN, TimeState
from tests.kit import Clock, make_harness, payloads

from .loop_kit import MODES, ROOT, Nothing, child_of, messages, ours, quiet, reminder

FRAMES = json.loads((ROOT / "tests/cases/frames.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("mode", MODES)
async def test_history_only_grows_at_its_end(tmp_path: Path, mode: str) -> None:
    """Over a long session each request is, byte for byte, the beginning of the next one."""
    clock, numbers = Clock(), iter(range(1000))

    def answer(request: ModelRequest) -> Answer:
        clock.advance(seconds=3_000)
        number = next(numbers)
        if number % 3 == 0:
            return call("time_counter", action="start", name=f"c{number % 7}", inject=number % 2 == 0)
        if number % 3 == 1:
            return call("time_counter", action="note", name=f"c{number % 5}", note="n" * number)
        return say("ok")

    model = ScriptedModel(then=answer)
    plugins = reminder(tmp_path, defaultMode=mode)
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins) as harness:
        agent = harness.create("s")
        for turn in range(30):
            await agent.prompt(f"Prompt {turn}")
    sent = [recorded.encoded for recorded in model.requests]
    assert len(sent) == 90
    assert all(after.startswith(before) for before, after in pairwise(sent))
    readings = len([text for text in ours(messages(model)) if "Time sampled" in text])
    assert readings == {"cron": 4, "off": 0, "turn": 30, "fine": 90}[mode]


TEXTS = [case["text"] for case in FRAMES if case.get("elsewhere") == "unchanged" or case.get("where") == "elsewhere"]


async def test_prompts_steering_answers_and_tool_results_pass_unchanged(tmp_path: Path) -> None:
    """Every hostile text, as what a user, a model or a tool says, is logged and sent as it is, and changes nothing."""
    texts: list[str] = []

    @frozen(eq=False)
    class Echo:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            async def run(arguments: Nothing, context: ToolContext) -> str:
                harness.live["s"].steer(texts[0])
                return texts[0]

            return [Tool("echo", "Echoes.", Nothing, run)]

    def answer(request: ModelRequest) -> Answer:
        return say("ok") if request.messages[-1].source["kind"] != PLUGIN else say(texts[0]) + call("echo")

    model = ScriptedModel(then=answer)
    plugins = reminder(tmp_path, defaultMode="turn", others={"dsh-echo": Echo})
    async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
        agent = harness.create("s")
        before = TimeState(mode=None)
        for text in TEXTS:
            texts[:] = [text]
            start = len(messages(model)) if model.requests else 0
            await agent.prompt(text)
            prompt, reading, said, result, steering = messages(model)[max(start + (start > 0), 0) :]
            assert [prompt.text, said.text, result.text, steering.text] == [text] * 4
            assert reading.text.count("system-reminder>") == 2
            state = agent.session.fold(TimeState)
            assert evolve(state, reading=None, turn=0) == before
    assert [
        message.text for message in payloads(tmp_path / "s", UserMessage) if message.source["kind"] == "user"
    ] == TEXTS


@pytest.mark.parametrize("notice", ["inject", "off"])
@pytest.mark.parametrize("mode", MODES)
async def test_neither_a_reading_nor_a_notice_causes_a_request(tmp_path: Path, mode: str, notice: str) -> None:
    """An idle session that is woken, with a reading due and news waiting, stays idle."""

    @frozen(eq=False)
    class Waker:
        @hookimpl
        def on_tool_result(self, context: ToolContext, result: ToolOutput) -> ToolOutput:
            return evolve(result, wake=("child", "parent"))

    clock = Clock()
    model = ScriptedModel(call("time_counter", action="start", name="deploy"), say("ok"))
    plugins = reminder(tmp_path, defaultMode=mode, counterNotice=notice, others={"dsh-waker": Waker})
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins) as harness:
        parent = harness.create("parent")
        child = child_of(harness, parent, "child")
        await parent.prompt("go")
        clock.advance(seconds=100_000)
        child.wake()
        parent.wake()
        await quiet(harness)
        assert len(model.requests) == 2
        assert child.session.fold(TimeState).reading is None
