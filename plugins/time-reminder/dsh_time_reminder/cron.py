"""Cron expressions: what is taken, what is refused and why, and what an expression means.

The grammar is that of Debian's crontab without its leniency: what Debian reads otherwise than it looks, or never fires,
is refused. When an expression fires is decided in `fires`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from attrs import frozen

#: Longest expression that is taken, in characters.
MAX_CHARACTERS: Final = 128

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ELEMENT = re.compile(r"(?:(\*)|([0-9]+|[A-Za-z]+)(?:-([0-9]+|[A-Za-z]+))?)(?:/([0-9]+))?", re.ASCII)
_EXTENSION = re.compile(r"[#?~]|(?<![A-Za-z])([LWHR]|LW)(?![A-Za-z])", re.ASCII | re.IGNORECASE)


class BadCron(ValueError):
    """An expression that is refused; the message says why and what to write instead."""


@frozen
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()  # of first, first + 1, …


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 7, _WEEKDAYS),
)


@frozen
class Cron:
    """An expression that was checked: `text` as it was written, and what each field means.

    `either_day`: the two day fields combine as OR (a day that one of them names), else as AND. `weekdays` count from
    Sunday = 0. Build one with `parse_cron`.
    """

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    fixed_time: bool

    @property
    def every_day(self) -> bool:
        """Whether no day of the year is left out."""
        full = len(self.days) == 31, len(self.weekdays) == 7
        return len(self.months) == 12 and (any(full) if self.either_day else all(full))

    @property
    def description(self) -> str:
        """`daily HH:MM` for one minute of every day, else the expression as it was written."""
        if self.every_day and len(self.hours) == len(self.minutes) == 1:
            return f"daily {min(self.hours):02}:{min(self.minutes):02}"
        return self.text


@lru_cache(maxsize=256)
def parse_cron(expression: str) -> Cron:
    """Check `expression` and say what it means. Raises BadCron with a reason for everything that is not taken.

    Taken: five fields or a macro of `MACROS`, at most `MAX_CHARACTERS` characters. A field is a list of `*`, `a`,
    `a-b`, `*/n` and `a-b/n`; months and weekdays also by their first three letters; Sunday is 0 and 7.
    """
    if len(expression) > MAX_CHARACTERS:
        raise BadCron(f"the expression has {len(expression)} characters, at most {MAX_CHARACTERS} are taken")
    text = expression.replace("\t", " ").strip(" ")
    if text.startswith("@") and text not in MACROS:
        raise BadCron(f"{text!r} is no macro; there are {', '.join(MACROS)}")
    fields = [field for field in MACROS.get(text, text).split(" ") if field]
    if len(fields) != 5:
        more = "; seconds and years are not taken" if len(fields) in (6, 7) else ""
        raise BadCron(f"{text!r} has {len(fields)} fields, not five (minute hour day-of-month month day-of-week){more}")
    minutes, hours, days, months, weekdays = (_values(*each) for each in zip(_FIELDS, fields, strict=True))
    either_day = not (fields[2].startswith("*") or fields[4].startswith("*"))
    if not either_day and min(days) > max(_DAYS_OF_MONTH[month - 1] for month in months):
        raise BadCron(f"{text!r} never fires: no month that it names has a day {min(days)}")
    fixed_time = not (fields[0].startswith("*") or fields[1].startswith("*"))
    sunday_first = frozenset(day % 7 for day in weekdays)
    return Cron(text, minutes, hours, days, months, sunday_first, either_day=either_day, fixed_time=fixed_time)


def _values(field: _Field, text: str) -> frozenset[int]:
    try:
        return frozenset().union(*(_element(field, element) for element in text.split(",")))
    except BadCron as error:
        raise BadCron(f"{field.name} field {text!r}: {error}") from None


def _element(field: _Field, element: str) -> range:
    match = _ELEMENT.fullmatch(element)
    if match is None:
        raise BadCron(_why_no_element(element))
    star, start, end, step = match.groups()
    if star:
        first, last = field.first, field.last
    else:
        first = _number(field, start)
        last = first if end is None else _number(field, end)
        if step is not None and end is None:
            raise BadCron(f"a step needs a range: not {element} but {start}-{field.last}/{step}")
        if first > last:
            raise BadCron(f"{element} runs backwards; write two ranges: {start}-{field.last},{field.first}-{end}")
    if step is not None and int(step) == 0:
        raise BadCron(f"{element} has a step of zero; leave the step out to name every value")
    return range(first, last + 1, int(step or 1))


def _number(field: _Field, given: str) -> int:
    if given.lower() in field.names:
        return field.first + field.names.index(given.lower())
    if not given.isdecimal():
        if _EXTENSION.search(given):
            raise BadCron(_why_no_element(given))
        known = f"it knows {', '.join(field.names)}" if field.names else "it takes numbers only"
        raise BadCron(f"{given!r} means nothing here; {known}")
    # Leading zeros are harmless. Without them three digits are too many, so that `int` never sees a long number.
    digits = given.lstrip("0") or "0"
    if len(digits) > 2 or not field.first <= int(digits) <= field.last:
        raise BadCron(f"{given} is not in {field.first}-{field.last}")
    return int(digits)


def _why_no_element(element: str) -> str:
    if not element:
        return "an element of the list is empty"
    if _EXTENSION.search(element):
        return f"{element!r} uses an extension (L W # ? R H ~) that is not taken; name the values themselves"
    return f"{element!r} is none of `*`, `a`, `a-b`, `*/n`, `a-b/n`"
