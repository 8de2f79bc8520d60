"""Tool calls: arguments, order, time limits, failures, caps, hooks on results, calls by hand."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from attrs import evolve, frozen
from msgspec import Meta, Struct

from dsh_hookspecs import (
    Event,
    PluginError,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolResult,
    hookimpl,
)
from dsh_time.agent import Agent
from dsh_time.errors import AgentBusy, WriteFailed
from dsh_time.log import read_side_file
from dsh_time.models.scripted import ScriptedModel, call, pause, say
from dsh_time.recorder import AgentEvent

from .kit import START_MS, Clock, logged, make_harness, payloads, types


class Text(Struct, forbid_unknown_fields=True):
    """One text and one bounded number."""

    text: str
    count: Annotated[int, Meta(ge=1)] = 1


class Strict(Struct):
    """Checks itself."""

    text: str

    def __post_init__(self) -> None:
        if self.text == "bad":
            raise RuntimeError("not this one")


def plugin(*tools: Tool) -> type:
    """Return a plugin class with these tools."""

    @frozen(eq=False)
    class Tools:
        """Tools of the test."""

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return list(tools)

    return Tools


def tool(run: Any, name: str = "tool", arguments: type[Struct] = Text, **options: Any) -> Tool:
    return Tool(name, "A tool.", arguments, run, **options)


async def one_result(tmp_path: Path, *tools: Tool, **arguments: Any) -> ToolResult:
    """Let the model call `tool` once and return the logged result."""
    async with make_harness(tmp_path, call("tool", **arguments), say("ok"), plugins={"tools": plugin(*tools)}) as h:
        await h.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert isinstance(result, ToolResult)
    return result


async def test_a_body_gets_typed_arguments_and_the_logged_time_of_its_call(tmp_path: Path) -> None:
    def body(arguments: Text, context: ToolContext) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"{arguments.text}x{arguments.count} {context.now:%H:%M:%S} {context.call.id} {context.session.id}"

    result = await one_result(tmp_path, tool(body), text="a", count=2)
    assert result.result.text == "ax2 08:30:00 t1s1c1 one"
    (event,) = [event for event in logged(tmp_path / "one") if isinstance(event.data, ToolCall)]
    assert (event.time, event.data) == (
        START_MS,
        ToolCall(id="t1s1c1", name="tool", arguments='{"text":"a","count":2}', owner="tools", turn=1, step=1),
    )


async def test_an_async_body_runs_on_the_event_loop(tmp_path: Path) -> None:
    async def body(arguments: Text, context: ToolContext) -> ToolOutput:
        assert threading.current_thread() is threading.main_thread()
        return ToolOutput("async " + arguments.text)

    assert (await one_result(tmp_path, tool(body), text="a")).result.text == "async a"


async def test_a_sync_body_may_return_something_to_wait_for(tmp_path: Path) -> None:
    async def later() -> str:
        return "later"

    assert (await one_result(tmp_path, tool(lambda arguments, context: later()), text="a")).result.text == "later"


def raises(error: BaseException) -> Any:
    def body(arguments: Text, context: ToolContext) -> str:
        raise error

    return body


async def cancels(arguments: Text, context: ToolContext) -> str:
    raise asyncio.CancelledError


def gives(text: Any, wake: Any = ()) -> Any:
    return lambda arguments, context: ToolOutput(text, wake=wake)


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("body", "text", "code"),
    [
        (raises(ToolError("no such file")), "no such file", "TOOL_ERROR"),
        (lambda a, c: ToolOutput("exit 1", is_error=True), "exit 1", "TOOL_ERROR"),
        (raises(KeyError("k")), "tool failed with KeyError: 'k'", "TOOL_EXCEPTION"),
        (raises(ValueError()), "tool failed with ValueError.", "TOOL_EXCEPTION"),
        (raises(StopIteration(3)), "tool failed with RuntimeError: StopIteration: 3", "TOOL_EXCEPTION"),
        (cancels, "tool failed with CancelledError: the tool cancelled itself", "TOOL_EXCEPTION"),
        (lambda a, c: 5, "tool failed with TypeError: the tool returned int, not str or ToolOutput", "TOOL_EXCEPTION"),
        (gives(5), "tool failed with TypeError: the tool returned ToolOutput", "TOOL_EXCEPTION"),
        (
            gives("a", wake="one"),
            "tool failed with TypeError: the tool returned a ToolOutput whose wake",
            "TOOL_EXCEPTION",
        ),
        (
            gives("a", wake=(5,)),
            "tool failed with TypeError: the tool returned a ToolOutput whose wake",
            "TOOL_EXCEPTION",
        ),
        (raises(Unreadable()), "tool failed with Unreadable: (its text cannot be read", "TOOL_EXCEPTION"),
        (raises(SystemExit(2)), "tool failed with RuntimeError: SystemExit: 2", "TOOL_EXCEPTION"),
        (raises(KeyboardInterrupt()), "tool failed with RuntimeError: KeyboardInterrupt: ", "TOOL_EXCEPTION"),
    ],
)
async def test_a_failing_body_gives_an_error_result_and_the_turn_goes_on(
    tmp_path: Path, body: Any, text: str, code: str
) -> None:
    result = await one_result(tmp_path, tool(body), text="a")
    assert result.result.text.startswith(text)
    assert result.result.is_error
    assert result.error is not None
    assert result.error.code == code
    assert types(tmp_path / "one")[-1] == "turn/end"


class Hostile(str):
    def encode(self, *_: Any) -> bytes:
        raise RuntimeError("no bytes")


@pytest.mark.parametrize("answer", [Hostile("said"), ToolOutput(Hostile("said"))], ids=["text", "output"])
async def test_a_text_that_is_more_than_a_text_is_taken_as_one(tmp_path: Path, answer: Any) -> None:
    result = await one_result(tmp_path, tool(lambda arguments, context: answer), text="a")
    assert (result.result.text, result.error) == ("said", None)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{}", "missing required field `text`"),
        ("", "missing required field `text`"),
        ('{"text": 5}', "Expected `str`, got `int` - at `$.text`"),
        ('{"text": "a", "count": 0}', ">= 1"),
        ('{"text": "a", "colour": 1}', "unknown field `colour`"),
        ('{"text": "a"', "Wrong arguments for tool"),
        ("[" * 100_000, "Wrong arguments for tool"),
        ('{"text": "\ud800"}', "Wrong arguments for tool"),
    ],
)
async def test_wrong_arguments_give_an_error_the_model_can_act_on(tmp_path: Path, written: str, says: str) -> None:
    answers = [call("tool", written), say("ok")]
    ran: list[str] = []
    body = tool(lambda arguments, context: ran.append("x"))
    async with make_harness(tmp_path, *answers, plugins={"tools": plugin(body)}) as harness:
        await harness.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert says in result.result.text
    assert (result.error.code, ran) == ("INVALID_ARGUMENTS", [])


async def test_arguments_are_checked_by_their_own_class_too(tmp_path: Path) -> None:
    result = await one_result(tmp_path, tool(lambda a, c: "ran", arguments=Strict), text="bad")
    assert result.result.text == "Wrong arguments for tool: not this one"


async def test_arguments_over_the_limit_are_not_parsed(tmp_path: Path) -> None:
    answers = [call("tool", text="x" * 2000), say("ok")]
    plugins = {"tools": plugin(tool(lambda a, c: "ran"))}
    async with make_harness(tmp_path, *answers, plugins=plugins, limits={"argument_bytes": 1024}) as harness:
        await harness.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert "at most 1024 are taken" in result.result.text


async def test_an_unknown_tool_is_answered_with_those_there_are(tmp_path: Path) -> None:
    async with make_harness(tmp_path, call("tol"), say("ok"), plugins={"tools": plugin(tool(str))}) as harness:
        await harness.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert result.result.text == "There is no tool 'tol'. Tools: tool."
    (event,) = payloads(tmp_path / "one", ToolCall)
    assert event.owner == ""


async def test_parallel_calls_start_together_and_are_answered_in_the_models_order(tmp_path: Path) -> None:
    order: list[str] = []
    second_done = asyncio.Event()

    async def body(arguments: Text, context: ToolContext) -> str:
        order.append(f"start {arguments.text}")
        if arguments.text == "a":
            await second_done.wait()
        else:
            second_done.set()
        order.append(f"end {arguments.text}")
        return arguments.text

    answers = [call("tool", text="a") + call("tool", text="b"), say("ok")]
    async with make_harness(tmp_path, *answers, plugins={"tools": plugin(tool(body, parallel=True))}) as harness:
        await harness.create("one").prompt("Go")
    assert order == ["start a", "start b", "end b", "end a"]
    assert [result.result.text for result in payloads(tmp_path / "one", ToolResult)] == ["a", "b"]
    assert types(tmp_path / "one")[5:9] == ["tool/call", "tool/call", "tool/result", "tool/result"]


async def test_other_calls_run_one_at_a_time_in_the_models_order(tmp_path: Path) -> None:
    running: list[str] = []

    async def body(arguments: Text, context: ToolContext) -> str:
        running.append(arguments.text)
        await asyncio.sleep(0)
        assert running == [arguments.text]
        running.clear()
        return arguments.text

    both = plugin(tool(body, parallel=True, name="together"), tool(body))
    answers = [call("together", text="a") + call("tool", text="b") + call("tool", text="c"), say("ok")]
    async with make_harness(tmp_path, *answers, plugins={"tools": both}) as harness:
        await harness.create("one").prompt("Go")
    results = payloads(tmp_path / "one", ToolResult)
    assert [(result.result.text, result.error) for result in results] == [("a", None), ("b", None), ("c", None)]
    assert types(tmp_path / "one")[5:11] == ["tool/call", "tool/result"] * 3


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_body_that_takes_too_long_has_an_unknown_outcome_and_the_turn_goes_on(
    tmp_path: Path, kind: str
) -> None:
    release, cancelled = threading.Event(), []

    def hangs(arguments: Text, context: ToolContext) -> str:
        release.wait()
        return "late"

    async def hangs_async(arguments: Text, context: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return "never"

    body = tool(hangs if kind == "sync" else hangs_async, timeout_s=1e-6)
    try:
        result = await one_result(tmp_path, body, text="a")
    finally:
        release.set()
    assert result.error is not None
    assert (result.error.name, result.error.code) == ("ToolTimeout", "TOOL_OUTCOME_UNKNOWN")
    assert "did not end within 1e-06 s" in result.result.text
    assert cancelled == ([True] if kind == "async" else [])


async def test_cancelling_waits_for_started_calls_and_answers_those_that_had_not_started(tmp_path: Path) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def body(arguments: Text, context: ToolContext) -> str:
        started.set()
        await release.wait()
        return "finished"

    answers = [call("tool", text="a") + call("tool", text="b")]
    async with make_harness(tmp_path, *answers, plugins={"tools": plugin(tool(body))}) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Go"))
        await started.wait()
        agent.cancel()
        release.set()
        assert (await waiting).reason.kind == "aborted"
    first, second = payloads(tmp_path / "one", ToolResult)
    assert (first.result.text, first.error) == ("finished", None)
    assert second.error.code == "TOOL_NOT_STARTED"
    assert "cancelled before this call started" in second.result.text
    assert types(tmp_path / "one").count("tool/call") == 1


async def test_who_cancels_on_hearing_of_the_answer_keeps_its_calls_from_starting(tmp_path: Path) -> None:
    started: list[str] = []

    def body(arguments: Text, context: ToolContext) -> str:
        started.append(arguments.text)
        return "done"

    script = call("tool", text="a") + call("tool", text="b"), say("end")
    async with make_harness(tmp_path, *script, plugins={"tools": plugin(tool(body, parallel=True))}) as harness:
        agent = harness.create("one")
        agent.subscribe(lambda event: agent.cancel() if _type_of(event) == "assistant/message" else None)
        result = await agent.prompt("Go")
    assert (started, result.reason.kind) == ([], "aborted")
    assert types(tmp_path / "one")[-5:] == [
        "assistant/message",
        "tool/result",
        "tool/result",
        "step/end",
        "turn/end",
    ]


def _type_of(event: AgentEvent) -> str:
    return event.data.type if isinstance(event, Event) else ""


async def test_calls_that_ran_together_are_answered_once_when_the_turn_was_cancelled_meanwhile(tmp_path: Path) -> None:
    async def body(arguments: Text, context: ToolContext) -> str:
        harness.live["one"].cancel()
        return arguments.text

    both = plugin(tool(body, parallel=True, name="together"), tool(body))
    answers = [call("together", text="a") + call("together", text="b") + call("tool", text="c")]
    async with make_harness(tmp_path, *answers, plugins={"tools": both}) as harness:
        assert (await harness.create("one").prompt("Go")).reason.kind == "aborted"
    results = payloads(tmp_path / "one", ToolResult)
    assert [(result.result.id, result.stands_in) for result in results] == [
        ("t1s1c1", False),
        ("t1s1c2", False),
        ("t1s1c3", True),
    ]


async def test_long_output_is_cut_and_kept_whole_beside_the_log(tmp_path: Path) -> None:
    text = "é" * 5000
    plugins = {"tools": plugin(tool(lambda a, c: text))}
    answers = [call("tool", text="a"), say("ok")]
    async with make_harness(tmp_path, *answers, plugins=plugins, limits={"tool_output_bytes": 1025}) as harness:
        await harness.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert result.result.text.startswith("é" * 512 + "\n[cut after 1024 of 10000 bytes; the whole output is in ")
    assert result.output.bytes == 10_000
    assert read_side_file(tmp_path / "one", result.output.file).decode() == text


async def test_output_that_cannot_be_kept_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [call("tool", text="a"), say("ok")]
    plugins = {"tools": plugin(tool(lambda a, c: "x" * 5000))}
    async with make_harness(tmp_path, *answers, plugins=plugins, limits={"tool_output_bytes": 1024}) as harness:
        agent = harness.create("one")

        def full(data: bytes) -> str:
            raise WriteFailed(tmp_path / "one", 28, "No space left on device")

        monkeypatch.setattr(agent.session.log, "write_side_file", full)
        await agent.prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert "the rest could not be kept: " in result.result.text
    assert result.output is None


async def test_plugins_see_what_a_body_gave_and_may_change_its_text_but_not_whether_it_failed(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Loud:
        """Shouts."""

        @hookimpl
        def on_tool_result(self, context: ToolContext, result: ToolOutput) -> ToolOutput:
            return evolve(result, text=f"{context.call.name}: {result.text.upper()}", is_error=True)

    plugins = {"tools": plugin(tool(lambda a, c: "quiet")), "loud": Loud}
    async with make_harness(tmp_path, call("tool", text="a") + call("unknown"), say("ok"), plugins=plugins) as harness:
        await harness.create("one").prompt("Go")
    first, second = payloads(tmp_path / "one", ToolResult)
    assert (first.result.text, first.result.is_error) == ("tool: QUIET", False)
    assert second.result.text.startswith("There is no tool")


async def test_a_failing_result_hook_is_logged_and_the_result_stays(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Broken:
        """Fails on results."""

        @hookimpl
        def on_tool_result(self, context: ToolContext, result: ToolOutput) -> ToolOutput:
            raise RuntimeError("oops")

    plugins = {"tools": plugin(tool(lambda a, c: "fine")), "broken": Broken}
    async with make_harness(tmp_path, call("tool", text="a"), say("ok"), plugins=plugins) as harness:
        await harness.create("one").prompt("Go")
    (result,) = payloads(tmp_path / "one", ToolResult)
    (error,) = payloads(tmp_path / "one", PluginError)
    assert result.result.text == "fine"
    assert (error.plugin, error.hook, error.error) == ("broken", "on_tool_result", "RuntimeError")
    assert result.message.id == f"m{types(tmp_path / 'one').index('tool/result')}"


async def test_a_user_calls_a_tool_that_the_model_does_not_see(tmp_path: Path) -> None:
    model = ScriptedModel(say("Hi."))
    clock = Clock()
    plugins = {"tools": plugin(tool(lambda a, c: f"by {c.call.issuer}"))}
    async with make_harness(tmp_path, model=model, clock=clock, plugins=plugins) as harness:
        agent = harness.create("one")
        result = await agent.call_tool("tool", '{"text": "a"}')
        assert result.result.text == "by user"
        assert agent.session.log.synced_seq + 1 == agent.session.next_seq
        await agent.prompt("Hello")
    assert types(tmp_path / "one")[:2] == ["tool/call", "tool/result"]
    assert [message.text for message in model.requests[0].request.messages] == ["Hello"]


async def test_a_tool_cannot_be_called_by_hand_while_a_turn_runs(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    async with make_harness(tmp_path, pause(release, reached) + say("ok")) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Go"))
        await reached.wait()
        with pytest.raises(AgentBusy, match="in the middle of a turn"):
            await agent.call_tool("tool", "{}")
        release.set()
        await waiting


async def test_a_turn_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    def body(arguments: Text, context: ToolContext) -> str:
        return "found"

    async def prompts(agent: Agent, count: int) -> None:
        for _ in range(count):
            await agent.prompt("Go")

    turns = 20
    answers = [call("tool", text="a"), say("ok")] * (turns + 1)
    async with make_harness(tmp_path, *answers, plugins={"tools": plugin(tool(body))}) as harness:
        agent = harness.create("one")
        await prompts(agent, 1)
        gc.collect()
        gc.disable()
        try:
            await prompts(agent, turns)
            assert gc.collect() < turns
        finally:
            gc.enable()
