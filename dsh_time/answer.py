"""Collects a model's stream into an answer, so that a prefix is there whenever the stream breaks off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field

from dsh_hookspecs import (
    Block,
    Finished,
    ModelDelta,
    ModelError,
    ReasoningBlock,
    ReasoningDelta,
    Retrying,
    StopReason,
    TextBlock,
    TextDelta,
    Timing,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
)

#: Characters of one answer. Its line in the log must stay below 8 MiB, and JSON writes a control character as six.
MAX_CHARACTERS: Final = 1_000_000


@define
class _Part:
    """One block under construction; `name` and `index` belong to tool calls, `replay` to reasoning."""

    kind: type[TextDelta] | type[ReasoningDelta] | type[ToolCallDelta]
    index: int = -1
    name: str = ""
    replay: str = ""
    pieces: list[str] = field(factory=list)


@define
class Answer:
    """What a model has said so far. `monotonic` gives seconds."""

    monotonic: Callable[[], float]
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    _parts: list[_Part] = field(factory=list, init=False)
    _characters: int = field(default=0, init=False)
    _started: float = field(init=False)
    _first_output: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._started = self.monotonic()

    def add(self, delta: ModelDelta) -> None:
        """Add one piece. Raises ModelError when the answer grows too long, and for what is no piece."""
        match delta:
            case Finished(stop_reason, usage):
                self.stop_reason, self.usage = stop_reason, usage
                return
            case Retrying():
                return
            case TextDelta(text):
                part, more = self._part(TextDelta), ""
            case ReasoningDelta(text, more):
                part = self._part(ReasoningDelta)
                part.replay += more
            case ToolCallDelta(index, more, text):
                part = self._part(ToolCallDelta, index)
                part.name += more
            case _:
                raise ModelError(f"The model's stream gave {type(delta).__name__}, which is no piece of an answer.")
        if self._first_output is None:
            self._first_output = self.monotonic()
        part.pieces.append(text)
        self._characters += len(text) + len(more) + 1
        if self._characters > MAX_CHARACTERS:
            raise ModelError(f"The answer is longer than {MAX_CHARACTERS:,} characters; lower the output token limit.")

    def _part(self, kind: type[TextDelta] | type[ReasoningDelta] | type[ToolCallDelta], index: int = -1) -> _Part:
        if kind is ToolCallDelta:
            for part in reversed(self._parts):
                if part.kind is kind and part.index == index:
                    return part
        elif self._parts and self._parts[-1].kind is kind:
            return self._parts[-1]
        self._parts.append(_Part(kind, index))
        return self._parts[-1]

    @property
    def timing(self) -> Timing:
        """How long the first output and the whole answer took."""
        now = self.monotonic()
        first = now if self._first_output is None else self._first_output
        return Timing(
            first_output_ms=round((first - self._started) * 1000), total_ms=round((now - self._started) * 1000)
        )

    def content(self, call_id: Callable[[int], str]) -> tuple[Block, ...]:
        """Return the blocks in the order they began, without empty text; `call_id(n)` names the n-th call, from 1."""
        blocks: list[Block] = []
        calls = 0
        for part in self._parts:
            text = "".join(part.pieces)
            if part.kind is ToolCallDelta:
                calls += 1
                blocks.append(ToolCallBlock(id=call_id(calls), name=part.name, arguments=text))
            elif part.kind is ReasoningDelta and (text or part.replay):
                blocks.append(ReasoningBlock(text=text, replay=part.replay))
            elif part.kind is TextDelta and text:
                blocks.append(TextBlock(text))
        return tuple(blocks)

    def prefix(self) -> tuple[Block, ...]:
        """Return what stays of an answer that broke off: text and reasoning. Its tool calls may lack a part."""
        return tuple(block for block in self.content(str) if not isinstance(block, ToolCallBlock))
