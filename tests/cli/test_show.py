"""`dsh-time show` and `dsh-time request`."""

import asyncio
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from dsh_hookspecs import (
    Message,
    ModelError,
    Prompt,
    Section,
    Step,
    SurfaceReplace,
    Tool,
    ToolContext,
    ToolError,
    Usage,
    UserMessage,
    hookimpl,
)
from dsh_hookspecs._events import TextBlock
from dsh_time.agent import Agent
from dsh_time.cli.exit_codes import ExitCode
from dsh_time.cli.show import safe_json
from dsh_time.cli.transcript import stamp, text_lines
from dsh_time.log import Draft, Log, read_header
from dsh_time.models.scripted import call, fail, finish, reason, say
from dsh_time.session import Session

from ..kit import make_harness
from .reading_kit import Home, home

__all__ = ["home"]

#: What must never reach a terminal as it is.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
HOSTILE = "\x1b]0;owned\x07\x9b2J\u202egnp\u2066\u200b\U000e0041\r[red]x[/red]\nassistant\u2028"


class Lines(Struct):
    count: int


@frozen(eq=False)
class Noisy:
    """A plugin that contributes everything there is to show."""

    @hookimpl
    def before_step(self, step: Step) -> Message | None:
        return Message("It is\nnoon.", form="reading", summary="12:00") if step.number == 1 else None

    @hookimpl
    def system_prompt_section(self, prompt: Prompt) -> Section:
        return Section("rules", 5, "Be brief.")

    @hookimpl
    def register_tools(self) -> list[Tool]:
        def lines(arguments: Lines, _: ToolContext) -> str:
            if arguments.count < 0:
                raise ToolError("fewer than none")
            return "\n".join(f"line {number}" for number in range(1, arguments.count + 1))

        return [Tool("lines", "Some lines", Lines, lines)]


@frozen(eq=False)
class Hostile:
    """A plugin all of whose texts attack the terminal."""

    @hookimpl
    def before_step(self, step: Step) -> Message | None:
        if step.number > 1:
            raise ValueError(HOSTILE)
        return Message(HOSTILE, form="hostile", summary="\u202e[red]x[/red]\u200b")

    @hookimpl
    def system_prompt_section(self, prompt: Prompt) -> Section:
        return Section("rules", 5, HOSTILE)

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("lines", HOSTILE, Lines, lambda _, __: HOSTILE)]


def test_a_transcript_says_who_said_what_and_when(home: Home) -> None:
    home.make(
        "one",
        "What time is it?\nRoughly.",
        answers=(
            reason("They want the time.") + say("Let me look.") + call("lines", count=2),
            call("lines", count=-1),
            say("Noon.") + finish(usage=Usage(30, 20, 7)),
        ),
        plugins={"noisy": Noisy},
    )
    assert home.run("show", "one").output.splitlines() == [
        "session one · created 2026-07-14 08:30:00+00:00",
        "",
        "── turn 1 · 2026-07-14 08:31:00+00:00",
        "08:31:00 user",
        "    What time is it?",
        "    Roughly.",
        "08:31:00 noisy · 12:00",
        "08:31:00 request · scripted scripted; sections: rules; tools: lines; plugins: noisy 1.0",
        "08:31:00 assistant",
        "  (reasoning, 19 characters)",
        "    Let me look.",
        '08:31:00 call lines: {"count":2}',
        "08:31:00 result of lines",
        "    line 1",
        "    line 2",
        "08:31:00 assistant",
        '08:31:00 call lines: {"count":-1}',
        "08:31:00 error of lines",
        "    fewer than none",
        "08:31:00 assistant",
        "    Noon.",
        "── turn 1 completed · tokens: 30 input (20 cached, 67%), 7 output · first output after 0.0 s · 0.0 s",
    ]


def test_a_long_result_is_collapsed_and_full_opens_it_with_everything_else(home: Home) -> None:
    answers = (reason("Hm.") + call("lines", count=100), say("Done."))
    home.make("one", "Go", answers=answers, plugins={"noisy": Noisy})
    short = home.run("show", "one").output
    assert "    line 8\n  … 736 more characters (--full)\n" in short
    assert "line 9" not in short
    assert "Be brief." not in short
    full = home.run("show", "one", "--full").output
    assert "    line 100\n" in full
    assert "12:00\n    It is\n    noon.\n" in full
    assert "  [rules]\n    Be brief.\n  tool lines: Some lines\n" in full
    assert "  (reasoning, 3 characters)\n    Hm.\n" in full
    assert "(--full)" not in full


def test_full_opens_the_side_file_of_a_large_result_and_says_when_it_is_gone(home: Home) -> None:
    home.make("one", "Go", answers=(call("lines", count=20_000), say("Done.")), plugins={"noisy": Noisy})
    assert "    line 20000\n" in home.run("show", "one", "--full").output
    (side,) = (home.root / "one").glob("*.side")
    side.unlink()
    result = home.run("show", "one", "--full")
    assert result.exit_code == 0
    assert "  (" + str(side) in result.output
    assert "    line 1\n" in result.output
    assert "line 20000" not in result.output


def test_an_injected_message_without_summary_shows_its_form_or_its_first_words_in_one_line(home: Home) -> None:
    @frozen(eq=False)
    class Plain:
        @hookimpl
        def before_step(self, step: Step) -> list[Message]:
            return [Message("a\nb", form="relay")]

    home.make("one", "Go", answers=(say("Done."),), plugins={"plain": Plain})
    assert "08:31:00 plain · relay\n08:31:00 request" in home.run("show", "one").output
    with Session.open(home.root / "one") as session:
        content = (TextBlock("first words\nmore"),)
        session.append([UserMessage(id="s", role="user", content=content, source={"kind": "old"})], home.clock.now)
    assert home.run("show", "one").output.endswith("08:31:00 old · first words more\n")


def test_what_still_waits_is_shown_at_the_end_and_once_it_is_taken_a_steer_whole_and_an_inject_collapsed(
    home: Home,
) -> None:
    home.live("one", lambda agent: agent.inject("context\nlong"))
    assert home.run("show", "one").output.endswith("waiting (inject): context long\n")

    async def go_on() -> None:
        async with make_harness(home.root, say("x"), clock=home.clock) as harness:
            agent = harness.open("one")
            agent.steer("left\nplease")
            await agent.idle()

    asyncio.run(go_on())
    text = home.run("show", "one").output
    assert "08:30:00 user · context long\n" in text
    assert "08:30:00 user, steering\n    left\n    please\n" in text
    assert "waiting" not in text


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (fail(ModelError("no such host")), "── turn 1 error: ModelError: no such host · tokens not counted · 0.0 s"),
        (
            say("half") + finish("max-tokens"),
            "── turn 1 max-tokens · tokens not counted · first output after 0.0 s · 0.0 s",
        ),
    ],
)
def test_a_footer_says_how_the_turn_ended(home: Home, answer: object, ending: str) -> None:
    home.make("one", "Go", answers=(answer,))  # type: ignore[arg-type] # pytest's parameters have no type
    assert home.run("show", "one").output.splitlines()[-1] == ending


def test_tokens_and_seconds_are_those_of_the_whole_turn(home: Home) -> None:
    @frozen(eq=False)
    class Slow:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            def wait(_: Lines, __: ToolContext) -> str:
                home.clock.advance(ms=2_300)
                return ""

            return [Tool("wait", "", Lines, wait)]

    answers = (
        call("wait", count=1) + finish("tool-calls", Usage(10, 1, 2)),
        call("wait", count=1),
        say("x") + finish(usage=Usage(20, 10, 3)),
    )
    home.make("one", "Go", answers=answers, plugins={"slow": Slow})
    figures = "tokens: 30 input (11 cached, 37%), 5 output · first output after 0.0 s · 4.6 s"
    assert f"── turn 1 completed · {figures}\n" in home.run("show", "one").output


def test_each_turn_has_its_own_footer(home: Home) -> None:
    answers = (say("a") + finish(usage=Usage(10, 1, 2)), say("b") + finish(usage=Usage(20, 2, 4)))
    home.make("one", "First", "Second", answers=answers)
    footers = [line for line in home.run("show", "one").output.splitlines() if "completed" in line]
    assert footers == [
        "── turn 1 completed · tokens: 10 input (1 cached, 10%), 2 output · first output after 0.0 s · 0.0 s",
        "── turn 2 completed · tokens: 20 input (2 cached, 10%), 4 output · first output after 0.0 s · 0.0 s",
    ]


def test_seconds_are_not_negative_and_a_new_date_is_shown_when_the_clock_moves(home: Home) -> None:
    @frozen(eq=False)
    class Back:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            def turn_back(_: Lines, __: ToolContext) -> str:
                home.clock.advance(seconds=-86_400)
                return ""

            return [Tool("back", "", Lines, turn_back)]

    home.make("one", "Go", answers=(call("back", count=1), say("x")), plugins={"back": Back})
    text = home.run("show", "one").output
    assert "· 0.0 s\n" in text
    assert "2026-07-13 08:31:00+00:00 result of back\n" in text


def test_times_are_those_of_the_local_zone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    home.make("one", "Go", answers=(say("x"),))
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    assert "── turn 1 · 2026-07-14 16:31:00+08:00\n16:31:00 user\n" in home.run("show", "one").output
    monkeypatch.undo()
    time.tzset()


def test_an_instant_that_no_calendar_holds_is_shown_in_milliseconds() -> None:
    assert stamp(2**62) == f"{2**62} ms"
    assert stamp(-(2**62)) == f"{-(2**62)} ms"


def test_a_failing_plugin_a_replaced_span_and_a_users_call_are_named(home: Home) -> None:
    @frozen(eq=False)
    class Broken:
        @hookimpl
        def before_step(self, step: Step) -> Message:
            raise ValueError("not\ntoday")

    home.make("one", "Go", answers=(say("x"),), plugins={"broken": Broken})
    with Session.open(home.root / "one") as session:
        message = UserMessage(id="s", role="user", content=(TextBlock("Sum."),), source={"kind": "compaction"})
        session.append([message], home.clock.now, replaces=SurfaceReplace(1, 4))
    home.run("call", "one", "lines", "count=1", plugins={"noisy": Noisy})
    text = home.run("show", "one").output
    assert "08:31:00 plugin broken failed in before_step: ValueError: not today\n" in text
    assert "08:31:00 compaction · Sum. (in place of events 1 to 4)\n" in text
    assert '08:31:00 call lines, by the user: {"count":1}\n08:31:00 result of lines\n    line 1\n' in text


def test_a_session_that_is_being_written_is_shown_as_far_as_it_is(home: Home) -> None:
    def look(agent: Agent) -> None:
        agent.followup("Hello?")
        result = home.run("show", "one")
        assert result.exit_code == 0
        assert "    Hello?\n── turn 1 is open: it still runs, or its process ended in the middle\n" in result.output
        agent.cancel()

    home.live("one", look)


def test_what_this_program_does_not_know_is_named_and_the_rest_is_shown(home: Home) -> None:
    home.make("one", "Go", answers=(say("x"),))
    with Log.open(home.root / "one", lambda _: None) as log:
        log.append(
            [
                Draft(time=1, type="later/\x1b[2J", data=b"{}"),
                Draft(time=1, type="turn/start", data=b'{"turn":"\\u001b"}'),
                Draft(time=1, type="later/skipped", data=b"{}", ignorable=True),
                Draft(time=1, type="turn/start", data=b'{"turn":2}'),
            ]
        )
    result = home.run("show", "one")
    assert result.exit_code == 0
    assert "event 7 has the unknown type later/\\x1b[2J; --raw shows it\n" in result.output
    assert "event 8 (turn/start) has data of the wrong shape (Expected `int`" in result.output
    assert "── turn 2 · " in result.output
    assert len(home.run("show", "one", "--raw").output.splitlines()) == 11


# -- what must not reach the terminal


def test_no_logged_text_reaches_the_terminal_as_it_is_or_passes_for_another_speaker(home: Home) -> None:
    answers = (
        reason(HOSTILE) + say(HOSTILE) + call("lines", count=1) + call(HOSTILE, HOSTILE),
        fail(ModelError(HOSTILE)),
    )
    model = home.make("one", HOSTILE, answers=answers, plugins={"hostile": Hostile})
    for words in (["show"], ["show", "--full"], ["show", "--raw"], ["request", "--turn=1", "--step=2", "--pretty"]):
        result = home.run(*words, "one")
        assert result.exit_code == 0
        assert not UNSAFE.search(result.output), words
        assert "[red]x[/red]" in result.output
        assert not re.search("^assistant", result.output, re.MULTILINE), words
    assert len(model.requests) == 2
    assert "hostile · \\u202e[red]x[/red]\\u200b" in home.run("show", "one").output


@given(text=st.text())
def test_each_line_of_a_text_is_indented_and_safe(text: str) -> None:
    for line in text_lines(text):
        assert not UNSAFE.search(line.text)
        assert "\n" not in line.text
        assert line.text.startswith("    ") or not line.text


@given(value=st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_json_for_a_terminal_means_the_same(value: dict[str, object]) -> None:
    text = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not UNSAFE.search(text)


def test_raw_shows_each_event_as_it_stands_one_per_line(home: Home) -> None:
    home.make("one", "你好 \U000e0041\x7f", answers=(say("x"),))
    lines = home.log("one").read_text("utf-8").split("\n")[1:-1]
    shown = home.run("show", "--raw", "one").output.splitlines()
    assert [json.loads(line) for line in shown] == [json.loads(line) for line in lines]
    assert "你好 \\udb40\\udc41\\u007f" in shown[1]
    assert [shown[0], *shown[2:]] == [lines[0], *lines[2:]]


# -- requests


def test_a_request_is_printed_with_the_bytes_that_were_sent(home: Home) -> None:
    answers = (call("lines", count=2), say("a\u202e"), say("b"))
    model = home.make("one", "Hällo \x1b", "Again", answers=answers, plugins={"noisy": Noisy})
    printed = [
        home.run("request", "one", "--turn", "1").stdout_bytes,
        home.run("request", "one", "--turn", "1", "--step", "2").stdout_bytes,
        home.run("request", "one", "--turn=2", "--step=1").stdout_bytes,
    ]
    assert printed == [recorded.encoded for recorded in model.requests]


def test_without_a_turn_the_newest_is_meant(home: Home) -> None:
    model = home.make("one", "Hi", "Again", answers=(say("a"), say("b")))
    assert home.run("request", "one").stdout_bytes == model.requests[-1].encoded


def test_damage_hides_which_turn_is_the_newest(home: Home) -> None:
    """An older turn's request is not passed off as the newest; it is still there for who asks for it."""
    model = home.make("one", "First", "Second", answers=(say("a"), say("b")))
    log = home.log("one")
    log.write_bytes(log.read_bytes().replace(b'"data":{"turn":2}', b'"data":{"turn":7}'))
    result = home.run("request", "one")
    assert result.exit_code == ExitCode.DAMAGED
    assert "dsh-time salvage one" in result.output
    assert home.run("request", "one", "--turn", "1").stdout_bytes == model.requests[0].encoded


def test_a_session_without_a_turn_has_no_request(home: Home) -> None:
    home.make("one", answers=())
    result = home.run("request", "one")
    assert result.exit_code == 1
    assert "no model has been asked yet" in result.output


def test_a_terminal_gets_the_request_with_escapes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    model = home.make("one", "a\u202eb", answers=(say("x"),))
    monkeypatch.setattr("dsh_time.cli.show._to_terminal", lambda: True)
    text = home.run("request", "one", "--turn", "1").output
    assert "a\\u202eb" in text
    sent = model.requests[0].encoded.decode()
    assert [json.loads(line) for line in text.splitlines()] == [json.loads(line) for line in sent.splitlines()]


def test_a_request_for_reading_shows_settings_sections_tools_and_messages(home: Home) -> None:
    home.make(
        "one",
        "Hi",
        answers=(reason("Hm.") + say("I look.") + call("lines", count=-1), say("x")),
        plugins={"noisy": Noisy},
    )
    assert home.run("request", "one", "--turn", "1", "--step", "2", "--pretty").output.splitlines() == [
        'settings: {"provider": "scripted", "model": "scripted"}',
        "plugins: noisy 1.0",
        "  [rules]",
        "    Be brief.",
        "  tool lines: Some lines",
        "message 1: user, from user",
        "    Hi",
        "message 2: user, from noisy",
        "    It is",
        "    noon.",
        "message 3: assistant, from model",
        "  reasoning:",
        "    Hm.",
        "    I look.",
        '  call t1s1c1: lines {"count":-1}',
        "message 4: tool, from tool",
        "  error of t1s1c1:",
        "    fewer than none",
    ]


def test_a_request_that_was_never_made_is_an_error_that_names_the_newest(home: Home) -> None:
    home.make("one", "Hi", answers=(say("x"),))
    result = home.run("request", "one", "--turn", "9")
    assert result.exit_code == 1
    assert "turn 9, step 1" in result.output
    assert "turn 1, step 1" in result.output


# -- real processes


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.mark.process
def test_a_reader_that_stops_early_ends_show_quietly(home: Home, start: Start) -> None:
    home.make("one", "Go", answers=(say("x\n" * 400_000),))
    process = start("show", "one")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"session one")
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) in (0, 1)


@pytest.mark.process
@pytest.mark.parametrize("settings", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"])
def test_show_works_in_any_locale_and_raw_stays_json(home: Home, start: Start, settings: dict[str, str]) -> None:
    home.make("one", "Grüße 你好 🕐", answers=(say("x"),))
    output, errors = start("show", "one", **settings).communicate(timeout=30)
    assert errors == b""
    assert "Grüße 你好".encode() in output or b"Gr\\xfc\\xdfe \\u4f60\\u597d" in output
    output, errors = start("show", "--raw", "one", **settings).communicate(timeout=30)
    assert errors == b""
    if "PYTHONIOENCODING" in settings:
        assert output.isascii()
    lines = [json.loads(line) for line in output.splitlines()]
    assert lines[1]["data"]["content"][0]["text"] == "Grüße 你好 🕐"


def test_reading_changes_nothing_on_disk_and_takes_no_lock(home: Home, tmp_path: Path) -> None:
    home.make("one", "Hi", answers=(say("x"),))
    before = home.contents("one")
    times = {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}
    with Log.open(home.root / "one", lambda _: None):
        during = home.contents("one")
        for words in (["show"], ["show", "--raw"], ["request", "--turn", "1"], ["verify"]):
            assert home.run(*words, "one").exit_code == 0
        assert home.contents("one") == during
    assert {name: data for name, data in home.contents("one").items() if name != "lock"} == {
        name: data for name, data in before.items() if name != "lock"
    }
    assert set(times) == set(home.path.rglob("*"))
    assert read_header(home.root / "one").id == "one"
