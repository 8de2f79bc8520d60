"""What the log says about time in a session: mode, readings, the user's zone, counters.

A call of the two tools counts once its result reports success, if the log says that this plugin owned the call; its
arguments go through the tools' own validator again. A reading counts by its source alone, which only the host sets;
no text is ever parsed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import ClassVar, Final, Self

import msgspec
from attrs import evolve, field, frozen

from dsh_hookspecs import (
    MODEL_VISIBLE,
    Event,
    Payload,
    Scalar,
    SteeringMessage,
    ToolCall,
    ToolError,
    ToolResult,
    ToolResultBlock,
    TurnStart,
    UserMessage,
)
from dsh_hookspecs.timefmt import InstantOutOfRange, instant_at, zone_names

from .counters import Counters, changed
from .journal import Journal, change_of
from .tools import TIME_COUNTER, TIME_MODE, Mode, TimeCounterArguments, TimeModeArguments, checked_mode

#: The plugin's name: `source.kind` of its messages and `owner` of its calls.
PLUGIN: Final = "dsh-time-reminder"

#: `source.form` of a reading, and of what tells of changes in a relative.
NOTICE: Final = "notice"
RELAY: Final = "relay"

#: Calls without a result that are remembered. A call whose outcome is unknown may still get its real result.
_MAX_PENDING: Final = 64


@frozen
class LoggedReading:
    """A reading in the log. `sampled_at` is epoch ms; `hidden`: no longer part of what the model sees (compaction)."""

    seq: int
    sampled_at: int
    hidden: bool = False


@frozen
class ModeCall:
    """A successful call of `time_mode` that set a mode, by the `tool/call`: its `time` is epoch ms."""

    seq: int
    time: int


@frozen
class _Pending:
    seq: int
    time: int
    call: ToolCall


@frozen
class TimeState:
    """The fold. What is None was never said in this log, so the deployment's defaults are in force.

    `cron` is the expression last set by a call, whatever the mode since. `zone` is the newest one that a message of
    the user carried. `reading` and `mode_call` are the last in the log, not the latest by their clocks. `journal` has
    the changes of `counters` for the session's relatives, and `told` says, by session id, up to which event of a
    relative's log this session has been told of changes there. `turn` is the newest turn that was opened.
    """

    reads: ClassVar[tuple[type[Payload], ...]] = (*MODEL_VISIBLE, ToolCall, TurnStart)

    mode: Mode | None = None
    cron: str | None = None
    mode_call: ModeCall | None = None
    reading: LoggedReading | None = None
    zone: str | None = None
    counters: Counters = field(factory=dict)
    journal: Journal = field(factory=Journal)
    told: Mapping[str, int] = field(factory=dict)
    turn: int = 0
    _pending: Mapping[str, _Pending] = field(factory=dict)

    def apply(self, event: Event, /) -> Self:
        """The state after `event`."""
        state, data = self, event.data
        if event.replaces and state.reading and event.replaces.start <= state.reading.seq <= event.replaces.end:
            state = evolve(state, reading=evolve(state.reading, hidden=True))
        if isinstance(data, ToolCall):
            return state._called(_Pending(event.seq, event.time, data))
        if isinstance(data, ToolResult):
            return state._answered(event.seq, data)
        if isinstance(data, UserMessage | SteeringMessage):
            return state._said(event.seq, data)
        return evolve(state, turn=data.turn) if isinstance(data, TurnStart) else state

    def with_mode(self, arguments: TimeModeArguments) -> Self:
        """What a call of `time_mode` makes of mode and expression; a report makes nothing of them.

        Raises ToolError, with text for the model.
        """
        cron = checked_mode(arguments)
        if arguments.mode is None:
            return self
        return evolve(self, mode=arguments.mode, cron=self.cron if cron is None else cron.text)

    def _said(self, seq: int, message: UserMessage | SteeringMessage) -> Self:
        source = message.source
        if source.get("kind") == "user":
            zone = source.get("clientTimeZone")
            return evolve(self, zone=zone) if zone != self.zone and zone in zone_names() else self
        if source.get("kind") != PLUGIN:
            return self
        if source.get("form") == RELAY:
            return self._was_told(source.get("senderSessionId"), source.get("upTo"))
        if source.get("form") != NOTICE:
            return self
        sampled_at = source.get("sampledAt")
        if type(sampled_at) is not int:
            return self
        try:
            instant_at(sampled_at)
        except InstantOutOfRange:
            return self
        return evolve(self, reading=LoggedReading(seq, sampled_at))

    def _was_told(self, sender: Scalar, up_to: Scalar) -> Self:
        if not isinstance(sender, str) or type(up_to) is not int:
            return self
        return evolve(self, told={**self.told, sender: up_to})

    def _called(self, pending: _Pending) -> Self:
        if pending.call.owner != PLUGIN:
            return self
        calls = {**_without(self._pending, pending.call.id), pending.call.id: pending}
        return evolve(self, pending=dict(islice(calls.items(), max(0, len(calls) - _MAX_PENDING), None)))

    def _answered(self, seq: int, result: ToolResult) -> Self:
        block = result.message.content[0] if result.message.content else None
        if not isinstance(block, ToolResultBlock) or result.stands_in or block.id not in self._pending:
            return self
        pending = self._pending[block.id]
        state = evolve(self, pending=_without(self._pending, block.id))
        if block.is_error or result.error is not None:
            return state
        try:
            return state._adopted(seq, pending)
        except (ToolError, msgspec.DecodeError, ValueError):
            # It reported success, but no such call would be taken. ValueError: a lone surrogate in the arguments.
            return state

    def _adopted(self, seq: int, pending: _Pending) -> Self:
        call = pending.call
        written = call.arguments.strip() or "{}"  # as the host reads them
        if call.name == TIME_COUNTER:
            counter = msgspec.json.decode(written, type=TimeCounterArguments)
            counters = changed(self.counters, counter, pending.time)
            change = change_of(counter, self.counters, counters)
            return self if change is None else evolve(self, counters=counters, journal=self.journal.added(seq, change))
        if call.name != TIME_MODE:
            return self
        arguments = msgspec.json.decode(written, type=TimeModeArguments)
        state = self.with_mode(arguments)
        return state if state is self else evolve(state, mode_call=ModeCall(pending.seq, pending.time))


def _without(calls: Mapping[str, _Pending], call: str) -> dict[str, _Pending]:
    return {key: pending for key, pending in calls.items() if key != call}
