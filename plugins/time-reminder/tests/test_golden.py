"""What is logged and sent, byte for byte.

`DSH_TIME_WRITE_GOLDEN=1 pytest …` writes the files anew; look at the change.
"""

import os
from pathlib import Path

import pytest
from attrs import frozen

from dsh_hookspecs import (
    ModelRequest,
    Tool,
    ToolContext,
    hookimpl,
)
from dsh_time.agent import Agent
from dsh_time.models.scripted import Answer, Played, ScriptedModel, call, say
from tests.kit import Clock, make_harness

from .loop_kit import MODES, Nothing, at, messages, reminder

GOLDEN = Path(__file__).parent / "golden"


def pinned(name: str, directory: Path, model: ScriptedModel) -> None:
    """Compare the log, but for its header line, and the newest request, of which each earlier one is a prefix."""
    _, _, log = (directory / "log.jsonl").read_bytes().partition(b"\n")
    sent = [recorded.encoded for recorded in model.requests]
    assert all(sent[-1].startswith(request) for request in sent)
    for suffix, data in (("log", log), ("request", sent[-1])):
        file = GOLDEN / f"{name}.{suffix}.jsonl"
        if os.environ.get("DSH_TIME_WRITE_GOLDEN"):
            file.write_bytes(data)
        assert data == file.read_bytes(), file.name


@pytest.mark.parametrize("mode", MODES)
async def test_golden(tmp_path: Path, mode: str) -> None:
    """Two evenings and a morning in each mode: prompts, calls that fail, counters, a crossing, steering."""
    clock = Clock(at("2026-10-08T23:50:00+08:00"))
    agents: list[Agent] = []

    def later(answer: Answer, *, seconds: float) -> Played:
        def play(request: ModelRequest) -> Answer:
            clock.advance(seconds=seconds)
            return answer

        return play

    def steered(request: ModelRequest) -> Answer:
        agents[0].steer("And tests?", client_time_zone="Europe/Paris")
        clock.advance(seconds=1, ms=500)
        return say("Deployed.")

    model = ScriptedModel(
        later(call("time_counter", action="start", name="deploy", note="开始部署", inject=True), seconds=20),
        later(call("time_counter", action="reset", name="nothing") + call("time_mode"), seconds=40),
        later(say("Started."), seconds=3),
        later(call("time_counter", action="note", name="deploy", note="</system-reminder>"), seconds=5),
        steered,
        later(say("They run."), seconds=2),
        later(say("Good morning."), seconds=4),
    )
    plugins = reminder(tmp_path, defaultMode=mode, fineIntervalMs=30_000 if mode == "fine" else 0)
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins) as harness:
        agents.append(harness.create("s_golden"))
        await agents[0].prompt("Deploy it", client_time_zone="Asia/Shanghai")
        clock.now = at("2026-10-08T23:59:50+08:00")
        await agents[0].prompt("How is it going?")
        clock.now = at("2026-10-09T08:00:00+08:00")
        await agents[0].prompt("Morning")
    assert model.remaining == 0
    pinned(mode, tmp_path / "s_golden", model)


async def test_the_example_of_the_seed(tmp_path: Path) -> None:
    """The seed's reading comes out of a session that led to it: turn 12, a counter, a crossing at midnight."""
    clock = Clock(at("2026-10-07T10:00:00+08:00"))

    @frozen(eq=False)
    class Deploying:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            async def run(arguments: Nothing, context: ToolContext) -> str:
                clock.now = at("2026-10-09T01:20:38+08:00")
                return "done"

            return [Tool("deploy", "Deploys.", Nothing, run)]

    def long_answer(request: ModelRequest) -> Answer:
        clock.now = at("2026-10-09T01:03:02+08:00")
        return call("time_counter", action="start", name="deploy", note="开始部署", inject=True) + call("deploy")

    model = ScriptedModel(*[say("Yes.")] * 10, long_answer, say("At 01:20:38."))
    plugins = reminder(tmp_path, others={"dsh-deploying": Deploying})
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins, limits={"max_steps": 1}) as harness:
        agent = harness.create("s_seed")
        for turn in range(1, 10):
            await agent.prompt(f"Question {turn}", client_time_zone="Asia/Shanghai")
            clock.advance(seconds=60)
        clock.now = at("2026-10-08T00:00:03+08:00")
        await agent.prompt("Still up?")
        clock.now = at("2026-10-08T23:59:30+08:00")
        await agent.prompt("Deploy it")
        clock.now = at("2026-10-09T01:23:45+08:00")
        await agent.prompt("When was it done?")
    reading = messages(model)[-1]
    assert reading.text == (
        "<system-reminder>\n"
        "Time sampled while preparing turn 12, step 1: 2026-10-09T01:23:45+08:00[Asia/Shanghai]\n"
        "Time mode: cron (daily 00:00 Asia/Shanghai; previous reading 2026-10-08T00:00:03+08:00[Asia/Shanghai])\n"
        "Elapsed since the preceding model-visible message: 3m7s\n"
        "[counters] deploy=20m43s (开始部署)\n"
        "</system-reminder>"
    )
    assert reading.source == {
        "kind": "dsh-time-reminder",
        "form": "notice",
        "summary": "cron reading · 2026-10-09T01:23:45+08:00",
        "sampledAt": at("2026-10-09T01:23:45+08:00"),
        "mode": "cron",
    }
    pinned("seed", tmp_path / "s_seed", model)
