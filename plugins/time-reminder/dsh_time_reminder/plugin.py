"""The plugin: readings and notices before a step, and the two tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from attrs import Attribute, field, frozen
from attrs.validators import in_, instance_of

from dsh_hookspecs import (
    Fold,
    Message,
    Relative,
    SessionView,
    Step,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    hookimpl,
)
from dsh_hookspecs.timefmt import BadZone, epoch_ms, load_zone

from .answers import change_answer, clock_line, lapse_answer, list_answer, mode_answer
from .counters import changed
from .cron import BadCron, parse_cron
from .fires import import_croniter
from .fold import NOTICE, TimeState
from .journal import change_of
from .modes import Cadence, cadence, due, process_zone, zone_in_force
from .reading import Reading, ShownCounter, counter_entry
from .relatives import MAX_RELAYS, find, owned_elsewhere, relatives, relays, seen, to_wake
from .tools import TIME_COUNTER, TIME_MODE, Mode, TimeCounterArguments, TimeModeArguments

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    import click

_LONGEST_INTERVAL_MS: Final = 2**53 - 1


def _is_cron(_: TimeReminder, __: Attribute[str], value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"must be a cron expression, not {value!r}")
    try:
        parse_cron(value)
    except BadCron as error:
        raise ValueError(str(error)) from None


def _is_zone(_: TimeReminder, __: Attribute[str | None], value: object) -> None:
    try:
        if value is not None:
            load_zone(value)
    except BadZone as error:
        raise ValueError(str(error)) from None


def _is_interval(_: TimeReminder, __: Attribute[int], value: object) -> None:
    if type(value) is not int or not 0 <= value <= _LONGEST_INTERVAL_MS:
        raise ValueError(f"must be whole milliseconds from 0 to {_LONGEST_INTERVAL_MS}, not {value!r}")


@frozen(eq=False)
class TimeReminder:
    """The plugin, which is its configuration; ValueError for what it cannot be.

    `default_mode` and `cron` hold for a session until it sets others. `time_zone` is an IANA name (None: the user's,
    else the process's). `fine_interval_ms` is the least time between two readings in mode `fine`, 0 for every step.
    `counter_notice`: what changes of relatives' counters do: join the next step, wake an idle session too, or nothing.
    `weekday` puts the day's name on a reading's first line.
    """

    conflicts: ClassVar[tuple[str, ...]] = ("dsh-time-context",)

    default_mode: Mode = field(default="cron", validator=in_(("cron", "off", "turn", "fine")))
    cron: str = field(default="0 0 * * *", validator=_is_cron)
    time_zone: str | None = field(default=None, validator=_is_zone)
    fine_interval_ms: int = field(default=0, validator=_is_interval)
    counter_notice: Literal["inject", "steer", "off"] = field(
        default="inject", validator=in_(("inject", "steer", "off"))
    )
    weekday: bool = field(default=False, validator=instance_of(bool))

    @hookimpl
    def register_folds(self) -> list[type[Fold]]:
        """Give the one fold."""
        return [TimeState]

    @hookimpl
    def register_tools(self) -> list[Tool]:
        """Give `time_mode` and `time_counter`. Neither runs beside another call."""
        if self.default_mode == "cron":
            import_croniter()  # while the plugin is loaded: in the first step it would make a slow hook
        mode = (
            "Tells the current time and this session's time mode: when a time reading is added to the conversation "
            "on its own. Sets the mode when one is given."
        )
        counter = (
            "Counters that tell how long ago they were started, in this session and in its parent and child agents. "
            "Tells the current time too."
        )
        return [
            Tool(TIME_MODE, mode, TimeModeArguments, self._time_mode),
            Tool(TIME_COUNTER, counter, TimeCounterArguments, self._time_counter),
        ]

    @hookimpl
    def register_commands(self, group: click.Group) -> None:
        """Give the command `cron`."""
        from .commands import cron_command

        group.add_command(cron_command)

    @hookimpl
    def status_line(self, session: SessionView, now: datetime) -> str | None:
        """Show the session's own counters."""
        return ", ".join(counter_entry(shown, epoch_ms(now)) for shown in _own(session.fold(TimeState))) or None

    @hookimpl
    def before_step(self, step: Step) -> list[Message]:
        """Tell of changes of relatives' counters, then give a reading if one is due."""
        state, near = step.session.fold(TimeState), relatives(step.lineage)
        told = [] if self.counter_notice == "off" else list(islice(relays(near, state.told), MAX_RELAYS))
        # A step of no opened turn is a wake: only news that is to wake may turn it into a request of the model.
        if step.turn > state.turn and not (told and self.counter_notice == "steer"):
            return []
        return [*told, *self._readings(step, state, near)]

    def _readings(self, step: Step, state: TimeState, near: Sequence[Relative]) -> list[Message]:
        """The step's reading, if it owes one."""
        in_force, zone = self._cadence(state), self._zone(state)
        owed = due(state, in_force, zone, step.number, step.now)
        if owed is None:
            return []
        reading = Reading(
            turn=step.turn,
            step=step.number,
            now=step.now,
            zone=zone,
            cadence=in_force,
            previous=owed.previous,
            previous_message=step.previous_message,
            counters=[shown for shown in (*_own(state), *seen(near)) if shown.counter.inject and not shown.at_rest],
            weekday=self.weekday,
        )
        data = {"sampledAt": epoch_ms(step.now), "mode": owed.mode}
        return [Message(reading.text, NOTICE, reading.summary, data)]

    def _cadence(self, state: TimeState) -> Cadence:
        return cadence(state, self.default_mode, self.cron, self.fine_interval_ms)

    def _zone(self, state: TimeState) -> ZoneInfo:
        return zone_in_force(self.time_zone, state, process_zone)

    # The tools' bodies are coroutines that never wait: relatives' folds belong to the event loop's thread.

    async def _time_mode(self, arguments: TimeModeArguments, context: ToolContext) -> str:
        with self._dated(context):
            state = context.session.fold(TimeState).with_mode(arguments)
        is_set = arguments.mode is not None
        return mode_answer(context.now, self._zone(state), self._cadence(state), _previous(state), is_set=is_set)

    async def _time_counter(self, arguments: TimeCounterArguments, context: ToolContext) -> str | ToolOutput:
        state, near = context.session.fold(TimeState), relatives(context.lineage)
        zone, now, own = self._zone(state), context.now, state.counters
        with self._dated(context):
            try:
                counters = changed(own, arguments, epoch_ms(now))
            except ToolError as error:
                raise owned_elsewhere(error, arguments, seen(near)) from None
        if (change := change_of(arguments, own, counters)) is not None:
            wake = to_wake(near, change) if self.counter_notice == "steer" else ()
            return ToolOutput(change_answer(now, zone, change), wake=wake)
        if arguments.name is None:
            visible = (*_own(state), *seen(near))
            return list_answer(now, zone, self._cadence(state), _previous(state), visible)
        with self._dated(context):
            found = find(arguments.name, context.session.id, own, seen(near))
        return lapse_answer(now, zone, found)

    @contextmanager
    def _dated(self, context: ToolContext) -> Iterator[None]:
        """Let a refusal begin with the current time, as every answer does."""
        try:
            yield
        except ToolError as error:
            zone = self._zone(context.session.fold(TimeState))
            raise ToolError(f"{clock_line(context.now, zone)}\n{error}") from None


def _own(state: TimeState) -> list[ShownCounter]:
    return [ShownCounter(name, counter) for name, counter in state.counters.items()]


def _previous(state: TimeState) -> int | None:
    """The instant of the session's last reading (epoch ms)."""
    return None if state.reading is None else state.reading.sampled_at
