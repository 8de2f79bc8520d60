"""When expressions fire: the truth table, and a walk over every minute around the clock changes of odd zones."""

import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_hookspecs.timefmt import InstantOutOfRange, load_zone, zone_names
from dsh_time_reminder import fires
from dsh_time_reminder.cron import Cron, parse_cron
from dsh_time_reminder.fires import newest_fire, next_fires

CASES = json.loads((Path(__file__).parents[3] / "tests/cases/cron.json").read_text("utf-8"))["cases"]
EPOCH, SECOND, MINUTE, DAY = (
    datetime(1970, 1, 1, tzinfo=UTC),
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(days=1),
)
ODD_ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Havana",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
]


@cache
def offset_changes(zone: str, first: int, last: int) -> list[tuple[datetime, timedelta, timedelta]]:
    """Instant, offset before and offset after each change in the years `first` to `last`, by looking every 6 days."""
    info, changes = load_zone(zone), []
    start = (datetime(first, 1, 1, tzinfo=UTC) - EPOCH) // SECOND

    def offset(second: int) -> timedelta:
        found = (EPOCH + SECOND * second).astimezone(info).utcoffset()
        assert found is not None
        return found

    looks = [start + 6 * 86400 * n for n in range((last - first + 1) * 61)]
    for low, high in pairwise(looks):
        if (before := offset(low)) != offset(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == before else (low, middle)
            changes.append((EPOCH + SECOND * high, before, offset(high)))
    return changes


def zone_file(zone: str) -> bytes:
    return files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()


def listed_changes(data: bytes) -> list[int]:
    """Epoch seconds of the changes of offset that a zone's file lists one by one (RFC 8536, second block)."""

    def header(start: int) -> tuple[int, ...]:
        return struct.unpack(">20x6l", data[start : start + 44])

    utc, standard, leaps, times, types, letters = header(0)
    start = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    _, _, _, times, types, _ = header(start)
    instants = struct.unpack(f">{times}q", data[start + 44 : start + 44 + 8 * times])
    kinds = data[start + 44 + 8 * times :][:times]
    rows = data[start + 44 + 9 * times :]
    offsets = [struct.unpack(">l", rows[6 * n : 6 * n + 4])[0] for n in range(types)]
    shown = [offsets[0], *(offsets[kind] for kind in kinds)]
    return [at for at, (before, after) in zip(instants, pairwise(shown), strict=True) if before != after]


def names(cron: Cron, wall: datetime) -> bool:
    weekday = (wall.weekday() + 1) % 7
    in_days, in_weekdays = wall.day in cron.days, weekday in cron.weekdays
    return (
        wall.minute in cron.minutes
        and wall.hour in cron.hours
        and wall.month in cron.months
        and (in_days or in_weekdays if cron.either_day else in_days and in_weekdays)
    )


def walk(cron: Cron, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every fire from `start` to before `end`, by looking at each minute the clock shows, as Debian's loop does."""
    changes = [change for change in offset_changes(zone, 1968, 2037) if start < change[0] < end]
    offset = start.astimezone(load_zone(zone)).utcoffset()
    assert offset is not None
    reached = (start + offset).replace(tzinfo=None)  # the minutes a fixed-time job has seen
    last = None
    for at, _, after in [(start, offset, offset), *changes]:
        jump = after - offset
        shown = (at + after).replace(tzinfo=None)
        missing = reached.replace(second=0, microsecond=0)
        missing += MINUTE * (missing < reached)
        if timedelta(0) < jump <= timedelta(hours=3) and cron.fixed_time:
            if any(names(cron, missing + MINUTE * n) for n in range(-((missing - shown) // MINUTE))):
                yield (last := at)
            reached = shown
        elif not timedelta(hours=-3) < jump < timedelta(0) or not cron.fixed_time:
            reached = shown
        offset = after
        until = min([change[0] for change in changes if change[0] > at], default=end)
        wall = shown.replace(second=0, microsecond=0)
        wall += MINUTE * (wall < shown)
        while (instant := (wall - offset).replace(tzinfo=UTC)) < until:
            if (not cron.fixed_time or wall >= reached) and instant != last and names(cron, wall):
                yield instant
            wall += MINUTE
        reached = max(reached, (until + offset).replace(tzinfo=None))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES if not c.get("refused")])
def test_table(case: dict[str, Any]) -> None:
    """The next fires are those of the table, and each is the newest one from its instant until the following."""
    cron, zone = parse_cron(case["expr"]), load_zone(case["zone"])
    expected = [datetime.fromisoformat(text) for text in case["next"]]
    assert next_fires(cron, zone, datetime.fromisoformat(case["after"]), len(expected)) == expected
    for fire, following in pairwise(expected):
        assert newest_fire(cron, zone, fire) == fire
        assert newest_fire(cron, zone, following - SECOND) == fire


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant near one of its clock changes since 1968."""
    zone = draw(st.sampled_from(ODD_ZONES))
    changes = [at for at, _, _ in offset_changes(zone, 1968, 2037)]
    return zone, draw(st.sampled_from(changes)) + draw(st.integers(-30 * 60, 30 * 60)) * MINUTE


EXPRESSIONS = st.sampled_from(
    [
        "* * * * *",
        "0-59 0-23 * * *",
        "0 0 * * *",
        "*/7 * * * *",
        "*/30 2 * * *",
        "30 * * * *",
        "15,45 0-4 * * *",
        "0 */3 * * *",
        "30 23,0,1,2,3 * * *",
        "1 0 * * *",
        "59 23 * * *",
        "0 2 1-15 * 0",
        "30 1 */2 * 0,6",
        "0 0 30,31 * *",
    ]
)
PLAIN_FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "0", "30", "1,59", "0-40/20"]),
    st.sampled_from(["*", "*/2", "0", "2", "23", "0-3", "1,2,3"]),
    st.sampled_from(["*", "*/3", "1-31", "1-10"]),
    st.sampled_from(["*", "3-4,9-11"]),
    st.sampled_from(["*", "*/2", "0", "0-7", "fri"]),
).map(" ".join)


@settings(max_examples=150)
@given(moments(), EXPRESSIONS | PLAIN_FIELDS, st.integers(0, 59_999_999))
def test_agrees_with_a_walk_over_every_minute(moment: tuple[str, datetime], text: str, microseconds: int) -> None:
    """Around clock changes, the next fires and the newest one are those that a walk over all minutes finds."""
    name, middle = moment
    cron, zone = parse_cron(text), load_zone(name)
    start, end = middle - 2 * DAY, middle + 2 * DAY
    found = list(walk(cron, name, start - DAY, end))
    after = middle + timedelta(microseconds=microseconds)
    expected = [fire for fire in found if fire > after][:300]
    assert next_fires(cron, zone, after, len(expected)) == expected
    passed = [fire for fire in found if fire <= after]
    for now in (after, middle, middle - DAY):
        passed = [fire for fire in found if fire <= now]
        newest = newest_fire(cron, zone, now)
        assert newest == passed[-1] if passed else newest is None or newest < start - DAY + 3 * MINUTE


def test_every_zone_has_one_daily_reading() -> None:
    """From 2020 to 2029, `0 0 * * *` fires in every zone once on each date, at the date's first instant.

    Away from clock changes that is 24 hours after the last fire, so each zone is looked at around its changes, and
    once a year. A clock that goes back 3 hours or more is not smoothed: midnight then comes twice, so it does here.
    """
    cron = parse_cron("0 0 * * *")
    zones = {zone_file(name): name for name in sorted(zone_names())}.values()
    assert len(zones) > 300
    for name in zones:
        zone = load_zone(name)
        moments = [at for at, before, after in offset_changes(name, 2020, 2029) if before - after < timedelta(hours=3)]
        for moment in [*moments, *(datetime(year, year % 12 + 1, 15, tzinfo=UTC) for year in range(2020, 2030))]:
            around = next_fires(cron, zone, moment - 2 * DAY, 5)
            dates = [fire.astimezone(zone).date() for fire in around]
            assert dates == [dates[0] + n * DAY for n in range(5)], (name, moment)
            for fire, date in zip(around, dates, strict=True):
                assert (fire - SECOND).astimezone(zone).date() < date, (name, fire)


def test_changes_of_offset_keep_a_distance() -> None:
    """No two changes of a zone are nearer than the search steps, so that no pair cancels between two looks."""
    for name in zone_names():
        instants = listed_changes(zone_file(name))
        assert all(b - a > fires._LOOK_EVERY // SECOND for a, b in pairwise(instants)), name


def test_rare_dates_are_found() -> None:
    """29 February on a Sunday comes every 28 years, or after 40 over a century that is no leap year."""
    cron, zone = parse_cron("0 0 29 2 */7"), load_zone("Europe/Dublin")
    found = next_fires(cron, zone, datetime(2069, 1, 1, tzinfo=UTC), 3)
    assert [fire.astimezone(zone).year for fire in found] == [2088, 2128, 2156]
    assert newest_fire(cron, zone, found[1] - SECOND) == found[0]


def test_calendar_ends() -> None:
    """Before the first and after the last fire of the calendar there is none; outside it is the typed error."""
    cron, zone = parse_cron("0 0 29 2 *"), load_zone("Asia/Tokyo")
    assert newest_fire(cron, zone, datetime(3, 1, 1, tzinfo=UTC)) is None
    assert next_fires(cron, zone, datetime(9996, 2, 27, tzinfo=UTC), 5) == [datetime(9996, 2, 28, 15, tzinfo=UTC)]
    midnight, last_day = parse_cron("0 0 * * *"), datetime(9999, 12, 31, 10, tzinfo=UTC)
    assert newest_fire(midnight, zone, last_day) == datetime(9999, 12, 30, 15, tzinfo=UTC)
    assert next_fires(midnight, zone, last_day, 2) == []
    last_hour = next_fires(parse_cron("0 * * * *"), load_zone("America/New_York"), last_day.replace(hour=22), 5)
    assert last_hour == [last_day.replace(hour=23)]  # the hours after it are of the year 10000 in UTC
    assert newest_fire(midnight, load_zone("Asia/Tokyo"), datetime(1, 1, 1, tzinfo=UTC)) is None
    for outside in (datetime(9999, 12, 31, 20, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)):
        with pytest.raises(InstantOutOfRange):
            newest_fire(midnight, load_zone("Asia/Tokyo" if outside.year > 1 else "America/New_York"), outside)


def test_a_repeated_question_is_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the next fire nothing is computed again; a clock that moved back is answered anew, and rightly."""
    cron, zone = parse_cron("0 12 * * *"), load_zone("America/New_York")
    noon = datetime(2026, 3, 7, 17, tzinfo=UTC)
    assert newest_fire(cron, zone, noon) == noon
    with monkeypatch.context() as patch:
        patch.setattr(fires, "_calendar", lambda *_: pytest.fail("computed again"))
        assert newest_fire(cron, zone, noon + timedelta(hours=23) - SECOND) == noon  # the day has 23 hours
    assert newest_fire(cron, zone, noon + timedelta(hours=23)) == noon + timedelta(hours=23)
    assert newest_fire(cron, zone, noon - SECOND) == noon - DAY


def test_the_shortcut_stays_small() -> None:
    """However many expressions and zones are asked for, a bounded number of answers is kept."""
    cron = parse_cron("0 0 * * *")
    for name in sorted(zone_names()):
        newest_fire(cron, load_zone(name), EPOCH)
    assert len(fires._spans) <= 256
