"""Where the `demo` model reads time: a system section, a plugin's reading, or a tool's result in this turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import takewhile

from attrs import frozen

from dsh_hookspecs import ChatMessage, ModelRequest

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NO_CLOCK = (
    "I cannot tell: my request holds no clock, and I have none of my own. `--enable time-reminder` gives me one."
)
_NO_GAP = "I cannot tell: my request does not say how long ago that was. `--enable time-reminder` makes it say so."

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d(?::\d\d)?\[[^\]\s]{1,64}\])"
_SECTION = re.compile(rf"^Current time: {_STAMP}", re.MULTILINE)
_SECTION_GAP = re.compile(r"^Time since previous message: .+", re.MULTILINE)
_READING = re.compile(rf"^Time sampled while preparing (?P<step>turn \d+, step \d+): {_STAMP}", re.MULTILINE)
_READING_GAP = re.compile(r"^Elapsed since the preceding model-visible message: .+", re.MULTILINE)
_COUNTERS = re.compile(r"^\[counters\] .+", re.MULTILINE)
_COUNTER = re.compile(r"(?<![^\s,])([^\s,=()]{1,140})=((?:\d{1,9}[dhms]){1,4}(?: \([^()]{0,600}\))?)")
_TOOL_CLOCK = re.compile(rf"(?:Current time: )?{_STAMP}")


@frozen
class Reading:
    """A place of the request that tells the time. `is_old`: it stands before the newest user message."""

    stamp: str
    text: str
    place: str
    is_old: bool = False

    def says(self, what: str) -> str:
        """`what`, with where it was read."""
        if self.is_old:
            return f"My last reading, from {self.place}, is older than your message. It says: {what}."
        return f"{what} (read in {self.place})."


def is_prompt(message: ChatMessage) -> bool:
    """Whether a user wrote the message."""
    return message.role == "user" and message.source.get("kind") == "user"


def _section(request: ModelRequest) -> Reading | None:
    for section in request.header.system:
        if found := _SECTION.search(section.text):
            return Reading(found["stamp"], section.text, f"the system section `{section.name}`")
    return None


def _readings(request: ModelRequest) -> Iterator[Reading]:
    """The plugins' readings, newest first. A user's text is never one, whatever it looks like."""
    is_old = False
    for message in reversed(request.messages):
        if is_prompt(message):
            is_old = True
        elif message.role == "user" and (found := _READING.search(message.text)):
            place = found["step"] if is_old else f"the reading of {found['step']}"
            yield Reading(found["stamp"], message.text, place, is_old)


def _tool_clock(request: ModelRequest) -> Reading | None:
    for message in takewhile(lambda message: not is_prompt(message), reversed(request.messages)):
        if message.role == "tool" and (found := _TOOL_CLOCK.match(message.text)):
            return Reading(found["stamp"], message.text, "a tool result of this turn")
    return None


def tell_time(request: ModelRequest) -> str:
    """Time, date and weekday as the request has them; the weekday is reckoned from the date."""
    reading = _section(request) or next(_readings(request), None)
    if reading is None or reading.is_old:
        reading = _tool_clock(request) or reading
    if reading is None:
        return _NO_CLOCK
    try:
        weekday = _WEEKDAYS[date.fromisoformat(reading.stamp[:10]).weekday()]
    except ValueError:  # a tool may write a day that no calendar has
        return reading.says(reading.stamp)
    return reading.says(f"{reading.stamp}, a {weekday}")


def tell_gap(request: ModelRequest) -> str:
    """The time since the previous message as the request has it."""
    section = _section(request)
    if section and (line := _SECTION_GAP.search(section.text)):
        return section.says(line[0])
    for reading in _readings(request):
        if line := _READING_GAP.search(reading.text):
            return reading.says(line[0])
    return _NO_GAP


def shown_timers(request: ModelRequest, name: str = "", *, or_older: bool) -> str | None:
    """The timers (or the one of that name) in the newest reading, None when it shows none.

    A reading that is older than the user's message counts only with `or_older`.
    """
    reading = next(_readings(request), None)
    if reading is None or (reading.is_old and not or_older):
        return None
    line = _COUNTERS.search(reading.text)
    shown = _COUNTER.findall(line[0]) if line else ()
    timers = ", ".join(f"timer {timer}: {elapsed}" for timer, elapsed in shown if name in ("", timer))
    return reading.says(timers) if timers else None
