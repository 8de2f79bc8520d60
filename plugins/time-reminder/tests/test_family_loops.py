"""Related sessions in real loops: waking, children at rest, forks."""

from pathlib import Path

from attrs import frozen
from msgspec import Struct

from dsh_hookspecs import (
    ModelRequest,
    Tool,
    ToolContext,
    hookimpl,
)
from dsh_time.models.scripted import Answer, ScriptedModel, call, say
from dsh_time_reminder.fold import TimeState
from tests.kit import Clock, make_harness

from .loop_kit import child_of, messages, ours, quiet, reminder


async def test_steer_wakes_an_idle_relative_and_two_do_not_keep_each_other_awake(tmp_path: Path) -> None:
    """A change wakes the idle child, whose turn opens with the news; the change it makes then wakes nobody."""

    def answer(request: ModelRequest) -> Answer:
        last = request.messages[-1]
        if last.role == "tool":
            return say("ok")
        return call("time_counter", action="start", name="ping", toChildren=True, toParents=True)

    model = ScriptedModel(then=answer)
    plugins = reminder(tmp_path, defaultMode="off", counterNotice="steer")
    async with make_harness(tmp_path, model=model, plugins=plugins) as harness:
        parent = harness.create("parent")
        child = child_of(harness, parent, "child")
        await parent.prompt("go")
        await quiet(harness)
        assert [len(ours(list(recorded.request.messages))) for recorded in model.requests] == [0, 0, 1, 1]
        first = model.requests[2].request.messages
        assert [message.text for message in first] == [
            "<system-reminder>\n[counters] parent: ping started\n</system-reminder>"
        ]
        assert first[0].source["form"] == "relay"
        assert child.session.fold(TimeState).counters.keys() == {"ping"}
        await parent.prompt("and now?")
        assert "[counters] child: ping started" in ours(list(model.requests[4].request.messages))[0]


async def test_a_child_at_rest_is_heard_read_and_resumed(tmp_path: Path) -> None:
    """A child that a tool spawned and that ended is told of once, listed at rest, and hears what it missed."""

    @frozen(eq=False)
    class Spawning:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            async def run(arguments: Task, context: ToolContext) -> str:
                return (await context.spawn(arguments.prompt, resume=arguments.resume)).text

            return [Tool("spawn", "Spawns.", Task, run)]

    class Task(Struct):
        prompt: str
        resume: str | None = None

    clock = Clock()
    model = ScriptedModel(
        call("time_counter", action="start", name="deploy", note="before") + call("spawn", prompt="child: build"),
        call("time_counter", action="start", name="build", toParents=True) + call("time_counter", action="list"),
        say("built"),
        call("time_counter", action="list") + call("time_counter", action="note", name="deploy", note="after"),
        call("spawn", prompt="child: again", resume="child"),
        say("heard"),
        say("done"),
    )
    plugins = reminder(tmp_path, others={"dsh-spawning": Spawning})
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins, new_id=lambda: "child") as harness:
        await harness.create("parent").prompt("go", client_time_zone="Asia/Tokyo")
    assert model.remaining == 0
    sent = [[message.text for message in recorded.request.messages] for recorded in model.requests]
    assert "Time mode: cron (daily 00:00 Asia/Tokyo;" in sent[1][-1]
    assert sent[2][-1].endswith("\nbuild=0s [toChildren, toParents, depth 2]\ndeploy@parent=0s (before)")
    assert "[counters] child: build started" in sent[3][-1]
    listed = sent[4][-2].split("\n")
    assert listed[2:] == ["deploy=0s (before) [toChildren, depth 2]", "build@child=0s [at rest]"]
    assert sent[5][-1] == "<system-reminder>\n[counters] parent: deploy noted (after)\n</system-reminder>"
    assert [text for text in sent[6] if "[counters] child" in text] == [sent[3][-1]]


async def test_a_fork_keeps_mode_and_counters_and_tells_nobody(tmp_path: Path) -> None:
    """A fork carries mode and counters over, as a session of its own; it is nobody's relative."""
    model = ScriptedModel(
        call("time_mode", mode="cron", cron="@hourly") + call("time_counter", action="start", name="deploy"),
        say("ok"),
        call("time_counter", action="remove", name="deploy"),
        say("ok"),
        say("child"),
    )
    async with make_harness(tmp_path, model=model, plugins=reminder(tmp_path)) as harness:
        parent = harness.create("parent")
        child = child_of(harness, parent, "child")
        await parent.prompt("go")
        copy = harness.open(harness.fork("parent", "copy"))
        states = [agent.session.fold(TimeState) for agent in (parent, copy)]
        assert states[0] == states[1]
        await copy.prompt("remove it")
        assert parent.session.fold(TimeState).counters.keys() == {"deploy"}
        await child.prompt("hi")
        assert [message.source.get("senderSessionId") for message in messages(model)] == [None, "parent", None]
