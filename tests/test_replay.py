"""What the log says of the past: each request that was ever sent, byte for byte; and forks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from attrs import define, evolve, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dsh_hookspecs import (
    Event,
    Fold,
    InboxSpliced,
    Message,
    ModelError,
    ModelRequest,
    Payload,
    Prompt,
    Reject,
    RequestHeader,
    RequestHeaderDelta,
    Retrying,
    Section,
    Step,
    StepStart,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    TurnStart,
    UserMessage,
    hookimpl,
)
from dsh_time.agent import Agent
from dsh_time.deployment import load_deployment
from dsh_time.errors import NoSuchRequest
from dsh_time.fold_set import FoldSet
from dsh_time.folds import HOST_FOLDS, Inbox, Turns
from dsh_time.harness import Harness
from dsh_time.log import LOG_NAME, Record, SessionHeader, read_header, scan
from dsh_time.models.scripted import Answer, ScriptedModel, call, deltas, fail, pause, reason, say, truncated
from dsh_time.plugin_host import PluginHost
from dsh_time.plugin_loading import scan_plugins
from dsh_time.replay import rebuild_request
from dsh_time.session import Session

from .kit import Clock, logged, make_harness, payloads, source_of, types

TIME_CONTEXT = "dsh-time-context"


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


@frozen
class Seen:
    """A plugin's fold: the types of what it reads."""

    reads: ClassVar[tuple[type[Payload], ...]] = (UserMessage, ToolCall, ToolResult)
    types: tuple[str, ...] = ()

    def apply(self, event: Event) -> Self:
        return evolve(self, types=(*self.types, event.data.type))


def fails(arguments: Nothing, context: ToolContext) -> str:
    raise ToolError("as it does")


@frozen(eq=False)
class Busy:
    """Has tools of each kind, a fold, a section that tells of it, and now and then a message."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        def done(arguments: Nothing, context: ToolContext) -> str:
            return f"done {context.now:%H:%M:%S}"

        return [
            Tool("together", "Runs beside others.", Nothing, done, parallel=True),
            Tool("alone", "Runs alone.", Nothing, done),
            Tool("failing", "Fails.", Nothing, fails),
        ]

    @hookimpl
    def register_folds(self) -> list[type[Fold]]:
        return [Seen]

    @hookimpl
    def system_prompt_section(self, prompt: Prompt) -> Section:
        assert prompt.step is not None
        return Section("busy", 50, f"{len(prompt.step.session.fold(Seen).types) // 4} times four events")

    @hookimpl
    def before_step(self, step: Step) -> Message | None:
        return Message(f"turn {step.turn}", "notice") if step.turn % 3 == 2 else None


@frozen(eq=False)
class Plain:
    """Something to swap in."""

    @hookimpl
    def system_prompt_section(self) -> list[Section]:
        return [Section("plain", 5, "plain"), Section("late", 200, "late")]


def host(*enable: str) -> PluginHost:
    """All three plugins are installed; time-context is the real one, found by its entry point."""
    classes = {"busy": Busy, "plain": Plain}
    sources = {name: source_of(name, cls) for name, cls in classes.items()}
    sources[TIME_CONTEXT] = scan_plugins()[TIME_CONTEXT]
    return PluginHost(load_deployment(enable=enable, installed=sources), sources=sources)


# Requests are rebuilt


@frozen
class Sent:
    """A request as the model got it."""

    turn: int
    step: int
    encoded: bytes

    @property
    def header(self) -> bytes:
        return self.encoded.split(b"\n", 1)[0]

    @property
    def messages(self) -> bytes:
        return self.encoded.split(b"\n", 1)[1]


#: What the model says, and what else happens while it does.
ANSWERS: dict[str, Any] = {
    "say": lambda life: say("ok ", "é\u2028"),
    "nothing": lambda life: say(""),
    "reason": lambda life: reason("hm", replay="r") + say("so"),
    "calls": lambda life: call("together") + call("alone") + call("together") + call("together"),
    "failing": lambda life: say("try") + call("failing") + call("nobody") + call("alone", "{"),
    "lossy": lambda life: say("\ud800") + call("alone", '{"\udfff":1}'),
    "retry": lambda life: deltas(Retrying(2, 0.5, "busy"), TextDelta("at last")),
    "error": lambda life: say("half") + fail(ModelError("gone")),
    "bare error": lambda life: fail(ModelError("gone")),
    "truncated": lambda life: call("alone") + truncated("cut"),
    "cancel": lambda life: life.cancelled(say("par"), say("tial")),
    "cancel at once": lambda life: life.cancelled(Answer(), say("never")),
    "steer": lambda life: (life.agent.steer("steered"), say("then"))[1],
    "inject": lambda life: (life.agent.inject("injected \ud800"), call("together"))[1],
    "followup": lambda life: (life.agent.followup("followed up"), say("first"))[1],
    "wait": lambda life: (life.clock.advance(seconds=61), call("alone"))[1],
    "back": lambda life: (life.clock.advance(seconds=-3600), call("alone"))[1],
    "swap": lambda life: (life.toggle("plain"), call("together"))[1],
    "out": lambda life: (life.toggle("busy"), call("together") + call("alone"))[1],
}


@define
class Life:
    """A session and its forks, and every request that each of them sent."""

    root: Path
    clock: Clock = field(factory=Clock)
    plugins: PluginHost = field(factory=lambda: host("busy", TIME_CONTEXT))
    answers: list[str] = field(factory=list)
    sent: dict[str, list[Sent]] = field(factory=dict)
    name: str = "s0"
    harness: Harness = field(init=False)
    agent: Agent = field(init=False)
    cancelling: list[asyncio.Task[None]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.harness = self.opened()
        self.agent = self.harness.create(self.name)
        self.sent[self.name] = []

    def opened(self) -> Harness:
        model = ScriptedModel(then=self.answer)
        return make_harness(self.root, model=model, clock=self.clock, plugins=self.plugins, limits={"max_steps": 5})

    def answer(self, request: ModelRequest) -> Answer:
        turns = self.agent.session.fold(Turns)
        self.sent[self.name].append(Sent(turns.turn, turns.step, request.encode()))
        self.clock.advance(ms=333)
        played = ANSWERS[self.answers.pop(0)](self) if self.answers else say("done")
        assert isinstance(played, Answer)
        return played

    def cancelled(self, before: Answer, after: Answer) -> Answer:
        reached = asyncio.Event()

        async def cancel(agent: Agent) -> None:
            await reached.wait()
            agent.cancel()

        self.cancelling.append(asyncio.create_task(cancel(self.agent)))
        return before + pause(asyncio.Event(), reached) + after

    def toggle(self, name: str) -> None:
        enabled = [plugin.name for plugin in self.plugins.loadout.plugins]
        (self.plugins.disable if name in enabled else self.plugins.enable)(name)

    async def do(self, operation: str, answers: Sequence[str]) -> None:
        match operation:
            case "prompt":
                self.answers = list(answers)
                await self.agent.prompt("prompt \ud800")
                await self.agent.idle()
            case "wake":
                self.agent.wake()
                await self.agent.idle()
            case "inject":
                self.agent.inject("before")
            case "call":
                await self.agent.call_tool("alone", "{}")
            case "restart":
                await self.harness.close()
                self.harness = self.opened()
                self.agent = self.harness.open(self.name)
            case "fork":
                new = f"s{len(self.sent)}"
                self.harness.fork(self.name, new)
                self.sent[new] = list(self.sent[self.name])
                self.name, self.agent = new, self.harness.open(new)
            case "wait":
                self.clock.advance(seconds=59.5)
            case "toggle plain":
                self.toggle("plain")
            case "toggle busy":
                self.toggle("busy")
            case "toggle time":
                self.toggle("time-context")


def check_requests(directory: Path, sent: Sequence[Sent]) -> None:
    """Each is rebuilt; each goes on where the one before ended; a changed header is one event, else there is none."""
    for one in sent:
        assert rebuild_request(directory, one.turn, one.step).encode() == one.encoded
    changes: dict[tuple[int, int], int] = {}
    step = (0, 0)
    for event in logged(directory):
        if isinstance(event.data, StepStart):
            step = (event.data.turn, event.data.step)
        elif isinstance(event.data, RequestHeader | RequestHeaderDelta):
            changes[step] = changes.get(step, 0) + 1
    for before, after in pairwise([Sent(0, 0, b"\n"), *sent]):
        assert after.messages.startswith(before.messages)
        assert changes.pop((after.turn, after.step), 0) == (before.header != after.header)
        assert after.encoded.startswith(before.encoded) or before.header != after.header
    assert changes == {}


def check_folds(session: Session, directory: Path, cut: int) -> None:
    """The live states are those of a replay, also of one that goes on from a prefix, whose states stay."""
    records: list[Record] = []
    scan(directory, on_record=records.append)
    plugins = [("busy", Seen)]
    whole, prefix, rest = (FoldSet(directory, plugins) for _ in range(3))
    for record in records[:cut]:
        prefix.apply_record(record)
    before = dict(prefix._states)
    said = repr(before)
    for states, remaining in ((whole, records), (prefix, records[cut:])):
        for record in remaining:
            states.apply_record(record)
    rest._states.update(before)
    for record in records[cut:]:
        rest.apply_record(record)
    assert repr(before) == said
    for kind in HOST_FOLDS:
        assert session.fold(kind) == whole.state(kind) == prefix.state(kind) == rest.state(kind)
    try:
        live = session.fold(Seen)
    except KeyError:
        return  # it is swapped out
    assert live == whole.state(Seen) == prefix.state(Seen) == rest.state(Seen)


_prompts = st.tuples(st.just("prompt"), st.lists(st.sampled_from(sorted(ANSWERS)), max_size=4))
_others = ["wake", "inject", "call", "restart", "fork", "wait", "toggle plain", "toggle busy", "toggle time"]
_operations: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    _prompts, _prompts, st.tuples(st.sampled_from(_others), st.just([]))
)


@settings(max_examples=80)
@given(st.lists(_operations, max_size=8), st.integers(0, 60))
def test_every_request_that_was_ever_sent_is_rebuilt_from_the_log_byte_for_byte(
    operations: list[tuple[str, list[str]]], cut: int
) -> None:
    """Whatever happened in a session: any answers, tools, steers, cancellations, swaps, restarts, forks, clocks."""

    async def live(root: Path) -> None:
        life = Life(root)
        try:
            for operation, answers in operations:
                await life.do(operation, answers)
            await life.agent.idle()
            life.agent.session.use(life.plugins.loadout)
            check_folds(life.agent.session, root / life.name, cut)
        finally:
            for task in life.cancelling:
                task.cancel()
            await life.harness.close()
        for name, sent in life.sent.items():
            check_requests(root / name, sent)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))


async def test_a_request_that_is_under_way_is_rebuilt_from_the_log_as_it_is(tmp_path: Path) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(call("together") + call("alone"), say("par") + pause(release, reached) + say("tial"))
    async with make_harness(tmp_path, model=model, plugins=host("busy", TIME_CONTEXT)) as harness:
        waiting = asyncio.create_task(harness.create("one").prompt("Hi"))
        await reached.wait()
        for number, recorded in enumerate(model.requests, 1):
            assert rebuild_request(tmp_path / "one", 1, number).encode() == recorded.encoded
        release.set()
        await waiting
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("turn", "step", "why"),
    [
        (1, 2, "the newest step is turn 3, step 1"),
        (4, 1, "the newest step is turn 3, step 1"),
        (0, 1, "the newest step is turn 3, step 1"),
        (1, 0, "the newest step is turn 3, step 1"),
        (-1, -1, "the newest step is turn 3, step 1"),
        (2, 1, "plugin bouncer rejected it before the model was asked"),
    ],
)
async def test_a_step_without_a_request_has_none(tmp_path: Path, turn: int, step: int, why: str) -> None:
    @frozen(eq=False)
    class Bouncer:
        """Rejects the second turn."""

        @hookimpl
        def before_step(self, step: Step) -> Reject | None:
            return Reject("no") if step.turn == 2 else None

    async with make_harness(tmp_path, say("a"), say("c"), plugins={"bouncer": Bouncer}) as harness:
        agent = harness.create("one")
        for prompt in "abc":
            await agent.prompt(prompt)
        with pytest.raises(NoSuchRequest) as caught:
            rebuild_request(tmp_path / "one", turn, step)
    assert str(caught.value) == f"Session one has no request of turn {turn}, step {step}: {why}."


async def test_before_anything_was_asked_there_is_no_request(tmp_path: Path) -> None:
    async with make_harness(tmp_path) as harness:
        harness.create("one")
        with pytest.raises(NoSuchRequest, match="no model has been asked yet"):
            rebuild_request(tmp_path / "one", 1, 1)


async def test_a_turn_that_was_cancelled_before_its_first_step_has_no_request(tmp_path: Path) -> None:
    async with make_harness(tmp_path) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Hi"))
        await asyncio.sleep(0)
        agent.cancel()
        await waiting
        with pytest.raises(NoSuchRequest, match="the newest step is turn 1, step 0"):
            rebuild_request(tmp_path / "one", 1, 1)


def test_a_step_that_a_crash_ended_before_its_header_has_no_request(tmp_path: Path) -> None:
    with Session.create(tmp_path / "one", SessionHeader(id="one", created_at=1, writer="test")) as session:
        session.append([TurnStart(turn=1), StepStart(turn=1, step=1)], 1)
    with pytest.raises(NoSuchRequest):
        rebuild_request(tmp_path / "one", 1, 1)


# Forks


async def test_a_fork_ends_before_the_open_turn_and_takes_nothing_that_waits(tmp_path: Path) -> None:
    """It works while the source is written, and leaves the source alone."""
    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(say("one"), pause(release, reached) + say("two"), then=lambda request: say("more"))
    async with make_harness(tmp_path, model=model) as harness:
        agent = harness.create("one")
        await agent.prompt("a")
        agent.inject("waits")
        settled = agent.session.next_seq
        waiting = asyncio.create_task(agent.prompt("b"))
        await reached.wait()
        agent.followup("c")
        agent.steer("s")
        written = (tmp_path / "one" / LOG_NAME).read_bytes()
        harness.fork("one", "two")
        assert (tmp_path / "one" / LOG_NAME).read_bytes() == written
        copy = harness.open("two")
        inbox = copy.session.fold(Inbox)
        assert (inbox.next_turn, inbox.next_step) == ((), ())
        assert (await copy.prompt("d")).text == "more"
        release.set()
        await waiting
        await agent.idle()
    header = read_header(tmp_path / "two")
    assert (header.forked_from, header.seed_length, header.parent_session) == ("one", settled, None)
    copied = logged(tmp_path / "two")
    assert copied[:settled] == logged(tmp_path / "one")[:settled]
    (splice,) = [event.data for event in copied[settled:] if isinstance(event.data, InboxSpliced)]
    assert (splice.removed_count, splice.outcome) == (1, "canceled")
    forked = next(recorded for recorded in model.requests if recorded.request.messages[-1].text == "d")
    assert [message.text for message in forked.request.messages] == ["a", "one", "d"]
    assert types(tmp_path / "one").count("turn/end") == 3


async def test_a_fork_goes_on_as_its_source_would(tmp_path: Path) -> None:
    """Asked the same at the same time, both send the same bytes, the gap and the clock among them."""
    clock = Clock()
    model = ScriptedModel(call("alone"), then=lambda request: say("ok"))
    async with make_harness(tmp_path, model=model, clock=clock, plugins=host("busy", TIME_CONTEXT)) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        clock.advance(seconds=3 * 3600 + 125)
        harness.fork("one", "two")
        harness.fork("two", "three")
        for copy in (agent, harness.open("two"), harness.open("three")):
            await copy.prompt("And now?")
    source, *copies = [recorded.encoded for recorded in model.requests[2:]]
    assert copies == [source, source]
    assert b"Time since previous message: 3h2m5s" in source
    assert len(payloads(tmp_path / "two", RequestHeaderDelta)) == len(payloads(tmp_path / "one", RequestHeaderDelta))


async def test_a_fork_of_a_session_without_events_is_one(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("ok")) as harness:
        harness.create("one")
        new = harness.fork("one")
        assert types(tmp_path / new) == []
        assert read_header(tmp_path / new).seed_length == 0
        assert (await harness.open(new).prompt("Hi")).turn == 1
        assert types(tmp_path / "one") == []


async def test_a_fork_of_a_child_is_nobodys_child(tmp_path: Path) -> None:
    header = SessionHeader(
        id="kid",
        created_at=1,
        writer="test",
        parent_session="one",
        ancestor_seqs=(5,),
        delegation_depth=1,
        origin="subagent",
    )
    Session.create(tmp_path / "kid", header).close()
    async with make_harness(tmp_path) as harness:
        harness.fork("kid", "two")
    copy = read_header(tmp_path / "two")
    assert (copy.parent_session, copy.ancestor_seqs, copy.origin) == (None, None, None)
    assert not copy.delegation_depth
    assert copy.forked_from == "kid"
