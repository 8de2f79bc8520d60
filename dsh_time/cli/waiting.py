"""Shows, at a terminal, what `run` is waiting for and for how long: one line, gone when something is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import define, field

from dsh_hookspecs import Finished, ReasoningDelta, Retrying, TextDelta, ToolCall, ToolCallDelta, TurnEnd
from dsh_time.recorder import AgentEvent
from dsh_time.text import safe_line

if TYPE_CHECKING:
    from rich.progress import Progress


@define
class WaitingLine:
    """The line. `hidden`: there is no terminal to show it on."""

    hidden: bool
    _shown: str = field(default="", init=False)
    _progress: Progress | None = field(default=None, init=False)

    @contextmanager
    def broken_off(self, event: AgentEvent) -> Iterator[None]:
        """Take the line away while `event` is printed, then show what is waited for after it.

        A run of equal pieces of a stream, of which nothing is printed, leaves the line and its clock alone.
        """
        awaited = _awaited(event)
        if awaited and awaited == self._shown and isinstance(event, ReasoningDelta | ToolCallDelta):
            yield
            return
        self.stop()
        yield
        if awaited and not self.hidden:
            self._start(awaited)

    def _start(self, awaited: str) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.add_task(awaited, total=None)
        self._progress.start()
        self._shown = awaited

    def stop(self) -> None:
        """Take the line away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress, self._shown = None, ""


@contextmanager
def waiting_line() -> Iterator[WaitingLine]:
    """Give the line of standard error, and take it away in the end."""
    line = WaitingLine(hidden=not sys.stderr.isatty())
    try:
        yield line
    finally:
        line.stop()


def _awaited(event: AgentEvent) -> str:
    """What is waited for after an event; nothing while text comes, or at the end."""
    match getattr(event, "data", event):
        case TurnEnd() | TextDelta() | Finished():
            return ""
        case Retrying():
            return "waiting to ask the model again"
        case ReasoningDelta():
            return "waiting for the model, which thinks"
        case ToolCallDelta():
            return "waiting for the model, which writes a tool call"
        case ToolCall(name=name):
            return f"waiting for the tool {safe_line(name, 40)}"
    return "waiting"
