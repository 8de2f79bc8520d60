"""Turns and steps: what is logged, in which order, when it is durable, and how a turn ends."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from msgspec import Struct

from dsh_hookspecs import (
    AssistantMessage,
    Event,
    Finished,
    ModelDelta,
    ModelError,
    ReasoningBlock,
    Reject,
    RequestHeader,
    RequestHeaderDelta,
    Section,
    Step,
    TextBlock,
    TextDelta,
    Tool,
    ToolContext,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    Usage,
    UserMessage,
    hookimpl,
)
from dsh_time.errors import LogPoisoned, WriteFailed
from dsh_time.harness import Harness
from dsh_time.log import FileIo
from dsh_time.models.scripted import ScriptedModel, call, fail, finish, pause, reason, say, truncated
from dsh_time.recorder import AgentEvent

from .kit import START_MS, Clock, logged, make_harness, payloads, plugin_host, types


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


@frozen(eq=False)
class Echo:
    """A plugin with one tool."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("echo", "Says hello.", Nothing, lambda arguments, context: "hello")]


class Syncs(FileIo):
    """Counts how often the content of a log is made durable."""

    count = 0

    def sync_data(self, descriptor: int) -> None:
        self.count += 1
        super().sync_data(descriptor)


async def test_a_turn_waits_for_the_disk_before_each_request_and_tool_and_at_its_end(tmp_path: Path) -> None:
    io, host = Syncs(), plugin_host({"dsh-echo": Echo})
    model = ScriptedModel(call("echo"), say("Done."))
    async with Harness(host.deployment, root=tmp_path, plugins=host, model=model, io=io) as harness:
        await harness.create("one").prompt("Hi")
        assert io.count == 4
        await harness.close_session("one")
        harness.open("one")
    assert io.count == 5


async def test_a_prompt_is_logged_then_asked_then_answered(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("Hel", "lo.")) as harness:
        result = await harness.create("one").prompt("Hi")
    assert (result.turn, result.reason.kind, result.text) == (1, "completed", "Hello.")
    assert types(tmp_path / "one") == [
        "turn/start",
        "user/message",
        "step/start",
        "request/header",
        "assistant/message",
        "step/end",
        "turn/end",
    ]


async def test_a_turn_with_a_call_has_two_steps(tmp_path: Path) -> None:
    async with make_harness(tmp_path, call("echo"), say("It said hello."), plugins={"echo": Echo}) as harness:
        await harness.create("one").prompt("Call echo")
    assert types(tmp_path / "one")[4:] == [
        "assistant/message",
        "tool/call",
        "tool/result",
        "step/end",
        "step/start",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert (result.turn, result.step, result.result.id, result.result.text) == (1, 1, "t1s1c1", "hello")


async def test_everything_logged_while_a_step_is_prepared_carries_the_steps_instant(tmp_path: Path) -> None:
    clock = Clock()

    @frozen(eq=False)
    class Ticking:
        """Lets the clock run on while it is asked."""

        @hookimpl
        def before_step(self, step: Step) -> None:
            assert step.now.timestamp() * 1000 == clock.now
            clock.advance(seconds=5)

    async with make_harness(tmp_path, say("ok"), clock=clock, plugins={"ticking": Ticking}) as harness:
        await harness.create("one").prompt("Hi")
    times = {event.data.type: event.time - START_MS for event in logged(tmp_path / "one")}
    assert times["step/start"] == times["request/header"] == 0
    assert times["assistant/message"] == 5000


class Watched(ScriptedModel):
    """A scripted model that notes how much of the log is durable when it is asked."""

    harness: Harness
    seen: list[tuple[int, int]]

    def stream(self, request: Any, /) -> Any:
        (agent,) = self.harness.live.values()
        self.seen.append((agent.session.log.synced_seq + 1, agent.session.next_seq))
        return super().stream(request)


async def test_a_request_a_tool_and_the_end_of_a_turn_each_wait_until_the_log_is_durable(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    @frozen(eq=False)
    class Looking:
        """Its tool notes how much of the log is durable when it runs."""

        @hookimpl
        def register_tools(self) -> list[Tool]:
            def look(arguments: Nothing, context: ToolContext) -> str:
                (agent,) = harness.live.values()
                seen.append((agent.session.log.synced_seq + 1, agent.session.next_seq))
                return "looked"

            return [Tool("look", "Looks.", Nothing, look)]

    model = Watched(call("look"), say("done"))
    async with make_harness(tmp_path, model=model, plugins={"looking": Looking}) as harness:
        model.harness, model.seen = harness, seen
        agent = harness.create("one")
        await agent.prompt("Hi")
        seen.append((agent.session.log.synced_seq + 1, agent.session.next_seq))
    assert [durable == written for durable, written in seen] == [True] * 4


async def test_an_unchanged_header_is_logged_once_and_a_changed_one_as_a_delta(tmp_path: Path) -> None:
    texts = iter(["A", "A", "B", "B"])

    @frozen(eq=False)
    class Sections:
        """Gives a section whose text changes once."""

        @hookimpl
        def system_prompt_section(self) -> Section:
            return Section("part", 0, next(texts))

    answers = [say(str(number)) for number in range(4)]
    async with make_harness(tmp_path, *answers, plugins={"sections": Sections}) as harness:
        agent = harness.create("one")
        for prompt in "abcd":
            await agent.prompt(prompt)
    directory = tmp_path / "one"
    (snapshot,) = payloads(directory, RequestHeader)
    (delta,) = payloads(directory, RequestHeaderDelta)
    assert [section.text for section in snapshot.header.system] == ["A"]
    assert [section.text for section in delta.system.changed] == ["B"]


async def test_the_header_holds_model_settings_tools_and_the_plugins_with_their_versions(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("ok"), plugins={"echo": Echo}) as harness:
        await harness.create("one").prompt("Hi")
    (snapshot,) = payloads(tmp_path / "one", RequestHeader)
    header = snapshot.header
    assert header.config == {"provider": "scripted", "model": "scripted"}
    assert [(plugin.name, plugin.version) for plugin in header.loadout] == [("echo", "1.0")]
    assert header.tools[0].parameters["type"] == "object"


async def test_usage_reasoning_and_stop_reason_are_kept(tmp_path: Path) -> None:
    usage = Usage(input_tokens=9, cached_tokens=4, output_tokens=2)
    async with make_harness(tmp_path, reason("Hm.", replay="r") + say("Yes.") + finish(usage=usage)) as harness:
        await harness.create("one").prompt("Hi")
    (answer,) = payloads(tmp_path / "one", AssistantMessage)
    assert answer.message.content == (ReasoningBlock("Hm.", "r"), TextBlock("Yes."))
    assert (answer.usage, answer.stop_reason, answer.message.source["kind"]) == (usage, "end", "model")


async def test_a_failed_request_ends_the_turn_with_its_error_and_keeps_what_was_streamed(tmp_path: Path) -> None:
    model = ScriptedModel(say("Half an ") + call("echo") + fail(ModelError("The key is wrong.")), say("again"))
    async with make_harness(tmp_path, model=model, plugins={"echo": Echo}) as harness:
        agent = harness.create("one")
        result = await agent.prompt("Hi")
        assert result.reason == TurnEndReason(kind="error", type="ModelError", message="The key is wrong.")
        assert (await agent.prompt("Once more")).text == "again"
    first, _ = payloads(tmp_path / "one", AssistantMessage)
    assert (first.interrupted, first.message.content) == (True, (TextBlock("Half an "),))


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [RuntimeError("bug"), ValueError(), Unreadable(), asyncio.CancelledError()])
async def test_any_other_failure_of_a_model_ends_the_turn_too(tmp_path: Path, error: BaseException) -> None:
    async with make_harness(tmp_path, fail(error)) as harness:
        result = await harness.create("one").prompt("Hi")
    assert result.reason.kind == "error"
    assert result.reason.message


async def test_an_error_text_that_no_line_of_the_log_could_hold_is_cut(tmp_path: Path) -> None:
    async with make_harness(tmp_path, fail(ModelError("\0" * 2_000_000))) as harness:
        result = await harness.create("one").prompt("Hi")
    assert result.reason.message == "\0" * 10_000
    assert types(tmp_path / "one")[-1] == "turn/end"


async def test_a_piece_that_no_line_of_the_log_could_hold_ends_the_turn(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("before ", "x" * 9_000_000), say("again")) as harness:
        agent = harness.create("one")
        assert (await agent.prompt("Hi")).reason.kind == "error"
        assert (await agent.prompt("Once more")).text == "again"
    assert payloads(tmp_path / "one", AssistantMessage)[0].message.content == (TextBlock("before "),)


async def test_an_answer_at_its_token_limit_ends_the_turn_and_its_calls_do_not_run(tmp_path: Path) -> None:
    async with make_harness(tmp_path, call("echo") + truncated("and"), plugins={"echo": Echo}) as harness:
        result = await harness.create("one").prompt("Hi")
    assert result.reason.kind == "max-tokens"
    (answered,) = payloads(tmp_path / "one", ToolResult)
    assert (answered.error.code, answered.result.is_error) == ("TOOL_NOT_STARTED", True)
    assert "tool/call" not in types(tmp_path / "one")


async def test_a_turn_ends_at_the_step_limit(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda request: call("echo"))
    async with make_harness(tmp_path, model=model, plugins={"echo": Echo}, limits={"max_steps": 3}) as harness:
        result = await harness.create("one").prompt("Hi")
    assert result.reason.kind == "max-steps"
    assert len(model.requests) == 3


async def test_a_rejected_turn_keeps_the_prompt_and_logs_no_message_of_any_plugin(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Talker:
        """Always has something to say."""

        @hookimpl
        def before_step(self, step: Step) -> Any:
            from dsh_hookspecs import Message

            return Message("psst", "notice")

    @frozen(eq=False)
    class Bouncer:
        """Rejects every turn."""

        @hookimpl
        def before_step(self, step: Step) -> Reject:
            return Reject("closed today")

    model = ScriptedModel()
    async with make_harness(tmp_path, model=model, plugins={"talker": Talker, "bouncer": Bouncer}) as harness:
        result = await harness.create("one").prompt("Hi")
    assert result.reason == TurnEndReason(kind="rejected", plugin="bouncer", reason="closed today")
    assert types(tmp_path / "one") == ["turn/start", "user/message", "step/start", "step/end", "turn/end"]
    assert not model.requests


async def test_a_cancelled_answer_keeps_what_was_streamed(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, say("par") + pause(asyncio.Event(), reached) + say("tial")) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await reached.wait()
        agent.cancel()
        result = await waiting
    assert (result.reason.kind, result.reason.reason, result.text) == ("aborted", "user", "par")
    (answer,) = payloads(tmp_path / "one", AssistantMessage)
    assert answer.interrupted
    assert types(tmp_path / "one")[-2:] == ["step/end", "turn/end"]


async def test_a_cancelled_answer_without_a_piece_leaves_no_message(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, pause(asyncio.Event(), reached) + say("never")) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await reached.wait()
        agent.cancel()
        assert (await waiting).text == ""
    assert "assistant/message" not in types(tmp_path / "one")


async def test_a_turn_cancelled_before_its_request_asks_no_model(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await asyncio.sleep(0)
        agent.cancel("changed my mind")
        agent.cancel("too late to say why")
        result = await waiting
    assert result.reason == TurnEndReason(kind="aborted", reason="changed my mind")
    assert not model.requests


async def test_cancelling_an_idle_agent_does_nothing(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("ok")) as harness:
        agent = harness.create("one")
        agent.cancel()
        assert (await agent.prompt("Hi")).reason.kind == "completed"


@pytest.mark.parametrize("started", [True, False])
async def test_a_base_exception_writes_nothing_and_is_left_to_crash_repair(tmp_path: Path, started: bool) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, pause(asyncio.Event(), reached) + say("never"), say("again")) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await (reached.wait() if started else asyncio.sleep(0))
        assert agent._driver is not None
        agent._driver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert types(tmp_path / "one")[-1] == ("request/header" if started else "user/message")
        assert not agent.busy
        if started:
            assert (await agent.prompt("Again")).text == "again"
            assert "interrupted" in [end.reason.kind for end in payloads(tmp_path / "one", TurnEnd)]


async def test_listeners_get_logged_events_and_the_stream_and_a_failing_one_hurts_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[AgentEvent] = []

    def broken(event: AgentEvent) -> None:
        raise RuntimeError("deaf")

    async with make_harness(tmp_path, say("a", "b"), say("c")) as harness:
        agent = harness.create("one")
        agent.subscribe(broken)
        stop = agent.subscribe(heard.append)
        await agent.prompt("Hi")
        stop()
        await agent.prompt("Again")
    names = [getattr(event, "data", event).__class__.__name__ for event in heard]
    assert names[3:8] == ["RequestHeader", "TextDelta", "TextDelta", "Finished", "AssistantMessage"]
    assert names[-1] == "TurnEnd"
    assert "A listener of session one failed" in caplog.text


async def test_a_disk_that_is_full_stops_the_turn_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_harness(tmp_path, say("lost"), say("kept")) as harness:
        agent = harness.create("one")
        append = agent.session.log.append

        def full(drafts: Any) -> Any:
            if drafts[0].type == "assistant/message":
                raise WriteFailed(tmp_path / "one", 28, "No space left on device")
            return append(drafts)

        monkeypatch.setattr(agent.session.log, "append", full)
        with pytest.raises(WriteFailed, match="No space left"):
            await agent.prompt("Hi")
        monkeypatch.setattr(agent.session.log, "append", append)
        assert (await agent.prompt("Again")).text == "kept"
    ends = [end.reason.kind for end in payloads(tmp_path / "one", TurnEnd)]
    assert ends == ["interrupted", "completed"]
    assert not caplog.text, "who waited for the prompt was told; the log of the program need not repeat it"


async def test_a_turn_that_breaks_off_while_nobody_waits_for_it_is_a_line_in_the_programs_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_harness(tmp_path, say("lost")) as harness:
        agent = harness.create("one")

        def fails() -> None:
            raise LogPoisoned(tmp_path / "one", "sync data failed (Input/output error)")

        monkeypatch.setattr(agent.session, "sync", fails)
        agent.followup("Hi")
        with pytest.raises(LogPoisoned):
            await agent.idle()
        monkeypatch.undo()
    assert "A turn of session one broke off" in caplog.text


async def test_a_log_that_cannot_be_synced_runs_no_tool_and_takes_no_further_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @frozen(eq=False)
    class Doer:
        """Its tool does something to the world."""

        @hookimpl
        def register_tools(self) -> list[Tool]:
            def do(arguments: Nothing, context: ToolContext) -> str:
                ran.append("x")
                return "done"

            return [Tool("do", "Does it.", Nothing, do)]

    harness = make_harness(tmp_path, call("do"), plugins={"doer": Doer})
    agent = harness.create("one")
    synced = 0
    sync_data = agent.session.log._io.sync_data

    def fails(descriptor: int) -> None:
        nonlocal synced
        synced += 1
        if synced > 1:
            raise OSError(5, "Input/output error")
        sync_data(descriptor)

    monkeypatch.setattr(agent.session.log._io, "sync_data", fails)
    with pytest.raises(LogPoisoned):
        await agent.prompt("Do it")
    assert not ran
    with pytest.raises(LogPoisoned):
        await agent.prompt("Again")
    monkeypatch.undo()
    await harness.close()


async def test_text_that_is_no_unicode_is_repaired_at_the_door_and_marked(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Broken:
        """Its tool gives a lone surrogate."""

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [Tool("bad", "Says it.", Nothing, lambda arguments, context: "t\udc00")]

    answers = [say("m\ud800") + call("bad"), say("ok")]
    async with make_harness(tmp_path, *answers, plugins={"broken": Broken}) as harness:
        agent = harness.create("one")
        result = await agent.prompt("u\udfff", client_time_zone="\ud800")
    assert result.text == "ok"
    (prompt,) = payloads(tmp_path / "one", UserMessage)
    first, second = payloads(tmp_path / "one", AssistantMessage)
    (output,) = payloads(tmp_path / "one", ToolResult)
    assert [(prompt.text, prompt.lossy), (first.message.text, first.lossy)] == [("u\ufffd", True), ("m\ufffd", True)]
    assert (output.result.text, output.lossy, second.lossy) == ("t\ufffd", True, False)


async def test_who_stops_waiting_for_a_turn_does_not_stop_it(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    async with make_harness(tmp_path, pause(release, reached) + say("ok"), say("never")) as harness:
        agent = harness.create("one")
        running, waiting = asyncio.create_task(agent.prompt("a")), asyncio.create_task(agent.prompt("b"))
        await reached.wait()
        running.cancel()
        waiting.cancel()
        agent.cancel()
        release.set()
        await agent.idle()
    assert payloads(tmp_path / "one", TurnEnd)[0].reason.kind == "aborted"


class Deaf(BaseException):
    """Nothing that a harness handles."""


async def test_a_base_exception_of_a_model_writes_nothing_and_is_left_to_crash_repair(tmp_path: Path) -> None:
    async with make_harness(tmp_path, fail(Deaf()), say("again")) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await asyncio.sleep(0)
        with pytest.raises(Deaf):
            await agent.idle()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert types(tmp_path / "one")[-1] == "request/header"
        assert (await agent.prompt("Again")).text == "again"


async def test_a_stream_that_is_no_generator_will_do(tmp_path: Path) -> None:
    class Stream:
        def __init__(self) -> None:
            self.items: Iterator[ModelDelta] = iter([TextDelta("ok"), Finished()])

        def __aiter__(self) -> "Stream":
            return self

        async def __anext__(self) -> ModelDelta:
            try:
                return next(self.items)
            except StopIteration:
                raise StopAsyncIteration from None

    class Model(ScriptedModel):
        def stream(self, request: Any, /) -> Any:
            return Stream()

    async with make_harness(tmp_path, model=Model()) as harness:
        assert (await harness.create("one").prompt("Hi")).text == "ok"


async def test_a_last_message_from_a_time_that_no_calendar_holds_is_no_baseline(tmp_path: Path) -> None:
    seen: list[object] = []

    @frozen(eq=False)
    class Looking:
        """Notes when the last message was."""

        @hookimpl
        def before_step(self, step: Step) -> None:
            seen.append(step.previous_message)

    async with make_harness(tmp_path, say("ok"), plugins={"looking": Looking}) as harness:
        agent = harness.create("one")
        message = UserMessage(id="m", role="user", content=(TextBlock("a"),), source={"kind": "user"})
        agent.session.append([message], 2**62)
        assert (await agent.prompt("Hi")).text == "ok"
    assert seen == [None]


async def test_the_text_of_a_result_can_be_printed(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("half a pair: \ud83d")) as harness:
        assert (await harness.create("one").prompt("Hi")).text == "half a pair: \ufffd"


async def test_listeners_get_events_in_order_also_where_one_of_them_causes_more(tmp_path: Path) -> None:
    heard: list[int] = []

    async with make_harness(tmp_path, say("a"), say("b")) as harness:
        agent = harness.create("one")

        def steers(event: AgentEvent) -> None:
            if isinstance(event, Event) and event.seq == 0:  # the first of two events that are logged together
                agent.steer("and this")

        agent.subscribe(steers)
        agent.subscribe(lambda event: heard.append(event.seq) if isinstance(event, Event) else None)
        await agent.prompt("Hi")
        await agent.idle()
    assert heard == list(range(len(types(tmp_path / "one"))))


async def test_a_listener_that_is_interrupted_does_not_silence_the_others(tmp_path: Path) -> None:
    heard: list[AgentEvent] = []

    def interrupted(event: AgentEvent) -> None:
        raise KeyboardInterrupt

    async with make_harness(tmp_path, say("a")) as harness:
        agent = harness.create("one")
        stop = agent.subscribe(interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.inject("i")
        stop()
        agent.subscribe(heard.append)
        await agent.prompt("Hi")
    assert len(heard) > 5


async def test_several_sessions_run_side_by_side(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda request: say(request.messages[-1].text.upper()))
    async with make_harness(tmp_path, model=model) as harness:
        agents = [harness.create(f"s{number}") for number in range(5)]
        results = await asyncio.gather(*(agent.prompt(f"p{n}") for n, agent in enumerate(agents)))
    assert [result.text for result in results] == ["P0", "P1", "P2", "P3", "P4"]
