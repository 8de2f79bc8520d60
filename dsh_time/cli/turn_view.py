"""Shows a turn while it happens: the answer as it is streamed, and one line for whatever else goes on."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from dsh_hookspecs import (
    AssistantMessage,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    Usage,
    UserMessage,
)
from dsh_time.recorder import AgentEvent

from .output import complain, note, say

_SHOWN_CHARACTERS = 200


def _print_piece(text: str) -> None:
    say(text, newline=False)


@define
class TurnView:
    """A listener for `Agent.subscribe`.

    `print_piece` prints a piece of the answer. `quiet`: nothing is printed; only `usage` is kept, the tokens of each
    turn as far as the provider counts them.
    """

    quiet: bool = False
    print_piece: Callable[[str], None] = _print_piece
    usage: dict[int, Usage] = field(factory=dict, init=False)
    _line_is_open: bool = field(default=False, init=False)
    _thinks: bool = field(default=False, init=False)

    def __call__(self, event: AgentEvent) -> None:
        """Take the next event of the agent."""
        match getattr(event, "data", event):
            case AssistantMessage(turn=turn, usage=Usage() as usage):
                self.usage[turn] = _sum(self.usage.get(turn, Usage()), usage)
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
            case TurnEnd(reason=reason) if reason.kind != "completed":
                self._end_line()
                tell = note if reason.kind == "aborted" else complain
                tell(describe_end(reason))

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


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_tokens + other.cached_tokens,
        one.output_tokens + other.output_tokens,
    )
