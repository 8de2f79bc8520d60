"""What the two tools answer. Every answer begins with the current time; none of them is a reading."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from dsh_hookspecs.timefmt import epoch_ms, format_stamp

from .counters import Counter
from .fires import next_fires
from .journal import Change
from .modes import Cadence
from .reading import ShownCounter, counter_entry, mode_line

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: Said of an expression whose two day fields are both given.
EITHER_DAY: Final = "Day-of-month and day-of-week are both given: it fires on days that either of them names."
#: How many fires to come a report shows.
_PREVIEWED: Final = 3

_DONE: Final = {"reset": "Reset", "note": "Noted", "scope": "Rescoped", "remove": "Removed"}


def clock_line(now: datetime, zone: ZoneInfo) -> str:
    """The first line of every answer."""
    return f"Current time: {format_stamp(now, zone)}"


def mode_answer(now: datetime, zone: ZoneInfo, cadence: Cadence, previous: int | None, *, is_set: bool) -> str:
    """What `time_mode` answers: the mode in force (from the next step on, where a call has just set it)."""
    lines = [clock_line(now, zone), mode_line(cadence, zone, previous)]
    if cadence.mode == "cron":
        fires = [format_stamp(fire, zone) for fire in next_fires(cadence.cron, zone, now, _PREVIEWED)]
        lines.append(f"Next fires: {', '.join(fires) or 'none before the year 10000'}")
        if cadence.cron.either_day:
            lines.append(EITHER_DAY)
    if is_set:
        lines.append(f"Set, from {'step 1 of the next turn' if cadence.mode == 'turn' else 'the next step'} on.")
    return "\n".join(lines)


def change_answer(now: datetime, zone: ZoneInfo, change: Change) -> str:
    """What `time_counter` answers to a change: what was done, and the counter as it is now (or was, when removed)."""
    word = _DONE.get(change.action) or ("Started" if change.before is None else "Restarted")
    counter = change.after or change.before
    assert counter is not None
    return f"{clock_line(now, zone)}\n{word}: {_entry(ShownCounter(change.name, counter), now)}"


def lapse_answer(now: datetime, zone: ZoneInfo, shown: ShownCounter) -> str:
    """What `time_counter` answers to `lapse`."""
    return f"{clock_line(now, zone)}\n{_entry(shown, now)}"


def list_answer(
    now: datetime, zone: ZoneInfo, cadence: Cadence, previous: int | None, counters: Iterable[ShownCounter]
) -> str:
    """What `time_counter` answers to `list`: a line for the mode and one for each counter."""
    lines = [_entry(shown, now) for shown in counters] or ["No counters are visible here."]
    return "\n".join([clock_line(now, zone), mode_line(cadence, zone, previous), *lines])


def _entry(shown: ShownCounter, now: datetime) -> str:
    entry = counter_entry(shown, epoch_ms(now))
    if shown.session:
        return f"{entry} [at rest]" if shown.at_rest else entry
    return f"{entry} [{_scope(shown.counter)}]"


def _scope(counter: Counter) -> str:
    """Who sees a counter, in the words of the tool's arguments."""
    said = {"inject": counter.inject, "toChildren": counter.to_children, "toParents": counter.to_parents}
    words = [word for word, holds in said.items() if holds]
    if counter.to_children or counter.to_parents:
        words.append(f"depth {counter.depth}")
    return ", ".join(words) or "seen here only"
