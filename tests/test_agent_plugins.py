"""Plugins in the real loop: hooks that fail, a swap in mid-session, folds that fail, plugins missing at resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from attrs import evolve, frozen
from msgspec import Struct

from dsh_hookspecs import (
    AssistantMessage,
    ChatMessage,
    Event,
    Fold,
    LoadedPlugin,
    Message,
    Payload,
    PluginError,
    Prompt,
    PromptSection,
    Rendered,
    RequestHeader,
    RequestHeaderDelta,
    Section,
    SessionView,
    Step,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolResult,
    TurnStart,
    UserMessage,
    hookimpl,
)
from dsh_hookspecs.timefmt import instant_at
from dsh_time import session as session_module
from dsh_time.deployment import load_deployment
from dsh_time.errors import DamagedLog
from dsh_time.fold_set import FoldSet
from dsh_time.folds import visible_message
from dsh_time.log import LOG_NAME, scan
from dsh_time.models.scripted import ScriptedModel, call, say
from dsh_time.plugin_host import PluginHost
from dsh_time.recorder import AgentEvent

from .kit import START_MS, Clock, logged, make_harness, payloads, plugin_host, source_of, types


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


@frozen(eq=False)
class Good:
    """A plugin that does its work in every hook."""

    @hookimpl
    def system_prompt_section(self) -> Section:
        return Section("good", 0, "be good")

    @hookimpl
    def before_step(self, step: Step) -> Message:
        return Message(f"step {step.number}", "notice")

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("tool", "A tool.", Nothing, lambda arguments, context: "done")]

    @hookimpl
    def on_tool_result(self, result: ToolOutput) -> ToolOutput:
        return evolve(result, text=result.text + "!")


def raises() -> Any:
    raise RuntimeError("oops")


def breaks_in_the_middle() -> Iterator[Any]:
    yield Section("half", 0, "half a section")
    yield Message("half a message", "notice")
    raise RuntimeError("oops")


def answering(answer: Callable[[], Any]) -> type:
    """A plugin that answers every hook of a turn alike."""

    @frozen(eq=False)
    class Answering:
        """Answers alike."""

        @hookimpl
        def system_prompt_section(self) -> Any:
            return answer()

        @hookimpl
        def before_step(self) -> Any:
            return answer()

        @hookimpl
        def on_tool_result(self) -> Any:
            return answer()

    return Answering


def assert_ids_are_those_of_their_events(directory: Path) -> None:
    for event in logged(directory):
        if isinstance(event.data, ChatMessage | AssistantMessage | ToolResult):
            assert visible_message(event.data).id == f"m{event.seq}"


# Hooks that fail


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (raises, "RuntimeError"),
        (breaks_in_the_middle, "RuntimeError"),
        (lambda: 5, "HookValueError"),
        (lambda: Message("x", "notice", data={"kind": "user"}), "HookValueError"),
    ],
    ids=["raises", "generator", "nonsense", "forgery"],
)
async def test_a_plugin_that_fails_in_every_hook_contributes_nothing_and_the_turn_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Callable[[], Any], error: str, first: bool
) -> None:
    """Each failure is a warning and an event that names plugin, distribution and hook; everybody else's work stands."""
    both = {"bad": answering(answer), "good": Good} if first else {"good": Good, "bad": answering(answer)}
    model = ScriptedModel(call("tool"), say("ok"))
    async with make_harness(tmp_path, model=model, plugins=both) as harness:
        assert (await harness.create("one").prompt("Hi")).text == "ok"
    directory = tmp_path / "one"
    errors = payloads(directory, PluginError)
    step = ["before_step", "system_prompt_section"]
    assert [(e.plugin, e.distribution, e.hook) for e in errors] == [
        ("bad", "bad", hook) for hook in [*step, "on_tool_result", *step]
    ]
    assert [e.error for e in errors if e.hook != "on_tool_result"] == [error] * 4
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.split(" failed")[0] for text in warnings] == [
        f"plugin bad (distribution bad): hook {e.hook}" for e in errors
    ]
    second = model.requests[1].request
    assert second.header.system == (PromptSection("good", 0, "be good"),)
    assert [message.text for message in second.messages] == ["Hi", "step 1", "", "done!", "step 2"]
    assert_ids_are_those_of_their_events(directory)


async def test_a_generator_that_breaks_after_good_values_gives_none_of_them(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Breaking:
        """Gives one good value, then breaks."""

        @hookimpl
        def system_prompt_section(self) -> Iterator[Section]:
            yield Section("half", 0, "half")
            raise RuntimeError("oops")

        @hookimpl
        def before_step(self) -> Iterator[Message]:
            yield Message("half", "notice")
            raise RuntimeError("oops")

    model = ScriptedModel(say("ok"))
    async with make_harness(tmp_path, model=model, plugins={"bad": Breaking}) as harness:
        await harness.create("one").prompt("Hi")
    assert model.requests[0].request.header.system == ()
    assert [message.text for message in model.requests[0].request.messages] == ["Hi"]
    assert [e.hook for e in payloads(tmp_path / "one", PluginError)] == ["before_step", "system_prompt_section"]


async def test_a_text_that_no_line_of_the_log_could_hold_is_left_out(tmp_path: Path) -> None:
    @frozen(eq=False)
    class Huge:
        """Says nine million characters."""

        @hookimpl
        def system_prompt_section(self) -> Section:
            return Section("huge", 0, "x" * 9_000_000)

        @hookimpl
        def before_step(self) -> Message:
            return Message("x" * 9_000_000, "notice")

    async with make_harness(tmp_path, say("ok"), plugins={"huge": Huge}) as harness:
        assert (await harness.create("one").prompt("Hi")).text == "ok"
    assert len(payloads(tmp_path / "one", PluginError)) == 2


async def test_a_slow_hook_is_named_once_and_its_answer_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = 0.0

    @frozen(eq=False)
    class Slow:
        """Takes 60 ms."""

        @hookimpl
        def system_prompt_section(self) -> Section:
            nonlocal seconds
            seconds += 0.06
            return Section("slow", 0, "slow but right")

    sources = {"slow": source_of("slow", Slow)}
    deployment = load_deployment(enable=["slow"], installed=["slow"])
    host = PluginHost(deployment, sources=sources, monotonic=lambda: seconds)
    async with make_harness(tmp_path, say("a"), say("b"), plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        await agent.prompt("Again")
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "plugin slow (distribution slow): hook system_prompt_section took 60 ms" in warning
    (header,) = payloads(tmp_path / "one", RequestHeader)
    assert [section.text for section in header.header.system] == ["slow but right"]


async def test_a_plugins_messages_carry_its_own_name(tmp_path: Path) -> None:
    """The source is its entry point's name whatever it says, also under another id in the deployment."""

    @frozen(eq=False)
    class Talker:
        """Tries to be somebody else."""

        @hookimpl
        def before_step(self) -> Message:
            return Message("hello", "notice", summary="s", data={"id": "user", "role": "assistant", "source": "user"})

    file = tmp_path / "d.yaml"
    file.write_text("plugins: [{id: user, name: talker}]", encoding="utf-8")
    deployment = load_deployment(config_file=file)
    host = PluginHost(deployment, sources={"talker": source_of("talker", Talker)})
    async with make_harness(tmp_path / "sessions", say("ok"), plugins=host) as harness:
        await harness.create("one").prompt("Hi")
    _, message = payloads(tmp_path / "sessions" / "one", UserMessage)
    assert (message.role, message.id, message.source) == (
        "user",
        "m3",
        {"kind": "talker", "form": "notice", "summary": "s", "id": "user", "role": "assistant", "source": "user"},
    )


# What hooks are given


async def test_sections_stand_by_order_and_name_whatever_the_deployments_order(tmp_path: Path) -> None:
    def giving(*sections: Section) -> type:
        @frozen(eq=False)
        class Giving:
            """Gives sections."""

            @hookimpl
            def system_prompt_section(self) -> list[Section]:
                return list(sections)

        return Giving

    plugins = {
        "late": giving(Section("z", 0, "4"), Section("b", 10, "5")),
        "early": giving(Section("c", -1, "1"), Section("y", 0, "3")),
        "same": giving(Section("a", 0, "2"), Section("empty", 0, "")),
    }
    async with make_harness(tmp_path, say("ok"), plugins=plugins) as harness:
        await harness.create("one").prompt("Hi")
    (header,) = payloads(tmp_path / "one", RequestHeader)
    assert [section.text for section in header.header.system] == ["1", "2", "3", "4", "5"]


async def test_a_step_knows_when_the_last_message_before_its_turn_was_and_how_a_section_last_was(
    tmp_path: Path,
) -> None:
    clock = Clock()
    seen: list[tuple[int, int, datetime, datetime | None, Rendered | None]] = []

    @frozen(eq=False)
    class Looking:
        """Notes what it is given, and changes its section with each turn."""

        @hookimpl
        def system_prompt_section(self, prompt: Prompt) -> Section:
            step = prompt.step
            assert step is not None
            seen.append((step.turn, step.number, step.now, step.previous_message, prompt.previous("turn")))
            assert prompt.previous("other") is None
            return Section("turn", 0, f"turn {step.turn}")

        @hookimpl
        def register_tools(self) -> list[Tool]:
            def body(arguments: Nothing, context: ToolContext) -> str:
                clock.advance(seconds=10)
                return "done"

            return [Tool("tool", "A tool.", Nothing, body)]

    async with make_harness(
        tmp_path, call("tool"), say("a"), say("b"), clock=clock, plugins={"looking": Looking}
    ) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        clock.advance(seconds=100)
        await agent.prompt("Again")
    start = instant_at(START_MS)
    after = [start + timedelta(seconds=number) for number in (0, 10, 110)]
    first = Rendered("turn 1", 1, start)
    assert seen == [
        (1, 1, after[0], None, None),
        (1, 2, after[1], None, first),
        (2, 1, after[2], after[1], first),
    ]


# A swap in mid-session


@frozen
class Counts:
    """Counts prompts and calls."""

    reads: ClassVar[tuple[type[Payload], ...]] = (UserMessage, ToolCall)
    seen: tuple[str, ...] = ()

    def apply(self, event: Event) -> Self:
        return evolve(self, seen=(*self.seen, event.data.type))


@frozen
class OtherCounts(Counts):
    """The same for another plugin."""


def having(name: str, fold: type[Fold], run: Callable[[], str] = lambda: "done") -> type:
    @frozen(eq=False)
    class Having:
        """Has a section, a tool and a fold."""

        @hookimpl
        def system_prompt_section(self) -> Section:
            return Section(f"of-{name}", 0, name)

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [Tool(f"tool-{name}", f"Of {name}.", Nothing, lambda arguments, context: run())]

        @hookimpl
        def register_folds(self) -> list[type[Fold]]:
            return [fold]

    return Having


def replayed(directory: Path, kind: type[Any]) -> Any:
    """The state that one pass over the log gives."""
    states = FoldSet(directory, [("x", kind)])
    scan(directory, on_record=states.apply_record)
    return states.state(kind)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The logs that were read from the start after they had been opened."""
    passes: list[Path] = []

    def counted(directory: Path, **how: Any) -> Any:
        passes.append(directory)
        return scan(directory, **how)

    monkeypatch.setattr(session_module, "scan", counted)
    return passes


async def test_a_swap_takes_effect_with_the_next_step_and_not_in_the_running_one(
    tmp_path: Path, passes: list[Path]
) -> None:
    """A call of the same step still runs; the next request has the new plugin's part, and a delta says what changed."""

    def swap() -> str:
        if "a" in [plugin.name for plugin in host.loadout.plugins]:
            host.swap("a", "b")
        return "swapped"

    host = plugin_host({"a": having("a", Counts, swap), "b": having("b", OtherCounts)}, enable=["a"])
    model = ScriptedModel(call("tool-a") + call("tool-a"), call("tool-a") + call("tool-b"), say("ok"), say("on"))
    async with make_harness(tmp_path, model=model, plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        assert agent.session.fold(OtherCounts).seen == ("user/message", *["tool/call"] * 4)
        assert agent.session.fold(OtherCounts) == replayed(tmp_path / "one", OtherCounts)
        with pytest.raises(KeyError):
            agent.session.fold(Counts)
        await agent.prompt("And on")
        assert agent.session.fold(OtherCounts) == replayed(tmp_path / "one", OtherCounts)
    assert passes == [tmp_path / "one"]
    texts = [result.result.text for result in payloads(tmp_path / "one", ToolResult)]
    assert texts == ["swapped", "swapped", "There is no tool 'tool-a'. Tools: tool-b.", "done"]
    assert [call.owner for call in payloads(tmp_path / "one", ToolCall)] == ["a", "a", "", "b"]
    (delta,) = payloads(tmp_path / "one", RequestHeaderDelta)
    assert delta.system.removed == ("of-a",)
    assert delta.system.changed == (PromptSection("of-b", 0, "b"),)
    assert (delta.tools.removed, [tool.name for tool in delta.tools.changed]) == (("tool-a",), ["tool-b"])
    assert delta.loadout == (LoadedPlugin("b", "1.0", "b"),)
    assert [plugin.name for plugin in model.requests[1].request.header.loadout] == ["b"]


async def test_a_plugin_that_comes_back_has_its_state_as_if_it_had_never_left(
    tmp_path: Path, passes: list[Path]
) -> None:
    host = plugin_host({"a": having("a", Counts), "b": having("b", OtherCounts)})
    async with make_harness(tmp_path, *[say("x")] * 3, plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("1")
        host.disable("a")
        await agent.prompt("2")
        host.enable("a")
        await agent.prompt("3")
        assert agent.session.fold(Counts).seen == agent.session.fold(OtherCounts).seen == ("user/message",) * 3
    assert passes == [tmp_path / "one"]


async def test_a_plugin_missing_at_resume_loses_its_tools_and_has_its_state_when_it_is_there_again(
    tmp_path: Path,
) -> None:
    both = {"a": having("a", Counts), "b": having("b", OtherCounts)}
    for number, enabled in enumerate((["a", "b"], ["b"], ["a", "b"])):
        model = ScriptedModel(say("ok"))
        async with make_harness(tmp_path, model=model, plugins=plugin_host(both, enable=enabled)) as harness:
            agent = harness.open("one") if number else harness.create("one")
            await agent.prompt("Hi")
            tools = [tool.name for tool in model.requests[0].request.header.tools]
            assert tools == [f"tool-{name}" for name in enabled]
            if "a" in enabled:
                assert agent.session.fold(Counts).seen == ("user/message",) * (number + 1)
    gone, back = payloads(tmp_path / "one", RequestHeaderDelta)
    assert (gone.tools.removed, gone.system.removed, len(gone.loadout)) == (("tool-a",), ("of-a",), 1)
    assert ([tool.name for tool in back.tools.changed], len(back.loadout)) == (["tool-a"], 2)


async def test_a_log_that_was_damaged_meanwhile_gives_no_new_plugin_half_of_it(tmp_path: Path) -> None:
    host = plugin_host({"a": having("a", Counts)}, enable=[])
    harness = make_harness(tmp_path, say("1"), say("2"), say("3"), plugins=host)
    async with harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        log = tmp_path / "one" / LOG_NAME
        sound = log.read_bytes()
        log.write_bytes(sound.replace(b'"text":"Hi"', b'"text":"Ho"'))
        host.enable("a")
        for _ in range(2):
            with pytest.raises(DamagedLog, match="dsh-time salvage one"):
                await agent.prompt("Again")
        host.disable("a")
        assert (await agent.prompt("Without it")).text == "2"


async def test_an_answer_is_logged_before_a_new_plugin_can_break_the_next_step(tmp_path: Path) -> None:
    host = plugin_host({"a": having("a", Counts)}, enable=[])
    log = tmp_path / "one" / LOG_NAME

    def listen(event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            agent.steer("And?")
            host.enable("a")
            log.write_bytes(log.read_bytes().replace(b'"text":"Hi"', b'"text":"Ho"'))

    async with make_harness(tmp_path, say("said"), say("never"), plugins=host) as harness:
        agent = harness.create("one")
        agent.subscribe(listen)
        with pytest.raises(DamagedLog):
            await agent.prompt("Hi")
    log.write_bytes(log.read_bytes().replace(b'"text":"Ho"', b'"text":"Hi"'))
    (answer,) = payloads(tmp_path / "one", AssistantMessage)
    assert answer.message.text == "said"
    assert types(tmp_path / "one")[-2:] == ["assistant/message", "step/end"]


# Folds that fail


class _Switch:
    broken = True


@frozen
class Fragile(Counts):
    """Fails at an answer."""

    reads: ClassVar[tuple[type[Payload], ...]] = (UserMessage, AssistantMessage)

    def apply(self, event: Event) -> Self:
        if _Switch.broken and isinstance(event.data, AssistantMessage):
            raise RuntimeError("cracked")
        return super().apply(event)


@frozen
class AlsoFragile(Fragile):
    """A second fold of the same plugin that fails at the same event."""


@pytest.fixture
def fragile() -> Iterator[type]:
    """A plugin whose two folds fail at each answer as long as `_Switch.broken`."""

    @frozen(eq=False)
    class Plugin:
        """Has everything."""

        @hookimpl
        def system_prompt_section(self, prompt: Prompt) -> Section:
            assert prompt.step is not None
            return Section("fragile", 0, f"{len(prompt.step.session.fold(Fragile).seen)}")

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [Tool("fragile", "A tool.", Nothing, lambda arguments, context: "done")]

        @hookimpl
        def register_folds(self) -> list[type[Fold]]:
            return [Fragile, AlsoFragile]

    _Switch.broken = True
    yield Plugin
    _Switch.broken = True


def section_names(model: ScriptedModel) -> list[list[str]]:
    return [[section.name for section in recorded.request.header.system] for recorded in model.requests]


async def test_a_plugin_whose_fold_fails_is_off_for_that_session_and_the_core_goes_on(
    tmp_path: Path, fragile: type, caplog: pytest.LogCaptureFixture, passes: list[Path]
) -> None:
    """R30: it is logged once; another session still has the plugin; a new loadout brings it back."""
    model = ScriptedModel(then=lambda request: say("ok"))
    host = plugin_host({"fragile": fragile, "good": Good})
    async with make_harness(tmp_path, model=model, plugins=host) as harness:
        agent = harness.create("one")
        for prompt in ("a", "b", "c"):
            assert (await agent.prompt(prompt)).reason.kind == "completed"
        _Switch.broken = False
        other = harness.create("two")
        await other.prompt("Hi")
        await other.prompt("Hi")
        host.disable("good")
        await agent.prompt("d")
        assert agent.session.fold(Fragile) == replayed(tmp_path / "one", Fragile)
        assert agent.session.fold(AlsoFragile) == replayed(tmp_path / "one", AlsoFragile)
    assert section_names(model) == [["fragile", "good"], *[["good"]] * 2, *[["fragile", "good"]] * 2, ["fragile"]]
    (error,) = payloads(tmp_path / "one", PluginError)
    assert (error.plugin, error.distribution, error.hook) == ("fragile", "fragile", "fold Fragile")
    assert (error.error, error.message) == ("RuntimeError", "cracked")
    assert caplog.text.count("plugin fragile (distribution fragile): hook fold Fragile failed: RuntimeError") == 1
    off, back = payloads(tmp_path / "one", RequestHeaderDelta)
    assert [plugin.name for plugin in off.loadout] == ["good"]
    assert [plugin.name for plugin in back.loadout] == ["fragile"]
    assert payloads(tmp_path / "two", PluginError) == []
    assert passes == [tmp_path / "one"]


async def test_a_fold_that_gives_no_fold_has_failed(tmp_path: Path) -> None:
    @frozen
    class Vanishing:
        """Forgets to return the next state."""

        reads: ClassVar[tuple[type[Payload], ...]] = (TurnStart,)

        def apply(self, event: Event) -> Any:
            return None

    @frozen(eq=False)
    class Plugin:
        """A plugin with that fold."""

        @hookimpl
        def register_folds(self) -> Any:
            return [Vanishing]

    async with make_harness(tmp_path, say("ok"), plugins={"bad": Plugin}) as harness:
        assert (await harness.create("one").prompt("Hi")).text == "ok"
    (error,) = payloads(tmp_path / "one", PluginError)
    assert error.message.startswith("apply returned NoneType, not ")


async def test_a_fold_that_still_fails_after_a_swap_is_off_again(tmp_path: Path, fragile: type) -> None:
    host = plugin_host({"fragile": fragile, "good": Good})
    async with make_harness(tmp_path, *[say("x")] * 4, plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("a")
        await agent.prompt("b")
        host.disable("good")
        await agent.prompt("c")
        assert (await agent.prompt("d")).text == "x"
    assert [error.hook for error in payloads(tmp_path / "one", PluginError)] == ["fold Fragile"] * 2


async def test_a_fold_that_fails_at_resume_is_logged_once_and_the_log_is_read_once(
    tmp_path: Path, fragile: type, passes: list[Path]
) -> None:
    _Switch.broken = False
    for number in range(2):
        model = ScriptedModel(say("ok"))
        async with make_harness(tmp_path, model=model, plugins={"fragile": fragile}) as harness:
            agent = harness.open("one") if number else harness.create("one")
            await agent.prompt("Hi")
        _Switch.broken = True
    assert section_names(model) == [[]]
    (error,) = payloads(tmp_path / "one", PluginError)
    assert error.hook == "fold Fragile"
    assert passes == []


async def test_a_fold_that_cannot_start_takes_its_plugins_other_folds_along(tmp_path: Path) -> None:
    @frozen
    class Startless(Counts):
        """Can be made when the plugin is loaded, and not afterwards."""

        made: ClassVar[list[int]] = []

        def __attrs_post_init__(self) -> None:
            self.made.append(1)
            if len(self.made) > 1:
                raise RuntimeError("no start")

    @frozen(eq=False)
    class Plugin:
        """Has three folds, of which the second cannot start."""

        @hookimpl
        def register_folds(self) -> list[type[Fold]]:
            return [Counts, Startless, OtherCounts]

    async with make_harness(tmp_path, say("ok"), plugins={"a": Plugin}) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        for kind in (Counts, Startless, OtherCounts):
            with pytest.raises(KeyError):
                agent.session.fold(kind)
    (error,) = payloads(tmp_path / "one", PluginError)
    assert (error.plugin, error.hook.split(".")[-1], error.message) == ("a", "Startless", "no start")


async def test_a_plugin_that_is_disabled_after_its_fold_failed_is_still_named(tmp_path: Path, fragile: type) -> None:
    host = plugin_host({"fragile": fragile, "good": Good})
    async with make_harness(tmp_path, say("a"), say("b"), plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        host.disable("fragile")
        assert (await agent.prompt("Again")).text == "b"
    (error,) = payloads(tmp_path / "one", PluginError)
    assert (error.plugin, error.distribution) == ("fragile", "fragile")


async def test_a_fold_that_two_plugins_share_belongs_to_the_one_that_stays(tmp_path: Path, fragile: type) -> None:
    _Switch.broken = False
    host = plugin_host({"a": having("a", Fragile), "b": having("b", Fragile)})
    async with make_harness(tmp_path, *[say("x")] * 4, plugins=host) as harness:
        agent = harness.create("one")
        await agent.prompt("1")
        host.disable("a")
        await agent.prompt("2")
        assert agent.session.fold(Fragile) == replayed(tmp_path / "one", Fragile)
        _Switch.broken = True
        await agent.prompt("3")
        assert (await agent.prompt("4")).text == "x"
    (error,) = payloads(tmp_path / "one", PluginError)
    assert error.plugin == "b"


async def test_a_failure_that_nothing_follows_is_logged_at_the_next_turn(tmp_path: Path, fragile: type) -> None:
    """A wake writes nothing but what it has to say, also of a fold that failed before."""
    async with make_harness(tmp_path, say("x"), say("y"), plugins={"fragile": fragile}) as harness:
        agent = harness.create("one")
        await agent.prompt("1")
        await agent.prompt("2")
    starts = [number for number, name in enumerate(types(tmp_path / "one")) if name == TurnStart.type]
    assert types(tmp_path / "one")[starts[1] :][:4] == ["turn/start", "user/message", "plugin/error", "step/start"]


async def test_a_plugin_whose_status_line_fails_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    @frozen(eq=False)
    class Broken:
        """Fails when a person watches."""

        @hookimpl
        def status_line(self) -> str:
            asked.append("broken")
            raise RuntimeError("oops")

    @frozen(eq=False)
    class Fine:
        """Shows the session's id and the time."""

        @hookimpl
        def status_line(self, session: SessionView, now: datetime) -> str:
            return f"{session.id} {now:%H:%M}"

    async with make_harness(tmp_path, plugins={"broken": Broken, "fine": Fine}) as harness:
        agent = harness.create("one")
        assert [agent.status_lines(), agent.status_lines()] == [["one 08:30"], ["one 08:30"]]
    assert asked == ["broken"]
    assert types(tmp_path / "one") == []
