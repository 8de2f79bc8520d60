"""Collects a model's stream into an answer, so that a prefix is there whenever the stream breaks off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from attrs import define, field
from msgspec.structs import astuple

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

_STOP_REASONS: Final = get_args(StopReason)


def _shown(value: object) -> str:
    return repr(value)[:80]


def _checked(usage: object) -> Usage | None:
    """Return what a provider counted. Raises ModelError for what a log could not give back."""
    if usage is None:
        return None
    if not isinstance(usage, Usage) or not all(type(n) is int and abs(n) < 2**63 for n in astuple(usage)):
        raise ModelError(f"The model's stream counted its tokens as {_shown(usage)}, which are no whole numbers.")
    return usage


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
        """Add one piece. Raises ModelError when the answer grows too long, and for what is no piece.

        What raised is not part of the answer: the log has to hold what was said before it.
        """
        match delta:
            case Finished(stop_reason, usage):
                if stop_reason not in _STOP_REASONS:
                    raise ModelError(f"The model's stream ended with {_shown(stop_reason)}, which is no stop reason.")
                self.stop_reason, self.usage = stop_reason, _checked(usage)
            case Retrying():
                pass
            case TextDelta(text):
                self._grow(text)
                self._part(TextDelta).pieces.append(text)
            case ReasoningDelta(text, replay):
                self._grow(text, replay)
                part = self._part(ReasoningDelta)
                part.replay += replay
                part.pieces.append(text)
            case ToolCallDelta(index, name, text):
                self._grow(name, text)
                part = self._part(ToolCallDelta, index)
                part.name += name
                part.pieces.append(text)
            case _:
                raise ModelError(f"The model's stream gave {type(delta).__name__}, which is no piece of an answer.")

    def _grow(self, *texts: str) -> None:
        for text in texts:
            if not isinstance(text, str):
                raise ModelError(f"The model's stream gave {type(text).__name__} where a text belongs.")
        grown = self._characters + sum(map(len, texts)) + 1
        if grown > MAX_CHARACTERS:
            raise ModelError(f"The answer is longer than {MAX_CHARACTERS:,} characters; lower the output token limit.")
        self._characters = grown
        if self._first_output is None:
            self._first_output = self.monotonic()

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
