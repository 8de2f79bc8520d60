"""The time-context plugin by itself: what it says at a step, when it says it anew, and which settings it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import Any

import pytest
from attrs import fields
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import FoldType, Prompt, Rendered, Section, Step
from dsh_hookspecs.timefmt import InstantOutOfRange
from dsh_time_context import TimeContext

NOW = datetime(2026, 7, 14, 8, 30, tzinfo=UTC)
FIRST = "unavailable (no earlier message in this session)"


class NoSession:
    """A session the plugin must not ask anything."""

    id = "s"

    def fold(self, kind: type[FoldType], /) -> FoldType:
        raise KeyError(kind)


def step(number: int = 1, now: datetime = NOW, previous: datetime | None = None, turn: int = 1) -> Step:
    return Step(session=NoSession(), turn=turn, number=number, now=now, previous_message=previous)


def text(plugin: TimeContext, at: Step, rendered: Rendered | None = None) -> str:
    """The section's text when the last request had it as `rendered`."""
    section = plugin.system_prompt_section(Prompt(at, previous={"context:time": rendered}.get))
    assert isinstance(section, Section)
    assert (section.name, section.order) == ("context:time", 10)
    return section.text


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_nothing_without_an_open_turn() -> None:
    """No agent, or an idle one: the section is empty."""
    assert TimeContext().system_prompt_section(Prompt(None)) is None


def test_the_first_turn_of_a_session_in_utc() -> None:
    """UTC is the default zone; without an earlier message the second line says so."""
    assert text(TimeContext(), step()) == (
        "Current time: 2026-07-14T08:30:00+00:00[UTC]\n"
        "Time since previous message: unavailable (no earlier message in this session)"
    )


def test_a_zone_with_an_offset_and_a_gap() -> None:
    """The two lines as the RFC writes them."""
    plugin = TimeContext(time_zone="Asia/Shanghai")
    assert text(plugin, step(previous=NOW - timedelta(hours=3, minutes=2, seconds=5))) == (
        "Current time: 2026-07-14T16:30:00+08:00[Asia/Shanghai]\nTime since previous message: 3h2m5s"
    )


@pytest.mark.parametrize(
    ("local", "shown"),
    [
        ("2026-11-01T05:30:00+00:00", "2026-11-01T01:30:00-04:00[America/New_York]"),
        ("2026-11-01T06:30:00+00:00", "2026-11-01T01:30:00-05:00[America/New_York]"),
    ],
)
def test_the_repeated_hour_shows_its_offset(local: str, shown: str) -> None:
    """The same wall time before and after the clocks go back is told apart by its offset."""
    assert f"Current time: {shown}\n" in text(
        TimeContext(time_zone="America/New_York"), step(now=datetime.fromisoformat(local))
    )


@pytest.mark.parametrize(
    ("gap", "shown"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=999), "0s"),
        (timedelta(seconds=59, milliseconds=999), "59s"),
        (timedelta(minutes=1), "1m"),
        (timedelta(hours=1, seconds=5), "1h5s"),
        (timedelta(days=2), "2d"),
        (timedelta(days=1, hours=1, minutes=1, seconds=1), "1d1h1m1s"),
        (timedelta(milliseconds=-1), "0s"),
        (timedelta(days=-2), "0s"),
    ],
)
def test_the_gap_in_whole_seconds(gap: timedelta, shown: str) -> None:
    """Each unit, none that is zero, floored; a clock that moved back gives 0s, never less."""
    assert text(TimeContext(), step(previous=NOW - gap)).endswith(f"\nTime since previous message: {shown}")


def test_the_gap_across_a_clock_change_is_real_time() -> None:
    """From noon to noon over the spring change in New York are 23 hours."""
    since = datetime.fromisoformat("2026-03-07T12:00:00-05:00")
    at = step(now=datetime.fromisoformat("2026-03-08T12:00:00-04:00"), previous=since)
    assert text(TimeContext(time_zone="America/New_York"), at).endswith(": 23h")


def test_each_turn_begins_with_a_new_text() -> None:
    """Step 1 renders anew however young the text of the last request is."""
    young = Rendered("old", turn=1, changed_at=NOW - seconds(1))
    assert text(TimeContext(), step(1, turn=2), young) != "old"


@pytest.mark.parametrize(
    ("interval", "age_ms", "kept"),
    [
        (60_000, 0, True),
        (60_000, 59_999, True),
        (60_000, 60_000, False),
        (60_000, -1, False),
        (0, 0, False),
        (1, 0, True),
        (2**53 - 1, 10**12, True),
    ],
)
def test_a_later_step_keeps_the_text_until_it_is_too_old(interval: int, age_ms: int, kept: bool) -> None:
    """Below the interval the text is kept; at it, with interval 0, and after the clock moved back it is new."""
    before = Rendered("old", turn=1, changed_at=NOW - timedelta(milliseconds=age_ms))
    assert (text(TimeContext(refresh_interval_ms=interval), step(2), before) == "old") is kept


def test_a_later_step_without_an_earlier_text_renders() -> None:
    """Swapped in in the middle of a turn, the plugin gives the section at once."""
    assert text(TimeContext(), step(3)).startswith("Current time: 2026-07-14T08:30:00")


def test_the_gap_grows_within_a_turn() -> None:
    """The baseline is fixed for the turn, so a refresh in a long turn shows a longer gap."""
    plugin, baseline = TimeContext(), NOW - seconds(10)
    first = text(plugin, step(1, previous=baseline))
    second = text(plugin, step(2, now=NOW + seconds(60), previous=baseline), Rendered(first, 1, NOW))
    assert (first.endswith(": 10s"), second.endswith(": 1m10s")) == (True, True)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-5_000, 200_000)), max_size=30), st.integers(0, 120_000))
def test_agents_are_independent_of_each_other(walk: list[tuple[int, int]], interval: int) -> None:
    """Two agents served by one instance read exactly what each would read alone."""

    def read(plugins: list[TimeContext], only: int | None = None) -> list[list[str]]:
        now, steps = NOW, [0, 0]
        last: list[Rendered | None] = [None, None]
        read: list[list[str]] = [[], []]
        for agent, milliseconds in walk:
            now += timedelta(milliseconds=milliseconds)
            if only not in (None, agent):
                continue
            steps[agent] += 1
            got = text(plugins[agent], step(steps[agent], now), last[agent])
            before = last[agent]
            if before is None or before.text != got:
                last[agent] = Rendered(got, 1, now)
            read[agent].append(got)
        return read

    shared = TimeContext(refresh_interval_ms=interval)
    together = read([shared, shared])
    alone = [read([TimeContext(refresh_interval_ms=interval)] * 2, only=agent)[agent] for agent in (0, 1)]
    assert together == alone


@pytest.mark.parametrize("interval", [True, False, 1.0, -1, 2**53, "60000", None])
def test_refused_intervals(interval: Any) -> None:
    """Only whole milliseconds from 0 to 2**53 - 1: no bool, no float, no text."""
    with pytest.raises(ValueError, match="whole milliseconds from 0 to 9007199254740991"):
        TimeContext(refresh_interval_ms=interval)


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Asia/Shangai", "did you mean Asia/Shanghai"),
        ("Factory", "not an IANA time zone name"),
        ("localtime", "not an IANA time zone name"),
        ("posix/UTC", "not an IANA time zone name"),
        ("../etc/passwd", "not an IANA time zone name"),
        ("", "not an IANA time zone name"),
        (8, "not int"),
        (None, "not NoneType"),
    ],
)
def test_refused_zones(zone: Any, said: str) -> None:
    """A zone that no package name matches is refused when the plugin is made, with what was meant."""
    with pytest.raises(ValueError, match=said):
        TimeContext(time_zone=zone)


def test_a_year_past_the_calendar_is_an_error_the_host_contains() -> None:
    """In the calendar's last hours a zone ahead of UTC has no local date: a typed error, so no section."""
    with pytest.raises(InstantOutOfRange):
        text(TimeContext(time_zone="Asia/Tokyo"), step(now=datetime(9999, 12, 31, 23, tzinfo=UTC)))


def test_the_plugin_holds_no_state() -> None:
    """It cannot be changed, and it has nothing but its two settings."""
    plugin = TimeContext()
    with pytest.raises(FrozenInstanceError):
        plugin.time_zone = "Asia/Tokyo"  # type: ignore[misc]  # what is tested
    assert [field.name for field in fields(TimeContext)] == ["refresh_interval_ms", "time_zone"]
    assert not hasattr(plugin, "__dict__")


def test_it_is_found_by_its_entry_point() -> None:
    """The distribution offers the class under its own name."""
    (point,) = entry_points(group="dsh_time.plugins", name="dsh-time-context")
    assert point.load() is TimeContext
    assert point.dist is not None
    assert point.dist.name == "dsh-time-context"
