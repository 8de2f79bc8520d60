"""The loop of `chat`. Lines are read all the time, also while a turn runs, and what is printed stands above them.

An answer is printed line by line; its line that is not complete yet is shown as the upper part of the prompt.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.search import stop_search
from rich.cells import chop_cells

from dsh_hookspecs import Event, TurnStart
from dsh_time.agent import Agent
from dsh_time.errors import DshTimeError
from dsh_time.harness import Harness
from dsh_time.recorder import AgentEvent
from dsh_time.text import safe_line, safe_text

from .output import complain, note, say
from .plugins import say_plugins
from .turn_view import TurnView

_HELP = """\
/plugins        list the plugins
/enable X       enable the plugin X, from the next step on
/disable X      disable it
/swap A B       disable A and enable B in one go
/steer TEXT     say something to the running turn: its next step sees it
/help           list the commands
/quit           leave, like Ctrl-D

Everything else is a prompt; while a turn runs, it waits for the next one. To send a line that begins with /, put a
blank before it. Ctrl-C cancels the turn."""

_REFRESH_S = 1.0
_PENDING_LINES = 8
_STATUS_CHARACTERS = 120  #: of one plugin's part of the line at the bottom


class Chat:
    """A conversation with one agent. `time_zone` is the user's, None when it is not known."""

    def __init__(self, harness: Harness, agent: Agent, time_zone: str | None, history: History) -> None:
        self._harness = harness
        self._agent = agent
        self._time_zone = time_zone
        self._view = TurnView(print_piece=self._print_piece)
        #: The answer's last line as far as it has come.
        self._pending = ""
        #: When the running turn began, by `time.monotonic`.
        self._started = 0.0
        #: Whether the running turn was cancelled; what it has started is still waited for.
        self._cancelled = False
        self._prompts: PromptSession[str] = PromptSession(
            self._message,
            history=history,
            key_bindings=self._keys(),
            bottom_toolbar=self._toolbar,
            refresh_interval=_REFRESH_S,
        )

    async def run(self) -> None:
        """Read lines and do what they say until the user leaves."""
        end = self._agent.subscribe(self._listen)
        try:
            with patch_stdout(raw=True):  # raw: our own colours pass, and everything else went through safe_text
                note(f"Session {self._agent.id}. /help lists the commands, Ctrl-D leaves.")
                while (line := await self._read()) is not None and self._do(line):
                    pass
        finally:
            end()

    async def _read(self) -> str | None:
        try:
            return await self._prompts.prompt_async()
        except EOFError:
            return None

    def _do(self, line: str) -> bool:
        """Do what a line says. False: leave."""
        try:
            return self._command(line) if line.startswith("/") else self._prompt(line)
        except DshTimeError as error:
            complain(str(error))
            return True

    def _prompt(self, line: str) -> bool:
        if line.strip():
            if self._agent.busy:
                note("This waits for the next turn. `/steer TEXT` would reach the running one.")
            self._agent.followup(line.strip(), client_time_zone=self._time_zone)
        return True

    def _command(self, line: str) -> bool:
        plugins = self._harness.plugins
        match line.split():
            case ["/quit"]:
                return False
            case ["/help"]:
                say(_HELP)
            case ["/plugins"]:
                say_plugins(plugins.statuses())
            case ["/enable", word]:
                plugins.enable(word)
                note(f"{word} is enabled from the next step on.")
            case ["/disable", word]:
                plugins.disable(word)
                note(f"{word} is disabled from the next step on.")
            case ["/swap", out, into]:
                plugins.swap(out, into)
                note(f"{into} takes the place of {out} from the next step on.")
            case ["/steer", _, *_]:
                self._agent.steer(line.removeprefix("/steer").strip(), client_time_zone=self._time_zone)
            case [command, *_]:
                usage = next((line for line in _HELP.splitlines() if line.split()[:1] == [command]), None)
                unknown = f"There is no {command}. /help lists what there is."
                complain(f"It goes like this: {usage}" if usage else unknown)
        return True

    def _listen(self, event: AgentEvent) -> None:
        if isinstance(event, Event) and isinstance(event.data, TurnStart):
            self._started, self._cancelled = time.monotonic(), False
        self._view(event)
        self._prompts.app.invalidate()

    def _print_piece(self, text: str) -> None:
        complete, newline, self._pending = (self._pending + text).rpartition("\n")
        if newline:
            say(complete)

    # What is shown around the line that is typed

    def _message(self) -> StyleAndTextTuples:
        mark = ("bold", "> ")
        if not self._pending or get_app().is_done:  # what is left on the screen has no half lines
            return [mark]
        columns = self._prompts.output.get_size().columns
        shown = chop_cells(safe_text(self._pending).expandtabs(), max(columns - 1, 1))[-_PENDING_LINES:]
        return [("", "\n".join(shown) + "\n"), mark]

    def _toolbar(self) -> StyleAndTextTuples:
        """The line at the bottom, drawn anew with each event and each second; what plugins show there can tick."""
        plugins = ", ".join(plugin.id for plugin in self._harness.plugins.loadout.plugins) or "no plugins"
        state = "ready"
        if self._agent.busy:
            way = "cancelled, waiting for what has started" if self._cancelled else "Ctrl-C cancels"
            state = f"working for {time.monotonic() - self._started:.0f} s, {way}"
        shown = [safe_line(line, _STATUS_CHARACTERS) for line in self._agent.status_lines()]
        return [("", f" {' | '.join([self._agent.id, plugins, state, *shown])} ")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if event.app.layout.is_searching:
                stop_search()
            elif self._agent.busy:
                self._agent.cancel()
                self._cancelled = True
            else:
                event.current_buffer.reset()

        @keys.add(Keys.Vt100MouseEvent)
        def _(event: KeyPressEvent) -> None:
            """Take nothing for a click: the library's own binding fails at colours in text that is pasted plainly."""

        return keys


def open_history(path: Path) -> History:
    """Return what was typed before, kept in a file that only its owner can read; in memory when that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        note(f"What you type is not kept: {path}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(path)
