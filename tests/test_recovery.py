"""Opening what a crash left: an open turn is closed as the design says, and what cannot be folded is refused.

`test_crash_points` shows that a session lives on after any crash; here is what exactly is written then.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from msgspec import Struct

from dsh_hookspecs import (
    TOOL_NOT_STARTED,
    TOOL_OUTCOME_UNKNOWN,
    AssistantMessage,
    Event,
    InboxSpliced,
    ModelError,
    Reject,
    Step,
    StepEnd,
    StepStart,
    Tool,
    ToolCall,
    ToolCallBlock,
    ToolContext,
    ToolResult,
    TurnEnd,
    TurnStart,
    hookimpl,
)
from dsh_time.errors import BadPayload, LogError, UnknownEventType
from dsh_time.log import LOG_NAME, Draft, Log
from dsh_time.models.scripted import ScriptedModel, call, fail, pause, say, truncated
from dsh_time.replay import last_settled_seq, rebuild_request
from dsh_time.session import Session

from .kit import Clock, logged, make_harness
from .test_folds import assert_a_strict_chat_api_accepts


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


@frozen(eq=False)
class Tools:
    """Tools that run together and alone, one that steers and injects, and a word after which nothing is asked."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        def done(arguments: Nothing, context: ToolContext) -> str:
            return "done"

        return [
            Tool("together", "Runs beside others.", Nothing, done, parallel=True),
            Tool("alone", "X.", Nothing, done),
        ]

    @hookimpl
    def before_step(self, step: Step) -> Reject | None:
        return Reject("closed") if step.turn == REJECTED else None


REJECTED = 4


async def live(root: Path) -> None:
    """A session in which everything happens; each event but those of one batch has a time of its own."""
    clock = Clock()

    def ticking() -> int:
        clock.advance(ms=7)
        return clock.now

    reached = asyncio.Event()
    model = ScriptedModel(
        call("together") + call("together") + call("alone") + call("alone"),
        lambda request: (agent.steer("steer"), agent.inject("inject"), say("hm"))[2],
        say("steered"),
        say("cut") + call("alone") + truncated("off"),
        say("half") + fail(ModelError("gone")),
        say("par") + pause(asyncio.Event(), reached) + say("tial"),
    )
    async with make_harness(root, model=model, clock=clock, plugins={"tools": Tools}) as harness:
        harness._now_ms = ticking
        agent = harness.create("one")
        for prompt in ("calls", "max-tokens", "error", "rejected"):
            await agent.prompt(prompt)
        agent.inject("rides along")
        waiting = asyncio.create_task(agent.prompt("cancelled"))
        await reached.wait()
        agent.followup("kept")
        agent.cancel()
        await waiting
        await agent.call_tool("alone", "{}")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("live")
    asyncio.run(live(root))
    return root / "one"


def cut_after(session: Path, root: Path, seq: int) -> Path:
    """A copy of the session that a crash left with the events up to `seq`."""
    target = root / "one"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(session, target)
    lines = (session / LOG_NAME).read_bytes().splitlines(keepends=True)
    (target / LOG_NAME).write_bytes(b"".join(lines[: seq + 2]))
    return target


def what_closes(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What crash repair has to write, told from the list of events alone."""
    starts = [at for at, event in enumerate(events) if isinstance(event.data, TurnStart)]
    if not starts or any(isinstance(event.data, TurnEnd) for event in events[starts[-1] :]):
        return []
    turn = [event.data for event in events[starts[-1] :]]
    opened = [data.step for data in turn if isinstance(data, StepStart)]
    closed = [data.step for data in turn if isinstance(data, StepEnd)]
    expected: list[tuple[Any, ...]] = []
    number = events[starts[-1]].data.turn  # type: ignore[union-attr]  # it is a TurnStart
    if opened and opened[-1] not in closed:
        calls = [
            block.id
            for data in turn
            if isinstance(data, AssistantMessage) and data.step == opened[-1] and not data.interrupted
            for block in data.message.content
            if isinstance(block, ToolCallBlock)
        ]
        started = {data.id for data in turn if isinstance(data, ToolCall)}
        answered = {data.result.id for data in turn if isinstance(data, ToolResult)}
        for called in calls:
            if called not in answered:
                code = TOOL_OUTCOME_UNKNOWN if called in started else TOOL_NOT_STARTED
                expected.append(("tool/result", number, opened[-1], called, code))
        expected.append(("step/end", number, opened[-1]))
    expected.append(("turn/end", number, "interrupted"))
    return expected


def told(event: Event) -> tuple[Any, ...]:
    match event.data:
        case ToolResult() as data:
            assert data.result.is_error
            assert data.error is not None
            assert data.result.text.startswith(f"{data.error.code}: ")
            assert data.message.id == f"m{event.seq}"
            return (data.type, data.turn, data.step, data.result.id, data.error.code)
        case StepEnd() as data:
            return (data.type, data.turn, data.step)
        case TurnEnd() as data:
            return (data.type, data.turn, data.reason.kind)
    raise AssertionError(f"crash repair wrote {event}")


def test_a_turn_that_a_crash_left_open_is_closed_with_the_time_of_the_last_event(session: Path, tmp_path: Path) -> None:
    """For a crash after every event: one error result per unanswered call with the right code, step/end, turn/end.

    A second opening adds nothing. What was there stays byte for byte.
    """
    whole = logged(session)
    repaired = 0
    clock = Clock()
    clock.advance(seconds=3600)

    async def open_it() -> None:
        async with make_harness(tmp_path, clock=clock, plugins={"tools": Tools}) as harness:
            harness.open("one")

    for seq in range(-1, len(whole)):
        directory = cut_after(session, tmp_path, seq)
        before = (directory / LOG_NAME).read_bytes()
        asyncio.run(open_it())
        after = (directory / LOG_NAME).read_bytes()
        assert after.startswith(before)
        added = logged(directory)[seq + 1 :]
        expected = what_closes(whole[: seq + 1])
        assert [told(event) for event in added if not isinstance(event.data, InboxSpliced)] == expected
        assert {event.time for event in added} <= {whole[seq].time}
        repaired += bool(added)
        asyncio.run(open_it())
        assert (directory / LOG_NAME).read_bytes() == after
    assert repaired > 40


def test_the_next_prompt_after_any_crash_sends_what_a_strict_api_accepts(session: Path, tmp_path: Path) -> None:
    async def go_on() -> None:
        model = ScriptedModel(then=lambda request: say("on"))
        async with make_harness(tmp_path, model=model, plugins={"tools": Tools}) as harness:
            agent = harness.open("one")
            result = await agent.prompt("now")
            while result.reason.kind == "rejected":
                result = await agent.prompt("and now")
        assert result.text == "on"
        for recorded in model.requests:
            assert_a_strict_chat_api_accepts(recorded.request.messages)

    for seq in range(-1, len(logged(session))):
        cut_after(session, tmp_path, seq)
        asyncio.run(go_on())


# What cannot be folded (R22, R26, R27)


def append(directory: Path, kind: str, data: bytes, *, ignorable: bool = False) -> None:
    with Log.open(directory, lambda record: None) as log:
        log.append([Draft(time=1, type=kind, data=data, ignorable=ignorable)])


async def refused(root: Path, directory: Path, error: type[LogError]) -> LogError:
    """Nobody continues, forks or replays it, and that changes nothing and locks nobody out."""
    before = (directory / LOG_NAME).read_bytes()
    with pytest.raises(error) as caught:
        Session.open(directory)
    async with make_harness(root) as harness:
        with pytest.raises(error):
            harness.open("one")
        with pytest.raises(error):
            harness.fork("one", "copy")
        with pytest.raises(error):
            rebuild_request(directory, 99, 1)
        assert harness.live == {}
        assert harness.store.ids() == ["one"]
    assert (directory / LOG_NAME).read_bytes() == before
    with Log.open(directory, lambda record: None):
        pass  # nobody holds the lock
    assert isinstance(caught.value, LogError)
    return caught.value


async def test_an_unknown_event_that_must_not_be_skipped_is_refused(session: Path, tmp_path: Path) -> None:
    """R27: the error names its type and seq."""
    directory = cut_after(session, tmp_path, 10)
    append(directory, "future/thing", b'{"a":1}')
    error = await refused(tmp_path, directory, UnknownEventType)
    assert isinstance(error, UnknownEventType)
    assert (error.type, error.seq) == ("future/thing", 11)
    assert "dsh-time salvage one" in str(error)


async def test_an_unknown_event_that_may_be_skipped_is_kept(session: Path, tmp_path: Path) -> None:
    """R26: it hinders nobody, stays in the log, and a copy has it byte for byte."""
    directory = cut_after(session, tmp_path, len(logged(session)) - 1)
    data = b'{"deep":[1,{"x":1.50}],"text":"\\u00e9"}'
    append(directory, "future/thing", data, ignorable=True)
    async with make_harness(tmp_path, say("to kept"), say("to now"), plugins={"tools": Tools}) as harness:
        assert (await harness.open("one").prompt("now")).text == "to now"
        harness.fork("one", "copy")
    for name in ("one", "copy"):
        assert data in (tmp_path / name / LOG_NAME).read_bytes()


MESSAGE = b'{"message":{"id":"m","role":"tool","content":[%s],"source":{}}}'


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("turn/start", b"{}", "missing required field `turn`"),
        ("turn/start", b'{"turn":"1"}', "Expected `int`"),
        ("turn/start", b"[]", "Expected `object`"),
        ("turn/start", b"null", "Expected `object`"),
        ("turn/end", b'{"turn":1,"reason":{"kind":"bored"}}', "Invalid enum value 'bored'"),
        ("user/message", b'{"id":"m","role":"user","content":"text","source":{}}', "Expected `array`"),
        ("user/message", b'{"id":"m","role":"user","content":[{"type":"image"}],"source":{}}', "Invalid value 'image'"),
        ("user/message", b'{"id":"m","role":"user","content":[],"source":{"a":1.5}}', "got `float`"),
        ("tool/result", MESSAGE % b"", "one of role 'tool'"),
        ("tool/result", MESSAGE % b'{"type":"text","text":"x"}', "one of role 'tool'"),
        ("tool/result", MESSAGE % b",".join([b'{"type":"tool-result","id":"c","text":"x"}'] * 2), "one of role 'tool'"),
        ("request/header-delta", b'{"system":{"changed":[{"name":"a"}]}}', "missing required field"),
        ("agent/inbox/spliced", b'{"target":"now","start":0}', "Invalid enum value 'now'"),
    ],
)
async def test_a_known_event_of_the_wrong_shape_is_refused(
    session: Path, tmp_path: Path, kind: str, data: bytes, reason: str
) -> None:
    """R22: as if it were unknown; the error names type, seq and what is wrong."""
    directory = cut_after(session, tmp_path, 10)
    append(directory, kind, data)
    error = await refused(tmp_path, directory, BadPayload)
    assert isinstance(error, BadPayload)
    assert (error.type, error.seq) == (kind, 11)
    assert reason in str(error)


def test_a_damaged_log_is_not_copied_or_replayed_up_to_the_damage(session: Path, tmp_path: Path) -> None:
    """C7: what comes before the damage can be replayed; nothing else is taken for the end of the log."""
    directory = cut_after(session, tmp_path, len(logged(session)) - 1)
    content = (directory / LOG_NAME).read_bytes()
    (directory / LOG_NAME).write_bytes(content.replace(b'"max-tokens"', b'"mix-tokens"', 1))
    sound = rebuild_request(session, 1, 1).encode()
    assert rebuild_request(directory, 1, 1).encode() == sound
    for look in (lambda: last_settled_seq(directory), lambda: rebuild_request(directory, 3, 1)):
        with pytest.raises(LogError, match="dsh-time salvage one"):
            look()
