"""`run`: a prompt, its answer, and what the process says about how the turn ended."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tzlocal
from attrs import frozen
from msgspec import Struct

from dsh_hookspecs import (
    Message,
    ModelError,
    ModelRequest,
    Reject,
    Retrying,
    Step,
    Tool,
    Usage,
    UserMessage,
    hookimpl,
)
from dsh_time.models.scripted import Answer, ScriptedModel, call, deltas, fail, finish, pause, reason, say, truncated

from ..kit import Clock, payloads, source_of, types
from .conftest import SCRIPT, CommandLine
from .terminals import TIMEOUT_S, read_until, terminal

Start = Callable[..., "subprocess.Popen[bytes]"]


#: The other clock in place of the built-in one.
TIME_CONTEXT = ("--enable", "time-context", "--disable", "time-reminder")


def only_session(line: CommandLine) -> Path:
    [session] = line.sessions.iterdir()
    return session


# The main job, as the README has it


@pytest.mark.process
def test_the_time_is_told_by_either_clock_and_without_one_the_demo_says_that_it_has_none(start: Start) -> None:
    process = start("run", "What time is it?")
    out, err = process.communicate()
    assert process.returncode == 0
    assert b"[UTC], a " in out
    assert b"(read in the reading of turn 1, step 1)" in out
    assert err.startswith(b"dsh-time-reminder: cron reading \xc2\xb7 ")

    process = start("run", *TIME_CONTEXT, "What time is it?")
    out, err = process.communicate()
    assert process.returncode == 0
    assert b"[UTC], a " in out
    assert b"(read in the system section `context:time`)" in out
    assert err.startswith(b"Turn 1 \xc2\xb7 tokens: ")

    out, _ = start("run", "--disable", "time-reminder", "What time is it?").communicate()
    assert out.startswith(b"I cannot tell: my request holds no clock")


@pytest.mark.process
def test_continued_in_a_second_process_the_gap_is_told(start: Start, dsh_time: CommandLine) -> None:
    assert start("run", "hello").wait() == 0
    out, _ = start("run", "--continue", *TIME_CONTEXT, "How long since my last message?").communicate()
    assert out.startswith(b"Time since previous message: ")
    assert b"unavailable" not in out
    assert types(only_session(dsh_time)).count("turn/start") == 2


def test_the_gap_since_the_last_message_is_exact(dsh_time: CommandLine) -> None:
    clock = Clock()
    line = dsh_time.having(now_ms=clock)
    asked = ["run", "--continue", *TIME_CONTEXT, "How long since my last message?"]
    line("run", *TIME_CONTEXT, "What time is it?")
    clock.advance(seconds=3 * 3600 + 2 * 60 + 5)
    assert "Time since previous message: 3h2m5s " in line(*asked).stdout
    clock.advance(seconds=60)
    assert "Time since previous message: 1m " in line(*asked).stdout


# Sessions


def test_session_goes_on_with_that_session_and_without_it_a_new_one_is_made(dsh_time: CommandLine) -> None:
    first = json.loads(dsh_time("run", "--json", "hello").stdout)
    second = json.loads(dsh_time("run", "--json", "hello").stdout)
    again = json.loads(dsh_time("run", "--json", "--session", first["session"], "hello").stdout)
    assert first["session"] != second["session"]
    assert (again["session"], again["turn"]) == (first["session"], 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--session", "nobody"], "there is no such session. `dsh-time sessions` lists"),
        (["--session", "../x"], "'../x' is no session id."),
        (["--continue"], "there is no session yet. `dsh-time run PROMPT` makes one."),
    ],
)
def test_a_session_that_does_not_exist_is_one_line_and_nothing_is_created(
    dsh_time: CommandLine, options: list[str], said: str
) -> None:
    result = dsh_time("run", *options, "hi")
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not dsh_time.home.exists()


async def test_a_session_that_another_process_writes_is_one_line(dsh_time: CommandLine) -> None:
    await asyncio.to_thread(lambda: None)  # in a loop, as the library is used
    async with dsh_time.invocation.harness() as harness:
        agent = harness.create("busy")
        root = harness.store.root
        result = await asyncio.to_thread(CommandLine(root.parent), "run", "--session", "busy", "hi")
    assert result.exit_code == 1
    assert f"Session {agent.id} is being written by process {os.getpid()}" in result.stderr
    assert result.stderr.count("\n") == 1


# What is printed


@frozen(eq=False)
class Busybody:
    """Says something before each turn's first step, and has a tool."""

    @hookimpl
    def before_step(self, step: Step) -> Message | None:
        return Message("long text", form="notice", summary="[b]a summary\x1b[2J") if step.number == 1 else None

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("look", "Look.", Nothing, lambda _arguments, _context: "seen\x1b]0;title\x07")]


class Nothing(Struct):
    """No arguments."""


def test_answers_go_to_stdout_as_they_come_and_everything_else_to_stderr(dsh_time: CommandLine) -> None:
    model = ScriptedModel(
        deltas(Retrying(2, 0.5, "busy")) + reason("hm") + say("Let me ", "look.") + call("look"),
        say("It is\n", "[red]there[/red]\x1b[31m\u202e."),
    )
    line = dsh_time.having(model=model, given_sources={"dsh-busybody": source_of("dsh-busybody", Busybody)})
    result = line("run", "--enable", "busybody", "Where is it?")
    assert result.exit_code == 0
    assert result.stdout == "Let me look.\nIt is\n[red]there[/red]\\x1b[31m\\u202e.\n"
    session = only_session(dsh_time).name
    assert re.sub(r"\d+\.\d s( ·|$)", r"0.0 s\1", result.stderr, flags=re.MULTILINE).splitlines() == [
        "dsh-busybody: [b]a summary\\x1b[2J",
        "attempt 2 in 0.5 s: busy",
        "thinking …",
        "call look {}",
        "result: seen\\x1b]0;title\\x07",
        "Turn 1 · tokens not counted · first output after 0.0 s · 0.0 s",
        f"Session {session}; to go on: --session {session}",
    ]


def test_json_is_one_object_in_ascii_and_nothing_else(dsh_time: CommandLine) -> None:
    usage = [finish("tool-calls", Usage(10, 4, 2)), finish("end", Usage(20, 10, 3))]
    model = ScriptedModel(call("look") + usage[0], say("größe\x1b\u202e") + usage[1])
    line = dsh_time.having(model=model, given_sources={"dsh-busybody": source_of("dsh-busybody", Busybody)})
    result = line("run", "--json", "--enable", "busybody", "Where?")
    assert result.stderr == ""
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    answer = json.loads(result.stdout)
    assert min(answer.pop("firstOutputSeconds"), answer.pop("seconds")) >= 0
    assert answer == {
        "session": only_session(dsh_time).name,
        "turn": 1,
        "reason": {"kind": "completed"},
        "text": "größe\x1b\u202e",
        "usage": {"inputTokens": 30, "cachedTokens": 14, "outputTokens": 5},
    }


def test_json_has_no_usage_when_the_provider_counts_none(dsh_time: CommandLine) -> None:
    assert json.loads(dsh_time.having(model=ScriptedModel(say("hi")))("run", "--json", "hi").stdout)["usage"] is None


@pytest.mark.process
def test_at_a_terminal_it_is_shown_that_something_is_waited_for(dsh_time: CommandLine) -> None:
    with terminal(SCRIPT, "--home", dsh_time.home, "run", "hello") as (screen, process):
        seen = read_until(screen, "to go on: --session")
        assert process.wait() == 0
    assert "waiting" in seen
    assert seen.index("waiting") < seen.index("I am the demo model")


# How the turn ended


@frozen(eq=False)
class Guard:
    @hookimpl
    def before_step(self, step: Step) -> Reject:
        return Reject("not today")


@pytest.mark.parametrize(
    ("answer", "enable", "said"),
    [
        (fail(ModelError("no route")), [], "Error: the turn ended with ModelError: no route"),
        (say("half") + fail(ModelError("no route")), [], "Error: the turn ended with ModelError: no route"),
        (truncated("half"), [], "Error: the answer was cut off at the model's token limit"),
        (call("look"), [], "Error: the turn reached its limit of steps"),
        (say("never"), ["--enable", "guard"], "Error: the turn was rejected by the plugin dsh-guard: not today"),
    ],
)
def test_a_turn_that_was_not_completed_says_why_and_is_exit_code_3(
    dsh_time: CommandLine, answer: Answer, enable: list[str], said: str
) -> None:
    Path("dsh-time.yaml").write_text("limits: {maxSteps: 1}\n")
    sources = {"dsh-guard": source_of("dsh-guard", Guard)}
    result = dsh_time.having(model=ScriptedModel(answer), given_sources=sources)("run", *enable, "hi")
    assert result.exit_code == 3
    [error] = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert error.startswith(said)
    assert result.stdout in ("", "half\n")


def test_json_of_a_turn_that_failed_has_the_reason(dsh_time: CommandLine) -> None:
    result = dsh_time.having(model=ScriptedModel(fail(ModelError("no route"))))("run", "--json", "hi")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["reason"] == {"kind": "error", "type": "ModelError", "message": "no route"}


def test_ctrl_c_cancels_the_turn_keeps_the_answer_so_far_and_is_exit_code_130(dsh_time: CommandLine) -> None:
    def interrupted(_: ModelRequest) -> Answer:
        os.kill(os.getpid(), signal.SIGINT)
        return say("as far as ") + pause(asyncio.Event())

    result = dsh_time.having(model=ScriptedModel(interrupted))("run", "hi")
    assert result.exit_code == 130
    assert result.stdout == "as far as \n"
    assert "Cancelling the turn; Ctrl-C again to leave at once." in result.stderr
    assert "the turn was cancelled (user)" in result.stderr
    assert types(only_session(dsh_time))[-2:] == ["step/end", "turn/end"]


STUCK = """
import threading

class Nothing(Struct): pass

@frozen(eq=False)
class Sample:
    @hookimpl
    def register_tools(self):
        return [Tool("wait", "Wait for ever.", Nothing, lambda arguments, context: threading.Event().wait() or "")]
"""


@pytest.mark.process
def test_a_second_ctrl_c_leaves_at_once_and_the_session_can_be_continued(
    start: Start, dsh_time: CommandLine, install: Callable[..., None], site: Path
) -> None:
    install("dsh-stuck", STUCK)
    process = start("run", "--enable", "stuck", "--disable", "time-reminder", "call wait", PYTHONPATH=str(site))
    assert process.stderr is not None
    assert process.stderr.readline() == b"call wait {}\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith(b"Cancelling the turn")
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    result = dsh_time("run", "--continue", "hello")
    assert result.exit_code == 0
    assert types(only_session(dsh_time)).count("turn/end") == 2


# The user's zone


@pytest.mark.parametrize(
    ("found", "zone"), [("Asia/Shanghai", "Asia/Shanghai"), ("Mars/Olympus", None), ("local", None), (None, None)]
)
def test_the_zone_of_the_machine_goes_with_the_prompt_if_it_is_one_that_everybody_knows(
    dsh_time: CommandLine, monkeypatch: pytest.MonkeyPatch, found: str | None, zone: str | None
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: found)
    dsh_time("run", "hi")
    said = [message for message in payloads(only_session(dsh_time), UserMessage) if message.source["kind"] == "user"]
    assert [message.source.get("clientTimeZone") for message in said] == [zone]
