"""The host's own folds: what the model sees, the request header, the inbox, turns, gaps, children, the user's zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import ClassVar, Final, Self

from attrs import evolve, field, frozen

from dsh_hookspecs import (
    MODEL_VISIBLE,
    TOOL_OUTCOME_UNKNOWN,
    AssistantMessage,
    ChatMessage,
    ContextMessage,
    Event,
    Fold,
    Header,
    InboxEntry,
    InboxSpliced,
    ModelVisible,
    Payload,
    Rendered,
    RequestHeader,
    RequestHeaderDelta,
    SessionSpawned,
    SteeringMessage,
    StepEnd,
    StepStart,
    SurfaceReplace,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_hookspecs.timefmt import instant_at

from .request import apply_delta
from .vector import Vector

#: What the model reads where the log holds no result of a call and no crash repair has given one.
MISSING_RESULT: Final = f"{TOOL_OUTCOME_UNKNOWN}: the log holds no result of this call."


def visible_message(data: ModelVisible) -> ChatMessage:
    """Return the message that a model-visible event puts on the surface."""
    return data.message if isinstance(data, AssistantMessage | ToolResult) else data


@frozen
class Surface:
    """The messages a model sees, in order.

    Whatever the log's history, they are what a strict chat API accepts: each tool call is followed directly by one
    result, and no result stands without its call. A real result takes the place of one that stood in for it.
    """

    reads: ClassVar[tuple[type[Payload], ...]] = MODEL_VISIBLE

    messages: Vector[ChatMessage] = field(factory=Vector)
    #: The event that put each message there, parallel to `messages`.
    seqs: Vector[int] = field(factory=Vector)
    #: Calls of the last assistant message that have no result yet, in the model's order.
    unanswered: tuple[str, ...] = ()
    #: Where a result stands in for a real one that may still come: index in `messages` by call id.
    stand_ins: Mapping[str, int] = field(factory=dict)

    def apply(self, event: Event) -> Self:
        """Put the event's message at the end, or where its `surfaceOp` says."""
        data = event.data
        assert isinstance(data, ModelVisible)
        if isinstance(data, ToolResult) and data.issuer == "user":
            return self
        message = visible_message(data)
        if event.replaces is not None and (span := self._positions(event.replaces)) is not None:
            return self._replaced(*span, message, event.seq)
        if isinstance(data, ToolResult):
            return self._with_result(message, event.seq, data.result.id, stands_in=data.stands_in)
        if not message.content:
            return self
        state = self
        for call in self.unanswered:
            state = state._with_result(_missing_result(call), event.seq, call, stands_in=True)
        return state._with(message, event.seq, _call_ids(message))

    def _with(self, message: ChatMessage, seq: int, unanswered: tuple[str, ...]) -> Self:
        return type(self)(self.messages.append(message), self.seqs.append(seq), unanswered, self.stand_ins)

    def _with_result(self, message: ChatMessage, seq: int, call: str, *, stands_in: bool) -> Self:
        """Answer `call`; a result without a call, or a second one, does not reach the model."""
        if call in self.unanswered:
            state = self._with(message, seq, tuple(c for c in self.unanswered if c != call))
            return evolve(state, stand_ins={**self.stand_ins, call: len(self.messages)}) if stands_in else state
        if stands_in or call not in self.stand_ins:
            return self
        index = self.stand_ins[call]
        messages, seqs = self.messages.to_list(), self.seqs.to_list()
        messages[index], seqs[index] = message, seq
        remaining = {other: at for other, at in self.stand_ins.items() if other != call}
        return type(self)(Vector(messages), Vector(seqs), self.unanswered, remaining)

    def _positions(self, span: SurfaceReplace) -> tuple[int, int] | None:
        """Where the span's first and last message stand; None when it does not name messages of this surface."""
        seqs = self.seqs.to_list()
        if span.start not in seqs or span.end not in seqs:
            return None
        first, last = seqs.index(span.start), len(seqs) - 1 - seqs[::-1].index(span.end)
        return (first, last) if first <= last else None

    def _replaced(self, first: int, last: int, message: ChatMessage, seq: int) -> Self:
        """Put `message` in place of a span, and pair calls with results anew, which the span may have parted."""
        messages, seqs = self.messages.to_list(), self.seqs.to_list()
        messages[first : last + 1], seqs[first : last + 1] = ([message], [seq]) if message.content else ([], [])
        results = {call: (m, s) for m, s in zip(messages, seqs, strict=True) if (call := _result_id(m)) is not None}
        state = type(self)()
        for m, s in zip(messages, seqs, strict=True):
            if _result_id(m) is not None:
                continue
            calls = _call_ids(m)
            state = state._with(m, s, calls)
            for call in calls:
                if call in self.unanswered:
                    continue
                result, result_seq = results.get(call, (_missing_result(call), s))
                stands_in = call in self.stand_ins or call not in results
                state = state._with_result(result, result_seq, call, stands_in=stands_in)
        return state


def _call_ids(message: ChatMessage) -> tuple[str, ...]:
    return tuple(block.id for block in message.content if isinstance(block, ToolCallBlock))


def _result_id(message: ChatMessage) -> str | None:
    block = message.content[0]
    return block.id if isinstance(block, ToolResultBlock) else None


def _missing_result(call: str) -> ChatMessage:
    block = ToolResultBlock(id=call, text=MISSING_RESULT, is_error=True)
    return ChatMessage(id=f"missing-{call}", role="tool", content=(block,), source={"kind": "tool"})


@frozen
class HeaderState:
    """The header of the last request, and for each of its sections when its text last changed."""

    reads: ClassVar[tuple[type[Payload], ...]] = (TurnStart, RequestHeader, RequestHeaderDelta)

    header: Header | None = None
    #: By section name: its text, and the turn and logged time (epoch ms) of the event that last changed it.
    rendered: Mapping[str, tuple[str, int, int]] = field(factory=dict)
    turn: int = 0

    def apply(self, event: Event) -> Self:
        """Take a snapshot, or apply a change to the last one."""
        data = event.data
        if isinstance(data, TurnStart):
            return type(self)(self.header, self.rendered, data.turn)
        if isinstance(data, RequestHeader):
            header = data.header
        else:
            assert isinstance(data, RequestHeaderDelta)
            header = apply_delta(self.header or Header(), data)
        rendered = {
            section.name: old
            if (old := self.rendered.get(section.name)) is not None and old[0] == section.text
            else (section.text, self.turn, event.time)
            for section in header.system
        }
        return evolve(self, header=header, rendered=rendered)

    def previous(self, section: str) -> Rendered | None:
        """Return how the last request had `section`; None when it had none of that name."""
        if (found := self.rendered.get(section)) is None:
            return None
        text, turn, changed_at = found
        return Rendered(text=text, turn=turn, changed_at=instant_at(changed_at))


@frozen
class Inbox:
    """Messages that wait: prompts for the next turns, and steers and injects for the next step."""

    reads: ClassVar[tuple[type[Payload], ...]] = (InboxSpliced, UserMessage, SteeringMessage, ContextMessage)

    next_turn: tuple[InboxEntry, ...] = ()
    next_step: tuple[InboxEntry, ...] = ()
    #: Claimed, and not logged as messages yet. Both stand in one batch, but a crash can part them.
    claimed: tuple[InboxEntry, ...] = ()

    def apply(self, event: Event) -> Self:
        """Splice the list that the event names; see which claimed entries became messages."""
        data = event.data
        if not isinstance(data, InboxSpliced):
            assert isinstance(data, UserMessage | SteeringMessage | ContextMessage)
            return self._without_claimed({data.id}) if self.claimed else self
        state = self._without_claimed({entry.message.id for entry in data.inserted})
        if data.target == "next-turn":
            left, removed = _spliced(self.next_turn, data)
            state = evolve(state, next_turn=left)
        else:
            left, removed = _spliced(self.next_step, data)
            state = evolve(state, next_step=left)
        return state if data.outcome is not None else evolve(state, claimed=(*state.claimed, *removed))

    @property
    def steered(self) -> bool:
        """Whether a steer waits."""
        return any(entry.delivery == "steer" for entry in self.next_step)

    def _without_claimed(self, ids: Set[str]) -> Self:
        return evolve(self, claimed=tuple(entry for entry in self.claimed if entry.message.id not in ids))


def _spliced(
    entries: tuple[InboxEntry, ...], splice: InboxSpliced
) -> tuple[tuple[InboxEntry, ...], tuple[InboxEntry, ...]]:
    """Return the list after the splice, and what it removed."""
    start = max(splice.start, 0)
    end = start + max(splice.removed_count, 0)
    return entries[:start] + splice.inserted + entries[end:], entries[start:end]


@frozen
class Turns:
    """The newest turn: whether it is open, where it began, and which calls of its newest step have no result yet."""

    reads: ClassVar[tuple[type[Payload], ...]] = (
        TurnStart,
        TurnEnd,
        StepStart,
        StepEnd,
        AssistantMessage,
        ToolCall,
        ToolResult,
    )

    turn: int = 0
    open: bool = False
    #: `seq` of the newest `turn/start`.
    started_at: int = -1
    step: int = 0
    step_open: bool = False
    #: Calls the model asked for in this step that have no result, in its order.
    unanswered: tuple[ToolCallBlock, ...] = ()
    #: Those of them, by id, that have a `tool/call`.
    started: tuple[str, ...] = ()

    def apply(self, event: Event) -> Self:
        """Follow the turn's events."""
        match event.data:
            case TurnStart(turn=turn):
                return type(self)(turn=turn, open=True, started_at=event.seq)
            case TurnEnd():
                return type(self)(turn=self.turn, started_at=self.started_at, step=self.step)
            case StepStart(step=step):
                return type(self)(self.turn, self.open, self.started_at, step, step_open=True)
            case StepEnd():
                return type(self)(self.turn, self.open, self.started_at, self.step)
            case AssistantMessage(message=message, interrupted=False):
                calls = tuple(block for block in message.content if isinstance(block, ToolCallBlock))
                return self._with(calls, ()) if calls or self.unanswered else self
            case ToolCall(id=call, issuer="model"):
                return self._with(self.unanswered, (*self.started, call))
            case ToolResult(issuer="model") as data:
                call = data.result.id
                return self._with(tuple(block for block in self.unanswered if block.id != call), self.started)
        return self

    def _with(self, unanswered: tuple[ToolCallBlock, ...], started: tuple[str, ...]) -> Self:
        return type(self)(self.turn, self.open, self.started_at, self.step, self.step_open, unanswered, started)


@frozen
class Baseline:
    """When the newest model-visible message was logged, and which was the newest before the current turn.

    Messages that replaced others and results of calls by a user do not count.
    """

    reads: ClassVar[tuple[type[Payload], ...]] = (*MODEL_VISIBLE, TurnStart)

    #: Epoch ms; None: no message yet.
    newest: int | None = None
    before_turn: int | None = None

    def apply(self, event: Event) -> Self:
        """Note the time of a message, or that a turn starts."""
        if isinstance(event.data, TurnStart):
            return type(self)(self.newest, before_turn=self.newest)
        by_user = isinstance(event.data, ToolResult) and event.data.issuer == "user"
        return self if by_user or event.replaces is not None else type(self)(event.time, self.before_turn)


@frozen
class Children:
    """The child sessions this one made, in that order. Whether they are its children, their headers say."""

    reads: ClassVar[tuple[type[Payload], ...]] = (SessionSpawned,)

    ids: Vector[str] = field(factory=Vector)

    def apply(self, event: Event) -> Self:
        """Note a child."""
        assert isinstance(event.data, SessionSpawned)
        return type(self)(self.ids.append(event.data.id))


@frozen
class ClientZone:
    """The zone that the user's newest message with one carried, as it was given; None: none did."""

    reads: ClassVar[tuple[type[Payload], ...]] = (UserMessage, SteeringMessage)

    name: str | None = None

    def apply(self, event: Event) -> Self:
        """Look at a message of the user."""
        assert isinstance(event.data, UserMessage | SteeringMessage)
        zone = event.data.source.get("clientTimeZone")
        return type(self)(zone) if event.data.source.get("kind") == "user" and isinstance(zone, str) else self


#: Registered with every session, before any plugin's.
HOST_FOLDS: Final[Sequence[type[Fold]]] = (Surface, HeaderState, Inbox, Turns, Baseline, Children, ClientZone)
