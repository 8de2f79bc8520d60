"""What a plugin can do to a turn: a hook that fails contributes nothing, and everybody else's answer stands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar

import click
import msgspec
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import (
    ENTRY_POINT_GROUP,
    Event,
    FoldType,
    LoadedPlugin,
    Message,
    ModelProvider,
    Payload,
    PluginError,
    Prompt,
    PromptSection,
    Reject,
    Section,
    Step,
    StepStart,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    TurnStart,
    hookimpl,
)
from dsh_time.hook_values import MAX_VALUES
from dsh_time.loadout import Loadout, Plugin, Rejection, SlowHooks
from dsh_time.plugin_loading import PluginSource, load_plugin

NOW = datetime(2026, 7, 14, 8, 30, tzinfo=UTC)


class NoSession:
    id = "s"

    def fold(self, kind: type[FoldType], /) -> FoldType:
        raise KeyError(kind)


STEP = Step(session=NoSession(), turn=1, number=1, now=NOW, previous_message=None)
PROMPT = Prompt(STEP)
CONTEXT = ToolContext(ToolCall("c1", "t", "{}", "dsh-t"), NoSession(), NOW)


def load(cls: type[Any], name: str) -> Plugin:
    class Here(EntryPoint):
        def load(self) -> type[Any]:
            return cls

    source = PluginSource(name, name, "1.0", Here(name, f"sample:{cls.__name__}", ENTRY_POINT_GROUP))
    return load_plugin(name.removeprefix("dsh-"), source, lambda kind: kind())


def answering(**answers: Callable[..., object]) -> type[Any]:
    """A plugin whose hooks return what the functions given for them return."""
    namespace: dict[str, Any] = {}
    for hook, answer in answers.items():
        parameters = {
            "system_prompt_section": "prompt",
            "before_step": "step",
            "on_tool_result": "context, result",
            "register_commands": "group",
            "status_line": "session, now",
        }.get(hook, "")
        source = f"def {hook}(self{', ' * bool(parameters)}{parameters}): return answer({parameters})"
        scope = {"answer": answer}
        exec(source, scope)
        namespace[hook] = hookimpl(scope[hook])
    return frozen(eq=False)(type("Answering", (), namespace))


def loadout(*classes: type[Any], slow: SlowHooks | None = None) -> Loadout:
    """The classes as the plugins dsh-a, dsh-b, …"""
    plugins = tuple(load(cls, f"dsh-{letter}") for cls, letter in zip(classes, "abcdefgh", strict=False))
    return Loadout(plugins, slow or SlowHooks())


def boom(*_: object) -> None:
    raise RuntimeError("boom")


class Reports(list[PluginError]):
    """The failures a loadout reported."""

    @property
    def said(self) -> list[tuple[str, str, str, str]]:
        return [(error.plugin, error.hook, error.error, error.message) for error in self]


def test_an_empty_loadout_adds_nothing() -> None:
    """`--no-plugins`: no section, no message, no tool, and a result stays as it is."""
    empty, reports = Loadout(), Reports()
    assert empty.sections(PROMPT, reports.append) == ()
    assert empty.before_step(STEP, reports.append) == []
    output = ToolOutput("x", is_error=True)
    assert empty.tool_result(CONTEXT, output, reports.append) is output
    assert (dict(empty.tools), empty.tool_schemas, empty.folds, empty.described) == ({}, (), (), ())
    assert reports == []


def test_a_plugin_that_raises_in_every_hook_does_not_stop_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    """Its neighbours' answers stand; each failure is one warning and one report with plugin, distribution and hook."""
    good = answering(
        system_prompt_section=lambda _: Section("good", 1, "text"),
        before_step=lambda _: Message("hello", "notice"),
        on_tool_result=lambda _, result: ToolOutput(result.text + "!"),
    )
    bad = answering(system_prompt_section=boom, before_step=boom, on_tool_result=boom, register_commands=boom)
    both, reports = loadout(bad, good), Reports()
    with caplog.at_level(logging.WARNING):
        assert both.sections(PROMPT, reports.append) == (PromptSection("good", 1, "text"),)
        assert both.before_step(STEP, reports.append) == [("dsh-b", Message("hello", "notice"))]
        assert both.tool_result(CONTEXT, ToolOutput("x"), reports.append).text == "x!"
    hooks = ["system_prompt_section", "before_step", "on_tool_result"]
    assert reports == [PluginError("dsh-a", "dsh-a", hook, "RuntimeError", "boom") for hook in hooks]
    warned = [record.getMessage() for record in caplog.records]
    assert warned == [f"plugin dsh-a (distribution dsh-a): hook {hook} failed: RuntimeError: boom" for hook in hooks]


def test_status_lines_stand_in_the_deployments_order_and_a_failing_one_is_left_out() -> None:
    lines = loadout(
        answering(status_line=lambda session, now: f"{now:%H:%M}"),
        answering(status_line=boom),
        answering(status_line=lambda session, now: None),
        answering(status_line=lambda session, now: 5),
        answering(status_line=lambda session, now: "busy"),
    )
    reports = Reports()
    assert lines.status_lines(NoSession(), NOW, reports.append) == [f"{NOW:%H:%M}", "busy"]
    assert [(plugin, hook) for plugin, hook, _, _ in reports.said] == [
        ("dsh-b", "status_line"),
        ("dsh-d", "status_line"),
    ]


def test_only_exceptions_are_contained() -> None:
    """Ctrl-C in a hook is no failure of the plugin."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    reports = Reports()
    with pytest.raises(KeyboardInterrupt):
        loadout(answering(before_step=interrupt)).before_step(STEP, reports.append)
    assert reports == []


def test_a_hook_that_would_end_the_process_has_failed() -> None:
    """Else a command would end with the plugin's exit code, and the turn without an end."""

    def leave(_: object) -> None:
        raise SystemExit(0)

    reports = Reports()
    assert loadout(answering(before_step=leave)).before_step(STEP, reports.append) == []
    assert [(report.error, report.message) for report in reports] == [("SystemExit", "0")]


def test_an_exception_that_cannot_be_printed_is_contained() -> None:
    """Neither an exception whose text raises, nor one that no JSON can hold, gets out."""

    class NastyError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def raising(error: Exception) -> Callable[[object], None]:
        def hook(_: object) -> None:
            raise error

        return hook

    for error, said in (
        (NastyError(), "(its text cannot be read: RuntimeError)"),
        (ValueError("a\ud800\nb"), "a? b"),
        (ValueError("x" * 10_000), "x" * 500),
    ):
        reports = Reports()
        assert loadout(answering(before_step=raising(error))).before_step(STEP, reports.append) == []
        assert reports[0].message == said
        msgspec.json.encode(reports[0])


def test_a_generator_that_raises_in_its_middle_contributes_nothing() -> None:
    """What it had given before is dropped, too."""

    def some(_: object) -> Iterator[Message]:
        yield Message("first", "notice")
        raise RuntimeError("boom")

    reports = Reports()
    assert loadout(answering(before_step=some)).before_step(STEP, reports.append) == []
    assert reports.said == [("dsh-a", "before_step", "RuntimeError", "boom")]


def test_an_endless_generator_is_cut_off() -> None:
    """A hook gives a bounded number of values: the largest number works, one more is a failure."""

    def many(number: int) -> Callable[[object], Iterator[Message]]:
        return lambda _: (Message("x", "notice") for _ in range(number))

    reports = Reports()
    assert len(loadout(answering(before_step=many(MAX_VALUES))).before_step(STEP, reports.append)) == MAX_VALUES  # type: ignore[arg-type]  # no rejection
    assert loadout(answering(before_step=many(10**9))).before_step(STEP, reports.append) == []
    assert reports[0].message == f"returned more than {MAX_VALUES} values"


# Untyped, because what is tested is what the types forbid.
section: Any = Section
message: Any = Message
output: Any = ToolOutput
reject: Any = Reject
NONSENSE = {
    "system_prompt_section": [
        ("text", "returned str, not Section or several"),
        (3, "returned int, not Section or several"),
        ({"a": 1}, "returned dict, not Section or several"),
        ([section("a", 1, "x"), "b"], "returned str among its values, not Section"),
        ([None], "returned None among its values, not Section"),
        (message("x", "notice"), "returned Message, not Section or several"),
        (section("", 1, "x"), "returned '' as Section.name: not empty, no control characters"),
        (section("a\n", 1, "x"), "returned 'a\\n' as Section.name: not empty, no control characters"),
        (section("a", True, "x"), "returned bool as Section.order, not an int of at most 53 bits"),
        (section("a", 2**53, "x"), "returned int as Section.order, not an int of at most 53 bits"),
        (section("a", 1.0, "x"), "returned float as Section.order, not an int of at most 53 bits"),
        (section("a", 1, None), "returned None as Section.text, not str"),
        (section("n" * 257, 1, "x"), "returned 257 characters as Section.name, and at most 256 are taken"),
        (section("a", 1, "\ud800"), "returned half of a surrogate pair in Section.text, which no log can hold"),
    ],
    "before_step": [
        ("text", "returned str, not Message or several"),
        ([reject("no")], "returned Reject among its values, not Message"),
        (reject(3), "returned int as Reject.reason, not str"),
        (message("", "notice"), "returned a Message whose text is empty"),
        (message(b"x", "notice"), "returned bytes as Message.text, not str"),
        (
            message("x" * 1_000_001, "notice"),
            "returned 1,000,001 characters as Message.text, and at most 1,000,000 are taken",
        ),
        (
            message("x" * 600_000, "notice", summary="y" * 200_000, data={"a": "z" * 300_000}),
            "returned 1,100,000 characters as one Message, and at most 1,000,000 are taken",
        ),
        (
            message("x", "f", data=dict.fromkeys(map(str, range(MAX_VALUES + 1)))),
            "returned a Message whose data has more than 256 keys",
        ),
        (message("x", ""), "returned '' as Message.form: not empty, no control characters"),
        (message("x", "f", summary=1), "returned int as Message.summary, not str"),
        (message("x", "f", data=[]), "returned a Message whose data is list, not a mapping"),
        (message("x", "f", data={"kind": 1}), "returned a Message whose data holds 'kind', which the host sets"),
        (message("x", "f", data={"form": 1}), "returned a Message whose data holds 'form', which the host sets"),
        (message("x", "f", data={"summary": 1}), "returned a Message whose data holds 'summary', which the host sets"),
        (message("x", "f", data={1: "x"}), "returned int as a key of Message.data, not str"),
        (message("x", "f", data={"a": 1.5}), "returned float as Message.data['a'], not str, int, bool or None"),
        (message("x", "f", data={"a": []}), "returned list as Message.data['a'], not str, int, bool or None"),
        (message("x", "f", data={"a": 2**53}), "returned int as Message.data['a'], not an int of at most 53 bits"),
    ],
    "on_tool_result": [
        ("text", "returned str, not ToolOutput"),
        (output(3), "returned int as ToolOutput.text, not str"),
        (output("x", wake="s1"), "returned str as ToolOutput.wake, not a tuple of session ids"),
        (output("x", wake=(1,)), "returned int as a session id in ToolOutput.wake, not str"),
    ],
}


@pytest.mark.parametrize(
    ("hook", "value", "said"), [(hook, *case) for hook, cases in NONSENSE.items() for case in cases]
)
def test_nonsense_is_reported_and_left_out(hook: str, value: object, said: str) -> None:
    """What is not the specification's is a failure that says what came, and the others' answers stand."""
    good = answering(
        system_prompt_section=lambda _: Section("good", 1, "text"),
        before_step=lambda _: Message("hello", "notice"),
        on_tool_result=lambda _, result: ToolOutput(result.text + "!"),
    )
    both, reports = loadout(answering(**{hook: lambda *_: value}), good), Reports()
    assert [section.name for section in both.sections(PROMPT, reports.append)] == ["good"]
    assert both.before_step(STEP, reports.append) == [("dsh-b", Message("hello", "notice"))]
    assert both.tool_result(CONTEXT, ToolOutput("x"), reports.append) == ToolOutput("x!")
    assert reports.said == [("dsh-a", hook, "HookValueError", said)]


texts = st.text(st.characters(codec=None), max_size=5)  # with lone surrogates
anything = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=3))
values = st.one_of(
    anything,
    st.builds(Section, anything, anything, anything),
    st.builds(
        Message, anything, anything, anything, st.one_of(anything, st.dictionaries(anything, anything, max_size=2))
    ),
    st.builds(Reject, anything),
    st.builds(ToolOutput, anything, anything, st.one_of(anything, st.tuples(anything))),
)


@given(st.one_of(values, st.lists(values, max_size=4)))
def test_whatever_a_hook_returns_what_comes_out_can_be_logged(value: object) -> None:
    """No value gets an exception out of a loadout, and all that passes is of its type and encodes as JSON."""
    plugins = loadout(
        answering(**dict.fromkeys(("system_prompt_section", "before_step", "on_tool_result"), lambda *_: value))
    )
    reports = Reports()
    sections = plugins.sections(PROMPT, reports.append)
    answer = plugins.before_step(STEP, reports.append)
    output = plugins.tool_result(CONTEXT, ToolOutput("x", is_error=True, wake=("s1",)), reports.append)
    assert msgspec.json.decode(msgspec.json.encode(sections), type=tuple[PromptSection, ...]) == sections
    if isinstance(answer, Rejection):
        msgspec.json.encode(answer.reason)
    else:
        for name, message in answer:
            assert (name, bool(message.text), bool(message.form)) == ("dsh-a", True, True)
            msgspec.json.encode([message.text, message.form, message.summary, message.data])
    assert (output.is_error, output.wake[:1]) == (True, ("s1",))
    msgspec.json.encode([output.text, output.wake])
    msgspec.json.encode(list(reports))


def test_sections_stand_by_order_then_name_and_empty_ones_are_left_out() -> None:
    """The deployment's order does not matter to the system prompt."""
    late = answering(
        system_prompt_section=lambda _: [Section("z", 10, "3"), Section("a", 100, "4"), Section("n", 0, "")]
    )
    early = answering(system_prompt_section=lambda _: iter([Section("b", 10, "2"), Section("p", 0, "1")]))
    reports = Reports()
    assert [section.text for section in loadout(late, early).sections(PROMPT, reports.append)] == ["1", "2", "3", "4"]
    assert reports == []


def test_of_two_sections_with_one_name_the_later_plugins_is_left_out() -> None:
    """It is reported, with the name of the plugin that stands; the later plugin's other sections stay."""
    first = answering(system_prompt_section=lambda _: Section("same", 5, "first"))
    later = answering(system_prompt_section=lambda _: [Section("same", 0, "later"), Section("other", 9, "other")])
    reports = Reports()
    assert [section.text for section in loadout(first, later).sections(PROMPT, reports.append)] == ["first", "other"]
    said = "returned the section 'same', which plugin dsh-a has returned already"
    assert reports.said == [("dsh-b", "system_prompt_section", "HookValueError", said)]


def test_sections_that_no_line_of_the_log_could_hold_together_are_left_out() -> None:
    big = answering(system_prompt_section=lambda _: [Section(f"big{n}", n, "x" * 400_000) for n in range(4)])
    good = answering(system_prompt_section=lambda _: Section("good", 9, "text"))
    reports = Reports()
    sections = loadout(big, good).sections(PROMPT, reports.append)
    assert [found.name for found in sections] == ["big0", "big1", "good"]
    assert [report.message for report in reports] == [
        f"returned the section 'big{n}', for which the system prompt has no room left" for n in (2, 3)
    ]


def test_messages_come_in_the_deployments_order_with_their_plugins_name() -> None:
    """One message, several, or none."""
    two = answering(
        before_step=lambda _: [
            Message("1", "notice"),
            Message("2", "relay", "s", {"n": 1, "t": True, "s": "x", "z": None}),
        ]
    )
    none = answering(before_step=lambda _: None)
    one = answering(before_step=lambda _: Message("3", "notice"))
    got = loadout(two, none, one).before_step(STEP, Reports().append)
    assert not isinstance(got, Rejection)
    assert [(name, message.text) for name, message in got] == [("dsh-a", "1"), ("dsh-a", "2"), ("dsh-c", "3")]
    assert got[1][1].data == {"n": 1, "t": True, "s": "x", "z": None}


def test_the_first_rejection_wins_and_ends_the_calls() -> None:
    """Messages given before it are dropped; plugins after it are not called."""
    message = answering(before_step=lambda _: Message("1", "notice"))
    no = answering(before_step=lambda _: Reject("not now"))
    reports = Reports()
    assert loadout(message, no, answering(before_step=boom)).before_step(STEP, reports.append) == Rejection(
        "dsh-b", "not now"
    )
    assert reports == []


def test_what_a_hook_returned_cannot_be_changed_afterwards() -> None:
    """The data of a message is copied when it is checked."""
    data: dict[str, Any] = {"n": 1}
    got = loadout(answering(before_step=lambda _: Message("x", "notice", data=data))).before_step(
        STEP, Reports().append
    )
    data["kind"] = "user"
    assert not isinstance(got, Rejection)
    assert got[0][1].data == {"n": 1}


def test_results_chain_and_stay_errors() -> None:
    """Each plugin sees the text of the one before; `is_error` is the body's; sessions to wake are united in order."""
    seen: list[tuple[str, bool]] = []

    def adding(mark: str, *wake: str) -> Callable[..., ToolOutput]:
        def hook(context: ToolContext, result: ToolOutput) -> ToolOutput:
            assert context is CONTEXT
            seen.append((result.text, result.is_error))
            return ToolOutput(result.text + mark, is_error=False, wake=wake)

        return hook

    plugins = loadout(
        answering(on_tool_result=adding("1", "s2", "s1")),
        answering(on_tool_result=lambda *_: None),
        answering(on_tool_result=adding("2", "s3", "s2")),
    )
    output = plugins.tool_result(CONTEXT, ToolOutput("x", is_error=True, wake=("s0",)), Reports().append)
    assert output == ToolOutput("x12", is_error=True, wake=("s0", "s2", "s1", "s3"))
    assert seen == [("x", True), ("x1", True)]


def test_a_hook_gets_the_arguments_it_declares_in_its_own_order() -> None:
    """None, one, or both the other way round; static methods and hooks under another name count, too."""
    seen: list[object] = []

    @frozen(eq=False)
    class Choosy:
        @hookimpl
        def before_step(self) -> None:
            seen.append("nothing")

        @hookimpl
        def on_tool_result(self, result: ToolOutput, context: ToolContext, _note: str = "x", *rest: object) -> None:
            seen.append((result, context, _note, rest))

        @hookimpl(specname="on_tool_result")
        def see_result(self, result: ToolOutput, /) -> None:
            seen.append(result)

        @staticmethod
        @hookimpl
        def system_prompt_section(prompt: Prompt) -> None:
            seen.append(prompt)

    plugins, reports, output = loadout(Choosy), Reports(), ToolOutput("x")
    plugins.before_step(STEP, reports.append)
    plugins.sections(PROMPT, reports.append)
    plugins.tool_result(CONTEXT, output, reports.append)
    assert seen == ["nothing", PROMPT, (output, CONTEXT, "x", ()), output]
    assert reports == []
    assert plugins.plugins[0].hooks == ("system_prompt_section", "before_step", "on_tool_result")


def test_a_slow_hook_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """With plugin, distribution, hook and milliseconds; its answer counts; what a generator takes is its time."""
    clock = SimpleNamespace(now=100.0)

    def slow(_: object) -> Iterator[Message]:
        clock.now += 0.1875
        yield Message("late", "notice")

    def fast(_: object) -> Section:
        clock.now += 0.125  # just the limit, and exact in binary
        return Section("fast", 1, "x")

    hooks = answering(before_step=slow, system_prompt_section=fast)
    plugins = loadout(hooks, slow=SlowHooks(125, lambda: clock.now))
    for _ in range(3):
        assert plugins.before_step(STEP, Reports().append) == [("dsh-a", Message("late", "notice"))]
        plugins.sections(PROMPT, Reports().append)
    assert [record.getMessage() for record in caplog.records] == [
        "plugin dsh-a (distribution dsh-a): hook before_step took 188 ms (limits.slowHookMs is 125); said once"
    ]


@frozen
class Counts:
    reads: ClassVar[tuple[type[Payload], ...]] = (TurnStart,)
    number: int = 0

    def apply(self, event: Event, /) -> Counts:
        return Counts(self.number + 1)


@frozen
class Steps(Counts):
    reads: ClassVar[tuple[type[Payload], ...]] = (StepStart,)


class Arguments(msgspec.Struct, frozen=True):
    path: str


@frozen
class Settings:
    temperature: int = 0


def test_what_plugins_registered_is_ready_to_use() -> None:
    """Tools by name with owner and schema, schemas sorted, folds with owners, providers, the header's loadout."""

    def run(arguments: Arguments, context: ToolContext) -> str:
        return arguments.path

    def create(settings: Settings) -> Any:
        raise NotImplementedError

    first = answering(
        register_tools=lambda: [Tool("write", "Write.", Arguments, run), Tool("read", "Read.", Arguments, run)],
        register_folds=lambda: [Counts],
    )
    second = answering(
        register_tools=lambda: Tool("list", "List.", Arguments, run),
        register_folds=lambda: (kind for kind in (Steps, Counts)),
        register_models=lambda: ModelProvider("echo", Settings, create),
    )
    plugins = loadout(first, second)
    assert [(name, tool.owner, tool.tool.name) for name, tool in plugins.tools.items()] == [
        ("list", "dsh-b", "list"),
        ("read", "dsh-a", "read"),
        ("write", "dsh-a", "write"),
    ]
    assert [schema.name for schema in plugins.tool_schemas] == ["list", "read", "write"]
    assert list(plugins.folds) == [("dsh-a", Counts), ("dsh-b", Steps)]
    assert list(plugins.providers) == ["echo"]
    assert plugins.described == (LoadedPlugin("dsh-a", "1.0", "dsh-a"), LoadedPlugin("dsh-b", "1.0", "dsh-b"))


def test_commands_are_added_all_or_none(caplog: pytest.LogCaptureFixture) -> None:
    """A hook that fails halfway, or wants a name that is taken, adds nothing, with one warning; the others' stand."""

    def halfway(group: click.Group) -> None:
        group.add_command(click.Command("half"))
        raise RuntimeError("boom")

    def taken(group: click.Group) -> None:
        group.add_command(click.Command("new"))
        group.add_command(click.Command("run"))

    run = click.Command("run")
    group = click.Group(commands={"run": run})
    plugins = loadout(
        answering(register_commands=halfway),
        answering(register_commands=taken),
        answering(register_commands=lambda group: group.add_command(click.Command("good"))),
    )
    plugins.add_commands(group)
    assert (list(group.commands), group.commands["run"]) == (["run", "good"], run)
    taken_name = "HookValueError: added the command 'run', which there is already"
    assert [record.getMessage() for record in caplog.records] == [
        "plugin dsh-a (distribution dsh-a): hook register_commands failed: RuntimeError: boom",
        f"plugin dsh-b (distribution dsh-b): hook register_commands failed: {taken_name}",
    ]
