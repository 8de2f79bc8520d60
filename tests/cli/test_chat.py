"""`chat`: what a person types, also while an answer is streamed, and what they see of it."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from attrs import define, field, frozen
from msgspec import Struct
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from dsh_hookspecs import Section, SteeringMessage, Tool, ToolContext, TurnEnd, UserMessage, hookimpl
from dsh_time.agent import Agent
from dsh_time.cli.chat_loop import Chat, open_history
from dsh_time.models.scripted import Played, ScriptedModel, call, pause, say

from ..kit import make_harness, payloads, plugin_host, types
from .conftest import SCRIPT
from .terminals import TIMEOUT_S, read_until, terminal


@define(eq=False)
class Screen(DummyOutput):
    """Keeps whatever is written, and wakes who waits for some of it."""

    seen: str = ""
    _grew: asyncio.Event = field(factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop)

    def write(self, data: str) -> None:
        self.seen += data
        self._loop.call_soon_threadsafe(self._grew.set)

    def write_raw(self, data: str) -> None:
        self.write(data)

    async def until(self, text: str) -> None:
        """Wait until `text` has been written, and forget everything up to its end."""
        while text not in self.seen:
            self._grew.clear()
            try:
                await asyncio.wait_for(self._grew.wait(), TIMEOUT_S)
            except TimeoutError:
                pytest.fail(f"{text!r} did not come; there was {self.seen!r}")
        self.seen = self.seen.partition(text)[2]


@frozen(eq=False)
class Conversation:
    chat: Chat
    agent: Agent
    model: ScriptedModel
    screen: Screen
    keyboard: PipeInput

    def type(self, *lines: str) -> None:
        self.keyboard.send_text("".join(f"{line}\r" for line in lines))

    def systems(self) -> list[list[str]]:
        """The names of the system sections of each request."""
        return [[section.name for section in sent.request.header.system] for sent in self.model.requests]


@frozen(eq=False)
class Sundial:
    @hookimpl
    def system_prompt_section(self) -> Section:
        return Section("sundial", 10, "It is day.")


class Baking(Struct, frozen=True):
    """No arguments."""


@frozen(eq=False)
class Oven:
    """Offers a tool that takes as long as `done` is not set."""

    done: ClassVar[asyncio.Event]

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("bake", "Bake.", Baking, self._bake)]

    async def _bake(self, _: Baking, __: ToolContext) -> str:
        await self.done.wait()
        return "baked"


@frozen(eq=False)
class Hourglass:
    @hookimpl
    def system_prompt_section(self) -> Section:
        return Section("hourglass", 10, "An hour went by.")

    @hookimpl
    def status_line(self) -> str:
        return "sand: 3\x1b[31mm"


CLOCKS = {"dsh-sundial": Sundial, "dsh-hourglass": Hourglass, "dsh-oven": Oven}


@asynccontextmanager
async def conversation(root: Path, *answers: Played, enable: list[str] | None = None) -> AsyncIterator[Conversation]:
    """A chat that runs until the end of the block, where Ctrl-D is typed and it must leave."""
    model = ScriptedModel(*answers)
    screen = Screen()
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=screen):
        async with make_harness(root, model=model, plugins=plugin_host(CLOCKS, enable=enable or [])) as harness:
            agent = harness.create("one")
            chat = Chat(harness, agent, "Asia/Shanghai", InMemoryHistory())
            running = asyncio.get_running_loop().create_task(chat.run())
            await screen.until("Session one. /help lists the commands, Ctrl-D leaves.")
            try:
                yield Conversation(chat, agent, model, screen, keyboard)
            finally:
                keyboard.send_text("\x04")
                await asyncio.wait_for(running, TIMEOUT_S)


async def test_a_line_is_a_prompt_and_its_answer_is_printed_safely(tmp_path: Path) -> None:
    async with conversation(tmp_path, say("Good\x1b]0;x\x07\n", "[b]morning")) as talk:
        talk.type("hello", "  ")
        await talk.screen.until("Good\\x1b]0;x\\x07\n")
        await talk.screen.until("[b]morning\n")
        await talk.agent.idle()
    [prompt] = payloads(tmp_path / "one", UserMessage)
    assert (prompt.text, prompt.source["clientTimeZone"]) == ("hello", "Asia/Shanghai")


async def test_the_unfinished_line_of_an_answer_is_shown_above_what_is_typed(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with conversation(tmp_path, say("not yet \x1b") + pause(release) + say("done")) as talk:
        talk.type("hello")
        await talk.screen.until("not yet \\x1b")
        assert talk.agent.busy
        release.set()
        await talk.screen.until("not yet \\x1bdone\n")


async def test_a_steer_reaches_the_turn_that_runs(tmp_path: Path) -> None:
    release, reached = asyncio.Event(), asyncio.Event()
    async with conversation(tmp_path, say("one") + pause(release, reached), say("two")) as talk:
        talk.type("hello")
        await reached.wait()
        talk.agent.subscribe(lambda _: release.set())  # the next event is that the steer waits
        talk.type("/steer  be brief")
        await talk.screen.until("two\n")
        await talk.agent.idle()
    [steer] = payloads(tmp_path / "one", SteeringMessage)
    assert steer.text == "be brief"
    assert types(tmp_path / "one").count("turn/start") == 1


async def test_a_prompt_that_is_typed_while_a_turn_runs_waits_for_the_next_one(tmp_path: Path) -> None:
    release, reached = asyncio.Event(), asyncio.Event()
    async with conversation(tmp_path, say("one") + pause(release, reached), say("two")) as talk:
        talk.type("hello")
        await reached.wait()
        talk.type("and then?")
        await talk.screen.until("This waits for the next turn.")
        release.set()
        await talk.screen.until("two\n")
        await talk.agent.idle()
    assert types(tmp_path / "one").count("turn/start") == 2


async def test_plugins_that_are_swapped_while_a_turn_runs_take_effect_with_its_next_step(tmp_path: Path) -> None:
    release, reached = asyncio.Event(), asyncio.Event()
    first = call("nothing") + pause(release, reached)
    async with conversation(tmp_path, first, say("two"), say("three"), enable=["sundial"]) as talk:
        talk.type("hello")
        await reached.wait()
        talk.type("/swap sundial hourglass")
        await talk.screen.until("hourglass takes the place of sundial from the next step on.")
        release.set()
        await talk.screen.until("two\n")
        await talk.agent.idle()
        talk.type("/disable hourglass", "/enable sundial")
        await talk.screen.until("sundial is enabled from the next step on.")
        talk.type("again")
        await talk.screen.until("three\n")
        assert talk.systems() == [["sundial"], ["hourglass"], ["sundial"]]


async def test_ctrl_c_cancels_the_turn_and_keeps_what_is_being_typed(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with conversation(tmp_path, say("as far as") + pause(asyncio.Event(), reached), say("two")) as talk:
        talk.type("hello")
        await reached.wait()
        talk.keyboard.send_text("what \x03now?\r")
        await talk.screen.until("the turn was cancelled (user)")
        await talk.screen.until("two\n")
        await talk.agent.idle()
    assert [prompt.text for prompt in payloads(tmp_path / "one", UserMessage)] == ["hello", "what now?"]
    assert [end.reason.kind for end in payloads(tmp_path / "one", TurnEnd)] == ["aborted", "completed"]


async def test_ctrl_c_shows_that_it_was_taken_while_a_tool_is_waited_for(tmp_path: Path) -> None:
    Oven.done = asyncio.Event()
    async with conversation(tmp_path, call("bake"), enable=["oven"]) as talk:
        talk.type("hello")
        await talk.screen.until("call bake")
        talk.keyboard.send_text("\x03")
        await talk.screen.until("cancelled, waiting for what has started")
        Oven.done.set()
        await talk.screen.until("the turn was cancelled (user)")


async def test_ctrl_c_without_a_turn_empties_the_line(tmp_path: Path) -> None:
    async with conversation(tmp_path, say("two")) as talk:
        talk.keyboard.send_text("oh no\x03yes\r")
        await talk.screen.until("two\n")
        await talk.agent.idle()
    assert [prompt.text for prompt in payloads(tmp_path / "one", UserMessage)] == ["yes"]


async def test_ctrl_c_while_the_history_is_searched_leaves_the_search(tmp_path: Path) -> None:
    async with conversation(tmp_path, say("two")) as talk:
        talk.keyboard.send_text("\x12no such line\x03yes\r")
        await talk.screen.until("two\n")
        await talk.agent.idle()
    assert [prompt.text for prompt in payloads(tmp_path / "one", UserMessage)] == ["yes"]


async def test_colours_in_text_that_is_pasted_plainly_do_not_stop_the_chat(tmp_path: Path) -> None:
    """Terminals without bracketed paste send them as keys, and they look like a click that says no place."""
    async with conversation(tmp_path, say("done")) as talk:
        talk.type("a\x1b[31mred")
        await talk.screen.until("done")
    assert talk.model.requests[0].request.messages[-1].text == "ared"


async def test_leaving_cancels_the_turn_that_runs(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with conversation(tmp_path, say("as far as") + pause(asyncio.Event(), reached)) as talk:
        talk.type("hello")
        await reached.wait()
        talk.type("/quit")
    assert [end.reason.reason for end in payloads(tmp_path / "one", TurnEnd)] == ["closed"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/help", "/swap A B       disable A and enable B in one go"),
        (
            "/plugins",
            "dsh-hourglass      1.0      enabled        --enable hourglass                   system_prompt_section, ",
        ),
        ("/frobnicate", "Error: There is no /frobnicate. /help lists what there is."),
        ("/enable", "Error: It goes like this: /enable X       enable the plugin X, from the next step on"),
        ("/help me", "Error: It goes like this: /help           list the commands"),
        ("/enable sundail", "there is no plugin 'sundail'; did you mean sundial?"),
        ("/steer", "Error: It goes like this: /steer TEXT "),
    ],
)
async def test_commands_answer_and_a_wrong_one_changes_nothing(tmp_path: Path, line: str, said: str) -> None:
    async with conversation(tmp_path, say("still there"), enable=["sundial", "hourglass"]) as talk:
        talk.type(line)
        await talk.screen.until(said)
        talk.type(" /hello")
        await talk.screen.until("still there\n")
        await talk.agent.idle()
    assert [prompt.text for prompt in payloads(tmp_path / "one", UserMessage)] == ["/hello"]


async def test_the_toolbar_says_which_plugins_run_and_whether_a_turn_does(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with conversation(tmp_path, say("one") + pause(asyncio.Event(), reached), enable=["sundial"]) as talk:
        talk.type("/disable sundial")
        await talk.screen.until(" one | no plugins | ready ")
        talk.type("hello")
        await talk.screen.until(" one | no plugins | working for 0 s, Ctrl-C cancels ")


async def test_the_toolbar_shows_what_plugins_say_of_the_session_safely(tmp_path: Path) -> None:
    async with conversation(tmp_path, enable=["hourglass"]) as talk:
        talk.type("/help")  # draws it once more
        await talk.screen.until(r" one | hourglass | ready | sand: 3\x1b[31mm ")


# The history file


def test_what_was_typed_is_kept_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history"
    open_history(path).append_string("hello")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert list(open_history(path).load_history_strings()) == ["hello"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_file_that_is_a_link_or_cannot_be_made_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").touch()
    for path in (tmp_path / "link", tmp_path / "file" / "history"):
        assert isinstance(open_history(path), InMemoryHistory)
        assert f"What you type is not kept: {path}" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


# The whole command, at a terminal


@pytest.mark.process
def test_a_chat_at_a_terminal_tells_the_time_and_leaves_with_ctrl_d(tmp_path: Path) -> None:
    with terminal(SCRIPT, "--home", tmp_path / "home", "chat") as (keyboard, process):
        read_until(keyboard, "| time-reminder | ready")
        os.write(keyboard, b"What time is it?\r")
        read_until(keyboard, "(read in the reading of turn 1, step 1)")
        read_until(keyboard, "| ready")  # while something is printed, the terminal itself takes Ctrl-D
        os.write(keyboard, b"\x04")
        assert "to go on: --session" in read_until(keyboard, "to go on: --session")
        assert process.wait(TIMEOUT_S) == 0
    assert "+What time is it?" in (tmp_path / "home" / "history").read_text()
