"""dsh-time plugin: the zoned time and the gap since the last message, in the system prompt.

    Current time: 2026-07-14T16:30:00+08:00[Asia/Shanghai]
    Time since previous message: 3h2m5s

It keeps nothing in memory. How the last request had the section comes from the log, so a resumed session and a fork
go on as if nothing had happened. It starts no timer and writes no message.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import Attribute, field, frozen

from dsh_hookspecs import Prompt, Rendered, Section, Step, hookimpl
from dsh_hookspecs.timefmt import BadZone, epoch_ms, format_duration, format_stamp, load_zone

__all__ = ["TimeContext"]

SECTION = "context:time"
#: After the deployment's persona at 0, before guidance on tools at 100.
ORDER = 10
_LONGEST_INTERVAL_MS = 2**53 - 1


def _is_interval(_: TimeContext, __: Attribute[int], value: object) -> None:
    if type(value) is not int or not 0 <= value <= _LONGEST_INTERVAL_MS:
        raise ValueError(f"must be whole milliseconds from 0 to {_LONGEST_INTERVAL_MS}, not {value!r}")


def _is_zone(_: TimeContext, __: Attribute[str], value: object) -> None:
    try:
        load_zone(value)
    except BadZone as error:
        raise ValueError(str(error)) from None


@frozen(eq=False)
class TimeContext:
    """The plugin, which is its configuration.

    `refresh_interval_ms`: how old the text may get within a turn, 0 for anew at every step; the first step of a turn is
    always anew. `time_zone`: an IANA name. ValueError for anything else.
    """

    conflicts: ClassVar[tuple[str, ...]] = ("dsh-time-reminder",)

    refresh_interval_ms: int = field(default=60_000, validator=_is_interval)
    time_zone: str = field(default="UTC", validator=_is_zone)

    @hookimpl
    def system_prompt_section(self, prompt: Prompt) -> Section | None:
        """Give the two lines while a turn is open: those of the last request until they are too old."""
        step = prompt.step
        if step is None:
            return None
        previous = prompt.previous(SECTION)
        if previous is None or self._is_due(step, previous):
            return Section(SECTION, ORDER, self._render(step))
        return Section(SECTION, ORDER, previous.text)

    def _is_due(self, step: Step, previous: Rendered) -> bool:
        age_ms = epoch_ms(step.now) - epoch_ms(previous.changed_at)
        return step.number == 1 or not 0 <= age_ms < self.refresh_interval_ms  # below 0: the clock was set back

    def _render(self, step: Step) -> str:
        if step.previous_message is None:
            since = "unavailable (no earlier message in this session)"
        else:
            since = format_duration(epoch_ms(step.now) - epoch_ms(step.previous_message))
        stamp = format_stamp(step.now, load_zone(self.time_zone))
        return f"Current time: {stamp}\nTime since previous message: {since}"
