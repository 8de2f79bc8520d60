"""What a turn took: tokens and time, from its events. `run`, `chat` and `show` say the same of it."""

from __future__ import annotations

from attrs import define

from dsh_hookspecs import AssistantMessage, Event, TurnEnd, TurnStart, Usage


@define
class TurnFigures:
    """The figures of one turn, whose events are given to `take` in order.

    `usage`: tokens of all its requests, None while no provider counted any. `first_output_ms`: from sending the first
    request to the first piece of its answer, with all retries; None while there is none. `total_ms`: the whole turn,
    by the log's clock, not below 0.
    """

    usage: Usage | None = None
    first_output_ms: int | None = None
    total_ms: int = 0
    _started_at: int = 0

    def take(self, event: Event) -> None:
        """Take the turn's next event."""
        match event.data:
            case TurnStart():
                self._started_at = event.time
            case AssistantMessage(usage=usage, timing=timing):
                self.usage = _sum(self.usage, usage)
                if self.first_output_ms is None and timing is not None:
                    self.first_output_ms = timing.first_output_ms
            case TurnEnd():
                self.total_ms = max(event.time - self._started_at, 0)

    def __str__(self) -> str:
        parts = [_tokens(self.usage)]
        if self.first_output_ms is not None:
            parts.append(f"first output after {self.first_output_ms / 1000:.1f} s")
        return " · ".join([*parts, f"{self.total_ms / 1000:.1f} s"])

    def to_json(self) -> dict[str, object]:
        """Return what `run --json` says of them; times in seconds."""
        usage, first = self.usage, self.first_output_ms
        return {
            "usage": usage
            and {
                "inputTokens": usage.input_tokens,
                "cachedTokens": usage.cached_tokens,
                "outputTokens": usage.output_tokens,
            },
            "firstOutputSeconds": None if first is None else first / 1000,
            "seconds": self.total_ms / 1000,
        }


def _sum(usage: Usage | None, more: Usage | None) -> Usage | None:
    if usage is None or more is None:
        return usage or more
    return Usage(
        input_tokens=usage.input_tokens + more.input_tokens,
        cached_tokens=usage.cached_tokens + more.cached_tokens,
        output_tokens=usage.output_tokens + more.output_tokens,
    )


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return "tokens not counted"
    share = f", {usage.cached_tokens / usage.input_tokens:.0%}" if usage.input_tokens else ""
    return f"tokens: {usage.input_tokens} input ({usage.cached_tokens} cached{share}), {usage.output_tokens} output"
