"""The harness: which model it makes, the ids it gives, what it opens, and in which order it closes."""

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from dsh_hookspecs import (
    Event,
    ModelDelta,
    ModelProvider,
    ModelRequest,
    Payload,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    hookimpl,
)
from dsh_time import harness as harness_module
from dsh_time.deployment import load_deployment
from dsh_time.errors import (
    DeploymentError,
    InvalidSessionId,
    LogPoisoned,
    ModelNotReady,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    UnknownProvider,
    WriteFailed,
)
from dsh_time.fold_set import FoldSet
from dsh_time.folds import Inbox, Surface
from dsh_time.harness import Harness
from dsh_time.log import LOG_NAME, FileIo, Log, SessionHeader
from dsh_time.models import _ByName
from dsh_time.models.demo import DemoModel
from dsh_time.models.scripted import Recorded, ScriptedModel, pause, say
from dsh_time.plugin_host import PluginHost
from dsh_time.session import Session

from .events import assistant, user
from .kit import Clock, make_harness, source_of, types

# The model


@frozen
class Settings:
    """What the test's provider takes."""

    temperature: int = 0


@frozen(eq=False)
class Provider:
    """Offers a model."""

    @hookimpl
    def register_models(self) -> list[ModelProvider]:
        return [ModelProvider("mine", Settings, lambda s: ScriptedModel(say("ok"), config={"t": s.temperature}))]


def deployed(tmp_path: Path, model: str) -> Harness:
    file = tmp_path / "d.yaml"
    file.write_text(f"plugins: [{{name: provider}}]\nmodel: {model}\n", encoding="utf-8")
    deployment = load_deployment(config_file=file)
    return Harness(
        deployment,
        root=tmp_path / "sessions",
        plugins=PluginHost(deployment, sources={"provider": source_of("provider", Provider)}),
    )


async def test_the_deployment_chooses_the_model_and_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made once, when it is first needed; no other provider is imported for that."""

    monkeypatch.setattr(harness_module, "BUILT_IN", _ByName({"demo": "dsh_time.no_such_module"}))
    async with deployed(tmp_path, "{provider: mine, temperature: 7}") as harness:
        assert (await harness.create("one").prompt("Hi")).text == "ok"
        assert harness.model.config == {"t": 7}
        assert harness.model is harness.model
        model = harness.model
    assert isinstance(model, ScriptedModel)
    assert model.closed


async def test_without_a_choice_the_demo_model_answers(tmp_path: Path) -> None:
    deployment = load_deployment()
    async with Harness(deployment, root=tmp_path, plugins=PluginHost(deployment, sources={})) as harness:
        assert isinstance(harness.model, DemoModel)
        assert (await harness.create().prompt("Hi")).reason.kind == "completed"


async def test_an_unknown_provider_is_an_error_with_those_that_are_known_and_makes_no_session(tmp_path: Path) -> None:
    async with deployed(tmp_path, "{provider: myne}") as harness:
        with pytest.raises(UnknownProvider, match="no model provider 'myne'\\. Known: demo, mine"):
            harness.create("one")
        assert harness.store.ids() == []


async def test_wrong_model_settings_are_an_error_with_their_place(tmp_path: Path) -> None:
    async with deployed(tmp_path, "{provider: mine, temperatur: 1}") as harness:
        with pytest.raises(DeploymentError, match=r"d\.yaml:2.*did you mean temperature"):
            harness.create("one")


# Ids


async def test_an_id_says_when_the_session_was_made_and_sorts_by_it(tmp_path: Path) -> None:
    clock = Clock()
    async with make_harness(tmp_path, clock=clock) as harness:
        first = harness.create().id
        clock.advance(seconds=1)
        second = harness.create().id
    assert re.fullmatch(r"20260714-083000-[0-9a-f]{6}", first)
    assert re.fullmatch(r"20260714-083001-[0-9a-f]{6}", second)
    assert first < second


@pytest.mark.parametrize("live", [True, False])
async def test_an_id_that_is_taken_is_an_error_and_the_session_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    async with make_harness(tmp_path, say("ok")) as harness:
        agent = harness.create()
        await agent.prompt("Hi")
        before = (tmp_path / agent.id / LOG_NAME).read_bytes()
        if not live:
            await harness.close_session(agent.id)
        with pytest.raises(SessionLocked if live else SessionExists):
            harness.create()
        with pytest.raises(SessionLocked if live else SessionExists):
            harness.fork(agent.id)
        assert (tmp_path / agent.id / LOG_NAME).read_bytes() == before


# Opening


async def test_opening_twice_gives_the_live_agent_and_after_closing_a_new_one(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("a"), say("b")) as harness:
        agent = harness.create("one")
        assert harness.open("one") is agent
        await agent.prompt("Hi")
        await harness.close_session("one")
        await harness.close_session("one")
        again = harness.open("one")
        assert again is not agent
        assert (await again.prompt("Again")).turn == 2


async def test_a_session_that_another_harness_has_open_is_refused(tmp_path: Path) -> None:
    async with make_harness(tmp_path) as harness, make_harness(tmp_path) as other:
        harness.create("one")
        with pytest.raises(SessionLocked, match=f"process {os.getpid()}"):
            other.open("one")


async def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    async with make_harness(tmp_path) as harness:
        for attempt in (harness.open, harness.fork):
            with pytest.raises(SessionNotFound):
                attempt("none")
            with pytest.raises(InvalidSessionId):
                attempt("../one")
        with pytest.raises(InvalidSessionId):
            harness.create("../one")
        assert harness.live == {}


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_a_session_that_cannot_be_repaired_now_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_session(tmp_path / "one") as session:
        session.append([TurnStart(turn=1)], 1)
    before = open_descriptors()
    async with make_harness(tmp_path) as harness:

        def full(log: Log, drafts: Any) -> Any:
            raise WriteFailed(log.path, 28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", full)
            with pytest.raises(WriteFailed):
                harness.open("one")
        assert harness.live == {}
        assert open_descriptors() == before
        harness.open("one")
    assert types(tmp_path / "one") == ["turn/start", "turn/end"]


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_a_thousand_sessions_leave_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileIo, "sync", lambda self, descriptor: None)  # what is counted is not the disk's time
    monkeypatch.setattr(FileIo, "sync_data", lambda self, descriptor: None)
    async with make_harness(tmp_path) as harness:
        before = open_descriptors()
        for number in range(500):
            harness.create(f"s{number}")
            await harness.close_session(f"s{number}")
            harness.open(f"s{number}")
            await harness.close_session(f"s{number}")
        assert open_descriptors() == before


# Closing


async def test_closing_ends_all_turns_then_closes_the_sessions_and_the_model_last(tmp_path: Path) -> None:
    order: list[str] = []

    class Watched(ScriptedModel):
        async def close(self) -> None:
            order.append("model")

    reached = [asyncio.Event() for _ in range(3)]
    model = Watched(*(pause(asyncio.Event(), event) + say("never") for event in reached))
    harness = make_harness(tmp_path, model=model)
    agents = [harness.create(f"s{number}") for number in range(3)]
    waiting = [asyncio.create_task(agent.prompt("Hi")) for agent in agents]
    for event in reached:
        await event.wait()
    for agent in agents:
        agent.subscribe(lambda event: order.append(type(getattr(event, "data", event)).__name__))
    await harness.close()
    assert [(await task).reason.reason for task in waiting] == ["closed"] * 3
    assert order[-1] == "model"
    assert sorted(order[:-1]) == ["StepEnd"] * 3 + ["TurnEnd"] * 3
    assert harness.live == {}


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_close_that_fails_leaves_nothing_else_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    model = ScriptedModel()
    harness = make_harness(tmp_path, model=model)
    agents = [harness.create(f"s{number}") for number in range(3)]

    def lost() -> None:
        Session.close(agents[failing].session)
        raise LogPoisoned(tmp_path, "close failed (Input/output error)")

    monkeypatch.setattr(agents[failing].session, "close", lost)
    with pytest.raises(LogPoisoned, match="close failed"):
        await harness.close()
    assert model.closed
    async with make_harness(tmp_path) as other:
        for agent in agents:
            other.open(agent.id)


async def test_a_turn_that_breaks_while_it_is_closed_gives_its_session_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reached = asyncio.Event()
    harness = make_harness(tmp_path, say("par") + pause(asyncio.Event(), reached) + say("tial"))
    agent = harness.create("one")
    agent.followup("Hi")
    await reached.wait()

    def full(drafts: Any) -> Any:
        raise WriteFailed(tmp_path / "one", 28, "No space left on device")

    monkeypatch.setattr(agent.session.log, "append", full)
    with pytest.raises(WriteFailed):
        await harness.close()
    assert "A turn of session one broke off" in caplog.text
    async with make_harness(tmp_path, say("on")) as other:
        assert (await other.open("one").prompt("Again")).text == "on"


# What waits for the disk, and what a step costs


async def test_a_lone_turn_waits_for_the_disk_inline_and_several_do_so_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    sync_data = FileIo.sync_data

    def noted(io: FileIo, descriptor: int) -> None:
        threads.append(threading.current_thread())
        sync_data(io, descriptor)

    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(say("alone"), pause(release, reached) + say("long"), say("short"), say("alone"))
    async with make_harness(tmp_path, model=model) as harness:
        one, two = harness.create("one"), harness.create("two")
        monkeypatch.setattr(FileIo, "sync_data", noted)
        await one.prompt("Hi")
        assert set(threads) == {threading.main_thread()}
        waiting = asyncio.create_task(one.prompt("Hi"))
        await reached.wait()
        threads.clear()
        await two.prompt("Hi")
        assert len(threads) == 2
        assert threading.main_thread() not in threads
        release.set()
        await waiting
        threads.clear()
        await two.prompt("Hi")
        assert set(threads) == {threading.main_thread()}


def make_session(directory: Path) -> Session:
    return Session.create(directory, SessionHeader(id=directory.name, created_at=1, writer="test"))


def long_session(directory: Path, events: int) -> None:
    """A session of about that many events: turns of six events each."""
    with make_session(directory) as session:
        batch: list[Payload] = []
        for turn in range(1, events // 6 + 1):
            done = TurnEnd(turn=turn, reason=TurnEndReason(kind="completed"))
            batch += [TurnStart(turn=turn), user(f"u{turn}"), StepStart(turn=turn, step=1)]
            batch += [assistant(f"a{turn}", turn=turn), StepEnd(turn=turn, step=1), done]
        session.append(batch, 1)


@contextmanager
def counted_calls() -> Iterator[Callable[[], int]]:
    """Count the calls of functions, written in Python or C, that this thread makes."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


class Silent(ScriptedModel):
    """Takes no copy of a request."""

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        self.requests.append(Recorded(request, b""))
        return self._play(request, say("ok"))


async def cost_of_a_turn(directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Function calls, folded events and reads of the log in the second turn after a session was opened."""
    folded: list[Event] = []
    reads: list[int] = []
    apply, pread = FoldSet.apply, FileIo.pread

    def noted_apply(states: FoldSet, event: Event) -> None:
        folded.append(event)
        apply(states, event)

    def noted_pread(io: FileIo, descriptor: int, count: int, offset: int) -> bytes:
        reads.append(offset)
        return pread(io, descriptor, count, offset)

    async with make_harness(directory.parent, model=Silent()) as harness:
        agent = harness.open(directory.name)
        await agent.prompt("Warm up")
        with monkeypatch.context() as patch, counted_calls() as calls:
            patch.setattr(FoldSet, "apply", noted_apply)
            patch.setattr(FileIo, "pread", noted_pread)
            before, first = agent.session.next_seq, calls()
            await agent.prompt("Hi")
            made = calls() - first
        assert [event.seq for event in folded] == list(range(before, agent.session.next_seq))
    return made, len(folded), len(reads)


async def test_a_step_costs_the_same_after_a_hundred_events_and_after_ten_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the session is open nothing is read of its log, and each new event is folded once."""
    long_session(tmp_path / "short", 100)
    long_session(tmp_path / "long", 10_000)
    short = await cost_of_a_turn(tmp_path / "short", monkeypatch)
    long = await cost_of_a_turn(tmp_path / "long", monkeypatch)
    assert short[1:] == long[1:] == (6, 0)
    assert long[0] <= short[0] * 1.02


async def test_an_agent_that_was_closed_by_itself_is_opened_anew(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("again")) as harness:
        first = harness.create("one")
        await first.close()
        second = harness.open("one")
        assert second is not first
        assert (await second.prompt("Hi")).text == "again"


async def test_an_empty_id_is_refused_not_replaced(tmp_path: Path) -> None:
    async with make_harness(tmp_path) as harness:
        with pytest.raises(InvalidSessionId):
            harness.create("")


async def test_a_copy_leaves_the_inbox_of_the_original_when_it_is_first_opened(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("only this")) as harness:
        harness.create("one").inject("for the original")
        harness.fork("one", "copy")
        copy = harness.open("copy")
        assert (await copy.prompt("Hi")).text == "only this"
        assert [message.text for message in copy.session.fold(Surface).messages] == ["Hi", "only this"]
    async with make_harness(tmp_path) as harness:
        agent = harness.open("one")
        assert [entry.message.text for entry in agent.session.fold(Inbox).next_step] == ["for the original"]


def _raising(config: object) -> Any:
    def create(settings: object) -> Any:
        class Odd:
            @property
            def config(self) -> object:
                if isinstance(config, Exception):
                    raise config
                return config

        return Odd()

    return create


@pytest.mark.parametrize(
    "config",
    [None, RuntimeError("oops"), {"a": object()}, {"a": (1,)}, {1: "a"}, {"a": "\ud800"}, {"a": "x" * 70_000}],
    ids=["none", "raises", "object", "tuple", "key", "surrogate", "large"],
)
def test_a_model_whose_settings_cannot_be_logged_is_refused_before_any_session_is_made(
    tmp_path: Path, config: object
) -> None:
    @frozen(eq=False)
    class Provider:
        """Offers the model."""

        @hookimpl
        def register_models(self) -> list[ModelProvider]:
            return [ModelProvider("odd", Settings, _raising(config))]

    host = PluginHost(odd_deployment(tmp_path), sources={"dsh-odd": source_of("dsh-odd", Provider)})
    harness = Harness(host.deployment, root=tmp_path / "sessions", plugins=host)
    with pytest.raises(ModelNotReady, match="The model provider odd is not ready: its config"):
        harness.create("one")
    assert not (tmp_path / "sessions").exists()


def odd_deployment(root: Path) -> Any:
    file = root / "odd.yaml"
    file.write_text("plugins:\n  - name: dsh-odd\nmodel: {provider: odd}\n")
    return load_deployment(config_file=file, installed=["dsh-odd"])
