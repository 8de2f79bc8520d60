"""An agent's process dies, or its machine loses power, at every event: what comes after is as if it had only paused."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dsh_hookspecs import (
    TOOL_NOT_STARTED,
    TOOL_OUTCOME_UNKNOWN,
    ChatMessage,
    InboxSpliced,
    Message,
    ModelError,
    ModelRequest,
    StepStart,
    Tool,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    hookimpl,
)
from dsh_hookspecs import Step as StepContext
from dsh_time.agent import Agent
from dsh_time.folds import Inbox, Turns
from dsh_time.harness import Harness
from dsh_time.models.scripted import Answer, ScriptedModel, call, fail, say, truncated
from dsh_time.replay import rebuild_request

from .kit import logged, make_harness, payloads, types

SESSION = "one"


class Nothing(Struct):
    """No arguments."""


@frozen(eq=False)
class Busy:
    """A plugin with tools that may run side by side, one that fails, and something to say before each step."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [
            Tool("beside", "Runs beside others.", Nothing, lambda arguments, context: "done", parallel=True),
            Tool("alone", "Runs alone.", Nothing, lambda arguments, context: "done \ud800"),
            Tool("broken", "Fails.", Nothing, lambda arguments, context: str(1 // 0)),
        ]

    @hookimpl
    def before_step(self, step: StepContext) -> Message:
        return Message(text=f"turn {step.turn}, step {step.number}", form="note")


# -- what a strict API accepts


def assert_accepted(request: ModelRequest) -> None:
    """Roles, pairing, unique ids, valid UTF-8, valid JSON."""
    messages = request.messages
    assert messages[0].role == "user"
    assert messages[-1].role in ("user", "tool")
    open_calls = assert_accepted_messages(messages)
    assert not open_calls
    ids = [message.id for message in messages]
    assert len(set(ids)) == len(ids)
    for line in request.encode().split(b"\n")[:-1]:
        json.loads(line.decode("utf-8", "strict"), parse_constant=lambda name: pytest.fail(name))


def assert_accepted_messages(messages: Sequence[ChatMessage]) -> list[str]:
    """Roles and pairing. Returns calls at the end that have no results yet."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in messages:
        assert message.content
        if message.role == "tool":
            (block,) = message.content
            assert isinstance(block, ToolResultBlock)
            assert block.id in open_calls, "a result without its call"
            open_calls.remove(block.id)
        else:
            assert message.role in ("user", "assistant")
            assert not open_calls, "calls without results"
            assert message.role == "assistant" or not calls_of(message)
            open_calls = calls_of(message)
            assert not seen & set(open_calls)
            assert len(set(open_calls)) == len(open_calls)
            seen |= set(open_calls)
    return open_calls


def calls_of(message: ChatMessage) -> list[str]:
    return [block.id for block in message.content if isinstance(block, ToolCallBlock)]


# -- lives


@frozen
class Play:
    """What happens while one answer is streamed, and the answer."""

    answer: Answer
    steer: bool = False
    inject: bool = False
    followup: bool = False
    cancel: bool = False


def live(root: Path, turns: Sequence[Sequence[Play]], prompts: str = "Prompt") -> None:
    """Run a session from its creation to its end."""

    async def run() -> None:
        plays: Iterator[Play] = iter([play for turn in turns for play in turn])

        def answer(request: ModelRequest) -> Answer:
            play = next(plays, Play(say("nothing more")))
            number = len(model.requests)
            if play.steer:
                agent.steer(f"steer {number}")
            if play.inject:
                agent.inject(f"inject {number}")
            if play.followup:
                agent.followup(f"followup {number}")
            if play.cancel:
                agent.cancel()
            return play.answer

        model = ScriptedModel(then=answer)
        async with make_harness(root, model=model, plugins={"busy": Busy}, limits={"max_steps": 6}) as harness:
            agent = harness.create(SESSION)
            for number in range(len(turns)):
                agent.inject(f"before {number}")
                await agent.prompt(f"{prompts} {number} \ud83d")
            await agent.idle()
            await agent.call_tool("beside", "{}")
            for recorded in model.requests:
                assert_accepted(recorded.request)

    asyncio.run(run())


def resume(root: Path) -> list[ModelRequest]:
    """Open a session and give it a prompt; returns the requests this made, each checked."""

    async def run() -> list[ModelRequest]:
        model = ScriptedModel(call("beside") + call("alone"), then=say("done"))
        async with make_harness(root, model=model, plugins={"busy": Busy}) as harness:
            agent: Agent = harness.open(SESSION)
            waiting = [
                entry.message.id for entry in (*folded(harness, Inbox).next_turn, *folded(harness, Inbox).next_step)
            ]
            await agent.prompt("now")
            inbox = folded(harness, Inbox)
            assert not inbox.next_turn
            assert not inbox.next_step
            requests = [recorded.request for recorded in model.requests]
        last = [message.id for message in requests[-1].messages]
        assert set(waiting) <= set(last)
        return requests

    def folded(harness: Harness, kind: type[Inbox]) -> Inbox:
        return harness.live[SESSION].session.fold(kind)

    requests = asyncio.run(run())
    for request in requests:
        assert_accepted(request)
    for earlier, later in pairwise(requests):
        assert later.encode().startswith(earlier.encode())
    directory = root / SESSION
    steps = [event.data for event in logged(directory) if isinstance(event.data, StepStart)]
    for step, request in zip(steps[-len(requests) :], requests, strict=True):
        assert rebuild_request(directory, step.turn, step.step).encode() == request.encode()
    return requests


def said(directory: Path) -> set[str]:
    """Ids of all that was ever put into the inbox and not withdrawn."""
    return {entry.message.id for splice in payloads(directory, InboxSpliced) for entry in splice.inserted}


def crashed(source: Path, root: Path, content: bytes) -> Path:
    """A copy of the session whose log is `content`."""
    target = root / SESSION
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)
    (target / "log.jsonl").write_bytes(content)
    return target


def assert_survives_a_crash(source: Path, root: Path, content: bytes) -> None:
    """Whatever of the log is left, the session goes on: nothing that was said is lost, no call runs twice unasked."""
    directory = crashed(source, root, content)
    whole = content[: content.rfind(b"\n") + 1]
    before = logged(directory)
    waiting = said(directory)
    called = [event.data for event in before if isinstance(event.data, ToolCall) and event.data.issuer == "model"]
    requests = resume(root)
    log = (directory / "log.jsonl").read_bytes()
    assert log.startswith(whole)
    assert waiting <= {message.id for message in requests[-1].messages}, "something that was said is lost"
    answered: dict[str, ToolResult] = {}
    for result in payloads(directory, ToolResult):
        if result.issuer == "model":
            assert result.result.id not in answered
            answered[result.result.id] = result
    for event in called:
        assert event.id in answered
    started = {event.id for event in called}
    for result in answered.values():
        if result.stands_in:
            unknown = result.result.id in started
            assert result.result.text.startswith(TOOL_OUTCOME_UNKNOWN if unknown else TOOL_NOT_STARTED)
    kinds = types(directory)
    assert kinds.count("turn/start") == kinds.count("turn/end")
    assert kinds.count("step/start") == kinds.count("step/end")


BUSY_LIFE = [
    [Play(call("beside") + call("beside") + call("alone") + call("broken"), steer=True, inject=True), Play(say("ok"))],
    [Play(say("half an ans") + fail(ModelError("gone")), followup=True), Play(say("again"), followup=True, steer=True)],
    [Play(call("alone", "{") + call("nobody"), followup=True), Play(truncated("cut") + call("alone"))],
    [Play(call("beside") + call("beside"), cancel=True, followup=True)],
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a session in which everything happened."""
    root = tmp_path_factory.mktemp("busy")
    live(root, BUSY_LIFE)
    return root / SESSION


def test_after_a_crash_at_any_event_the_session_goes_on_and_every_request_is_accepted(
    busy: Path, tmp_path: Path
) -> None:
    """C2, C3, R31: also when a batch was torn between two of its lines, or within one."""
    content = (busy / "log.jsonl").read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == 10]
    assert len(ends) > 60
    for start, end in pairwise(ends):
        assert_survives_a_crash(busy, tmp_path, content[:end])
        if start % 5 == 0:
            assert_survives_a_crash(busy, tmp_path, content[: (start + end) // 2])


def test_a_crash_while_a_crash_is_repaired_changes_nothing(busy: Path, tmp_path: Path) -> None:
    """The repair is done again from where it stopped: the same events, none twice."""
    content = (busy / "log.jsonl").read_bytes()
    call_line = next(line for line in content.split(b"\n") if b'"tool/call"' in line)
    torn = content[: content.index(call_line) + len(call_line) + 1]

    def repaired(log: bytes) -> list[tuple[str, str]]:
        directory = crashed(busy, tmp_path, log)

        async def run() -> None:
            async with make_harness(tmp_path, model=ScriptedModel(), plugins={"busy": Busy}) as harness:
                assert not harness.open(SESSION).session.fold(Turns).open

        asyncio.run(run())
        return [(event.data.type, repr(event.data)) for event in logged(directory)]

    once = repaired(torn)
    log = (tmp_path / SESSION / "log.jsonl").read_bytes()
    lines = log.count(b"\n")
    new = lines - torn.count(b"\n")
    assert new == 4 + 2  # a result per call, step/end, turn/end
    assert repaired(log) == once
    for keep in range(lines - new, lines):
        assert repaired(b"".join(line + b"\n" for line in log.split(b"\n")[:keep])) == once


def plays() -> st.SearchStrategy[Play]:
    answers = st.one_of(
        st.lists(st.sampled_from(["beside", "alone", "broken", "nobody"]), min_size=1, max_size=3).map(
            lambda names: sum((call(name) for name in names), Answer())
        ),
        st.text(max_size=5).map(say),
        st.just(say("x\udfff") + fail(ModelError("gone"))),
        st.just(truncated("cut") + call("alone")),
    )
    flag = st.booleans()
    return st.builds(
        Play, answers, steer=flag, inject=flag, followup=flag, cancel=st.sampled_from([False] * 5 + [True])
    )


@settings(max_examples=60)
@given(st.lists(st.lists(plays(), min_size=1, max_size=3), min_size=1, max_size=3), st.data())
def test_any_session_survives_crashes_anywhere(turns: list[list[Play]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        live(root / "before", turns)
        source = root / "before" / SESSION
        content = (source / "log.jsonl").read_bytes()
        for _ in range(data.draw(st.integers(1, 3))):
            content = content[: data.draw(st.integers(content.index(b"\n") + 1, len(content)))]
            assert_survives_a_crash(source, root / "after", content)
            content = (root / "after" / SESSION / "log.jsonl").read_bytes()
