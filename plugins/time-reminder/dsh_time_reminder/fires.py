"""When a cron expression fires in a zone whose clock jumps.

croniter does the arithmetic on calendar dates and naive wall times; what happens where a clock jumps is decided here,
because croniter's answers there are wrong. The policy is that of Debian's cron:

- A job is *fixed-time* when neither its minute nor its hour field starts with `*`, else it is a wildcard job.
- Clock forward by up to 3 hours: a fixed-time job inside the gap fires at the first instant after it, once; a wildcard
  job is not made up. Clock back by less than 3 hours: a fixed-time job fires in the first pass only, a wildcard job in
  both. Larger jumps: the new time counts at once, nothing is made up or left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dsh_hookspecs.timefmt import local_time

from .cron import Cron

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_LARGEST_JUMP = timedelta(hours=3)
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Shorter than the time between any two changes of offset in the zone data, so that none hides between two looks.
_LOOK_EVERY = timedelta(days=6)


def next_fires(cron: Cron, zone: ZoneInfo, after: datetime, count: int) -> list[datetime]:
    """The first `count` instants (UTC) later than `after` (aware) at which `cron` fires in `zone`, in order.

    Fewer where the calendar ends (year 9999). Raises InstantOutOfRange where `after` has no date in `zone`.
    """
    return list(islice(_fires_after(cron, zone, after), count))


def newest_fire(cron: Cron, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The newest instant (UTC) at or before `now` (aware) at which `cron` fired in `zone`.

    None where the calendar begins (year 1). Raises InstantOutOfRange where `now` has no date in `zone`. Between two
    fires a repeated question costs about a microsecond, else some tenths of a millisecond.
    """
    span = _spans.get((cron, zone))
    if span is not None and span[0] <= now < span[1]:
        return span[0]
    fire = _fire_at_or_before(cron, zone, now)
    following = next(_fires_after(cron, zone, now), None)
    if fire is not None and following is not None:
        if len(_spans) >= 256:
            _spans.clear()
        _spans[cron, zone] = fire, following
    return fire


#: The newest answer of `newest_fire` for each expression and zone, with the instant up to which it holds. Only a
#: shortcut: it holds what would be computed again.
_spans: dict[tuple[Cron, ZoneInfo], tuple[datetime, datetime]] = {}


def _fires_after(cron: Cron, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    local = local_time(after, zone)
    position, wall, offset = after, local.replace(tzinfo=None), _offset(local)
    match = _next_match(cron, wall)
    while match is not None:
        try:
            fire = (match - offset).replace(tzinfo=UTC)
            jump = _nearest_jump(zone, position, fire)
        except OverflowError:
            return
        if jump is None:
            if not (cron.fixed_time and _is_second_pass(fire, zone)):
                yield fire
            position, wall, match = fire, match, _next_match(cron, match)
            continue
        made_up = cron.fixed_time and jump.is_small_gap and match < jump.landed
        if made_up:
            yield jump.at
        # What fires at the very first instant after the jump is still to come, unless it was just made up.
        resumed = jump.landed if made_up else jump.landed - _SECOND
        if not wall <= resumed < match:
            match = _next_match(cron, resumed)
        position, wall, offset = jump.at, resumed, jump.after


def _fire_at_or_before(cron: Cron, zone: ZoneInfo, now: datetime) -> datetime | None:
    local = local_time(now, zone)
    position, wall, offset = now, local.replace(tzinfo=None), _offset(local)
    match = _last_match(cron, wall)
    while match is not None:
        try:
            fire = (match - offset).replace(tzinfo=UTC)
            jump = _nearest_jump(zone, position, fire)
        except OverflowError:
            return None
        if jump is None:
            if not (cron.fixed_time and _is_second_pass(fire, zone)):
                return fire
            position, wall = fire, match - _MINUTE
            match = _last_match(cron, wall)
            continue
        if cron.fixed_time and jump.is_small_gap and match >= jump.left:
            return jump.at
        resumed = jump.left - _SECOND
        if not match <= resumed <= wall:
            match = _last_match(cron, resumed)
        position, wall, offset = jump.at - _SECOND, resumed, jump.before
    return None


def _next_match(cron: Cron, wall: datetime) -> datetime | None:
    """The first wall time (naive) later than `wall` that the fields name; None where the calendar ends."""
    start = wall.replace(second=0, microsecond=0)
    with suppress(OverflowError, ValueError):  # what croniter raises when it walks out of the calendar
        match: datetime = _calendar(cron, start).get_next()
        return match
    return None


def _last_match(cron: Cron, wall: datetime) -> datetime | None:
    """The last wall time (naive) at or before `wall` that the fields name; None where the calendar begins."""
    start = wall.replace(second=0, microsecond=0) + _SECOND  # croniter looks strictly before
    with suppress(OverflowError, ValueError):
        match: datetime = _calendar(cron, start).get_prev()
        return match
    return None


def import_croniter() -> Any:
    """Return croniter's class. The first call in a process takes some 20 ms."""
    from croniter import croniter  # type: ignore[import-untyped]  # it ships no types

    return croniter


def _calendar(cron: Cron, start: datetime) -> Any:
    # croniter ignores a day field only when it is `*`; with OR, a full day field makes the other one moot.
    moot = cron.either_day and (len(cron.days) == 31 or len(cron.weekdays) == 7)
    fields = (
        _listed(cron.minutes, 60),
        _listed(cron.hours, 24),
        "*" if moot else _listed(cron.days, 31),
        _listed(cron.months, 12),
        "*" if moot else _listed(cron.weekdays, 7),
    )
    return import_croniter()(" ".join(fields), start, ret_type=datetime, day_or=cron.either_day)


def _listed(values: frozenset[int], full: int) -> str:
    return "*" if len(values) == full else ",".join(map(str, sorted(values)))


@frozen
class _Jump:
    """The clock of a zone changes its offset at the instant `at` (UTC)."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def left(self) -> datetime:
        """The wall time that the clock would have shown at `at`."""
        return self.at.replace(tzinfo=None) + self.before

    @property
    def landed(self) -> datetime:
        """The wall time that it shows instead."""
        return self.at.replace(tzinfo=None) + self.after

    @property
    def is_small_gap(self) -> bool:
        return self.before < self.after <= self.before + _LARGEST_JUMP


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None
    return offset


def _offset_at(seconds: int, zone: ZoneInfo) -> timedelta:
    return _offset((_EPOCH + timedelta(seconds=seconds)).astimezone(zone))


def _is_second_pass(instant: datetime, zone: ZoneInfo) -> bool:
    """Whether `zone` shows the wall time of `instant` for the second time, after a jump back of less than 3 hours."""
    local = instant.astimezone(zone)
    return bool(local.fold) and _offset(local.replace(fold=0)) - _offset(local) < _LARGEST_JUMP


def _nearest_jump(zone: ZoneInfo, start: datetime, end: datetime) -> _Jump | None:
    """The change of offset that is met first on the way from `start` to `end`, which may lie before it.

    A change at the earlier of the two is not met, one at the later is. Raises OverflowError at the calendar's ends.
    """
    here, goal = (start - _EPOCH) // _SECOND, (end - _EPOCH) // _SECOND  # changes happen at whole seconds
    step = _LOOK_EVERY // _SECOND * (1 if goal > here else -1)
    offset = _offset_at(here, zone)
    while here != goal:
        there = goal if abs(goal - here) <= abs(step) else here + step
        if _offset_at(there, zone) != offset:
            before, after = sorted((here, there))
            old = _offset_at(before, zone)
            while after - before > 1:
                middle = (before + after) // 2
                if _offset_at(middle, zone) == old:
                    before = middle
                else:
                    after = middle
            return _Jump(_EPOCH + timedelta(seconds=after), old, _offset_at(after, zone))
        here = there
    return None
