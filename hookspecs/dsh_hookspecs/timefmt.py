"""How an instant, a duration and a zone name become text, the same in every plugin.

Instants are aware datetimes or epoch milliseconds (int); the two convert without floats. Errors:

    ValueError
    ├── BadZone              a name that is no IANA zone of the `tzdata` package
    └── InstantOutOfRange    an instant whose year is outside 0001 to 9999
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SHOWN_CHARACTERS = 48


class BadZone(ValueError):
    """A zone name that `load_zone` refuses. `value` is the name as it was given."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        if not isinstance(self.value, str):
            return f"a time zone is an IANA name like 'Asia/Shanghai', not {type(self.value).__name__}"
        shown = self.value[:_SHOWN_CHARACTERS] + ("…" if len(self.value) > _SHOWN_CHARACTERS else "")
        near = suggest_zones(self.value)
        hint = f"; did you mean {', '.join(near)}?" if near else ", like 'Asia/Shanghai' or 'UTC'"
        return f"{shown!r} is not an IANA time zone name{hint}"


class InstantOutOfRange(ValueError):
    """An instant that has no calendar date, in UTC or in the zone asked for, within years 0001 to 9999."""


def instant_at(epoch_ms: int) -> datetime:
    """The instant `epoch_ms` milliseconds after 1970-01-01T00:00Z, as a datetime in UTC, exact.

    Raises InstantOutOfRange outside years 0001 to 9999 (UTC).
    """
    try:
        return _EPOCH + epoch_ms * _MILLISECOND
    except OverflowError:
        raise InstantOutOfRange(f"{epoch_ms:.3e} ms since 1970 is outside the years 0001 to 9999") from None


def epoch_ms(instant: datetime) -> int:
    """Milliseconds since 1970-01-01T00:00Z of an aware datetime, floored, exact. Naive: TypeError."""
    return (instant - _EPOCH) // _MILLISECOND


def local_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """`instant` (aware) as the wall clock of `zone` shows it.

    Raises InstantOutOfRange where the local year is outside 0001 to 9999; ValueError for a naive datetime.
    """
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no offset, so it is no instant: pass an aware datetime")
    try:
        return instant.astimezone(zone)
    except OverflowError:
        message = f"{instant.isoformat()} is outside the years 0001 to 9999 in {zone.key}"
        raise InstantOutOfRange(message) from None


def format_stamp(instant: datetime, zone: ZoneInfo) -> str:
    """`2026-07-14T16:30:00+08:00[Asia/Shanghai]`: wall clock, offset and name of `zone` at `instant` (aware).

    Floored to the second. The offset is `±HH:MM`, or `±HH:MM:SS` where it has seconds. ASCII and Gregorian in
    every locale. Raises InstantOutOfRange where the local year is outside 0001 to 9999.
    """
    return f"{local_time(instant, zone).isoformat(timespec='seconds')}[{zone.key}]"


def format_duration(elapsed_ms: int) -> str:
    """`3h2m5s`: `elapsed_ms` floored to whole seconds, in d, h, m and s; units that are zero are left out.

    Nothing and less than nothing (a clock that moved back) are `0s`. Take `elapsed_ms` from two instants,
    never from two wall times: those hide a change of offset between them.
    """
    minutes, seconds = divmod(max(elapsed_ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in units if number) or "0s"


@cache
def zone_names() -> frozenset[str]:
    """Every name that `load_zone` takes: the list of the `tzdata` package without `Factory`."""
    from importlib.resources import files

    listed = files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(listed.split()) - {"Factory"}


def load_zone(name: object) -> ZoneInfo:
    """The zone called exactly `name`, read from the `tzdata` package; its `key` is `name`.

    The system's zone files are never read: they may be older and hold more names. Raises BadZone for every
    other value, whatever its type.
    """
    if not isinstance(name, str) or name not in zone_names():
        raise BadZone(name)
    return _read_zone(name)


@cache  # at most one entry for each name of the package
def _read_zone(name: str) -> ZoneInfo:
    from importlib.resources import files
    from zoneinfo import ZoneInfo

    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def local_zone_name() -> str | None:
    """The name of this process's zone, from `TZ`, else the system's setting; None when `load_zone` takes no such name.

    `tzlocal` finds it, unless `TZ` is such a name itself: it passes over some of them, like Antarctica/Troll and GMT.
    """
    import os
    import warnings

    given = os.environ.get("TZ", "").removeprefix(":")
    if given in zone_names():
        return given
    import tzlocal

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about settings of the system that contradict each other
            found: str | None = tzlocal.get_localzone_name()
    except Exception:  # it reads files of the system, and raises whatever they lead to
        return None
    return found if found in zone_names() else None


def suggest_zones(name: str) -> list[str]:
    """Up to three zone names that `name` may be a misspelling of, best first (1 ms, so for messages only)."""
    from difflib import get_close_matches

    by_lowered = {known.lower(): known for known in sorted(zone_names())}
    near = get_close_matches(name[:_SHOWN_CHARACTERS].lower().replace(" ", "_"), by_lowered, n=3, cutoff=0.75)
    return [by_lowered[lowered] for lowered in near]
