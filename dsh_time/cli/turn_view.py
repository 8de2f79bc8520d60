"""Shows a turn while it happens: the answer as it is streamed, and one line for whatever else goes on."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from dsh_hookspecs import (
    AssistantMessage,
    Event,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from dsh_time.recorder import AgentEvent

from .output import complain, note, say
from .turn_figures import TurnFigures

_SHOWN_CHARACTERS = 200


def _print_piece(text: str) -> None:
    say(text, newline=False)


@define
class TurnView:
    """A listener for `Agent.subscribe`.

    `print_piece` prints a piece of the answer. `quiet`: nothing is printed. `figures` are those of each turn.
    """

    quiet: bool = False
    print_piece: Callable[[str], None] = _print_piece
    figures: dict[int, TurnFigures] = field(factory=dict, init=False)
    _turn: int = field(default=0, init=False)
    _line_is_open: bool = field(default=False, init=False)
    _thinks: bool = field(default=False, init=False)

    def __call__(self, event: AgentEvent) -> None:
        """Take the next event of the agent."""
        if isinstance(event, Event):
            if isinstance(event.data, TurnStart):
                self._turn = event.data.turn
            self.figures.setdefault(self._turn, TurnFigures()).take(event)
        if not self.quiet:
            self._show(event)

    def _show(self, event: AgentEvent) -> None:
        match getattr(event, "data", event):
            case TextDelta(text=text) if text:
                self.print_piece(text)
                self._line_is_open = not text.endswith("\n")
            case ReasoningDelta() if not self._thinks:
                self._thinks = True
                self._remark("thinking …")
            case Retrying(attempt=attempt, delay_s=delay, reason=reason):
                self._remark(f"attempt {attempt} in {delay:.1f} s: {reason}")
            case AssistantMessage():
                self._end_line()
                self._thinks = False
            case ToolCall(name=name, arguments=arguments):
                self._remark(f"call {name} {arguments}")
            case ToolResult() as result:
                self._remark(f"{'failed' if result.error else 'result'}: {result.result.text}")
            case UserMessage(source=source) as message if source.get("kind") != "user":
                self._remark(f"{source.get('kind')}: {source.get('summary') or message.text}")
            case TurnEnd(turn=turn, reason=reason):
                self._end_line()
                if reason.kind != "completed":
                    tell = note if reason.kind == "aborted" else complain
                    tell(describe_end(reason))
                note(f"Turn {turn} · {self.figures[turn]}")

    def _remark(self, text: str) -> None:
        self._end_line()
        note(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")

    def _end_line(self) -> None:
        if self._line_is_open:
            self.print_piece("\n")
            self._line_is_open = False


def describe_end(reason: TurnEndReason) -> str:
    """Say why a turn ended that was not completed."""
    match reason.kind:
        case "rejected":
            return f"the turn was rejected by the plugin {reason.plugin}: {reason.reason}"
        case "error":
            return f"the turn ended with {reason.type}: {reason.message}"
        case "aborted":
            return f"the turn was cancelled ({reason.reason})" if reason.reason else "the turn was cancelled"
        case "max-tokens":
            return "the answer was cut off at the model's token limit"
        case "max-steps":
            return "the turn reached its limit of steps (`limits: {maxSteps: …}` in the deployment)"
    return f"the turn ended: {reason.kind}"
